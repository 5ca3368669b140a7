"""Tables as they were read, for the eye: the boxes of cells and of their text drawn over the source, side by side.

A cell's place in the grid has a thin grey frame, its text a coloured one: blue in header rows, green elsewhere, red
where it was read with little confidence.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from docvision.page import Block, Box
from docvision.parse import DocumentParser
from docvision.pdf import open_source

GRID, HEADER, BODY, DOUBT = "#9aa4ad", "#0b5cad", "#1a7f37", "#cf222e"
SURE = 0.6
"""Confidence below which a text counts as doubtful."""
WIDTH, COLUMNS, GAP = 620, 2, 14
"""Pixels of one table, tables side by side, and white between them."""
HIGH = 520
"""Pixels of the tallest table; a longer one is cut there."""
MARGIN = 6.0
"""Points around a table."""
QUALITIES = (85, 75, 65, 55, 45)


def draw_tables(parser: DocumentParser, files: Sequence[tuple[Path, int]]) -> list[Image.Image]:
    """The largest table of each page with its boxes.

    Args:
        parser: reads the files.
        files: path and page number.

    Raises:
        ValueError: a page has no table.
    """
    return [_draw(parser, path, page) for path, page in files]


def _draw(parser: DocumentParser, path: Path, number: int) -> Image.Image:
    document = parser.parse(path, pages=str(number))
    (page,) = document.pages
    tables = [block for block in page.blocks if block.table is not None]
    if not tables:
        raise ValueError(f"{path}, page {number}: no table was found there")
    block = max(tables, key=lambda found: found.box.area)
    with open_source(path) as source:
        dpi = 72 * WIDTH / (block.box.width + 2 * MARGIN)
        image = source.page(number).raster(dpi).convert("RGB")
    x, y = image.width / page.width, image.height / page.height
    area = block.box.pad(MARGIN).scale(x, y).clip(*image.size)
    pen = ImageDraw.Draw(image)
    for box, colour in cell_boxes(block):
        pen.rectangle(tuple(round(v) for v in box.scale(x, y)), outline=colour, width=1 if colour == GRID else 2)
    cut = image.crop((int(area.x0), int(area.y0), round(area.x1), min(round(area.y1), int(area.y0) + HIGH)))
    way = "its picture" if parser.options.text == "model" or block.source == "model" else "its text layer"
    assert block.table is not None
    return _titled(cut, f"{path.stem}, page {number}, by {way}: {block.table.rows} x {block.table.columns}")


def cell_boxes(block: Block) -> list[tuple[Box, str]]:
    """What to draw of a table, grid first."""
    cells = block.table.cells if block.table is not None else []
    grid = [(cell.box, GRID) for cell in cells if cell.box is not None]
    texts = [
        (cell.text_box, DOUBT if cell.confidence < SURE else HEADER if cell.header else BODY)
        for cell in cells
        if cell.text_box is not None
    ]
    return grid + texts


def _titled(image: Image.Image, title: str) -> Image.Image:
    font = ImageFont.load_default(15)
    whole = Image.new("RGB", (WIDTH, image.height + 24), "white")
    whole.paste(image, (0, 24))
    ImageDraw.Draw(whole).text((2, 3), title, fill="black", font=font)
    return whole


def contact_picture(tables: Sequence[Image.Image], limit: int = 350_000) -> bytes:
    """The tables in columns as one JPEG of at most ``limit`` bytes, if its quality allows.

    Each goes to the column that is shortest so far.
    """
    heights = [GAP] * COLUMNS
    spots = []
    for table in tables:
        column = heights.index(min(heights))
        spots.append((GAP + column * (WIDTH + GAP), heights[column]))
        heights[column] += table.height + GAP
    sheet = Image.new("RGB", (COLUMNS * (WIDTH + GAP) + GAP, max(heights)), "white")
    for table, spot in zip(tables, spots, strict=True):
        sheet.paste(table, spot)
    for quality in QUALITIES:
        out = io.BytesIO()
        sheet.save(out, "JPEG", quality=quality, optimize=True)
        if len(out.getvalue()) <= limit:
            break
    return out.getvalue()
