"""Training on two processes is training on one with twice the batch, whole or split (FSDP), and is resumed on either.

The file is also what the processes run: one launch by torchrun over gloo, on a free port, for all tests.

Losses are in single precision and compared as the curve has them, with six digits: measured, they are equal.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = 50
TOLERANCE = 1e-4
"""Of a loss, relative: sums in another order may move the last digits; a batch that is missing moves the second."""

pytestmark = pytest.mark.slow


def tiny(data: str, out: Path, *changes: str) -> Any:
    from docvision.config import load_recipe

    settings = [f"tasks.0.data={data}", f"run.out={out}", "run.log_every=1", f"optim.steps={STEPS}"]
    return load_recipe("tiny", [*settings, *changes])


def registers(model: str, data: str, out: Path, *changes: str) -> Any:
    from docvision.config import load_recipe

    settings = ["model.methods.ptp={registers: 2, rank: 4, dtype: float32, checkpointing: true}", "optim.steps=6"]
    settings += [f"run.init={model}", f"tasks.0.data={data}", f"run.out={out}", "run.log_every=1"]
    return load_recipe("hf-ptp", [*settings, *changes])


@contextmanager
def recorded(path: Path) -> Iterator[None]:
    """Numbers of the batches that this process reads, one a line."""
    from docvision.batches import Stream

    original = Stream.batch

    def batch(self: Stream, number: int) -> Any:
        with path.open("a") as file:
            file.write(f"{number}\n")
        return original(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "batch", batch)
        yield


def trainings(data: str, pages: str, model: str, place: str) -> None:
    """What each of the two processes does."""
    from docvision.hf_vlm.recipe import train_recipe
    from docvision.train import train_document

    out, rank = Path(place), os.environ["RANK"]
    train_document(tiny(data, out / "copied"))
    train_document(tiny(data, out / "joined", "loss.decoder=0"))
    with recorded(out / f"split-{rank}"):
        train_document(tiny(data, out / "split", "run.shard=true"))
    with recorded(out / f"grown-{rank}"):
        train_document(tiny(data, out / "grown", "optim.steps=12"))
    train_recipe(registers(model, pages, out / "registers", "optim.accumulate=1", "run.shard=true"))


def write_data(place: Path) -> tuple[str, str, str]:
    """Lines, pages with answers, and a tiny document model."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet
    import tiny_vlms
    from PIL import Image, ImageDraw

    (place / "lines").mkdir()
    for shard in range(2):
        rows = []
        for index in range(24):
            text, file = f"{shard}{index:02d} word"[: 3 + index % 6], io.BytesIO()
            image = Image.new("L", (16 * len(text), 32), 255)
            ImageDraw.Draw(image).text((4, 8), text, fill=0)
            image.save(file, "PNG")
            rows.append({"image": {"bytes": file.getvalue(), "path": None}, "text": text, "width": image.width})
        parquet.write_table(arrow.Table.from_pylist(rows), place / "lines" / f"{shard}.parquet")
    pairs = []
    for number, text in enumerate(("one page", "another page", "a third", "the last of them")):
        Image.new("RGB", (32, 32), (60 * number, 9, 9)).save(place / f"{number}.png")
        pairs.append(json.dumps({"image": f"{number}.png", "text": text, "prompt": "Read."}))
    (place / "pages.jsonl").write_text("\n".join(pairs))
    model, processor = tiny_vlms.reader()
    model.save_pretrained(place / "vlm")
    processor.save_pretrained(place / "vlm")
    return str(place / "lines"), str(place / "pages.jsonl"), str(place / "vlm")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, str, str], Path, str]:
    """Data, the runs of two processes, and what they said."""
    for name in ("accelerate", "pyarrow", "transformers"):
        pytest.importorskip(name)
    from docvision.train import train_document

    place = tmp_path_factory.mktemp("processes")
    data, out = write_data(place), place / "two"
    out.mkdir()
    with recorded(out / "grown-alone"):
        train_document(tiny(data[0], out / "grown", "optim.steps=7"))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launch, __file__, *data, str(out)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return data, out, done.stdout


def losses(run: Path, *names: str) -> dict[tuple[int, str], float]:
    with (run / "curve.csv").open(newline="") as file:
        return {
            (int(row["step"]), row["name"]): float(row["value"]) for row in csv.DictReader(file) if row["name"] in names
        }


def worst(run: Path, reference: Path, *names: str, until: int = STEPS) -> float:
    """Largest relative difference of these losses in the first steps."""
    ours, theirs = losses(run, *names), losses(reference, *names)
    keys = [(step, name) for step in range(1, until + 1) for name in names]
    return max(abs(ours[key] - theirs[key]) / abs(theirs[key]) for key in keys)


def numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def test_two_processes_give_the_losses_of_one_that_accumulates_two_batches(trained, tmp_path) -> None:
    """Both whole on each process (DDP) and split over them (FSDP), in the first 50 steps."""
    from docvision.train import train_document

    (lines, _, _), out, _ = trained
    train_document(tiny(lines, tmp_path, "optim.accumulate=2"))
    found = {name: worst(out / name, tmp_path, "ctc", "decoder") for name in ("copied", "split")}
    print("largest relative difference of a loss:", found)
    assert max(found.values()) < TOLERANCE, found
    train_document(tiny(lines, tmp_path / "half", "optim.steps=1"))
    assert worst(tmp_path / "half", tmp_path, "ctc", until=1) > 5 * TOLERANCE, "the test would not see a lost batch"


