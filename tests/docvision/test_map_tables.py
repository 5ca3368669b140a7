"""Tables drawn with known cells must come back as these cells: by truth maps, and by ink alone where it is plain."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docvision.chunks import find_chunks, find_rules, ground_ink, text_height
from docvision.map_tables import read_table
from docvision.maps import CLASSES, maps_from_page
from docvision.model import StructureMaps
from docvision.page import Block, Box, Cell, Line, Page, Table, bounding_box

FONT = ImageFont.load_default(14)
PITCH, WIDE, LEFT, TOP = 30, 120, 20, 20
TEXT_HEIGHT = 15.0
Place = tuple[int, int, int, int]
"""Row, column, row span, column span."""


@dataclass
class Drawn:
    """A table on paper."""

    image: Image.Image
    page: Page
    cells: list[Cell] = field(default_factory=list)

    def maps(self) -> StructureMaps:
        width, height = self.image.size
        truth = maps_from_page(self.page, width, height)
        block = (np.arange(len(CLASSES))[:, None, None] == truth["block"][None]).astype(np.float32)
        return StructureMaps(truth["line"], block, truth["rows"], truth["columns"], truth["corners"], self.image.size)

    def read(self, maps: StructureMaps | None) -> Block:
        area = Box(0, 0, *self.image.size)
        found = read_table(area, ground_ink(self.image), maps, TEXT_HEIGHT)
        assert found is not None and found.table is not None
        return found


def draw_table(texts: dict[Place, str], rows: int, columns: int, ruling: str = "none", pitch: int = PITCH) -> Drawn:
    """Every text at the top left of its cell; ``ruling`` is none, booktabs or full."""
    image = Image.new("L", (2 * LEFT + columns * WIDE, 2 * TOP + rows * pitch), 255)
    draw = ImageDraw.Draw(image)
    cells, lines = [], []
    for (row, column, tall, wide), text in texts.items():
        x, y = LEFT + column * WIDE, TOP + row * pitch
        box = Box(x, y, x + wide * WIDE, y + tall * pitch)
        if ruling == "full":
            draw.rectangle(tuple(box), outline=0)
        if wide > 1:
            x += int(wide * WIDE - draw.textlength(text, FONT)) // 2 - 8
        place = (x + 8, y + 7)
        inside = []
        if text:
            draw.multiline_text(place, text, font=FONT, fill=0, spacing=3)
            for number, part in enumerate(text.split("\n")):
                spot = (place[0], place[1] + number * 19)
                inside.append(Line(part, Box(*(float(v) for v in draw.textbbox(spot, part, font=FONT)))))
        lines += inside
        held = bounding_box(line.box for line in inside) if inside else None
        cells.append(Cell(row, column, text, tall, wide, box=box, text_box=held))
    if ruling == "booktabs":
        for y in (TOP, TOP + pitch, TOP + rows * pitch):
            draw.line((LEFT, y, LEFT + columns * WIDE, y), fill=0, width=2)
    box = bounding_box(cell.box for cell in cells)
    page = Page(1, *image.size, [Block("table", box, lines=lines, table=Table(rows, columns, cells))])
    return Drawn(image, page, cells)


def plain(rows: int = 5, columns: int = 4) -> dict[Place, str]:
    return {(r, c, 1, 1): f"cell {r}{c}x" for r in range(rows) for c in range(columns)}


def headed() -> dict[Place, str]:
    """A heading over two columns, in the first of two header rows."""
    texts = plain()
    del texts[0, 1, 1, 1], texts[0, 2, 1, 1]
    texts[0, 1, 1, 2] = "a heading over both columns"
    return texts


def spans(block: Block) -> set[Place]:
    assert block.table is not None
    return {(cell.row, cell.column, cell.row_span, cell.column_span) for cell in block.table.cells}


@pytest.mark.parametrize("ruling", ["none", "booktabs", "full"])
@pytest.mark.parametrize("with_maps", [True, False])
@pytest.mark.parametrize("texts", [plain(), headed()], ids=["plain", "heading"])
def test_the_cells_that_were_drawn_come_back(texts: dict[Place, str], with_maps: bool, ruling: str) -> None:
    drawn = draw_table(texts, 5, 4, ruling)
    found = drawn.read(drawn.maps() if with_maps else None)
    assert spans(found) == set(texts)
    assert len(found.lines) == len(texts) and found.table is not None
    for cell in drawn.cells:
        twin = next(c for c in found.table.cells if (c.row, c.column) == (cell.row, cell.column))
        assert twin.box is not None and twin.text_box is not None and cell.text_box is not None
        assert twin.text_box.iou(cell.text_box) > 0.7
        inside = [line for line in found.lines if twin.box.contains(*line.box.center)]
        assert [line.box for line in inside] == [twin.text_box]


def test_the_map_tells_two_lines_of_a_cell_from_two_rows() -> None:
    """Same ink both times: every cell has two lines, which only the maps can tell from twice as many rows."""
    pitch = 38
    texts = {(r, c, 1, 1): f"upper {r}{c}\nlower {c}{r}" for r in range(4) for c in range(3)}
    drawn = draw_table(texts, 4, 3, pitch=pitch)
    halves = {
        (2 * r + n, c, 1, 1): part for (r, c, _, _), text in texts.items() for n, part in enumerate(text.split("\n"))
    }
    other = draw_table(halves, 8, 3, pitch=pitch // 2)
    wrapped, split = drawn.read(drawn.maps()), drawn.read(other.maps())
    assert wrapped.table is not None and split.table is not None
    assert (wrapped.table.rows, split.table.rows) == (4, 8)
    assert len(wrapped.lines) == len(split.lines) == 24


def test_a_map_that_sees_nothing_leaves_the_rows_to_the_ink() -> None:
    """One loud separator below the header made everything else one row before the map's word was weighed."""
    drawn = draw_table(plain(8, 3), 8, 3)
    maps = drawn.maps()
    deaf = maps.rows.copy()
    deaf[(TOP + PITCH) // 8 + 2 :] = 0.0
    found = drawn.read(StructureMaps(maps.line, maps.block, deaf, maps.columns, maps.corners, maps.size))
    assert spans(found) == set(plain(8, 3))


PROSE = "this is a line of running text that goes from one side of the table to its other side,"


@pytest.mark.parametrize(("above", "below"), [(3, 0), (0, 4), (3, 3)])
@pytest.mark.parametrize("step", [13, 20])
def test_paragraphs_above_and_below_are_no_rows(above: int, below: int, step: int) -> None:
    """Set tight, the lines of a paragraph touch."""
    drawn = draw_table(plain(5, 5), 5, 5)
    shift = above * step
    page = Image.new("L", (drawn.image.width, drawn.image.height + (above + below) * step), 255)
    page.paste(drawn.image, (0, shift))
    pen = ImageDraw.Draw(page)
    for number in range(above + below):
        y = 6 + number * step + (0 if number < above else drawn.image.height)
        last = number in (above - 1, above + below - 1)
        pen.text((LEFT + 4, y), "and ends here." if last and number else PROSE, font=FONT, fill=0)
    found = read_table(Box(0, 0, *page.size), ground_ink(page), None, TEXT_HEIGHT)
    assert found is not None and spans(found) == set(plain(5, 5))
    assert found.box.y0 >= shift and found.box.y1 <= shift + drawn.image.height


def test_one_long_line_and_a_table_of_text_stay_as_they_are() -> None:
    """A note below a table is a row; and prose in two columns is not prose across them."""
    texts = plain(5, 5) | {(5, 0, 1, 5): PROSE}
    noted = draw_table(texts, 6, 5).read(None)
    assert noted.table is not None and noted.table.rows == 6
    words = {(r, c, 1, 1): f"some words of cell {r} and {c}" for r in range(6) for c in range(2)}
    wide = draw_table({(r, 2 * c, 1, 2): text for (r, c, _, _), text in words.items()}, 6, 4).read(None)
    assert wide.table is not None and (wide.table.rows, wide.table.columns) == (6, 2)


def test_a_line_below_the_header_ends_it() -> None:
    ruled = draw_table(headed(), 5, 4, "booktabs").read(None)
    assert ruled.table is not None and ruled.table.header_rows == 1


def test_white_words_on_a_dark_header_are_ink_and_the_header_is_not() -> None:
    drawn = draw_table(plain(), 5, 4)
    band = (0, TOP, drawn.image.width, TOP + PITCH)
    drawn.image.paste(drawn.image.crop(band).point(lambda v: 255 - v), band)
    assert spans(drawn.read(None)) == set(plain())


def test_rules_are_found_and_text_is_none() -> None:
    drawn = draw_table(plain(), 5, 4, "booktabs")
    rules = find_rules(ground_ink(drawn.image), TEXT_HEIGHT)
    assert [rule.center[1] for rule in rules.across] == pytest.approx([TOP, TOP + PITCH, TOP + 5 * PITCH], abs=1)
    assert all(rule.width > 4 * WIDE - 4 for rule in rules.across) and rules.upright == []


def test_the_height_of_text_grows_with_the_picture() -> None:
    image = draw_table(plain(), 5, 4).image
    height = text_height(ground_ink(image))
    assert 10 < height < 17
    double = image.resize((2 * image.width, 2 * image.height), Image.Resampling.BICUBIC)
    assert text_height(ground_ink(double, 30.0)) == pytest.approx(2 * height, rel=0.12)
    assert text_height(np.zeros((40, 40), bool)) == 0.0


def test_a_doubtful_gap_parts_chunks_where_one_says_so() -> None:
    text = np.zeros((40, 200), bool)
    text[10:24, 10:60] = text[10:24, 68:120] = True
    assert len(find_chunks(text, TEXT_HEIGHT, lambda gap: False)) == 1
    assert len(find_chunks(text, TEXT_HEIGHT, lambda gap: True)) == 2


def test_a_column_of_text_is_no_table() -> None:
    drawn = draw_table({(r, 0, 1, 1): f"line {r}" for r in range(6)}, 6, 1)
    assert read_table(Box(0, 0, *drawn.image.size), ground_ink(drawn.image), None, TEXT_HEIGHT) is None
