"""Single tables: the truth says exactly what the picture shows, for every look that tables have."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from PIL import Image
from truth_checks import grid_from_boxes, grid_of, table_of, words_off, wrong_texts

from data_pipeline import genres, render, table_sets, text
from data_pipeline.checks import check_page
from data_pipeline.extract import TruthError
from data_pipeline.journal import plan_journal
from data_pipeline.layouts import Group, Item, Plan
from data_pipeline.table_plans import ICONS, CellPlan, TablePlan
from data_pipeline.tables import plan_office
from data_pipeline.typeset import draw_icon
from data_pipeline.warp import Warp
from docvision.export import table_to_html
from docvision.page import Document, Table, page_from_json
from docvision.tableseq import ids_to_table, table_to_ids
from docvision.tokens import Vocabulary

OPTIONS = table_sets.TableOptions(corpus="builtin", rows=(1, 20), columns=(1, 9))
AGEING = render.Ageing(clean=0.0, scanned=0.3, skew=1.0, difficulty=(0.1, 0.9))
TABLES = 24


@lru_cache(maxsize=1)
def _drawn() -> list[table_sets.DrawnTable]:
    found = []
    for seed in range(TABLES):
        try:
            drawn = table_sets.draw_table(np.random.default_rng([3, seed]), OPTIONS)
        except TruthError:
            continue
        if check_page(drawn.page)[0]:
            found.append(drawn)
    assert len(found) >= 0.9 * TABLES, "nearly all plans must give usable tables"
    return found


def _words(length: int) -> str:
    return "alpha beta gamma delta"[:length].strip()


def test_cells_hold_their_text() -> None:
    """PDFium's characters inside each cell's box are the cell's text."""
    for drawn in _drawn():
        with render.compile_pdf(drawn.source) as pdf:
            assert wrong_texts(pdf[0], drawn.page) == []


def test_boxes_tell_the_grid() -> None:
    """Rows, columns and spans follow from the edges of the boxes alone."""
    for drawn in _drawn():
        table = table_of(drawn.page)
        assert grid_from_boxes(table) == grid_of(table)
        assert sum(cell.row_span * cell.column_span for cell in table.cells) == table.rows * table.columns


def test_stream_gives_the_table_back() -> None:
    """HTML of the table that its own token stream describes is the truth's HTML."""
    vocabulary = Vocabulary()
    for drawn in _drawn():
        table = table_of(drawn.page)
        scale = 1270 / max(drawn.page.width, drawn.page.height, 600)
        ids = table_to_ids(table, vocabulary, (scale, scale))
        read = ids_to_table(ids, vocabulary, (scale, scale))
        assert read.notes == []
        assert table_to_html(read.table) == table_to_html(table)


def test_words_keep_their_ink() -> None:
    """After degradation each word's box covers the word's ink and none of another's; boxes left behind are noticed."""
    wrong, words, left = [], 0, 0
    for seed, drawn in enumerate(_drawn()):
        found, count = words_off(drawn.page, drawn.image, AGEING, np.random.default_rng([4, seed]))
        wrong, words = wrong + found, words + count
    assert words > 500 and len(wrong) <= 0.005 * words, wrong
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warp, "boxes", lambda self, boxes_N4: boxes_N4)
        for seed, drawn in enumerate(_drawn()):
            left += len(words_off(drawn.page, drawn.image, AGEING, np.random.default_rng([4, seed]))[0])
    assert left > 0.05 * words


@pytest.mark.parametrize("plan", [plan_journal, plan_office])
def test_plans_tile_their_grid(plan) -> None:
    """Any size gives a grid without holes, where each row has a cell of its own and so has each column."""
    rng = np.random.default_rng(5)
    seen: Counter[str] = Counter()
    for _ in range(400):
        rows, columns = int(rng.integers(1, 31)), int(rng.integers(1, 16))
        made = plan(rng, _words, rows, columns)
        count = np.zeros((rows, columns), int)
        for cell in made.cells:
            count[cell.row : cell.row + cell.row_span, cell.column : cell.column + cell.column_span] += 1
            seen["turned"] += cell.turned
            seen["icon"] += bool(cell.icon)
            seen["note"] += bool(cell.note)
            seen["indent"] += cell.indent > 0
            seen["blank"] += not cell.text and not cell.icon
            seen["body row span"] += cell.row_span > 1 and not cell.header
            seen["body column span"] += cell.column_span > 1 and not cell.header
            seen["span over several headings"] += cell.column_span > 1 and cell.header
        assert (count == 1).all()
        assert {cell.row for cell in made.cells} == set(range(rows))
        assert all(cell.header == (cell.row < made.header_rows) for cell in made.cells)
    assert min(seen.values()) >= 5, seen


def test_sizes() -> None:
    """Half of the tables are small; the range is kept and reached."""
    rng = np.random.default_rng(6)
    options = table_sets.TableOptions()
    sizes = [table_sets.draw_size(rng, options) for _ in range(6000)]
    small = sum(rows <= 8 and columns <= 6 for rows, columns in sizes)
    assert 0.5 <= small / len(sizes) <= 0.7
    assert {rows for rows, _ in sizes} == set(range(1, 31))
    assert {columns for _, columns in sizes} == set(range(1, 16))


