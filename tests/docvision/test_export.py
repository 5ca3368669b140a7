"""Exports: Markdown read back by a Markdown parser, HTML by an HTML parser and CSV by a CSV reader show the
document's own text and structure.

The random texts are drawn from Markdown's own special characters, where a wrong escape is likeliest; each test
draws from a seeded generator, so it fails always or never.
"""

from __future__ import annotations

import csv
import io
import random
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from docvision import export
from docvision.page import Block, Box, Cell, Document, Line, Page, Table

BOX = Box(0, 0, 100, 10)
ALPHABET = ["a", "b", "Z", "1", "23", " ", " ", *"*_`~[]()<>#+-=.|!\\&;:$\"'/{}^", "](", "&amp;", "&#60;", "<b>", "**"]
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
RANDOM_TEXTS = 1000


def document(*blocks: Block, status: str = "ok", error: str = "") -> Document:
    return Document("x.pdf", [Page(1, 200, 100, list(blocks), status=status, error=error)])  # type: ignore[arg-type]


def text_block(text: str, kind: str = "text", **fields: object) -> Block:
    return Block(kind, BOX, text, **fields)  # type: ignore[arg-type]


def random_texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choice(ALPHABET) for _ in range(draw.randint(1, 14))) for _ in range(count)]


def shown(tokens: list[Token]) -> list[str]:
    """Text of each inline token; fails where anything but plain text and breaks is in it."""
    found = []
    for token in tokens:
        if token.type != "inline":
            continue
        pieces = []
        for child in token.children or []:
            assert child.type in ("text", "softbreak", "hardbreak", "text_special"), (child.type, token.content)
            pieces.append("\n" if child.type.endswith("break") else child.content)
        found.append("".join(pieces))
    return found


def kinds(tokens: list[Token]) -> list[str]:
    return [token.type for token in tokens if token.type not in ("inline", "paragraph_open", "paragraph_close")]


def squeeze(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.split("\n") if line.strip())


def test_paragraphs_read_back_as_the_same_plain_text() -> None:
    for text in random_texts(RANDOM_TEXTS, 1):
        tokens = READER.parse(export.to_markdown(document(text_block(text))))
        assert not kinds(tokens), text
        assert squeeze("\n".join(shown(tokens))) == squeeze(text)


def test_paragraphs_of_several_lines_keep_their_breaks() -> None:
    texts = random_texts(RANDOM_TEXTS, 2)
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        text = f"{first}\n{second}"
        tokens = READER.parse(export.to_markdown(document(text_block(text))))
        assert not kinds(tokens), text
        assert squeeze("\n".join(shown(tokens))) == squeeze(text)


def test_headings_and_list_items_read_back() -> None:
    for text in random_texts(RANDOM_TEXTS, 3):
        if not text.strip():
            continue
        tokens = READER.parse(export.to_markdown(document(text_block(text, "heading", level=2))))
        assert kinds(tokens) == ["heading_open", "heading_close"] and tokens[0].tag == "h2", text
        assert squeeze(shown(tokens)[0]) == squeeze(text)
        tokens = READER.parse(export.to_markdown(document(text_block(text, "list", marker="\u2022"))))
        assert kinds(tokens) == ["bullet_list_open", "list_item_open", "list_item_close", "bullet_list_close"], text
        assert squeeze("\n".join(shown(tokens))) == squeeze(text)


def test_pipe_cells_read_back() -> None:
    texts = [" ".join(text.split()) for text in random_texts(RANDOM_TEXTS, 4)]
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        table = Table(
            2, 2, [Cell(0, 0, "A", header=True), Cell(0, 1, "B", header=True), Cell(1, 0, first), Cell(1, 1, second)]
        )
        tokens = READER.parse(export.table_to_markdown(table))
        assert shown(tokens) == ["A", "B", first, second]


def test_code_reads_back_whatever_is_in_it() -> None:
    for text in ["a`b", "```\nx\n```", "~~~", "  indented\n\n\tline", "<b>&amp;*x*"]:
        tokens = READER.parse(export.to_markdown(document(text_block(text, "code"))))
        assert [token.type for token in tokens] == ["fence"] and tokens[0].content.rstrip("\n") == text


@pytest.mark.parametrize(
    "text",
    [
        "A rate of 5 % (see Fig. 2), i.e. 3 * 4 = 12 & more; a_b_c, #3, C# and C++ cost $5.",
        "Write to x@example.org [1], [2-4]. \u201cQuoted\u201d \u2013 1 < 2 > 0 | a ~ b",
        "The year was 1990. Then it rained!",
        "p < 0.05* and a footnote mark\u2020",
    ],
)
def test_prose_is_not_escaped(text: str) -> None:
    assert export.to_markdown(document(text_block(text))) == text + "\n"


