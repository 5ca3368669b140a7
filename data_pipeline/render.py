"""Page plans -> page images with truth: Typst sets them, PDFium draws them and gives the boxes.

``sample_page(rng, options)`` makes one sample: draw a plan, typeset it, read the truth from the PDF, rasterise,
degrade, check.  A page that fails a check is drawn again from the same generator, so a sample depends on its generator
and the options only.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pypdfium2

os.environ.setdefault("RAYON_NUM_THREADS", "1")
import typst

from data_pipeline import degrade, fonts, genres, shards, text
from data_pipeline.checks import check_contrast, check_page
from data_pipeline.cutouts import cut_out
from data_pipeline.extract import Speller, TruthError, read_page
from data_pipeline.figures import paint_photo
from data_pipeline.layouts import Family, Plan
from data_pipeline.marks import Marks, read_areas, read_marks
from data_pipeline.pictures import PictureOptions, lay
from data_pipeline.typeset import write_source
from docvision.page import Box, Document, Line, Page

Rng = np.random.Generator
PAGE_SCHEMA = pa.schema(
    [
        ("image", shards.IMAGE_TYPE), ("document", pa.string()), ("width", pa.int32()), ("height", pa.int32()),
        ("kind", pa.string()), ("difficulty", pa.float32()), ("index", pa.int64()),
    ]
)  # fmt: skip
_TRIES = 40
_CHARACTERS_NEEDED = 250
"""Least coverage of a page's body family: Latin with accents."""
_BLACKLETTER_NEEDED = 180
"""German alone is set in blackletter."""


@dataclass(frozen=True)
class PageOptions:
    """What pages to make."""

    corpus: str = "system"
    """See :func:`data_pipeline.text.load_corpus`."""
    kinds: dict[str, float] = field(default_factory=lambda: dict(genres.KINDS))
    """Shares of the kinds of pages."""
    dpi: tuple[float, float] = (95.0, 140.0)
    """Range of the raster's resolution; values near its middle are most likely."""
    clean: float = 0.2
    """Share of pages that are left as rendered."""
    scanned: float = 0.3
    """Share of near-clean scans that lie askew by up to ``skew`` degrees."""
    skew: float = 1.0
    difficulty: tuple[float, float] = (0.05, 0.7)
    """Range for the remaining pages."""
    quality: int = 88
    """Of the JPEG that is stored."""
    cut_outs: float = 0.18
    """Share of pages of which only some blocks are kept, as in pictures of a part."""
    pictures: PictureOptions = field(default_factory=PictureOptions)
    """Paper and stamps from a folder, such as ``imagegen sample --folder`` fills."""

    def __post_init__(self) -> None:
        unknown = set(self.kinds) - set(genres.KINDS)
        if unknown:
            raise ValueError(f"unknown kinds of pages {sorted(unknown)}: use some of {', '.join(genres.KINDS)}")
        if not 40 <= self.dpi[0] <= self.dpi[1] <= 400:
            raise ValueError(f"dpi is {self.dpi}: use a range within 40 to 400")
        if self.clean < 0 or self.scanned < 0 or self.clean + self.scanned > 1:
            raise ValueError(f"clean {self.clean} and scanned {self.scanned} are shares: keep their sum within 0 to 1")
        if not 0 <= self.cut_outs <= 1:
            raise ValueError(f"cut_outs is {self.cut_outs}: use a share within 0 to 1")

    @property
    def ageing(self) -> Ageing:
        return Ageing(self.clean, self.scanned, self.skew, self.difficulty, self.pictures)


@dataclass(slots=True)
class Rendered:
    """A page before degradation."""

    page: Page
    image: np.ndarray
    kind: str
    metadata: dict[str, str] = field(default_factory=dict)
    """Of the document, see :class:`data_pipeline.extract.Truth`."""


def sample_page(rng: Rng, options: PageOptions) -> dict[str, Any]:
    """One row of a page data set.

    Returns:
        ``image`` (JPEG bytes and path), ``document`` (JSON of the page, boxes in points; its metadata tell which
        tables go on from or on another page), ``width``, ``height``, ``kind`` and ``difficulty``.

    Raises:
        RuntimeError: no plan out of many could be used; the message counts the reasons.
    """
    reasons: Counter[str] = Counter()
    for _ in range(_TRIES):
        try:
            made = draw_page(rng, options)
        except TruthError as error:
            reasons[str(error)[:60]] += 1
            continue
        kept, reason = check_page(made.page)
        if kept:
            if rng.random() < options.cut_outs:
                made.image, made.metadata = cut_out(rng, made.page, made.image, made.metadata)
            owners, boxes = gather(made.page)
            image, boxes, difficulty = options.ageing(made.image, boxes, rng)
            if difficulty:
                scatter(made.page, owners, boxes)
            words = pixel_boxes(made.page, [word.box for word in made.page.words()])
            kept, reason = check_contrast(image, words)
        if kept:
            count_dropped(reasons)
            data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, options.quality])[1].tobytes()
            document = Document("synthetic", [made.page], made.metadata)
            return {
                "image": {"bytes": data, "path": None}, "document": document.to_json(),
                "width": image.shape[1], "height": image.shape[0], "kind": made.kind, "difficulty": difficulty,
            }  # fmt: skip
        reasons[reason] += 1
    raise RuntimeError(f"no usable page in {_TRIES} tries: {dict(reasons)}")


