"""The grammar of table streams: it takes every table's stream, and whatever it lets through is a table."""

import numpy as np
import pytest
from made_tables import random_table, tables

from docvision.page import Box, Cell, Table
from docvision.table_grammar import CONTINUED, FIRST, MAX_COLUMNS, Phase, TableGrammar, TableState
from docvision.tableseq import COORDINATE_PIXELS, TableStreamError, ids_to_table, table_to_ids
from docvision.tokens import Vocabulary

V = Vocabulary()
KINDS = [(True, True), (False, True), (True, False), (False, False)]


def walk(
    grammar: TableGrammar, rng: np.random.Generator, limit: int = 400, size: tuple[float, float] | None = None
) -> tuple[list[int], TableState]:
    """Random legal tokens to the end: a kind of token first, so that characters do not drown the tags.

    On the way the three views of what is legal (options, mask, forced) are held against each other.
    """
    state, ids = grammar.start(size), []
    while state.phase != Phase.DONE:
        if len(ids) + state.closing_cost() > limit:
            state.close("limit")
        options = state.options()
        groups = [np.array(options.tags)] if options.tags else []
        groups += [np.arange(first, last + 1) for first, last in options.ranges]
        if options.text:
            groups.append(np.flatnonzero(state.legal()[: V.first_byte + 256]))
        every = np.concatenate(groups)
        assert np.array_equal(np.sort(every), np.flatnonzero(state.legal()))
        assert state.forced() == (int(every[0]) if len(every) == 1 else None)
        token = int(rng.choice(groups[int(rng.integers(len(groups)))]))
        state.advance(token)
        ids.append(token)
        assert len(ids) <= limit
    return ids, state


@pytest.mark.parametrize("text, boxes", KINDS)
def test_streams_of_tables_are_accepted(text, boxes):
    grammar = TableGrammar(V, text, boxes)
    for table in tables(60):
        ids = table_to_ids(table, V, (1.0, 1.0), text, boxes)
        assert grammar.accepts(ids, size=(900, 700)) and grammar.accepts([*ids, V.eos])
        assert not grammar.accepts(ids[:-1])
    assert grammar.accepts(table_to_ids(Table(0, 0), V, (1.0, 1.0)))


def test_turned_tables_are_accepted():
    """Pictures skewed by up to two degrees either way still have legal truth."""
    rng = np.random.default_rng(7)
    grammar = TableGrammar(V)
    for slope in (-0.035, -0.01, 0.01, 0.035):
        for _ in range(10):
            table = random_table(rng, 8, 8)
            for cell in table.cells:
                cell.text_box = cell.text_box and cell.text_box.shift(0, 20 + slope * cell.text_box.x0)
            assert grammar.accepts(table_to_ids(table, V, (2.0, 2.0)))


@pytest.mark.parametrize("text, boxes", KINDS)
def test_legal_walks_end_in_a_rectangular_table(text, boxes):
    """Any walk: a full grid without overlaps, boxes inside the picture, and the stream is the table's own."""
    rng = np.random.default_rng(11)
    whole = 0
    for _ in range(30):
        size = (float(rng.integers(20, 400)), float(rng.integers(20, 400)))
        ids, state = walk(TableGrammar(V, text, boxes), rng, int(rng.integers(40, 500)), size)
        table, notes = ids_to_table(ids, V, (1.0, 1.0))
        taken = np.zeros((table.rows, table.columns), int)
        for cell in table.cells:
            taken[cell.row : cell.row + cell.row_span, cell.column : cell.column + cell.column_span] += 1
            if cell.text_box is not None:
                x0, y0, x1, y1 = cell.text_box
                assert 0 <= x0 < x1 <= size[0] + COORDINATE_PIXELS and 0 <= y0 < y1 <= size[1] + COORDINATE_PIXELS
        assert taken.min(initial=1) == taken.max(initial=1) == 1, notes
        if not state.stopped:
            whole += 1
            assert notes == []
    assert whole >= 3


def test_walks_are_what_the_writer_writes():
    """Legal and canonical are the same: the table of a walk has the walk as its stream (structure streams)."""
    rng = np.random.default_rng(12)
    grammar = TableGrammar(V, text=False, boxes=False)
    compared = 0
    for _ in range(50):
        ids, state = walk(grammar, rng)
        table = ids_to_table(ids, V, (1.0, 1.0)).table
        if not state.stopped and all(any(c.row == row for c in table.cells) for row in range(table.rows)):
            compared += 1
            assert [*table_to_ids(table, V, (1.0, 1.0), text=False), V.eos] == ids
    assert compared >= 5


