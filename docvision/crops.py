"""The figures of a document, cut out of the pictures of its pages."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from docvision.page import Document
from docvision.pdf import open_source

CROP_DPI = 200
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
                corners = (int(box.x0), int(box.y0), max(round(box.x1), int(box.x0) + 1), max(round(box.y1), int(box.y0) + 1))
                out = io.BytesIO()
                image.crop(corners).save(out, "PNG", optimize=True)
                yield (number, index), figure_name(number, count), out.getvalue()
