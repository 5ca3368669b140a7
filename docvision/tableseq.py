"""A table as one stream of tags, text and coordinates, and back (TableSeq, arXiv 2604.16070).

    <table> <thead> <tr> <td> <x_i><y_j> text <x_k><y_l> </td> ... </tr> </thead> <tbody> ... </tbody> </table>

The top left corner of the box around a cell's text stands before the text, the bottom right corner behind it; an empty
cell is ``<td></td>``.  A spanning cell opens with ``<td``, colspan, rowspan and ``>``.  Rows made of header cells
only, from the top, stand in thead and all others in tbody, as in :func:`docvision.export.table_to_html`.

Coordinates are edges in steps of COORDINATE_PIXELS of the picture that the model sees, rounded once.
What the stream cannot hold: boxes of the grid, line breaks in a cell, header cells below or beside the header rows,
and bold or raised characters (the vocabulary has their tags, but ``Cell.text`` is plain, so they are never written).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from docvision.page import Box, Cell, Table
from docvision.tokens import MAX_SPAN, PAD, Vocabulary, normalise_text

COORDINATE_PIXELS = 2
"""Pixels of the model's picture to one coordinate bin; 2 keeps a mean IoU of 0.84 on text 8 to 13 pixels high."""
STALLED_ROWS = 2
"""So many rows in succession whose boxes do not move down prove a loop."""


class TableStreamError(ValueError):
    """A table that has no stream, or a token that the grammar forbids."""


class ParsedTable(NamedTuple):
    """What a stream holds."""

    table: Table
    notes: list[str]
    """What was wrong with the stream and what was done about it; empty for a well-formed one."""


def table_to_ids(
    table: Table,
    vocabulary: Vocabulary,
    scale: tuple[float, float],
    text: bool = True,
    boxes: bool = True,
    origin: tuple[float, float] = (0.0, 0.0),
) -> list[int]:
    """The stream of a table, from ``<table>`` to ``</table>``.

    Args:
        table: cells with ``text_box`` where ``boxes`` is set.
        vocabulary: token ids.
        scale: pixels of the model's picture per unit of the boxes, by axis.
        text: False leaves the characters out (the ``structure`` stream).
        boxes: False leaves the coordinates out.
        origin: place of the picture's top left corner in the units of the boxes.

    Raises:
        TableStreamError: cells overlap, a span is too long, a box is missing or lies beyond the last bin.
    """
    table = stream_form(table)
    tag = vocabulary.ids
    head = table.header_rows
    rows: list[list[Cell]] = [[] for _ in range(table.rows)]
    for cell in table.cells:
        rows[cell.row].append(cell)
    ids = [tag["<table>"]]
    for row, cells in enumerate(rows):
        if row in (0, head):
            ids.append(tag["<thead>" if row < head else "<tbody>"])
        ids.append(tag["<tr>"])
        for cell in cells:
            ids += cell_to_ids(cell, vocabulary, scale, text, boxes, origin)
        ids.append(tag["</tr>"])
        if row in (head - 1, table.rows - 1):
            ids.append(tag["</thead>" if row < head else "</tbody>"])
    return [*ids, tag["</table>"]]


def cell_to_ids(
    cell: Cell,
    vocabulary: Vocabulary,
    scale: tuple[float, float],
    text: bool = True,
    boxes: bool = True,
    origin: tuple[float, float] = (0.0, 0.0),
) -> list[int]:
    """One cell of the stream, from ``<td`` to ``</td>``; the cell's text is taken as it stands."""
    tag = vocabulary.ids
    spans = (("colspan", cell.column_span), ("rowspan", cell.row_span))
    attributes = [tag[f'{name}="{value}"'] for name, value in spans if value > 1]
    ids = [tag["<td"], *attributes, vocabulary.close_bracket] if attributes else [tag["<td>"]]
    if cell.text:
        before, after = _corners(cell, vocabulary, scale, origin) if boxes else ([], [])
        ids += [*before, *(vocabulary.encode(cell.text) if text else []), *after]
    return [*ids, tag["</td>"]]


