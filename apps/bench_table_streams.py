"""How well the tables of a made data set are read, by size: what the decoder writes alone, and what ``parse`` gives.

``decoder`` is its stream for the whole picture, believed as it is: grid and boxes, no text.  The table readers do what
``parse`` does with a table that it has found: believe a stream only where it passes the checks, fit the boxes to the
ink and read the lines in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from docvision.batches import DataError, Shards, _image
from docvision.chunks import ground_ink, text_height
from docvision.evaluate import Sample, evaluate_tables, sample_means
from docvision.map_tables import read_table
from docvision.page import Block, Box, Table, page_from_json
from docvision.reader import ModelReader
from docvision.scan import fill, map_boxes, read_lines
from docvision.table_readers import LINE_PIXELS, LONGEST, rewrite_from_ink

DECODER = "decoder"
CLASSES = (16, 40, 100)
"""Cells of the largest table of each class of sizes but the last."""
AT_ONCE = 32
"""Tables whose pictures lie in memory together."""
Say = Callable[[str], object]
FIGURES = ("s_teds", "teds", "box_iou", "box_f1_50")


@dataclass(frozen=True)
class DrawnSample:
    """A picture and the one table on it."""

    picture: Image.Image
    dpi: float
    truth: Table
    """Boxes in pixels of ``picture``."""


@dataclass(frozen=True)
class Answer:
    """What a reader made of a sample."""

    table: Table | None
    given_up: bool
    """The decoder's stream had to be ended, or a reader did without it."""
    seconds: float
    """Of processor time."""


def load(folder: Path, limit: int, largest: int = 0, seed: int = 0) -> list[tuple[int, int]]:
    """Shard and row of tables drawn at random, small ones first.

    Args:
        folder: of ``docvision make tables``.
        limit: how many at most.
        largest: cells of the largest table; 0 for any.
        seed: of the choice.

    Raises:
        DataError: no such tables there.
    """
    shards = Shards(folder)
    if not {"rows", "columns", "document"} <= set(shards.row(0, 0)):
        raise DataError(f"{folder}: no tables: make them with docvision make tables -o {folder}")
    sizes = [shards.column(shard, "rows") * shards.column(shard, "columns") for shard in range(len(shards.rows))]
    there = [
        (int(cells), shard, row)
        for shard, counts in enumerate(sizes)
        for row, cells in enumerate(counts)
        if not largest or cells <= largest
    ]
    if not there:
        raise DataError(f"{folder}: no table of at most {largest} cells")
    drawn = np.random.default_rng(seed).permutation(len(there))[:limit]
    return [(shard, row) for _, shard, row in sorted(there[index] for index in drawn)]


def measure(
    reader: ModelReader, folder: Path, places: Sequence[tuple[int, int]], readers: Sequence[str], say: Say
) -> dict[str, Any]:
    """Score readers on tables.

    Args:
        reader: of the model.
        folder: of the tables.
        places: from :func:`load`.
        readers: DECODER and table readers.
        say: is told of progress.

    Returns:
        ``rows``, one for each reader and class of sizes and one for all its tables: ``tables``, the FIGURES as values
        and ``NAME_interval``, ``given_up`` as a share, ``cpu_s`` a table.
    """
    truths: list[Table] = []
    answers: dict[str, list[Answer]] = {name: [] for name in readers}
    for number, samples in enumerate(_in_groups(folder, places)):
        truths += [sample.truth for sample in samples]
        for name in readers:
            answers[name] += _write(reader, samples) if name == DECODER else [_read(reader, s, name) for s in samples]
        if number % 4 == 3:
            say(f"{len(truths):,} of {len(places):,} tables")
    return {"rows": [row for name in readers for row in _rows(name, answers[name], truths)]}


def _in_groups(folder: Path, places: Sequence[tuple[int, int]]) -> Iterator[list[DrawnSample]]:
    shards = Shards(folder, held=64)
    for start in range(0, len(places), AT_ONCE):
        yield [_sample(shards.row(*place)) for place in places[start : start + AT_ONCE]]


def _sample(row: dict[str, Any]) -> DrawnSample:
    picture, page = _image(row), page_from_json(row["document"])
    picture.thumbnail((LONGEST, LONGEST))
    across, down = picture.width / page.width, picture.height / page.height
    table = next(block.table for block in page.blocks if block.table is not None)
    for cell in table.cells:
        cell.text_box = cell.text_box and cell.text_box.scale(across, down)
        cell.box = cell.box and cell.box.scale(across, down)
    return DrawnSample(picture, 72 * across, table)


def _write(reader: ModelReader, samples: Sequence[DrawnSample]) -> list[Answer]:
    began = time.process_time()
    written = reader.write_tables([sample.picture for sample in samples], text=False)
    each = (time.process_time() - began) / len(samples)
    return [Answer(answer.table, bool(answer.stopped), each) for answer in written]


def _read(reader: ModelReader, sample: DrawnSample, name: str) -> Answer:
    """What a table reader makes of a picture that it is told to be one table."""
    began = time.process_time()
    picture, scale = sample.picture, reader.page_dpi / sample.dpi
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    small = picture.resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0)
    ink = ground_ink(small)
    found = read_table(Box(0, 0, *size), ink, reader.model.structure(small), text_height(ink) or LINE_PIXELS)
    block = found or Block("table", Box(0, 0, *size), table=Table(0, 0))
    map_boxes(block, lambda box: box.scale(picture.width / size[0], picture.height / size[1]))
    notes = rewrite_from_ink(picture, [block], reader, text=name == "stream") if name != "maps" else []
    read_lines(picture, block.lines, reader)
    fill(block)
    return Answer(block.table, bool(notes), time.process_time() - began)


def _rows(name: str, answers: Sequence[Answer], truths: Sequence[Table]) -> Iterator[dict[str, Any]]:
    pairs = zip(answers, truths, strict=True)
    report = evaluate_tables([(answer.table, truth) for answer, truth in pairs], full=name != DECODER)
    scored = list(zip(answers, report.samples, strict=True))
    classes = [_size_class(truth.rows * truth.columns) for truth in truths]
    for label, group in groupby(zip(classes, scored, strict=True), key=itemgetter(0)):
        yield _row(name, label, [pair for _, pair in group])
    yield _row(name, "all", scored)


def _size_class(cells: int) -> str:
    least = 1
    for most in CLASSES:
        if cells <= most:
            return f"{least} to {most}"
        least = most + 1
    return f"{least} and more"


def _row(name: str, label: str, scored: Sequence[tuple[Answer, Sample]]) -> dict[str, Any]:
    figures = sample_means([sample for _, sample in scored])
    row: dict[str, Any] = {"reader": name, "cells": label, "tables": len(scored)}
    for figure in FIGURES:
        found = figures.get(figure)
        row[figure] = round(found.value, 3) if found else None
        row[f"{figure}_interval"] = [round(found.low, 3), round(found.high, 3)] if found else None
    row["given_up"] = round(sum(answer.given_up for answer, _ in scored) / len(scored), 3)
    row["cpu_s"] = round(sum(answer.seconds for answer, _ in scored) / len(scored), 3)
    return row
