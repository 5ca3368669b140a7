"""What hostile files may not do: leave their folder, become markup, run, fill the memory or take for ever.

The HTTP service under floods is in test_serve_jobs.py.
"""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from hostile_pdfs import many_pages, one_page, packed, with_attachment, with_script
from made_pdfs import MadePage, write_pdf
from markdown_it import MarkdownIt
from PIL import Image
from service_checks import refused, settings

from apps import cli
from apps.demo_visits import Opened, archive, safe_name
from docvision import export
from docvision.overlay_html import to_overlay_html
from docvision.page import Block, Box, Cell, Document, Dropped, Line, Page, Table, Word
from docvision.parse import parse
from docvision.pdf import MAX_TIFF_PAGES, SourceError, open_source

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from apps.serve.app import build

LINE = "Read the height at every full hour, 8,760 numbers a year."

# Names

NAMES = [
    "..", "../up", "../../../etc/cron.d/x", "/etc/passwd", "C:\\windows\\x", "..\\..\\up", "a/../../b", "~root", "$A",
    "-rf", "--out=x", ".hidden", "con", "NUL.md", "a\nb", "a\rb", "a\x00b", "\u202egpj.exe", "x" * 300, "`id`", "$(id)",
    "a;b|c&d", "*", "?", "<b>", "'\"", " ", "", ".", "%2e%2e%2fup", "\uff0e\uff0e\uff0fup",
]  # fmt: skip


def plain(name: str) -> bool:
    """Whether a name is that of a file in the folder where it is put, and nothing else."""
    return Path(name).name == name and name not in ("", ".", "..") and "\\" not in name and name.isprintable()


@pytest.mark.parametrize("name", NAMES)
def test_names_of_uploads_stay_in_their_folder(name: str) -> None:
    for given in (name, f"{name}.pdf"):
        safe = safe_name(given)
        assert plain(safe) and not safe.startswith((".", "-")) and len(safe) < 100, safe


def test_a_zip_file_unpacks_into_its_folder(tmp_path: Path) -> None:
    document = Document("x", [Page(1, 100, 100, [Block("text", Box(0, 0, 9, 9), LINE)])])
    names = {Path(safe_name(f"{name}.pdf")).stem for name in NAMES}
    opened = [Opened(name, tmp_path, document) for name in sorted(names)]
    with zipfile.ZipFile(io.BytesIO(archive(opened))) as file:
        assert len(file.namelist()) >= len(names) > 20
        for name in file.namelist():
            assert plain(name), name


def test_outputs_stay_in_the_output_folder(tmp_path: Path) -> None:
    """Files whose names look like ways out, each named by itself: in a folder, hidden ones are not looked for."""
    inputs, out = tmp_path / "in", tmp_path / "deep" / "out"
    inputs.mkdir()
    for name in NAMES:
        file = name.replace("/", "\u2215").replace("\x00", "")[:200] + ".pdf"
        write_pdf(inputs / file, [MadePage([LINE])])
    given = sorted(inputs.iterdir())
    assert cli.main(["parse", *map(str, given), "--layout", "rules", "-o", f"{out}/", "-q"]) == 0
    made = {path for path in tmp_path.rglob("*") if path.is_file()} - set(given)
    assert len([path for path in made if path.suffix == ".md"]) == len(given) > 25
    assert all(out in path.parents for path in made)


@pytest.mark.parametrize("name", ["../../up.pdf", "/etc/passwd", "..", "a\\..\\b"])
def test_the_service_never_uses_a_name_as_a_path(name: str, client: TestClient, tmp_path: Path) -> None:
    pdf = write_pdf(tmp_path / "a.pdf", [MadePage([LINE])]).read_bytes()
    response = client.post("/parse", files={"file": (name, pdf)})
    assert response.status_code == 200 and plain(response.json()["source"])


# Markup

SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    SCRIPT, "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", f'">{SCRIPT}', "' onmouseover='alert(1)",
    "[x](javascript:alert(1))", "![x](javascript:alert(1))", "<javascript:alert(1)>", "[x]: javascript:alert(1)",
    f"```\n{SCRIPT}\n```", f"~~~\n{SCRIPT}", f"-->{SCRIPT}<!--", f"</title>{SCRIPT}", f"</style>{SCRIPT}",
    f"</pre></code></textarea>{SCRIPT}", "&lt;script&gt;", "&#x3c;script&#x3e;", f"\\{SCRIPT}", f"\\\\{SCRIPT}",
    "<<script>script>alert(1)<</script>/script>", "<scr\x00ipt>alert(1)</scr\x00ipt>", f"$${SCRIPT}$$",
    "\\alpha_{x} <img src=x onerror=alert(1)>", "| a | <iframe src=//evil> |", '<!DOCTYPE x [<!ENTITY y "z">]>',
    "<?php x ?>", f"<![CDATA[{SCRIPT}]]>", f"\u2028{SCRIPT}", f"    {SCRIPT}", f"1. {SCRIPT}", f"> {SCRIPT}",
    '<https://x" onclick="alert(1)>', "[a]\n[a]: javascript:alert(1)", "<SCRIPT\n>alert(1)</SCRIPT>",
    "<img\nsrc=x\nonerror=alert(1)>", "[x](<javascript:alert(1)>)", "[x][javascript:alert(1)]", "a<b/c>d",
]  # fmt: skip
KINDS = get_args(Block.__annotations__["kind"]) or (
    "text", "heading", "list", "caption", "table", "figure", "header", "footer", "footnote", "code", "formula",
)  # fmt: skip
OWN_TAGS = set(
    "html head meta title style body section h1 h2 h3 h4 h5 h6 p ul ol li pre code table thead tbody tr td th br figure"
    " figcaption img header footer em strong a hr blockquote s".split()
)
OVERLAY_TAGS = OWN_TAGS | set("main nav span i button svg rect circle text g div image script".split())


class Tags(HTMLParser):
    """Collects the tags that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attributes))


def foreign(html: str, known: set[str]) -> list[object]:
    """Tags and attributes that come from no export of ours."""
    parser = Tags()
    parser.feed(html)
    parser.close()
    bad: list[object] = []
    for tag, attributes in parser.found:
        addresses = [value or "" for name, value in attributes if name in ("href", "src")]
        loud = [name for name, _ in attributes if name.startswith("on")]
        scheme = [place for place in addresses if place.split("/")[0].lower().startswith(("javascript:", "data:text"))]
        if tag not in known or loud or scheme:
            bad.append((tag, attributes))
    return bad


def hostile_document(kind: str, text: str) -> Document:
    """``text`` in every place of a document that holds text."""
    words = [Line(text, Box(0, 0, 1, 1), [Word(text, Box(0, 0, 1, 1))])]
    block = Block(kind, Box(0, 0, 10, 10), text, words, 1, text if kind in ("list", "footnote") else "")  # type: ignore[arg-type]
    if kind == "table":
        cells = [Cell(row, column, text=text, header=not row) for row in range(2) for column in range(2)]
        block.text, block.table = "", Table(2, 2, cells)
    page = Page(1, 100, 100, [block], dropped=[Dropped(text, Box(0, 0, 1, 1), text)], warnings=[text])
    failed = Page(2, 100, 100, status="failed", error=text)
    return Document(text, [page, failed], metadata={"title": text, text: text}, warnings=[text])


def all_markup(document: Document, picture: str) -> Iterator[tuple[str, str, set[str]]]:
    """(name, HTML as a browser gets it, tags that are ours) of each export."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for style in get_args(export.TableStyle):
        markdown = export.to_markdown(document, True, style, {(1, 0): picture}, True)
        yield f"Markdown, tables {style}", reader.render(markdown), OWN_TAGS
    yield "HTML", export.to_html(document, True, {(1, 0): picture}), OWN_TAGS
    overlay = to_overlay_html(document, {})
    assert overlay.lower().count("<script") == 1
    yield "overlay", overlay, OVERLAY_TAGS


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_a_document_becomes_markup(text: str) -> None:
    for kind in KINDS:
        for name, html, known in all_markup(hostile_document(kind, text), text):
            assert not foreign(html, known), (kind, name)


