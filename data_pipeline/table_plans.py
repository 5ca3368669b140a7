"""What a table's plan says: the grid with its spans and texts, and how it looks.

A plan says everything about a table except where it stands: :mod:`data_pipeline.render` typesets it and reads the
boxes back from the PDF.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

Rng = np.random.Generator
Words = Callable[[int], str]
"""Running text of about so many characters."""
Fit = Callable[[str], str]
"""Text in characters that can be printed."""

ICONS = ("check", "cross", "dot", "ring", "square", "bar", "up", "down")
"""Small drawings that stand in cells instead of text."""


@dataclass(frozen=True, slots=True)
class CellPlan:
    row: int
    column: int
    text: str = ""
    row_span: int = 1
    column_span: int = 1
    header: bool = False
    align: str = "left"
    bold: bool = False
    italic: bool = False
    note: str = ""
    """Printed raised behind the text: a mark of a note or an exponent."""
    indent: float = 0.0
    """In em, of all lines of the text."""
    turned: bool = False
    """Whether the text reads from bottom to top."""
    icon: str = ""
    """A small drawing in place of text, see :data:`ICONS`."""

    @property
    def printed(self) -> str:
        """The text as it can be read."""
        return self.text + self.note if self.text else ""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Cells in row-major order and the look of the table."""

    rows: int
    columns: int
    header_rows: int
    cells: tuple[CellPlan, ...]
    ruling: str
    stroke: float
    """Width of rules in points."""
    inset: tuple[float, float]
    """Space inside cells in em, horizontally and vertically."""
    widths: tuple[float, ...]
    """Of the columns in ``unit``; 0 for as wide as the text."""
    zebra: bool = False
    header_fill: int = 255
    """Grey of the header's background: 255 for none; its text is white on a dark one."""
    scale: float = 1.0
    """Font size over the page's."""
    vertical: str = "top"
    rules: tuple[tuple[int, int, int], ...] = ()
    """More horizontal rules: above this row, from this column to that."""
    span_rules: bool = False
    """Whether a short rule stands under each heading that spans columns."""
    unit: str = "fr"
    """``fr`` for shares of the width, or ``em``."""
    leading: float = 0.5
    repeats: bool = False
    """Whether the headings stand on each page of a table that goes on."""


def fit_table(plan: TablePlan, fit: Fit) -> TablePlan:
    """The table with every text in characters that can be printed."""
    return replace(plan, cells=tuple(replace(cell, text=fit(cell.text), note=fit(cell.note)) for cell in plan.cells))


def needed_widths(plan: TablePlan) -> list[float]:
    """Width of each column's longest word with its insets, about, in em."""
    needs = [1.0 + 2 * plan.inset[0]] * plan.columns
    for cell in plan.cells:
        if cell.column_span == 1:
            longest = 1.3 if cell.turned else 0.6 * max(map(len, (cell.text + cell.note[:2]).split()), default=0)
            longest *= 1.08 if cell.bold else 1.0
            needs[cell.column] = max(needs[cell.column], longest + cell.indent + 2 * plan.inset[0])
    return needs


def header_fill(rng: Rng, share: float) -> int:
    return int(rng.choice([60, 96, 192, 208, 224, 240])) if rng.random() < share else 255
