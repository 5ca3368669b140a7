"""Pictures of pages: everything a coded page says is read, whichever way it lies, with boxes where it was drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from coded_pages import CodeReader, draw_coded, line_box
from PIL import Image

from docvision import images, scan
from docvision.page import Block, Box, Cell, Line, Table

LINES = ["the first line", "a second one", "and number 3", "then a fourth", "ends here."]
BOX_TOLERANCE = 4.0
"""Pixels at 220 dpi: the boxes come from a picture of half that size, and a turned one from interpolation."""


def texts(found: scan.Scan) -> list[str]:
    return [line.text for block in found.blocks for line in block.lines]


def boxes(found: scan.Scan) -> list[Box]:
    return [line.box for block in found.blocks for line in block.lines]


def near(box: Box, other: Box, tolerance: float = BOX_TOLERANCE) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(box, other, strict=True))


def test_an_upright_page_is_looked_at_once() -> None:
    reader = CodeReader()
    found = scan.read_picture(draw_coded(LINES), reader, 220)
    assert texts(found) == LINES and found.turn == 0 and found.angle == 0
    assert all(near(box, line_box(text, n)) for n, (box, text) in enumerate(zip(boxes(found), LINES, strict=True)))
    (block,) = found.blocks
    assert block.text == " ".join(LINES) and block.source == "model" and block.confidence == pytest.approx(0.9)
    assert reader.pages == 1 and reader.lines == len(LINES)  # no line is read twice


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_turned_page_is_read_and_its_boxes_lie_on_the_page_as_given(turn: int) -> None:
    page = draw_coded(LINES)
    given = page.rotate(-turn, expand=True)
    found = scan.read_picture(given, CodeReader(), 220)
    assert texts(found) == LINES and found.turn == turn
    for number, (box, text) in enumerate(zip(boxes(found), LINES, strict=True)):
        drawn = Image.new("L", page.size, 0)
        drawn.paste(255, tuple(round(v) for v in line_box(text, number)))
        assert near(box, Box(*drawn.rotate(-turn, expand=True).getbbox()))  # type: ignore[misc]
    assert {line.angle for block in found.blocks for line in block.lines} == {float(360 - turn)}


@pytest.mark.parametrize("angle", [-2.0, 1.3])
def test_a_crooked_page_is_levelled(angle: float) -> None:
    page = draw_coded(LINES)
    found = scan.read_picture(images.rotate(page, angle), CodeReader(), 220)
    assert texts(found) == LINES and found.angle == pytest.approx(-angle, abs=0.1)
    for number, (box, text) in enumerate(zip(boxes(found), LINES, strict=True)):
        turned = images.rotate_box(line_box(text, number), angle, *page.size)
        assert box.coverage(turned.pad(BOX_TOLERANCE)) > 0.9
    assert found.blocks[0].lines[0].angle == pytest.approx(angle % 360, abs=0.1)


def test_a_page_of_unknown_resolution_is_scaled_to_the_height_of_its_text() -> None:
    class Fussy(CodeReader):
        """Sees lines of about the height it was made for only, yet finds something on every picture."""

        def find_blocks(self, image: Image.Image) -> list[Block]:
            self.sizes = [*getattr(self, "sizes", []), image.size]
            return super().find_blocks(image)

    reader = Fussy()
    width = int(max(line_box(text, 0).x1 for text in LINES)) + 40
    large = draw_coded(LINES).crop((0, 0, width, 420)).resize((width * 3, 1260))
    found = scan.read_picture(large, reader, 220, free_scale=True)
    assert texts(found) == LINES
    first, second = reader.sizes
    assert max(first) == scan.FIRST_SIDE
    height = 24 * 3 * first[0] / large.width
    assert height > scan.HEIGHT_RANGE[1] and second[0] == pytest.approx(first[0] * scan.TEXT_HEIGHT / height, rel=0.05)


@pytest.mark.parametrize(("others", "kept"), [(0.95, False), (0.7, True)])
def test_a_line_far_less_sure_than_a_clear_page_is_dropped(others: float, kept: bool) -> None:
    """What shows through from the back is read as something; on a page that is hard to read so is its text."""
    block = item_block([f"line number {n}" for n in range(6)])
    for line in block.lines:
        line.confidence = others
    block.lines[3].confidence = 0.4
    found = scan.Scan([block], turn=0, angle=0.0)
    scan._drop_unreadable(found)
    assert ("line number 3" in [line.text for line in block.lines]) is kept
    assert [item.text for item in found.dropped] == ([] if kept else ["line number 3"])


def test_unreadable_lines_are_dropped_with_a_reason() -> None:
    page = draw_coded(LINES)
    page.paste(0, (200, 900, 260, 920))  # a bar that is no text
    found = scan.read_picture(page, CodeReader(), 220)
    assert texts(found) == LINES
    assert [(item.text, item.reason) for item in found.dropped] == [("garbage", "unreadable")]
    assert near(found.dropped[0].box, Box(200, 900, 260, 920))


def test_a_blank_page_gives_nothing() -> None:
    for page in (Image.new("L", (600, 800), 255), Image.new("L", (1, 1), 0)):
        assert scan.read_picture(page, CodeReader(), 220).blocks == []


def test_lines_of_a_table_go_into_the_cells_they_stand_in() -> None:
    class Tabular(CodeReader):
        """Says that the page is a table of one column."""

        def find_blocks(self, image: Image.Image) -> list[Block]:
            (block,) = super().find_blocks(image)
            cells = [
                Cell(row, 0, box=Box(0, line.box.y0 - 5, image.width, line.box.y1 + 5))
                for row, line in enumerate(block.lines)
            ]
            return [Block("table", block.box, lines=block.lines, table=Table(len(cells), 1, cells))]

    found = scan.read_picture(draw_coded(LINES), Tabular(), 220)
    table = found.blocks[0].table
    assert table is not None and [cell.text for cell in table.cells] == LINES
    assert near(table.cells[1].text_box or Box(0, 0, 0, 0), line_box(LINES[1], 1))
    assert {cell.source for cell in table.cells} == {"model"}


def test_a_grid_of_which_hardly_a_cell_is_read_is_no_table() -> None:
    class Stamped(CodeReader):
        """Takes the page for a table of many cells, of which the text fills one row."""

        def find_blocks(self, image: Image.Image) -> list[Block]:
            (block,) = super().find_blocks(image)
            band = block.box.y1 - block.box.y0
            cells = [
                Cell(row, 0, box=Box(0, block.box.y0 + (row - 1) * band, image.width, block.box.y0 + row * band))
                for row in range(6)
            ]
            return [Block("table", block.box, lines=block.lines, table=Table(6, 1, cells))]

    found = scan.read_picture(draw_coded(LINES), Stamped(), 220)
    assert all(block.table is None for block in found.blocks) and texts(found) == LINES


def test_few_characters_have_to_be_read_with_more_confidence() -> None:
    class Doubtful(CodeReader):
        def read_lines(self, crops: Sequence[Image.Image]) -> list[tuple[str, float]]:
            return [(text[:3] if text.startswith("a") else text, 0.5) for text, _ in super().read_lines(crops)]

    found = scan.read_picture(draw_coded(LINES), Doubtful(), 220)
    dropped = [item.text for item in found.dropped]
    assert dropped == [text[:3].strip() for text in LINES if text.startswith("a")] and dropped
    assert texts(found) == [text for text in LINES if not text.startswith("a")]


def test_turning_a_box_is_what_turning_the_picture_does() -> None:
    for turn in (0, 90, 180, 270):
        page = Image.new("L", (30, 20), 0)
        page.paste(255, (3, 5, 10, 9))
        turned = Box(*page.rotate(turn, expand=True).getbbox())  # type: ignore[misc]
        assert scan.turn_box(turned, turn, 30, 20) == Box(3, 5, 10, 9)


def test_a_figure_without_lines_stays() -> None:
    class Pictures(CodeReader):
        def find_blocks(self, image: Image.Image) -> list[Block]:
            return [Block("figure", Box(0, 0, 9, 9)), Block("text", Box(0, 0, 9, 9), lines=[Line("", Box(1, 1, 1, 1))])]

    assert [block.kind for block in scan.read_picture(draw_coded(LINES), Pictures(), 220).blocks] == ["figure"]


def item_block(texts: list[str], kind: str = "text", left: list[float] | None = None) -> Block:
    places = left or [100.0] * len(texts)
    boxes = [Box(x, 20.0 * n, x + 200, 20.0 * n + 14) for n, x in enumerate(places)]
    lines = [Line(text, box) for text, box in zip(texts, boxes, strict=True)]
    return Block(kind, Box(0, 0, 400, 20.0 * len(texts)), lines=lines)  # type: ignore[arg-type]


def test_numbered_lines_become_items_and_text_left_of_them_ends_the_list() -> None:
    texts = ["as follows:", "1. the first", "goes on", "2. the second", "and text again"]
    found = scan.split_items(item_block(texts, left=[80, 100, 115, 100, 80]))
    for block in found:
        scan.fill(block)
    assert [(b.kind, b.marker, b.text) for b in found] == [
        ("text", "", "as follows:"),
        ("list", "1.", "the first goes on"),
        ("list", "2.", "the second"),
        ("text", "", "and text again"),
    ]
    assert found[1].box == Box(100, 20, 315, 54)


@pytest.mark.parametrize("texts", [["3. Marlow", "Harbour Master"], ["in the year", "12. of March", "40. and more"]])
def test_a_lone_number_at_the_start_of_a_line_is_no_list(texts: list[str]) -> None:
    block = item_block(texts)
    assert scan.split_items(block) == [block]


def test_a_dash_inside_a_sentence_and_one_asterisk_are_no_list() -> None:
    block = item_block(
        ["separated on a Varian", "\u2013 QP 5050 with a column", "* corresponding author"], left=[80, 80, 80]
    )
    assert scan.split_items(block) == [block]
    listed = scan.split_items(item_block(["We need:", "\u2013 flour", "\u2013 eggs"], left=[80, 80, 80]))
    assert [(item.kind, item.marker) for item in listed] == [("text", ""), ("list", "\u2013"), ("list", "\u2013")]
    doubled = scan.split_items(item_block(["We need:", "-- flour", "\u2013 eggs"], left=[80, 80, 80]))
    assert [item.marker for item in doubled] == ["", "--", "\u2013"]
    stars = scan.split_items(item_block(["* flour", "* eggs"], left=[80, 80]))
    assert [item.marker for item in stars] == ["*", "*"]


def test_more_white_than_usual_ends_a_list() -> None:
    block = item_block(["1. flour", "2. six fresh eggs", "All of this is", "beaten well"], left=[80, 80, 80, 80])
    assert len(scan.split_items(block)) == 2
    for line in block.lines[2:]:
        line.box = line.box.shift(0, 8)
    assert [[line.text for line in item.lines] for item in scan.split_items(block)] == [
        ["1. flour"], ["2. six fresh eggs"], ["All of this is", "beaten well"],
    ]  # fmt: skip


def test_neighbouring_blocks_with_numbers_in_order_are_items_and_sections_are_not() -> None:
    blocks = [item_block([text]) for text in ("1. flour", "2. eggs", "and then", "3. sugar")]
    scan.mark_counted(blocks)
    assert [(block.kind, block.marker) for block in blocks] == [
        ("list", "1."), ("list", "2."), ("text", ""), ("text", ""),
    ]  # fmt: skip


def test_lines_that_hang_under_an_item_belong_to_it() -> None:
    items = scan.split_items(item_block(["\u2022 flour of wheat", "\u2022 eggs"], left=[80, 80]))
    hanging = Block("text", Box(100, 35, 300, 49), lines=[Line("from the farm", Box(100, 35, 300, 49))])
    text = Block("text", Box(80, 55, 300, 69), lines=[Line("Mix all this.", Box(80, 55, 300, 69))])
    far = Block("text", Box(100, 90, 300, 104), lines=[Line("An hour later", Box(100, 90, 300, 104))])
    found = scan.join_hanging([*items, hanging, text, far])
    assert [[line.text for line in block.lines] for block in found] == [
        ["\u2022 flour of wheat"], ["\u2022 eggs", "from the farm"], ["Mix all this."], ["An hour later"],
    ]  # fmt: skip
    assert found[1].box.y1 == 49
