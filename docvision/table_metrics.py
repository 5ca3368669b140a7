"""Figures of quality for table grids: GriTS and neighbouring cells.

All functions take :class:`docvision.page.Table` and score whatever they are given: an empty prediction, cells
outside the grid or on top of each other lower a figure and never raise.

GriTS (Smock, Pesala and Abraham 2022, arXiv 2203.12555) compares two grids in which a spanning cell stands at every
place it covers.  Rows of one grid are aligned with rows of the other, and columns with columns, each by dynamic
programming over the best alignment of their cells; S is the similarity summed over the places where aligned rows and
columns cross, and the figure is 2 S / (places of one + places of the other).  Similarity of two places is the
intersection over union of their cells' extents relative to the place (top), twice the longest common subsequence
over both lengths (con), or the intersection over union of the cells' boxes on the page (loc).

Neighbours follow SciTSR (Chi et al. 2019, arXiv 1908.04729): each filled cell with the next filled cell to the right
and below, as (text, text, direction, empty places between).  White space and case of the texts do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from docvision.metrics import Score, common_lengths, shared
from docvision.page import Box, Cell, Table

Relation = tuple[str, str, str, int]


@dataclass(frozen=True)
class GritsScore:
    """The three forms of GriTS; ``loc`` is None where the truth does not know the box of every place."""

    top: Score
    con: Score
    loc: Score | None


# GriTS


def grits(predicted: Table, true: Table) -> GritsScore:
    """GriTS of one table: topology, content and, where the truth has boxes for all its cells, location."""
    mine, theirs = _places(predicted), _places(true)
    con = _aligned(*_similar_texts(predicted, true, mine, theirs))
    top = _aligned(_overlaps(_extents(mine), _extents(theirs)), mine.shape, theirs.shape)
    boxes = _boxes(true, theirs)
    loc = None
    if boxes is not None and np.isfinite(boxes).all():
        guessed = _boxes(predicted, mine)
        loc = _aligned(_overlaps(np.nan_to_num(guessed), boxes), mine.shape, theirs.shape)
    return GritsScore(top, con, loc)


@dataclass(frozen=True)
class _Grid:
    """Index of the cell at each place, -1 for none, and the extent of each place's cell."""

    cell: np.ndarray
    """(rows, columns)"""
    extent: np.ndarray
    """(rows, columns, 4): first column, first row, last column + 1, last row + 1."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.cell.shape[0], self.cell.shape[1]


def _places(table: Table) -> _Grid:
    cell = np.full((max(table.rows, 0), max(table.columns, 0)), -1)
    rows, columns = np.indices(cell.shape)
    extent = np.stack([columns, rows, columns + 1, rows + 1], axis=-1)
    for index, item in enumerate(table.cells):
        spanned = _spanned(item, table)
        if spanned is not None:
            top, bottom, left, right = spanned
            cell[top:bottom, left:right] = index
            extent[top:bottom, left:right] = (left, top, right, bottom)
    return _Grid(cell, extent)


def _spanned(cell: Cell, table: Table) -> tuple[int, int, int, int] | None:
    """Rows and columns that a cell covers inside its table: top, bottom, left, right; None where there are none."""
    bottom, right = (
        min(cell.row + max(cell.row_span, 1), table.rows),
        min(cell.column + max(cell.column_span, 1), table.columns),
    )
    top, left = max(cell.row, 0), max(cell.column, 0)
    return (top, bottom, left, right) if top < bottom and left < right else None


def _extents(grid: _Grid) -> np.ndarray:
    """Extents of the cells as seen from each place of theirs, (places, 4)."""
    rows, columns = np.indices(grid.cell.shape)
    return (grid.extent - np.stack([columns, rows, columns, rows], axis=-1)).reshape(-1, 4).astype(np.float64)


def _boxes(table: Table, grid: _Grid) -> np.ndarray:
    """Boxes of the cells at each place, (places, 4); NaN where there is none."""
    known = np.full((len(table.cells) + 1, 4), np.nan)
    for index, cell in enumerate(table.cells):
        if cell.box is not None:
            known[index] = cell.box
    return known[grid.cell.reshape(-1)]


def _similar_texts(
    predicted: Table, true: Table, mine: _Grid, theirs: _Grid
) -> tuple[np.ndarray, tuple[int, int], tuple[int, int]]:
    left = [*(cell.text for cell in predicted.cells), ""]
    right = [*(cell.text for cell in true.cells), ""]
    sums = np.array([len(text) for text in left])[:, None] + np.array([len(text) for text in right])[None, :]
    alike = np.where(sums > 0, 2 * common_lengths(left, right) / np.maximum(sums, 1), 1.0)
    return alike[np.ix_(mine.cell.reshape(-1), theirs.cell.reshape(-1))], mine.shape, theirs.shape


def _overlaps(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Intersection over union of every box of ``left`` (n, 4) with every one of ``right`` (m, 4), shape (n, m)."""
    a, b = left[:, None, :], right[None, :, :]
    wide = np.minimum(a[..., 2], b[..., 2]) - np.maximum(a[..., 0], b[..., 0])
    tall = np.minimum(a[..., 3], b[..., 3]) - np.maximum(a[..., 1], b[..., 1])
    common = np.maximum(wide, 0) * np.maximum(tall, 0)
    total = _areas(left)[:, None] + _areas(right)[None, :] - common
    return np.divide(common, total, out=np.zeros_like(common), where=total > 0)


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.maximum(boxes[:, 2] - boxes[:, 0], 0) * np.maximum(boxes[:, 3] - boxes[:, 1], 0)


