"""A batch as its user sees it: going on, trying again, what is printed, and what lies in the folder afterwards."""

from __future__ import annotations

import io
import json
from itertools import count
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image

from apps import batch, cli, manifest
from apps.batch_log import JsonLog, Log, Tally, span
from apps.inputs import find
from apps.jobs import Outcome, Task, failure
from apps.manifest import Manifest
from apps.outputs import Outputs
from apps.read_task import Settings
from docvision.page import Document
from docvision.parse import ParseOptions

TEXTS = ("Apples fell early.", "Most pears hung on.", "No plum was left.", "Cherries came next.", "Quinces came last.")
MORE = ("The year was dry until the end of August,", "and the cellar was half empty.")
"""So that a page is more than one line, which could be a running head."""


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Two good documents, one of which needs a password, and a broken one."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_pdf(folder / "good.pdf", [MadePage([text, *MORE]) for text in TEXTS])
    write_pdf(folder / "locked.pdf", [MadePage(["Opened."])], password="secret")
    (folder / "broken.pdf").write_text("no PDF")
    return folder


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def parse(*arguments: object) -> int:
    return run("parse", "--layout", "rules", *arguments)


def failures(out: Path) -> dict[str, str]:
    lines = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    return {Path(line["input"]).name: line["code"] for line in lines}


