"""Synthetic pages: the truth must say exactly what the picture shows."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import cv2
import numpy as np
import pypdfium2
import pytest

from data_pipeline import degrade, genres, render, text
from data_pipeline.checks import check_contrast, check_page
from data_pipeline.cutouts import cut_out
from data_pipeline.extract import TruthError
from data_pipeline.layouts import Plan
from data_pipeline.tables import RULINGS, plan_table
from data_pipeline.typeset import MAX_ELEMENTS, mark_color, number_of, write_source
from docvision.page import Block, Box, Cell, Line, Page, Table, Word, page_from_json, page_to_json

_DRAWN = ("form", "contents", "typescript", "oldprint")
"""Kinds with rules, leaders, underlines and spaced words: their ink is not all in words, or PDFium splits the words."""
OPTIONS = render.PageOptions(
    corpus="builtin",
    dpi=(140.0, 140.0),
    kinds={kind: share for kind, share in genres.KINDS.items() if kind not in _DRAWN},
)
SEEDS = range(12)
INK = 128
"""Grey below which a pixel is ink; pages here are not degraded."""


@lru_cache(maxsize=64)
def _plan(seed: int, kind: str = "") -> Plan:
    rng = np.random.default_rng([5, seed])
    kinds = {kind: 1.0} if kind else OPTIONS.kinds
    return genres.plan_page(rng, render.families(), text.load_corpus("builtin"), kinds)


@lru_cache(maxsize=64)
def _rendered(seed: int, kind: str = "") -> render.Rendered | None:
    try:
        return render.render_plan(_plan(seed, kind), 140.0)
    except TruthError:
        return None


def _kept() -> list[tuple[Plan, render.Rendered]]:
    pages = [(_plan(seed), _rendered(seed)) for seed in SEEDS]
    kept = [(plan, made) for plan, made in pages if made is not None and check_page(made.page)[0]]
    assert len(kept) >= len(SEEDS) // 2, "most plans must give usable pages"
    return kept


def _pixels(page: Page, box: Box, image: np.ndarray) -> tuple[slice, slice]:
    x0, y0, x1, y1 = page.to_pixels(box).clip(image.shape[1], image.shape[0])
    return slice(int(np.floor(y0)), int(np.ceil(y1))), slice(int(np.floor(x0)), int(np.ceil(x1)))


def test_marks_survive_any_color() -> None:
    """The number comes back from any colour, and the colour hardly changes."""
    rng = np.random.default_rng(0)
    for number in [0, 1, MAX_ELEMENTS, *rng.integers(0, MAX_ELEMENTS, 50).tolist()]:
        wanted = rng.integers(0, 256, 3).tolist()
        found = mark_color(number, *wanted)
        assert number_of(*found) == number
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 16


def test_words_cover_their_ink_and_no_other() -> None:
    """All ink of a text block lies in word boxes, every word's box has ink, and no two words share any."""
    for _, made in _kept():
        image, page = made.image, made.page
        for block in page.blocks:
            if block.kind not in ("text", "list", "footnote", "caption"):
                continue
            area = _pixels(page, block.box, image)
            covered = np.zeros(image.shape, np.uint8)
            for word in (word for line in block.lines for word in line.words):
                place = _pixels(page, word.box, image)
                if any(char.isalnum() for char in word.text):
                    assert (image[place] < 200).any(), f"no ink under {word.text!r}"
                covered[place[0].start - 1 : place[0].stop + 1, place[1].start - 1 : place[1].stop + 1] = 1
            # Letters whose outline leaves the box that their font declares, and underlines, are the few exceptions.
            ink = image[area] < INK
            assert (ink & (covered[area] == 0)).sum() <= 0.02 * ink.sum() + 4, (
                f"ink of a {block.kind} outside its words"
            )
            for line in block.lines:
                for first, second in zip(line.words, line.words[1:], strict=False):
                    assert first.box.overlap_x(second.box) < 0.25 * first.size, (first.text, second.text)


