"""Training: resumed equals never stopped, one batch can be learnt by heart, batches are a function of their number."""

import dataclasses
import io

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from docvision import checkpoint
from docvision.batches import DataError, LineBatch, Stream, line_batch, page_batch, table_batch
from docvision.config import OptimConfig, RecipeError, RunConfig, TaskConfig, load_recipe, to_plain
from docvision.maps import maps_from_page
from docvision.model import DocVisionModel
from docvision.objectives import DocumentTrainer, coordinate_loss, noisy
from docvision.page import Block, Box, Cell, Line, Page, Table, page_to_json
from docvision.tokens import Vocabulary
from docvision.train import choose_task, learning_rate, train_document

parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("accelerate")
arrow = pytest.importorskip("pyarrow")


def png(image: Image.Image) -> dict[str, object]:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def line_row(text: str) -> dict[str, object]:
    font = ImageFont.load_default(22)
    image = Image.new("L", (int(font.getlength(text)) + 12, 32), 255)
    ImageDraw.Draw(image).text((6, 2), text, font=font, fill=0)
    return {"image": png(image), "text": text, "width": image.width}


@pytest.fixture(scope="module")
def line_shards(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("lines")
    for shard in range(2):
        rows = [line_row(f"{shard}{index:02d} word"[: 3 + index % 6]) for index in range(24)]
        parquet.write_table(arrow.Table.from_pylist(rows), folder / f"{shard}.parquet")
    return str(folder)


def recipe(out, data: str, **optim: object):
    return load_recipe("tiny", [f"tasks.0.data={data}", f"run.out={out}", "run.save_every=4", "run.log_every=1"] + [
        f"optim.{key}={value}" for key, value in optim.items()
    ])  # fmt: skip


def curve(out) -> list[str]:
    """Losses by step; the speed column is a clock and differs."""
    lines = (out / "curve.csv").read_text().splitlines()[1:]
    return [",".join(line.split(",")[i] for i in (0, 2, 3)) for line in lines if "batches_per_s" not in line]


def test_a_resumed_run_gives_the_losses_of_one_never_stopped(line_shards: str, tmp_path) -> None:
    train_document(recipe(tmp_path / "whole", line_shards, steps=9))
    # The rate's schedule must be the long run's, so the first part is stopped by a missing shard, not by its end.
    stop = recipe(tmp_path / "parts", line_shards, steps=9)
    original = Stream.batch

    def failing(self: Stream, number: int):
        if number == 6:
            raise KeyboardInterrupt
        return original(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "batch", failing)
        with pytest.raises(KeyboardInterrupt):
            train_document(stop)
    assert [folder.name for folder in checkpoint.checkpoints(tmp_path / "parts")] == ["step-0000004"]
    train_document(stop)
    resumed = curve(tmp_path / "parts")
    whole = curve(tmp_path / "whole")
    assert resumed[-15:] == whole[-15:]  # steps 5..9, three figures each
    last = [checkpoint.checkpoints(tmp_path / name)[-1] / "trainer/model.safetensors" for name in ("whole", "parts")]
    assert last[0].read_bytes() == last[1].read_bytes()


def test_old_checkpoints_go_and_half_written_ones_are_not_seen(line_shards: str, tmp_path) -> None:
    train_document(recipe(tmp_path, line_shards, steps=13))
    (tmp_path / ".step-0000099.partial-1").mkdir()
    (tmp_path / "step-0000098").mkdir()
    assert [folder.name for folder in checkpoint.checkpoints(tmp_path)] == ["step-0000012", "step-0000013"]


def test_every_0_means_at_the_end_and_less_is_told(line_shards: str, tmp_path) -> None:
    plan = recipe(tmp_path, line_shards, steps=3)
    plan = dataclasses.replace(plan, run=dataclasses.replace(plan.run, log_every=0, save_every=0, validate_every=0))
    train_document(plan)
    assert {line.split(",")[0] for line in curve(tmp_path)} == {"3"}
    assert [folder.name for folder in checkpoint.checkpoints(tmp_path)] == ["step-0000003"]
    with pytest.raises(RecipeError, match=r"run\.log_every=-1: at least 0(.|\n)*run\.keep=0: at least 1"):
        load_recipe("tiny", ["run.log_every=-1", "run.keep=0"])


def test_accumulated_batches_give_the_gradient_of_their_mean(line_shards: str) -> None:
    torch.manual_seed(0)
    trainer = DocumentTrainer(DocVisionModel(load_recipe("tiny").model))
    stream = Stream(load_recipe("tiny", [f"tasks.0.data={line_shards}"]).tasks[0], trainer.model.vocabulary, 0)
    loss = dataclasses.replace(load_recipe("tiny").loss, input_noise=0.0, ctc=0.0)
    weight = trainer.model.decoder.layers[0].ffn_in.weight
    grads = []
    for number in (0, 1):
        sum(trainer(stream.batch(number), loss, torch.Generator()).values()).backward()
        grads.append(weight.grad.clone())
        weight.grad = None
    for number in (0, 1):
        (sum(trainer(stream.batch(number), loss, torch.Generator()).values()) / 2).backward()
    torch.testing.assert_close(weight.grad, (grads[0] + grads[1]) / 2, atol=1e-6, rtol=1e-4)


def test_one_batch_can_be_learnt_by_heart() -> None:
    """Fails when a target is shifted, a mask hides what is needed, or a gradient is cut: the loss then stays up."""
    torch.manual_seed(0)
    plan = load_recipe("tiny")
    trainer = DocumentTrainer(DocVisionModel(plan.model))
    batch = line_batch([line_row(text) for text in ("ox", "Añ 1", "x")], trainer.model.vocabulary)
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=5e-3)
    noise = torch.Generator().manual_seed(0)
    for _ in range(100):
        losses = trainer(batch, plan.loss, noise)
        sum(losses.values()).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert losses["ctc"] < 0.1 and losses["decoder"] < 0.3  # a tenth of the input is noise
    core = trainer.model.eval()
    images = [Image.fromarray(255 - (pixels[0, :, :w] * 255).round().byte().numpy())
              for pixels, (_, w) in zip(batch.pixels_B1HW, batch.size_B2.tolist(), strict=True)]  # fmt: skip
    assert [reading.text for reading in core.read_lines(images)] == batch.texts
    from docvision.decode import generate_text

    assert [r.text for r in generate_text(core, core.encoder(batch.pixels_B1HW, batch.size_B2))] == batch.texts


