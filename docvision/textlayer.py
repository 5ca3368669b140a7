"""The text layer of a PDF page: words with boxes and fonts, and the drawings around them.

Text that does not show is kept apart, except on a scan, where the invisible text is what somebody recognised in the
image.  Words printed twice in one place (shadows, false bold) count once.
"""

from __future__ import annotations

import ctypes
import math
from ctypes import c_int
from dataclasses import dataclass, field

import pypdfium2
import pypdfium2.raw as raw

from docvision.drawings import Drawings, read_drawings
from docvision.glyphs import GlyphReader
from docvision.page import Box, Word
from docvision.pdfium import Frame, address
from docvision.words import build_word, cut_words, place_accents

SCAN_COVERAGE = 0.55
"""An image over this share of the page makes the page a scan: its invisible text is the scan's text."""


@dataclass(slots=True)
class TextLayer:
    """What a page's content stream says, in points from the top left of the visible page."""

    words: list[Word] = field(default_factory=list)
    rules: list[Box] = field(default_factory=list)
    """Thin drawn lines and the edges of rectangles."""
    fills: list[Box] = field(default_factory=list)
    """Painted rectangles."""
    images: list[Box] = field(default_factory=list)
    hidden: list[Word] = field(default_factory=list)
    """Text that does not show: painted without colour, white on white, or off the page."""
    drawings: list[Box] = field(default_factory=list)
    """Boxes of vector graphics that are no rules and no rectangles."""
    angles: list[float] = field(default_factory=list)
    """Direction of each word's baseline in degrees, counter-clockwise, parallel to ``words``; empty means all 0."""

    def angle(self, index: int) -> float:
        return self.angles[index] if self.angles else 0.0


def read_layer(page: pypdfium2.PdfPage, index: int, width: float, height: float) -> TextLayer:
    """Read words and drawings of a page.

    Args:
        page: an open page; the caller holds ``PDFIUM_LOCK``.
        index: its index in the document, from 0.
        width: visible width in points.
        height: visible height in points.
    """
    frame = Frame.of(page, width, height)
    links = _read_links(page, frame)
    page = _with_annotations(page, index)
    drawings = read_drawings(address(page), frame)
    glyphs = GlyphReader(page, frame).glyphs()
    layer = TextLayer(rules=drawings.rules, fills=drawings.fills, images=drawings.images, drawings=drawings.drawings)
    shown, unseen = [], []
    for run in cut_words(place_accents(glyphs)):
        word, style = build_word(run)
        outside = not frame.visible(word.box)
        word.box = word.box.clip(width, height) if all(map(math.isfinite, word.box)) else Box(0, 0, 0, 0)
        if outside or style.hidden or (style.white and not _on_paint(word.box, drawings)):
            unseen.append((word, style.angle, style.hidden and not outside))
        else:
            shown.append((word, style.angle))
    if _is_scan(drawings.images, width, height) and sum(keep for *_, keep in unseen) > 3 * len(shown):
        shown += [(word, angle) for word, angle, keep in unseen if keep]
        unseen = [item for item in unseen if not item[2]]
    shown = _without_copies(shown)
    if links:
        for word, _ in shown:
            x, y = word.box.center
            word.link = next((target for box, target in links if box.y0 <= y < box.y1 and box.x0 <= x < box.x1), "")
    layer.words, layer.angles = [word for word, _ in shown], [angle for _, angle in shown]
    layer.hidden = [word for word, *_ in unseen]
    return layer


def _is_scan(images: list[Box], width: float, height: float) -> bool:
    return any(box.area >= SCAN_COVERAGE * width * height for box in images)


def _on_paint(box: Box, drawings: Drawings) -> bool:
    """Whether white text has something to stand on."""
    x, y = box.center
    return any(
        paint.pad(1).contains(x, y)
        for paint in (*drawings.fills, *drawings.images, *drawings.drawings, *drawings.rules)
    )


def _with_annotations(page: pypdfium2.PdfPage, index: int) -> pypdfium2.PdfPage:
    """The page with form fields and text notes drawn into it, so that their text is read in place."""
    wanted = {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}
    kinds = set()
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        kinds.add(raw.FPDFAnnot_GetSubtype(annotation))
        raw.FPDFPage_CloseAnnot(annotation)
    if kinds.isdisjoint(wanted) or raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return page
    return page.pdf[index]  # PDFium shows what was drawn only on a page loaded anew


def _read_links(page: pypdfium2.PdfPage, frame: Frame) -> list[tuple[Box, str]]:
    """Web addresses and the boxes they lie on."""
    found: list[tuple[Box, str]] = []
    position, link, rect = c_int(0), raw.FPDF_LINK(), raw.FS_RECTF()
    document = page.pdf
    while raw.FPDFLink_Enumerate(page, position, link):
        action = raw.FPDFLink_GetAction(link)
        if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
            continue
        size = raw.FPDFAction_GetURIPath(document, action, None, 0)
        buffer = ctypes.create_string_buffer(size)
        raw.FPDFAction_GetURIPath(document, action, buffer, size)
        target = buffer.value.decode("utf-8", "replace").strip()
        if target and raw.FPDFLink_GetAnnotRect(link, rect):
            found.append((frame.box(rect.left, rect.bottom, rect.right, rect.top), target))
    return found


def _without_copies(words: list[tuple[Word, float]]) -> list[tuple[Word, float]]:
    """Leave out words printed again in the same place (shadows, false bold)."""
    seen: dict[tuple[str, int], list[Box]] = {}
    kept = []
    for word, angle in words:
        x0, y0 = word.box.x0, word.box.y0
        reach = max(0.2 * word.size, 0.3)
        row = int(y0 // 4)
        near = [box for y in (row - 1, row, row + 1) for box in seen.get((word.text, y), ())]
        if near and any(abs(box.x0 - x0) < reach and abs(box.y0 - y0) < reach for box in near):
            continue
        seen.setdefault((word.text, row), []).append(word.box)
        kept.append((word, angle))
    return kept
