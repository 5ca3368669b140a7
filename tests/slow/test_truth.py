"""A thousand tables and five hundred pages: how exact the rendered truth is, in numbers."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
from truth_checks import grid_from_boxes, grid_of, table_of, words_off, wrong_texts

from data_pipeline import genres, render, table_sets, text
from data_pipeline.checks import check_page
from data_pipeline.extract import TruthError
from data_pipeline.typeset import write_source
from docvision.export import table_to_html
from docvision.tableseq import ids_to_table, table_to_ids
from docvision.tokens import Vocabulary

pytestmark = pytest.mark.slow

TABLES = int(os.environ.get("TRUTH_TABLES", "1000"))
PAGES = int(os.environ.get("TRUTH_PAGES", "500"))
"""Counts, which may be lowered for a first look."""
WORDS_RIGHT = 0.995
AGEING = render.Ageing(clean=0.0, scanned=0.3, skew=1.0, difficulty=(0.05, 0.9))


def test_tables() -> None:
    """Texts of cells, grids and streams are exact in all tables; words' boxes in 99.5 % after degradation."""
    vocabulary, options = Vocabulary(), table_sets.TableOptions()
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(TABLES):
        rng = np.random.default_rng([21, seed])
        try:
            drawn = table_sets.draw_table(rng, options)
        except TruthError:
            counts["refused"] += 1
            continue
        if not check_page(drawn.page)[0]:
            counts["refused"] += 1
            continue
        table = table_of(drawn.page)
        counts["cells"] += len(table.cells)
        with render.compile_pdf(drawn.source) as pdf:
            wrong += [f"table {seed}: {text}" for text in wrong_texts(pdf[0], drawn.page)]
        if grid_from_boxes(table) != grid_of(table):
            wrong.append(f"table {seed}: another grid")
        scale = 1270 / max(drawn.page.width, drawn.page.height, 600)
        read = ids_to_table(table_to_ids(table, vocabulary, (scale, scale)), vocabulary, (scale, scale))
        if table_to_html(read.table) != table_to_html(table):
            wrong.append(f"table {seed}: another HTML")
        off, words = words_off(drawn.page, drawn.image, AGEING, rng)
        counts["words"] += words
        counts["words off"] += len(off)
    print(dict(counts), wrong[:20])
    assert wrong == []
    assert counts["refused"] <= 0.05 * TABLES
    assert counts["words off"] <= (1 - WORDS_RIGHT) * counts["words"]


def test_pages() -> None:
    """Texts of all cells are exact on all pages; words' boxes in 99.5 % after degradation."""
    corpus, families, kinds = text.load_corpus("system"), render.families(), render.PageOptions().kinds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(PAGES):
        rng = np.random.default_rng([22, seed])
        plan = genres.plan_page(rng, families, corpus, kinds)
        try:
            made = render.render_plan(plan, float(rng.uniform(95, 140)))
        except TruthError:
            counts["refused"] += 1
            continue
        if not check_page(made.page)[0]:
            counts["refused"] += 1
            continue
        counts["tables"] += sum(block.table is not None for block in made.page.blocks)
        counts["parts of tables"] += len(made.metadata)
        if any(block.table for block in made.page.blocks):
            with render.compile_pdf(write_source(plan)[0]) as pdf:
                sheet = pdf[min(plan.page, len(pdf) - 1)]
                wrong += [f"page {seed}: {text}" for text in wrong_texts(sheet, made.page)]
        off, words = words_off(made.page, made.image, AGEING, rng)
        counts["words"] += words
        counts["words off"] += len(off)
    print(dict(counts), wrong[:20])
    assert wrong == []
    assert counts["tables"] > 0.1 * PAGES
    assert counts["words off"] <= (1 - WORDS_RIGHT) * counts["words"]