def page_row() -> dict[str, object]:
    page = Page(1, 200.0, 150.0, [
        Block("heading", Box(16, 16, 120, 40), "Big", [Line("Big", Box(16, 16, 120, 40))]),
        Block("text", Box(16, 64, 180, 96), "some text", [Line("some text", Box(16, 64, 180, 96))]),
    ], pixels=(200, 150))  # fmt: skip
    image = Image.new("L", (200, 150), 255)
    draw = ImageDraw.Draw(image)
    for block in page.blocks:
        draw.rectangle(tuple(block.box), fill=60 if block.kind == "text" else 0)
    return {"image": png(image), "document": page_to_json(page)}


def test_structure_maps_of_one_page_can_be_learnt_by_heart() -> None:
    torch.manual_seed(0)
    plan = load_recipe("tiny")
    trainer = DocumentTrainer(DocVisionModel(plan.model))
    batch = page_batch([page_row()], (150, 200), np.random.default_rng(0))
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=5e-3)
    for _ in range(40):
        loss = trainer(batch, plan.loss, torch.Generator())["structure"]
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    maps = trainer.model.eval().structure(Image.open(io.BytesIO(page_row()["image"]["bytes"])))
    right = maps.block.argmax(0) == batch.targets["block"][0].numpy()
    assert right.mean() > 0.97
    assert ((maps.line > 0.5) == (batch.targets["line"][0].numpy() > 0)).mean() > 0.97


def test_page_windows_show_the_targets_of_their_place() -> None:
    row = page_row()
    whole = maps_from_page(Page(1, 200, 150, [], pixels=(200, 150)), 200, 150)
    batch = page_batch([row, row], (64, 80), np.random.default_rng(3))
    assert batch.pixels_B1HW.shape == (2, 1, 64, 80) and batch.targets["block"].shape == (2, 8, 10)
    assert set(batch.targets) == set(whole)
    ink_cells = batch.pixels_B1HW.view(2, 8, 8, 10, 8).mean((2, 4))
    inside = batch.targets["block"] > 0
    assert ink_cells[inside].min() > 0.2 > ink_cells[~inside].max()


