"""One table as a picture with exact truth: rendered alone on a page of its own size, degraded, cut out with a margin.

The picture imitates what a table reader gets: a table of a paper or report at 8-20 pixels an em.  A row's document is a
page as large as the picture, with one block: the table with its cells and its lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import pyarrow as pa

from data_pipeline import chance, render, shards, text
from data_pipeline.checks import check_contrast, check_page
from data_pipeline.extract import Speller, TruthError, read_page
from data_pipeline.journal import plan_journal
from data_pipeline.layouts import Family, PageStyle, Writer
from data_pipeline.marks import read_marks
from data_pipeline.table_plans import TablePlan, fit_table, needed_widths
from data_pipeline.tables import plan_office
from data_pipeline.typeset import write_table
from docvision.export import table_to_html
from docvision.page import Page, page_to_json

Rng = np.random.Generator
TABLE_SCHEMA = pa.schema(
    [
        ("image", shards.IMAGE_TYPE), ("document", pa.string()), ("html", pa.string()), ("rows", pa.int32()),
        ("columns", pa.int32()), ("difficulty", pa.float32()), ("dpi", pa.float32()), ("index", pa.int64()),
    ]
)  # fmt: skip
_TRIES = 40
_BORDER = 12
"""Points of paper around a table before it is cut out: room for what a warp moves."""
_FORMAL = (
    "Liberation Serif", "TeX Gyre Termes", "Nimbus Roman", "STIX", "Liberation Sans", "Nimbus Sans", "TeX Gyre Heros",
    "Liberation Sans Narrow", "Carlito", "CMU Serif", "Latin Modern Roman", "DejaVu Sans", "Charis SIL",
    "TeX Gyre Pagella", "Gentium", "Arimo", "Tinos", "Open Sans", "Noto Sans", "Noto Serif",
)  # fmt: skip
"""Families that journals and reports use, or look-alikes."""


@dataclass(frozen=True)
class TableOptions:
    """What tables to make."""

    corpus: str = "system"
    """See :func:`data_pipeline.text.load_corpus`."""
    rows: tuple[int, int] = (1, 30)
    columns: tuple[int, int] = (1, 15)
    small: float = 0.5
    """Share of tables of at most 8 x 6 cells; the others are drawn from the whole range, large ones less often."""
    journal: float = 0.72
    """Share of tables as journals print them; the others are a report's or an office's."""
    em: tuple[float, float] = (8.0, 20.0)
    """Range of the font size in pixels; small ones are more likely."""
    side: int = 1200
    """Longest side of the picture in pixels, before its margin; larger tables are drawn smaller, to the least em."""
    clean: float = 0.4
    """Share of tables that are left as rendered."""
    scanned: float = 0.2
    """Share of near-clean scans that lie askew by up to ``skew`` degrees."""
    skew: float = 1.0
    difficulty: tuple[float, float] = (0.05, 0.7)
    """Range for the remaining ones; small print is degraded less."""
    margins: tuple[float, float] = (2.0, 20.0)
    """Pixels around the table, each side for itself."""
    quality: int = 92
    """Of the JPEG that is stored."""

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            low, high = getattr(self, name)
            if not 1 <= low <= high <= 60:
                raise ValueError(f"{name} is {(low, high)}: use a range within 1 to 60")
        if not 5 <= self.em[0] <= self.em[1] <= 80:
            raise ValueError(f"em is {self.em}: use a range within 5 to 80 pixels")
        if self.clean < 0 or self.scanned < 0 or self.clean + self.scanned > 1:
            raise ValueError(f"clean {self.clean} and scanned {self.scanned} are shares: keep their sum within 0 to 1")

    @property
    def ageing(self) -> render.Ageing:
        return render.Ageing(self.clean, self.scanned, self.skew, self.difficulty)


@dataclass(slots=True)
class DrawnTable:
    """A table before degradation."""

    plan: TablePlan
    page: Page
    image: np.ndarray
    dpi: float
    source: str
    """Typst source, from which it can be drawn again."""

    @property
    def em(self) -> float:
        """Font size in pixels."""
        return self.dpi / 72 * max((word.size for word in self.page.words()), default=8.0)


def sample_table(rng: Rng, options: TableOptions) -> dict[str, Any]:
    """One row of a table data set; see :data:`TABLE_SCHEMA`.

    Raises:
        RuntimeError: no plan out of many could be used; the message counts the reasons.
    """
    reasons: Counter[str] = Counter()
    for _ in range(_TRIES):
        try:
            drawn = draw_table(rng, options)
        except TruthError as error:
            reasons[str(error)[:60]] += 1
            continue
        kept, reason = check_page(drawn.page)
        if kept:
            image, difficulty = _age(drawn, rng, options)
            words = render.pixel_boxes(drawn.page, [word.box for word in drawn.page.words()])
            kept, reason = check_contrast(image, words)
        if kept:
            render.count_dropped(reasons)
            table = drawn.page.blocks[0].table
            assert table is not None
            data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, options.quality])[1].tobytes()
            return {
                "image": {"bytes": data, "path": None}, "document": page_to_json(drawn.page, "synthetic"),
                "html": table_to_html(table), "rows": table.rows, "columns": table.columns, "difficulty": difficulty,
                "dpi": drawn.dpi,
            }  # fmt: skip
        reasons[reason] += 1
    raise RuntimeError(f"no usable table in {_TRIES} tries: {dict(reasons)}")


def draw_table(rng: Rng, options: TableOptions) -> DrawnTable:
    """A table as typeset.

    Raises:
        TruthError: the PDF and the plan disagree.
    """
    rows, columns = draw_size(rng, options)
    family = _family(rng)
    writer = Writer(rng, text.load_corpus(options.corpus), family.characters)
    make = plan_journal if rng.random() < options.journal else plan_office
    plan = fit_table(make(rng, writer.words, rows, columns), writer.fit)
    low, high = options.em
    em = low * (high / low) ** float(rng.beta(1.0, 1.6))
    size = float(rng.uniform(7.0, 10.0))
    style = PageStyle(
        0, 0, (_BORDER,) * 4, 1, 0, family, family, family, size / plan.scale, 0.5, 0.5, 0.0, False, False,
        writer.language,
    )  # fmt: skip
    plan, width = _widen(rng, plan)
    paper = f"{width * size + 2 * _BORDER:.1f}pt" if width else "auto"
    return _typeset(plan, style, paper, em * 72 / size, (low * 72 / size, options.side))


def draw_size(rng: Rng, options: TableOptions) -> tuple[int, int]:
    """Rows and columns: half of the tables small, few with one row or one column, a tail to the largest."""
    small = rng.random() < options.small
    size = []
    for (low, high), bound in zip((options.rows, options.columns), (8, 6), strict=True):
        if small:
            high = max(low, min(high, bound))
        start = low if rng.random() < 0.04 else min(high, max(low, 2))
        draw = float(rng.random() if small else rng.beta(1.2, 1.9))
        size.append(min(high, start + int(draw * (high - start + 1))))
    return size[0], size[1]


def _widen(rng: Rng, plan: TablePlan) -> tuple[TablePlan, float]:
    """The table with columns that hold their longest words, and its width in em, 0 for as wide as it becomes."""
    needs = needed_widths(plan)
    if plan.unit == "em" and rng.random() >= 0.35:
        widths = [width and max(width, need) for width, need in zip(plan.widths, needs, strict=True)]
        return replace(plan, widths=tuple(widths)), 0.0
    if plan.unit == "fr" and not any(plan.widths):
        return plan, 0.0
    if plan.unit == "em":
        # As wide as a column or a page of print; the columns share what the text leaves.
        total = float(rng.choice([24.0, 34.0, 50.0, 60.0]))
        shares = [width or need + 0.2 * total / plan.columns for width, need in zip(plan.widths, needs, strict=True)]
    else:
        total, shares = plan.columns * float(rng.uniform(4.0, 8.0)), list(plan.widths)
    scale = total / sum(shares)
    widths = [max(share * scale, need) for share, need in zip(shares, needs, strict=True)]
    return replace(plan, widths=tuple(widths), unit="fr"), sum(widths)


def _typeset(plan: TablePlan, style: PageStyle, width: str, dpi: float, bounds: tuple[float, int]) -> DrawnTable:
    source, elements = write_table(plan, style, width)
    pdf = render.compile_pdf(source)
    try:
        if len(pdf) != 1:
            raise TruthError("a table on more than one page")
        sheet = pdf[0]
        page = read_page(read_marks(sheet), Speller(elements), elements).page
        dpi = max(min(dpi, 72 * bounds[1] / max(page.width, page.height)), bounds[0])
        image = render.raster(sheet, dpi)
    finally:
        pdf.close()
    page.pixels = image.shape[1], image.shape[0]
    return DrawnTable(plan, page, image, dpi, source)


def _family(rng: Rng) -> Family:
    grouped = render.families()
    formal = [family for members in grouped.values() for family in members if family.name in _FORMAL]
    if formal and rng.random() < 0.6:
        return chance.pick(rng, formal)
    groups = {name: share for name, share in {"serif": 0.45, "sans": 0.5, "mono": 0.05}.items() if grouped.get(name)}
    return chance.pick(rng, grouped[chance.weighted(rng, groups or dict.fromkeys(grouped, 1.0))])


def _age(drawn: DrawnTable, rng: Rng, options: TableOptions) -> tuple[np.ndarray, float]:
    """Degrade the picture and cut the table out of it; the page becomes the cut, in place."""
    page = drawn.page
    owners, boxes = render.gather(page)
    weaken = float(np.clip((drawn.em - 4) / 12, 0.25, 1.0))
    image, boxes, difficulty = options.ageing(drawn.image, boxes, rng, weaken)
    height, width = image.shape
    # The whole table, and no more of the paper than there is.
    x0, y0, x1, y1 = boxes[:, 0].min(), boxes[:, 1].min(), boxes[:, 2].max(), boxes[:, 3].max()
    margins = rng.uniform(*options.margins, 4)
    left, top = max(0, int(x0 - margins[0])), max(0, int(y0 - margins[1]))
    right, bottom = min(width, int(np.ceil(x1 + margins[2]))), min(height, int(np.ceil(y1 + margins[3])))
    image = np.ascontiguousarray(image[top:bottom, left:right])
    scale = 72 / drawn.dpi
    page.width, page.height = (right - left) * scale, (bottom - top) * scale
    page.pixels = right - left, bottom - top
    render.scatter(page, owners, boxes - np.array([left, top, left, top]))
    return image, difficulty