def test_two_processes_give_the_losses_of_one_with_twice_the_batch(trained, tmp_path, monkeypatch) -> None:
    """The line head's loss, a mean over lines: of the others, means over tokens, that of a joined batch differs."""
    import torch

    from docvision.batches import LineBatch, Stream
    from docvision.train import train_document

    def joined(first: LineBatch, second: LineBatch) -> LineBatch:
        def both(name: str) -> torch.Tensor:
            parts = [getattr(batch, name) for batch in (first, second)]
            width = max(part.shape[-1] for part in parts)
            return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[-1])) for part in parts])

        tensors = {name: both(name) for name in ("pixels_B1HW", "size_B2", "tokens_BT", "labels_BU")}
        length = torch.cat([first.label_length_B, second.label_length_B])
        return LineBatch(**tensors, label_length_B=length, texts=first.texts + second.texts)

    original = Stream.batch
    monkeypatch.setattr(
        Stream, "batch", lambda self, number: joined(original(self, 2 * number), original(self, 2 * number + 1))
    )
    (lines, _, _), out, _ = trained
    train_document(tiny(lines, tmp_path, "loss.decoder=0"))
    found = worst(out / "joined", tmp_path, "ctc")
    print("largest relative difference of a loss:", found)
    assert found < TOLERANCE


def test_each_batch_goes_to_one_process_also_after_a_resumption_with_another_number(trained, tmp_path) -> None:
    from docvision.checkpoint import checkpoints
    from docvision.model import DocVisionModel
    from docvision.train import train_document

    (lines, _, _), out, _ = trained
    shared = [numbers(out / f"split-{rank}") for rank in range(2)]
    assert sorted(shared[0] + shared[1]) == list(range(2 * STEPS)) and shared[0] == list(range(0, 2 * STEPS, 2))
    assert numbers(out / "grown-alone") == list(range(7))  # one process, 7 steps; then two, 5 steps
    assert sorted(numbers(out / "grown-0") + numbers(out / "grown-1")) == list(range(7, 17))

    before = checkpoints(out / "split")[-1]
    assert DocVisionModel.from_pretrained(before / "model").config.width == 32
    with recorded(tmp_path / "alone"):  # what two processes held split goes on on one, moments included
        train_document(tiny(lines, out / "split", f"optim.steps={STEPS + 3}"))
    assert numbers(tmp_path / "alone") == list(range(2 * STEPS, 2 * STEPS + 3))
    went_on = losses(out / "split", "ctc")
    assert went_on[STEPS + 3, "ctc"] < 1.2 * went_on[STEPS, "ctc"]


def test_registers_learnt_beside_a_split_model_serve_on_one_process(trained, tmp_path) -> None:
    from PIL import Image

    import docvision
    from docvision.hf_vlm.prompts import ask
    from docvision.hf_vlm.recipe import train_recipe

    (_, pages, vlm), out, said = trained
    held = int(said.split("each process holds ")[1].split("%")[0])
    assert held < 90, said
    train_recipe(registers(vlm, pages, tmp_path, "optim.accumulate=2"))
    assert worst(out / "registers", tmp_path, "ptp", until=6) < TOLERANCE
    drafted = docvision.accelerate(vlm, method="ptp", adapter=out / "registers" / "adapter", fallback=False)
    inputs = ask(drafted.processor, [Image.new("RGB", (32, 32), (60, 9, 9))], "Read.")
    ids = drafted.generate(**inputs, max_new_tokens=12, do_sample=False)
    assert ids.equal(drafted.model.generate(**inputs, max_new_tokens=12, do_sample=False))


def test_a_split_run_needs_processes_and_a_model_that_can_be_split(trained, tmp_path) -> None:
    from docvision.config import OptimConfig, RecipeError, RunConfig
    from docvision.hf_vlm import VlmError
    from docvision.hf_vlm.recipe import train_recipe
    from docvision.train import Job, fit, train_document

    (lines, pages, vlm), _, _ = trained
    with pytest.raises(RecipeError, match="num_processes 2 or more"):
        train_document(tiny(lines, tmp_path, "run.shard=true"))
    with pytest.raises(VlmError, match="num_processes 2 or more"):
        train_recipe(registers(vlm, pages, tmp_path, "run.shard=true"))
    from types import SimpleNamespace

    import torch

    from docvision.train import _may_split

    launched: Any = SimpleNamespace(distributed_type="DistributedType.FSDP", num_processes=2)
    with pytest.raises(RecipeError, match="leave --use_fsdp out"):
        _may_split(launched, RunConfig(), Job({}, {}, lambda module, batch, noise: {}, divisible=True))
    job = Job({"a": None}, {"a": 1.0}, lambda module, batch, noise: {})  # type: ignore[dict-item]
    with pytest.raises(RecipeError, match="for the document model"):
        fit(torch.nn.Linear(1, 1), job, OptimConfig(), RunConfig(out=str(tmp_path), shard=True))


if __name__ == "__main__":
    trainings(*sys.argv[1:])