def test_batches_are_a_function_of_their_number_and_cover_an_epoch(line_shards: str) -> None:
    task = TaskConfig("lines", line_shards, batch=8, pool=2)
    first, second = (Stream(task, Vocabulary(), seed=3) for _ in range(2))
    epoch = [first.batch(number) for number in range(first.per_epoch)]
    again = second.batch(4)
    assert isinstance(again, LineBatch) and again.texts == epoch[4].texts
    seen = sorted(text for batch in epoch for text in batch.texts)
    rows = [row["text"] for file in first.shards.files for row in parquet.read_table(file).to_pylist()]
    assert seen == sorted(rows)
    assert [first.batch(number + first.per_epoch).texts for number in range(6)] != [batch.texts for batch in epoch]
    assert epoch[0].texts != Stream(task, Vocabulary(), seed=4).batch(0).texts


def test_tasks_are_interleaved_by_their_shares() -> None:
    counts = {"a": 0, "b": 0, "c": 0}
    shares = {"a": 3.0, "b": 1.0, "c": 0.0}
    order = []
    for _ in range(40):
        order.append(choose_task(shares, counts))
        counts[order[-1]] += 1
    assert counts == {"a": 30, "b": 10, "c": 0} and order[:8].count("b") == 2


def test_rate_warms_up_holds_and_falls() -> None:
    optim = OptimConfig(steps=100, lr=1.0, warmup=10, decay=0.5, final=0.1)
    rates = [learning_rate(step, optim) for step in range(100)]
    assert rates[0] == 0.1 and rates[10:50] == [1.0] * 40
    assert rates[50:] == sorted(rates[50:], reverse=True) and rates[99] == pytest.approx(0.1, abs=0.01)


def test_noise_touches_characters_only() -> None:
    tokens = torch.tensor([[600, 5, 6, 7, 0]]).repeat(500, 1)
    changed = noisy(tokens, 0.5, Vocabulary(), torch.Generator().manual_seed(0))
    assert torch.equal(changed[:, [0, 4]], tokens[:, [0, 4]])
    assert 0.4 < (changed[:, 1:4] != tokens[:, 1:4]).float().mean() < 0.6
    assert torch.equal(noisy(tokens, 0.0, Vocabulary(), torch.Generator()), tokens)


def test_a_frozen_encoder_stays_bit_for_bit_while_the_decoder_learns(line_shards: str, tmp_path) -> None:
    train_document(recipe(tmp_path / "before", line_shards, steps=1))
    start = checkpoint.checkpoints(tmp_path / "before")[-1] / "model"
    later = recipe(tmp_path / "after", line_shards, steps=2, encoder="false")
    later = dataclasses.replace(later, run=dataclasses.replace(later.run, init=str(start)))
    train_document(later)
    old = checkpoint.read_tensors(start / "model.safetensors")
    new = checkpoint.read_tensors(checkpoint.checkpoints(tmp_path / "after")[-1] / "model/model.safetensors")
    changed = {name.partition(".")[0] for name in old if not torch.equal(old[name], new[name])}
    assert changed == {"decoder"}
    for override in ("tasks.0.kind=pages", "loss.decoder=0"):
        with pytest.raises(RecipeError, match="leaves the decoder to train"):
            load_recipe("tiny", ["optim.encoder=false", override])


def test_missing_data_and_foreign_checkpoints_are_told(line_shards: str, tmp_path) -> None:
    with pytest.raises(DataError, match="docvision make"):
        train_document(recipe(tmp_path / "a", str(tmp_path), steps=1))
    train_document(recipe(tmp_path / "b", line_shards, steps=1))
    state = checkpoint.checkpoints(tmp_path / "b")[-1] / "state.json"
    state.write_text(state.read_text().replace("lines", "pages"))
    with pytest.raises(checkpoint.CheckpointError, match="choose another run.out"):
        train_document(recipe(tmp_path / "b", line_shards, steps=2))


