"""Looking at a document: the overlay, its passages, what differs between two, and the commands that write them.

Nothing that stands in a document may become markup, whatever it says: the overlay is opened by people who check
documents that strangers sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image, ImageColor

from apps import cli
from docvision.compare import compare, word_changes
from docvision.crops import figure_crops
from docvision.export import to_markdown, to_text
from docvision.overlay_html import COLOURS, SCRIPT, draw_overlay, page_svg, to_overlay_html
from docvision.page import Block, Box, Cell, Document, Dropped, Page, Table
from docvision.passages import passages, to_jsonl

HOSTILE = "\"><script>alert(1)</script><svg onload=alert(2)><img src=x onerror=alert(3)>' onclick=alert(4) </style>"
PROSE = ["Read the height at every full hour, 8,760 numbers a year.", "Then sort the readings in columns."]
TAGS = set(
    "html head meta title style body header h1 h2 p span i nav a main section div ol li button svg g rect".split()
)
TAGS |= set("circle text image script table thead tbody tr td th".split())


class Markup(HTMLParser):
    """Tags, attributes and scripts that a reader of the file would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        self.inside = tag

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""


def block(text: str, y: float = 10.0, **options: object) -> Block:
    return Block(**{"kind": "text", "box": Box(10, y, 90, y + 10), "text": text, **options})  # type: ignore[arg-type]


def document(*blocks: Block, **options: object) -> Document:
    return Document("a.pdf", [Page(1, 100, 200, list(blocks))], **options)  # type: ignore[arg-type]


def hostile_document() -> Document:
    table = Table(1, 1, [Cell(0, 0, HOSTILE)])
    blocks = [
        block(HOSTILE), block(HOSTILE, 30, kind="code"), block("", 50, kind="table", table=table),
        block(HOSTILE, 70, kind="list", marker=HOSTILE),
    ]  # fmt: skip
    page = Page(1, 100, 200, blocks, dropped=[Dropped(HOSTILE, Box(0, 0, 5, 5), HOSTILE)], warnings=[HOSTILE])
    failed = Page(2, 0, 0, status="failed", error=HOSTILE)
    return Document(HOSTILE, [page, failed], metadata={"title": HOSTILE})


# The overlay


def test_nothing_in_a_document_becomes_markup() -> None:
    found = Markup(to_overlay_html(hostile_document(), {}))
    assert set(found.tags) - TAGS <= {"title"} and found.scripts == [SCRIPT]
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert [value for name, value in found.attributes if name == "aria-label" and "<script>" in value]
    assert found.tags["svg"] == 2 and found.tags["img"] == 0