def test_lists_nest_and_keep_numbers() -> None:
    items = [
        ("1.", 0, "one"),
        ("\u2022", 1, "dot"),
        ("\u2013", 1, "dash"),
        ("2.", 0, "two"),
        ("4.", 0, "four"),
        ("a)", 0, "x"),
    ]
    blocks = [text_block(text, "list", marker=marker, level=level) for marker, level, text in items]
    markdown = export.to_markdown(document(*blocks))
    assert markdown == "1. one\n   - dot\n   - dash\n2. two\n<!-- -->\n4. four\n- a) x\n"
    tokens = READER.parse(markdown)
    starts = [token.attrGet("start") or 1 for token in tokens if token.type == "ordered_list_open"]
    assert starts == [1, 4]
    html = export.to_html(document(*blocks))
    assert '<ol>\n<li value="1">one\n<ul>\n<li>dot\n</li>\n<li>dash\n</li></ul>\n</li>\n<li value="2">two' in html
    assert '<ul class="marked">\n<li>a) x' in html


def test_markers_stand_before_the_text() -> None:
    assert export.to_markdown(document(text_block("M. Curie", "list", marker="M."))) == "- M. M. Curie\n"
    assert export.to_markdown(document(text_block("See there.", "footnote", marker="3"))) == "3 See there.\n"


def test_headers_figures_and_failed_pages() -> None:
    blocks = [text_block("Running head", "header"), Block("figure", BOX), text_block("Fig. 1", "caption")]
    page = document(*blocks)
    assert export.to_markdown(page) == "Fig. 1\n"
    assert export.to_markdown(page, headers=True) == "Running head\n\nFig. 1\n"
    assert export.to_markdown(page, images={(1, 1): "x/p1.png"}) == "![figure](x/p1.png)\n\nFig. 1\n"
    assert export.to_markdown(document()) == ""
    failed = document(status="failed", error="cannot --> be <read>")
    assert export.to_markdown(failed) == "<!-- page 1 failed: cannot be read -->\n"


def test_formulas_are_mathematics_only_where_they_are_tex() -> None:
    assert export.to_markdown(document(text_block("\\frac{a}{b}", "formula"))) == "$$\n\\frac{a}{b}\n$$\n"
    assert export.to_markdown(document(text_block("a + b = c", "formula"))) == "a + b = c\n"


def spanning_table() -> Table:
    cells = [
        Cell(0, 0, "Name", row_span=2, header=True),
        Cell(0, 1, "Size", column_span=2, header=True),
        Cell(1, 1, "w", header=True),
        Cell(1, 2, "h", header=True),
        Cell(2, 0, 'a "quoted", b'),
        Cell(2, 1, "1"),
        Cell(2, 2, "two\nlines"),
    ]
    return Table(3, 3, cells)


def test_spans_are_written_once_in_csv() -> None:
    rows = list(csv.reader(io.StringIO(export.table_to_csv(spanning_table()))))
    assert rows == [["Name", "Size", ""], ["", "w", "h"], ['a "quoted", b', "1", "two\nlines"]]


