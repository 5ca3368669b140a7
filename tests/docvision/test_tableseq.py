"""Table streams: a table comes back as it was, a broken stream never raises and never invents a cell."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made_tables import tables

from docvision.export import table_to_html
from docvision.page import Box, Cell, Table
from docvision.tableseq import (
    COORDINATE_PIXELS,
    TableStreamError,
    ids_to_table,
    stream_form,
    table_to_ids,
)
from docvision.tokens import CHARACTERS, Vocabulary

V = Vocabulary()
SCALE = (1.7, 1.6)


def names(ids: list[int]) -> list[str]:
    return [V.names[index] for index in ids]


def same(found: Table, true: Table, boxes: bool = True) -> None:
    """Equal up to the rounding of boxes (half a bin, a whole one where a box is thinner than that) and their source."""
    assert (found.rows, found.columns) == (true.rows, true.columns)
    for cell, other in zip(found.cells, true.cells, strict=True):
        plain = {"source": "truth", "text_box": None}
        assert replace(cell, **plain) == replace(other, **plain)
        if not boxes:
            continue
        assert (cell.text_box is None) == (other.text_box is None)
        if cell.text_box is not None and other.text_box is not None:
            for k, (a, b) in enumerate(zip(cell.text_box, other.text_box, strict=True)):
                assert abs(a - b) * SCALE[k % 2] <= COORDINATE_PIXELS / 2 + 1e-6


def test_the_stream_is_the_papers():
    """The sheet's own illustration, token for token."""
    cells = [
        Cell(0, 0, header=True),
        Cell(0, 1, "Year", header=True, text_box=Box(24, 2, 32, 6)),
        Cell(1, 0, "n/a", column_span=2, text_box=Box(4, 8, 10, 12)),
    ]
    ids = table_to_ids(Table(2, 2, cells), V, (1.0, 1.0))
    spelled = "".join(names(ids))
    assert spelled == (
        "<table><thead><tr><td></td><td><x_12><y_1>Year<x_16><y_3></td></tr></thead>"
        '<tbody><tr><tdcolspan="2"><x_2><y_4>n/a<x_5><y_6></td></tr></tbody></table>'
    )
    structure = table_to_ids(Table(2, 2, cells), V, (1.0, 1.0), text=False)
    assert structure == [index for index in ids if index > V.register]
    tags = table_to_ids(Table(2, 2, cells), V, (1.0, 1.0), text=False, boxes=False)
    assert tags == [index for index in structure if index < V.first_x]


def test_round_trip():
    for table in tables(200):
        true = stream_form(table)
        found, notes = ids_to_table(table_to_ids(table, V, SCALE), V, SCALE)
        assert notes == []
        same(found, true)
        assert table_to_html(found) == table_to_html(true)


@pytest.mark.parametrize("text, boxes", [(False, True), (True, False), (False, False)])
def test_round_trip_of_partial_streams(text, boxes):
    for table in tables(60, seed=1):
        found, notes = ids_to_table(table_to_ids(table, V, SCALE, text, boxes), V, SCALE)
        true = stream_form(table)
        true.cells = [replace(cell, text=cell.text if text else "") for cell in true.cells]
        assert notes == []
        same(found, true, boxes)
        assert boxes or not any(cell.text_box for cell in found.cells)


def test_origin_moves_boxes():
    table = tables(1, seed=5)[0]
    moved = Table(table.rows, table.columns, [replace(c) for c in table.cells])
    for cell in moved.cells:
        cell.text_box = cell.text_box and cell.text_box.shift(300, 700)
    ids = table_to_ids(moved, V, SCALE, origin=(300.0, 700.0))
    assert ids == table_to_ids(table, V, SCALE)
    same(ids_to_table(ids, V, SCALE, origin=(300.0, 700.0)).table, stream_form(moved))


def test_rounding_once_keeps_most_of_a_box():
    """Bins of 2 pixels leave a mean IoU of at least 0.84 on words 8 to 13 pixels high (PubTabNet's own sizes)."""
    rng = np.random.default_rng(3)
    overlaps = []
    for _ in range(2000):
        x, y = rng.uniform(0, 450, 2)
        width, height = rng.gamma(2.0, 14.0) + 5, rng.uniform(8, 13)
        true = Box(x, y, x + width, y + height)
        cell = Cell(0, 0, "a", text_box=true)
        found = ids_to_table(table_to_ids(Table(1, 1, [cell]), V, (1.0, 1.0)), V, (1.0, 1.0)).table.cells[0].text_box
        overlaps.append(found.iou(true))
    assert 0.84 <= np.mean(overlaps) < 0.95
    assert np.mean(np.array(overlaps) >= 0.5) == 1.0


