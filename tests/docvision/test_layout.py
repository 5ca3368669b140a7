"""Reading order, kinds and tables on typeset pages whose content is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from typeset_pages import LOREM, parse, texts

from docvision.blocks import join_lines
from docvision.layout import finish_document, layout_from_layer
from docvision.page import Block, Box, Line, Page, Word
from docvision.textlayer import TextLayer


def test_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    source = f"""
    #set page(width: 400pt, height: 500pt, margin: 40pt)
    #set text(size: 9pt)
    #align(center, text(size: 16pt)[A title over both columns])
    *Abstract.* {LOREM * 2}
    #v(6pt)
    #columns(2, gutter: 16pt)[#set par(justify: true)
    First starts here. {LOREM * 3} First ends here.
    #colbreak()
    Second starts here. {LOREM * 2} Second ends here.]
    """
    (page,) = parse(tmp_path, source)
    whole = " ".join(block.text for block in page.blocks)
    marks = ["A title", "Abstract.", "First starts", "First ends", "Second starts", "Second ends"]
    assert [whole.index(mark) for mark in marks] == sorted(whole.index(mark) for mark in marks)
    assert page.blocks[0].kind == "heading" and page.blocks[0].level == 1
    assert any(
        block.text.startswith("First starts") and block.text.endswith("First ends here.") for block in page.blocks
    )


def test_hyphens_at_line_ends_go_and_real_ones_stay(tmp_path: Path) -> None:
    source = """
    #set page(width: 160pt, height: 300pt, margin: 20pt)
    #set text(size: 10pt, hyphenate: true, lang: "en")
    #set par(justify: true)
    Internationalization considerations notwithstanding, representational characteristics
    unquestionably demonstrate extraordinarily disproportionate responsibilities.
    """
    (page,) = parse(tmp_path, source)
    assert any(line.text.endswith(("-", "\u2010")) for block in page.blocks for line in block.lines)
    (body,) = texts(page, "text")
    assert body.split()[:2] == ["Internationalization", "considerations"]
    assert "-" not in body and "\u2010" not in body


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (["exam-", "ple text"], "example text"),
        (["SH-", "SY5Y cells"], "SH-SY5Y cells"),
        (["see https://example.org/", "path for more"], "see https://example.org/path for more"),
        (["\u65e5\u672c", "\u8a9e\u3002"], "\u65e5\u672c\u8a9e\u3002"),
        (["ends here.", "Next"], "ends here. Next"),
        (["from 3 \u2013", "7 days"], "from 3 \u2013 7 days"),
    ],
)
def test_joined_lines(lines: list[str], joined: str) -> None:
    assert join_lines(lines) == joined


def test_a_compound_word_keeps_its_hyphen_where_the_document_writes_it_so() -> None:
    def line_words(text: str, y: float) -> list[Word]:
        return [Word(part, Box(20 + 60 * i, y, 75 + 60 * i, y + 10), size=10) for i, part in enumerate(text.split())]

    words = line_words("a well-known thing", 20) + line_words("this well-", 60) + line_words("known word goes", 72)
    blocks, _ = layout_from_layer(TextLayer(words=words), 300, 300)
    page = Page(1, 300, 300, blocks)
    finish_document([page])
    assert "this well-known word goes" in " ".join(block.text for block in page.blocks)


def test_running_heads_and_page_numbers_leave_the_text(tmp_path: Path) -> None:
    source = f"""
    #set page(width: 300pt, height: 300pt, margin: 50pt, header: [Journal of Deltas #h(1fr) Vol. 7],
      footer: align(center, context counter(page).display()))
    #set text(size: 9pt)
    {LOREM * 12}
    """
    pages = parse(tmp_path, source)
    assert len(pages) >= 3
    for page in pages:
        assert "Journal of Deltas" in " ".join(texts(page, "header"))
        assert texts(page, "footer") == [str(page.number)]
        assert not any("Journal" in text for text in texts(page, "text"))


def test_a_title_on_every_page_is_no_running_head(tmp_path: Path) -> None:
    source = """
    #set page(width: 300pt, height: 300pt, margin: 50pt)
    #set text(size: 9pt)
    """ + "#pagebreak()".join(f"#text(size: 16pt)[Chapter {n}]\n\n{LOREM}" for n in (1, 2, 3))
    pages = parse(tmp_path, source)
    assert [texts(page, "heading") for page in pages] == [["Chapter 1"], ["Chapter 2"], ["Chapter 3"]]


def test_headings_and_their_levels(tmp_path: Path) -> None:
    source = f"""
    #set heading(numbering: "1.1")
    #set text(size: 10pt)
    #text(size: 22pt, weight: "bold")[The whole book]

    = Methods
    {LOREM}
    == Samples
    {LOREM}
    = Results
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    found = [(block.level, block.text) for block in page.blocks if block.kind == "heading"]
    assert found == [(1, "The whole book"), (2, "1 Methods"), (3, "1.1 Samples"), (2, "2 Results")]


