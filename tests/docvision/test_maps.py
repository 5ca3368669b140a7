"""Structure maps: what is drawn where, on pages small enough to know the answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from docvision.maps import CLASSES, maps_from_page, page_angle
from docvision.page import Block, Box, Cell, Line, Page, Table

SIZE = 320
"""Points and pixels alike, so that a box in points is a box in pixels and a map cell is 8 of them."""


def _page(*blocks: Block) -> Page:
    return Page(1, SIZE, SIZE, list(blocks), pixels=(SIZE, SIZE))


def _maps(*blocks: Block) -> dict[str, np.ndarray]:
    return maps_from_page(_page(*blocks), SIZE, SIZE)


def _text(boxes: list[Box], kind: str = "text", angle: float = 0.0) -> Block:
    whole = Box(min(b.x0 for b in boxes), min(b.y0 for b in boxes), max(b.x1 for b in boxes), max(b.y1 for b in boxes))
    return Block(kind, whole, lines=[Line("x", box, angle=angle) for box in boxes])


def _table(rows: int, columns: int, spans: dict[tuple[int, int], tuple[int, int]] | None = None) -> Block:
    """Cells of 64 x 32 pixels from (32, 32) with text in their middle."""
    spans = spans or {}
    covered = {
        (r + i, c + j) for (r, c), (down, across) in spans.items() for i in range(down) for j in range(across) if i or j
    }
    cells = []
    for row in range(rows):
        for column in range(columns):
            if (row, column) in covered:
                continue
            down, across = spans.get((row, column), (1, 1))
            x, y = 32 + 64 * column, 32 + 32 * row
            box = Box(x, y, x + 64 * across, y + 32 * down)
            cells.append(Cell(row, column, "t", down, across, box=box, text_box=box.pad(-8, -8)))
    return Block("table", Box(32, 32, 32 + 64 * columns, 32 + 32 * rows), table=Table(rows, columns, cells))


def test_shapes_and_types() -> None:
    """Sizes that are no multiple of 8 round up; the training code indexes maps by these shapes."""
    maps = maps_from_page(_page(), 321, 317)
    assert set(maps) == {"line", "block", "rows", "columns", "corners", "valid"}
    for name, value in maps.items():
        assert value.shape == (40, 41), name
        assert value.dtype == (np.int64 if name == "block" else np.float32), name
    assert maps["valid"].all() and not maps["block"].any() and not maps["line"].any()


def test_classes_follow_the_document_model() -> None:
    """One class for each kind of block, and background."""
    from typing import get_args

    from docvision.page import BlockKind

    assert ("background", *get_args(BlockKind)) == CLASSES


@pytest.mark.parametrize("pitch", [16, 20, 24, 40])
def test_lines_stay_separate(pitch: int) -> None:
    """Lines set without leading must not touch in the map, from 16 pixels of pitch on."""
    boxes = [Box(20, 20 + pitch * i, 300, 20 + pitch * (i + 1)) for i in range(5)]
    column = _maps(_text(boxes))["line"][:, 20]
    runs = np.count_nonzero(np.diff(np.concatenate([[0], column])) == 1)
    assert runs == 5


@pytest.mark.parametrize("top", np.arange(40, 48, 0.7).tolist())
def test_a_thin_line_is_one_cell_row(top: float) -> None:
    """Whatever its phase to the grid, a line lower than a cell takes exactly one row of cells."""
    line = _maps(_text([Box(40, top, 200, top + 6)]))["line"]
    assert (line.sum(0) <= 1).all() and line.sum() >= 19


def test_blocks_take_the_class_of_the_smallest() -> None:
    """A caption inside a figure's box is a caption."""
    maps = _maps(_text([Box(64, 64, 160, 80)], "caption"), Block("figure", Box(32, 32, 256, 256)))
    assert maps["block"][9, 12] == CLASSES.index("caption")
    assert maps["block"][20, 12] == CLASSES.index("figure")
    assert maps["block"][1, 1] == 0
    assert (maps["block"] > 0).sum() == 28 * 28


