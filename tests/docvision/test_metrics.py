"""Figures of quality: against published values, other packages' values, brute force, and garbage."""

import itertools
import random
from functools import cache

import numpy as np
import pytest

from docvision.box_metrics import Pool, detections, matched_f1, mean_iou, overlaps
from docvision.metrics import common_lengths, edit_distance, edit_distances, error_rate
from docvision.page import Box, Cell, Table
from docvision.table_html import first_table, html_to_table, pubtabnet_html
from docvision.table_metrics import grits, neighbour_score, neighbours, text_boxes
from docvision.teds import VARIANTS, Tree, Variant, teds, tree_distance

ALGORITHMS = (
    "<tr><td>MACS [23]</td><td>Uses both a control library and local statistics to minimize bias</td></tr>"
    "<tr><td>SICER [{0}]</td><td>Designed for detecting diffusely enriched regions; for example, histone modification"
    "</td></tr><tr><td>Peak{1} [24]</td><td>Corrects for reference genome mappability and local statistics</td></tr>"
    "<tr><td>SISSRs [25]</td><td>High resolution, precise identification of binding-site location</td></tr>"
    "<tr><td>F-seq [26]</td><td>Uses kernel density estimation</td></tr></tbody></table></body></html>"
)
HEAD = "<html><body><table><thead><tr><td><b>{0}</b></td><td><b>{1}</b></td></tr></thead><tbody>"
PREDICTED = HEAD.format("Name of algori", "Notablefeatures") + ALGORITHMS.format(15, "SEQ")
TRUE = HEAD.format("Name of algorithm", "Notable features") + ALGORITHMS.format(14, "Seq")
ROUNDING = 1e-12
"""Sums of a few hundred costs in double precision, in another order."""


def table(rows: list[list[str | None]], spans: dict[tuple[int, int], tuple[int, int]] | None = None) -> Table:
    """Rows of texts, None under a span; cells are 10 x 5 points."""
    cells = []
    for row, texts in enumerate(rows):
        for column, text in enumerate(texts):
            if text is not None:
                tall, wide = (spans or {}).get((row, column), (1, 1))
                box = Box(column * 10.0, row * 5.0, (column + wide) * 10.0, (row + tall) * 5.0)
                cells.append(Cell(row, column, text, tall, wide, box=box))
    return Table(len(rows), len(rows[0]) if rows else 0, cells)


SPANNING = table(
    [["Year", "Sales", None], [None, "north", "south"], ["2001", "10", "20"], ["2002", "30", ""]],
    {(0, 0): (2, 1), (0, 1): (1, 2)},
)
FLAT = table([["Year", "Sales", ""], ["", "north", "south"], ["2001 10", "", "20"]])
WIDER = table(
    [["Year", "Sales", None, ""], [None, "north", "south", "x"], ["2002", "30", "", "y"]],
    {(0, 0): (2, 1), (0, 1): (1, 2)},
)


def random_html(random_: random.Random, rows: int, columns: int) -> str:
    def cell() -> str:
        text = "".join(random_.choice("abc 12.") for _ in range(random_.randint(0, 8)))
        text = f"<b>{text[:3]}</b>{text[3:]}" if random_.random() < 0.2 else text
        return f"<td{' colspan=2' if random_.random() < 0.1 else ''}>{text}</td>"

    lines = ["<tr>" + "".join(cell() for _ in range(random_.randint(1, columns))) + "</tr>" for _ in range(rows)]
    head = random_.randint(0, 1)
    return f"<table><thead>{''.join(lines[:head])}</thead><tbody>{''.join(lines[head:])}</tbody></table>"


# Sequences


def test_distances_of_many_equal_distances_of_each():
    random_ = random.Random(1)
    texts = ["", "a", *("".join(random_.choice("abcd") for _ in range(random_.randint(0, 40))) for _ in range(40))]
    assert edit_distances(texts, texts[::2]).tolist() == [[edit_distance(a, b) for b in texts[::2]] for a in texts]
    assert edit_distances([], texts).shape == (0, len(texts)) and edit_distances(texts, []).shape == (len(texts), 0)


def test_common_subsequences_are_the_longest():
    texts = ["", "abcbdab", "bdcaba", "xyz", "95", "90"]
    for i, j in itertools.product(range(len(texts)), repeat=2):
        parts = {part for n in range(len(texts[i]) + 1) for part in itertools.combinations(texts[i], n)}
        longest = max(
            len(p) for n in range(len(texts[j]) + 1) for p in itertools.combinations(texts[j], n) if p in parts
        )
        assert common_lengths(texts, texts)[i, j] == longest