def test_list_items_are_blocks_with_markers_and_nesting(tmp_path: Path) -> None:
    source = f"""
    #set page(width: 300pt, height: 400pt)
    #set text(size: 10pt)
    {LOREM}

    - first point, which is long enough to be set in two lines on this narrow page
    - second point
      - below the second
    + one
    + two
    """
    (page,) = parse(tmp_path, source)
    items = [(block.marker, block.level, block.text) for block in page.blocks if block.kind == "list"]
    assert [item[0] for item in items] == ["\u2022", "\u2022", items[2][0], "1.", "2."]
    assert [item[1] for item in items] == [0, 0, 1, 0, 0]
    assert items[0][2].endswith("in two lines on this narrow page") and items[2][2] == "below the second"


def test_program_text_keeps_indents_and_lines(tmp_path: Path) -> None:
    source = f"""
    #set text(size: 10pt)
    {LOREM}
    ```
    for item in items:
        if item:
            print(item)
    ```
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    assert texts(page, "code") == ["for item in items:\n    if item:\n        print(item)"]


def test_a_figure_takes_its_labels_and_leaves_its_caption(tmp_path: Path) -> None:
    source = f"""
    #set text(size: 10pt)
    {LOREM}
    #box(width: 200pt, height: 120pt)[
      #place(dx: 20pt, dy: 20pt, circle(radius: 40pt, stroke: 1pt))
      #place(dx: 110pt, dy: 30pt, polygon(stroke: 1pt, (0pt, 0pt), (70pt, 60pt), (10pt, 70pt)))
      #place(dx: 50pt, dy: 55pt, text(size: 7pt)[inside])]

    Figure 1: A circle and its friend.

    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    assert "inside" in " ".join(texts(page, "figure"))
    assert texts(page, "caption") == ["Figure 1: A circle and its friend."]


def test_a_centred_caption_of_two_lines_is_one_block(tmp_path: Path) -> None:
    source = f"""
    #set page(width: 300pt, height: 400pt, margin: 40pt)
    #set text(size: 10pt)
    #show figure.caption: set text(size: 9pt)
    {LOREM}
    #figure(caption: [Numbers of the harbour. Heights in metres and phases in degrees.],
      table(columns: 2, [Wave], [Height], [M2], [1.4]))
    #figure(caption: [A week of predicted water at the invented harbour of Sandhaven.], rect(width: 80%, height: 60pt))
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    assert texts(page, "caption") == [
        "Table 1: Numbers of the harbour. Heights in metres and phases in degrees.",
        "Figure 1: A week of predicted water at the invented harbour of Sandhaven.",
    ]


@pytest.mark.parametrize("around", [LOREM, ""], ids=["between paragraphs", "alone"])
def test_plain_numbered_lines_are_a_list_and_no_headings(tmp_path: Path, around: str) -> None:
    items = "\n".join(
        f"    + {text}" for text in ("Flour, sugar and butter", "Call the number 0800 1234", "Six fresh eggs")
    )
    (page,) = parse(tmp_path, f"{around}\n{items}\n\n{around}")
    listed = [block for block in page.blocks if block.kind == "list"]
    assert [block.marker for block in listed] == ["1.", "2.", "3."]
    assert [block.text for block in listed][0::2] == ["Flour, sugar and butter", "Six fresh eggs"]
    headed = f'#set heading(numbering: "1.")\n= Introduction to rivers\n{LOREM}\n= Sand and silt in them\n{LOREM}'
    (page,) = parse(tmp_path, headed)
    assert texts(page, "heading") == ["1. Introduction to rivers", "2. Sand and silt in them"]


def test_a_long_list_of_a_scan_keeps_one_level_and_has_no_footnotes() -> None:
    """Lines read off a picture have no words and no font sizes, and stand a pixel or two apart from their column."""

    def block(kind: str, text: str, top: float, left: float, marker: str = "") -> Block:
        box = Box(left, top, left + 200, top + 14)
        return Block(kind, box, text, [Line(f"{marker} {text}", box, source="model")], marker=marker, source="model")

    items = [block("list", "an item", 30.0 * n, 100 + n % 3, f"{n}.") for n in range(1, 25)]
    small = block("text", "1) a note in small print", 760, 100)
    small.lines = [Line(small.text, Box(100, 760, 300, 769), source="model")]
    page = Page(1, 600, 800, [*items, small])
    finish_document([page])
    assert {(item.kind, item.level) for item in page.blocks[:-1]} == {("list", 0)}
    assert page.blocks[-1].kind == "footnote"


def test_footnotes_stand_behind_the_text_of_the_page(tmp_path: Path) -> None:
    source = f"""
    #set page(width: 400pt, height: 300pt, margin: 40pt, columns: 2, numbering: "1")
    #set text(size: 9pt)
    {LOREM} It must be measured.#footnote[A year of heights is enough for a first estimate.]
    + one
    + two
    #colbreak()
    + three
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    kinds = [block.kind for block in page.blocks]
    assert kinds == ["text", "list", "list", "list", "text", "footnote", "footer"]
    assert page.blocks[0].text.endswith("measured.\u00b9")
    assert page.blocks[5].text == "\u00b9 A year of heights is enough for a first estimate."


