"""How long a table takes, by its size: rendered tables of set sizes, each read by every table reader.

Two times are told apart.  That of a reader is its work on the picture with the model as it is, which may give up early
and fall back.  ``written_s`` is the decoder alone writing the true stream of the picture: encoder, grammar and one
forward for each token that the grammar leaves open, so it does not depend on how well the model is trained.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image

from data_pipeline.table_sets import DrawnTable, TableOptions, draw_table
from docvision.images import to_float
from docvision.model import DocVisionModel, pad_images
from docvision.reader import ModelReader
from docvision.scan import read_picture
from docvision.table_decode import decode_table
from docvision.table_grammar import TableGrammar, TableState
from docvision.table_readers import TABLE_READERS
from docvision.tableseq import table_to_ids
from docvision.tokens import Vocabulary

SIZES = ((5, 5), (10, 8), (30, 15))
"""Rows and columns."""
TRIES = 50
SHOWN = ("table", "tokens", "forwards", "written_s", *(f"{reader}_s" for reader in TABLE_READERS))


class Dictation(TableGrammar):
    """A grammar that leaves the model the choice and takes the true token whatever it chooses."""

    def __init__(self, rules: TableGrammar, ids: Sequence[int]) -> None:
        super().__init__(rules.vocabulary, rules.text, rules.boxes)
        self.ids = ids

    def start(self, size: tuple[float, float] | None = None) -> TableState:
        return _Dictated(self, size or (math.inf, math.inf))


class _Dictated(TableState):
    """One stream being dictated."""

    place = 0

    def legal(self) -> np.ndarray:
        mask = np.zeros(len(self.grammar.vocabulary), dtype=bool)
        assert isinstance(self.grammar, Dictation)
        mask[self.grammar.ids[self.place]] = True
        return mask

    def advance(self, token: int) -> None:
        super().advance(token)
        self.place += 1


def measure(
    model: DocVisionModel, sizes: Sequence[tuple[int, int]] = SIZES, rounds: int = 3, seed: int = 0
) -> dict[str, Any]:
    """Times of one table of each size.

    Returns:
        ``rows``, one a size: ``cells``; ``tokens`` and ``forwards`` of the true stream; ``written_s`` and for each
        table reader ``NAME_s``, medians over the rounds, processor time as ``..._cpu_s``; ``NAME_fell_back``.
        ``growth``: the exponent of each time over the number of cells.  ``threads`` of torch.
    """
    reader = ModelReader(model)
    rows = []
    for tall, wide in sizes:
        drawn, ids = _draw(tall, wide, model.vocabulary, seed)
        image = Image.fromarray(drawn.image)
        row: dict[str, Any] = {"table": f"{tall}x{wide}", "cells": tall * wide, "pixels": list(image.size)}
        row |= _written(model, ids, image, rounds)
        for name in TABLE_READERS:
            read = partial(read_picture, image, reader, drawn.dpi, free_scale=True, table_reader=name)
            times, found = _timed(name, read, rounds)
            row |= times | {f"{name}_fell_back": bool(found.notes)}
        rows.append(row)
    names = [key for key in rows[0] if key.endswith("_s") and not key.endswith("_cpu_s")]
    return {"rows": rows, "growth": {key: growth(rows, key) for key in names}, "threads": torch.get_num_threads()}


def _draw(tall: int, wide: int, vocabulary: Vocabulary, seed: int) -> tuple[DrawnTable, list[int]]:
    """A clean table of just this size, and its true stream."""
    options = TableOptions(rows=(tall, tall), columns=(wide, wide), small=0.0, em=(6.0, 10.0))
    for attempt in range(TRIES):
        try:
            drawn = draw_table(np.random.default_rng((seed, tall, wide, attempt)), options)
            table = next(block.table for block in drawn.page.blocks if block.table is not None)
            scale = drawn.dpi / 72, drawn.dpi / 72
            return drawn, [*table_to_ids(table, vocabulary, scale, text=False), vocabulary.eos]
        except ValueError:  # the PDF and the plan disagree, or a cell lies beyond the last coordinate
            continue
    raise ValueError(f"no table of {tall} x {wide} could be drawn in {TRIES} tries")


def _written(model: DocVisionModel, ids: Sequence[int], image: Image.Image, rounds: int) -> dict[str, Any]:
    """The decoder writing the true stream."""
    rules = Dictation(TableGrammar(model.vocabulary, text=False), ids)
    pixels, size = pad_images([to_float(image)])

    @torch.inference_mode()
    def write() -> int:
        memory = model.encoder(pixels.to(model.device), size.to(model.device), maps=model.encoder.prior)
        (stream,) = decode_table(model, memory, limit=len(ids) + 64, rules=rules)
        assert stream.ids == list(ids)
        return stream.forwards

    times, forwards = _timed("written", write, rounds)
    return {"tokens": len(ids), "forwards": forwards, **times}


def _timed(name: str, run: Callable[[], Any], rounds: int) -> tuple[dict[str, float], Any]:
    """Medians of wall and processor time, and what the last run gave."""
    wall, own, result = [], [], None
    for _ in range(rounds):
        clock, cpu = time.perf_counter(), time.process_time()
        result = run()
        wall.append(time.perf_counter() - clock)
        own.append(time.process_time() - cpu)
    times = {f"{name}_s": statistics.median(wall), f"{name}_cpu_s": statistics.median(own)}
    return {key: round(value, 3) for key, value in times.items()}, result


def growth(rows: Sequence[dict[str, Any]], key: str) -> float:
    """Slope of log time over log cells: 1 is proportional."""
    if len(rows) < 2:
        return math.nan
    cells = np.log([row["cells"] for row in rows])
    times = np.log([max(row[key], 1e-4) for row in rows])
    return round(float(np.polyfit(cells, times, 1)[0]), 2)
