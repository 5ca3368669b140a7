"""Evaluation of a whole set: figures with 95 % bootstrap intervals, for training's validation and for benchmarks.

    report = evaluate_tables((parser_table, true_table) for ...)
    print(report.to_markdown())

Means are over samples unless said otherwise; the samples are what the bootstrap draws again.  An interval says how
far the figure moves with another sample of the same documents, not with another training run.

Tables
    ``teds``, ``s_teds``  the published TEDS with and without contents; ``_tableseq`` and ``_trm`` the other two in use
    (see teds.py).  ``grits_top``, ``grits_con``, ``grits_loc``  (see table_metrics.py).  ``adj_precision``,
    ``adj_recall``  neighbouring cells; ``adj_f1`` of these two means, as SciTSR reports.  ``exact``  share of tables
    right in every cell and span.  ``box_f1_50``, ``box_f1_75``, ``box_iou``  text boxes matched one to one;
    ``box_ap_50``, ``box_ap_75`` over all boxes of the set.  Box figures are over tables whose truth has boxes.
Lines
    ``cer``, ``wer``  edits over the length of all truths; ``exact``  share of lines without an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from docvision.box_metrics import Detections, Pool, detections, matched_f1, mean_iou, overlaps
from docvision.metrics import edit_distance
from docvision.page import Table
from docvision.table_html import html_to_table, pubtabnet_html
from docvision.table_metrics import grits, neighbour_score, text_boxes
from docvision.teds import VARIANTS, teds

RESAMPLES = 1000
THRESHOLDS = {"50": 0.5, "75": 0.75}
Sample = dict[str, float]
Estimate = Callable[[np.ndarray], np.ndarray]
"""Counts of the samples, (resamples, samples) -> the figure of each resample."""


@dataclass(frozen=True)
class Figure:
    """A figure of a set with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float
    samples: int
    """How many samples it is over."""

    def __str__(self) -> str:
        return f"{self.value:.4f}"


@dataclass(frozen=True)
class Report:
    """The figures of one predictor on one set."""

    figures: dict[str, Figure]
    samples: list[Sample] = field(default_factory=list)
    """Figures of each sample, in the order given; one that does not apply is left out."""

    def __getitem__(self, name: str) -> float:
        return self.figures[name].value

    def to_json(self, indent: int | None = 1) -> str:
        return json.dumps({"figures": {k: asdict(v) for k, v in self.figures.items()}, "samples": self.samples},
                          indent=indent)  # fmt: skip

    def to_markdown(self) -> str:
        """A pipe table: figure, value, interval, number of samples."""
        rows = [
            f"| {name} | {figure.value:.4f} | {figure.low:.4f} - {figure.high:.4f} | {figure.samples} |"
            for name, figure in self.figures.items()
        ]
        return "\n".join(["| figure | value | 95 % interval | samples |", "| --- | --- | --- | --- |", *rows]) + "\n"


def comparison(reports: Mapping[str, Report]) -> str:
    """A pipe table of several predictors on the same set: a row each, figures as value and half interval."""
    names = list(dict.fromkeys(name for report in reports.values() for name in report.figures))
    rows = []
    for predictor, report in reports.items():
        cells = []
        for name in names:
            figure = report.figures.get(name)
            cells.append(f"{figure.value:.3f} +- {(figure.high - figure.low) / 2:.3f}" if figure else "-")
        rows.append(f"| {predictor} | {' | '.join(cells)} |")
    head = f"| predictor | {' | '.join(names)} |"
    return "\n".join([head, "|" + " --- |" * (len(names) + 1), *rows]) + "\n"