def test_error_rate_sums_over_all_pairs_before_it_divides():
    assert error_rate(["abc", ""], ["abd", "x"]) == 2 / 4
    assert error_rate([["a", "b"]], [["a"]]) == 1.0
    with pytest.raises(ValueError, match="1 predictions for 2 truths"):
        error_rate(["a"], ["a", "b"])


# TEDS


def test_teds_of_the_published_pair_is_the_published_value():
    """The one pair whose HTML and score both stand in PubTabNet's demo notebook."""
    assert teds(PREDICTED, TRUE) == pytest.approx(0.9781765018607124, abs=ROUNDING)
    assert teds(PREDICTED, TRUE, structure_only=True) == 1.0


def test_trm_variant_equals_the_package_of_that_name():
    """0.9771372876636034 is what table-recognition-metric 0.0.6 prints for the published pair."""
    assert teds(PREDICTED, TRUE, variant="trm") == pytest.approx(0.9771372876636034, abs=ROUNDING)


def one_row(*cells: str) -> str:
    return f"<table><tbody><tr>{''.join(cells)}</tr></tbody></table>"


@pytest.mark.parametrize(
    ("predicted", "true", "variant", "expected"),
    [
        # Nodes below the table: tbody, tr, td, td, b; one cell differs in 2 of 4 tokens (<b>, </b>, a, b).
        (one_row("<td>ab</td>", "<td>c</td>"), one_row("<td><b>ab</b></td>", "<td>c</td>"), "pubtabnet", 1 - 0.5 / 5),
        (one_row("<td>ab</td>", "<td>c</td>"), one_row("<td><b>ab</b></td>", "<td>c</td>"), "trm", 1 - 0.5 / 5),
        (one_row("<td>ab</td>", "<td>c</td>"), one_row("<td><b>ab</b></td>", "<td>c</td>"), "tableseq", 1.0),
        # What stands in a th is nodes, not content: its text is never looked at.
        (one_row("<th>ab</th>"), one_row("<th>xy</th>"), "pubtabnet", 1.0),
        (one_row("<th>ab</th>"), one_row("<th>xy</th>"), "trm", 1.0),
        (one_row("<th>ab</th>"), one_row("<th>xy</th>"), "tableseq", 1 - 1 / 4),
        (one_row("<th>ab</th>"), one_row("<th><b>ab</b></th>"), "pubtabnet", 1 - 1 / 4),
        # Spaces between digits and before punctuation.
        (one_row("<td>11 6 %</td>"), one_row("<td>116%</td>"), "tableseq", 1.0),
        (one_row("<td>11 6 %</td>"), one_row("<td>116%</td>"), "pubtabnet", 1 - (2 / 6) / 3),
        # A span is a rename of cost 1 whatever the contents; a missing cell one deletion.
        (one_row('<td colspan="2">a</td>'), one_row("<td>a</td>"), "pubtabnet", 1 - 1 / 3),
        (one_row("<td>a</td>"), one_row("<td>a</td>", "<td>b</td>"), "pubtabnet", 1 - 1 / 4),
        (one_row("<td>a</td>"), one_row("<td>a</td>", "<td>b</td>"), "trm", 1 - 1 / 5),
    ],
)
def test_teds_by_hand(predicted: str, true: str, variant: Variant, expected: float):
    assert teds(predicted, true, variant=variant) == pytest.approx(expected, abs=ROUNDING)


def brute_force(left: Tree, right: Tree, contents: bool) -> float:
    """The textbook recursion over forests, without any of the shortcuts; forests are ranges of post-order."""

    def rename(i: int, j: int) -> float:
        if left.labels[i] != right.labels[j]:
            return 1.0
        mine, theirs = left.contents[i] or (), right.contents[j] or ()
        return edit_distance(mine, theirs) / max(len(mine), len(theirs), 1) if contents else 0.0

    @cache
    def distance(a: int, b: int, c: int, d: int) -> float:
        """Forest of the nodes a..b-1 against c..d-1."""
        if a == b or c == d:
            return b - a + d - c
        i, j = b - 1, d - 1
        mine, theirs = max(left.leftmost[i], a), max(right.leftmost[j], c)
        return min(
            distance(a, i, c, d) + 1,
            distance(a, b, c, j) + 1,
            distance(a, mine, c, theirs) + distance(mine, i, theirs, j) + rename(i, j),
        )

    return distance(0, len(left.labels), 0, len(right.labels))


