"""What newcomers do to ``docvision parse``: wrong names, pages that are not there, odd places, old outputs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image

from apps import batch_log, bench, cli
from docvision.page import Document, Page

ROOT = Path(__file__).resolve().parents[2]
TEXTS = (
    "Apples fell early.",
    "Most pears hung on.",
    "No plum was left",
    "The cherries, however, were",
    "Quinces came last.",
)


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    return write_pdf(tmp_path / "report.pdf", [MadePage([text]) for text in TEXTS])


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def parse(*arguments: object) -> int:
    return run("parse", "--layout", "rules", *arguments)


def failed(number: int) -> Document:
    return Document("x", [Page(number, 9, 9, status="failed", error="the page is damaged")])


# Wrong names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pages", ""], "'' is not like 3, 2-5, r1"),
        (["--pages", " "], "' ' is not like 3, 2-5, r1"),
        (["--format", ""], "it is empty: name one of md"),
        (["-o", ""], "it is empty: name a folder"),
        (["-o", "{folder}/x.docx"], ".docx is not written here, but .md, .html"),
        (["--model", "docvision-tinny"], "there is no model 'docvision-tinny'; did you mean docvision-tiny?"),
        (["--model", "{folder}"], "there is no model"),
        (["--model", "nobody/nothing"], "nobody/nothing is not in the local cache: docvision models fetch"),
        (["--device", "cuda:77"], "cuda:77 is not there: this machine has"),
    ],
)
def test_wrong_words_are_told_at_the_start(
    arguments: list[str], message: str, pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The PDF has a text layer, so without the check the model would never be asked for."""
    assert run("parse", pdf, *(word.format(folder=tmp_path) for word in arguments)) == 2
    out, err = capsys.readouterr()
    assert message in err and len(err.splitlines()) == 1 and out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["report.pdf"]


def test_rules_ask_for_no_model_and_load_no_torch(pdf: Path) -> None:
    code = (
        "import sys; from apps import cli; "
        f"code = cli.main(['parse', {str(pdf)!r}, '-q', '--layout', 'rules', '--device', 'cuda:77']); "
        "sys.exit('torch was loaded' if 'torch' in sys.modules else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_slash_makes_a_folder_of_any_name(pdf: Path, tmp_path: Path) -> None:
    assert parse(pdf, "-q", "-o", f"{tmp_path}/run.two/") == 0
    assert (tmp_path / "run.two" / "report.md").is_file()
    assert parse(pdf, "-q", "-o", tmp_path / "run.two") == 0  # it is there now


def test_overrides_are_blamed_where_the_recipe_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "lines", "optim.lrr=1") == 2
    err = capsys.readouterr().err
    assert err.startswith("docvision: optim.lrr=1: unknown key optim.lrr: did you mean optim.lr?") and "yaml" not in err


# Pages