def draw_page(rng: Rng, options: PageOptions) -> Rendered:
    """A page as typeset, with its raster.

    Raises:
        TruthError: the PDF and the plan disagree.
    """
    plan = genres.plan_page(rng, families(), text.load_corpus(options.corpus), options.kinds)
    low, high = options.dpi
    dpi = low + (high - low) * float(rng.beta(2.0, 2.4))
    return render_plan(plan, dpi)


def render_plan(plan: Plan, dpi: float) -> Rendered:
    """Typeset a plan and read its truth.

    Raises:
        TruthError: the PDF and the plan disagree.
    """
    source, elements = write_source(plan)
    pdf = compile_pdf(source)
    try:
        chosen = min(plan.page, len(pdf) - 1)
        speller, elsewhere = Speller(elements), set[int]()
        for number in range(chosen):
            marks = read_marks(pdf[number])
            _skip(marks, speller)
            elsewhere |= marks.areas.keys()
        if chosen + 1 < len(pdf) and any(element.cell for element in elements):
            elsewhere |= read_areas(pdf[chosen + 1]).keys()
        sheet = pdf[chosen]
        marks = read_marks(sheet)
        truth = read_page(marks, speller, elements, elsewhere)
        image = raster(sheet, dpi)
    finally:
        pdf.close()
    page = truth.page
    page.pixels = image.shape[1], image.shape[0]
    _paint(
        page,
        image,
        [element.item.figure for element in elements if element.number in marks.areas and element.item.figure],
    )
    return Rendered(page, image, plan.kind, truth.metadata)


def compile_pdf(source: str) -> pypdfium2.PdfDocument:
    """Typst source as a PDF that the caller closes.

    Raises:
        TruthError: Typst refuses the source.
    """
    try:
        return pypdfium2.PdfDocument(_compiler().compile(input=source.encode(), format="pdf", pdf_tags=False))
    except typst.TypstError as error:
        raise TruthError(f"typst: {error}") from error


def raster(sheet: pypdfium2.PdfPage, dpi: float) -> np.ndarray:
    """The page as a grey picture."""
    image = sheet.render(scale=dpi / 72, grayscale=True).to_numpy()
    return np.ascontiguousarray(image.reshape(image.shape[0], image.shape[1]))


def _skip(marks: Marks, speller: Speller) -> None:
    """Move past the text of a page that is not wanted."""
    for number, glyphs in marks.glyphs.items():
        element = speller.elements.get(number)
        if element is not None and element.item.figure is None and not element.item.formula:
            speller.fragments(number, glyphs)


def _paint(page: Page, image: np.ndarray, plans: list[Any]) -> None:
    blocks = [block for block in page.blocks if block.kind == "figure"]
    for block, plan in zip(blocks, plans, strict=True):
        if plan.style == "photo":
            x0, y0, x1, y1 = (round(value) for value in page.to_pixels(block.box).clip(image.shape[1], image.shape[0]))
            paint_photo(image, (x0, y0, x1, y1), plan.seed)


# ageing

Aged = tuple[np.ndarray, np.ndarray, float]


def pixel_boxes(page: Page, boxes: list[Box]) -> np.ndarray:
    return np.array([page.to_pixels(box) for box in boxes], dtype=np.float64).reshape(-1, 4)


@dataclass(frozen=True, slots=True)
class Ageing:
    """How much happens to pictures; see :class:`PageOptions`."""

    clean: float
    scanned: float
    skew: float
    difficulty: tuple[float, float]
    pictures: PictureOptions = field(default_factory=PictureOptions)

    def __call__(self, image: np.ndarray, boxes_N4: np.ndarray, rng: Rng, weaken: float = 1.0) -> Aged:
        """The degraded picture, where its boxes went, and how difficult it is.

        Args:
            image: uint8 grey.
            boxes_N4: boxes in pixels.
            rng: the only source of chance.
            weaken: factor on the difficulty, for small print.
        """
        draw = rng.random()
        if draw < self.clean:
            return image, boxes_N4, 0.0
        image = lay(image, boxes_N4, rng, self.pictures)
        if draw < self.clean + self.scanned:
            difficulty = float(rng.uniform(0.02, 0.15)) * weaken
            warp = _turn(image.shape, float(rng.uniform(-self.skew, self.skew)))
            image, boxes = warp.image(image), warp.boxes(boxes_N4)
            return *degrade.degrade(image, boxes, rng, difficulty, "scan", 0.2), difficulty
        difficulty = float(rng.uniform(*self.difficulty)) * weaken
        return *degrade.degrade(image, boxes_N4, rng, difficulty), difficulty