@pytest.mark.parametrize("variant", VARIANTS)
def test_tree_distance_equals_brute_force_on_random_tables(variant: Variant):
    random_ = random.Random(7)
    for _ in range(25):
        trees = []
        for _ in range(2):
            node = first_table(random_html(random_, random_.randint(1, 4), 4))
            assert node is not None
            trees.append(Tree(node, variant))
        for structure_only in (False, True):
            expected = brute_force(*trees, contents=not structure_only)
            assert tree_distance(*trees, structure_only) == pytest.approx(expected, abs=ROUNDING)


def test_teds_without_tables():
    full, empty = one_row("<td>a</td>"), "<table></table>"
    assert teds("", "") == teds(empty, empty) == 1.0
    assert teds("", full) == teds(full, "no table") == teds(empty, full) == teds(full, empty) == 0.0


def test_tables_are_written_alike_on_both_sides():
    """Header cells of ours against td of the truth must not count as an error of structure."""
    heads = table([["a", "b"], ["1", "2"]])
    for cell in heads.cells[:2]:
        cell.header = True
    html = pubtabnet_html(heads)
    assert "<th>" not in html
    assert html.index("<thead><tr><td>a</td><td>b</td></tr></thead><tbody>") > 0
    assert teds(html, html) == 1.0


# Reading HTML


def test_html_is_read_as_browsers_do():
    html = (
        "<p>x<table><tr><td rowspan=2>a<td>b<br>c &amp; d<tr><td><b>e</b> f<tr><td>g<table><tr><td>in</table></table>y"
    )
    found = html_to_table(html)
    assert found is not None and (found.rows, found.columns) == (3, 2)
    texts = [(cell.row, cell.column, cell.row_span, cell.text) for cell in found.cells]
    assert texts == [(0, 0, 2, "a"), (0, 1, 1, "b\nc & d"), (1, 1, 1, "e f"), (2, 0, 1, "gin")]


@pytest.mark.parametrize("span", ["0", "-3", "two", "", "99999999999", "1e3", "\u0663"])
def test_senseless_spans_count_as_one(span: str):
    found = html_to_table(f'<table><tr><td colspan="{span}">a</td><td>b</td></tr></table>')
    assert found is not None and [cell.column for cell in found.cells] == [0, 1]


# GriTS, neighbours, boxes


@pytest.mark.parametrize(
    ("predicted", "top", "con", "loc"),
    [
        (FLAT, 0.8095238095238096, 0.5454545454545454, 0.6666666666666666),
        (WIDER, 0.6666666666666666, 0.75, 0.75),
        (SPANNING, 1.0, 1.0, 1.0),
    ],
)
def test_grits_equals_the_package_of_its_author(predicted: Table, top: float, con: float, loc: float):
    """Values printed by grits-metric 0.7.0, which uses true unions and true common subsequences."""
    found = grits(predicted, SPANNING)
    assert found.loc is not None
    assert [found.top.f1, found.con.f1, found.loc.f1] == pytest.approx([top, con, loc], abs=ROUNDING)


def test_grits_anchor_and_halves():
    found = grits(table([["a", "90"], ["b", "c"]]), table([["a", "95"], ["b", "c"]]))
    assert found.top.f1 == 1.0 and found.con.f1 == 0.875
    half = grits(table([["a", "b"]]), table([["a", "b"], ["c", "d"]])).con
    assert (half.precision, half.recall) == (1.0, 0.5)


def test_grits_loc_is_left_out_without_boxes_in_the_truth_and_zero_without_them_in_the_prediction():
    plain = Table(1, 1, [Cell(0, 0, "a")])
    boxed = table([["a"]])
    assert grits(boxed, plain).loc is None
    missing = grits(plain, boxed).loc
    assert missing is not None and missing.f1 == 0.0


def test_neighbours_skip_blanks_and_count_them():
    grid = table([["a", "", "b"], ["c", "d", ""]])
    assert neighbours(grid) == [
        ("A", "B", "right", 1), ("C", "D", "right", 0), ("A", "C", "below", 0)
    ]  # fmt: skip
    closed = table([["a", "b"], ["c", "d"]])
    score = neighbour_score(closed, table([["a", "", "b"], ["c", "d", ""]]))
    assert (score.precision, score.recall) == (2 / 4, 2 / 3)
    assert neighbour_score(closed, grid, blanks=False).recall == 1.0


def test_a_span_is_related_once_to_each_neighbour():
    spanning = neighbours(SPANNING)
    assert spanning.count(("YEAR", "2001", "below", 0)) == 1
    assert {("YEAR", "SALES", "right", 0), ("YEAR", "NORTH", "right", 0), ("SALES", "SOUTH", "below", 0)} <= set(
        spanning
    )
    assert ("SALES", "SALES", "right", 0) not in spanning


