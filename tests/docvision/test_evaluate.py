"""Evaluation of sets: means, intervals and what is printed."""

import json

import pytest

from docvision.evaluate import comparison, evaluate_lines, evaluate_tables
from docvision.page import Box, Cell, Table
from docvision.teds import teds

TEXTS = [["Year", "Sales"], ["2001", "10"], ["2002", "30"]]


def table(texts: list[list[str]], boxes: bool = True, shift: float = 0.0) -> Table:
    cells = [
        Cell(r, c, text, text_box=Box(c * 10 + shift, r * 5, c * 10 + 8 + shift, r * 5 + 4) if boxes else None)
        for r, row in enumerate(texts)
        for c, text in enumerate(row)
    ]
    return Table(len(texts), len(texts[0]), cells)


def test_a_perfect_set_has_ones_everywhere_and_no_width():
    report = evaluate_tables([(table(TEXTS), table(TEXTS))] * 3, resamples=50)
    names = {"teds", "s_teds", "teds_tableseq", "s_teds_trm", "grits_top", "grits_con", "adj_f1", "exact",
             "box_f1_50", "box_ap_75", "box_iou"}  # fmt: skip
    assert names <= set(report.figures)
    for name, figure in report.figures.items():
        assert (figure.value, figure.low, figure.high, figure.samples) == pytest.approx((1.0, 1.0, 1.0, 3)), name


def test_a_missing_prediction_scores_nothing_and_stays_in_the_mean():
    report = evaluate_tables([(table(TEXTS), table(TEXTS)), (None, table(TEXTS))], resamples=200)
    for name in ("teds", "s_teds", "grits_con", "exact", "box_f1_75", "box_iou"):
        assert report[name] == pytest.approx(0.5), name
        figure = report.figures[name]
        assert (figure.low, figure.high, figure.samples) == pytest.approx((0.0, 1.0, 2))
    # Recall 1/2 at precision 1: every box that was predicted is right.
    assert report["box_ap_50"] == pytest.approx(0.5)


def test_adjacency_f1_is_that_of_the_mean_precision_and_recall():
    """SciTSR's way; the mean of the tables' own F1 is 0.5 * (1 + 4/5) and another number."""
    half = table(TEXTS[:2])  # 4 of 7 relations, all right
    report = evaluate_tables([(table(TEXTS), table(TEXTS)), (half, table(TEXTS))], resamples=10)
    precision, recall = 1.0, (1 + 4 / 7) / 2
    assert report["adj_precision"] == precision and report["adj_recall"] == pytest.approx(recall)
    assert report["adj_f1"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_box_figures_are_over_tables_with_boxes_only():
    """Boxes 8 wide that lie 4 off overlap by 4 / 12: under both thresholds."""
    pairs = [(table(TEXTS, shift=4), table(TEXTS)), (table(TEXTS), table(TEXTS, boxes=False))]
    report = evaluate_tables(pairs, resamples=10)
    assert report.figures["box_iou"].samples == 1 and report["box_iou"] == pytest.approx(1 / 3)
    assert report["box_f1_50"] == 0.0 and report["box_ap_50"] == 0.0
    assert "box_iou" not in report.samples[1]


def test_html_enters_teds_to_the_letter():
    bold, plain = ("<table><tr><td>" + text + "</td></tr></table>" for text in ("<b>a</b>", "a"))
    report = evaluate_tables([(bold, plain)], resamples=5)
    assert report["teds"] == pytest.approx(teds(bold, plain)) and report["teds"] < 1.0
    assert report["grits_con"] == 1.0 and report["exact"] == 1.0


def test_short_evaluation_leaves_out_what_is_slow_and_changes_nothing_else():
    pairs = [(table(TEXTS[:2]), table(TEXTS))]
    full, short = evaluate_tables(pairs, resamples=5), evaluate_tables(pairs, full=False, resamples=5)
    assert set(full.figures) - set(short.figures) >= {"teds", "grits_con", "s_teds_trm"}
    assert short.figures.items() <= full.figures.items()


def test_intervals_hold_the_value_and_repeat_with_the_seed():
    pairs = [("abcd"[: i % 5] + "x" * (i % 3), "abcd") for i in range(40)]
    report = evaluate_lines(pairs, seed=4)
    for figure in report.figures.values():
        assert figure.low < figure.value < figure.high
    assert report == evaluate_lines(pairs, seed=4)
    assert report.figures != evaluate_lines(pairs, seed=5).figures
    # The standard error of a mean over 40 samples shrinks by 2 with four times as many.
    wide = report.figures["exact"]
    narrow = evaluate_lines(pairs * 4, seed=4).figures["exact"]
    assert 0.35 < (narrow.high - narrow.low) / (wide.high - wide.low) < 0.65


def test_line_figures():
    report = evaluate_lines([("hello word", "hello world"), ("a", "a")], resamples=20)
    assert report["cer"] == pytest.approx(1 / 12)
    assert report["wer"] == pytest.approx(1 / 3)
    assert report["exact"] == 0.5
    assert report.samples[0]["cer"] == pytest.approx(1 / 11)


def test_nothing_to_score_gives_an_empty_report():
    for report in (evaluate_tables([]), evaluate_lines([])):
        assert report.figures == {} and report.samples == []
        assert report.to_markdown().count("\n") == 2


def test_reports_are_written_as_json_and_as_tables():
    report = evaluate_lines([("a", "a"), ("b", "c")], resamples=20)
    read = json.loads(report.to_json())
    assert read["figures"]["exact"]["value"] == 0.5 and len(read["samples"]) == 2
    assert "| exact | 0.5000 | " in report.to_markdown()
    side = comparison({"ours": report, "none": evaluate_lines([])}).splitlines()
    assert side[0] == "| predictor | cer | wer | exact |" and side[2].startswith("| ours | 0.500 +- ")
    assert side[3] == "| none | - | - | - |"
