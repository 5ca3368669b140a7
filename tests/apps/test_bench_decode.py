"""The decoding benchmark: its rows are honest about what they ran, and its figures add up."""

import json

import pytest
import torch

from apps import bench_decode
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import Decoded
from docvision.model import DocVisionModel

KEYS = {
    "method", "accept", "task", "batch", "sequences", "exact_match", "tokens_per_forward", "accepted_by_depth",
    "wall_ratio", "end_to_end_ratio", "disagreement", "score",
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> dict:
    torch.manual_seed(0)
    model = DocVisionModel(
        ModelConfig(
            width=32,
            bins=8,
            characters=" abcdefghijklmnopqrstuvwxyz0123456789,.",
            encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 0, 0, 1)),
            decoder=DecoderConfig(layers=1, heads=2, ffn=32),
        )
    ).eval()
    with torch.no_grad():
        model.decoder.embedding.weight[model.vocabulary.eos] *= 3
    return bench_decode.bench(model, ["ctc", "textlayer/exact/nodes=8", "ctc/all"], batches=[1, 2], limit=3)


def test_every_method_has_a_row_for_each_task_and_batch(report) -> None:
    rows = report["rows"]
    assert len(rows) == 2 * 2 * 4 and all(row.keys() >= KEYS for row in rows)
    assert {row["sequences"] for row in rows} == {3}
    assert {(row["method"], row["accept"]) for row in rows} == {
        ("ntp", "exact"), ("ctc", "exact"), ("textlayer", "exact"), ("ctc", "all")
    }  # fmt: skip
    assert set(report["width_cost"]) == {"1", "2"} and report["width_cost"]["1"]["1"] == 1.0
    json.dumps(report)


def test_lossless_rows_match_plain_decoding_and_lossy_ones_tell(report) -> None:
    plain = {(row["task"], row["batch"]): row for row in report["rows"] if row["method"] == "ntp"}
    for row in report["rows"]:
        if row["accept"] == "exact":
            assert row["exact_match"] + row["ties"] / row["sequences"] >= 1.0 and row["disagreement"] == 0
            assert row["score"] == plain[row["task"], row["batch"]]["score"] or row["ties"]
        else:
            assert row["disagreement"] > 0 and row["exact_match"] < 1
        if row["method"] == "ntp":
            assert row["tokens_per_forward"] == 1.0 == row["wall_ratio"] and row["accepted_by_depth"] == []


def test_classes_share_the_forwards_that_won_them() -> None:
    model = DocVisionModel(ModelConfig(width=32, bins=8, decoder=DecoderConfig(layers=1, heads=2, ffn=32)))
    v = model.vocabulary
    ids = [v.ids["<td>"], v.ids["a"], v.ids["b"], v.x(3)]
    tally = bench_decode.Tally(ids=[ids], runs=[[1, 3]])
    assert bench_decode._by_class(model, tally) == {"tag": 1.0, "text": 3.0, "coordinate": 3.0}


def test_a_difference_at_a_tie_is_told_apart_from_a_fault() -> None:
    torch.manual_seed(1)
    model = DocVisionModel(ModelConfig(width=32, bins=8, decoder=DecoderConfig(layers=1, heads=2, ffn=32))).eval()
    memory = model.encoder(torch.rand(1, 1, 32, 48))
    prompt = torch.tensor([[model.vocabulary.bos, model.vocabulary.ids["<prompt:text>"]]])
    plain = bench_decode.decode(model, memory, prompt, bench_decode.Plan(6))
    other = plain.ids.clone()
    other[0, 3] += 1
    found = Decoded(other, plain.scores, plain.runs, 6, 0)
    tally = bench_decode.Tally()
    bench_decode._count(model, tally, found, plain, memory, prompt)
    assert (tally.equal, tally.ties) == (0, 0)
    with torch.no_grad():  # two tokens with one embedding have equal scores for ever
        model.decoder.embedding.weight[other[0, 3]] = model.decoder.embedding.weight[plain.ids[0, 3]]
    bench_decode._count(model, tally, found, plain, memory, prompt)
    assert (tally.equal, tally.ties) == (0, 1)


@pytest.mark.parametrize(
    "text, message", [("ctc/exact/what", "not option=value"), ("ctc/sometimes", "exact, all or confidence")]
)
def test_wrong_methods_are_told(text: str, message: str) -> None:
    model = DocVisionModel(ModelConfig(width=32, bins=8, decoder=DecoderConfig(layers=1, heads=2, ffn=32))).eval()
    with pytest.raises(ValueError, match=message):
        bench_decode.bench(model, [text], batches=[1], limit=1)


def test_tasks_without_data_are_told(tmp_path) -> None:
    with pytest.raises(ValueError, match="one of text, born_digital, table"):
        bench_decode.load("tables", None, 1)
    with pytest.raises(ValueError, match="no samples"):
        bench_decode.load("table", None, 1)


def test_lines_of_a_pdf_come_with_the_words_of_its_layer() -> None:
    from pathlib import Path

    examples = Path(__file__).resolve().parents[2] / "examples"
    samples = bench_decode.load("born_digital", examples, 3)
    assert len(samples) == 3 and all(sample.image.shape[0] == 32 for sample in samples)
    assert all(" ".join(sample.words).split() == sample.truth.split() for sample in samples)


def test_the_plot_has_a_mark_for_each_row(report) -> None:
    assert bench_decode.plot(report["rows"]).count("<circle") == len(report["rows"])