def test_separators_lie_between_and_never_outside() -> None:
    """Three rows have two separators, and the table's border is none."""
    maps = _maps(_table(3, 4))
    assert np.flatnonzero(maps["rows"][:, 10]).tolist() == [8, 12]
    assert np.flatnonzero(maps["columns"][10]).tolist() == [12, 20, 28]
    assert np.flatnonzero(maps["rows"][8]).tolist() == list(range(4, 36))
    assert maps["corners"].sum() == 6
    assert (maps["corners"] <= maps["rows"] * maps["columns"]).all()


def test_separators_lie_midway_between_text_bands() -> None:
    """Text at the top of its cells: the separator moves up from the ruling to the middle of the gap."""
    block = _table(2, 2)
    for cell in block.table.cells:
        cell.text_box = Box(cell.box.x0 + 8, cell.box.y0, cell.box.x1 - 8, cell.box.y0 + 8)
    rows = _maps(block)["rows"]
    # Row 0's text ends at 40, row 1's begins at 64: the middle is 52, in cell 6, and the ruling at 64 is in cell 8.
    assert np.flatnonzero(rows[:, 10]).tolist() == [6]


def test_separators_stop_at_spans() -> None:
    """A cell over two columns and one over two rows: no separator runs through either."""
    maps = _maps(_table(3, 3, {(0, 0): (1, 2), (1, 2): (2, 1)}))
    columns, rows = maps["columns"], maps["rows"]
    assert not columns[4:8, 12].any() and columns[9:16, 12].all()
    assert not rows[12, 20:28].any() and rows[12, 4:19].all()


@pytest.mark.parametrize("angle", [-1.0, 0.6, 1.0])
def test_turned_pages(angle: float) -> None:
    """On a page askew the bounds of a wide line are as high as two lines; its core still has one line's height."""
    turn = math.radians(angle)

    def turned(box: Box) -> Box:
        x, y = box.center
        x, y = x - 160, y - 160
        # Against the clock with y downwards.
        cx, cy = x * math.cos(turn) + y * math.sin(turn) + 160, y * math.cos(turn) - x * math.sin(turn) + 160
        w = box.width * math.cos(turn) + box.height * abs(math.sin(turn))
        h = box.height * math.cos(turn) + box.width * abs(math.sin(turn))
        return Box(cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)

    boxes = [Box(10, 60 + 24 * i, 310, 76 + 24 * i) for i in range(6)]
    page = _page(_text([turned(box) for box in boxes], angle=angle))
    assert page_angle(page) == pytest.approx(angle)
    line = maps_from_page(page, SIZE, SIZE)["line"]
    for column in (3, 20, 36):
        assert np.count_nonzero(np.diff(np.concatenate([[0], line[:, column]])) == 1) == 6
    left, right = np.flatnonzero(line[:, 2])[0], np.flatnonzero(line[:, 37])[0]
    assert (right - left) * -angle >= 0


@pytest.mark.parametrize("angle", [90.0, -90.0])
def test_turned_headings(angle: float) -> None:
    """The core of a line that runs upwards is as long as the line and half as thick."""
    page = _page(_text([Box(104, 40, 136, 200)], angle=angle))
    rows, columns = np.nonzero(maps_from_page(page, SIZE, SIZE)["line"])
    assert (rows.min(), rows.max() + 1) == (5, 25)
    assert columns.max() + 1 - columns.min() == 2


def test_unknown_cells_are_no_separators() -> None:
    """A hole in the grid and a cell without boxes draw nothing and raise nothing."""
    block = _table(2, 2)
    block.table.cells[0].box = block.table.cells[0].text_box = None
    del block.table.cells[3]
    maps = _maps(block)
    assert maps["rows"].sum() == 0 and maps["columns"].sum() == 0
