"""Rows and columns of a table that has no net of lines, from the places of its words."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from docvision.blocks import CAPTION
from docvision.cells import FoundTable, is_numeric, make_cell, text_lines, tidy
from docvision.columns import merge_intervals
from docvision.headers import count_header_lines, header_cells, line_limits
from docvision.lines import words_text
from docvision.page import Box, Cell, Table, Word, bounding_box

CELL_GAP = 0.75
"""A gap of this share of the font size parts two cells of a row."""
MAX_HEADINGS = 3
"""Rows of headings that may hide the gaps between the columns below them."""
MAX_CELL_WORDS = 14
"""Median number of words in a cell, above which columns are prose."""

Chunk = list[Word]
"""Words of one row that belong to one cell."""


def grid_table(words: list[Word], across: list[Box], upright: list[Box], strict: bool) -> FoundTable | None:
    """Arrange the words of a region as a table, or None where they do not look like one.

    Args:
        words: all words of the region.
        across: horizontal lines in it.
        upright: vertical lines in it.
        strict: ask for clear columns, since nothing but alignment speaks for a table.
    """
    lines = text_lines(words)
    if len(lines) < 2:
        return None
    size = sorted(word.size for word in words)[len(words) // 2]
    rows = [_chunks(line, size, upright) for line in lines]
    rows = _part_figures(rows, size)
    columns = find_columns(rows, size)
    if len(columns) < 2 or not _looks_tabular(rows, columns, strict):
        return None
    box = bounding_box([word.box for word in words] + [line for line in across])
    return FoundTable(box, _table(rows, columns, across, box, size), words)


def interval_kind(words: list[Word], height: float) -> Literal["cells", "between", "other"]:
    """What stands between two lines of a possible table: rows of cells, something short, or anything else."""
    if not words:
        return "between" if height < 14 else "other"
    lines = text_lines(words)
    first = words_text(lines[0])
    if CAPTION.match(first) and len(lines[0]) > 2:
        return "other"
    size = sorted(word.size for word in words)[len(words) // 2]
    rows = [_chunks(line, size, []) for line in lines]
    lengths = sorted(len(chunk) for row in rows for chunk in row)
    several = sum(len(row) >= 2 for row in rows)
    if several == 0:
        return "between" if len(rows) <= 2 else "other"
    return "cells" if several >= 0.3 * len(rows) and lengths[len(lengths) // 2] <= 8 else "other"


def _chunks(line: list[Word], size: float, upright: list[Box]) -> list[Chunk]:
    chunks = [[line[0]]]
    for word in line[1:]:
        last = chunks[-1][-1]
        gap = word.box.x0 - last.box.x1
        parted = gap > CELL_GAP * size
        if not parted and upright:
            left, right, y = last.box.x1 - 1, word.box.x0 + 1, word.box.center[1]
            parted = any(left <= rule.x0 <= right and rule.y0 <= y <= rule.y1 for rule in upright)
        if parted or (gap > 0.5 * size and is_numeric(last.text) and is_numeric(word.text)):
            chunks.append([word])
        else:
            chunks[-1].append(word)
    return chunks


def _part_figures(rows: list[list[Chunk]], size: float) -> list[list[Chunk]]:
    """Cut chunks of figures where one narrow white strip runs down between them through all rows that hold figures.

    The line above them has to have words on both sides of the strip too: "2.0 x 10" is one cell however well it aligns.
    """
    body = [row for row in rows if any(is_numeric(word.text) for chunk in row[1:] or row for word in chunk)]
    first = rows.index(body[0]) if len(body) >= 3 else 0
    if not first:
        return rows
    used = merge_intervals([(word.box.x0, word.box.x1) for row in body for chunk in row for word in chunk], 0.2 * size)
    strips = []
    for (_, start), (end, _) in pairwise(used):
        crossed = sum(
            one.box.x1 <= start and two.box.x0 >= end and is_numeric(one.text) and is_numeric(two.text)
            for row in body
            for chunk in row
            for one, two in pairwise(chunk)
        )
        if crossed >= max(3, 0.6 * len(body)) and _has_sides(rows[first - 1], start, end, size):
            strips.append((start + end) / 2)
    if not strips:
        return rows
    return [[part for chunk in row for part in _cut_at(chunk, strips)] for row in rows]


def _has_sides(row: list[Chunk], start: float, end: float, size: float) -> bool:
    """Whether two neighbouring words of a line stand left and right of a strip, near it, with white between them."""
    words = [word for chunk in row for word in chunk]
    return any(
        start - 2 * size < one.box.x1 < end
        and start < two.box.x0 < end + 2 * size
        and two.box.x0 - one.box.x1 > 0.3 * size
        for one, two in pairwise(words)
    )


def _cut_at(chunk: Chunk, strips: list[float]) -> list[Chunk]:
    """A chunk cut between words that lie on two sides of a strip."""
    parts = [[chunk[0]]]
    for word in chunk[1:]:
        if any(parts[-1][-1].box.x1 <= x <= word.box.x0 for x in strips):
            parts.append([word])
        else:
            parts[-1].append(word)
    return parts


def extent(chunk: Chunk) -> tuple[float, float]:
    return chunk[0].box.x0, max(word.box.x1 for word in chunk)


def find_columns(rows: list[list[Chunk]], size: float) -> list[tuple[float, float]]:
    """Intervals of the x axis that hold the columns, from left to right."""
    full = [row for row in rows if len(row) >= 2]
    if len(full) < 2:
        return []
    spans = sorted((extent(chunk) for row in full for chunk in row), key=lambda span: span[1] - span[0])
    columns = merge_intervals(list(spans), 0.25 * size)
    # Cells across several columns (headings) hide the gap below them: leave out the widest ones as long as that parts
    # columns for most of the rows.
    limit = max(1, len(full) // 4)
    for skipped in range(1, min(limit, len(spans) - 2) + 1):
        parted = merge_intervals(list(spans[:-skipped]), 0.25 * size)
        if len(parted) > len(columns) and _is_supported(parted, full):
            columns = parted
    # So do short headings set over the middle of their columns: look at the rows below the first ones alone.
    for first in range(1, min(MAX_HEADINGS, len(full) - 3) + 1):
        below = full[first:]
        parted = merge_intervals([extent(chunk) for row in below for chunk in row], 0.25 * size)
        reached = {index for row in below for chunk in row for index in covered(chunk, columns)}
        better = len(parted) > len(columns) or (len(parted) == len(reached) < len(columns))
        if better and _is_supported(parted, below) and _stand_over(full[:first], parted):
            columns = parted
    return columns


def _stand_over(heads: list[list[Chunk]], columns: list[tuple[float, float]]) -> bool:
    """Whether every heading lies over one column or over the middle of several, and touches no other heading's."""
    for row in heads:
        covers = [covered(chunk, columns) for chunk in row]
        if any(one[-1] >= two[0] for one, two in pairwise(covers)):
            return False
        for chunk, cover in zip(row, covers, strict=True):
            left, right = columns[cover[0]][0], columns[cover[-1]][1]
            if len(cover) > 1 and abs(sum(extent(chunk)) - left - right) > 0.5 * (right - left):
                return False
    return True