def test_nothing_put_together_becomes_markup() -> None:
    """Pieces of attacks in random order, where one may undo the escaping of another."""
    pieces = [piece for text in HOSTILE for piece in (text, text[: len(text) // 2], text[len(text) // 2 :])]
    pieces += ["\\", "`", "``", "\n", "\n\n", "    ", "<!--", "-->", "&", "|", "*", "_", "[", "](", "$$", "<", "> "]
    chance = random.Random(7)
    for _ in range(400):
        text = "".join(chance.choices(pieces, k=chance.randint(2, 5)))
        for name, html, known in all_markup(hostile_document(chance.choice(KINDS), text), "p1-f1.png"):
            assert not foreign(html, known), (name, text)


def test_a_cell_of_a_workbook_is_no_formula() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    from docvision.sheets import to_xlsx

    texts = ["=cmd|'/C calc'!A0", "+1+1", "-1+1", "@SUM(1)", '=HYPERLINK("http://x")']
    table = Table(len(texts), 1, [Cell(row, 0, text=text) for row, text in enumerate(texts)])
    page = Page(1, 9, 9, [Block("table", Box(0, 0, 1, 1), table=table)])
    sheet = openpyxl.load_workbook(io.BytesIO(to_xlsx(Document("x", [page])))).active
    assert [(cell.value, cell.data_type) for cell in sheet["A"]] == [(text, "s") for text in texts]


# Scripts and attached files


@pytest.mark.parametrize("listed", [True, False])
def test_scripts_are_never_run_and_told(listed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(with_script(listed))
    document = parse(path, layout="rules")
    assert document.status == "ok" and "height at every full hour" in export.to_text(document, headers=True)
    assert document.warnings == [
        "the PDF holds JavaScript, which is never run",
        "the PDF wants to start a program, which is never done",
    ]
    assert "alert" not in document.to_json() and "launchURL" not in document.to_json()


def test_attached_files_are_named_and_stay_where_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(with_attachment())
    (note,) = parse(path, layout="rules").warnings
    assert note == "the PDF holds attached files, which are not read: ../../evil.exe"
    assert cli.main(["parse", str(path), "--layout", "rules", "-o", str(tmp_path / "out" / "a.md")]) == 0
    assert note in capsys.readouterr().err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"never read" in file.read_bytes() for file in files if file != path)
    path.write_bytes(with_attachment(b"a\\012b\\033[31m" + b"x" * 200))
    (note,) = parse(path, layout="rules").warnings
    assert note.isprintable() and len(note) < 150


def test_an_ordinary_document_has_no_such_notes(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(one_page())
    assert parse(path, layout="rules").warnings == []


# Bombs


def png(width: int, height: int, rows: int, extra: bytes = b"") -> bytes:
    """A white grey PNG that holds ``rows`` of the rows that it claims."""
    packer = zlib.compressobj(9)
    data = b"".join([*(packer.compress(b"\0" + b"\xff" * width) for _ in range(rows)), packer.flush()])
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(build(settings(max_pages=3, max_mb=5, max_seconds=30))) as client:
        yield client


def test_a_picture_that_claims_too_much_is_refused_before_it_is_unpacked(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(60_000, 60_000, rows=1))
    with pytest.raises(SourceError, match="million pixels"):
        open_source(path)
    refused(client.post("/parse", content=png(12_000, 12_000, rows=1)), 413, "too-large")


def test_text_packed_into_a_picture_is_not_unpacked_without_end(tmp_path: Path) -> None:
    bomb = chunk(b"zTXt", b"key\0\0" + zlib.compress(bytes(100_000_000), 9))
    path = tmp_path / "a.png"
    path.write_bytes(png(50, 50, rows=50, extra=bomb))
    with pytest.raises(SourceError, match="damaged"):
        parse(path, layout="rules")


def tiff(frames: int, order: str = "<", loop: bool = False) -> bytes:
    """A TIFF of so many white pages of one pixel, the last of which may lead back to the first."""
    tags = [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 0), (277, 1), (278, 1), (279, 1)]
    size = 2 + 12 * len(tags) + 4
    out = bytearray((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8))
    for frame in range(frames):
        out += struct.pack(order + "H", len(tags))
        out += b"".join(struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in tags)
        last = frame == frames - 1
        out += struct.pack(order + "I", (8 if loop else 0) if last else 8 + (frame + 1) * size)
    return bytes(out)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pages_of_a_tiff_are_counted_up_to_a_limit(order: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    for content, count in ((tiff(1, order), 1), (tiff(40, order), 40), (tiff(3, order, loop=True), 3)):
        path.write_bytes(content)
        with open_source(path) as source:
            assert source.page_count == count
    path.write_bytes(tiff(40, order)[:-30])
    with open_source(path) as source:
        assert source.page_count == 40
    path.write_bytes(tiff(MAX_TIFF_PAGES + 1, order))
    with pytest.raises(SourceError, match=f"more than {MAX_TIFF_PAGES} pages"):
        open_source(path)


@pytest.mark.parametrize("big", [False, True])
def test_pages_of_a_tiff_are_counted_as_pillow_counts(big: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    sheets = [Image.new("L", (20, 10 + number), 255) for number in range(5)]
    sheets[0].save(path, save_all=True, append_images=sheets[1:], big_tiff=big)
    with open_source(path) as source, Image.open(path) as image:
        assert source.page_count == getattr(image, "n_frames", 0) == 5


BOMBS = {
    "a gigabyte of spaces": lambda: packed(b" " * 1_000_000, 1000),
    "millions of rectangles": lambda: packed(b"1 1 5 5 re f\n" * 1000, 3000),
}


@pytest.mark.parametrize(
    "name", ["a gigabyte of spaces", pytest.param("millions of rectangles", marks=pytest.mark.slow)]
)
def test_packed_pages_end_by_time_or_memory_and_the_service_goes_on(name: str, tmp_path: Path) -> None:
    """A page is parsed inside PDFium, which cannot be interrupted: what bounds it is the process."""
    bomb = BOMBS[name]()
    assert len(bomb) < 10_000
    pdf = write_pdf(tmp_path / "a.pdf", [MadePage([LINE])]).read_bytes()
    with TestClient(build(settings(max_seconds=4, max_memory_mb=700))) as client:
        response = client.post("/parse", content=bomb)
        assert response.json().get("code") in ("out-of-time", "reader-crashed", "unreadable", "out-of-memory")
        assert client.post("/parse", content=pdf).status_code == 200


def test_memory_has_a_limit(tmp_path: Path) -> None:
    """64 million pixels are allowed, and unpack to more than this process may have; else a white page is no failure."""
    bomb = png(8000, 8000, rows=8000)
    with TestClient(build(settings(max_memory_mb=300))) as client:
        response = client.post("/parse", content=bomb)
        assert response.json().get("code") in ("unreadable", "corrupt", "out-of-memory", "reader-crashed")


# Many pages


def test_ten_thousand_pages_are_refused_or_read_in_part(client: TestClient) -> None:
    """Within the seconds for one document, of which reading them all would take many times as much."""
    content = many_pages(10_000)
    message = refused(client.post("/parse", content=content), 413, "too-many-pages")["message"]
    assert message == "10000 of 10000 pages are asked for, here 3 at most"
    response = client.post("/parse?pages=2,r1", content=content)
    assert [page["number"] for page in response.json()["pages"]] == [2, 10_000]


def test_pages_that_are_only_claimed_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(many_pages(1_000_000, own_objects=False))
    document = parse(path, layout="rules")
    assert len(document.pages) == 1 and document.status == "ok"
    path.write_bytes(many_pages(50))
    with open_source(path) as source:
        assert source.page_count == 50
