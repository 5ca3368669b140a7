"""Pictures for a parsed document, taken from its source: figures cut out, and whole pages for the overlay."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

from docvision.overlay_html import jpeg
from docvision.page import Document
from docvision.pdf import SourceError, open_source

CROP_DPI = 200
PAGE_DPI = 110
PAGE_WIDTH = 1100
"""Pixels of a page's picture at most; enough to read small print on a laptop."""
MARGIN = 2.0
"""Points around a figure's box, for lines that lie on its edge."""


def figure_name(page: int, number: int) -> str:
    """``p3-f1.png`` for the first figure of page 3."""
    return f"p{page}-f{number}.png"


def figure_crops(
    document: Document, source: str | Path, password: str = "", dpi: float = CROP_DPI
) -> Iterator[tuple[tuple[int, int], str, bytes]]:
    """Each figure as ((page number, index of its block on the page), file name, PNG).

    Args:
        document: parsed from ``source``.
        source: the PDF or image itself.
        password: opens an encrypted PDF.
        dpi: of the crops.

    Raises:
        SourceError: the source cannot be read any more.
    """
    wanted = {page.number: page for page in document.pages if any(block.kind == "figure" for block in page.blocks)}
    if not wanted:
        return
    with open_source(source, password) as opened:
        for number, page in wanted.items():
            image = opened.page(number).raster(dpi)
            x, y = image.width / max(page.width, 1.0), image.height / max(page.height, 1.0)
            figures = [(index, block) for index, block in enumerate(page.blocks) if block.kind == "figure"]
            for count, (index, block) in enumerate(figures, start=1):
                box = block.box.pad(MARGIN).scale(x, y).clip(image.width, image.height)
                corners = (
                    int(box.x0),
                    int(box.y0),
                    max(round(box.x1), int(box.x0) + 1),
                    max(round(box.y1), int(box.y0) + 1),
                )
                out = io.BytesIO()
                image.crop(corners).save(out, "PNG", optimize=True)
                yield (number, index), figure_name(number, count), out.getvalue()


def page_pictures(document: Document, source: str | Path, password: str = "") -> dict[int, bytes]:
    """Page number -> JPEG of the page; a page that cannot be drawn is missing.

    Raises:
        SourceError: the source cannot be opened.
    """
    pictures: dict[int, bytes] = {}
    with open_source(source, password) as opened:
        for page in document.pages:
            with contextlib.suppress(SourceError):
                sheet = opened.page(page.number)
                image = sheet.raster(min(PAGE_DPI, 72 * PAGE_WIDTH / sheet.width))
                pictures[page.number] = jpeg(image, PAGE_WIDTH)
    return pictures
