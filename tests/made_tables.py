"""Random tables typeset on a grid, for the tests of table streams."""

from __future__ import annotations

import numpy as np

from docvision.page import Box, Cell, Table

WORDS = (
    "Total",
    "3.14",
    "n/a",
    "<b>",
    "x > y",
    "\u00dcber Gr\u00f6\u00dfe",
    "\u6f22",
    "a b c",
    "12 345,6",
    "-",
    "\u2013",
)


def random_table(rng: np.random.Generator, rows: int, columns: int, empty: float = 0.2) -> Table:
    """A table typeset on a grid: random spans, header rows and empty cells, text boxes inside their cells."""
    xs = np.cumsum(rng.uniform(14, 40, columns + 1))
    ys = np.cumsum(rng.uniform(11, 18, rows + 1))
    head = int(rng.integers(0, min(rows, 3) + 1))
    taken = np.zeros((rows, columns), bool)
    cells = []
    for row in range(rows):
        for column in range(columns):
            if taken[row, column]:
                continue
            tall = wide = 1
            if rng.random() < 0.2:
                end = head if row < head else rows
                tall, wide = (
                    int(rng.integers(1, min(3, end - row) + 1)),
                    int(rng.integers(1, min(3, columns - column) + 1)),
                )
                wide = next((k for k in range(wide) if taken[row, column + k]), wide)
            taken[row : row + tall, column : column + wide] = True
            text = "" if rng.random() < empty else str(rng.choice(WORDS))
            left, right = xs[column], xs[column + wide]
            width, height = rng.uniform(5, right - left - 4), rng.uniform(5, 8)
            x = rng.uniform(left + 1, right - width - 1)
            middle = (ys[row] + ys[row + tall]) / 2
            box = Box(x, middle - height / 2, x + width, middle + height / 2) if text else None
            cells.append(Cell(row, column, text, tall, wide, row < head, None, box, source="truth"))
    return Table(rows, columns, cells)


def tables(count: int, seed: int = 0) -> list[Table]:
    rng = np.random.default_rng(seed)
    return [random_table(rng, int(rng.integers(1, 9)), int(rng.integers(1, 8))) for _ in range(count)]
