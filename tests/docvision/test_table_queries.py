"""Questions by index: what is asked is answered from the cells that cover the place, and answers read back."""

import numpy as np
import pytest
from made_tables import tables

from docvision.page import Box, Cell, Table
from docvision.table_queries import KINDS, answer_cells, answer_ids, answer_places, covering, query_ids, query_pairs
from docvision.tableseq import COORDINATE_PIXELS, TableStreamError, stream_form
from docvision.tokens import Vocabulary

V = Vocabulary()
SCALE = (1.5, 1.5)


def spelled(ids: list[int]) -> str:
    return "".join(V.names[index] for index in ids)


@pytest.fixture
def table() -> Table:
    """A head over two columns, a cell two rows high, one empty cell, one text twice."""
    box = Box(2, 4, 10, 12)
    cells = [
        Cell(0, 0, "a", text_box=box),
        Cell(0, 1, "head", column_span=2, text_box=box),
        Cell(1, 0, "tall", row_span=2, text_box=box),
        Cell(1, 1, "7", text_box=box),
        Cell(1, 2, "x > y", text_box=box),
        Cell(2, 1),
        Cell(2, 2, "7", text_box=box),
    ]
    return Table(3, 3, cells)


@pytest.mark.parametrize(
    "kind, asked, texts",
    [
        ("row", "0", ["a", "head"]),
        ("row", "2", ["tall", "", "7"]),
        ("column", "0", ["a", "tall"]),
        ("column", "2", ["head", "x > y", "7"]),
        ("cell", "2,0", ["tall"]),
        ("cell", "0,2", ["head"]),
        ("cell", "2,1", [""]),
    ],
)
def test_cells_answer_for_all_they_cover(table, kind, asked, texts):
    answer = answer_ids(table, kind, asked, V, (1.0, 1.0))
    found, notes = answer_cells(answer, V, (1.0, 1.0))
    assert notes == [] and [cell.text for cell in found.cells] == texts
    assert all((cell.text_box == Box(2, 4, 10, 12)) == bool(cell.text) for cell in found.cells)


def test_streams_are_spelled_as_described(table):
    assert spelled(query_ids("cell", "2,0", V)) == "<bos><prompt:cell>2,0>"
    assert spelled(answer_ids(table, "cell", "2,0", V, (1.0, 1.0))) == "<td><x_1><y_2>tall<x_5><y_6></td><eos>"
    assert spelled(answer_ids(table, "find", "7", V, (1.0, 1.0))) == "1,1;2,2<eos>"
    assert spelled(answer_ids(table, "find", " 8", V, (1.0, 1.0))) == "<eos>"
    assert query_ids("row", "007", V) == query_ids("row", "7", V)


def test_the_end_of_a_question_is_not_a_character():
    """A text with ``>`` in it must not end the question early."""
    ids = query_ids("find", "x > y", V)
    assert ids.count(V.close_bracket) == 1 and ids[-1] == V.close_bracket and V.ids[">"] in ids


@pytest.mark.parametrize(
    "kind, asked, why",
    [
        ("word", "1", "one of row, column, cell, find"),
        ("row", "-1", "a number"),
        ("row", "1,2", "a number"),
        ("cell", "1", "row,column such as 3,0"),
        ("cell", "\u0661,1", "row,column"),
    ],
)
def test_wrong_questions(kind, asked, why):
    with pytest.raises(TableStreamError, match=why):
        query_ids(kind, asked, V)


@pytest.mark.parametrize("kind, asked", [("row", "3"), ("column", "3"), ("cell", "0,3"), ("cell", "3,0")])
def test_places_outside_the_table(table, kind, asked):
    with pytest.raises(TableStreamError, match="3 rows and 3 columns"):
        answer_ids(table, kind, asked, V, (1.0, 1.0))


def test_pairs_answer_themselves():
    """Every pair's answer is what the table says; all kinds come, absent texts among them; same seed, same pairs."""
    kinds, absent = [], 0
    for index, table in enumerate(tables(80, seed=9)):
        formed = stream_form(table)
        pairs = query_pairs(table, np.random.default_rng(index), V, SCALE)
        assert pairs == query_pairs(table, np.random.default_rng(index), V, SCALE)
        for pair in pairs:
            kinds.append(pair.kind)
            assert pair.prompt == query_ids(pair.kind, pair.asked, V) and pair.answer[-1] == V.eos
            if pair.kind == "find":
                places = answer_places(pair.answer, V)
                absent += not places
                assert places == [(c.row, c.column) for c in formed.cells if c.text == pair.asked]
                continue
            true = covering(formed, pair.kind, pair.asked)
            found, notes = answer_cells(pair.answer, V, SCALE)
            assert notes == [] and [c.text for c in found.cells] == [c.text for c in true]
            for cell, other in zip(found.cells, true, strict=True):
                if other.text_box is not None:
                    gaps = [abs(a - b) * SCALE[0] for a, b in zip(cell.text_box, other.text_box, strict=True)]
                    assert max(gaps) <= COORDINATE_PIXELS / 2 + 1e-6
    assert set(kinds) == set(KINDS) and 5 <= absent <= 35
    assert query_pairs(Table(0, 0), np.random.default_rng(0), V, SCALE) == []


def test_cut_answers_hold_only_what_is_whole(table):
    ids = answer_ids(table, "row", "2", V, (1.0, 1.0))
    for end in range(len(ids)):
        found = answer_cells(ids[:end], V, (1.0, 1.0)).table
        assert [cell.text for cell in found.cells] == ["tall", "", "7"][: len(found.cells)]
        closed = ids[:end].count(V.ids["</td>"])
        assert closed <= len(found.cells) <= closed + 1
    places = answer_ids(table, "find", "7", V, (1.0, 1.0))
    assert [answer_places(places[:end], V) for end in (0, 3, 4, 7, 8)] == [[], [], [(1, 1)], [(1, 1)], [(1, 1), (2, 2)]]
    assert answer_places([*V.encode("1,1;x;3;,;12,0"), V.eos], V) == [(1, 1), (12, 0)]


def test_scores_become_confidence(table):
    ids = answer_ids(table, "cell", "1,1", V, (1.0, 1.0))
    found = answer_cells(ids, V, (1.0, 1.0), scores=[-0.5] * len(ids)).table
    assert found.cells[0].confidence == pytest.approx(np.exp(-0.5))
