"""The command line: exit codes, one clear line for each failure, outputs whole and never over one another.

Most tests call ``main`` in this process; those about signals, pipes and imports start a process of their own.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image

from apps import cli, inputs, outputs
from docvision.page import Document

PROSE = ["Read the height at every full hour, 8,760 numbers a year.", "Then sort the readings in columns."]
ROOT = Path(__file__).resolve().parents[2]
FULL = Path("/dev/full")


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    return write_pdf(tmp_path / "report.pdf", [MadePage(PROSE), MadePage(["Second page."])])


def names(folder: Path) -> list[str]:
    """What lies in an output folder, without what it keeps for itself."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".docvision")


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def parse(*arguments: object) -> int:
    return run("parse", "--layout", "rules", *arguments)


def _hear_interrupts() -> None:
    """A test run started in the background of a script ignores SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "apps.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": _hear_interrupts, **options}
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]


# Outputs


def test_one_input_goes_to_standard_output(pdf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(pdf) == 0
    out, err = capsys.readouterr()
    assert out == " ".join(PROSE) + "\n\nSecond page.\n" or out == "\n\n".join([*PROSE, "Second page."]) + "\n"
    assert err.splitlines()[0] == f"ok: {pdf}: 2 pages"
    assert err.splitlines()[1].startswith("1 document: 1 ok, 0 partial, 0 failed; 2 pages in ")
    assert parse(pdf, "--quiet", "--format", "json") == 0
    out, err = capsys.readouterr()
    assert Document.from_json(out).pages[1].number == 2 and err == ""


def test_every_format_is_written(pdf: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    assert parse(pdf, "-o", out, "-f", "md,html,json,csv,txt", "-q") == 0
    assert names(out) == ["report.html", "report.json", "report.md", "report.txt"]
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert Document.from_json((out / "report.json").read_bytes()).source == str(pdf)
    assert (out / "report.md").read_text() == (out / "report.txt").read_text()


def test_tables_become_one_csv_file_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document comes from JSON, so that this does not depend on which tables the layout finds."""
    from docvision.page import Block, Box, Cell, Page, Table

    table = Block("table", Box(0, 0, 9, 9), table=Table(1, 2, [Cell(0, 0, "a,b", column_span=2)]))
    pages = [Page(4, 9, 9, [table, table]), Page(7, 9, 9, [table])]
    outputs.write(Document("x", pages), outputs.Item(Path("x.pdf"), "sub/x"), outputs.Outputs(("csv",), tmp_path))
    assert names(tmp_path / "sub") == ["x.p4-t1.csv", "x.p4-t2.csv", "x.p7-t1.csv"]
    assert list(csv.reader((tmp_path / "sub" / "x.p4-t1.csv").open())) == [["a,b", ""]]


def test_a_named_file_takes_one_output(pdf: Path, tmp_path: Path) -> None:
    assert parse(pdf, "-o", tmp_path / "my.html", "-q") == 0
    assert (tmp_path / "my.html").read_text().startswith("<!doctype html>")
    assert parse(pdf, "-o", tmp_path / "my.md", "-q", "-f", "md") == 0 and (tmp_path / "my.md").is_file()


def test_inputs_of_one_name_never_share_an_output(tmp_path: Path) -> None:
    for place in ("a", "b", "c"):
        (tmp_path / place).mkdir()
    first = write_pdf(tmp_path / "a" / "report.pdf", [MadePage(["From a."])])
    second = write_pdf(tmp_path / "b" / "report.pdf", [MadePage(["From b."])])
    third = write_pdf(tmp_path / "c" / "Report.PDF", [MadePage(["From c."])])
    out = tmp_path / "out"
    assert parse(first, second, third, first, "-o", out, "-q") == 0
    texts = {name: (out / name).read_text().strip() for name in names(out)}
    assert texts == {"report.md": "From a.", "report-2.md": "From b.", "Report-3.md": "From c."}


