"""PubTabNet's JSON lines (Zhong et al., arXiv 1911.10683): one table picture a line.

    {"filename": "a.png", "split": "train", "imgid": 0,
     "html": {"structure": {"tokens": ["<thead>", "<tr>", "<td", " colspan=\\"2\\"", ">", "</td>", ...]},
              "cells": [{"tokens": ["<b>", "4", "2", "</b>"], "bbox": [x0, y0, x1, y1]}, ...]}}

``bbox`` is around a cell's content in pixels of the picture and is missing for an empty cell.  Kept both ways: rows,
columns, spans, text, the box of the text, and which leading rows are headings (``thead``).  Not held: header cells
elsewhere, a heading that spans into the body, boxes of the grid, confidence and source.  A place that no cell covers
comes back as an empty cell, bold and other dress are dropped on reading.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

from data_pipeline.otsl import grid_of
from data_pipeline.table_html import Opened, place, span, tidy
from docvision.page import Box, Cell, Table

_TAG = re.compile(r"<\s*(/?)\s*(\w+)([^<>]*)>")
_SPAN = re.compile(r"(rowspan|colspan)\s*=\s*[\"']?\s*(\d+)", re.IGNORECASE)


def to_record(table: Table, filename: str, split: str = "train", number: int = 0) -> dict[str, Any]:
    """One line of the file as a dictionary; ``text_box`` of the cells must be in pixels of the picture.

    Raises:
        ValueError: cells overlap or reach out of the table.
    """
    grid = grid_of(table)
    head = table.header_rows
    while any(cell.row < head < cell.row + cell.row_span for line in grid[:head] for cell in line):
        head -= 1  # a span may not reach from thead into tbody
    tokens: list[str] = []
    cells: list[dict[str, Any]] = []
    for row, line in enumerate(grid):
        if row == 0:
            tokens.append("<thead>" if head else "<tbody>")
        elif row == head:
            tokens += ["</thead>", "<tbody>"]
        tokens.append("<tr>")
        for column, cell in enumerate(line):
            if (cell.row, cell.column) == (row, column):
                tokens += _opening(cell)
                cells.append(_content(cell))
        tokens.append("</tr>")
    if grid:
        tokens.append("</thead>" if head == len(grid) else "</tbody>")
    structure = {"structure": {"tokens": tokens}, "cells": cells}
    return {"filename": filename, "split": split, "imgid": number, "html": structure}


def _opening(cell: Cell) -> list[str]:
    spans = [f' rowspan="{cell.row_span}"'] if cell.row_span > 1 else []
    spans += [f' colspan="{cell.column_span}"'] if cell.column_span > 1 else []
    return ["<td", *spans, ">", "</td>"] if spans else ["<td>", "</td>"]


def _content(cell: Cell) -> dict[str, Any]:
    # One character is one token, so a lone "<" is a character and "<b>" a tag.
    content: dict[str, Any] = {"tokens": ["<br>" if char == "\n" else char for char in cell.text]}
    if cell.text_box is not None:
        content["bbox"] = list(cell.text_box)
    return content


def from_record(record: Any) -> Table:
    """The table of one line.

    Raises:
        ValueError: fields are missing or of another kind, or cells and structure do not match.
    """
    try:
        structure = "".join(record["html"]["structure"]["tokens"])
        contents = record["html"]["cells"]
    except (KeyError, TypeError) as error:
        raise ValueError("no html.structure.tokens (a list of strings) and html.cells in the record") from error
    if not isinstance(contents, list):
        raise ValueError("html.cells must be a list")
    rows: list[list[Opened]] = []
    head = False
    for match in _TAG.finditer(structure):
        closing, tag, attributes = match[1] == "/", match[2].lower(), match[3]
        if tag in ("thead", "tbody"):
            head = tag == "thead" and not closing
        elif tag == "tr" and not closing:
            rows.append([])
        elif tag in ("td", "th") and not closing:
            if not rows:
                raise ValueError("a cell stands before the first <tr> of html.structure.tokens")
            spans = {name.lower(): span(value) for name, value in _SPAN.findall(attributes)}
            rows[-1].append(Opened(spans.get("rowspan", 1), spans.get("colspan", 1), head or tag == "th"))
    table = place(rows)
    if len(table.cells) != len(contents):
        raise ValueError(f"html.structure.tokens has {len(table.cells)} cells, html.cells {len(contents)}")
    for number, (cell, content) in enumerate(zip(table.cells, contents, strict=True), 1):
        _fill(cell, content, number)
    return table


def _fill(cell: Cell, content: Any, number: int) -> None:
    tokens = content.get("tokens") if isinstance(content, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError(f"html.cells[{number}] has no tokens (a list of strings)")
    cell.text = _text(tokens)
    box = content.get("bbox")
    if box is not None:
        if not isinstance(box, list) or len(box) != 4 or not all(isinstance(value, int | float) for value in box):
            raise ValueError(f"html.cells[{number}].bbox must be four numbers")
        cell.text_box = Box(*(float(value) for value in box))


def _text(tokens: list[str]) -> str:
    parts = []
    for token in tokens:
        if len(token) == 1:
            parts.append(token)
        elif re.fullmatch(r"<br\s*/?>", token):
            parts.append("\n")
        elif not re.fullmatch(r"</?[A-Za-z][^<>]*>", token):
            parts.append(html.unescape(token))
    return tidy("".join(parts))


def parse_line(line: str) -> dict[str, Any]:
    """A line of the file as a dictionary.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record