def test_halves_go_outwards():
    """Boxes in whole pixels lie half way between bins at every odd edge; moved to one side they would lose more."""
    cell = Cell(0, 0, "a", text_box=Box(3, 5, 9, 15))
    box = ids_to_table(table_to_ids(Table(1, 1, [cell]), V, (1.0, 1.0)), V, (1.0, 1.0)).table.cells[0].text_box
    assert box == Box(2, 4, 10, 16)


def test_thin_boxes_keep_an_area():
    for x in np.linspace(0, 4, 41):
        cell = Cell(0, 0, "|", text_box=Box(x, x, x + 0.1, x + 0.1))
        box = ids_to_table(table_to_ids(Table(1, 1, [cell]), V, (1.0, 1.0)), V, (1.0, 1.0)).table.cells[0].text_box
        assert box.width == box.height == COORDINATE_PIXELS
        assert box.x0 <= x + 0.05 <= box.x1  # its middle is inside


def test_stream_form_fills_holes_and_folds_the_header():
    """A head row whose cell reaches into the body is body; a lone header cell beside data is a plain cell."""
    cells = [
        Cell(0, 0, "a\u00ad b\n c", header=True, row_span=2, text_box=Box(0, 0, 9, 9)),
        Cell(0, 1, "\u200b", header=True, text_box=Box(0, 0, 9, 9)),
        Cell(1, 1, "x", text_box=Box(9, 9, 18, 18)),
        Cell(2, 0, "r", header=True, column_span=9, text_box=Box(0, 0, 9, 9)),
    ]
    formed = stream_form(Table(3, 2, cells))
    assert [(c.row, c.column, c.text) for c in formed.cells] == [(0, 0, "a b c"), (0, 1, ""), (1, 1, "x"), (2, 0, "r")]
    assert not any(cell.header for cell in formed.cells)
    assert formed.cells[1].text_box is None and formed.cells[3].column_span == 2
    assert stream_form(formed) == formed
    assert cells[0].header and cells[3].column_span == 9  # what was passed in is left alone
    holed = stream_form(Table(2, 2, [Cell(0, 1, "h", header=True), Cell(1, 1, "d")]))
    assert [(c.row, c.column, c.header) for c in holed.cells] == [
        (0, 0, True),
        (0, 1, True),
        (1, 0, False),
        (1, 1, False),
    ]


@pytest.mark.parametrize(
    "cells, why",
    [
        ([Cell(0, 0, column_span=2), Cell(0, 1)], "overlap"),
        ([Cell(3, 0)], "outside"),
        ([Cell(0, 0, row_span=0)], "outside"),
        ([Cell(0, 0, column_span=31)], "a span of 31, 30 at most"),
        ([Cell(0, 0, "text")], "boxes=False"),
        ([Cell(0, 0, "text", text_box=Box(0, 0, 9, 1300))], "1278 at most"),
    ],
)
def test_tables_without_a_stream(cells, why):
    with pytest.raises(TableStreamError, match=why):
        table_to_ids(Table(2, 40, cells), V, (1.0, 1.0))


def test_a_cut_stream_never_invents():
    """Every prefix parses; its cells are the first ones of the whole, or nothing, and it is told that it is cut."""
    for table in tables(12, seed=2):
        ids = table_to_ids(table, V, SCALE)
        whole = ids_to_table(ids, V, SCALE).table
        for end in range(len(ids)):
            found, notes = ids_to_table(ids[:end], V, SCALE)
            assert notes
            closed = ids[:end].count(V.ids["</td>"])
            assert closed <= len(found.cells) <= closed + 1
            for cell, true in zip(found.cells, whole.cells, strict=False):
                assert (cell.row, cell.column, cell.text, cell.text_box) == (
                    true.row,
                    true.column,
                    true.text,
                    true.text_box,
                )


