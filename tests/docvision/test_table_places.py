"""Tables by the decoder: pictures of like size together, boxes to the cells around them."""

from __future__ import annotations

from docvision.page import Box, Cell, Table
from docvision.reader import size_groups
from docvision.table_readers import home_cells, settle


def test_pictures_of_like_height_are_decoded_together_within_the_limit() -> None:
    sizes = [(1000, 700), (300, 90), (200, 80), (1100, 800), (250, 100)]
    groups = size_groups(sizes)
    assert sorted(index for group in groups for index in group) == list(range(5)) and [2, 1, 4] in groups
    assert all(len(group) == 1 for group in groups if 0 in group or 3 in group)


def test_a_box_belongs_to_the_cell_around_it_else_to_the_next_one_on_its_line() -> None:
    table = Table(2, 2, [
        Cell(0, 0, text_box=Box(0, 0, 40, 10)), Cell(0, 1),
        Cell(1, 0, text_box=Box(0, 12, 150, 22)), Cell(1, 1, text_box=Box(160, 12, 200, 22)),
    ])  # fmt: skip
    homes = home_cells([Box(2, 1, 30, 9), Box(120, 0, 150, 10), Box(155, 12, 158, 22), Box(300, 90, 310, 99)], table)
    assert [(cell.row, cell.column) for cell in homes] == [(0, 0), (0, 0), (1, 1), (1, 1)]
    settle(table, Box(0, 0, 200, 22))
    assert [cell.box for cell in table.cells] == [
        Box(0, 0, 155, 11), Box(155, 0, 200, 11), Box(0, 11, 155, 22), Box(155, 11, 200, 22),
    ]  # fmt: skip
    assert home_cells([Box(170, 0, 190, 9)], table)[0] is table.cells[1]  # empty, but the place is its own


def test_places_out_of_order_are_those_of_the_text() -> None:
    table = Table(2, 1, [Cell(0, 0, text_box=Box(0, 50, 10, 60)), Cell(1, 0, text_box=Box(0, 0, 10, 10))])
    settle(table, Box(0, 0, 10, 60))
    assert [cell.box for cell in table.cells] == [cell.text_box for cell in table.cells]