def _corners(
    cell: Cell, vocabulary: Vocabulary, scale: tuple[float, float], origin: tuple[float, float]
) -> tuple[list[int], list[int]]:
    """Tokens of the text box's two corners; no box is thinner than one bin."""
    place = f"row {cell.row}, column {cell.column}"
    if cell.text_box is None:
        raise TableStreamError(f"{place}: text without a text box: write the table with boxes=False")
    edges = []
    for axis in (0, 1):
        start, end = ((cell.text_box[axis + k] - origin[axis]) * scale[axis] for k in (0, 2))
        low = max(-quantise(-start), 0)  # a half goes outwards on both sides
        high = quantise(end)
        if high <= low:
            low = max(math.floor((start + end) / 2 / COORDINATE_PIXELS), 0)
            high = low + 1
        if high >= vocabulary.bins:
            limit = (vocabulary.bins - 1) * COORDINATE_PIXELS
            raise TableStreamError(f"{place}: its box ends at pixel {end:.0f}, {limit} at most: lower the scale")
        edges.append((low, high))
    (x0, x1), (y0, y1) = edges
    return [vocabulary.x(x0), vocabulary.y(y0)], [vocabulary.x(x1), vocabulary.y(y1)]


def quantise(pixels: float) -> int:
    """The bin of a right or bottom edge: the nearest multiple of COORDINATE_PIXELS, halves up; of -x for a left one."""
    return math.floor(pixels / COORDINATE_PIXELS + 0.5)


def stream_form(table: Table) -> Table:
    """The table as its stream tells it: all that is lost between a table and its stream, but for rounding.

    Holes become empty cells, spans end with the grid, texts are normalised, only thead's cells are header cells.

    Raises:
        TableStreamError: cells overlap, lie outside the grid or span more than MAX_SPAN.
    """
    owner: dict[tuple[int, int], Cell] = {}
    for cell in sorted(table.cells, key=lambda cell: (cell.row, cell.column)):
        wide, tall = min(cell.column_span, table.columns - cell.column), min(cell.row_span, table.rows - cell.row)
        place = f"row {cell.row}, column {cell.column}"
        if min(wide, tall) < 1 or min(cell.row, cell.column) < 0:
            raise TableStreamError(f"{place}: a cell outside the {table.rows} x {table.columns} table")
        if max(wide, tall) > MAX_SPAN:
            raise TableStreamError(f"{place}: a span of {max(wide, tall)}, {MAX_SPAN} at most")
        text = normalise_text(cell.text)
        cell = replace(
            cell, text=text, column_span=wide, row_span=tall, box=None, text_box=cell.text_box if text else None
        )
        for row in range(cell.row, cell.row + tall):
            for column in range(cell.column, cell.column + wide):
                if owner.setdefault((row, column), cell) is not cell:
                    raise TableStreamError(f"{place}: cells overlap at row {row}, column {column}")
    head = table.header_rows
    while any(cell.row < head < cell.row + cell.row_span for cell in owner.values()):
        head -= 1  # a span may not reach from thead into tbody
    cells = []
    for row in range(table.rows):
        for column in range(table.columns):
            cell = owner.get((row, column)) or Cell(row, column)
            cell.header = cell.row < head
            if (cell.row, cell.column) == (row, column):
                cells.append(cell)
    return Table(table.rows, table.columns, cells)


def ids_to_table(
    ids: Sequence[int],
    vocabulary: Vocabulary,
    scale: tuple[float, float],
    origin: tuple[float, float] = (0.0, 0.0),
    scores: Sequence[float | None] | None = None,
) -> ParsedTable:
    """The table of a stream, however broken; no cell that the stream did not write, and never an exception.

    A cell that the end of the stream cuts is left out unless its second corner is there, because half a number is
    a wrong number.  Rows that provably loop are left out.  Places without a cell stay empty of cells.

    Args:
        ids: the stream; what stands before ``<table>`` is skipped, what follows ``</table>`` is not read.
        vocabulary: token ids.
        scale: as for :func:`table_to_ids`.
        origin: as for :func:`table_to_ids`.
        scores: log probability of each id, None where the grammar left no choice; the geometric mean over a cell
            becomes its confidence.
    """
    reader = _Reader(vocabulary, scale, origin)
    for index, token in enumerate(ids):
        if token == vocabulary.eos or reader.done:
            break
        if token != PAD:
            reader.read(int(token), None if scores is None else scores[index])
    return reader.finish()


