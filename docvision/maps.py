"""Truth for the structure head: a page's lines, blocks and tables as small maps over its image.

A map has one cell for each 8 x 8 pixels, ``ceil(H / 8)`` x ``ceil(W / 8)`` in all, and says something about the cell's
centre.  Five kinds, as section 13 of the TableSeq notes proposes them:

    line      core of a text line: the middle half of its height, so that neighbouring lines stay apart
    block     index into :data:`CLASSES` of the block under the cell
    rows      midway between the text bands of consecutive table rows, one cell thick, not through a spanning cell
    columns   the same between columns
    corners   where the two cross

The outer border of a table is in none of them.  Page boxes are upright even where the page is turned a little (a scan
that lies askew), so the boxes of lines and blocks are first taken back to the rectangle that was turned: its angle is
the median of the page's ``Line.angle``.  ``valid`` is 1 where the image is; batches pad it with 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from docvision.page import Box, Cell, Line, Page, Table

CLASSES = (
    "background", "text", "heading", "list", "caption", "table", "figure", "header", "footer", "footnote", "code",
    "formula",
)  # fmt: skip
CELL = 8
"""Pixels a cell, in both directions."""


def maps_from_page(page: Page, width_px: int, height_px: int) -> dict[str, np.ndarray]:
    """Rasterise a page's truth for its image.

    Args:
        page: blocks with lines and tables; boxes in points.
        width_px: width of the page image in pixels.
        height_px: its height.

    Returns:
        ``line``, ``rows``, ``columns``, ``corners``, ``valid`` (float32, 0 or 1) and ``block`` (int64), all
        ``(ceil(height_px / 8), ceil(width_px / 8))``.
    """
    shape = -(-height_px // CELL), -(-width_px // CELL)
    maps = {name: np.zeros(shape, np.float32) for name in ("line", "rows", "columns", "corners")}
    maps["block"] = np.zeros(shape, np.int64)
    sx, sy = width_px / page.width / CELL, height_px / page.height / CELL
    angle = page_angle(page)
    # Small blocks last: a caption inside a figure's box stays a caption.
    for block in sorted(page.blocks, key=lambda block: -block.box.area):
        _fill(maps["block"], block.box.scale(sx, sy), angle, CLASSES.index(block.kind))
    for line in _lines(page):
        _fill(maps["line"], line.box.scale(sx, sy), line.angle or angle, 1.0, core=0.5)
    for block in page.blocks:
        if block.table is not None:
            _separators(maps, block.table, block.box.scale(sx, sy), sx, sy)
    maps["valid"] = np.ones(shape, np.float32)
    return maps


def page_angle(page: Page) -> float:
    """The turn of the page in degrees, counter-clockwise: the median over its wide lines."""
    lines = list(_lines(page))
    if not lines:
        return 0.0
    widest = max(line.box.width for line in lines)
    angles = [line.angle for line in lines if line.box.width > 0.3 * widest and abs(line.angle) < 20]
    return float(np.median(angles)) if angles else 0.0


def _lines(page: Page) -> Iterator[Line]:
    """All lines; a table without any gives the text box of each cell instead."""
    for block in page.blocks:
        yield from block.lines
        if block.table is not None and not block.lines:
            for cell in block.table.cells:
                if cell.text_box is not None:
                    yield Line(cell.text, cell.text_box)


_LEAST_SPREAD = math.cos(math.radians(40))
"""Of the cosine of twice the angle: boxes are turned by up to 20 degrees from upright or lying."""


def _fill(target: np.ndarray, box: Box, angle: float, value: float, core: float = 0.0) -> None:
    """Set the cells whose centre lies in ``box`` (in cells), turned by ``angle``.

    With ``core`` only that share of the height counts, and never less than one cell.
    """
    sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    width, height = box.width, box.height
    # The sides of the rectangle whose upright bounds the box is; near 45 degrees the bounds do not tell them.
    spread = cosine * cosine - sine * sine
    if abs(angle) > 0.05 and abs(spread) > _LEAST_SPREAD:
        s, c = abs(sine), abs(cosine)
        width, height = max(1e-6, (width * c - height * s) / spread), (height * c - width * s) / spread
        across_box = box.height if c > s else box.width
        height = max(height, 0.3 * across_box / (1 + min(s, c) * width))
    x, y = box.center
    half = max(core * height, 1.0) / 2 if core else height / 2
    top, bottom = max(0, math.floor(box.y0 - 1)), min(target.shape[0], math.ceil(box.y1 + 1))
    left, right = max(0, math.floor(box.x0 - 1)), min(target.shape[1], math.ceil(box.x1 + 1))
    if top >= bottom or left >= right:
        return
    dy = np.arange(top, bottom)[:, None] + 0.5 - y
    dx = np.arange(left, right)[None] + 0.5 - x
    # y grows downwards and the angle counts against the clock, hence the sign. Half open, so that one cell's
    # height holds one row exactly.
    across = dy * cosine + dx * sine
    along = dx * cosine - dy * sine
    reach = max(width, 1.0) / 2 if core else width / 2
    inside = (across >= -half) & (across < half) & (along >= -reach) & (along < reach)
    target[top:bottom, left:right][inside] = value


# tables


def _separators(maps: dict[str, np.ndarray], table: Table, area: Box, sx: float, sy: float) -> None:
    """Draw the inner separators of one table.

    A separator is drawn piece by piece, cell by cell, so it follows a table that lies askew.
    """
    grid = [[_scaled(cell, sx, sy) for cell in row] for row in table.grid()]
    turned = [list(column) for column in zip(*grid, strict=True)]
    rows = _pieces(grid, axis=1)
    columns = _pieces(turned, axis=0)
    drawn = {"rows": np.zeros_like(maps["rows"]), "columns": np.zeros_like(maps["rows"])}
    for piece in rows:
        _draw(drawn["rows"], piece, area)
    for piece in columns:
        _draw(drawn["columns"].T, piece, Box(area.y0, area.x0, area.y1, area.x1))
    for name, drawing in drawn.items():
        np.maximum(maps[name], drawing, out=maps[name])
    np.maximum(maps["corners"], drawn["rows"] * drawn["columns"], out=maps["corners"])


_Place = tuple[int, Box, Box | None]
"""Identity of a cell, its box and its text's box, in map cells."""
_Piece = tuple[float, float, float]
"""Start and end along the separator, and where it lies across."""