def test_text_is_what_the_pdf_has_there() -> None:
    """PDFium's own text inside a word's box is the word; the way there shares no code with ours."""
    seen = 0
    for plan, made in _kept():
        source, _ = write_source(plan)
        with pypdfium2.PdfDocument(
            render._compiler().compile(input=source.encode(), format="pdf", pdf_tags=False)
        ) as pdf:
            text_page = pdf[min(plan.page, len(pdf) - 1)].get_textpage()
            for block in made.page.blocks:
                if block.kind != "text":
                    continue
                for word in (word for line in block.lines for word in line.words):
                    b = word.box
                    inside = text_page.get_text_bounded(
                        b.x0 + 0.1, made.page.height - b.y1, b.x1 - 0.1, made.page.height - b.y0
                    )
                    # PDFium puts spaces between letters that stand far apart.
                    inside = inside.replace("\x02", "-").replace(" ", "")
                    assert word.text.strip("-") in inside, (word.text, inside)
                    seen += 1
    assert seen > 500


def test_blocks_say_what_the_plan_said() -> None:
    """A paragraph that is whole on the page reads as planned: hyphens that the typesetter added are gone."""
    whole = 0
    for plan, made in _kept():
        texts = {" ".join(item.text.split()) for item in plan.flow if getattr(item, "kind", "") == "text"}
        for block in made.page.blocks:
            whole += block.kind == "text" and block.text in texts
    assert whole >= 10


def test_cells_tile_the_table() -> None:
    """Cells of a typeset table fill its box without overlap, and each text lies in its cell."""
    tables = 0
    for seed in range(6):
        made = _rendered(seed, "tables")
        if made is None or not check_page(made.page)[0]:
            continue
        for block in made.page.blocks:
            if block.table is None:
                continue
            tables += 1
            assert all(cell is not None for row in block.table.grid() for cell in row)
            assert sum(cell.box.area for cell in block.table.cells) == pytest.approx(block.box.area, rel=0.01)
            for cell in block.table.cells:
                assert (cell.text_box is None) == (not cell.text)
                if cell.text_box is not None:
                    # Descenders may reach below a tight cell, whose box ends at the baseline.
                    assert cell.text_box.coverage(cell.box) > 0.65, cell.text
    assert tables >= 5


def test_table_plans_are_rectangular() -> None:
    """Each place of the grid belongs to one cell, whatever the spans; all rulings and spans occur."""
    rng = np.random.default_rng(3)
    rulings, spans, sizes = set(), set(), set()
    for _ in range(300):
        plan = plan_table(rng, lambda length: "abc def"[:length])
        count = np.zeros((plan.rows, plan.columns), int)
        for cell in plan.cells:
            count[cell.row : cell.row + cell.row_span, cell.column : cell.column + cell.column_span] += 1
            spans.add((cell.row_span > 1, cell.column_span > 1))
        assert (count == 1).all()
        rulings.add(plan.ruling)
        sizes.add((plan.rows, plan.columns))
    assert rulings == set(RULINGS)
    assert {(True, False), (False, True)} <= spans
    assert {min(r for r, _ in sizes), max(r for r, _ in sizes)} == {2, 20}
    assert {min(c for _, c in sizes), max(c for _, c in sizes)} == {2, 8}


@pytest.mark.parametrize("kind", list(genres.KINDS))
def test_every_kind_renders(kind: str) -> None:
    """Each kind gives a usable page within a few plans, with text in it."""
    for seed in range(8):
        made = _rendered(seed, kind)
        if made is not None and check_page(made.page)[0]:
            assert made.kind == kind and made.page.words()
            return
    pytest.fail(f"none of 8 plans of kind {kind} could be used")


def test_boxes_follow_the_geometry() -> None:
    """After a turn of one degree the ink is still in the words' boxes."""
    _, made = _kept()[0]
    owners, boxes = render.gather(made.page)
    warp = degrade.Warp(render._turn(made.image.shape, 1.0).matrix, width=float(made.image.shape[1]))
    image = warp.image(made.image)
    words = [box for (owner, _), box in zip(owners, warp.boxes(boxes), strict=True) if isinstance(owner, Word)]
    covered = np.zeros(image.shape, np.uint8)
    for x0, y0, x1, y1 in np.array(words).round().astype(int).tolist():
        cv2.rectangle(covered, (x0 - 1, y0 - 1), (x1 + 1, y1 + 1), 1, -1)
    for block in made.page.blocks:
        if block.table is not None or block.kind in ("figure", "formula", "code"):
            return
    ink = image < INK
    assert (ink & (covered == 0)).sum() < 0.1 * ink.sum()