def _turn(shape: tuple[int, int], degrees: float) -> degrade.Warp:
    """A rotation about the page's centre."""
    height, width = shape
    matrix = np.vstack([cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0), [0, 0, 1]])
    return degrade.Warp(matrix, width=float(width))


_Owner = tuple[Any, str]


def gather(page: Page) -> tuple[list[_Owner], np.ndarray]:
    """All boxes of a page in pixels with the attribute each belongs to; a line adds the points at its ends."""
    owners: list[_Owner] = []
    boxes: list[Box] = []

    def add(owner: Any, name: str, box: Box | None) -> None:
        if box is not None:
            owners.append((owner, name))
            boxes.append(box)

    for block in page.blocks:
        add(block, "box", block.box)
        for line in block.lines:
            add(line, "box", line.box)
            x, y = line.box.center
            upright = abs(line.angle) < 45
            add(line, "start", Box(line.box.x0, y, line.box.x0, y) if upright else Box(x, line.box.y1, x, line.box.y1))
            add(line, "end", Box(line.box.x1, y, line.box.x1, y) if upright else Box(x, line.box.y0, x, line.box.y0))
            for word in line.words:
                add(word, "box", word.box)
        for cell in block.table.cells if block.table else ():
            add(cell, "box", cell.box)
            add(cell, "text_box", cell.text_box)
    return owners, pixel_boxes(page, boxes)


def scatter(page: Page, owners: list[_Owner], boxes: np.ndarray) -> None:
    """Write moved boxes back, in points, and the angle of each line."""
    assert page.pixels is not None
    sx, sy = page.width / page.pixels[0], page.height / page.pixels[1]
    ends: dict[int, tuple[Line, tuple[float, float]]] = {}
    for (owner, name), (x0, y0, x1, y1) in zip(owners, boxes.tolist(), strict=True):
        if name == "start":
            ends[id(owner)] = owner, (x0, y0)
        elif name == "end":
            line, (left, top) = ends[id(owner)]
            long = max(abs(x0 - left), abs(y0 - top)) > 4
            line.angle = round(float(np.degrees(np.arctan2(top - y0, x0 - left))), 3) if long else 0.0
        else:
            box = Box(x0 * sx, y0 * sy, x1 * sx, y1 * sy)
            # What a warp moved over the edge is no longer on the page.
            clipped = box.clip(page.width, page.height)
            setattr(owner, name, (clipped if clipped.area > 0 else box).rounded())


def count_dropped(reasons: Counter[str]) -> None:
    """Add the reasons of one sample's failed tries, and the sample, to :data:`DROPPED`."""
    for reason, number in reasons.items():
        DROPPED[reason] += number
    DROPPED["kept"] += 1


DROPPED: Counter[str] = Counter()
"""Why pages were dropped in this process, and how many were kept."""


# fonts


@lru_cache(maxsize=1)
def _typst_fonts() -> typst.Fonts:
    return typst.Fonts(include_system_fonts=True, font_paths=[])


@lru_cache(maxsize=1)
def _compiler() -> typst.Compiler:
    return typst.Compiler(font_paths=_typst_fonts())


@lru_cache(maxsize=1)
def families() -> dict[str, tuple[Family, ...]]:
    """Families for pages by group: those that both fontconfig and Typst know, of regular width, with accents."""
    faces = {(face.path, face.index): face for face in fonts.find_faces()}
    known: dict[str, list[tuple[Any, fonts.Face]]] = {}
    for info in _typst_fonts().fonts():
        face = faces.get((info.path, info.index)) if info.path else None
        if face is not None and info.stretch == 1.0:
            known.setdefault(info.family, []).append((info, face))
    grouped: dict[str, list[Family]] = {}
    for name in sorted(known):
        upright = sorted(
            ((info.weight, face) for info, face in known[name] if info.style == "normal"), key=lambda pair: pair[0]
        )
        regular = [(weight, face) for weight, face in upright if 350 <= weight <= 500]
        if not regular:
            continue
        weight, face = regular[0]
        bold = min((w for w, _ in upright if 600 <= w <= 800), default=weight)
        italic = any(info.style != "normal" and info.weight == weight for info, _ in known[name])
        characters = frozenset.intersection(*(f.characters for i, f in known[name] if i.weight in (weight, bold)))
        if len(characters) >= (_BLACKLETTER_NEEDED if face.group == "blackletter" else _CHARACTERS_NEEDED):
            grouped.setdefault(face.group, []).append(Family(name, face.group, weight, bold, italic, characters))
    return {group: tuple(members) for group, members in grouped.items()}
