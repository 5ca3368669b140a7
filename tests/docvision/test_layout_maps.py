"""Truth drawn as structure maps must come back as the same lines, classes, cells and order."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docvision.layout_maps import components, layout_from_maps
from docvision.maps import CLASSES, maps_from_page
from docvision.model import StructureMaps
from docvision.page import Block, Box, Cell, Line, Page, Table, bounding_box

WIDTH, HEIGHT = 620, 500
FONT = ImageFont.load_default(15)


def draw_lines(draw: ImageDraw.ImageDraw, texts: list[str], x: int, y: int, pitch: int = 20) -> list[Line]:
    lines = []
    for index, text in enumerate(texts):
        place = (x, y + index * pitch)
        draw.text(place, text, font=FONT, fill=0)
        lines.append(Line(text, Box(*(float(v) for v in draw.textbbox(place, text, font=FONT)))))
    return lines


def text_block(draw: ImageDraw.ImageDraw, kind: str, texts: list[str], x: int, y: int) -> Block:
    lines = draw_lines(draw, texts, x, y)
    return Block(kind, bounding_box(line.box for line in lines), lines=lines)  # type: ignore[arg-type]


def as_prediction(page: Page) -> StructureMaps:
    maps = maps_from_page(page, WIDTH, HEIGHT)
    block = (np.arange(len(CLASSES))[:, None, None] == maps["block"][None]).astype(np.float32)
    return StructureMaps(maps["line"], block, maps["rows"], maps["columns"], maps["corners"], (WIDTH, HEIGHT))


@pytest.fixture(scope="module")
def two_columns() -> tuple[Page, Image.Image]:
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    draw = ImageDraw.Draw(image)
    body = ["several words stand here", "and here in a second line", "with a last one, going down"]
    blocks = [
        text_block(draw, "heading", ["A heading over both of the columns of this page"], 120, 20),
        text_block(draw, "text", body, 40, 70),
        text_block(draw, "text", body, 40, 160),
        text_block(draw, "caption", ["Figure: a caption"], 40, 245),
        text_block(draw, "text", body, 340, 70),
        text_block(draw, "footnote", ["a footnote"], 340, 160),
    ]
    return Page(1, WIDTH, HEIGHT, blocks, pixels=(WIDTH, HEIGHT)), image


def test_truth_maps_give_back_lines_classes_and_order(two_columns) -> None:
    page, image = two_columns
    found = layout_from_maps(as_prediction(page), image)
    assert [(b.kind, len(b.lines)) for b in found] == [(b.kind, len(b.lines)) for b in page.blocks]
    for got, want in zip(found, page.blocks, strict=True):
        for line, truth in zip(got.lines, want.lines, strict=True):
            assert line.box.iou(truth.box) > 0.8, (line.box, truth.text, truth.box)


def test_boxes_hold_the_ink_of_their_line_and_of_no_other(two_columns) -> None:
    """Descenders of one line and ascenders of the next are 4 px apart here: half a cell."""
    page, image = two_columns
    ink = np.asarray(image) < 128
    for block in layout_from_maps(as_prediction(page), image):
        for line in block.lines:
            x0, y0, x1, y1 = (int(v) for v in line.box)
            assert not ink[y0 - 1, x0:x1].any() and not ink[y1, x0:x1].any()
            assert ink[y0:y1, x0 : x0 + 3].any() and ink[y0:y1, x1 - 3 : x1].any()


def test_a_table_comes_back_as_its_grid_with_lines_in_their_cells() -> None:
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    draw = ImageDraw.Draw(image)
    cells, lines = [], []
    for row in range(4):
        for column in range(3):
            x, y = 60 + 150 * column, 100 + 36 * row
            line = draw_lines(draw, [f"cell {row}{column}"], x, y)[0]
            lines.append(line)
            cells.append(Cell(row, column, line.text, box=Box(x - 20, y - 8, x + 130, y + 28), text_box=line.box))
    box = bounding_box(cell.box for cell in cells)
    page = Page(1, WIDTH, HEIGHT, [Block("table", box, lines=lines, table=Table(4, 3, cells))], pixels=(WIDTH, HEIGHT))
    (found,) = layout_from_maps(as_prediction(page), image)
    assert found.kind == "table" and found.table is not None
    assert (found.table.rows, found.table.columns, len(found.lines)) == (4, 3, 12)
    for cell, truth in zip(found.table.cells, cells, strict=True):
        inside = [line for line in found.lines if cell.box.contains(*line.box.center)]
        assert len(inside) == 1 and inside[0].box.iou(truth.text_box) > 0.8


def test_nothing_on_a_blank_page() -> None:
    page = Page(1, WIDTH, HEIGHT, [], pixels=(WIDTH, HEIGHT))
    assert layout_from_maps(as_prediction(page), Image.new("L", (WIDTH, HEIGHT), 255)) == []


def test_labels_are_read_with_what_they_name() -> None:
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    draw = ImageDraw.Draw(image)
    named = [["vf = sung by a woman", "vm = sung by a man", "vc = sung by a child"] for _ in range(3)]
    blocks = []
    for number, texts in enumerate(named):
        top = 40 + 110 * number
        blocks.append(text_block(draw, "text", [f"Part {number + 1} :"], 40, top))
        blocks.append(text_block(draw, "text", texts, 200, top))
    page = Page(1, WIDTH, HEIGHT, blocks, pixels=(WIDTH, HEIGHT))
    found = [line.box for block in layout_from_maps(as_prediction(page), image) for line in block.lines]
    wanted = [line.box for block in blocks for line in block.lines]
    assert len(found) == len(wanted)
    assert all(box.iou(truth) > 0.7 for box, truth in zip(found, wanted, strict=True))


def test_components_equal_flood_filling() -> None:
    rng = np.random.default_rng(0)
    for density in (0.2, 0.5, 0.7):
        mask = rng.random((23, 31)) < density
        left = {(int(y), int(x)) for y, x in zip(*np.nonzero(mask), strict=True)}
        want = []
        while left:
            stack, piece = [left.pop()], []
            while stack:
                y, x = stack.pop()
                piece.append((y, x))
                for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                    if near in left:
                        left.remove(near)
                        stack.append(near)
            ys, xs = zip(*piece, strict=True)
            want.append((min(ys), max(ys), min(xs), max(xs)))
        assert components(mask) == sorted(want)


def test_one_wide_gap_between_two_words_makes_no_columns() -> None:
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    draw = ImageDraw.Draw(image)
    blocks = [
        text_block(draw, "text", [text], x, y)
        for text, x, y in (("( 3 )", 300, 20), ("V", 230, 70), ("Tableau", 300, 70), ("La rue, ad libitum", 100, 120))
    ]
    found = layout_from_maps(as_prediction(Page(1, WIDTH, HEIGHT, blocks, pixels=(WIDTH, HEIGHT))), image)
    assert [round(line.box.x0, -1) for block in found for line in block.lines] == [300, 230, 300, 100]


@pytest.mark.parametrize(("fill", "seen"), [(255, 0), (200, 0), (None, 1)], ids=["paper", "flat fill", "drawing"])
def test_a_figure_is_where_something_is_drawn(fill: int | None, seen: int) -> None:
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    draw = ImageDraw.Draw(image)
    block = text_block(draw, "text", ["A line of text above"], 40, 30)
    area = Box(80, 160, 320, 320)
    if fill is None:
        draw.ellipse(tuple(area), outline=0, width=3)
    else:
        draw.rectangle(tuple(area.pad(16)), fill=fill)
    page = Page(1, WIDTH, HEIGHT, [block, Block("figure", area)], pixels=(WIDTH, HEIGHT))
    assert [found.kind for found in layout_from_maps(as_prediction(page), image)] == ["text", *["figure"] * seen]