def test_random_csv_tables_read_back() -> None:
    draw = random.Random(5)
    for _ in range(200):
        rows, columns = draw.randint(1, 5), draw.randint(1, 5)
        texts = random_texts(rows * columns, draw.randint(0, 10**6))
        cells = [Cell(i // columns, i % columns, text) for i, text in enumerate(texts)]
        read = list(csv.reader(io.StringIO(export.table_to_csv(Table(rows, columns, cells)))))
        assert [text for row in read for text in row] == texts


class Grid(HTMLParser):
    """Reads a table's rows as (tag, rowspan, colspan, text), and notes section changes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[list[object]]] = []
        self.sections: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("thead", "tbody"):
            self.sections.append(tag)
        elif tag in ("td", "th"):
            spans = dict(attrs)
            self.rows[-1].append([tag, int(spans.get("rowspan") or 1), int(spans.get("colspan") or 1), ""])
        elif tag == "br":
            self.rows[-1][-1][3] = f"{self.rows[-1][-1][3]}\n"

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and data.strip():
            self.rows[-1][-1][3] = f"{self.rows[-1][-1][3]}{data}"


def test_html_tables_keep_spans_sections_and_text() -> None:
    grid = Grid()
    grid.feed(export.table_to_html(spanning_table()))
    assert grid.sections == ["thead", "tbody"]
    assert grid.rows == [
        [["th", 2, 1, "Name"], ["th", 1, 2, "Size"]],
        [["th", 1, 1, "w"], ["th", 1, 1, "h"]],
        [["td", 1, 1, 'a "quoted", b'], ["td", 1, 1, "1"], ["td", 1, 1, "two\nlines"]],
    ]


def test_html_tables_stay_rectangular_with_holes_and_spans_that_reach_too_far() -> None:
    table = Table(2, 3, [Cell(0, 0, "a", row_span=9, header=True), Cell(1, 2, "<i>", column_span=9)])
    grid = Grid()
    grid.feed(export.table_to_html(table))
    assert grid.rows == [
        [["th", 2, 1, "a"], ["td", 1, 1, ""], ["td", 1, 1, ""]],
        [["td", 1, 1, ""], ["td", 1, 1, "<i>"]],
    ]


def test_the_table_form_loses_nothing_unless_forced() -> None:
    plain = Table(2, 2, [Cell(0, 0, "a", header=True), Cell(0, 1, "b", header=True), Cell(1, 0, "1")])
    assert export.table_to_markdown(plain) == "| a | b |\n| --- | --- |\n| 1 |  |"
    bare = Table(1, 2, [Cell(0, 0, "1"), Cell(0, 1, "2")])
    assert export.table_to_markdown(bare) == "|  |  |\n| --- | --- |\n| 1 | 2 |"
    assert export.table_to_markdown(spanning_table()).startswith("<table>")
    assert export.table_to_markdown(spanning_table(), "markdown").endswith('| a "quoted", b | 1 | two<br>lines |')
    assert export.table_to_markdown(plain, "html").startswith("<table>")
    assert export.table_to_markdown(Table(0, 0)) == ""


def test_html_is_escaped_and_self_contained() -> None:
    blocks = [
        text_block("<script>alert(1)</script> & \x00more", "heading", level=9),
        text_block("a < b", "code"),
        text_block("note", "footnote", marker="1"),
    ]
    html = export.to_html(document(*blocks))
    assert "<h6>&lt;script&gt;alert(1)&lt;/script&gt; &amp; more</h6>" in html
    assert "<pre><code>a &lt; b</code></pre>" in html and '<p class="footnote">1 note</p>' in html
    assert "<script" not in html and "http" not in html


def test_html_elements_are_balanced() -> None:
    """Lists open and close in any order of levels and markers (random, 300 documents)."""
    draw = random.Random(6)
    for _ in range(300):
        blocks = []
        for _ in range(draw.randint(1, 9)):
            kind = draw.choice(["list", "list", "list", "text"])
            marker = draw.choice(["-", "1.", "7.", "a)", ""])
            blocks.append(text_block("x", kind, marker=marker, level=draw.randint(0, 3)))
        stack: list[str] = []
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, attrs, stack=stack: stack.append(tag) if tag != "meta" else None  # type: ignore[method-assign]
        parser.handle_endtag = lambda tag, stack=stack: check_close(stack, tag)  # type: ignore[method-assign]
        parser.feed(export.to_html(document(*blocks)))
        assert not stack


def check_close(stack: list[str], tag: str) -> None:
    assert stack and stack[-1] == tag, (tag, stack)
    stack.pop()


def test_text_export() -> None:
    table = Block("table", BOX, table=Table(1, 2, [Cell(0, 0, "a"), Cell(0, 1, "b c")]))
    blocks = [
        text_block("Title", "heading"),
        text_block("x", "list", marker="1."),
        text_block("y", "list", marker="2."),
        table,
    ]
    assert export.to_text(document(*blocks)) == "Title\n\n1. x\n2. y\n\na\tb c\n"


def test_code_without_line_feeds_takes_its_lines() -> None:
    lines = [Line("def f():", BOX), Line("    return 1", BOX)]
    block = Block("code", BOX, "def f(): return 1", lines)
    assert export.to_markdown(document(block)) == "```\ndef f():\n    return 1\n```\n"


def test_json_export_reads_back() -> None:
    original = document(text_block("x\u0000y \u2028"), Block("table", BOX, table=spanning_table()))
    assert Document.from_json(export.to_json(original)) == original


def two_pages(first: str, second: str, kind: str = "text") -> Document:
    head = text_block("Running head", "header")
    pages = [
        Page(1, 200, 100, [text_block(first)]),
        Page(2, 200, 100, [head, text_block(second, kind), text_block("End.")]),
    ]
    return Document("x.pdf", pages)


def test_a_paragraph_cut_by_a_page_end_is_joined() -> None:
    assert export.to_markdown(two_pages("It was an exam-", "ple of it.")) == "It was an example of it.\n\nEnd.\n"
    assert export.to_text(two_pages("One part", "and another.")) == "One part and another.\n\nEnd.\n"
    assert export.to_markdown(two_pages("A sentence.", "and more")) == "A sentence.\n\nand more\n\nEnd.\n"
    assert export.to_markdown(two_pages("No end", "code", "code")) == "No end\n\n```\ncode\n```\n\nEnd.\n"


def test_json_of_no_and_of_many_pages_reads_back() -> None:
    for count in (0, 1, 3):
        pages = [Page(number, 10, 20, [text_block(f'"pages":[] {number}')]) for number in range(count)]
        original = Document('"pages":[]', pages, {"title": '"pages":[]'}, warnings=["x"])
        text = export.to_json(original)
        assert Document.from_json(text) == original
        assert text.count("\n") == count + 1  # a line a page


def test_an_unknown_form_of_tables_is_told() -> None:
    with pytest.raises(ValueError, match="tables='pipes': one of auto, html, markdown"):
        export.to_markdown(Document("a.pdf"), tables="pipes")
