"""Questions about a table by index, as prompt and answer streams of the same decoder.

    <prompt:row>    3 >          all cells that cover row 3, from left to right
    <prompt:column> 0 >          all cells that cover column 0, from top to bottom
    <prompt:cell>   3,0 >        the cell that covers row 3, column 0
    <prompt:find>   Total >      0,1;4,1   the places of all cells with this text, in reading order, or nothing

Indices are those of ``Cell``, from 0, spelled as digits; the tag ``>`` ends a question (as a character it is another
token, so a text may hold one).  An answer ends with ``<eos>``.  Answered cells are ``<td>`` to ``</td>`` as in a table
stream, but without span attributes: a spanning cell answers, once, for every row and column that it covers.

These tasks and their spelling are defined here; the TableSeq paper names such queries, its prompts are not published.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from docvision.page import Cell, Table
from docvision.tableseq import ParsedTable, TableStreamError, cell_to_ids, ids_to_table, stream_form
from docvision.tokens import Vocabulary, normalise_text

KINDS = ("row", "column", "cell", "find")
ABSENT = 0.25
"""Share of the training questions for a text that ask for one which is not there."""
ASKED = 40
"""Characters; training asks for no longer text where there is a shorter one."""


class QueryPair(NamedTuple):
    """One question for training."""

    prompt: list[int]
    answer: list[int]
    kind: str
    asked: str


def query_ids(kind: str, asked: str, vocabulary: Vocabulary) -> list[int]:
    """The prompt of a question, ``<bos>`` included.

    Args:
        kind: one of KINDS.
        asked: ``3`` for a row or column, ``3,0`` for a cell, else the text to find.
        vocabulary: token ids.

    Raises:
        TableStreamError: no such kind, or not an index.
    """
    if kind not in KINDS:
        raise TableStreamError(f"kind={kind!r}: one of {', '.join(KINDS)}")
    if kind == "find":
        asked = normalise_text(asked)
    else:
        asked = ",".join(str(number) for number in _indices(kind, asked))
    return [vocabulary.bos, vocabulary.ids[f"<prompt:{kind}>"], *vocabulary.encode(asked), vocabulary.close_bracket]


def _indices(kind: str, asked: str) -> list[int]:
    count = 2 if kind == "cell" else 1
    if not re.fullmatch(r"\d+" + r",\d+" * (count - 1), asked, re.ASCII):
        raise TableStreamError(f"{kind} {asked!r}: write {'row,column such as 3,0' if count == 2 else 'a number'}")
    return [int(part) for part in asked.split(",")]


def covering(table: Table, kind: str, asked: str) -> list[Cell]:
    """The cells that answer a question for a row, a column or a cell, each once.

    Raises:
        TableStreamError: not an index, or one outside the table.
    """
    grid = table.grid()
    indices = _indices(kind, asked)
    limits = {"row": (table.rows,), "column": (table.columns,), "cell": (table.rows, table.columns)}[kind]
    if any(index >= limit for index, limit in zip(indices, limits, strict=True)):
        raise TableStreamError(f"{kind} {asked}: the table has {table.rows} rows and {table.columns} columns, from 0")
    if kind == "row":
        places = grid[indices[0]]
    elif kind == "column":
        places = [row[indices[0]] for row in grid]
    else:
        places = [grid[indices[0]][indices[1]]]
    cells: list[Cell] = []
    for cell in places:
        if cell is not None and (not cells or cells[-1] is not cell):
            cells.append(cell)
    return cells


def answer_ids(
    table: Table,
    kind: str,
    asked: str,
    vocabulary: Vocabulary,
    scale: tuple[float, float],
    origin: tuple[float, float] = (0.0, 0.0),
) -> list[int]:
    """The answer that a table gives, ``<eos>`` included; arguments as for ``query_ids`` and ``table_to_ids``.

    Raises:
        TableStreamError: the question does not fit the table, or the table has no stream.
    """
    table = stream_form(table)
    if kind == "find":
        text = normalise_text(asked)
        places = [f"{cell.row},{cell.column}" for cell in table.cells if cell.text == text]
        return [*vocabulary.encode(";".join(places)), vocabulary.eos]
    ids = []
    for cell in covering(table, kind, asked):
        ids += cell_to_ids(replace(cell, row_span=1, column_span=1), vocabulary, scale, origin=origin)
    return [*ids, vocabulary.eos]


def query_pairs(
    table: Table,
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    scale: tuple[float, float],
    origin: tuple[float, float] = (0.0, 0.0),
) -> list[QueryPair]:
    """One random question of each kind with its answer; none about a table without cells, no ``find`` without text.

    Raises:
        TableStreamError: the table has no stream.
    """
    formed = stream_form(table)
    if not formed.cells:
        return []
    row, column = int(rng.integers(formed.rows)), int(rng.integers(formed.columns))
    questions = [("row", str(row)), ("column", str(column)), ("cell", f"{row},{column}")]
    text = _text_to_find(formed, rng)
    if text:
        questions.append(("find", text))
    return [
        QueryPair(
            query_ids(kind, asked, vocabulary),
            answer_ids(formed, kind, asked, vocabulary, scale, origin),
            kind,
            asked,
        )
        for kind, asked in questions
    ]


def _text_to_find(table: Table, rng: np.random.Generator) -> str:
    """A text of the table, or one that differs from it in a digit and is not in the table."""
    texts = sorted({cell.text for cell in table.cells if cell.text})
    texts = [text for text in texts if len(text) <= ASKED] or texts
    if not texts:
        return ""
    text = texts[int(rng.integers(len(texts)))]
    if rng.random() >= ABSENT:
        return text
    place = int(rng.integers(len(text)))
    other = normalise_text(text[:place] + str(int(rng.integers(10))) + text[place + 1 :])
    return text if other in texts else other


def answer_cells(
    ids: Sequence[int],
    vocabulary: Vocabulary,
    scale: tuple[float, float],
    origin: tuple[float, float] = (0.0, 0.0),
    scores: Sequence[float | None] | None = None,
) -> ParsedTable:
    """The cells of an answer as a table of one row, repaired as :func:`ids_to_table` does."""
    ids = list(ids)
    cut = vocabulary.eos not in ids
    end = len(ids) if cut else ids.index(vocabulary.eos)
    before = [vocabulary.ids["<table>"], vocabulary.ids["<tr>"]]
    after = [] if cut else [vocabulary.ids["</tr>"], vocabulary.ids["</table>"]]
    padded = None if scores is None else [None, None, *scores[:end], *[None for _ in after]]
    return ids_to_table([*before, *ids[:end], *after], vocabulary, scale, origin, padded)


def answer_places(ids: Sequence[int], vocabulary: Vocabulary) -> list[tuple[int, int]]:
    """Rows and columns of an answer to ``find``; what is not a whole place is skipped, a cut answer's last one too."""
    text = vocabulary.decode(ids)
    parts = text.split(";") if vocabulary.eos in ids else text.split(";")[:-1]
    matches = [re.fullmatch(r"(\d+),(\d+)", part, re.ASCII) for part in parts]
    return [(int(match[1]), int(match[2])) for match in matches if match]