def _is_supported(columns: list[tuple[float, float]], rows: list[list[Chunk]]) -> bool:
    counts = [0] * len(columns)
    for row in rows:
        for chunk in row:
            for index in covered(chunk, columns):
                counts[index] += 1
    return min(counts) >= max(2, 0.25 * len(rows))


def covered(chunk: Chunk, columns: list[tuple[float, float]]) -> list[int]:
    """Columns that a chunk stands in; the nearest where it stands in none."""
    x0, x1 = extent(chunk)
    inside = [
        i for i, (a, b) in enumerate(columns) if min(x1, b) - max(x0, a) > min(3.0, 0.3 * (b - a), 0.5 * (x1 - x0))
    ]
    # A heading that closes the white gap between two columns belongs to both.
    bridged = [i for i, (a, b) in enumerate(pairwise(columns)) if x0 < a[1] and b[0] < x1]
    if inside or bridged:
        return sorted({*inside, *bridged, *(i + 1 for i in bridged)})
    # So does one that stands in the gap, over the middle of the two.
    for i, (a, b) in enumerate(pairwise(columns)):
        if a[1] <= x0 and x1 <= b[0] and abs(x0 + x1 - a[0] - b[1]) < 0.2 * (b[1] - a[0]):
            return [i, i + 1]
    center = (x0 + x1) / 2
    return [min(range(len(columns)), key=lambda i: max(columns[i][0] - center, center - columns[i][1], 0.0))]


