"""The cells of a table whose rows and columns are known: which places belong together, which rows are the header."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from docvision.chunks import Mask, Rules
from docvision.page import Box, bounding_box
from docvision.separators import Evidence, Interval

ABSENT = 0.3
"""A separator weaker than this, where its neighbours are strong, is taken to be missing: the cell spans."""
CLEAR = 0.5
MAX_HEADER = 0.5
"""Share of the rows that a header may take."""
Span = tuple[int, int, int, int]
"""First row, last row, first column, last column."""


@dataclass(slots=True)
class Grid:
    """Where rows and columns of text lie, and which chunks stand where."""

    columns: list[Interval]
    rows: list[Interval]
    places: list[tuple[int, int, int, int, Box]] = field(default_factory=list)
    """(first row, last row, first column, last column, chunk)."""


def band_edges(intervals: list[Interval]) -> list[float]:
    """Borders of rows or columns: midway between their texts."""
    return [intervals[0][0], *((a[1] + b[0]) / 2 for a, b in pairwise(intervals)), intervals[-1][1]]


def find_cells(grid: Grid, rows: Evidence, columns: Evidence, height: float) -> list[Span]:
    """Cells that fill the grid: those with text first, as wide as text and evidence make them."""
    owner = np.full((len(grid.rows), len(grid.columns)), -1)
    spans: list[Span] = []
    for r0, r1, c0, c1, _ in sorted(grid.places, key=lambda place: (place[0], place[2])):
        span = r0, r1, c0, c1
        while hit := {int(v) for v in owner[span[0] : span[1] + 1, span[2] : span[3] + 1].flat if v >= 0}:
            touched = [spans[i] for i in hit] + [span]
            span = (min(s[0] for s in touched), max(s[1] for s in touched),
                    min(s[2] for s in touched), max(s[3] for s in touched))  # fmt: skip
            for index in hit:
                owner[owner == index] = -1
        owner[span[0] : span[1] + 1, span[2] : span[3] + 1] = len(spans)
        spans.append(span)
    beside, below = _missing(grid, rows, columns)
    for index in range(len(spans)):
        if not (owner == index).any():
            continue
        texts = [place[4] for place in grid.places if inside_span(place[:4], spans[index])]
        spans[index] = _grow(spans[index], texts, owner, beside, below, grid, rows, height)
        owner[spans[index][0] : spans[index][1] + 1, spans[index][2] : spans[index][3] + 1] = index
    kept = [spans[index] for index in range(len(spans)) if (owner == index).any()]
    kept += [(int(r), int(r), int(c), int(c)) for r, c in zip(*np.nonzero(owner < 0), strict=True)]
    return sorted(kept, key=lambda span: (span[0], span[2]))


def inside_span(span: Span, other: Span) -> bool:
    """Whether all of the first span lies in the other."""
    return other[0] <= span[0] and span[1] <= other[1] and other[2] <= span[2] and span[3] <= other[3]


def _missing(grid: Grid, rows: Evidence, columns: Evidence) -> tuple[Mask, Mask]:
    """Where no separator stands beside a place, and where none below it: (rows, columns - 1), (rows - 1, columns)."""
    xs, ys = band_edges(grid.columns), band_edges(grid.rows)
    beside = _absent(grid.columns, ys, columns)
    below = _absent(grid.rows, xs, rows)
    return beside.T, below


def _absent(bands: list[Interval], edges: list[float], evidence: Evidence) -> Mask:
    """(bands - 1, edges - 1): separators between bands that are missing at one place and clear at most others."""
    absent = np.zeros((len(bands) - 1, len(edges) - 1), bool)
    for index, (above, below) in enumerate(pairwise(bands)):
        drawn = np.array([evidence.ruled(above[1] - 3, below[0] + 3, *pair) for pair in pairwise(edges)])
        mostly = len(drawn) > 1 and (drawn > 0.7).sum() >= max(1, 0.3 * len(drawn))
        if mostly and evidence.say < 0.5:
            absent[index] = drawn < 0.2
            continue
        told = np.array([evidence.at(above[1], below[0], *pair) for pair in pairwise(edges)])
        if evidence.say > 0.5 and told.max() > CLEAR:
            absent[index] = (told < ABSENT) & (drawn < 0.5)
    return absent


def _grow(
    span: Span,
    texts: list[Box],
    owner: NDArray[np.int_],
    beside: Mask,
    below: Mask,
    grid: Grid,
    rows: Evidence,
    height: float,
) -> Span:
    """Extend a cell over empty places: where separators are missing, or along a line under it."""
    r0, r1, c0, c1 = span

    def free(rows_: slice, columns_: slice) -> bool:
        return bool((owner[rows_, columns_] < 0).all())

    while c1 + 1 < owner.shape[1] and free(slice(r0, r1 + 1), slice(c1 + 1, c1 + 2)) and beside[r0 : r1 + 1, c1].all():
        c1 += 1
    while c0 > 0 and free(slice(r0, r1 + 1), slice(c0 - 1, c0)) and beside[r0 : r1 + 1, c0 - 1].all():
        c0 -= 1
    while r1 + 1 < owner.shape[0] and free(slice(r1 + 1, r1 + 2), slice(c0, c1 + 1)) and below[r1, c0 : c1 + 1].all():
        r1 += 1
    while r0 > 0 and free(slice(r0 - 1, r0), slice(c0, c1 + 1)) and below[r0 - 1, c0 : c1 + 1].all():
        r0 -= 1
    if (r0, r1, c0, c1) == span and texts and r1 + 1 < owner.shape[0]:
        wide = _under_line(span, bounding_box(texts), grid, rows)
        if (
            wide is not None
            and free(slice(r0, r1 + 1), slice(wide[0], c0))
            and free(slice(r0, r1 + 1), slice(c1 + 1, wide[1] + 1))
        ):
            c0, c1 = min(c0, wide[0]), max(c1, wide[1])
    return r0, r1, c0, c1


def _under_line(span: Span, text: Box, grid: Grid, rows: Evidence) -> tuple[int, int] | None:
    """First and last column of the line that is drawn under a heading and not under the whole table."""
    top, bottom = grid.rows[span[1]][1], grid.rows[span[1] + 1][0]
    whole = grid.columns[-1][1] - grid.columns[0][0]
    for rule in rows.rules:
        if top - 2 <= rule.center[1] <= bottom + 2 and rule.width < 0.9 * whole:
            under = [i for i, (a, b) in enumerate(grid.columns) if min(rule.x1, b) - max(rule.x0, a) > 0.5 * (b - a)]
            if len(under) > 1 and rule.x0 - 4 <= text.x0 and text.x1 <= rule.x1 + 4:
                return under[0], under[-1]
    return None


def header_rows(grid: Grid, cells: list[Span], rules: Rules, height: float) -> int:
    """Leading rows above the first line across the table, or the first row and what its cells span."""
    count = len(grid.rows)
    reach = max((span[1] + 1 for span in cells if span[0] == 0), default=1)
    if any(span[0] == 0 and span[3] > span[2] for span in cells) and reach == 1:
        reach = 2
    left, right = grid.columns[0][0], grid.columns[-1][1]
    evidence = Evidence(np.zeros((1, 1), np.float32), rules.across)
    drawn = [
        index + 1
        for index, (above, below) in enumerate(pairwise(grid.rows))
        if evidence.ruled(above[1] - 1, below[0] + 1, left, right) > 0.8
    ]
    if drawn and drawn[0] <= max(1, MAX_HEADER * count):
        return max(drawn[0], min(reach, count - 1)) if len(drawn) > 2 else drawn[0]
    return min(reach, max(1, count - 1))
