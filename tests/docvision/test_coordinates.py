"""Coordinates scored by Fourier series: any bin can be meant, text scores stay, older weights go on, drafts exact."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from docvision import checkpoint, methods
from docvision.accept import by_class
from docvision.alignment import pointed, seat_places, watched
from docvision.checkpoint import CheckpointError
from docvision.config import RECIPES, DecoderConfig, EncoderConfig, ModelConfig, RecipeError, load_recipe
from docvision.decode import Plan, decode, text_prompt
from docvision.decoder import FourierScores, MemoryView
from docvision.encoder import Memory, sincos_2d
from docvision.model import DocVisionModel
from docvision.objectives import with_own_coordinates

PLAIN = ModelConfig(
    width=32,
    bins=24,
    characters=" abcdefghijklmnopqrstuvwxyz",
    encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 1, 1, 1)),
    decoder=DecoderConfig(layers=2, heads=2, ffn=48),
)
WAVES = replace(PLAIN, decoder=replace(PLAIN.decoder, waves=8))


def make(config: ModelConfig, seed: int = 0) -> DocVisionModel:
    torch.manual_seed(seed)
    return DocVisionModel(config).eval()


def test_every_bin_of_both_axes_can_be_meant_alone() -> None:
    """The waves' own values at a bin are amplitudes whose scores have their top there, with its neighbours next."""
    waves_WN = FourierScores(16, 640, 32).waves_WN.double()
    scores = waves_WN.T @ waves_WN
    assert torch.equal(scores.argmax(1), torch.arange(640))
    second = scores.masked_fill(torch.eye(640, dtype=torch.bool), -torch.inf).argmax(1)
    assert bool((second - torch.arange(640)).abs().eq(1).all())


def test_a_few_steps_make_it_sharp() -> None:
    torch.manual_seed(0)
    head, hidden, bins = FourierScores(64, 640, 32), torch.randn(12, 64), torch.randint(0, 640, (12,))
    optimiser = torch.optim.AdamW(head.parameters(), lr=8e-3)
    for _ in range(150):
        loss = F.cross_entropy(head(hidden)[:, :640], bins)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert (head(hidden)[:, :640].argmax(1) - bins).abs().max() <= 1


def test_other_tokens_keep_the_scores_of_their_embeddings() -> None:
    model = make(WAVES)
    hidden, v = torch.randn(2, 3, 32), model.vocabulary
    scores = model.decoder.logits(hidden)
    assert scores.shape == (2, 3, len(v))
    assert torch.allclose(scores[..., : v.first_x], hidden @ model.decoder.embedding.weight[: v.first_x].T, atol=1e-6)
    assert torch.equal(scores[..., v.first_x :], model.decoder.coordinates(hidden))
    assert not torch.equal(scores[..., v.first_x : v.first_y], scores[..., v.first_y :])


def test_weights_of_before_go_on_and_come_back_whole(tmp_path) -> None:
    make(PLAIN).save_pretrained(tmp_path / "old")
    later = make(WAVES, seed=1)
    with pytest.raises(CheckpointError, match=r"decoder\.coordinates"):
        checkpoint.load_weights(later, tmp_path / "old")
    checkpoint.load_weights(later, tmp_path / "old", fresh="decoder.coordinates.")
    later.save_pretrained(tmp_path / "new", torch.float32)
    back = DocVisionModel.from_pretrained(tmp_path / "new")
    hidden = torch.randn(1, 4, 32)
    assert torch.equal(back.decoder.logits(hidden), later.decoder.logits(hidden))
    assert torch.equal(back.decoder.embedding.weight, make(PLAIN).decoder.embedding.weight)


@pytest.mark.parametrize("name", ["ptp", "pmtp", "mtp"])
def test_drafts_stay_exact(name: str) -> None:
    model = make(WAVES)
    with torch.no_grad():
        for weight in model.decoder.layers.parameters():
            weight.mul_(3)
    methods.attach(model, name, {"ptp": {"registers": 3}, "pmtp": {"depth": 3}, "mtp": {"heads": 2}}[name])
    memory = model.encoder(torch.rand(3, 1, 32, 96), torch.tensor([[32, 96], [32, 40], [32, 64]]))
    with torch.inference_mode():
        plain = decode(model, memory, text_prompt(model, 3), Plan(20))
        drafted = decode(model, memory, text_prompt(model, 3), Plan(20, name))
    assert torch.equal(plain.ids, drafted.ids)