def _looks_tabular(rows: list[list[Chunk]], columns: list[tuple[float, float]], strict: bool) -> bool:
    """Whether rows of cells are a table and not columns of prose, a list or a contents page."""
    several = sum(len(row) >= 2 for row in rows)
    if several < max(2, (0.5 if strict else 0.3) * len(rows)):
        return False
    chunks = [chunk for row in rows for chunk in row]
    lengths = sorted(len(chunk) for chunk in chunks)
    if lengths[len(lengths) // 2] > (5 if strict else MAX_CELL_WORDS):
        return False
    figures = sum(is_numeric(" ".join(word.text for word in chunk)) for chunk in chunks)
    if strict and len(columns) == 2:
        return several >= 3 and figures >= 0.3 * len(chunks)
    return not strict or figures >= 0.2 * len(chunks) or several >= 0.6 * len(rows)


def group_rows(
    rows: list[list[Chunk]], columns: list[tuple[float, float]], across: list[Box], size: float
) -> list[list[list[Chunk]]]:
    """Lines of text put together into table rows."""
    if not rows:
        return []
    edges = _full_edges(across, columns)
    baselines = [max(word.box.y1 for chunk in row for word in chunk) for row in rows]
    steps = sorted(below - above for above, below in pairwise(baselines))
    usual = (steps[len(steps) // 4], steps[(3 * len(steps)) // 4]) if steps else (size, size)
    parted = [False] + [
        any(above - 0.3 * size < y < below - 0.3 * size for y in edges) for above, below in pairwise(baselines)
    ]
    groups: list[list[list[Chunk]]] = []
    for index, row in enumerate(rows):
        if not groups or parted[index]:
            groups.append([row])
            continue
        step = baselines[index] - baselines[index - 1]
        # Where lines part most rows, what stands between two of them is one row.
        ruled = sum(parted) >= 3 and 2 * sum(parted) >= len(rows) - 1
        if (ruled and not _is_full(row, columns)) or _wraps(groups[-1], row, columns, step, usual, size):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _full_edges(across: list[Box], columns: list[tuple[float, float]], share: float = 0.6) -> list[float]:
    """Heights at which lines run over most of the table; a line under one word or figure parts no rows."""
    width = columns[-1][1] - columns[0][0]
    levels: list[tuple[float, float, float]] = []
    for line in sorted(across, key=lambda line: line.center[1]):
        if levels and line.center[1] - levels[-1][0] < 2:
            y, total, left = levels[-1]
            levels[-1] = (y, total + line.width, min(left, line.x0))
        else:
            levels.append((line.center[1], line.width, line.x0))
    # A line that leaves out the first column stands under headings, however wide they are.
    first = columns[0][1] if share > 0.9 else columns[-1][1]
    return [y for y, total, left in levels if total >= share * width and left < first]


def _is_full(row: list[Chunk], columns: list[tuple[float, float]]) -> bool:
    """Whether a line has text in its first and in most columns, as the start of a row has."""
    here = {index for chunk in row for index in covered(chunk, columns)}
    return 0 in here and len(here) >= 0.6 * len(columns) and len(here) > 1


def _wraps(
    group: list[list[Chunk]],
    row: list[Chunk],
    columns: list[tuple[float, float]],
    step: float,
    usual: tuple[float, float],
    size: float,
) -> bool:
    """Whether a line goes on with the row above it."""
    tight, loose = usual
    if step > 1.6 * size:
        return False
    here = {index for chunk in row for index in covered(chunk, columns)}
    before = {index for line in group for chunk in line for index in covered(chunk, columns)}
    figures = any(is_numeric(" ".join(word.text for word in chunk)) for chunk in row)
    long = sum(len(chunk) for chunk in row) >= 3 * len(row)
    if loose > 1.25 * tight and step < (tight + loose) / 2:
        if _is_full(row, columns) and not long:
            return False
        return not figures or not here & before or 0 not in here
    if figures or not here <= before:
        return False
    if 0 in here:
        # A wrapped row label: only the first column goes on, set in from its start.
        return len(here) == 1 and len(before) > 1 and row[0][0].box.x0 > group[0][0][0].box.x0 + 0.5 * size
    return len(here) <= max(1, len(columns) // 2)


def _table(
    rows: list[list[Chunk]], columns: list[tuple[float, float]], across: list[Box], box: Box, size: float
) -> Table:
    """Header and body rows as cells."""
    covers = [[covered(chunk, columns) for chunk in row] for row in rows]
    limits = line_limits(rows)
    count = count_header_lines(rows, covers, _full_edges(across, columns, 0.92), limits)
    height, head = header_cells(rows[:count], covers[:count], columns, across, limits)
    body = group_rows(rows[count:], columns, across, size)
    edges = [box.x0, *((a[1] + b[0]) / 2 for a, b in pairwise(columns)), box.x1]
    top = limits[count - 1] if body else box.y1
    bounds = [box.y0 + (top - box.y0) * step / height for step in range(height)] + [top]
    bottoms = [max(w.box.y1 for line in group for chunk in line for w in chunk) for group in body]
    tops = [min(w.box.y0 for line in group for chunk in line for w in chunk) for group in body]
    bounds += [max((b + t) / 2, top) for b, t in zip(bottoms, tops[1:], strict=False)] + [box.y1] * bool(body)
    cells = [
        make_cell(
            row, column, tall, wide, words, Box(edges[column], bounds[row], edges[column + wide], bounds[row + tall])
        )
        for row, column, tall, wide, words in head
    ]
    for row, group in enumerate(body, height):
        cells += _row_cells(row, group, columns, edges, (bounds[row], bounds[row + 1]))
    table = tidy(Table(height + len(body), len(columns), cells))
    for cell in table.cells:
        cell.header = cell.row < height and bool(body)
    return table


def _row_cells(
    row: int,
    group: list[list[Chunk]],
    columns: list[tuple[float, float]],
    edges: list[float],
    extent_y: tuple[float, float],
) -> list[Cell]:
    """Cells of one body row, empty ones included."""
    spans = []
    for line in group:
        for chunk in line:
            inside = covered(chunk, columns)
            spans.append((inside[0], inside[-1], list(chunk)))
    merged = _merge_spans(spans)
    taken = {column for first, last, _ in merged for column in range(first, last + 1)}
    merged += [(column, column, []) for column in range(len(columns)) if column not in taken]
    return [
        make_cell(row, first, 1, last - first + 1, words, Box(edges[first], extent_y[0], edges[last + 1], extent_y[1]))
        for first, last, words in sorted(merged, key=lambda span: span[:2])
    ]


def _merge_spans(spans: list[tuple[int, int, list[Word]]]) -> list[tuple[int, int, list[Word]]]:
    """Chunks of a row that share a column become one cell."""
    merged: list[tuple[int, int, list[Word]]] = []
    for first, last, words in sorted(spans, key=lambda span: span[:2]):
        if merged and first <= merged[-1][1]:
            start, end, before = merged[-1]
            merged[-1] = (start, max(end, last), before + words)
        else:
            merged.append((first, last, words))
    return merged
