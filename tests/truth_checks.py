"""How exact the truth of rendered tables and pages is, measured on ways that share no code with how it was made.

PDFium's own characters tell what stands in a cell, the boxes alone tell the grid, and pixels that went through the
degradation's warps tell where a word's ink went.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pypdfium2
import pytest

from data_pipeline import render
from data_pipeline.warp import Warp
from docvision.page import Cell, Page, Table, Word

INK = 128
"""Grey below which a pixel of a clean picture is ink."""
SLACK = 1.5
"""Pixels by which ink may leave its box: a pixel is split by a warp, and glyph boxes are not rounded outwards."""
SHARED = 4
"""Pixels of another word's ink that a box may hold: upright boxes of words that lie askew touch at their corners."""


def cell_texts(sheet: pypdfium2.PdfPage, cells: list[Cell]) -> list[str]:
    """What PDFium finds in each cell's box, character by character, without spaces."""
    height = sheet.get_height()
    layer = sheet.get_textpage()
    edges = np.array([cell.box for cell in cells], dtype=float)
    found = [""] * len(cells)
    for index in range(layer.count_chars()):
        char = layer.get_text_range(index, 1)
        left, bottom, right, top = layer.get_charbox(index)
        if not char.strip() or right <= left:
            continue
        x, y = (left + right) / 2, height - (bottom + top) / 2
        # PDFium marks a hyphen at a line's end with a character of its own.
        char = "-" if char in "\x02\ufffe" else char
        inside = (edges[:, 0] <= x) & (x < edges[:, 2]) & (edges[:, 1] <= y) & (y < edges[:, 3])
        for place in np.flatnonzero(inside).tolist():
            found[place] += char
    return found


def wrong_texts(sheet: pypdfium2.PdfPage, page: Page) -> list[str]:
    """Cells of a page whose box holds other characters than their text."""
    cells = [cell for block in page.blocks if block.table for cell in block.table.cells]
    turned = [line.box for block in page.blocks for line in block.lines if abs(line.angle) > 45]
    wrong = []
    for cell, text in zip(cells, cell_texts(sheet, cells), strict=True):
        # Some languages repeat a hyphen at the start of the next line.
        wanted, text = "".join(cell.text.split()).replace("--", "-"), text.replace("--", "-")
        # PDFium orders turned text as it likes.
        loose = cell.text_box is not None and any(box.coverage(cell.text_box) > 0.5 for box in turned)
        if (sorted(wanted) != sorted(text)) if loose else (wanted != text):
            wrong.append(f"{cell.text!r} reads {text!r}")
    return wrong


def grid_from_boxes(table: Table, tolerance: float = 0.3) -> list[tuple[int, int, int, int]]:
    """Row, column, row span and column span of each cell, told by the edges of the boxes alone."""
    boxes = [cell.box for cell in table.cells if cell.box is not None]
    steps = []
    for axis in (0, 1):
        edges = sorted(edge for box in boxes for edge in (box[axis], box[axis + 2]))
        kept = [edge for i, edge in enumerate(edges) if not i or edge - edges[i - 1] > tolerance]
        steps.append(np.array(kept))
    places = []
    for x0, y0, x1, y1 in boxes:
        left, right = (int(np.abs(steps[0] - x).argmin()) for x in (x0, x1))
        top, bottom = (int(np.abs(steps[1] - y).argmin()) for y in (y0, y1))
        places.append((top, left, bottom - top, right - left))
    return places


def grid_of(table: Table) -> list[tuple[int, int, int, int]]:
    return [(cell.row, cell.column, cell.row_span, cell.column_span) for cell in table.cells]


def table_of(page: Page) -> Table:
    table = page.blocks[0].table
    assert table is not None
    return table


# words after degradation


@contextmanager
def recorded_warps() -> Iterator[list[Warp]]:
    """The warps that pictures go through, in order."""
    seen: list[Warp] = []
    move = Warp.image

    def record(self: Warp, image: np.ndarray) -> np.ndarray:
        seen.append(self)
        return move(self, image)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warp, "image", record)
        yield seen


def words_off(page: Page, image: np.ndarray, ageing: render.Ageing, rng: np.random.Generator) -> tuple[list[str], int]:
    """Degrade a picture and say which words' boxes miss their own ink or hold another word's.

    The ink of the clean picture is labelled by word. Two ramps, the pixel's own x and y, go through the same warps as
    the picture, so that they tell where each pixel came from.

    Returns:
        Words with what is wrong, and how many words have ink.
    """
    owners, boxes = render.gather(page)
    labels = np.zeros(image.shape, np.int32)
    words = [place for place, (owner, _) in enumerate(owners) if isinstance(owner, Word)]
    for number, place in enumerate(words, 1):
        x0, y0, x1, y1 = boxes[place]
        part = slice(max(0, int(y0)), int(np.ceil(y1))), slice(max(0, int(x0)), int(np.ceil(x1)))
        labels[part][(image[part] < INK) & (labels[part] == 0)] = number
    with recorded_warps() as warps:
        _, moved, _ = ageing(image, boxes, rng)
    y, x = (ramp.astype(np.float32) for ramp in np.indices(image.shape))
    for warp in warps:
        x, y = warp.image(x), warp.image(y)
    labels = labels[
        np.clip(np.rint(y), 0, image.shape[0] - 1).astype(int), np.clip(np.rint(x), 0, image.shape[1] - 1).astype(int)
    ]
    rows, columns = np.nonzero(labels)
    order = np.argsort(labels[rows, columns], kind="stable")
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(labels[rows, columns], np.arange(1, len(words) + 2))
    wrong, seen = [], 0
    for number, place in enumerate(words, 1):
        own = slice(starts[number - 1], starts[number])
        if own.start == own.stop:
            continue
        seen += 1
        name = owners[place][0].text
        x0, y0, x1, y1 = moved[place]
        # A pixel covers [x, x + 1).
        overhang = max(
            x0 - columns[own].min(), columns[own].max() + 1 - x1, y0 - rows[own].min(), rows[own].max() + 1 - y1
        )
        inner = labels[int(np.ceil(y0)) : int(y1), int(np.ceil(x0)) : int(x1)]
        others = int(((inner != 0) & (inner != number)).sum())
        if overhang > SLACK:
            wrong.append(f"{name!r}: ink {overhang:.1f} pixels outside")
        elif others > SHARED:
            wrong.append(f"{name!r}: {others} pixels of other words")
    return wrong, seen