def evaluate_tables(
    pairs: Iterable[tuple[Table | str | None, Table | str]],
    *,
    full: bool = True,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Report:
    """Score predicted tables.

    Args:
        pairs: (predicted, true); None for a prediction that is missing.  A table given as HTML enters TEDS to the
            letter, inline tags included; one given as a Table is written as PubTabNet does, with td throughout.
        full: False leaves out the figures that compare texts by edit distance (TEDS but not S-TEDS, GriTS), which
            take most of the time.
        resamples: bootstrap samples.
        seed: of the bootstrap.
    """
    samples: list[Sample] = []
    found: dict[str, list[Detections | None]] = {name: [] for name in THRESHOLDS}
    for predicted, true in pairs:
        sample = _score_text(predicted, true, full)
        mine, theirs = _as_table(predicted), _as_table(true)
        sample |= _score_grid(mine, theirs, full)
        boxes, truth = text_boxes(mine), [box for box, _ in text_boxes(theirs)]
        ious = overlaps([box for box, _ in boxes], truth)
        for name, threshold in THRESHOLDS.items():
            hits = detections(ious, [confidence for _, confidence in boxes], threshold) if truth else None
            found[name].append(hits)
            if truth:
                sample[f"box_f1_{name}"] = matched_f1(ious, threshold).f1
        if truth:
            sample["box_iou"] = mean_iou(ious)
        samples.append(sample)
    counts = _draw(len(samples), resamples, seed)
    figures = _means(samples, counts)
    if samples:
        precision, recall = (_column(samples, f"adj_{half}") for half in ("precision", "recall"))
        figures["adj_f1"] = _figure(lambda c: _harmonic(c @ precision, c @ recall, len(samples)), counts, len(samples))
    for name, images in found.items():
        _add_average_precision(figures, f"box_ap_{name}", images, counts)
    return Report(figures, samples)


def evaluate_lines(pairs: Iterable[tuple[str, str]], *, resamples: int = RESAMPLES, seed: int = 0) -> Report:
    """Score predicted lines of text; ``pairs`` are (predicted, true), the rest as in :func:`evaluate_tables`."""
    samples: list[Sample] = []
    edits: list[tuple[int, int]] = []
    lengths: list[tuple[int, int]] = []
    for predicted, true in pairs:
        words = predicted.split(), true.split()
        edits.append((edit_distance(predicted, true), edit_distance(*words)))
        lengths.append((len(true), len(words[1])))
        samples.append({
            "cer": edits[-1][0] / max(1, len(true)), "wer": edits[-1][1] / max(1, len(words[1])),
            "exact": float(predicted == true),
        })  # fmt: skip
    counts = _draw(len(samples), resamples, seed)
    figures = _means(samples, counts)
    for index, name in enumerate(("cer", "wer") if samples else ()):
        above, below = (np.array([pair[index] for pair in side], dtype=np.float64) for side in (edits, lengths))
        figures[name] = _figure(_ratio(above, below, least=1.0), counts, len(samples))
    return Report(figures, samples)


def sample_means(samples: Sequence[Sample], *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Figure]:
    """Means of some of a report's samples, those of a kind for instance, as the report of these alone has them."""
    return _means(samples, _draw(len(samples), resamples, seed))


def _as_table(table: Table | str | None) -> Table:
    found = html_to_table(table) if isinstance(table, str) else table
    return found if found is not None else Table(0, 0)


def _score_text(predicted: Table | str | None, true: Table | str, full: bool) -> Sample:
    mine, theirs = (
        table if isinstance(table, str) else pubtabnet_html(_as_table(table)) for table in (predicted, true)
    )
    sample: Sample = {}
    for variant in VARIANTS:
        ending = "" if variant == "pubtabnet" else f"_{variant}"
        if full:
            sample["teds" + ending] = teds(mine, theirs, variant=variant)
        if full or not ending:
            sample["s_teds" + ending] = teds(mine, theirs, variant=variant, structure_only=True)
    return sample


def _score_grid(predicted: Table, true: Table, full: bool) -> Sample:
    sample: Sample = {}
    if full:
        score = grits(predicted, true)
        sample |= {"grits_top": score.top.f1, "grits_con": score.con.f1}
        if score.loc is not None:
            sample["grits_loc"] = score.loc.f1
    relations = neighbour_score(predicted, true)
    sample |= {"adj_precision": relations.precision, "adj_recall": relations.recall}
    sample["exact"] = float(_content(predicted) == _content(true))
    return sample


def _content(table: Table) -> tuple[int, int, list[tuple[int, int, int, int, str]]]:
    cells = [(c.row, c.column, c.row_span, c.column_span, " ".join(c.text.split())) for c in table.cells]
    plain = (cell for cell in cells if cell[4] or cell[2] > 1 or cell[3] > 1)  # an empty place may be a cell or none
    return table.rows, table.columns, sorted(plain)


def _draw(samples: int, resamples: int, seed: int) -> np.ndarray:
    """How often each sample is in each bootstrap sample, after a first row that has every sample once."""
    once = np.ones((1, samples), dtype=np.int64)
    if not samples:
        return once
    drawn = np.random.default_rng(seed).multinomial(samples, np.full(samples, 1 / samples), size=resamples)
    return np.concatenate([once, drawn])


def _figure(estimate: Estimate, counts: np.ndarray, samples: int) -> Figure:
    values = estimate(counts)
    drawn = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) else (values[0], values[0])
    return Figure(float(values[0]), float(low), float(high), samples)


def _column(samples: Sequence[Sample], name: str) -> np.ndarray:
    return np.array([sample.get(name, np.nan) for sample in samples])


def _means(samples: Sequence[Sample], counts: np.ndarray) -> dict[str, Figure]:
    figures = {}
    for name in dict.fromkeys(name for sample in samples for name in sample):
        values = _column(samples, name)
        there = np.isfinite(values)
        chosen, picked = values[there], counts[:, there]
        with np.errstate(invalid="ignore", divide="ignore"):  # a resample may hold none of them
            figures[name] = _figure(_ratio(chosen, np.ones(len(chosen))), picked, len(chosen))
    return figures


def _ratio(above: np.ndarray, below: np.ndarray, least: float = 0.0) -> Estimate:
    """Sum of one thing over the sum of another, which counts as ``least`` at least."""
    return lambda counts: np.divide(counts @ above, np.maximum(counts @ below, least))


def _harmonic(precision: np.ndarray, recall: np.ndarray, samples: int) -> np.ndarray:
    return 2 * precision * recall / np.maximum(precision + recall, 1e-12) / samples


def _add_average_precision(
    figures: dict[str, Figure], name: str, images: Sequence[Detections | None], counts: np.ndarray
) -> None:
    there = [index for index, image in enumerate(images) if image is not None]
    if there:
        pool = Pool([image for image in images if image is not None])
        drawn = counts[:, there]
        figures[name] = _figure(lambda c: np.array([pool.average_precision(row) for row in c]), drawn, len(there))