def test_the_policy_allows_this_script_alone_and_nothing_is_loaded() -> None:
    text = to_overlay_html(document(block("Hello")), {1: b"\xff\xd8\xff picture"})
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = next(value for _, value in Markup(text).attributes if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'") and f"script-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?:|src=|@import|url\(", text)
    assert 'href="data:image/jpeg;base64,' in text


def test_boxes_carry_their_order_their_certainty_and_their_source() -> None:
    blocks = [block("a"), block("b", 30, confidence=0.75), block("c", 50, confidence=0.2, source="model")]
    svg = page_svg(document(*blocks).pages[0])
    marks = re.findall(r'<g class="(\w+) (\w+)" data-block="1-(\d)".*?>(\d)</text>', svg)
    assert marks == [("sure", "layer", "0", "1"), ("likely", "layer", "1", "2"), ("doubtful", "model", "2", "3")]


def test_the_picture_shows_a_box_where_the_block_is() -> None:
    page = document(block("a", confidence=0.1)).pages[0]
    drawn = draw_overlay(page, Image.new("L", (200, 400), 255))
    assert drawn.size == (200, 400)
    assert drawn.getpixel((170, 20)) == ImageColor.getrgb(COLOURS["doubtful"])  # the upper edge, in points times two
    assert drawn.getpixel((100, 300)) == (255, 255, 255)


# Passages


def long_document() -> Document:
    table = Table(2, 2, [Cell(r, c, f"cell{r}{c}", header=r == 0) for r in range(2) for c in range(2)])
    first = [
        block("Contents", kind="header"), block("Tides", kind="heading", level=1),
        block("Of the sea", kind="heading", level=2), block("The sea rises. It falls again. " * 40),
        block("", 90, kind="table", table=table), block("and goes on,", 100),
    ]  # fmt: skip
    second = [
        block("x", kind="footer"),
        block("Of the Moon", kind="heading", level=2),
        block("It pulls.", source="model"),
    ]
    pages = [Page(1, 100, 200, first), Page(2, 100, 200, second)]
    return Document("tides.pdf", pages, settings={"join_tables": "off"})


def test_every_word_of_the_text_is_in_one_passage() -> None:
    made = long_document()
    found = Counter(word for passage in passages(made, 300) for word in re.findall(r"\w+", passage.text))
    assert found == Counter(re.findall(r"\w+", to_text(made)))


def test_passages_know_their_headings_pages_and_boxes() -> None:
    made = list(passages(long_document(), 300))
    assert all(len(passage.text) <= 300 for passage in made)
    assert made[0].text.startswith("Tides\n\nOf the sea\n\nThe sea rises.")
    assert made[0].headings == ["Tides", "Of the sea"] and made[-1].headings == ["Tides", "Of the Moon"]
    tables = [passage for passage in made if passage.text.startswith("| cell00")]
    assert len(tables) == 1 and [place.box for place in tables[0].places] == [Box(10, 90, 90, 100)]
    assert made[-1].places[0].page == 2 and made[-1].sources == ["text-layer", "model"]
    lines = [json.loads(line) for line in to_jsonl(long_document(), 300)]
    assert [line["pages"] for line in lines] == [[1]] * (len(made) - 1) + [[2]]
    assert len({line["id"] for line in lines}) == len(made)


def test_a_long_block_is_cut_between_words() -> None:
    made = list(passages(document(block("longword " * 100)), 120))
    assert {word for passage in made for word in passage.text.split()} == {"longword"}
    assert sum(len(passage.text.split()) for passage in made) == 100


# Differences


def test_what_changed_is_said_block_by_block() -> None:
    before = document(block("Same"), block("The sea rises at noon.", 30), block("Gone", 50))
    after = document(block("Same"), block("The sea falls at noon.", 36, kind="heading", level=2, source="model"))
    found = [(change.block, change.what, change.detail) for change in compare(before, after)]
    assert found == [
        (2, "kind", "text -> heading 2"),
        (2, "text", "The sea [-rises-] {+falls+} at noon."),
        (2, "source", "text-layer -> model"),
        (2, "moved", "by up to 6 points"),
        (3, "gone", "text 'Gone'"),
    ]
    assert not list(compare(before, before))
    other = Document("a.pdf", [*before.pages, Page(2, 100, 200)])
    assert [str(change) for change in compare(before, other)] == ["page 2: page: only in the second document"]


def test_long_texts_are_shown_around_the_change() -> None:
    words = [f"w{n}" for n in range(40)]
    shown = word_changes(" ".join(words), " ".join([*words[:20], "new", *words[21:]]))
    assert shown == "... w17 w18 w19 [-w20-] {+new+} w21 w22 w23 ..."


# Commands


@pytest.fixture
def parsed(tmp_path: Path) -> Path:
    """JSON of a document of two pages, the PDF beside it."""
    pdf = write_pdf(tmp_path / "report.pdf", [MadePage(PROSE), MadePage(["Second page."])])
    assert run("parse", "--layout", "rules", pdf, "-o", tmp_path, "-f", "json", "-q") == 0
    return tmp_path / "report.json"


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_show_draws_one_page_or_all(parsed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", parsed, "page", 2) == 0
    with Image.open(parsed.with_name("report.p2.png")) as picture:
        assert picture.size == (1275, 1650)  # 8.5 x 11 inches
        assert ImageColor.getrgb(COLOURS["sure"]) in {color for _, color in picture.getcolors(1 << 24)}
    assert run("show", parsed, "-o", parsed.with_name("all.html")) == 0
    assert capsys.readouterr().out.split() == [str(parsed.with_name(name)) for name in ("report.p2.png", "all.html")]
    text = parsed.with_name("all.html").read_text()
    assert text.count("<image href") == 2 and "Second page." in text


def test_show_says_what_is_wrong(parsed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = parsed.with_name("moved.pdf")
    parsed.with_name("report.pdf").rename(moved)
    for arguments, message in [
        ((parsed, "page", 7), "page 7 is not in this document, which has 1, 2"),
        ((parsed, "cover"), "'cover' is no page"),
        ((parsed, "2"), "report.pdf is not there any more: name the PDF or image with --source"),
        ((moved, "2"), "is not a docvision document"),
        ((parsed.with_name("no.json"),), "cannot be read"),
    ]:
        assert run("show", *arguments) == 1
        assert message in capsys.readouterr().err
    assert run("show", parsed, "2", "--source", moved) == 0


def test_diff_tells_by_its_exit_code(parsed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = parsed.with_name("other.json")
    other.write_text(parsed.read_text().replace("Second", "Third"))
    assert run("diff", parsed, parsed) == 0
    assert capsys.readouterr().out == "no differences\n"
    assert run("diff", parsed, other) == 3
    out = capsys.readouterr().out.splitlines()
    assert out == ["page 2, block 1: text: [-Second-] {+Third+} page.", "1 differences on 1 pages"]


def test_parse_writes_overlay_and_passages(tmp_path: Path) -> None:
    pdf = write_pdf(tmp_path / "a.pdf", [MadePage(PROSE)])
    out = tmp_path / "out"
    assert run("parse", "--layout", "rules", pdf, "-o", out, "-f", "overlay,jsonl,md", "--anchors", "-q") == 0
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == ["a.jsonl", "a.md", "a.overlay.html"]
    assert PROSE[0] in json.loads((out / "a.jsonl").read_text().splitlines()[0])["text"]
    assert (out / "a.md").read_text().startswith('<a id="page-1"></a>\n\nRead the height')


def test_figures_are_cut_out_and_linked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pdf = write_pdf(tmp_path / "a b.pdf", [MadePage(PROSE, picture=Image.linear_gradient("L"), size=(200, 200))])
    made = Document(str(pdf), [Page(1, 200, 200, [block("", kind="figure", box=Box(50, 20, 150, 80))])])
    ((key, name, picture),) = figure_crops(made, pdf, dpi=72)
    assert (key, name) == ((1, 0), "p1-f1.png")
    (tmp_path / "f.png").write_bytes(picture)
    assert Image.open(tmp_path / "f.png").size == (104, 64)  # the box and two points around it
    assert run("parse", pdf, "--images", "--layout", "rules") == 2
    assert "name a folder with -o" in capsys.readouterr().err


def test_anchors_stand_for_every_page_up_to_the_text() -> None:
    made = Document("a.pdf", [Page(1, 9, 9), Page(2, 9, 9, [block("Two.")]), Page(5, 9, 9, [block("Five.")])])
    parts = to_markdown(made, anchors=True).split("\n\n")
    assert parts == ['<a id="page-1"></a>', '<a id="page-2"></a>', "Two.", '<a id="page-5"></a>', "Five.\n"]
