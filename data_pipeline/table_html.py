"""HTML tables to :class:`docvision.page.Table`: what annotators answer and what PubTabNet holds.

Cells are placed as browsers place them: each at the first free column of its row.  Broken markup is read as far as it
goes: open cells and rows end where the next begins, a span stops at the table's last row and before a taken place.
The text of a nested table stands in the cell that holds it.  ``export.table_to_html`` is the way back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser

from docvision.page import Cell, Table

MAX_SPAN = 1000
"""As in browsers; a larger span is a slip and would fill the memory."""


@dataclass(slots=True)
class Opened:
    """A cell as the markup gives it, before it has a place."""

    row_span: int = 1
    column_span: int = 1
    header: bool = False
    text: str = ""


def place(rows: Sequence[Sequence[Opened]]) -> Table:
    """A table from rows of cells in the order of the markup."""
    taken: set[tuple[int, int]] = set()
    cells: list[Cell] = []
    columns = 0
    for row, opened in enumerate(rows):
        column = 0
        for item in opened:
            while (row, column) in taken:
                column += 1
            wide = 1
            while wide < item.column_span and (row, column + wide) not in taken:
                wide += 1
            tall = min(item.row_span, len(rows) - row)
            taken.update((row + down, column + right) for down in range(tall) for right in range(wide))
            cells.append(Cell(row, column, item.text, tall, wide, item.header))
            column += wide
            columns = max(columns, column)
    return Table(len(rows), columns, cells)


def without_holes(table: Table) -> Table:
    """The same table with an empty cell at each place that no cell covers; cells in row-major order."""
    holes = [
        Cell(row, column, header=row < table.header_rows)
        for row, line in enumerate(table.grid())
        for column, cell in enumerate(line)
        if cell is None
    ]
    return replace(table, cells=sorted([*table.cells, *holes], key=lambda cell: (cell.row, cell.column)))


def span(value: str | None) -> int:
    """A rowspan or colspan as browsers read it: a whole number from 1, else 1."""
    found = re.match(r"\s*\+?(\d{1,9})", value or "")
    return min(max(int(found[1]), 1), MAX_SPAN) if found else 1


def read_html_table(markup: str) -> Table:
    """The first table in ``markup``.

    Raises:
        ValueError: there is no ``<table>`` in it.
    """
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    if not reader.found:
        raise ValueError("no <table> in the HTML: give a table with <tr> and <td>")
    return place([[replace(cell, text=tidy(cell.text)) for cell in row] for row in reader.rows])


def tidy(text: str) -> str:
    """Lines without double spaces and without empty ends."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()


class _Reader(HTMLParser):
    """Collects the rows of the first outermost table."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[Opened]] = []
        self.found = False
        self._depth = 0
        self._head = False
        self._cell: Opened | None = None
        self._done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table" and not self._done:
            self.found = True
            self._depth += 1
        if self._depth != 1:
            return
        if tag in ("thead", "tbody", "tfoot"):
            self._head, self._cell = tag == "thead", None
        elif tag == "tr":
            self.rows.append([])
            self._cell = None
        elif tag in ("td", "th"):
            given = dict(attrs)
            header = self._head or tag == "th"
            self._cell = Opened(span(given.get("rowspan")), span(given.get("colspan")), header)
            if not self.rows:
                self.rows.append([])
            self.rows[-1].append(self._cell)
        elif tag == "br" and self._cell is not None:
            self._cell.text += "\n"

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self._depth:
            self._depth -= 1
            if self._depth == 0:
                self._done, self._cell = True, None
        elif self._depth == 1 and tag in ("td", "th", "tr", "thead", "tbody"):
            self._cell = None
            self._head = self._head and tag != "thead"

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            # A line end in the source is a space; only <br> breaks a line.
            self._cell.text += re.sub(r"\s+", " ", data)