def last(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


# Going on, and trying again


def test_a_second_run_reads_only_what_is_not_finished(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert parse(inputs, "-o", out) == 3
    assert failures(out) == {"broken.pdf": "corrupt", "locked.pdf": "password-required"}
    stamp = (out / "good.md").stat().st_mtime_ns
    capsys.readouterr()
    assert parse(inputs, "-o", out) == 3  # what failed has still failed
    err = capsys.readouterr().err
    assert err.startswith("3 of 3 documents finished before, 2 of them not well: --retry-failed reads what failed")
    assert "1 ok, 0 partial, 2 failed (3 finished before); 0 pages in" in err
    write_pdf(inputs / "new.pdf", [MadePage(["New."])])
    assert parse(inputs, "-o", out) == 3
    assert "2 ok, 0 partial, 2 failed (3 finished before); 1 page in" in last(capsys)
    assert (out / "good.md").stat().st_mtime_ns == stamp and (out / "new.md").read_text() == "New.\n"
    assert parse(inputs / "good.pdf", "-o", out, "--no-resume") == 0
    assert (out / "good.md").stat().st_mtime_ns > stamp


def test_other_settings_and_lost_outputs_are_read_again(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, good = tmp_path / "out", inputs / "good.pdf"
    for arguments, pages in (([], 5), (["--anchors"], 5), (["--pages", "2-3"], 2), (["--pages", "2-3"], 0)):
        assert parse(good, "-o", out, *arguments) == 0
        assert f"; {pages} page" in last(capsys)
    (out / "good.md").unlink()
    assert parse(good, "-o", out, "--pages", "2-3") == 0 and TEXTS[1] in (out / "good.md").read_text()


def test_retry_reads_what_failed_with_the_settings_it_had(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert parse(inputs, "-o", out, "-f", "json", "--pages", "1", "-q") == 3
    assert run("retry", out, "-q") == 1 and len(capsys.readouterr().err.splitlines()) == 4  # twice the same two
    write_pdf(inputs / "broken.pdf", [MadePage(["Mended."]), MadePage(["And more."])])
    assert run("retry", out, "--password", "secret") == 0
    assert "2 documents: 2 ok, 0 partial, 0 failed; 2 pages in" in last(capsys)
    assert not (out / "failures.jsonl").exists() and "secret" not in (out / ".docvision/journal.jsonl").read_text()
    assert len(Document.from_json((out / "broken.json").read_bytes()).pages) == 1
    assert run("retry", out) == 0 and "nothing that failed in" in capsys.readouterr().err
    assert run("retry", inputs) == 1 and "holds no journal of an earlier run" in capsys.readouterr().err


def test_a_run_beside_another_one_is_told_so(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_PATIENCE_S", 0.0)
    (tmp_path / "out").mkdir()
    with Manifest(tmp_path / "out", {}):
        assert parse(inputs, "-o", tmp_path / "out") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "writes into" in lines[0] and "wait for its end" in lines[0]


def test_a_full_disk_stops_the_run_and_the_next_one_goes_on(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    settings = Settings(ParseOptions(layout="rules"), Outputs(folder=out))
    full = [failure("x", "disk-full", "out/x.md was not written: the disk is full")]

    def engine(work: object, *_: object) -> batch.Outcomes:
        yield Task(str(inputs / "broken.pdf"), "broken"), Outcome("failed", failures=tuple(full))
        raise AssertionError("the run goes on")

    tally = batch.run(find([str(inputs)]), settings, batch.How(), engine)
    assert (tally.failed, tally.done, tally.exit_code) == (1, 1, 1)
    assert "2 documents not reached: the same command goes on with them" in capsys.readouterr().err
    assert parse(inputs, "-o", out, "-q") == 3 and (out / "good.md").is_file()


# Pages


def test_more_pages_than_allowed_are_left_out_and_said(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = inputs / "good.pdf"
    assert parse(good, "--max-pages", 2, "--pages", "r1,1-4") == 3
    out, err = capsys.readouterr()
    assert out.index(TEXTS[4]) < out.index(TEXTS[0]) and TEXTS[1] not in out and "only 2 of 5 pages were read" in err
    assert parse(good, "--max-pages", 5) == 0
    assert parse(good, "--max-pages", 4, "-o", tmp_path / "out", "-q") == 3
    (line,) = map(json.loads, (tmp_path / "out" / "failures.jsonl").read_text().splitlines())
    assert (line["code"], line["page"], line["retryable"]) == ("max-pages", None, False)


def test_failures_name_input_code_message_page_and_hint(tmp_path: Path) -> None:
    picture = Image.new("L", (300, 400), 255)
    picture.paste(0, (50, 50, 250, 60))
    path = write_pdf(tmp_path / "a.pdf", [MadePage(["Text."]), MadePage(picture=picture)])
    assert parse(path, tmp_path / "none.pdf", "-o", tmp_path / "out", "-q") == 3
    first, second = map(json.loads, (tmp_path / "out" / "failures.jsonl").read_text().splitlines())
    assert list(first) == ["input", "code", "message", "page", "retryable", "hint"]
    assert (first["input"], first["code"], first["page"]) == (str(path), "partial", 2)
    assert (second["code"], second["page"], second["retryable"]) == ("missing", None, True) and second["hint"]


def test_a_reason_does_not_depend_on_what_was_read_before(inputs: Path, tmp_path: Path) -> None:
    """PDFium keeps its last error: a PDF without pages had the code of the broken or locked one before it."""
    write_pdf(inputs / "none.pdf", [])
    codes = []
    for number, order in enumerate((["none"], ["broken", "none"], ["locked", "none"], ["good", "none"])):
        out = tmp_path / str(number)
        assert parse(*(inputs / f"{name}.pdf" for name in order), "-o", out, "-q") in (1, 3)
        codes.append(failures(out)["none.pdf"])
    assert codes == ["no-pages"] * 4


@pytest.mark.parametrize("option", [("--workers", "2"), ("--timeout", "9"), ("--no-resume",), ("--retry-failed",)])
def test_options_of_batches_need_a_folder(
    option: tuple[str, ...], inputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse(inputs / "good.pdf", *option) == 2
    named = "--resume" if option[0] == "--no-resume" else option[0]
    assert f"{named} is for outputs in a folder: name one with -o" in capsys.readouterr().err
    monkeypatch.setenv("DOCVISION_WORKERS", "2")  # a variable is for other runs too
    assert parse(inputs / "good.pdf", "-q") == 0


def test_one_document_with_limits_is_read_by_a_worker(inputs: Path, tmp_path: Path) -> None:
    assert parse(inputs / "good.pdf", "-o", tmp_path / "out", "--timeout", "60", "-q", "-f", "json") == 0
    pages = Document.from_json((tmp_path / "out" / "good.json").read_bytes()).pages
    assert [(page.number, page.status) for page in pages] == [(number, "ok") for number in range(1, 6)]
    how = batch.How
    assert not how().isolated(1, False) and how().isolated(2, False) and not how().isolated(2, True)
    assert (
        how(timeout=1.0).isolated(1, False)
        and how(workers=2).isolated(2, True)
        and not how(workers=2).isolated(0, False)
    )


def test_the_model_is_shared_where_some_page_surely_needs_it() -> None:
    shared = batch.shared_model
    assert shared(ParseOptions(), ["a.pdf", "b.PNG"]) == "docvision-tiny" and shared(ParseOptions(), ["a.pdf"]) == ""
    assert shared(ParseOptions(text="model"), ["a.pdf"]) == "docvision-tiny"
    assert shared(ParseOptions(layout="rules"), ["b.png"]) == shared(ParseOptions(device="cuda"), ["b.png"]) == ""


def test_weights_are_part_of_what_a_run_is_known_by(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"one")
    before = batch.weights_digest(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert batch.weights_digest(str(tmp_path)) != before
    assert batch.weights_digest("somebody/model") == "somebody/model"


# What is printed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_line_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    stream, tally = Terminal(), Tally(40, started=0.0)
    monkeypatch.setattr("apps.batch_log.time.perf_counter", lambda: 100.0)
    log = Log(stream, False, tally, clock=lambda: next(seconds))
    for number in range(20):
        outcome = Outcome("ok", 3) if number else Outcome("failed", failures=(failure("a.pdf", "corrupt", "cut"),))
        tally.add(outcome)
        log.done(Task("a.pdf", "a"), outcome)
    tally.pending += 3
    log.look()
    text = stream.getvalue()
    assert text.startswith("\r\x1b[Kfailed: a.pdf: cut\n") and "ok: " not in text  # with many, only what matters
    assert text.endswith("[##########..........] 20 of 40 documents, 0.6 pages/s, 1 failed, 1:40 left")
    log.summary("out/failures.jsonl")
    summary = stream.getvalue().splitlines()[-1]
    assert summary.endswith("40 documents: 19 ok, 0 partial, 1 failed, 20 not reached; 57 pages in 100.0 s; "
                            "1 corrupt in out/failures.jsonl")  # fmt: skip


def test_a_log_gets_a_line_now_and_then() -> None:
    seconds = iter([0, 1, 40, 41])
    stream = io.StringIO()
    log = Log(stream, False, Tally(3), clock=lambda: next(seconds))
    for _ in range(3):
        log.look()
    assert stream.getvalue() == "0 of 3 documents\n"
    assert span(41) == "0:41" and span(725) == "12:05" and span(12000) == "3:20:00"


def test_json_for_programs(inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inputs / "two\nlines.pdf").touch()
    assert parse(inputs, "-o", tmp_path / "out", "--json-log") == 3
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["start", *["document"] * 4, "summary"]
    assert events[0]["documents"] == 4 and events[-1]["failed"] == 3 and events[-1]["pages"] == 5
    by_name = {event["name"]: event for event in events[1:-1]}
    assert by_name["good"]["files"] == ["good.md"] and by_name["two\nlines"]["failures"][0]["code"] == "empty"
    stream = io.StringIO()
    log = JsonLog(stream, True, Tally(1))
    log.done(Task("a", "a"), Outcome("ok", 1))
    log.done(Task("\udcff", "b"), Outcome("failed", failures=(failure("\udcff", "empty", "it is empty"),)))
    assert json.loads(stream.getvalue())["input"] == "\udcff"
