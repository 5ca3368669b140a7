"""Tables of reports and offices, and the choice between them and those of journals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data_pipeline import chance, fields
from data_pipeline.journal import plan_journal
from data_pipeline.table_plans import ICONS, CellPlan, Rng, TablePlan, Words, fit_table, header_fill, needed_widths
from data_pipeline.table_values import NOTES

__all__ = ["RULINGS", "CellPlan", "TablePlan", "fit_table", "plan_invoice", "plan_office", "plan_table"]

RULINGS = {"full": 0.26, "rows": 0.13, "booktabs": 0.22, "header": 0.08, "outer": 0.06, "columns": 0.05, "none": 0.20}
"""How tables are ruled, with shares."""


def plan_table(rng: Rng, words: Words, max_columns: int = 8, max_rows: int = 20) -> TablePlan:
    """A random table of 2-``max_rows`` x 2-``max_columns`` cells."""
    columns = int(rng.integers(2, max_columns + 1))
    rows = int(np.clip(rng.geometric(0.13) + 1, 2, max_rows))
    repeats = bool(rng.random() < 0.6)
    plan = (plan_office if rng.random() < 0.5 else plan_journal)(rng, words, rows, columns)
    # On a page the columns share what there is, and each needs room for its longest word.
    ems = 1.0 if plan.unit == "em" else 5.0
    shares = [max(width * ems, need) for width, need in zip(plan.widths, needed_widths(plan), strict=True)]
    widths = tuple(shares if any(plan.widths) or rng.random() < 0.6 else plan.widths)
    return replace(plan, widths=widths, unit="fr", scale=float(rng.uniform(0.75, 1.0)), repeats=repeats)


def plan_office(rng: Rng, words: Words, rows: int, columns: int) -> TablePlan:
    """A table of exactly this size, as reports and offices print them."""
    header_rows = int(rng.choice(3, p=[0.12, 0.68, 0.2])) if rows > 3 and columns > 2 else int(rng.random() < 0.8)
    kinds = _column_kinds(rng, columns)
    aligns = [_align(rng, kind) for kind in kinds]
    header = _header(rng, words, columns, header_rows, aligns)
    cells = _vary(rng, header + _body(rng, words, range(header_rows, rows), kinds, aligns), columns, header_rows)
    wide = any(kind == "text" for kind in kinds)
    fixed = wide or rng.random() < 0.6
    widths = tuple(_width(rng, kind) if fixed else 0.0 for kind in kinds)
    ruling = _ruling(rng)
    ruled = ruling in ("full", "rows", "columns")
    inset = float(rng.uniform(0.25, 0.9)), float(rng.uniform(0.12, 0.7) if ruled else rng.uniform(0.08, 0.55))
    return TablePlan(
        rows, columns, header_rows, tuple(sorted(cells, key=lambda cell: (cell.row, cell.column))), ruling,
        float(rng.choice([0.3, 0.5, 0.7, 1.0, 1.5])), inset, widths,
        zebra=bool(rng.random() < (0.25 if ruling in ("none", "header", "rows") else 0.08)),
        header_fill=header_fill(rng, 0.3), scale=float(rng.uniform(0.75, 1.0)),
        vertical=("top", "horizon", "bottom")[int(rng.choice(3, p=[0.45, 0.45, 0.1]))],
    )  # fmt: skip


def _vary(rng: Rng, cells: list[CellPlan], columns: int, header_rows: int) -> list[CellPlan]:
    """The cells with what is rarer: marks of notes, indents, merged cells, turned headings, drawings."""
    draw = rng.random()
    if draw < 0.08:
        return [
            replace(cell, note=chance.pick(rng, NOTES)) if cell.text and rng.random() < 0.1 else cell for cell in cells
        ]
    if draw < 0.18:
        indents = [0.0, 0.0, *rng.uniform(0.7, 2.2, 2)]
        return [
            replace(cell, indent=chance.pick(rng, indents), align="left")
            if not cell.header and cell.column == 0
            else cell
            for cell in cells
        ]
    if draw < 0.24 and header_rows == 1:
        return _merge(rng, cells, columns)
    if draw < 0.29 and header_rows and columns > 3:
        return [
            replace(cell, turned=True, align="center")
            if cell.header and cell.column_span == 1 and cell.column
            else cell
            for cell in cells
        ]
    if draw < 0.33 and columns > 1:
        drawn = int(rng.integers(1, columns))
        return [
            replace(cell, text="", icon=chance.pick(rng, ICONS)) if cell.column == drawn and _is_plain(cell) else cell
            for cell in cells
        ]
    return cells


def _is_plain(cell: CellPlan) -> bool:
    return not cell.header and cell.row_span == cell.column_span == 1


def _merge(rng: Rng, cells: list[CellPlan], columns: int) -> list[CellPlan]:
    """The cells with some neighbours in a row of the body put together."""
    plain = {(cell.row, cell.column) for cell in cells if _is_plain(cell)}
    gone: set[tuple[int, int]] = set()
    merged = []
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.column)):
        place = cell.row, cell.column
        if place in gone:
            continue
        wide = 1
        if place in plain and cell.column and rng.random() < 0.15:
            most = min(int(rng.integers(2, 4)), columns - cell.column)
            while wide < most and (cell.row, cell.column + wide) in plain:
                gone.add((cell.row, cell.column + wide))
                wide += 1
        merged.append(replace(cell, column_span=wide, align="center") if wide > 1 else cell)
    return merged


def plan_invoice(rng: Rng, words: Words) -> TablePlan:
    """Items with quantities and amounts, then totals that span."""
    columns = int(rng.integers(3, 7))
    items = int(rng.integers(2, 15))
    titles = ["Pos.", "Description", "Qty", "Unit price", "VAT", "Amount"]
    kept = sorted(rng.choice([0, 2, 3, 4], columns - 2, replace=False).tolist() + [1, 5])
    aligns = ["left" if place in (0, 1) else "right" for place in kept]
    cells = [CellPlan(0, i, titles[place], header=True, align=aligns[i], bold=True) for i, place in enumerate(kept)]
    for row in range(1, items + 1):
        for i, place in enumerate(kept):
            value = _invoice_value(rng, words, place, row)
            cells.append(CellPlan(row, i, value, align=aligns[i]))
    totals = int(rng.integers(0, 4))
    for row in range(items + 1, items + 1 + totals):
        last = row == items + totals
        label = ("Subtotal", "VAT 20 %", "Total")[-totals:][row - items - 1]
        cells.append(CellPlan(row, 0, label, column_span=columns - 1, align="right", bold=last))
        cells.append(CellPlan(row, columns - 1, f"{rng.uniform(10, 5000):,.2f}", align="right", bold=last))
    widths = tuple(3.0 if place == 1 else 1.0 if place > 2 else 0.6 for place in kept)
    return TablePlan(
        items + 1 + totals, columns, 1, tuple(cells), _ruling(rng), float(rng.choice([0.4, 0.7, 1.0])),
        (float(rng.uniform(0.3, 0.8)), float(rng.uniform(0.25, 0.8))), widths, zebra=bool(rng.random() < 0.2),
        header_fill=header_fill(rng, 0.5), scale=float(rng.uniform(0.85, 1.0)),
    )  # fmt: skip


def _invoice_value(rng: Rng, words: Words, place: int, row: int) -> str:
    if place == 0:
        return str(row)
    if place == 1:
        return words(int(rng.integers(8, 60)))
    if place == 2:
        return str(int(rng.integers(1, 50)))
    return "20 %" if place == 4 else f"{rng.uniform(1, 2000):,.2f}"


def _ruling(rng: Rng) -> str:
    return list(RULINGS)[int(rng.choice(len(RULINGS), p=list(RULINGS.values())))]


def _column_kinds(rng: Rng, columns: int) -> list[str]:
    first = ("label", "text", "code", "number", "date")[int(rng.choice(5, p=[0.6, 0.12, 0.1, 0.1, 0.08]))]
    main = ("number", "amount", "label", "mark", "percent")[int(rng.choice(5, p=[0.4, 0.2, 0.25, 0.08, 0.07]))]
    kinds = [first]
    for _ in range(columns - 1):
        kinds.append(
            main if rng.random() < 0.65 else str(rng.choice(["number", "label", "text", "date", "code", "mark"]))
        )
    # Several columns of long text leave nothing to the others.
    while kinds.count("text") > 2:
        kinds[kinds.index("text")] = "label"
    return kinds


def _align(rng: Rng, kind: str) -> str:
    if kind in ("number", "amount", "percent"):
        return str(rng.choice(["right", "center", "left"], p=[0.6, 0.3, 0.1]))
    return str(rng.choice(["left", "center", "right"], p=[0.78, 0.2, 0.02]))


def _width(rng: Rng, kind: str) -> float:
    return float(rng.uniform(0.8, 1.3)) * {"text": 2.6, "label": 1.5, "date": 1.2}.get(kind, 1.0)


def _value(rng: Rng, words: Words, kind: str) -> str:
    if kind == "text":
        return words(int(rng.integers(15, 90)))
    if kind == "label":
        return words(int(rng.integers(4, 24)))
    if kind == "amount":
        return f"{rng.uniform(-50, 9000):,.2f}"
    if kind == "percent":
        return f"{rng.uniform(0, 100):.1f}%"
    if kind == "date":
        return fields.date(rng)
    if kind == "code":
        return "".join(rng.choice(list("ABCDEFGHKLMNPRSTX0123456789"), int(rng.integers(2, 6))))
    if kind == "mark":
        return str(rng.choice(["x", "+", "-", "yes", "no", "n.a.", "A", "B", "1", "*"]))
    return fields.number(rng)


def _body(rng: Rng, words: Words, rows: range, kinds: list[str], aligns: list[str]) -> list[CellPlan]:
    columns = len(kinds)
    blank = float(rng.choice([0.0, 0.05, 0.25], p=[0.5, 0.35, 0.15]))
    decimals = [int(rng.integers(0, 3)) for _ in kinds]
    plain = rng.random() < 0.6
    bold_first = bool(rng.random() < 0.15)
    grouped = len(rows) > 3 and columns > 1 and rng.random() < 0.18
    cells: list[CellPlan] = []
    taken: set[tuple[int, int]] = set()
    for row in rows:
        if columns > 2 and len(rows) > 4 and rng.random() < 0.05 and not any((row, c) in taken for c in range(columns)):
            cells.append(
                CellPlan(
                    row, 0, words(20), column_span=columns, align="left", bold=bool(rng.random() < 0.6), italic=True
                )
            )
            continue
        for column, kind in enumerate(kinds):
            if (row, column) in taken:
                continue
            span = 1
            if grouped and column == 0 and rng.random() < 0.45:
                span = min(int(rng.integers(2, 5)), rows.stop - row)
                taken.update((row + extra, 0) for extra in range(span))
            if rng.random() < blank and column:
                text = ""
            elif kind == "number" and plain:
                text = f"{rng.uniform(0, 10 ** (3 - decimals[column])):.{decimals[column]}f}"
            else:
                text = _value(rng, words, kind)
            cells.append(
                CellPlan(row, column, text, row_span=span, align=aligns[column], bold=bold_first and column == 0)
            )
    return cells


def _header(rng: Rng, words: Words, columns: int, rows: int, aligns: list[str]) -> list[CellPlan]:
    """None, one or two rows of headings; with two, some columns share a heading above and the rest span both."""
    if not rows:
        return []
    bold = bool(rng.random() < 0.7)
    centred = rng.random() < 0.4

    def title(row: int, column: int, row_span: int = 1) -> CellPlan:
        length = int(rng.integers(3, 16 if columns > 4 else 26))
        align = "center" if centred else aligns[column]
        return CellPlan(row, column, words(length), row_span, header=True, align=align, bold=bold)

    if rows == 1:
        blank_corner = rng.random() < 0.15
        return [
            CellPlan(0, 0, "", header=True) if blank_corner and column == 0 else title(0, column)
            for column in range(columns)
        ]
    cells = []
    column = 0
    while column < columns:
        span = int(rng.integers(2, 4)) if column and rng.random() < 0.75 else 1
        span = min(span, columns - column)
        if span == 1:
            cells.append(title(0, column, row_span=2))
        else:
            cells.append(replace(title(0, column), column_span=span, align="center"))
            cells.extend(title(1, column + extra) for extra in range(span))
        column += span
    if not any(cell.row == 1 for cell in cells):
        # Everything spans both rows: that is one row of headings over an empty one, so give the last column two.
        cells[-1] = replace(cells[-1], row_span=1)
        cells.append(title(1, columns - 1))
    return cells
