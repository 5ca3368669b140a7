"""Tables among the lines of a page that has been read: found by the words, in their place, and no word lost."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docvision.images import ink_mask
from docvision.page import Block, Box, Cell, Line, Table, bounding_box
from docvision.scan import fill
from docvision.scan_tables import find_read_tables, split_words

FONT = ImageFont.load_default(15)
PAGE = (620, 700)
PROSE = [
    "Several lines of running text stand above the table and say what it",
    "is about; each of them goes on to the right edge of the column that",
    "holds them, as the lines of a paragraph do, until the last one ends.",
]
ROWS = [("Land", "2009", "2010"), *((f"Country {n}", f"{n * 37 + 11},000", f"{n * 51 + 7},500") for n in range(1, 9))]
COLUMNS = (60, 300, 430)


class Sheet:
    """A page being drawn, with the lines that a reader found on it."""

    def __init__(self) -> None:
        self.image = Image.new("L", PAGE, 255)
        self.draw = ImageDraw.Draw(self.image)

    def line(self, x: int, y: int, text: str) -> Line:
        self.draw.text((x, y), text, font=FONT, fill=0)
        return Line(text, Box(*(float(v) for v in self.draw.textbbox((x, y), text, font=FONT))), source="model")

    def block(self, lines: list[Line]) -> Block:
        return Block("text", bounding_box(line.box for line in lines), lines=lines, source="model")


def sheet(by: str) -> tuple[Image.Image, list[Block]]:
    """Prose, a table as the maps see it (its columns, its rows as lines, or all in the paragraph above), prose."""
    page = Sheet()
    above = page.block([page.line(60, 40 + 22 * n, text) for n, text in enumerate(PROSE)])
    cells = [
        [page.line(x, 140 + 22 * r, text) for x, text in zip(COLUMNS, row, strict=True)] for r, row in enumerate(ROWS)
    ]
    below = page.block([page.line(60, 380 + 22 * n, text) for n, text in enumerate(PROSE)])
    if by == "columns":
        return page.image, [above, *(page.block(list(column)) for column in zip(*cells, strict=True)), below]
    rows = [Line(" ".join(c.text for c in row), bounding_box(c.box for c in row), source="model") for row in cells]
    if by == "rows":
        return page.image, [above, page.block(rows), below]
    return page.image, [page.block([*above.lines, *rows, *below.lines])]


@pytest.mark.parametrize("by", ["columns", "rows", "paragraph"])
def test_a_table_of_words_stands_in_the_place_of_its_lines(by: str) -> None:
    image, blocks = sheet(by)
    found = find_read_tables(image, blocks)
    assert [block.kind for block in found] == ["text", "table", "text"]
    for block in found:
        fill(block)
    table = found[1].table
    assert (table.rows, table.columns) == (len(ROWS), 3)
    assert [[cell.text for cell in table.cells if cell.row == row] for row in range(table.rows)] == [
        list(r) for r in ROWS
    ]
    assert [line.text for line in found[0].lines] == PROSE and [line.text for line in found[2].lines] == PROSE
    assert all(above.box.y1 <= below.box.y0 for above, below in pairwise(found))


def test_prose_in_one_and_two_columns_stays_as_it_is() -> None:
    page = Sheet()
    texts = [
        "words that run along here",
        "and on in the next line of",
        "text, the third of these,",
        "then one that ends it.",
    ]
    columns = [page.block([page.line(x, 60 + 22 * n, texts[n % 4]) for n in range(20)]) for x in (40, 330)]
    assert find_read_tables(page.image, columns) == columns
    single = [page.block([page.line(60, 560 + 22 * n, text) for n, text in enumerate(PROSE)])]
    assert find_read_tables(page.image, single) == single


def test_two_lines_are_no_table_unless_the_maps_say_so() -> None:
    image, (above, rows, below) = sheet("rows")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, rows.lines[2].box.y0 - 2, 620, below.box.y0 - 4), fill=255)
    short = Block("text", bounding_box(line.box for line in rows.lines[:2]), lines=rows.lines[:2], source="model")
    assert find_read_tables(image, [above, short, below]) == [above, short, below]
    assert find_read_tables(image, [above, of_maps(short.lines), below])[1].table.columns == 3


def test_coloured_rows_of_a_table_are_no_figure() -> None:
    image, blocks = sheet("rows")
    striped, beside = Block("figure", blocks[1].box.pad(8)), Block("figure", Box(500, 20, 600, 120))
    assert [block.kind for block in find_read_tables(image, [blocks[0], striped, blocks[1], beside])] == [
        "text", "table", "figure",
    ]  # fmt: skip


def test_what_could_not_be_read_is_not_believed() -> None:
    image, blocks = sheet("rows")
    for block in blocks:
        for line in block.lines:
            line.confidence = 0.3
    assert find_read_tables(image, blocks) == blocks


def test_a_large_page_is_read_as_a_small_one() -> None:
    image, blocks = sheet("rows")
    large = image.resize((3 * image.width, 3 * image.height))
    for block in blocks:
        for line in block.lines:
            line.box = line.box.scale(3)
    small, found = find_read_tables(*sheet("rows")), find_read_tables(large, blocks)
    for one, two in zip(small, found, strict=True):
        assert two.kind == one.kind and two.box.iou(one.box.scale(3)) > 0.95


def of_maps(lines: list[Line]) -> Block:
    """A table that the maps saw in lines: a row and a column each."""
    cells = [Cell(n, 0, "", box=line.box, text_box=line.box) for n, line in enumerate(lines)]
    box = bounding_box(line.box for line in lines)
    return Block("table", box, lines=lines, table=Table(len(lines), 1, cells), source="model")


def test_a_table_of_the_maps_gives_way_to_its_words_and_prose_leaves_it() -> None:
    image, (whole,) = sheet("paragraph")
    found = find_read_tables(image, [of_maps(whole.lines)])
    assert [block.kind for block in found] == ["text", "table", "text"]
    assert (found[1].table.rows, found[1].table.columns) == (len(ROWS), 3)
    assert [line.text for line in found[0].lines] == PROSE and [line.text for line in found[2].lines] == PROSE


def test_the_maps_know_a_picture_of_a_table_better() -> None:
    image, (_, rows, _) = sheet("rows")
    picture = of_maps(rows.lines)
    assert find_read_tables(image, [picture], keep="alone") == [picture]
    assert find_read_tables(image, [picture])[0].table.columns == 3
    assert find_read_tables(image, [picture], keep="all") == [picture]
    beside = Block("text", Box(60, 600, 100, 615), lines=[Line("a", Box(60, 600, 100, 615))])
    assert find_read_tables(image, [picture, beside], keep="alone")[0].table.columns == 3


def test_figures_and_tables_that_words_do_not_make_stay() -> None:
    image, (above, _, below) = sheet("rows")
    kept = [Block("figure", Box(0, 0, 50, 30)), of_maps(above.lines), below]
    assert find_read_tables(image, kept) == kept


@pytest.mark.parametrize("as_table", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_word_is_lost_or_doubled(seed: int, as_table: bool) -> None:
    """Rows of a few words at any place: whatever is taken for a table, the words stay the same."""
    rng = np.random.default_rng(seed)
    page = Sheet()
    blocks = []
    for row in range(14):
        x, lines = 40.0, []
        while x < 480:
            text = " ".join(f"w{rng.integers(100, 999)}" for _ in range(int(rng.integers(1, 4))))
            lines.append(page.line(int(x), 40 + 24 * row, text))
            x = lines[-1].box.x1 + float(rng.integers(6, 120))
        blocks.append(page.block(lines))
    if as_table:
        blocks = [of_maps([line for block in blocks for line in block.lines])]
    words = Counter(word for block in blocks for line in block.lines for word in line.text.split())
    after = find_read_tables(page.image, blocks)
    assert Counter(word for block in after for line in block.lines for word in line.text.split()) == words


def test_words_have_the_boxes_of_their_ink() -> None:
    page = Sheet()
    line = page.line(60, 40, "Three words here")
    words = split_words(line.text, line.box, ink_mask(page.image))
    assert [text for text, _ in words] == ["Three", "words", "here"]
    x = 60.0
    for text, box in words:
        assert box.x0 == pytest.approx(x, abs=2.5) and box.x1 == pytest.approx(
            x + page.draw.textlength(text, FONT), abs=2.5
        )
        x += page.draw.textlength(f"{text} ", FONT)
    none = split_words("no ink at all", Box(300, 300, 430, 320), ink_mask(page.image))
    assert [round(box.x0) for _, box in none] == [300, 330, 370, 400]