def test_boxes_are_matched_one_to_one():
    """A greedy match would take the shared box first and leave its neighbour without a partner."""
    ious = np.array([[0.9, 0.6], [0.8, 0.0]])
    assert matched_f1(ious, 0.5).f1 == 1.0
    assert matched_f1(ious, 0.85).f1 == 0.5
    assert mean_iou(ious) == pytest.approx(0.9 / 2)
    doubled = overlaps([Box(0, 0, 1, 1)] * 3, [Box(0, 0, 1, 1)])
    assert matched_f1(doubled, 0.5).precision == 1 / 3 and mean_iou(doubled) == 1 / 3


def test_matching_is_the_largest_there_is():
    random_ = np.random.default_rng(3)
    for _ in range(60):
        ious = (random_.random((4, 5)) < 0.35).astype(float)
        largest = max(sum(ious[i, j] for i, j in enumerate(order)) for order in itertools.permutations(range(5), 4))
        assert matched_f1(ious, 0.5).recall == pytest.approx(largest / 5)


def test_average_precision_by_hand():
    """Three true boxes; hit, miss, hit in order of confidence: precision 1 up to recall 1/3, then 2/3 up to 2/3."""
    ious = np.array([[0.9, 0, 0], [0.1, 0, 0], [0, 0.7, 0]])
    assert Pool([detections(ious, [0.9, 0.8, 0.7], 0.5)]).average_precision() == pytest.approx(1 / 3 + 2 / 3 / 3)
    assert Pool([detections(ious, [0.9, 0.6, 0.7], 0.5)]).average_precision() == pytest.approx(2 / 3)
    assert Pool([detections(ious, [1, 1, 1], 0.5)]).average_precision() == pytest.approx(2 / 3 * 2 / 3)


def test_average_precision_over_images_counts_each_as_often_as_told():
    hit = detections(np.array([[0.9]]), [0.5], 0.5)
    miss = detections(np.array([[0.2]]), [0.9], 0.5)
    pool = Pool([hit, miss])
    assert pool.average_precision() == pytest.approx(0.5 * 0.5)
    assert pool.average_precision(np.array([2, 0])) == 1.0
    assert pool.average_precision(np.array([0, 2])) == 0.0
    assert Pool([detections(np.zeros((0, 0)), [], 0.5)]).average_precision() == 1.0


def test_an_empty_cell_has_no_text_box():
    cells = [Cell(0, 0, "a", box=Box(0, 0, 4, 4)), Cell(0, 1, "", box=Box(4, 0, 8, 4)), Cell(0, 2, "b")]
    assert text_boxes(Table(1, 3, cells)) == [(Box(0, 0, 4, 4), 1.0)]


# Garbage


def test_nothing_raises_and_all_figures_stay_in_range():
    """Streams cut anywhere, tags out of place, cells outside the grid: they score low, they never raise."""
    random_ = random.Random(11)
    pieces = "<table> </table> <tr> </tr> <td> </td> <th\tcolspan=3> <td\trowspan=7\tcolspan=x> <thead> </thead>"
    pieces = (pieces + " <tbody> <b> </b> <unk> <br> a 12 &lt; < &#0; <!--").split(" ")
    for _ in range(150):
        html = "".join(random_.choice(pieces) for _ in range(random_.randint(0, 30)))
        for variant in VARIANTS:
            assert 0.0 <= teds(html, TRUE, variant=variant) <= 1.0
            assert 0.0 <= teds(TRUE, html, variant=variant, structure_only=True) <= 1.0
        wild = [
            Cell(*(random_.randint(-2, 5) for _ in range(2)), "x", *(random_.randint(-1, 9) for _ in range(2)))
            for _ in range(random_.randint(0, 6))
        ]
        for found in (html_to_table(html) or Table(0, 0), Table(random_.randint(0, 3), random_.randint(0, 3), wild)):
            for score in (grits(found, SPANNING).con, neighbour_score(found, SPANNING), grits(SPANNING, found).top):
                assert 0.0 <= score.precision <= 1.0 and 0.0 <= score.recall <= 1.0
            assert 0.0 <= teds(pubtabnet_html(found), TRUE) <= 1.0


def test_deep_nesting_is_no_way_to_break_it():
    deep = "<table><tr><td>" + "<b>" * 5000 + "x"
    assert 0.0 < teds(deep, one_row("<td>x</td>")) < 1.0
