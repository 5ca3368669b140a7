"""OTSL, a table's structure in five tokens (Lysak et al., arXiv 2305.03393, section 4).

Each place of the grid is one token, row by row, each row ended by ``NL``:

    C   a cell begins here (its top left place)
    L   belongs to the cell on the left ("left-looking"): a column span goes on
    U   belongs to the cell above ("up-looking"): a row span goes on
    X   belongs to both the cell on the left and the one above ("cross"): the inside of a span in both directions
    NL  end of the row

The paper's rules, checked on reading: all rows are equally long; the left neighbour of L is L or C; the upper
neighbour of U is U or C; the left neighbour of X is X or U and its upper neighbour X or L; so the first row has only C
and L, and the first column only C and U.  The longer names of the published data sets are read as well: fcel and ecel
(full and empty cell), ched, rhed and srow (kinds of headings) for C, and lcel, ucel, xcel, nl.

The five tokens hold rows, columns and spans.  Texts are given beside them, one for each C.  Header flags come back
where ``ched`` and its kin stand; boxes, confidence and source do not.  A place that no cell covers comes back as an
empty cell.
"""

from __future__ import annotations

from collections.abc import Sequence

from data_pipeline.table_html import without_holes
from docvision.page import Cell, Table

NAMES = {
    "fcel": "C", "ecel": "C", "ched": "C", "rhed": "C", "srow": "C", "lcel": "L", "ucel": "U", "xcel": "X", "nl": "NL",
}  # fmt: skip
HEADINGS = frozenset({"ched", "rhed", "srow"})
_LEFT = {"L": {"L", "C"}, "X": {"X", "U"}}
_ABOVE = {"U": {"U", "C"}, "X": {"X", "L"}}


def to_otsl(table: Table) -> tuple[list[str], list[str]]:
    """The tokens of a table, and one text for each C.

    Raises:
        ValueError: two cells overlap or one reaches out of the grid, which no token says.
    """
    tokens: list[str] = []
    texts: list[str] = []
    for row, line in enumerate(grid_of(table)):
        for column, cell in enumerate(line):
            if cell.row == row and cell.column == column:
                tokens.append("C")
                texts.append(cell.text)
            elif cell.row == row:
                tokens.append("L")
            else:
                tokens.append("U" if cell.column == column else "X")
        tokens.append("NL")
    return tokens, texts


def grid_of(table: Table) -> list[list[Cell]]:
    """The grid with a cell at each place, checked.

    Raises:
        ValueError: two cells overlap or one reaches out of the grid.
    """
    whole = without_holes(table)
    area = 0
    for cell in whole.cells:
        inside = 0 <= cell.row <= table.rows - cell.row_span and 0 <= cell.column <= table.columns - cell.column_span
        if not inside or cell.row_span < 1 or cell.column_span < 1:
            raise ValueError(f"the cell at row {cell.row}, column {cell.column} reaches out of its table")
        area += cell.row_span * cell.column_span
    if area != table.rows * table.columns:
        raise ValueError("cells of the table overlap: repair it before it is exported")
    return [[cell for cell in line if cell is not None] for line in whole.grid()]


def from_otsl(tokens: Sequence[str], texts: Sequence[str] | None = None) -> Table:
    """The table that the tokens describe.

    Args:
        tokens: C, L, U, X, NL or the longer names, the last row ended by NL too.
        texts: one for each C, in order; None leaves the cells empty.

    Raises:
        ValueError: an unknown token, a broken rule (with its row and column, from 1), or another number of texts.
    """
    rows = _rows(tokens)
    for row, line in enumerate(rows):
        if len(line) != len(rows[0]):
            raise ValueError(f"OTSL row {row + 1} has {len(line)} places, row 1 has {len(rows[0])}: rows must be equal")
        for column, (token, _) in enumerate(line):
            left = line[column - 1][0] if column else ""
            above = rows[row - 1][column][0] if row else ""
            if left not in _LEFT.get(token, {left}) or above not in _ABOVE.get(token, {above}):
                raise ValueError(
                    f"OTSL {token} at row {row + 1}, column {column + 1} cannot follow "
                    f"{left or 'the edge'} on its left and {above or 'the edge'} above"
                )
    cells = [
        _cell(rows, row, column, line[column][1])
        for row, line in enumerate(rows)
        for column in range(len(line))
        if line[column][0] == "C"
    ]
    table = Table(len(rows), len(rows[0]) if rows else 0, cells)
    if texts is not None:
        if len(texts) != len(cells):
            raise ValueError(f"OTSL has {len(cells)} cells but {len(texts)} texts: give one for each C")
        for cell, text in zip(cells, texts, strict=True):
            cell.text = text
    grid_of(table)
    return table


def _rows(tokens: Sequence[str]) -> list[list[tuple[str, bool]]]:
    """Rows of (short token, whether it is a heading)."""
    rows: list[list[tuple[str, bool]]] = []
    row: list[tuple[str, bool]] = []
    for token in tokens:
        short = NAMES.get(token, token)
        if short == "NL":
            rows.append(row)
            row = []
        elif short in ("C", "L", "U", "X"):
            row.append((short, token in HEADINGS))
        else:
            raise ValueError(f"unknown OTSL token {token!r}: use C, L, U, X, NL or {', '.join(NAMES)}")
    if row:
        raise ValueError("OTSL ends inside a row: end each row with NL")
    return rows


def _cell(rows: list[list[tuple[str, bool]]], row: int, column: int, header: bool) -> Cell:
    wide = 1
    while column + wide < len(rows[row]) and rows[row][column + wide][0] == "L":
        wide += 1
    tall = 1
    while row + tall < len(rows) and rows[row + tall][column][0] == "U":
        tall += 1
    return Cell(row, column, row_span=tall, column_span=wide, header=header)