def _plan_of(table: TablePlan, page: int) -> Plan:
    rng = np.random.default_rng(7)
    plan = genres.plan_page(rng, render.families(), text.load_corpus("builtin"), {"letter": 1.0})
    style = replace(plan.style, width=595.0, height=842.0, size=10.0, margins=(60, 60, 60, 60), columns=1)
    group = Group((Item("table", table=table),))
    return replace(plan, style=style, header=(None,) * 3, footer=(None,) * 3, title=(), flow=(group,), page=page)


@pytest.mark.parametrize("repeats", [True, False])
def test_a_table_over_two_pages(repeats: bool) -> None:
    """Both parts together are the table; the metadata say which rows stand on which page."""
    cells = [CellPlan(0, column, f"Head {column}", header=True) for column in range(2)]
    cells += [CellPlan(row, column, f"r{row}c{column}") for row in range(1, 70) for column in range(2)]
    table = TablePlan(70, 2, 1, tuple(cells), "rows", 0.5, (0.4, 0.4), (1.0, 1.0), repeats=repeats)
    texts: list[str] = []
    for page in range(2):
        made = render.render_plan(_plan_of(table, page), 80.0)
        (block,) = made.page.blocks
        document = Document("synthetic", [made.page], made.metadata)
        part = table_part(document, 0)
        assert part["of"] == 70 and block.table is not None
        assert part["repeated_head"] == int(repeats and page == 1)
        assert part["first_row"] == len(texts) // 2
        assert block.table.rows == part["rows"] + part["repeated_head"]
        assert block.table.header_rows == int(page == 0 or repeats)
        texts += [cell.text for cell in block.table.cells if cell.row >= part["repeated_head"]]
    assert texts == [cell.text for cell in cells]


def table_part(document: Document, block: int) -> dict[str, int]:
    return json.loads(document.metadata[f"block {block}"])["table_part"]


def test_turned_headings_stand_upright() -> None:
    """Text that reads from bottom to top has an upright, tall box and lines at 90 degrees."""
    cells = [CellPlan(0, 0, "Item", header=True), CellPlan(0, 1, "Number of days", header=True, turned=True)]
    cells += [CellPlan(1, 0, "a"), CellPlan(1, 1, "12")]
    made = render.render_plan(_plan_of(TablePlan(2, 2, 1, tuple(cells), "full", 0.5, (0.4, 0.4), (1.0, 1.0)), 0), 80.0)
    (block,) = made.page.blocks
    table = block.table
    assert table is not None
    turned = table.cells[1]
    assert turned.text == "Number of days" and turned.text_box is not None and turned.box is not None
    assert turned.text_box.height > 3 * turned.text_box.width
    assert turned.text_box.coverage(turned.box) == 1.0
    owners, boxes = render.gather(made.page)
    render.scatter(made.page, owners, boxes)
    assert [line.angle for line in block.lines if line.text == "Number of days"] == [90.0]


@pytest.mark.parametrize("icon", ICONS)
def test_icons_are_drawn_and_have_no_text(icon: str) -> None:
    cells = (CellPlan(0, 0, "a"), CellPlan(0, 1, icon=icon, align="center"))
    made = render.render_plan(_plan_of(TablePlan(1, 2, 0, cells, "none", 0.5, (0.4, 0.4), (1.0, 1.0)), 0), 100.0)
    table = made.page.blocks[0].table
    assert table is not None and draw_icon(icon, "black") != draw_icon(ICONS[ICONS.index(icon) - 1], "black")
    drawn = table.cells[1]
    assert drawn.text == "" and drawn.text_box is None and drawn.box is not None
    x0, y0, x1, y1 = (int(edge) for edge in made.page.to_pixels(drawn.box))
    assert (made.image[y0:y1, x0:x1] < 128).sum() > 8


def test_rows_hold_what_the_schema_says() -> None:
    """A row's page is as large as its picture, its one block is the table, and its HTML is that table's."""
    for seed in range(6):
        row = table_sets.sample_table(np.random.default_rng([8, seed]), OPTIONS)
        again = table_sets.sample_table(np.random.default_rng([8, seed]), OPTIONS)
        assert row == again
        assert {*row, "index"} == set(table_sets.TABLE_SCHEMA.names)
        page = page_from_json(row["document"])
        image = Image.open(io.BytesIO(row["image"]["bytes"]))
        assert page.pixels == image.size
        assert page.width == pytest.approx(image.width * 72 / row["dpi"], abs=0.01)
        (block,) = page.blocks
        assert isinstance(block.table, Table) and (block.table.rows, block.table.columns) == (
            row["rows"],
            row["columns"],
        )
        assert table_to_html(block.table) == row["html"]
        assert min(block.box) >= 0 and block.box.x1 <= page.width + 0.01 and block.box.y1 <= page.height + 0.01


def test_options_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="rows is"):
        table_sets.TableOptions(rows=(5, 2))
    with pytest.raises(ValueError, match="em is"):
        table_sets.TableOptions(em=(2.0, 9.0))
    with pytest.raises(ValueError, match="shares"):
        table_sets.TableOptions(clean=0.9, scanned=0.4)
