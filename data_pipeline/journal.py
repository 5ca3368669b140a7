"""Plans of tables as journals print them: headings over headings, groups of rows, indents, few rules.

:func:`plan_journal` fills a grid of a given size; :mod:`data_pipeline.tables` has the other ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from data_pipeline import chance, table_values
from data_pipeline.table_plans import ICONS, CellPlan, Rng, TablePlan, Words, header_fill
from data_pipeline.table_values import Column

_RULINGS = {"booktabs": 0.46, "header": 0.14, "none": 0.16, "rows": 0.08, "full": 0.11, "columns": 0.02, "outer": 0.03}
_STUBS = {"plain": 0.46, "titles": 0.17, "first": 0.25, "spans": 0.12}
"""How rows are grouped: not at all, by titles across all columns, by titles in the first column with the group's rows
indented, or by a first cell that spans the group."""


def plan_journal(rng: Rng, words: Words, rows: int, columns: int) -> TablePlan:
    """A table of exactly this size."""
    levels = _levels(rng, rows, columns)
    drawn = [table_values.draw_column(rng, kind) for kind in _kinds(rng, columns)]
    numeric = chance.weighted(rng, {"center": 0.45, "left": 0.35, "right": 0.2})
    aligns = [_align(rng, column, numeric) for column in drawn]
    header = _Header(rng, words, levels, aligns)
    header.fill(0, 0, columns)
    body = _Body(rng, words, range(levels, rows), drawn, aligns)
    body.fill()
    ruling = chance.weighted(rng, _RULINGS)
    roomy = ruling in ("full", "rows")
    rules = tuple(
        (cell.row, 0, columns)
        for cell in body.cells
        if cell.column_span == columns > 1 and body.ruled and cell.row > levels
    )
    cells = tuple(sorted(header.cells + body.cells, key=lambda cell: (cell.row, cell.column)))
    return TablePlan(
        rows, columns, levels, cells, ruling,
        float(chance.weighted(rng, {0.3: 0.2, 0.5: 0.4, 0.8: 0.3, 1.2: 0.1})),
        (float(rng.uniform(0.25, 1.0)), float(rng.uniform(0.2, 0.6) if roomy else rng.uniform(0.17, 0.5))),
        _widths(rng, drawn), zebra=bool(rng.random() < (0.14 if ruling in ("booktabs", "header", "none") else 0.04)),
        header_fill=header_fill(rng, 0.14), rules=rules, span_rules=levels > 1 and bool(rng.random() < 0.75),
        vertical=chance.weighted(rng, {"top": 0.6, "horizon": 0.3, "bottom": 0.1}), unit="em",
        leading=float(rng.uniform(0.35, 0.65)),
    )  # fmt: skip


def _levels(rng: Rng, rows: int, columns: int) -> int:
    """Rows of headings."""
    if rows < 2:
        return int(rng.random() < 0.3)
    shares = {0: 0.05, 1: 0.56}
    if columns >= 3 and rows >= 3:
        shares[2] = 0.33
    if columns >= 5 and rows >= 5:
        shares[3] = 0.08
    return chance.weighted(rng, shares)


def _kinds(rng: Rng, columns: int) -> list[str]:
    """The first column is mostly labels; the others often repeat one or two kinds."""
    first = chance.weighted(rng, {"label": 0.8, "name": 0.06, "code": 0.05, "reference": 0.05, "integer": 0.04})
    main = [chance.weighted(rng, table_values.COLUMN_KINDS) for _ in range(2)]
    kinds = [first]
    for index in range(columns - 1):
        draw = rng.random()
        kinds.append(
            main[index % 2]
            if draw < 0.55
            else main[0]
            if draw < 0.7
            else chance.weighted(rng, table_values.COLUMN_KINDS)
        )
    texts = [index for index, kind in enumerate(kinds) if kind == "text"]
    # Several columns of long text leave nothing to the others.
    for index in texts[2:]:
        kinds[index] = "name"
    return kinds


def _align(rng: Rng, column: Column, numeric: str) -> str:
    if column.kind in table_values.NUMERIC or column.kind == "mark":
        return numeric
    return "left" if rng.random() < 0.85 else "center"


def _widths(rng: Rng, columns: list[Column]) -> tuple[float, ...]:
    """Widths in em; 0 for as wide as the text. Narrow columns wrap their headings and labels."""
    narrow = rng.random() < 0.25
    widths = []
    for index, column in enumerate(columns):
        if column.kind == "text":
            widths.append(float(rng.uniform(7, 20)))
        elif column.kind in ("label", "name", "reference"):
            wrapped = rng.random() < (0.4 if index == 0 else 0.3)
            widths.append(float(rng.uniform(5.0, 13.0)) if wrapped else 0.0)
        elif narrow and column.kind in table_values.NUMERIC and column.kind not in ("interval", "thousands"):
            widths.append(float(rng.uniform(4.5, 7.5)))
        else:
            widths.append(0.0)
    return tuple(widths)


@dataclass
class _Header:
    """Headings in several levels."""

    rng: Rng
    words: Words
    levels: int
    aligns: list[str]
    cells: list[CellPlan] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        self.bold = bool(rng.random() < 0.6)
        self.italic = bool(rng.random() < 0.06)
        self.centred = bool(rng.random() < 0.35)
        self.spanning = bool(rng.random() < 0.55)
        self.noted = bool(rng.random() < 0.15)
        """Whether a heading over one column spans all levels; else an empty cell stands above it."""
        self.turned = bool(len(self.aligns) > 3 and rng.random() < 0.04)
        self.corner = bool(rng.random() < 0.15)
        self.length = int(rng.integers(6, 30 if len(self.aligns) < 6 else 16))
        self.repeated = [self.text() for _ in range(4)] if rng.random() < 0.5 else []
        """The same headings under each spanning one, as in "Mean SD Mean SD"."""

    def text(self) -> str:
        return table_values.heading(self.rng, self.words, int(self.rng.integers(3, self.length)))

    def cell(self, row: int, column: int, **changes: object) -> CellPlan:
        note = chance.pick(self.rng, table_values.NOTES) if self.noted and self.rng.random() < 0.25 else ""
        align = "center" if self.centred else self.aligns[column]
        made = CellPlan(
            row, column, self.text(), header=True, align=align, bold=self.bold, italic=self.italic, note=note
        )
        return replace(made, **changes)  # type: ignore[arg-type]

    def fill(self, row: int, start: int, stop: int, stub: bool = True) -> None:
        """Headings of the columns ``start`` to ``stop`` from level ``row`` down."""
        if row >= self.levels:
            return
        last = row == self.levels - 1
        column = start
        while column < stop:
            is_stub = stub and column == 0
            wide = 1 if last or is_stub else self._span(row, column, start, stop)
            if wide > 1:
                self.cells.append(self.cell(row, column, column_span=wide, align="center"))
                self.fill(row + 1, column, column + wide, stub=False)
            elif last or self.spanning:
                text = {"text": "", "note": ""} if is_stub and self.corner else {}
                if last and self.repeated and not stub:
                    text = {"text": self.repeated[(column - start) % 4]}
                turned = {"turned": True, "align": "center"} if self.turned and not is_stub else {}
                self.cells.append(self.cell(row, column, row_span=self.levels - row, **text, **turned))
            else:
                self.cells.append(self.cell(row, column, text="", note=""))
                self.fill(row + 1, column, column + 1, stub=is_stub)
            column += wide

    def _span(self, row: int, column: int, start: int, stop: int) -> int:
        """How many columns a heading covers; the first after the stub always covers several, if it can."""
        left = stop - column
        if column > max(start, 1) and self.rng.random() < 0.25:
            return 1
        if row + 2 < self.levels:
            return min(left, int(self.rng.integers(3, 8)))
        return min(left, int(chance.weighted(self.rng, {2: 0.5, 3: 0.25, 4: 0.15, 6: 0.1})))


@dataclass
class _Body:
    """The rows below the headings."""

    rng: Rng
    words: Words
    rows: range
    columns: list[Column]
    aligns: list[str]
    cells: list[CellPlan] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        self.stub = chance.weighted(rng, _STUBS) if len(self.rows) > 3 and len(self.columns) > 1 else "plain"
        self.blank = float(chance.weighted(rng, {0.0: 0.45, 0.04: 0.35, 0.2: 0.2}))
        self.noted = float(chance.weighted(rng, {0.0: 0.7, 0.04: 0.2, 0.15: 0.1}))
        self.merged = float(chance.weighted(rng, {0.0: 0.8, 0.03: 0.15, 0.1: 0.05}))
        if not self.rows.start:
            # Without headings nothing else shows that a merged column is one.
            self.merged = 0.0
        self.icons = len(self.columns) > 1 and rng.random() < 0.03
        self.bold_titles, self.italic_titles = bool(rng.random() < 0.5), bool(rng.random() < 0.3)
        self.bold_first = bool(rng.random() < 0.1)
        self.indent = float(rng.uniform(0.7, 2.0)) if rng.random() < 0.75 else 0.0
        self.length = int(rng.integers(8, 34))
        self.ruled = bool(rng.random() < 0.3)
        self.taken: set[tuple[int, int]] = set()

    def fill(self) -> None:
        row, group_left = self.rows.start, 0
        while row < self.rows.stop:
            room = self.rows.stop - row
            if self.stub != "plain" and group_left == 0:
                group_left = min(int(self.rng.integers(2, 7)), room)
                if self.stub in ("titles", "first") and room > 1:
                    self._title(row)
                    row, group_left = row + 1, max(1, min(group_left, room - 1))
                elif self.stub == "spans":
                    self._label(row, group_left)
            indent = self.indent if self.stub in ("titles", "first") else 0.0
            self._row(row, indent)
            row, group_left = row + 1, max(0, group_left - 1)

    def _title(self, row: int) -> None:
        wide = len(self.columns) if self.stub == "titles" else 1
        align = "center" if self.stub == "titles" and self.rng.random() < 0.2 else "left"
        text = table_values.label(self.rng, self.words, int(self.rng.integers(4, self.length + 10 * (wide > 1))))
        self.cells.append(
            CellPlan(row, 0, text, column_span=wide, align=align, bold=self.bold_titles, italic=self.italic_titles)
        )
        self.cells.extend(CellPlan(row, column) for column in range(wide, len(self.columns)))

    def _label(self, row: int, tall: int = 1, indent: float = 0.0) -> None:
        kind = self.columns[0].kind
        if kind in ("label", "name"):
            text, note = table_values.label(self.rng, self.words, int(self.rng.integers(4, self.length))), ""
        else:
            text, note = table_values.value(self.rng, self.words, self.columns[0])
        if self.rng.random() < self.noted:
            note = note or chance.pick(self.rng, table_values.NOTES)
        deep = indent + (self.indent if indent and self.rng.random() < 0.12 else 0.0)
        self.cells.append(
            CellPlan(row, 0, text, tall, align=self.aligns[0], bold=self.bold_first, note=note, indent=deep)
        )
        self.taken.update((row + extra, 0) for extra in range(tall))

    def _row(self, row: int, indent: float) -> None:
        if (row, 0) not in self.taken:
            self._label(row, 1, indent)
        column = 1
        while column < len(self.columns):
            if (row, column) in self.taken:
                column += 1
                continue
            wide, tall = self._spans(row, column)
            self.taken.update((row + down, column + right) for down in range(tall) for right in range(wide))
            self.cells.append(self._value(row, column, tall, wide))
            column += wide

    def _spans(self, row: int, column: int) -> tuple[int, int]:
        if self.rng.random() >= self.merged:
            return 1, 1
        wide = tall = 1
        if self.rng.random() < 0.5:
            most = min(int(self.rng.integers(2, 5)), len(self.columns) - column)
            while wide < most and (row, column + wide) not in self.taken:
                wide += 1
        elif column < len(self.columns) - 1 and self.stub not in ("titles", "first"):
            # Never down the last column, so that each row has a cell of its own; never into a title.
            tall = min(int(self.rng.integers(2, 4)), self.rows.stop - row)
        return wide, tall

    def _value(self, row: int, column: int, tall: int, wide: int) -> CellPlan:
        align = "center" if wide > 1 else self.aligns[column]
        if self.icons and column % 3 == 1:
            icon = chance.pick(self.rng, ICONS)
            return CellPlan(row, column, "", tall, wide, align="center", icon=icon)
        if self.rng.random() < self.blank:
            return CellPlan(row, column, "", tall, wide, align=align)
        text, note = table_values.value(self.rng, self.words, self.columns[column])
        if self.rng.random() < self.noted:
            note = note or chance.pick(self.rng, table_values.NOTES)
        bold = bool(self.rng.random() < 0.015)
        return CellPlan(row, column, text, tall, wide, align=align, bold=bold, note=note)