@pytest.mark.parametrize("typographic", ["true", "false"], ids=["glyphs of the font", "raised small type"])
def test_raised_figures_are_superscripts(tmp_path: Path, typographic: str) -> None:
    source = f"""
    #set super(typographic: {typographic})
    #set text(size: 10pt, font: "Libertinus Serif")
    It covers 12 m#super[2] of sand, as was shown before.#super[14]
    """
    (page,) = parse(tmp_path, source)
    assert texts(page, "text") == ["It covers 12 m\u00b2 of sand, as was shown before.\u00b9\u2074"]


def test_a_paragraph_goes_on_over_a_float(tmp_path: Path) -> None:
    source = f"""
    #set page(width: 400pt, height: 330pt, margin: 40pt)
    #set text(size: 9pt)
    #columns(2, gutter: 16pt)[#set par(justify: true)
    {LOREM * 2} The paragraph is cut by the column end and
    #colbreak()
    #text(size: 7pt)[*Table 1.* Small print about stones]
    #table(columns: 2, [Stone], [Weight], [Amber], [12])
    #h(0pt)goes on below the table until it ends.]
    """
    (page,) = parse(tmp_path, source)
    assert any("column end and goes on below the table" in block.text for block in page.blocks)


def test_watermarks_are_dropped_with_a_reason(tmp_path: Path) -> None:
    source = f"""
    #set page(background: rotate(30deg, text(size: 60pt, fill: luma(220))[DRAFT]))
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    assert [(item.text, item.reason) for item in page.dropped] == [("DRAFT", "watermark")]
    assert "DRAFT" not in " ".join(block.text for block in page.blocks)


def test_every_word_has_one_place(tmp_path: Path) -> None:
    """Words of lines and cells together are the words of the layer, whatever the page looks like."""
    source = f"""
    #set page(width: 420pt, height: 420pt, margin: 30pt, header: [Head], footer: [Foot 1])
    #set text(size: 9pt)
    = 1 Start
    #columns(3)[{LOREM}#footnote[A note.] #table(columns: 2, [x], [1], [y], [2])
    - item {LOREM} #colbreak() `code here` $x = y^2$]
    """
    (page,) = parse(tmp_path, source)
    words: list[Word] = page.words()
    assert max(Counter(id(word) for word in words).values()) == 1
    assert all(isinstance(block, Block) and block.box.area > 0 for block in page.blocks)


def test_a_page_without_text_is_empty() -> None:
    assert layout_from_layer(TextLayer(), 100, 100) == ([], [])


@pytest.mark.parametrize("askew", [0.0, 0.7, 90.6])
def test_paragraphs_of_a_crooked_scan_are_not_joined_over_other_blocks(askew: float) -> None:
    """Every line of such a page has an angle; only what differs from them is turned text in the margin."""

    def block(text: str, top: float, left: float = 40) -> Block:
        box = Box(left, top, left + 200, top + 12)
        return Block("text", box, text, [Line(text, box, [Word(text, box, size=12)], angle=askew)], source="model")

    title, other, third = (
        block("A general catalogue of documents", 20),
        block("Plan", 60),
        block("beside a lower one", 200),
    )
    page = Page(1, 600, 800, [title, other, third])
    finish_document([page])
    assert [item.text for item in page.blocks] == ["A general catalogue of documents", "Plan", "beside a lower one"]


def test_a_page_number_read_off_a_picture_says_so() -> None:
    box = Box(290, 780, 310, 792)
    number = Block("text", box, "17", [Line("17", box, confidence=0.8, source="model")], confidence=0.8, source="model")
    text = Block("text", Box(40, 100, 500, 400), "Text", [Line("Text", Box(40, 100, 500, 112), source="model")])
    page = Page(1, 600, 800, [text, number])
    finish_document([page])
    assert [(b.kind, b.source, b.confidence) for b in page.blocks[1:]] == [("footer", "model", 0.8)]