@dataclass
class _Open:
    """A cell being read."""

    attributes: bool
    """Inside ``<td ... >``."""
    column_span: int = 1
    row_span: int = 1
    text: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    """Axis and bin of each coordinate."""
    scores: list[float] = field(default_factory=list)

    def box(self) -> tuple[int, int, int, int] | None:
        """The first x, y, x, y in succession; corners in the wrong order are turned."""
        for start in range(len(self.edges) - 3):
            four = self.edges[start : start + 4]
            if [axis for axis, _ in four] == [0, 1, 0, 1]:
                x0, y0, x1, y1 = (value for _, value in four)
                return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
        return None


class _Reader:
    """Reads a stream token by token; knows the places that spans from above take."""

    def __init__(self, vocabulary: Vocabulary, scale: tuple[float, float], origin: tuple[float, float]) -> None:
        self.vocabulary = vocabulary
        self.scale, self.origin = scale, origin
        self.cells: list[Cell] = []
        self.notes: list[str] = []
        self.boxes: dict[int, list[tuple[int, int, int, int]]] = {}
        """By row, the boxes in bins of its cells that do not span rows."""
        self.taken: dict[int, set[int]] = {}
        """By row, the columns that hold a cell."""
        self.row = -1
        self.in_row = self.header = self.started = self.done = False
        self.cell: _Open | None = None

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def read(self, token: int, score: float | None) -> None:
        v = self.vocabulary
        name = v.names[token] if 0 <= token < len(v) else ""
        if not self.started:
            self.started = name == "<table>"
            return
        opening = name in ("<td>", "<td")
        if opening:
            self._open_cell(attributes=name == "<td")
        if score is not None and self.cell is not None:
            self.cell.scores.append(score)
        if opening:
            return
        if token == v.close_bracket:
            if self.cell is None or not self.cell.attributes:
                self.note("a > outside an opening <td")
            else:
                self.cell.attributes = False
        elif 0 < token < v.first_byte + 256:
            self._content(text=token)
        elif token >= v.first_x:
            axis = int(token >= v.first_y)
            self._content(edge=(axis, token - (v.first_y if axis else v.first_x)))
        elif name.startswith(("colspan", "rowspan")):
            self._span(name)
        else:
            self._tag(name)

    def _content(self, text: int | None = None, edge: tuple[int, int] | None = None) -> None:
        if self.cell is None:
            self.note("text or coordinates outside a cell left out")
            return
        if self.cell.attributes:
            self.note("an opening <td without its >")
            self.cell.attributes = False
        if text is not None:
            self.cell.text.append(text)
        if edge is not None:
            self.cell.edges.append(edge)

    def _span(self, name: str) -> None:
        kind, _, value = name.partition("=")
        if self.cell is None or not self.cell.attributes:
            self.note(f"{kind} outside an opening <td")
        elif kind == "colspan":
            self.cell.column_span = int(value.strip('"'))
        else:
            self.cell.row_span = int(value.strip('"'))

    def _tag(self, name: str) -> None:
        if name == "</td>":
            if self.cell is None:
                self.note("a </td> without its <td>")
            self._close_cell()
        elif name == "<tr>":
            self._close_row(seen=False)
            self.row += 1
            self.in_row = True
        elif name == "</tr>":
            self._close_row(seen=True)
        elif name == "<br>" and self.cell is not None:
            self.cell.text.append(self.vocabulary.ids[" "])
        elif name in ("<thead>", "</thead>", "<tbody>", "</tbody>", "</table>"):
            self._close_row(seen=False)
            self.header = name == "<thead>"
            self.done = name == "</table>"
        else:
            self.note(f"{name or 'an id outside the vocabulary'} left out")

    def _open_cell(self, attributes: bool) -> None:
        self._close_cell(implied=True)
        if not self.in_row:
            self.note("a cell outside a row starts a new one")
            self.row += 1
            self.in_row = True
        self.cell = _Open(attributes)

    def _close_cell(self, implied: bool = False) -> None:
        cell, self.cell = self.cell, None
        if cell is None:
            return
        if implied:
            self.note(f"row {self.row}: a cell without </td>")
        taken = self.taken.get(self.row, set())
        column = next(k for k in range(len(taken) + 1) if k not in taken)
        wide = next((k for k in range(cell.column_span) if column + k in taken), cell.column_span)
        if wide < cell.column_span:
            self.note(f"row {self.row}: a column span cut where a cell from above stands")
        for row in range(self.row, self.row + cell.row_span):
            self.taken.setdefault(row, set()).update(range(column, column + wide))
        text = normalise_text(self.vocabulary.decode(cell.text))
        read = Cell(self.row, column, text, cell.row_span, wide, self.header, source="model")
        read.text_box = self._box(cell, column)
        if cell.scores:
            read.confidence = math.exp(sum(cell.scores) / len(cell.scores))
        self.cells.append(read)

    def _box(self, cell: _Open, column: int) -> Box | None:
        bins = cell.box()
        if len(cell.edges) != (4 if bins else 0):
            self.note(f"row {self.row}, column {column}: {len(cell.edges)} coordinates")
        if bins is None:
            return None
        if cell.row_span == 1:
            self.boxes.setdefault(self.row, []).append(bins)
        x, y = (COORDINATE_PIXELS / value for value in self.scale)
        return Box(bins[0] * x, bins[1] * y, bins[2] * x, bins[3] * y).shift(*self.origin)

    def _close_row(self, seen: bool) -> None:
        self._close_cell(implied=True)
        if self.in_row:
            if not seen:
                self.note(f"row {self.row} without </tr>")
            if self.row not in self.taken:
                self.note("a row without cells left out")
                self.row -= 1
        elif seen:
            self.note("a </tr> without its <tr>")
        self.in_row = False

    def finish(self) -> ParsedTable:
        """Close what is open, leave out what loops, cut spans at the end of the table."""
        if not self.done:
            self.note("the stream ends before </table>" if self.started else "no <table>")
            if self.cell is not None and self.cell.box() is None:
                self.note(f"row {self.row}: the cell that the end cuts left out")
                self.cell = None
            self._close_row(seen=False)
        rows = max((cell.row for cell in self.cells), default=-1) + 1
        if self.done:  # rows that consist of spans from above are there if the stream wrote them
            rows = max(rows, self.row + 1)
        rows = self._without_loop(rows)
        cells = [cell for cell in self.cells if cell.row < rows]
        columns = max((cell.column + cell.column_span for cell in cells), default=0)
        for cell in cells:
            if cell.row + cell.row_span > rows:
                self.note(f"row {cell.row}, column {cell.column}: a row span cut at the end of the table")
                cell.row_span = rows - cell.row
        covered = sum(cell.row_span * cell.column_span for cell in cells)
        if covered < rows * columns:
            self.note(f"{rows * columns - covered} of {rows} x {columns} places have no cell")
        return ParsedTable(Table(rows, columns, cells), self.notes)

    def _without_loop(self, rows: int) -> int:
        """Number of rows before the first STALLED_ROWS rows in succession that stand no lower or stood before."""
        above, first, stalled = -1, 0, 0
        seen: set[tuple[tuple[int, int, int, int], ...]] = set()
        for row in sorted(row for row in self.boxes if row < rows):
            boxes = tuple(self.boxes[row])
            top = min(y0 for _, y0, _, _ in boxes)
            moves = top > above and boxes not in seen
            stalled = 0 if moves else stalled + 1
            first = row if stalled == 1 else first
            if stalled == STALLED_ROWS:
                self.note(f"rows {first} to {rows - 1} left out: their boxes do not move down, which is a loop")
                return first
            above = top
            seen.add(boxes)
        return rows
