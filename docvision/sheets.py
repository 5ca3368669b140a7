"""Tables as a workbook for Excel and as data frames; needs ``pip install 'docvision[sheets]'``.

A workbook has a sheet for each table with its spans merged and its header rows bold and frozen.  A text is written
as a number only where the number shown is the text again, sign, zeros and all; everything else stays text, and
nothing that begins with "=" becomes a formula.
"""

from __future__ import annotations

import importlib
import io
import re
from typing import Any

from docvision.export import document_tables
from docvision.markdown import clean
from docvision.page import Cell, Document, Table

PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.(\d+))?")
EXACT_DIGITS = 15
"""Decimal digits that a cell of Excel holds."""
LONGEST = 32_767
"""Characters that a cell of Excel holds."""


class SheetsError(ValueError):
    """What keeps a table from being written, and what to do."""


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SheetsError(f"{name} is not installed: pip install 'docvision[sheets]'") from error


def to_xlsx(document: Document) -> bytes:
    """All tables of a document as an Excel workbook; one empty sheet named "no tables" where there is none.

    Raises:
        SheetsError: openpyxl is missing, or a cell is longer than Excel allows.
    """
    openpyxl = _optional("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for page, number, table in document_tables(document):
        _write_sheet(book.create_sheet(f"page {page} table {number}"), table)
    if not book.sheetnames:
        book.create_sheet("no tables")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _write_sheet(sheet: Any, table: Table) -> None:
    bold = _optional("openpyxl.styles").Font(bold=True)
    for cell in sorted(table.cells, key=lambda cell: (cell.row, cell.column)):
        place = sheet.cell(cell.row + 1, cell.column + 1)
        _write_text(place, clean(cell.text).strip())
        if cell.header:
            place.font = bold
        if cell.row_span > 1 or cell.column_span > 1:
            bottom, right = cell.row + cell.row_span, cell.column + cell.column_span
            sheet.merge_cells(None, cell.row + 1, cell.column + 1, min(bottom, table.rows), min(right, table.columns))
    if table.header_rows:
        sheet.freeze_panes = sheet.cell(table.header_rows + 1, 1)


def _write_text(place: Any, text: str) -> None:
    if len(text) > LONGEST:
        raise SheetsError(f"a cell has {len(text)} characters and Excel holds {LONGEST}: write csv instead")
    number = PLAIN_NUMBER.fullmatch(text)
    if number and text != "-0" and sum(char.isdigit() for char in text) <= EXACT_DIGITS:
        decimals = number[1] or ""
        place.value = float(text) if decimals else int(text)
        place.number_format = f"0.{'0' * len(decimals)}" if decimals else "0"
        return
    place.value = text or None
    if text:
        place.data_type = "s"


def table_to_dataframe(table: Table) -> Any:
    """A table as a pandas DataFrame of strings.

    The header rows become the columns' names, several of them a MultiIndex; a spanning cell's text stands at every
    place that it covers, as in ``pandas.read_html``.  Without header rows the columns are numbered.

    Raises:
        SheetsError: pandas is missing.
    """
    pandas = _optional("pandas")
    texts = [[_text(cell) for cell in row] for row in table.grid()]
    head, body = texts[: table.header_rows], texts[table.header_rows :]
    if len(head) > 1:
        columns = pandas.MultiIndex.from_arrays(head)
    else:
        columns = head[0] if head else range(table.columns)
    return pandas.DataFrame(body, columns=columns, dtype=object)


def _text(cell: Cell | None) -> str:
    return clean(cell.text).strip() if cell is not None else ""


def document_dataframes(document: Document) -> list[Any]:
    """A DataFrame for each table in reading order, as :func:`table_to_dataframe` makes them.

    Page and number of each are in its ``attrs``, as ``page`` and ``table``.

    Raises:
        SheetsError: pandas is missing.
    """
    found = []
    for page, number, table in document_tables(document):
        frame = table_to_dataframe(table)
        frame.attrs.update(page=page, table=number)
        found.append(frame)
    return found