@pytest.mark.parametrize("text, boxes", KINDS)
def test_closing_takes_no_longer_than_promised(text, boxes):
    """From every place of a table's stream, closing costs what was promised and keeps what was written."""
    rng = np.random.default_rng(13)
    grammar = TableGrammar(V, text, boxes)
    for table in tables(8, seed=3):
        ids = table_to_ids(table, V, (1.0, 1.0), text, boxes)
        state = grammar.start()
        budget = state.closing_cost()
        for place, token in enumerate(ids):
            state.advance(token)
            other = state.copy()
            other.close("test")
            rest: list[int] = []
            while other.phase != Phase.DONE:
                rest.append(int(rng.choice(np.flatnonzero(other.legal()))))
                other.advance(rest[-1])
            assert len(rest) <= min(budget - 1, state.closing_cost()), (place, rest)
            budget = state.closing_cost()
            found = ids_to_table(ids[: place + 1] + rest, V, (1.0, 1.0)).table
            assert len(found.cells) >= ids[: place + 1].count(V.ids["</td>"])
            assert all(cell is not None for row in found.grid() for cell in row)


def test_nothing_follows_the_end():
    state = walk(TableGrammar(V), np.random.default_rng(14), 200, (60, 60))[1]
    assert state.phase == Phase.DONE and not state.legal().any() and state.forced() is None


def at(*tokens: str | int, grammar: TableGrammar | None = None, size: tuple[float, float] | None = None) -> TableState:
    """The state behind these tokens, given as names or, for ``>``, ids."""
    state = (grammar or TableGrammar(V)).start(size)
    for token in tokens:
        state.advance(V.close_bracket if token == ">" else V.ids[token] if isinstance(token, str) else token)
    return state


def legal_names(state: TableState) -> set[str]:
    return {V.names[index] for index in np.flatnonzero(state.legal())}


ROW = ["<tr>", "<td>", "</td>", "<td>", "</td>", "</tr>"]


def test_rows_fill_the_first_rows_columns():
    state = at("<table>", "<tbody>", *ROW, "<tr>", "<td>", "</td>")
    assert legal_names(state) == {"<td>", "<td"}  # no </tr> before the second cell
    state = at("<table>", "<tbody>", *ROW, "<tr>", "<td>", "</td>", "<td>", "</td>")
    assert legal_names(state) == {"</tr>"}


def test_spans_from_above_take_places():
    """A cell two rows high leaves one place in the next row, and the table cannot end before that row."""
    tall = ["<tr>", "<td", 'rowspan="2"', ">", "</td>", "<td>", "</td>", "</tr>"]
    assert legal_names(at("<table>", "<thead>", *tall)) == {"<tr>"}
    assert legal_names(at("<table>", "<thead>", *tall, "<tr>", "<td>", "</td>")) == {"</tr>"}
    spans = legal_names(at("<table>", "<thead>", *tall, "<tr>", "<td"))
    assert 'colspan="2"' not in spans and 'rowspan="30"' in spans
    assert "</thead>" in legal_names(at("<table>", "<thead>", *tall, "<tr>", "<td>", "</td>", "</tr>"))


def test_column_spans_stay_inside_the_grid():
    spans = legal_names(at("<table>", "<tbody>", *ROW, "<tr>", "<td"))
    assert {name for name in spans if name.startswith("col")} == {'colspan="2"'}
    assert legal_names(at("<table>", "<tbody>", *ROW, "<tr>", "<td", 'rowspan="2"')) == {">"}


def test_coordinates_are_in_order():
    state = at("<table>", "<tbody>", "<tr>", "<td>", "<x_5>", "<y_7>", "a")
    names = legal_names(state)
    assert "<x_6>" in names and "<x_5>" not in names and "</td>" not in names
    state.advance(V.ids["<x_9>"])
    assert legal_names(state) == {f"<y_{k}>" for k in range(8, 640)}
    state = at("<table>", "<tbody>", "<tr>", "<td>", "<x_5>", "<y_7>", "a", "<x_9>", "<y_9>", "</td>", "<td>")
    assert legal_names(state) == {"</td>"} | {f"<x_{k}>" for k in range(6, 639)}