def test_broken_streams_never_raise():
    """Random tokens put in, taken out or swapped: no more cells than cell tags, all inside the grid, none overlap."""
    rng = np.random.default_rng(4)
    for table in tables(150, seed=6):
        ids = table_to_ids(table, V, SCALE)
        for _ in range(int(rng.integers(1, 12))):
            place = int(rng.integers(0, len(ids)))
            kind = int(rng.integers(0, 3))
            if kind == 0:
                ids.insert(place, int(rng.integers(-1, len(V) + 1)))
            elif kind == 1:
                ids[place] = int(rng.choice(ids))
            elif len(ids) > 1:
                del ids[place]
        found = ids_to_table(ids, V, SCALE).table
        assert len(found.cells) <= sum(name in ("<td>", "<td") for name in names([i for i in ids if 0 <= i < len(V)]))
        owners = [(r, c) for cell in found.cells for r in range(cell.row, cell.row + cell.row_span)
                  for c in range(cell.column, cell.column + cell.column_span)]  # fmt: skip
        assert len(set(owners)) == len(owners)
        assert all(row < found.rows and column < found.columns for row, column in owners)


def ids_of(*parts: str | tuple[str, str]) -> list[int]:
    """Ids from tags such as ``<td>`` and plain text between them."""
    ids = []
    for part in re.findall(r"<x_\d+>|<y_\d+>|</?\w+>|colspan=\"\d+\"|[^<]+", "".join(parts)):
        ids += [V.ids[part]] if part in V.ids else V.encode(part)
    return ids


@pytest.mark.parametrize(
    "stream, texts, note",
    [
        ("<table><tr><td>a<td>b</td></tr></table>", [["a", "b"]], "without </td>"),
        ("<table><tr><td>a</td><tr><td>b</td></tr></table>", [["a"], ["b"]], "row 0 without </tr>"),
        ("<table><td>a</td></tr></table>", [["a"]], "outside a row"),
        ("<table><tr><td>a</td></tr><tr></tr></table>", [["a"]], "a row without cells left out"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", [["a", "b"], ["c"]], "1 of 2 x 2 places"),
        ("<table><tr>z<td>a</td></tr></table>", [["a"]], "outside a cell"),
        ("<table><tr><td>a</td><td>12", [["a"]], "cut"),
        ("<td>a</td>", [], "no <table>"),
    ],
)
def test_repairs(stream, texts, note):
    table, notes = ids_to_table(ids_of(stream), V, (1.0, 1.0))
    rows = [[cell.text for cell in table.cells if cell.row == row] for row in range(table.rows)]
    assert rows == texts
    assert any(note in line for line in notes), notes


def test_odd_coordinates():
    """Reversed corners are turned, a surplus coordinate is skipped, three coordinates are no box."""
    for inner, box in [
        ("<x_9><y_8>a<x_3><y_2>", Box(6, 4, 18, 16)),
        ("<y_7><x_1><y_2>a<x_3><y_4>", Box(2, 4, 6, 8)),
        ("<x_1><y_2>a<x_3>", None),
    ]:
        table, notes = ids_to_table(ids_of(f"<table><tr><td>{inner}</td></tr></table>"), V, (1.0, 1.0))
        assert (table.cells[0].text, table.cells[0].text_box) == ("a", box)
        assert bool(notes) == (box != Box(6, 4, 18, 16))


def row_at(*tops: int) -> str:
    return "".join(f"<tr><td><x_1><y_{top}>a<x_5><y_{top + 4}></td></tr>" for top in tops)


@pytest.mark.parametrize(
    "tops, rows", [((2, 8, 14), 3), ((2, 8, 8, 14), 4), ((2, 8, 8, 8, 8), 2), ((2, 8, 14, 8, 14, 8), 3), ((2, 2, 2), 1)]
)
def test_rows_that_loop_are_left_out(tops, rows):
    """Two rows in succession that do not move down end the table; one alone may be an error of the boxes."""
    table, notes = ids_to_table(ids_of("<table><tbody>", row_at(*tops)), V, (1.0, 1.0))
    assert table.rows == rows
    assert any("loop" in note for note in notes) == (rows < len(tops))


def test_confidence_is_the_geometric_mean_of_what_was_chosen():
    ids = ids_of("<table><tr><td>ab</td><td></td></tr></table>")
    scores: list[float | None] = [-1.0, -1.0, -0.5, -0.1, -0.3, None, None, None, -1.0, -1.0]
    table = ids_to_table(ids, V, (1.0, 1.0), scores=scores).table
    assert [cell.confidence for cell in table.cells] == pytest.approx([np.exp(-0.3), 1.0])


def test_every_character_survives():
    text = "".join(CHARACTERS.split()) + "\u6f22\U0001f600"
    table = Table(1, 1, [Cell(0, 0, text)])
    ids = table_to_ids(table, V, (1.0, 1.0), boxes=False)
    assert ids_to_table(ids, V, (1.0, 1.0)).table.cells[0].text == stream_form(table).cells[0].text