def test_seated_codes_say_where_a_cell_stands() -> None:
    """Cells hold their place among much else; the code of one names it within its size, whatever the amplitudes."""
    torch.manual_seed(0)
    config = replace(PLAIN, width=64, bins=160, decoder=replace(PLAIN.decoder, waves=16))
    decoder = DocVisionModel(config).decoder
    series, grid = decoder.coordinates, (12, 24)

    def memory(seed: int) -> Memory:
        noise = 0.05 * torch.randn(1, 12 * 24, 64, generator=torch.Generator().manual_seed(seed))
        mask = torch.ones(1, 12 * 24, dtype=torch.bool)
        return Memory(sincos_2d(*grid, 64, noise).flatten(0, 1) + noise, mask, grid, {})

    row, column = torch.arange(12 * 24) // 24, torch.arange(12 * 24) % 24
    learnt = series.amplitudes.weight.detach().clone()
    for new in (False, True):
        seat_places(decoder, [memory(seed) for seed in range(6)], amplitudes=new)
        assert torch.equal(series.amplitudes.weight, learnt) is not new
        scores = series(series.read(series.code(memory(9).states_BMD[0])))
        x, y = scores[:, :160].argmax(1), scores[:, 160:].argmax(1)
        assert float((x - (8 * column + 4) // 2).abs().float().median()) <= 2
        assert float((y - (16 * row + 8) // 2).abs().float().median()) <= 4
    with pytest.raises(ValueError, match="waves"):
        seat_places(DocVisionModel(PLAIN).decoder, [memory(0)])


def test_a_gate_opens_for_the_place_that_the_head_of_places_looks_at() -> None:
    """One cell alone in the memory: what is added to the states is its code, read, times the gate."""
    model = make(WAVES)
    series, states = model.decoder.coordinates, torch.randn(1, 1, 32)
    view, ids = MemoryView(states, torch.ones(1, 1, dtype=torch.bool)), torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        series.gate.bias.fill_(-200.0)
        shut = model.decoder(ids, torch.arange(3), view)
        series.gate.bias.fill_(200.0)
        wide = model.decoder(ids, torch.arange(3), view)
        added = series.read(series.code(states))
    assert torch.allclose(wide - shut, added.expand(1, 3, -1), atol=1e-5)


def test_what_is_pointed_at_in_training_is_what_decoding_adds() -> None:
    model = make(WAVES, seed=2)
    series = model.decoder.coordinates
    memory = model.encoder(torch.rand(2, 1, 32, 96), torch.tensor([[32, 96], [32, 40]]))
    ids = torch.randint(5, 20, (2, 6))
    with torch.no_grad(), watched(model.decoder) as seen:
        series.gate.bias.fill_(-200.0)
        shut = model.decoder(ids, torch.arange(6), memory)
        series.gate.bias.fill_(200.0)
        wide = model.decoder(ids, torch.arange(6), memory)
        assert torch.allclose(pointed(model.decoder, seen, memory, 6), wide - shut, atol=1e-5)


GOING_ON = sorted(path.stem for path in RECIPES.glob("*.yaml") if "init: docvision-tiny" in path.read_text("utf-8"))


@pytest.mark.parametrize("name", GOING_ON)
def test_recipes_that_go_on_from_the_packaged_model_fit_its_weights(name: str) -> None:
    folder = checkpoint.find_model("docvision-tiny")
    assert checkpoint.load_weights(DocVisionModel(load_recipe(name).model), folder) == []


def test_negative_waves_are_told() -> None:
    with pytest.raises(RecipeError, match=r"decoder\.waves=-1"):
        load_recipe("tiny", ["model.decoder.waves=-1"])


def test_a_doubtful_place_beats_one_tag() -> None:
    """Three bins of .2 stand against one tag of .3 and lose to another of .65; scores of the losing class are out."""
    for tag, wins in ((0.3, True), (0.65, False)):
        scores = torch.tensor([0.001, tag, 0.2, 0.2, 0.2]).log()
        kept = by_class(scores, first=2)
        assert int(kept.argmax()) == (2 if wins else 1)
        assert bool(torch.isinf(kept[:2] if wins else kept[2:]).all())
    only_tags = by_class(torch.tensor([-1.0, -2.0, -torch.inf, -torch.inf]), first=2)
    assert only_tags.tolist() == [-1.0, -2.0, -torch.inf, -torch.inf]


def test_scheduled_sampling_gives_what_the_model_says_behind_the_true_stream() -> None:
    """Coordinates alone change, each to one that the model draws there: of a sure model the one it is sure of."""
    model = make(WAVES, seed=3)
    v = model.vocabulary
    memory = model.encoder(torch.rand(2, 1, 32, 96), torch.tensor([[32, 96], [32, 64]]))
    row = [v.bos, v.ids["<prompt:structure>"], v.ids["<td>"], v.x(4), v.y(5), v.x(9), v.y(8), v.ids["</td>"], v.eos]
    tokens = torch.tensor([row, row])
    inputs, wanted = tokens[:, :-1], tokens[:, 1:]
    with torch.no_grad():
        model.decoder.coordinates.amplitudes.weight.mul_(1e4)
        scores = model.decoder.logits(model.decoder(inputs, torch.arange(8), memory))

    def own(share: float) -> torch.Tensor:
        return with_own_coordinates(model, memory, inputs, wanted, share, torch.Generator().manual_seed(0))

    assert torch.equal(own(0.0), inputs)
    changed = own(1.0)
    places = inputs >= v.first_x
    assert torch.equal(changed[~places], inputs[~places])
    for axis, columns in ((v.first_x, (3, 5)), (v.first_y, (4, 6))):
        for column in columns:
            said = scores[:, column - 1, axis : axis + v.bins].argmax(-1) + axis
            assert torch.equal(changed[:, column], said)
    some = own(0.3) != inputs
    assert 0 < int(some.sum()) < int((changed != inputs).sum())
