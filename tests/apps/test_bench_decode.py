"""The decoding benchmark: its rows are honest about what they ran, and its figures add up."""

import json
from pathlib import Path

import pytest
import torch

from apps import bench_decode, cli, decode_samples
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import Decoded
from docvision.model import DocVisionModel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
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
    bounds = decode_samples.Bounds(3)
    return bench_decode.bench(
        model, ["ctc", "textlayer/exact/nodes=8", "ctc/all"], batches=[1, 2], bounds=bounds, tokens=40
    )


def test_every_method_has_a_row_for_each_task_and_batch(report) -> None:
    rows = report["rows"]
    assert len(rows) == 3 * 2 * 4 and all(row.keys() >= KEYS for row in rows)
    assert {row["sequences"] for row in rows} == {3}
    assert {(row["method"], row["accept"]) for row in rows} == {
        ("ntp", "exact"), ("ctc", "exact"), ("textlayer", "exact"), ("ctc", "all")
    }  # fmt: skip
    assert set(report["width_cost"]) == {"1", "2"} and report["width_cost"]["1"]["1"] == 1.0
    json.dumps(report)


def test_lossless_rows_match_plain_decoding_and_lossy_ones_tell(report) -> None:
    plain = {(row["task"], row["batch"]): row for row in report["rows"] if row["method"] == "ntp"}
    for row in report["rows"]:
        if row["accept"] == "exact" or row["task"] == "table":  # the line head drafts no tables
            assert row["exact_match"] + row["ties"] / row["sequences"] >= 1.0 and row["disagreement"] == 0
            assert row["score"] == plain[row["task"], row["batch"]]["score"] or row["ties"]
        else:
            assert row["disagreement"] > 0 and row["exact_match"] < 1
        if row["method"] == "ntp":
            assert row["gain"] == 1.0 == row["wall_ratio"]
            forced = row["task"] == "table"  # by the grammar, for plain decoding as for all others
            assert (row["tokens_per_forward"] > 1) == forced == bool(row["accepted_by_depth"])


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
    bench_decode._count(model, tally, found, plain, memory, prompt, [7])
    assert (tally.equal, tally.ties) == (0, [])
    with torch.no_grad():  # two tokens with one embedding have equal scores for ever
        model.decoder.embedding.weight[other[0, 3]] = model.decoder.embedding.weight[plain.ids[0, 3]]
    bench_decode._count(model, tally, found, plain, memory, prompt, [7])
    assert tally.equal == 0 and [(tie["sample"], tie["place"]) for tie in tally.ties] == [(7, 3)]


@pytest.mark.parametrize(
    "text, message",
    [
        ("ctc/exact/what", "not option=value"),
        ("ctc/sometimes", "exact, all or confidence"),
        ("pmtp", "no weights for pmtp: train them"),
        ("ctx", "did you mean ctc"),
        ("textlayer/accept=3", "no option 'accept', only nodes, fallback"),
        ("ctc/exact/nodes=3", "no option 'nodes', only fallback"),
    ],
)
def test_wrong_methods_are_told(text: str, message: str) -> None:
    model = DocVisionModel(ModelConfig(width=32, bins=8, decoder=DecoderConfig(layers=1, heads=2, ffn=32))).eval()
    with pytest.raises(ValueError, match=message):
        bench_decode.bench(model, [text], batches=[1])


def test_every_method_meets_every_policy_but_those_with_one_of_their_own() -> None:
    names = bench_decode.crossed(["ptp/registers=2", "pmtp", "ctc/all"], ["exact", "confidence(0.9)"])
    assert names == [
        "ptp/exact/registers=2", "ptp/confidence(0.9)/registers=2", "pmtp/exact", "pmtp/confidence(0.9)", "ctc/all"
    ]  # fmt: skip


def test_tasks_without_data_are_told() -> None:
    with pytest.raises(ValueError, match="one of text, born_digital, table"):
        decode_samples.load("tables", [], decode_samples.Bounds())
    with pytest.raises(ValueError, match="no samples"):
        decode_samples.load("table", [EXAMPLES], decode_samples.Bounds())


def test_a_single_pdf_is_data_and_tasks_that_it_lacks_are_left_out(tmp_path, capsys) -> None:
    pdf, out = sorted(EXAMPLES.glob("*.pdf"))[0], tmp_path / "report.json"
    arguments = ["bench", "decode", "--data", str(pdf), "--methods", "ctc", "--limit", "1", "--tokens", "16"]
    assert cli.main([*arguments, "--batch", "1", "--json", str(out)]) == 0
    assert "no samples of table: left out" in capsys.readouterr().err
    assert {row["task"] for row in json.loads(out.read_text())["rows"]} == {"text", "born_digital"}
    assert cli.main([*arguments, "--tasks", "table"]) == 2
    assert "task table: no samples" in capsys.readouterr().err
    assert cli.main(["bench", "decode", "--data", __file__]) == 2
    assert "is no PDF" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["decode"], ["table-speed"], ["table-streams", str(EXAMPLES)]])
def test_models_and_devices_that_are_not_there_are_wrong_use(command: list[str], capsys) -> None:
    assert cli.main(["bench", *command, "--device", "cuda:77"]) == 2
    assert "cuda:77 is not there" in capsys.readouterr().err
    assert cli.main(["bench", *command, "--model", "docvision-tin"]) == 2
    assert "did you mean docvision-tiny" in capsys.readouterr().err


def test_drawn_tables_have_a_stream_inside_the_grammar() -> None:
    samples = decode_samples.load("table", [], decode_samples.Bounds(2))
    assert [sample.truth.count("<tr>") >= 2 for sample in samples] == [True, True]
    assert all(0 < sample.image.mean() < 0.5 for sample in samples)


def test_lines_of_a_pdf_come_with_the_words_of_its_layer() -> None:
    samples = decode_samples.load("born_digital", [EXAMPLES], decode_samples.Bounds(3, width=2000))
    assert len(samples) == 3 and all(sample.image.shape[0] == 32 for sample in samples)
    assert all(" ".join(sample.words).split() == sample.truth.split() for sample in samples)


def test_the_plot_has_a_mark_for_each_row(report) -> None:
    assert bench_decode.plot(report["rows"]).count("<circle") == len(report["rows"])