def test_angles_of_lines() -> None:
    """A scan turned against the clock has lines with that angle."""
    made = _rendered(int(SEEDS[0])) or _kept()[0][1]
    made = replace(made, page=page_from_json(page_to_json(made.page)))
    owners, boxes = render.gather(made.page)
    render.scatter(made.page, owners, render._turn(made.image.shape, 0.8).boxes(boxes))
    wide = [line.angle for block in made.page.blocks for line in block.lines if line.box.width > 60]
    assert wide and np.allclose(wide, 0.8, atol=0.1)


def test_a_sample_depends_on_seed_and_index_only() -> None:
    """Twice the same bytes from the same generator, in any order; other bytes from another."""
    options = replace(OPTIONS, kinds={"letter": 1.0, "book": 1.0})
    make = lambda index: render.sample_page(np.random.default_rng([2, index]), options)  # noqa: E731
    first, second, again = make(0), make(1), make(0)
    assert first == again
    assert first["image"]["bytes"] != second["image"]["bytes"]
    page = page_from_json(first["document"])
    assert (first["width"], first["height"]) == page.pixels
    image = cv2.imdecode(np.frombuffer(first["image"]["bytes"], np.uint8), cv2.IMREAD_UNCHANGED)
    assert image.shape == (first["height"], first["width"])


def test_a_cut_out_is_the_page_moved() -> None:
    """A part holds whole blocks with the same text over the same ink, and nothing of the blocks that are left out."""
    parts = 0
    for seed, (_, made) in enumerate(_kept()):
        page = page_from_json(page_to_json(made.page))
        metadata = {f"block {index}": block.text for index, block in enumerate(page.blocks)}
        image, metadata = cut_out(np.random.default_rng(seed), page, made.image, metadata)
        assert image.shape == page.pixels[::-1]
        parts += image.size < made.image.size
        assert metadata == {f"block {index}": block.text for index, block in enumerate(page.blocks)}
        whole = {tuple(line.text for line in block.lines): block for block in made.page.blocks}
        inside = Box(0, 0, page.width, page.height)
        for block in page.blocks:
            assert block.box.coverage(inside) > 0.999, block.text
            if not block.lines:
                continue
            origin = whole[tuple(line.text for line in block.lines)]
            before, after = (part.lines[0].words for part in (origin, block))
            for first, second in zip(before, after, strict=True):
                seen = made.image[_pixels(made.page, first.box, made.image)]
                found = image[_pixels(page, second.box, image)]
                assert first.text == second.text and abs(int(seen.min()) - int(found.min())) < 40
    assert parts >= 3


def _page(*blocks: Block) -> Page:
    return Page(1, 200, 200, list(blocks))


def _block(box: Box, kind: str = "text") -> Block:
    return Block(kind, box, "x", [Line("x", box, [Word("x", box)])])


def test_checks_name_the_fault() -> None:
    """Each filter drops its own fault, and a sound page passes."""
    assert check_page(_page(_block(Box(10, 10, 90, 20)), _block(Box(10, 20, 90, 30)))) == (True, "")
    assert check_page(_page()) == (False, "no text")
    assert check_page(_page(_block(Box(150, 10, 210, 20)))) == (False, "text off the page")
    overlap = check_page(_page(_block(Box(10, 10, 90, 30), "heading"), _block(Box(10, 20, 90, 40))))
    assert overlap == (False, "heading over text")
    cell = Cell(0, 0, "wide", box=Box(10, 10, 50, 20), text_box=Box(12, 12, 70, 18))
    table = Block("table", cell.box, lines=[Line("wide", cell.text_box)], table=Table(1, 1, [cell]))
    assert check_page(_page(table)) == (False, "text outside its cell")


def test_contrast() -> None:
    """Grey on grey is dropped; black on white and a few pale words are kept."""
    boxes = np.array([[10 * i, 10, 10 * i + 8, 18] for i in range(14)], float)
    page = np.full((40, 160), 200, np.uint8)
    assert not check_contrast(page, boxes)[0]
    page[12:16, ::3] = 20
    assert check_contrast(page, boxes) == (True, "")


def test_options_are_checked() -> None:
    """A misspelt kind and impossible shares say what to do."""
    with pytest.raises(ValueError, match=r"unknown kinds of pages.*papr"):
        render.PageOptions(kinds={"papr": 1.0})
    with pytest.raises(ValueError, match="shares"):
        render.PageOptions(clean=0.8, scanned=0.5)
    with pytest.raises(ValueError, match="cut_outs is 2: use a share"):
        render.PageOptions(cut_outs=2)
    with pytest.raises(ValueError, match="dpi"):
        render.PageOptions(dpi=(300.0, 100.0))