def test_folders_are_searched_in_order_and_mirrored(tmp_path: Path) -> None:
    for name in ("in/b/x.pdf", "in/a/y.pdf", "in/a/x.pdf", "in/.hidden/z.pdf", "in/out/old.pdf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_pdf(tmp_path / name, [MadePage([name])])
    (tmp_path / "in" / "notes.txt").write_text("no document")
    found = inputs.find([str(tmp_path / "in")], skip=tmp_path / "in" / "out")
    assert [name for _, name in found.documents] == ["a/x", "a/y", "b/x"]
    assert parse(tmp_path / "in", "-o", tmp_path / "in" / "out", "-q") == 0
    assert (tmp_path / "in" / "out" / "b" / "x.md").read_text().strip() == "in/b/x.pdf"


def test_the_same_run_gives_the_same_bytes(pdf: Path, tmp_path: Path) -> None:
    for place in ("one", "two"):
        assert parse(pdf, "-o", tmp_path / place, "-f", "md,html", "-q") == 0
    for name in ("report.md", "report.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


# Failures


def test_bad_inputs_cost_a_line_each_and_the_batch_goes_on(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "text.pdf").write_text("no PDF at all")
    (tmp_path / "cut.pdf").write_bytes(pdf.read_bytes()[:60])
    write_pdf(tmp_path / "none.pdf", [])
    write_pdf(tmp_path / "locked.pdf", [MadePage(PROSE)], password="secret")
    bad = [tmp_path / name for name in ("missing.pdf", "empty.pdf", "text.pdf", "cut.pdf", "none.pdf", "locked.pdf")]
    out = tmp_path / "out"
    assert parse(*bad, pdf, "-o", out) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(bad) + 2
    for path, line in zip(bad, lines, strict=False):
        assert line.startswith("failed: ") and str(path) in line
    assert lines[-1].endswith(f"in {out / 'failures.jsonl'}")
    assert lines[-1].startswith("7 documents: 1 ok, 0 partial, 6 failed; 2 pages in ")
    assert names(out) == ["failures.jsonl", "report.md"]
    assert parse(*bad, "-o", out, "-q") == 1


def test_passwords(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_pdf(tmp_path / "locked.pdf", [MadePage(["Opened."])], password="secret")
    assert parse(path, "-q") == 1 and "is encrypted: give its password" in capsys.readouterr().err
    assert parse(path, "--password", "wrong") == 1 and "does not open with this password" in capsys.readouterr().err
    assert parse(path, "--password", "secret") == 0 and capsys.readouterr().out == "Opened.\n"
    monkeypatch.setenv("DOCVISION_PASSWORD", "secret")
    assert parse(path) == 0


def test_partial_documents_exit_with_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = Image.new("L", (300, 400), 255)
    picture.paste(0, (50, 50, 250, 60))
    path = write_pdf(tmp_path / "a.pdf", [MadePage(PROSE), MadePage(picture=picture)])
    assert parse(path) == 3
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith(f"partial: {path}: 2 pages: page 2: no text layer, and --layout rules reads no pictures")


def test_one_reason_for_many_pages_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = Image.new("L", (300, 400), 255)
    picture.paste(0, (50, 50, 250, 60))
    path = write_pdf(tmp_path / "a.pdf", [MadePage(picture=picture)] * 6)
    assert parse(path) == 3
    line = capsys.readouterr().err.splitlines()[0]
    assert (
        line.startswith(f"partial: {path}: 6 pages: pages 1, 2, 3 and 3 more: no text layer")
        and line.count("no text") == 1
    )


def test_pages_out_of_range(pdf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(pdf, "--pages", "2-r1") == 0
    assert capsys.readouterr().out == "Second page.\n"
    assert parse(pdf, "--pages", "8-9") == 1
    assert "page 8 of the selection '8-9' is not there: the document has 2" in capsys.readouterr().err


@pytest.mark.parametrize(("size", "level"), [((1, 1), 0), ((1, 1), 255), ((900, 1200), 0), ((900, 1200), 255)])
def test_pictures_with_nothing_on_them(tmp_path: Path, size: tuple[int, int], level: int) -> None:
    Image.new("L", size, level).save(tmp_path / "a.png")
    assert parse(tmp_path / "a.png", "-q") == 0
    assert run("parse", tmp_path / "a.png", "-q") == 0  # no model is loaded for a blank page


def test_a_page_of_twenty_thousand_pixels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = Image.new("1", (20_000, 600), 1)
    picture.paste(0, (500, 100, 9_000, 300))
    picture.save(tmp_path / "huge.png")
    assert parse(tmp_path / "huge.png") == 3  # rules do not read pictures, but the page was looked at
    assert "no text layer" in capsys.readouterr().err
    path = write_pdf(tmp_path / "huge.pdf", [MadePage(["A poster."], size=(5_000, 5_000))])
    assert parse(path, "-q") == 0


def test_an_output_folder_that_cannot_be_written(pdf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pdf.parent / "file").touch()
    assert parse(pdf, "-o", pdf.parent / "file" / "below") == 1
    assert "was not written (Not a directory): choose another place with -o" in capsys.readouterr().err
    assert parse(pdf, "-o", "/proc/nothing") == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_full_disk_fails_the_document_and_leaves_no_partial_file(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def full(source: object, target: Path) -> None:
        if target.suffix == ".md":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)  # type: ignore[call-overload]

    monkeypatch.setattr(outputs.os, "replace", full)
    out = tmp_path / "out"
    assert parse(pdf, "-o", out) == 1
    line = capsys.readouterr().err.splitlines()[0]
    reason = f"{out / 'report.md'} was not written: the disk is full; free some space and run again"
    assert line == f"failed: {pdf}: {reason}"
    assert names(out) == ["failures.jsonl"] and not list((out / ".docvision").glob("*/*"))


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output(pdf: Path) -> None:
    with FULL.open("w") as full, start("parse", pdf, "--layout", "rules", stdout=full) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in err and "No space left" in err


def test_a_bug_is_one_line_unless_debugged(
    pdf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> str:
        raise KeyError("oh")

    monkeypatch.setattr(outputs.export, "to_markdown", broken)
    assert parse(pdf) == 1
    assert (
        capsys.readouterr().err.splitlines()[0] == f"failed: {pdf}: internal error: KeyError: 'oh' (--debug shows more)"
    )
    with pytest.raises(KeyError):
        parse(pdf, "--debug")


# Use


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parse"], "Missing argument 'INPUT...'"),
        (["prase", "x.pdf"], "No such command 'prase'. Did you mean 'parse'?"),
        (["parse", "{pdf}", "--layuot", "rules"], "No such option: --layuot"),
        (["parse", "{pdf}", "--text", "modle"], "'modle' is not one of auto, layer, model. Did you mean 'model'?"),
        (["parse", "{pdf}", "--layout", "rule"], "'rule' is not one of auto, rules. Did you mean 'rules'?"),
        (["parse", "{pdf}", "--tables", "pipe"], "'pipe' is not one of auto, html, markdown."),
        (
            ["parse", "{pdf}", "--format", "htm"],
            "'htm' is not one of md, html, json, csv, xlsx, txt, jsonl, overlay. Did you mean 'html'?",
        ),
        (["parse", "{pdf}", "--format", ","], "name one of md, html"),
        (["parse", "{pdf}", "--pages", "one"], "'one' is not like 3, 2-5, r1 or 1-5,8."),
        (["parse", "{pdf}", "--device", "gpu"], "device 'gpu' is none: use cpu"),
        (["parse", "{pdf}", "--text", "model", "--layout", "rules"], "text 'model' needs the model"),
        (["parse", "{pdf}", "other.pdf"], "2 documents do not fit on standard output: name a folder with -o."),
        (["parse", "{pdf}", "-f", "md,json"], "several formats do not fit on standard output"),
        (["parse", "{pdf}", "b.pdf", "-o", "x.md"], "-o x.md is one file, but there are 2 documents"),
        (["parse", "{pdf}", "-o", "x.md", "-f", "json"], "-o x.md does not go with --format json"),
        (["parse", "{pdf}", "-o", "{pdf}"], "is a file, not a folder"),
        (["parse", "{folder}"], "holds no document"),
        (["make", "lines"], "Missing option '--out'"),
        (["train", "no-such-recipe"], "no-such-recipe"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_two(
    arguments: list[str], message: str, pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    filled = [argument.format(pdf=pdf, folder=tmp_path / "folder") for argument in arguments]
    assert cli.main(filled) == 2
    out, err = capsys.readouterr()
    assert message in err and len(err.splitlines()) == 1 and err.startswith("docvision: ") and out == ""


def test_version_help_and_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0 and capsys.readouterr().out.startswith("docvision ")
    assert run("parse", "--help") == 0
    text = capsys.readouterr().out
    assert all(
        option in text for option in ("--out", "--format", "--pages", "--password", "--text", "--layout", "--quiet")
    )
    assert run() == 2 and "Commands:" in capsys.readouterr().out
    assert run("schema") == 0
    assert json.loads(capsys.readouterr().out) == Document.json_schema()


def test_headers_option(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the writer with a document of known furniture."""
    from docvision.page import Block, Box, Page

    document = Document(
        "x", [Page(1, 9, 9, [Block("header", Box(0, 0, 1, 1), "Head"), Block("text", Box(0, 0, 1, 1), "T")])]
    )
    monkeypatch.setattr("docvision.parse.DocumentParser.parse", lambda self, path, **options: document)
    assert run("parse", "x.pdf", "-q") == 0 and capsys.readouterr().out == "T\n"
    assert run("parse", "x.pdf", "-q", "--headers") == 0 and capsys.readouterr().out == "Head\n\nT\n"


def test_tables_option(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from docvision.page import Block, Box, Cell, Page, Table

    block = Block("table", Box(0, 0, 1, 1), table=Table(1, 1, [Cell(0, 0, "a", header=True)]))
    monkeypatch.setattr("docvision.parse.DocumentParser.parse", lambda *a, **o: Document("x", [Page(1, 9, 9, [block])]))
    assert run("parse", "x.pdf", "-q") == 0 and capsys.readouterr().out.startswith("| a |")
    assert run("parse", "x.pdf", "-q", "--tables", "html") == 0 and capsys.readouterr().out.startswith("<table>")


# Processes


def test_a_text_layer_is_parsed_without_loading_torch(pdf: Path) -> None:
    code = (
        "import sys; from apps import cli; "
        f"code = cli.main(['parse', {str(pdf)!r}, '-q']); "
        "heavy = {'torch', 'transformers', 'pyarrow', 'cv2'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert PROSE[0] in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_leaves_whole_outputs_and_nothing_else(tmp_path: Path, number: signal.Signals) -> None:
    pages = [MadePage([f"Line {line} of a page." for line in range(30)])]
    inputs = [write_pdf(tmp_path / f"{index:03d}.pdf", pages) for index in range(150)]
    out = tmp_path / "out"
    with start("parse", *inputs, "--layout", "rules", "-o", out, "-f", "json,md", "-q") as process:
        deadline = time.monotonic() + 300
        while not (out / "002.md").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.splitlines()[-1] == "docvision: interrupted"
    assert 5 <= len(names(out)) < 300 and not [name for name in names(out) if name.startswith(".")]
    assert not list(out.rglob("*.tmp"))
    for path in out.glob("*.json"):
        assert len(Document.from_json(path.read_bytes()).pages) == 1
    for path in out.glob("*.md"):
        assert path.read_text().count("Line 29 of a page.") == 1


def test_a_reader_that_closes_the_pipe(pdf: Path) -> None:
    with start("parse", pdf, "--layout", "rules", "-q") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 1 and "Traceback" not in err and "Exception" not in err


def test_an_empty_folder_beside_a_document_is_one_failure(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert parse(pdf, tmp_path / "empty", "-o", tmp_path / "out") == 3
    assert "empty" in capsys.readouterr().err
    assert names(tmp_path / "out") == ["failures.jsonl", f"{pdf.stem}.md"]


@pytest.mark.parametrize("arguments", [("",), ("{pdf}", "--pages", "0"), ("{pdf}", "--pages", "1,r0")])
def test_empty_inputs_and_page_zero_are_wrong_use(arguments: tuple[str, ...], pdf: Path) -> None:
    assert parse(*(item.format(pdf=pdf) for item in arguments)) == 2