def _scaled(cell: Cell | None, sx: float, sy: float) -> _Place | None:
    box = (cell.box or cell.text_box) if cell is not None else None
    if cell is None or box is None:
        return None
    return id(cell), box.scale(sx, sy), cell.text_box.scale(sx, sy) if cell.text_box else None


def _pieces(grid: list[list[_Place | None]], axis: int) -> list[_Piece]:
    """Separators between consecutive rows of ``grid``; ``axis`` is 1 where rows are apart in y, 0 for x."""
    pieces = []
    for above, below in pairwise(grid):
        pairs = [
            (first, second)
            for first, second in zip(above, below, strict=True)
            if first is not None and second is not None and first[0] != second[0]
        ]
        if not pairs:
            continue
        borders = [(first[1][axis + 2] + second[1][axis]) / 2 for first, second in pairs]
        # From the cell border to the middle of the gap between the two rows' text.
        before = [border - first[2][axis + 2] for (first, _), border in zip(pairs, borders, strict=True) if first[2]]
        after = [second[2][axis] - border for (_, second), border in zip(pairs, borders, strict=True) if second[2]]
        offset = (min(after) - min(before)) / 2 if before and after else 0.0
        for (first, second), border in zip(pairs, borders, strict=True):
            start = max(first[1][1 - axis], second[1][1 - axis])
            end = min(first[1][3 - axis], second[1][3 - axis])
            pieces.append((start, end, border + offset))
    return pieces


def _draw(target: np.ndarray, piece: _Piece, area: Box) -> None:
    """One piece as a row of cells; gaps of borderless cells close because pieces end on cell borders."""
    start, end, place = piece
    row = math.floor(min(max(place, area.y0 + 0.5), area.y1 - 0.5)) if area.height > 1 else math.floor(place)
    first, last = max(0, math.floor(start + 0.5)), min(target.shape[1], math.floor(end + 0.5))
    if 0 <= row < target.shape[0]:
        target[row, first : max(last, first + 1)] = 1.0
