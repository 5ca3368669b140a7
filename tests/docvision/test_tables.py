"""Tables of typeset pages: nets of lines, rows between lines, columns without lines, and what is no table."""

from __future__ import annotations

from pathlib import Path

import pytest
from typeset_pages import LOREM, parse, texts

from docvision.page import Page, Table


def table_of(page: Page) -> Table:
    (block,) = [block for block in page.blocks if block.kind == "table"]
    assert block.table is not None
    return block.table


def rows_of(table: Table) -> list[list[str]]:
    """Texts by row, a spanning cell once."""
    return [[cell.text for cell in table.cells if cell.row == row] for row in range(table.rows)]


def test_a_ruled_table_with_spans(tmp_path: Path) -> None:
    source = f"""
    #set text(size: 10pt)
    {LOREM}
    #table(columns: 3,
      table.cell(rowspan: 2)[Region], table.cell(colspan: 2)[Yield],
      [2019], [2020],
      [North side of the valley], [12], [14],
      [South], [], [9])
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    table = table_of(page)
    assert rows_of(table) == [
        ["Region", "Yield"],
        ["2019", "2020"],
        ["North side of the valley", "12", "14"],
        ["South", "", "9"],
    ]
    spans = {cell.text: (cell.row_span, cell.column_span) for cell in table.cells if cell.row == 0}
    assert spans == {"Region": (2, 1), "Yield": (1, 2)}
    assert table.header_rows == 2
    assert [block.kind for block in page.blocks] == ["text", "table", "text"]


def test_a_table_between_horizontal_lines(tmp_path: Path) -> None:
    """Header cells wrap and a heading spans two columns, marked by a short line under it."""
    source = f"""
    #set text(size: 10pt)
    {LOREM}

    Table 1: Sediment by site
    #table(columns: (80pt, 70pt, 70pt, 70pt), stroke: none, inset: 4pt,
      table.hline(), [], table.cell(colspan: 2, align: center)[Load], [],
      table.hline(start: 1, end: 3, stroke: 0.5pt), [Site], [Sand], [Silt], [Mean of all years],
      table.hline(stroke: 0.5pt), [Alpha], [1.5], [2.5], [2.0], [Beta], [3.5], [4.5], [4.0],
      [Gamma], [5.5], [6.5], [6.0], table.hline())
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    table = table_of(page)
    assert (table.rows, table.columns) == (5, 4)
    assert rows_of(table)[2:] == [
        ["Alpha", "1.5", "2.5", "2.0"],
        ["Beta", "3.5", "4.5", "4.0"],
        ["Gamma", "5.5", "6.5", "6.0"],
    ]
    heads = {cell.text: cell.column_span for cell in table.cells if cell.header}
    assert heads["Load"] == 2 and "Mean of all years" in heads
    assert texts(page, "caption") == ["Table 1: Sediment by site"]


def test_an_aligned_table_without_lines(tmp_path: Path) -> None:
    names = ["Amber", "Basalt", "Chalk", "Dolomite", "Emerald"]
    cells = ", ".join(f"[{name}], [{n}.25], [{n * 7}], [{n * 31}]" for n, name in enumerate(names, 1))
    source = f"""
    #set text(size: 10pt)
    {LOREM}
    #table(columns: (90pt, 60pt, 60pt, 60pt), stroke: none, [Stone], [Weight], [Count], [Price], {cells})
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    table = table_of(page)
    assert rows_of(table)[0] == ["Stone", "Weight", "Count", "Price"]
    assert rows_of(table)[3] == ["Chalk", "3.25", "21", "93"] and table.rows == 6


@pytest.mark.parametrize("gap", [4, 40], ids=["heading bridges the gap", "heading stands in the gap"])
def test_headings_over_pairs_of_columns(tmp_path: Path, gap: int) -> None:
    """A short heading centred over two columns hides the white between them; one line may run under two headings."""
    figures = [(1.42, 40.3, 1.41, 40.6), (0.47, 82.1, 0.48, 81.7), (0.11, 115.9, 0.11, 117.2), (0.09, 351.4, 0.1, 9.8)]
    body = ", ".join(f"[N{n}], " + ", ".join(f"[{figure}]" for figure in row) for n, row in enumerate(figures))
    source = f"""
    #set text(size: 10pt)
    {LOREM}
    #table(columns: 5, stroke: none, align: right, inset: (x: {gap}pt, y: 4pt),
      table.hline(), table.cell(rowspan: 2, align: left + horizon)[Wave],
      table.cell(colspan: 2, align: center)[1911], table.cell(colspan: 2, align: center)[1912],
      table.hline(start: 1, stroke: 0.5pt), [Height], [Phase], [Height], [Phase], table.hline(stroke: 0.5pt),
      {body}, table.hline())
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    table = table_of(page)
    assert rows_of(table)[0] == ["Wave", "1911", "1912"]
    assert [cell.column_span for cell in table.cells if cell.row == 0] == [1, 2, 2]
    assert rows_of(table)[1] == ["Height", "Phase", "Height", "Phase"]
    assert rows_of(table)[2:] == [[f"N{n}", *map(str, row)] for n, row in enumerate(figures)]


def test_figures_set_close_are_columns(tmp_path: Path) -> None:
    """White that runs down between figures parts columns though it is hardly wider than a word space."""
    rows = [(11, 21, 31), (12, 22, 32), (13, 23, 33), (14, 24, 34), (15, 25, 35)]
    body = ", ".join(f"[Row {n}], " + ", ".join(f"[{figure}]" for figure in row) for n, row in enumerate(rows))
    source = f"""
    #set text(size: 10pt)
    {LOREM}
    #table(columns: 4, stroke: none, inset: (x: 2pt, y: 4pt), column-gutter: (10pt, 0pt, 0pt),
      table.hline(), [Name], [a], [b], [c], table.hline(), {body}, table.hline())
    {LOREM}
    """
    (page,) = parse(tmp_path, source)
    assert rows_of(table_of(page))[1:] == [[f"Row {n}", *map(str, row)] for n, row in enumerate(rows)]


def test_a_table_turned_on_its_side(tmp_path: Path) -> None:
    source = """
    #set page(width: 300pt, height: 400pt)
    #rotate(-90deg, reflow: true, table(columns: 3, [a], [b], [c], [11], [22], [33], [44], [55], [66]))
    """
    (page,) = parse(tmp_path, source)
    table = table_of(page)
    assert rows_of(table) == [["a", "b", "c"], ["11", "22", "33"], ["44", "55", "66"]]
    first, last = table.cells[0].box, table.cells[-1].box
    assert first is not None and last is not None
    assert first.y0 > last.y0 and first.x0 < last.x0  # text runs upwards, rows go to the right


def test_two_columns_of_prose_between_lines_are_no_table(tmp_path: Path) -> None:
    source = f"""
    #set page(width: 400pt, height: 400pt, margin: 40pt)
    #set text(size: 9pt)
    #line(length: 100%)
    #columns(2, gutter: 16pt)[{LOREM * 2} #colbreak() {LOREM * 2}]
    #place(bottom, line(length: 100%))
    """
    (page,) = parse(tmp_path, source)
    assert not texts(page, "table")