def _aligned(similarity: np.ndarray, mine: tuple[int, int], theirs: tuple[int, int]) -> Score:
    """GriTS from the similarity of every place with every place, (rows x columns, rows x columns)."""
    if not similarity.size:
        return shared(0.0, mine[0] * mine[1], theirs[0] * theirs[1])
    places = similarity.reshape(*mine, *theirs)
    rows = _best_pairs(_alignment_scores(places.transpose(0, 2, 1, 3)))
    columns = _best_pairs(_alignment_scores(places.transpose(1, 3, 0, 2)))
    total = sum(places[i, j, k, m] for i, k in rows for j, m in columns)
    return shared(float(total), mine[0] * mine[1], theirs[0] * theirs[1])


def _alignment_scores(rewards: np.ndarray) -> np.ndarray:
    """Best sum over an order-preserving alignment of the last two axes, for all pairs of the first two at once."""
    above = np.zeros((*rewards.shape[:2], rewards.shape[3] + 1))
    for i in range(rewards.shape[2]):
        here = above.copy()
        for j in range(rewards.shape[3]):
            taken = above[..., j] + rewards[:, :, i, j]
            here[..., j + 1] = np.maximum(np.maximum(taken, above[..., j + 1]), here[..., j])
        above = here
    return above[..., -1]


def _best_pairs(rewards: np.ndarray) -> list[tuple[int, int]]:
    """The order-preserving one-to-one alignment with the greatest sum of rewards (n, m), as index pairs."""
    best = np.zeros((rewards.shape[0] + 1, rewards.shape[1] + 1))
    for i, row in enumerate(rewards):
        for j, reward in enumerate(row):
            best[i + 1, j + 1] = max(best[i, j] + reward, best[i, j + 1], best[i + 1, j])
    pairs = []
    i, j = rewards.shape
    while i and j:
        if best[i, j] == best[i - 1, j - 1] + rewards[i - 1, j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif best[i, j] == best[i - 1, j]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


# Neighbours


def neighbours(table: Table, blanks: bool = True) -> list[Relation]:
    """The relations of a table, as at the top of this file; without ``blanks`` empty places are not counted."""
    grid = _places(table).cell
    texts = ["".join(cell.text.split()).upper() for cell in table.cells]
    found = []
    for direction, lines in (("right", grid), ("below", grid.T)):
        seen: set[tuple[int, int]] = set()
        for line in lines:
            for first, second, between in _next_filled(line, texts):
                if (first, second) not in seen:
                    seen.add((first, second))
                    found.append((texts[first], texts[second], direction, between if blanks else 0))
    return found


def _next_filled(line: Sequence[int] | np.ndarray, texts: list[str]) -> Iterator[tuple[int, int, int]]:
    """Cells of a row or column that follow each other, and how many empty places lie between."""
    last = None
    for place, cell in enumerate(line):
        if cell < 0 or not texts[cell]:
            continue
        if last is not None and last[0] != cell:
            yield last[0], int(cell), place - last[1] - 1
        last = int(cell), place


def neighbour_score(predicted: Table, true: Table, blanks: bool = True) -> Score:
    """Precision, recall and F1 of the relations of one table, matched one to one."""
    mine, theirs = Counter(neighbours(predicted, blanks)), Counter(neighbours(true, blanks))
    return shared((mine & theirs).total(), mine.total(), theirs.total())


def text_boxes(table: Table) -> list[tuple[Box, float]]:
    """Boxes of the texts of a table, or of the cells where a text has none, each with the cell's confidence."""
    found = []
    for cell in table.cells:
        box = cell.text_box or (cell.box if cell.text else None)
        if box is not None:
            found.append((box, cell.confidence))
    return found