def test_boxes_stay_in_the_picture():
    size = (40, 30)
    state = at("<table>", "<tbody>", "<tr>", "<td>", size=size)
    assert legal_names(state) == {"</td>"} | {f"<x_{k}>" for k in range(20)}
    state = at("<table>", "<tbody>", "<tr>", "<td>", "<x_19>", "<y_14>", "a", size=size)
    assert {name for name in legal_names(state) if name.startswith("<x")} == {"<x_20>"}
    done = at("<table>", "<tbody>", "<tr>", "<td>", "<x_19>", "<y_14>", "a", "<x_20>", size=size)
    assert done.forced() == V.ids["<y_15>"]


def boxed_row(y: int) -> list[str]:
    return ["<tr>", "<td>", "<x_1>", f"<y_{y}>", "a", "<x_9>", f"<y_{y + 4}>", "</td>", "</tr>"]


def test_rows_go_down_and_loops_end():
    """The next row may not start above; two rows that stay where they are close the table."""
    state = at("<table>", "<tbody>", *boxed_row(8), "<tr>", "<td>", "<x_1>")
    assert "<y_7>" not in legal_names(state) and "<y_8>" in legal_names(state)
    once = at("<table>", "<tbody>", *boxed_row(8), *boxed_row(8))
    assert legal_names(once) == {"<tr>", "</tbody>"} and not once.stopped
    twice = at("<table>", "<tbody>", *boxed_row(8), *boxed_row(8), *boxed_row(8))
    assert legal_names(twice) == {"</tbody>"} and "rows 1 to 2 do not move down" in twice.stopped
    assert not at("<table>", "<tbody>", *boxed_row(8), *boxed_row(8), *boxed_row(9), *boxed_row(9)).stopped


def test_endless_empty_rows_end():
    state = at("<table>", "<tbody>", *boxed_row(8), *(["<tr>", "<td>", "</td>", "</tr>"] * 29))
    assert not state.stopped
    for token in ("<tr>", "<td>", "</td>", "</tr>"):
        state.advance(V.ids[token])
    assert legal_names(state) == {"</tbody>"} and "30 rows" in state.stopped


def test_endless_first_row_ends():
    state = at("<table>", "<tbody>", "<tr>", *(["<td>", "</td>"] * MAX_COLUMNS))
    assert legal_names(state) == {"</tr>"}


def test_text_has_single_spaces_and_whole_characters():
    start = ["<table>", "<tbody>", "<tr>", "<td>", "<x_1>", "<y_1>"]
    assert at(*start).options().text == FIRST
    assert " " not in legal_names(at(*start)) and ">" in legal_names(at(*start))
    assert " " in legal_names(at(*start, "a"))
    spaced = legal_names(at(*start, "a", " "))
    assert " " not in spaced and not any(name.startswith("<x_") for name in spaced)
    byte = at(*start, V.first_byte + 0xE6)
    assert byte.options() == ((), (), CONTINUED)
    byte.advance(V.first_byte + 0xBC)
    byte.advance(V.first_byte + 0xA2)
    assert any(name.startswith("<x_") for name in legal_names(byte))


def test_illegal_tokens_are_named():
    with pytest.raises(TableStreamError, match="</td> may not come here"):
        at("<table>", "</td>")
    for token in (99999, -1, -1600):
        with pytest.raises(TableStreamError, match=f"{token} may not"):
            at("<table>", "<tbody>", "<tr>", "<td>", "<x_1>", "<y_1>", token)


def test_copies_are_independent_and_masks_shared():
    state = at("<table>", "<tbody>", *ROW, "<tr>")
    other = state.copy()
    other.advance(V.ids["<td"])
    other.advance(V.ids['colspan="2"'])
    other.advance(V.close_bracket)
    assert state.above == [0, 0] and other.above == [1, 1]
    assert state.legal() is at("<table>", "<tbody>", *ROW, "<tr>", grammar=state.grammar).legal()
    with pytest.raises(ValueError):
        state.legal()[0] = True


def test_a_cell_without_a_box_is_not_in_the_language_with_boxes():
    table = Table(1, 1, [Cell(0, 0, "a", text_box=Box(2, 2, 9, 9))])
    ids = table_to_ids(table, V, (1.0, 1.0), boxes=False)
    assert TableGrammar(V, boxes=False).accepts(ids) and not TableGrammar(V).accepts(ids)
