"""The header of a table without a net of lines: which lines of text belong to it, and how its cells span.

Header cells wrap over several lines, and a heading stands over its columns with a short line under it, or runs over
them by its own length.  Whatever stands above such a mark is one cell over these columns; below it the columns go on
alone.  A column without a heading above it has one cell as high as the header.
"""

from __future__ import annotations

import re

from docvision.cells import is_numeric
from docvision.page import Box, Word

MAX_LINES = 8
YEAR = re.compile(r"^[(\[]?(?:1[89]|20)\d\d(?:[-/\u2013]\d{2,4})?[)\]*]*$")

Chunk = list[Word]
Interval = tuple[float, float]
Span = tuple[int, int, int]
"""Number of lines above the mark, first and last column under it."""


def count_header_lines(
    rows: list[list[Chunk]], covers: list[list[list[int]]], edges: list[float], limits: list[float]
) -> int:
    """How many lines of text the header has.

    Args:
        rows: chunks of each line of text.
        covers: columns that each chunk stands in.
        edges: heights of the lines that run over the whole table.
        limits: height of the gap below each line of text.
    """
    first_data = next((i for i, row in enumerate(rows) if i and _is_data(row, covers[i])), 0)
    top = min(word.box.y1 for chunk in rows[0] for word in chunk) - 2
    for index in range(min(MAX_LINES, len(rows) - 1)):
        above = limits[index - 1] if index else top
        if any(above < y <= limits[index] for y in edges) and index + 1 < len(rows):
            inner = any(y > limits[index] for y in edges if y < limits[-1])
            if first_data == 0 or index + 1 <= first_data or not inner:
                return index + 1
    if 0 < first_data <= MAX_LINES:
        return first_data
    return 1


def _is_data(row: list[Chunk], covers: list[list[int]]) -> bool:
    texts = [" ".join(word.text for word in chunk) for chunk in row]
    rest = [text for text, cover in zip(texts, covers, strict=True) if 0 not in cover]
    if len(rest) == len(texts) or not rest or all(YEAR.match(text) for text in rest):
        return False
    return 2 * sum(is_numeric(text) for text in rest) >= len(rest)


def header_cells(
    rows: list[list[Chunk]],
    covers: list[list[list[int]]],
    columns: list[Interval],
    across: list[Box],
    limits: list[float],
) -> tuple[int, list[tuple[int, int, int, int, Chunk]]]:
    """Cells of the header.

    Args:
        rows: chunks of each header line.
        covers: columns that each chunk stands in.
        columns: intervals of the columns.
        across: horizontal lines in the table.
        limits: height of the gap below each line of text.

    Returns:
        Number of header rows, and (row, column, row span, column span, words) of each cell.
    """
    spans = _spans(rows, covers, columns, across, limits)
    over: list[list[Span]] = [[s for s in spans if s[1] <= column <= s[2]] for column in range(len(columns))]
    height = 1 + max(len(marks) for marks in over)
    cells: dict[tuple[int, int], tuple[int, int, int, int, Chunk]] = {}
    place: dict[tuple[int, int], tuple[int, int]] = {}
    for column, marks in enumerate(over):
        for depth in range(len(marks) + 1):
            last = depth == len(marks)
            first, end = (column, column) if last else (marks[depth][1], marks[depth][2])
            key = (depth, first)
            cells.setdefault(key, (depth, first, height - depth if last else 1, end - first + 1, []))
            top = marks[depth - 1][0] if depth else 0
            bottom = len(rows) if last else marks[depth][0]
            for line in range(top, bottom):
                place.setdefault((line, column), key)
    for line, row in enumerate(rows):
        for chunk, cover in zip(row, covers[line], strict=True):
            cells[place[line, cover[0]]][4].extend(chunk)
    return height, sorted(cells.values(), key=lambda cell: cell[:2])