@pytest.mark.parametrize(
    ("pages", "kept", "gone"),
    [("1,99", [1], "99"), ("4-9", [4, 5], "4-9"), ("9-4,r9,2", [5, 4, 2], "9-4, r9"), ("r2,7-,-r9", [4], "7-, -r9")],
)
def test_pages_that_are_there_are_read(
    pages: str, kept: list[int], gone: str, pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse(pdf, "--pages", pages, "-o", tmp_path / "out", "-f", "json", "-q") == 3
    err = capsys.readouterr().err
    assert err.startswith("partial: ") and f"not all of {gone} is there: the document has 5 pages" in err
    assert len(err.splitlines()) == 1
    document = Document.from_json((tmp_path / "out" / "report.json").read_text())
    assert [page.number for page in document.pages] == kept and gone in document.warnings[0]


def test_a_blank_document_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("L", (300, 400), 255).save(tmp_path / "blank.png")
    assert parse(tmp_path / "blank.png") == 0
    first, last = capsys.readouterr().err.splitlines()
    assert first.endswith("blank.png: 1 page: nothing to read: no text, table or figure was found")
    assert "; 1 page in " in last


# Outputs


def test_a_document_without_a_page_leaves_no_output_and_no_stale_one(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert parse(pdf, "-o", out, "-f", "md,json", "-q") == 0
    (out / "other.md").write_text("of another document")
    earlier = (out / "report.md").read_text()
    monkeypatch.setattr("docvision.parse.DocumentParser.parse", lambda *a, **o: failed(1))
    assert parse(pdf, "-o", out, "-f", "md,json", "--no-resume") == 1
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith(f"failed: {pdf}: 1 page: page 1: the page is damaged; the earlier report.md is now")
    names = sorted(path.name for path in out.iterdir())
    assert names == [".docvision", "failures.jsonl", "other.md", "report.json.stale", "report.md.stale"]
    assert (out / "report.md.stale").read_text() == earlier


def test_stale_outputs_of_a_file_that_no_longer_opens(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse(pdf, "-o", tmp_path / "x.md", "-q") == 0
    pdf.write_bytes(b"%PDF-1.7 cut")
    assert parse(pdf, "-o", tmp_path / "x.md", "-q") == 1
    assert "the earlier x.md is now x.md.stale" in capsys.readouterr().err and not (tmp_path / "x.md").exists()
    (tmp_path / "x.md").write_text("of something else")
    assert parse(tmp_path / "slip.pdf", "-o", tmp_path / "x.md", "-q") == 1
    assert (tmp_path / "x.md").read_text() == "of something else"


def test_tables_of_an_earlier_run_do_not_stay_among_todays(pdf: Path, tmp_path: Path) -> None:
    for name in ("report.p1-t1.csv", "report.p2-t1.csv.bak", "reports.p1-t1.csv"):
        (tmp_path / name).write_text("a,b")
    assert parse(pdf, "-o", tmp_path, "-f", "csv", "-q") == 0  # it has no table
    names = {path.name for path in tmp_path.iterdir()}
    assert names - {".docvision"} == {
        "report.pdf",
        "report.p1-t1.csv.stale",
        "report.p2-t1.csv.bak",
        "reports.p1-t1.csv",
    }


def test_an_input_is_never_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no PDF")
    assert parse(path, "-o", tmp_path, "-f", "txt", "-q") == 1
    assert path.read_text() == "no PDF"


def test_a_link_is_written_through(tmp_path: Path) -> None:
    prose = ["Read the height at every full hour, 8,760 numbers a year.", "Then sort the readings in columns."]
    pdf = write_pdf(tmp_path / "report.pdf", [MadePage(prose)])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "x.md").symlink_to(tmp_path / "elsewhere" / "real.md")
    for _ in range(2):  # to a file that is not there yet, and to one that is
        assert parse(pdf, "-o", tmp_path / "x.md", "-q") == 0
        assert (tmp_path / "x.md").is_symlink()
        assert prose[1] in (tmp_path / "elsewhere" / "real.md").read_text()


def test_a_name_with_a_line_end_takes_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pdf(tmp_path / "two\nlines\x1b[2J.pdf", [MadePage(["Text."])])
    (tmp_path / "bad\n.pdf").touch()
    assert parse(tmp_path, "-o", tmp_path / "out") == 3
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 3 and "\x1b" not in err
    assert "two\\nlines\\x1b[2J.pdf: 1 page" in err and "bad\\n.pdf is empty" in err


# Benchmarks


def test_speeds_of_unread_files_are_no_speeds(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: bench.Request) -> bench.Output:
        raise ValueError("cannot")

    monkeypatch.setitem(bench.ENGINES, "broken", broken)
    speed = ("bench", "speed", pdf, "--rounds", 1)
    assert run(*speed, "--engine", "rules") == 0 and capsys.readouterr().err == ""
    assert run(*speed, "--engine", "rules", "--engine", "broken") == 3
    assert "these rates are no speeds" in capsys.readouterr().err
    assert run(*speed, "--engine", "broken") == 1


def test_a_count_of_one_is_no_plural() -> None:
    assert batch_log.Tally(1, ok=1, pages=1).summary().startswith("1 document: 1 ok, 0 partial, 0 failed; 1 page in ")
    assert "2 documents: " in batch_log.Tally(2, pages=0).summary() and "; 0 pages in " in batch_log.Tally(2).summary()
