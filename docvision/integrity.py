"""Numeric integrity: every digit of a table cell must stand in the PDF's own words under its box.

A figure that is off by a digit looks like any other, so it is checked where it can be: on pages with a text layer
that is believed, whoever made the table (rules, maps or a model).  Order counts inside a run of digits, not between
runs; separators and signs are not looked at, for they are written in too many ways.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from docvision.cells import text_lines
from docvision.page import Box, Table, Word

MARGIN = 1.0
"""Points around a cell's box in which a word still counts as under it."""
BAND = 20.0
"""Points; about a line."""
MOST_OF_IT = 0.5
"""Share of a word under the box that makes it one of the cell's."""


@dataclass(frozen=True)
class DigitFault:
    """A cell whose figures are not those of the page."""

    row: int
    column: int
    text: str
    missing: tuple[str, ...]
    """Runs of digits in the cell that do not stand under its box."""

    def __str__(self) -> str:
        return f"{', '.join(self.missing)} in {self.text!r} (row {self.row + 1}, column {self.column + 1})"


def digit_faults(table: Table, words: Sequence[Word]) -> list[DigitFault]:
    """Cells with digits that the page does not have under them.

    Args:
        table: cells with a box or a text box; those with neither cannot be checked and pass.
        words: words of the text layer in the coordinates of the boxes.
    """
    figures = _by_height([word for word in words if _runs(word.text)])
    found = []
    for cell in table.cells:
        box = cell.text_box or cell.box
        runs = _runs(cell.text)
        if box is None or not runs:
            continue
        missing = _not_in(runs, _under(box, figures))
        if missing:
            found.append(DigitFault(cell.row, cell.column, cell.text, missing))
    return found


def describe(faults: Sequence[DigitFault], limit: int = 3) -> str:
    """One line for a page's warnings."""
    names = "; ".join(map(str, faults[:limit])) + ("; ..." if len(faults) > limit else "")
    return f"figures of a table that the page does not show there: {names}"


def _by_height(words: Sequence[Word]) -> dict[int, list[Word]]:
    """Words by bands of the page, so that a cell looks at its own few only; a word may lie in several."""
    bands: dict[int, list[Word]] = {}
    for word in words:
        for band in _bands(word.box):
            bands.setdefault(band, []).append(word)
    return bands


def _bands(box: Box) -> range:
    return range(int(box.y0 // BAND), int(box.y1 // BAND) + 1)


def _under(box: Box, bands: dict[int, list[Word]]) -> list[str]:
    """Runs of digits of the words under a box, line by line."""
    wide = box.pad(MARGIN)
    near = {id(word): word for band in _bands(wide) for word in bands.get(band, ())}
    inside = [word for word in near.values() if _covered(word.box, wide) >= MOST_OF_IT]
    return [run for line in text_lines(inside) for word in line for run in _runs(word.text)]


def _covered(box: Box, by: Box) -> float:
    return box.coverage(by) if box.area > 0 else float(by.contains(*box.center))


def _not_in(runs: list[str], there: list[str]) -> tuple[str, ...]:
    """Runs of a cell that its words do not have; each digit of the words serves once."""
    if "".join(runs) in "".join(there):
        return ()
    left = list(there)
    others = []
    for run in runs:
        if run in left:
            left.remove(run)
        else:
            others.append(run)
    # What remains may be cut otherwise: "10 000" of the page is "10000" in a cell, and the other way round.
    stock = "".join(left)
    missing = []
    for run in others:
        if run in stock:
            stock = stock.replace(run, " ", 1)
        else:
            missing.append(run)
    return tuple(missing)


def _runs(text: str) -> list[str]:
    """Runs of digits; a superscript or a full-width digit is the digit that it stands for."""
    return re.findall(r"\d+", unicodedata.normalize("NFKC", text))
