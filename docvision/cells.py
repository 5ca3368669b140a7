"""What all table finders share: found tables, cells from words, clean-up and header rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from docvision.blocks import join_lines
from docvision.lines import words_text
from docvision.page import Box, Cell, Table, Word, bounding_box

NUMERIC = re.compile(r"^[\W\d_]*\d[\W\d_]*[a-zA-Z%]{0,3}$|^[-\u2013\u2014.*\u2022]+$|^n/?a$", re.IGNORECASE)

SUPERSCRIPT = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u207b]+")
"""A note mark or an exponent, which makes no figure less of one."""


@dataclass(slots=True)
class FoundTable:
    """A table on a page and the words that it takes."""

    box: Box
    table: Table
    words: list[Word]


def make_cell(row: int, column: int, tall: int, wide: int, words: list[Word], box: Box | None) -> Cell:
    """A cell with its words put into lines."""
    lines = text_lines(words)
    text = "\n".join(words_text(line) for line in lines)
    return Cell(
        row=row,
        column=column,
        text=join_cell(text),
        row_span=tall,
        column_span=wide,
        box=box,
        text_box=bounding_box(word.box for word in words) if words else None,
    )


def join_cell(text: str) -> str:
    """The lines of a cell as one text."""
    return join_lines(text.split("\n"))


def text_lines(words: list[Word]) -> list[list[Word]]:
    """Words on one baseline each, from top to bottom, left to right."""
    lines: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.box.y1, word.box.x0)):
        if lines:
            last = lines[-1][-1]
            common = last.box.overlap_y(word.box)
            if common > 0.5 * min(last.box.height, word.box.height):
                lines[-1].append(word)
                continue
        lines.append([word])
    for line in lines:
        line.sort(key=lambda word: word.box.x0)
    return lines


def tidy(table: Table) -> Table:
    """Take out rows and columns that hold no text and no own cell, and flag the header."""
    table = _without_empty(table)
    flag_header(table)
    return table


def _without_empty(table: Table) -> Table:
    keep_rows = [r for r in range(table.rows) if any(c.row == r and c.text for c in table.cells)]
    keep_columns = [k for k in range(table.columns) if any(c.column == k and c.text for c in table.cells)]
    # A column that is empty from top to bottom may still be a column; a narrow one is a double line.
    widths = {}
    for cell in table.cells:
        if cell.box is not None and cell.column_span == 1:
            widths[cell.column] = cell.box.width
    heights = {}
    for cell in table.cells:
        if cell.box is not None and cell.row_span == 1:
            heights[cell.row] = cell.box.height
    keep_columns = sorted({*keep_columns, *(k for k, w in widths.items() if w > 14)})
    keep_rows = sorted({*keep_rows, *(r for r, h in heights.items() if h > 9)})
    rows = {old: new for new, old in enumerate(keep_rows)}
    columns = {old: new for new, old in enumerate(keep_columns)}
    cells = []
    for cell in table.cells:
        spanned_rows = [rows[r] for r in range(cell.row, cell.row + cell.row_span) if r in rows]
        spanned_columns = [columns[c] for c in range(cell.column, cell.column + cell.column_span) if c in columns]
        if not spanned_rows or not spanned_columns:
            continue
        cell.row, cell.row_span = spanned_rows[0], len(spanned_rows)
        cell.column, cell.column_span = spanned_columns[0], len(spanned_columns)
        cells.append(cell)
    cells.sort(key=lambda cell: (cell.row, cell.column))
    return Table(len(keep_rows), len(keep_columns), cells)


def is_numeric(text: str) -> bool:
    """Whether a cell holds a figure, a percentage or a mark for none."""
    plain = text if text.isascii() else SUPERSCRIPT.sub("", text) or text
    return bool(NUMERIC.match(plain.replace(" ", "")))


def flag_header(table: Table) -> None:
    """Mark the leading rows as header where the rows below hold figures and they do not."""
    if table.rows < 2:
        return
    figures = []
    for row in range(table.rows):
        cells = [cell for cell in table.cells if cell.row == row and cell.text and cell.column > 0]
        figures.append(sum(is_numeric(cell.text) for cell in cells) / len(cells) if cells else 0.0)
    count = 1
    while count < min(table.rows - 1, 5) and figures[count] < 0.3 and max(figures[count:]) >= 0.5:
        starts = [cell for cell in table.cells if cell.row == count and cell.column == 0 and cell.text]
        spans = any(cell.column_span > 1 for cell in table.cells if cell.row == count - 1)
        if starts and not spans:
            break
        count += 1
    reach = max((cell.row + cell.row_span for cell in table.cells if cell.row == 0), default=1)
    count = max(count, reach if reach < table.rows else 1)
    for cell in table.cells:
        cell.header = cell.row < count