def test_recipes_are_strict_and_tell_everything_at_once(tmp_path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("tasks: [{kind: lines, data: x, bacth: 3}]\noptim: {lr: fast}\nrun: {seed: true}\nlos: {}\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    message = str(caught.value)
    for part in ("did you mean tasks.0.batch?", "optim.lr='fast'", "run.seed=True", "did you mean loss?"):
        assert part in message
    with pytest.raises(RecipeError, match="one of decoder, docvision-tiny, .*tiny"):
        load_recipe("tinny")
    with pytest.raises(RecipeError, match="not an index"):
        load_recipe("tiny", ["tasks.4.batch=1"])


def test_overrides_reach_every_kind_of_key(tmp_path) -> None:
    got = load_recipe("tiny", ["optim.lr=3e-4", "tasks.0.batch=5", "run.out=x", "tasks.0.crop=[8, 16]"])
    assert (got.optim.lr, got.tasks[0].batch, got.run.out, got.tasks[0].crop) == (3e-4, 5, "x", (8, 16))
    assert RunConfig(**to_plain(got)["run"]) == got.run


def table_row() -> dict[str, object]:
    cells = []
    for row in range(3):
        for column in range(3):
            box = Box(20 + 60 * column, 10 + 24 * row, 80 + 60 * column, 34 + 24 * row)
            word = Box(box.x0 + 4, box.y0 + 6, box.x0 + 20 + 8 * column, box.y0 + 18)
            cells.append(Cell(row, column, "a1", header=row == 0, box=box, text_box=word))
    table = Table(3, 3, cells)
    page = Page(1, 220, 100, [Block("table", Box(20, 10, 200, 82), "", table=table)], pixels=(220, 100))
    image = Image.new("L", (220, 100), 255)
    for cell in cells:
        ImageDraw.Draw(image).rectangle(tuple(cell.text_box), fill=0)
    return {"image": png(image), "document": page_to_json(page)}


def test_the_stream_of_one_table_can_be_learnt_by_heart() -> None:
    """With the structure prior, so that its bias lies on the way of the gradient."""
    torch.manual_seed(0)
    plan = load_recipe("tiny", ["model.encoder.prior=true", "model.bins=128"])
    trainer = DocumentTrainer(DocVisionModel(plan.model))
    vocabulary = trainer.model.vocabulary
    batch = table_batch([table_row()], vocabulary, "structure")
    assert vocabulary.decode(batch.tokens_BT[0].tolist()).startswith(
        "<prompt:structure><table><thead><tr><td><x_12><y_8><x_20><y_14></td><td><x_42>"
    )
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=5e-3)
    loss = dataclasses.replace(plan.loss, input_noise=0.0)
    for _ in range(90):
        losses = trainer(batch, loss, torch.Generator())
        sum(losses.values()).backward()
        optimiser.step()
        optimiser.zero_grad()
    # The smoothed targets alone have an entropy of 1.27 nats, half of which is counted.
    assert losses["table_tags"] < 0.05 and losses["table_boxes"] < 0.8
    from docvision.decode import generate

    core = trainer.model.eval()
    with torch.inference_mode():
        memory = core.encoder(batch.pixels_B1HW, batch.size_B2, maps=True)
    ids, _ = generate(core, memory, batch.tokens_BT[:, :2], limit=batch.tokens_BT.shape[1])
    assert torch.equal(ids, batch.tokens_BT[:, 2:])


def test_a_table_task_can_leave_the_maps_to_the_pages() -> None:
    torch.manual_seed(0)
    plan = load_recipe("tiny", ["model.bins=128"])
    trainer = DocumentTrainer(DocVisionModel(plan.model))
    with_maps, without = (table_batch([table_row()], trainer.model.vocabulary, "structure", m) for m in (True, False))
    assert set(with_maps.targets) > {"rows", "columns"} and not without.targets
    losses = trainer(without, plan.loss, torch.Generator())
    assert "table_tags" in losses and set(trainer(with_maps, plan.loss, torch.Generator())) - set(losses) == {
        "table_maps"
    }
    sum(losses.values()).backward()
    assert all(parameter.grad is None for parameter in trainer.model.encoder.structure.parameters())


def test_prior_biases_keys_and_leaves_padding_out() -> None:
    torch.manual_seed(0)
    plan = load_recipe("tiny", ["model.encoder.prior=true"])
    encoder = DocVisionModel(plan.model).eval().encoder
    pixels = torch.rand(1, 1, 64, 96)
    with torch.inference_mode():
        alone = encoder(pixels, maps=True).mask_BM
        wide = torch.nn.functional.pad(pixels, (0, 40, 0, 32))
        padded = encoder(wide, torch.tensor([[64, 96]]), maps=True).mask_BM.view(6, 17)
    torch.testing.assert_close(padded[:4, :12].flatten(), alone[0], atol=1e-4, rtol=1e-4)
    assert padded[4:].eq(-torch.inf).all() and padded[:, 12:].eq(-torch.inf).all()
    assert alone.abs().max() <= 4 and alone.std() > 0


def test_coordinates_start_near_their_neighbours() -> None:
    core = DocVisionModel(load_recipe("tiny", ["model.bins=64"]).model)
    for first in (core.vocabulary.first_x, core.vocabulary.first_y):
        rows = core.decoder.embedding.weight[first : first + 64].detach()
        likeness = rows @ rows.T
        assert torch.equal(likeness.argmax(1), torch.arange(64))
        assert (likeness.diagonal(1)[:56] > likeness.diagonal(8)).all()


def test_coordinate_noise_stays_near_and_on_its_axis() -> None:
    vocabulary = Vocabulary(bins=64)
    tokens = torch.tensor([[vocabulary.x(0), vocabulary.x(30), vocabulary.y(63), vocabulary.ids["<td>"]]]).repeat(
        400, 1
    )
    changed = noisy(tokens, 0.5, vocabulary, torch.Generator().manual_seed(1))
    assert (changed - tokens).abs().max() == 3 and torch.equal(changed[:, 3], tokens[:, 3])
    assert changed[:, :2].min() >= vocabulary.first_x and changed[:, 2].max() < vocabulary.first_y + 64


def test_coordinate_loss_prefers_the_near_miss() -> None:
    logits = torch.full((1, 128), -20.0)
    near, far = logits.clone(), logits.clone()
    near[0, 64 + 11], far[0, 64 + 30] = 20.0, 20.0
    target = torch.tensor([64 + 10])
    assert coordinate_loss(near, target, 0, 64) < coordinate_loss(far, target, 0, 64)
    other_axis = logits.clone()
    other_axis[0, 10] = 20.0
    assert coordinate_loss(other_axis, target, 0, 64) > coordinate_loss(near, target, 0, 64)


def test_shards_of_another_kind_or_format_are_told(line_shards: str, tmp_path) -> None:
    with pytest.raises(DataError, match=r"holds lines, task tables needs tables: docvision make tables -o"):
        Stream(TaskConfig("tables", line_shards), Vocabulary(), 0)
    parquet.write_table(arrow.Table.from_pylist([table_row() | {"rows": 3, "columns": 3}]), tmp_path / "0.parquet")
    with pytest.raises(DataError, match=f"{tmp_path} holds tables, task lines needs lines"):
        Stream(TaskConfig("lines", str(tmp_path)), Vocabulary(), 0)
    (tmp_path / "0.parquet").rename(tmp_path / "0.tar")
    with pytest.raises(DataError, match=r"other format, webdataset.*--format parquet"):
        Stream(TaskConfig("lines", str(tmp_path)), Vocabulary(), 0)


def test_rates_that_cannot_train_are_told_with_the_recipe() -> None:
    with pytest.raises(RecipeError, match=r"optim\.lr=-1\.0: above 0(.|\n)*optim\.warmup=-1 (.|\n)*optim\.betas"):
        load_recipe("tiny", ["optim.lr=-1", "optim.warmup=-1", "optim.betas=[1, 0.9]"])


def test_a_run_says_where_its_model_is_and_another_model_is_told(line_shards: str, tmp_path, capsys) -> None:
    train_document(recipe(tmp_path, line_shards, steps=1))
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"the model is in {tmp_path / 'step-0000001' / 'model'}")
    DocVisionModel.from_pretrained(tmp_path / "step-0000001" / "model")
    plan = recipe(tmp_path, line_shards, steps=2)
    with pytest.raises(checkpoint.CheckpointError, match=rf"{tmp_path} holds a run of another recipe: choose another"):
        train_document(dataclasses.replace(plan, model=dataclasses.replace(plan.model, width=64)))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("scheduled_sampling=2", "a share from 0 to 1"),
        ("input_noise=-1", "a share from 0 to 1"),
        ("coordinates=.nan", "a number from 0"),
        ("ctc=-1", "a number from 0"),
    ],
)
def test_wrong_weights_and_shares_are_told_before_data_is_looked_for(given: str, told: str) -> None:
    with pytest.raises(RecipeError, match=rf"loss\.{given.split('=')[0]}=.*: {told}"):
        load_recipe("tiny", [f"loss.{given}"])
