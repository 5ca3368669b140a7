"""The Python API: sources of all kinds, progress, iterators, async, one model for many; docs/python.md is true."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from coded_pages import CodeReader, draw_coded
from made_pdfs import MadePage, write_pdf
from PIL import Image, ImageDraw, ImageFont

import docvision
from docvision import steps
from docvision.page import Document, Page
from docvision.parse import DocumentParser, ParseOptions, parse
from docvision.pdf import SourceError
from docvision.scan import ModelUnavailable

ROOT = Path(__file__).resolve().parents[2]
RECIPES = re.findall(
    r"^## (\d+\. .*?)$.*?^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text("utf-8"), re.S | re.M
)
LINES = ["the first line", "a second one", "and number 3", "then a fourth"]


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    return write_pdf(tmp_path / "a.pdf", [MadePage([f"Page {number} of this short document."]) for number in (1, 2, 3)])


def rules(**changes: Any) -> DocumentParser:
    return DocumentParser(layout="rules", **changes)


# Sources


def test_a_source_is_a_path_bytes_a_file_or_a_picture(pdf: Path) -> None:
    content = pdf.read_bytes()
    expected = rules().parse(pdf).pages
    with pdf.open("rb") as file:
        documents = [rules().parse(source) for source in (str(pdf), content, io.BytesIO(content), file)]
    assert [[page.blocks for page in document.pages] for document in documents] == [
        [page.blocks for page in expected] for _ in range(4)
    ]
    assert [document.source for document in documents] == [str(pdf), "document", "document", "a.pdf"]


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "CMYK", "I;16", "P"])
def test_pictures_of_any_mode_keep_their_resolution(mode: str) -> None:
    picture = Image.new(mode, (300, 200))
    picture.info["dpi"] = (150, 150)
    (page,) = DocumentParser(reader=CodeReader()).parse(picture).pages
    assert (page.status, round(page.width), round(page.height)) == ("ok", 144, 96)


def test_a_picture_is_read_like_its_file(tmp_path: Path) -> None:
    picture = draw_coded(LINES)
    picture.save(tmp_path / "a.png", dpi=(220, 220))
    parser = DocumentParser(reader=CodeReader())
    opened = Image.open(tmp_path / "a.png")
    assert parser.parse(opened).pages[0].blocks == parser.parse(tmp_path / "a.png").pages[0].blocks


def test_what_is_no_document_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="a int is no document: give a path, bytes, a file or a picture"):
        parse(7)  # type: ignore[arg-type]
    (tmp_path / "a.txt").write_text("words")
    with (tmp_path / "a.txt").open() as file, pytest.raises(SourceError, match="open it with mode 'rb'"):
        parse(file)  # type: ignore[arg-type]
    with pytest.raises(SourceError) as caught:
        parse(b"no document")
    assert str(caught.value).startswith("document is neither") and caught.value.code == "not-supported"


def test_bytes_leave_no_file(pdf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    seen: list[int] = []
    parse(pdf.read_bytes(), layout="rules", on_page=lambda page: seen.append(len(list(place.iterdir()))))
    assert seen == [1, 1, 1] and not any(place.iterdir())
    with pytest.raises(SourceError):
        parse(b"%PDF-broken")
    assert not any(place.iterdir())


# Progress and pages


def pages_begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the pages that are read from now on, each noted when it is begun."""
    read: list[int] = []
    original = steps.Run.page
    monkeypatch.setattr(steps.Run, "page", lambda run, number: read.append(number) or original(run, number))
    return read


def test_progress_counts_from_nothing_to_all(pdf: Path) -> None:
    told: list[tuple[int, int]] = []
    numbers: list[int] = []
    parse(pdf, layout="rules", pages="3,1", on_progress=lambda *count: told.append(count),
          on_page=lambda page: numbers.append(page.number))  # fmt: skip
    assert told == [(0, 2), (1, 2), (2, 2)] and numbers == [3, 1]