def _spans(
    rows: list[list[Chunk]],
    covers: list[list[list[int]]],
    columns: list[Interval],
    across: list[Box],
    limits: list[float],
) -> list[Span]:
    """Marks of headings over several columns, from the top; they nest or lie apart."""
    found: set[Span] = set()
    for index in range(len(rows) - 1):
        above = limits[index - 1] if index else float("-inf")
        for rule in across:
            if above < rule.center[1] <= limits[index] and any(
                _under(rule, chunk) for row in rows[: index + 1] for chunk in row
            ):
                under = [i for i, (a, b) in enumerate(columns) if min(rule.x1, b) - max(rule.x0, a) > 0.5 * (b - a)]
                if len(under) >= 2 and len(under) < len(columns):
                    found.update((index + 1, *pair) for pair in _shares(rows[: index + 1], rule, columns, under))
        for chunk, cover in zip(rows[index], covers[index], strict=True):
            below = {c for line in covers[index + 1 :] for other in line for c in other}
            if len(cover) >= 2 and len(below & set(cover)) >= 2 and len(chunk) > 0:
                found.add((index + 1, cover[0], cover[-1]))
    kept: list[Span] = []
    for span in sorted(found, key=lambda span: (span[0], span[1] - span[2])):
        clash = any(
            (s[0] == span[0] and s[1] <= span[2] and span[1] <= s[2])
            or (s[1] <= span[2] and span[1] <= s[2] and not (s[1] <= span[1] and span[2] <= s[2]))
            or (s[1:] == span[1:] and not _has_text(rows[s[0] : span[0]], covers[s[0] : span[0]], span))
            for s in kept
        )
        if not clash:
            kept.append(span)
    return kept


def _has_text(rows: list[list[Chunk]], covers: list[list[list[int]]], span: Span) -> bool:
    """Whether a heading of the span's columns stands on one of the lines."""
    return any(
        span[1] <= cover[0] and cover[-1] <= span[2]
        for row, line in zip(rows, covers, strict=True)
        for _, cover in zip(row, line, strict=True)
    )


def _shares(rows: list[list[Chunk]], rule: Box, columns: list[Interval], under: list[int]) -> list[tuple[int, int]]:
    """First and last column of each heading above a line: one line may run under several headings side by side.

    Args:
        rows: chunks of the lines of text above the line.
        rule: the line.
        columns: intervals of the columns.
        under: columns that lie under the line.
    """
    whole = [(under[0], under[-1])]
    heads = next((found for row in reversed(rows) if (found := [c for c in row if _under(rule, c)])), [])
    if len(heads) < 2 or len(heads) > len(under) // 2:
        return whole
    centers = [(head[0].box.x0 + head[-1].box.x1) / 2 for head in heads]
    groups: list[list[int]] = [[] for _ in heads]
    for column in under:
        middle = sum(columns[column]) / 2
        groups[min(range(len(heads)), key=lambda i: abs(centers[i] - middle))].append(column)
    for center, group in zip(centers, groups, strict=True):
        if len(group) < 2:
            return whole
        left, right = columns[group[0]][0], columns[group[-1]][1]
        if abs(center - (left + right) / 2) > 0.25 * (right - left):
            return whole
    return [(group[0], group[-1]) for group in groups]


def _under(rule: Box, chunk: Chunk) -> bool:
    x0, x1 = chunk[0].box.x0, chunk[-1].box.x1
    return rule.x0 - 2 <= (x0 + x1) / 2 <= rule.x1 + 2


def line_limits(rows: list[list[Chunk]]) -> list[float]:
    """Height of the middle of the gap below each line of text; the last one's bottom."""
    bottoms = [max(word.box.y1 for chunk in row for word in chunk) for row in rows]
    tops = [min(word.box.y0 for chunk in row for word in chunk) for row in rows]
    return [max(bottom, (bottom + top) / 2) for bottom, top in zip(bottoms, tops[1:], strict=False)] + [bottoms[-1] + 2]