def test_pages_come_as_they_are_finished(pdf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = pages_begun(monkeypatch)
    for page in rules().pages(pdf):
        assert read[-1] == page.number
        if page.number == 2:
            break
    assert read == [1, 2]


# Async


def test_async_answers_are_the_same_and_callbacks_run_in_the_loop(pdf: Path) -> None:
    threads: set[int] = set()
    told: list[tuple[int, int]] = []

    def on_progress(done: int, total: int) -> None:
        threads.add(threading.get_ident())
        told.append((done, total))

    async def both() -> tuple[Document, list[Page]]:
        document = await rules().parse_async(pdf, on_progress=on_progress, on_page=lambda page: None)
        await asyncio.sleep(0)
        return document, [page async for page in rules().pages_async(pdf)]

    document, pages = asyncio.run(both())
    expected = rules().parse(pdf)
    assert [page.blocks for page in document.pages] == [page.blocks for page in expected.pages]
    assert [page.number for page in pages] == [1, 2, 3]
    assert threads == {threading.get_ident()} and told == [(0, 3), (1, 3), (2, 3), (3, 3)]


class SlowReader(CodeReader):
    """Waits on each page until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go_on = threading.Event(), threading.Event()

    def find_blocks(self, image: Image.Image) -> list[Any]:
        self.entered.set()
        assert self.go_on.wait(60)
        return super().find_blocks(image)


def scan(tmp_path: Path, count: int) -> Path:
    page = MadePage((), draw_coded(LINES), size=(576, 396))
    return write_pdf(tmp_path / "scan.pdf", [page] * count)


@pytest.mark.parametrize("pagewise", [False, True])
def test_the_loop_goes_on_and_a_cancelled_call_stops(
    tmp_path: Path, pagewise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the reader waits, the loop runs; after cancelling, the page at hand is finished and no other begun."""
    read = pages_begun(monkeypatch)
    reader = SlowReader()
    parser = DocumentParser(ParseOptions(text="model"), reader=reader)
    path = scan(tmp_path, 4)

    async def collect() -> None:
        if pagewise:
            async for _ in parser.pages_async(path):
                pass
        else:
            await parser.parse_async(path)

    async def main() -> int:
        task, turns = asyncio.ensure_future(collect()), 0
        while not reader.entered.is_set():
            await asyncio.sleep(0.005)
            turns += 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reader.go_on.set()
        return turns

    assert asyncio.run(main()) >= 1  # waits for the thread at its end
    assert read == [1]


def test_a_loop_left_early_closes_the_document(pdf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from docvision.pdf import _PdfSource

    closed: list[bool] = []
    original = _PdfSource.close
    monkeypatch.setattr(_PdfSource, "close", lambda self: closed.append(True) or original(self))

    async def first() -> int:
        pages = rules().pages_async(pdf)
        number = 0
        async for page in pages:
            number = page.number
            break
        await pages.aclose()  # type: ignore[attr-defined]
        return number

    assert asyncio.run(first()) == 1 and closed


# One model for many


def test_parsers_with_other_options_share_the_model(tmp_path: Path) -> None:
    loaded: list[str] = []

    def load(model: str, device: str) -> CodeReader:
        loaded.append(model)
        return CodeReader()

    parser = DocumentParser()
    parser._load = load
    path = scan(tmp_path, 1)
    texts = {
        " ".join(block.text for block in each.parse(path).pages[0].blocks)
        for each in (parser, parser.with_options(text="model"), parser.with_options(join_tables=False))
    }
    assert texts == {" ".join(LINES)} and loaded == ["docvision-tiny"]
    assert parser.with_options(text="layer").options == ParseOptions(text="layer")
    with pytest.raises(ModelUnavailable, match="no model 'another'"):
        parser.with_options(model="another").reader()


def test_a_model_is_loaded_once_from_many_threads() -> None:
    loaded: list[int] = []
    gate = threading.Barrier(8)

    def load(model: str, device: str) -> CodeReader:
        loaded.append(1)
        threading.Event().wait(0.05)
        return CodeReader()

    parser = DocumentParser()
    parser._load = load
    found: list[Any] = []

    def ask() -> None:
        gate.wait(60)
        found.append(parser.reader())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == [1] and len({id(reader) for reader in found}) == 1


def test_a_parser_is_closed_after_its_block(pdf: Path) -> None:
    with rules() as parser:
        assert parser.parse(pdf).status == "ok"
    for call in (lambda: parser.parse(pdf), lambda: list(parser.pages(pdf))):
        with pytest.raises(ValueError, match="this parser is closed"):
            call()
    with pytest.raises(ModelUnavailable, match="closed"):
        parser.reader()


def test_single_options_are_those_of_the_dataclass() -> None:
    assert DocumentParser(text="layer", device="cpu").options == ParseOptions(text="layer")
    with pytest.raises(ValueError, match="did you mean 'layer'"):
        DocumentParser(text="layr")
    with pytest.raises(TypeError, match="txt"):
        DocumentParser(txt="layer")


# Names and documentation


def test_every_name_of_the_package_is_there_and_importing_it_costs_nothing() -> None:
    for name in docvision.__all__:
        assert getattr(docvision, name) is not None
    code = "import sys, docvision; print(sorted({'torch', 'numpy', 'PIL', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def recipe_documents(folder: Path) -> None:
    """The documents that the recipes speak of."""
    texts = ["Read the height at every full hour", "Then sort the readings in columns", "At last draw a line"]
    pages = [MadePage([f"{text}, {'again and ' * n}again." for n in range(1, 7)]) for text in texts]
    write_pdf(folder / "report.pdf", pages)
    rows = ["Site       Height     Year", "North      12.5       1901", "South      14.25      1902"]
    write_pdf(folder / "table.pdf", [MadePage(rows)])
    write_pdf(folder / "secret.pdf", [MadePage(["A line that needs a password."])], password="opensesame")
    sheet = Image.new("L", (1240, 500), 255)
    ImageDraw.Draw(sheet).text((120, 200), "A line on a scanned page", fill=0, font=ImageFont.load_default(size=46))
    sheet.save(folder / "scan.png", dpi=(200, 200))
    (folder / "inbox").mkdir()
    write_pdf(folder / "inbox" / "a.pdf", pages[:1])
    (folder / "inbox" / "b.pdf").write_bytes(b"no PDF")


SAYS = {
    1: "sort the readings", 2: "text-layer", 3: "", 4: "b.pdf not read: corrupt", 5: "2 ok", 6: "3 of 3 pages",
    7: "3 1", 8: "password-required\nok", 9: "line on", 10: "",
}  # fmt: skip
"""A part of what each recipe prints."""


def test_there_are_ten_recipes() -> None:
    assert [int(title.split(".")[0]) for title, _ in RECIPES] == list(range(1, 11)) == sorted(SAYS)


@pytest.mark.parametrize(("title", "code"), RECIPES, ids=[title.split(".")[0] for title, _ in RECIPES])
def test_recipes_run(
    title: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe_documents(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, f"docs/python.md, recipe {title}", "exec"), {"__name__": "recipe"})
    assert SAYS[int(title.split(".")[0])] in capsys.readouterr().out
