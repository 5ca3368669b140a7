"""A sample with its truth drawn in: what ``docvision make --preview`` writes.

Blocks are boxes in the colour of their kind with their number in reading order; lines, cells and the text in cells are
thinner boxes inside them.  A line of text stands over its truth.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from data_pipeline import fonts
from docvision.page import Block, Box, Page, page_from_json

_COLOURS = {
    "text": "#1f5fbf", "heading": "#c02020", "list": "#0a8f5b", "caption": "#a05a00", "table": "#8a2be2",
    "figure": "#c2188b", "header": "#6b6b6b", "footer": "#6b6b6b", "footnote": "#8b6b2b", "code": "#00808a",
    "formula": "#b05000",
}  # fmt: skip
_LINE, _CELL, _TEXT_BOX = "#6fb7ff", "#b98cff", "#3fbf7f"
_SMALLEST_SIDE = 700
"""Pictures below this are enlarged, so that labels do not cover what they name."""
_LABEL = 13


def draw(row: Mapping[str, Any]) -> bytes:
    """One sample as a PNG file."""
    image = Image.open(io.BytesIO(row["image"]["bytes"])).convert("RGB")
    image = _draw_page(image, page_from_json(row["document"])) if row.get("document") else _draw_line(image, row)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def _draw_page(image: Image.Image, page: Page) -> Image.Image:
    scale = max(1, -(-_SMALLEST_SIDE // max(image.size)))
    image = image.resize((image.width * scale, image.height * scale), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(image, "RGBA")
    sx, sy = image.width / page.width, image.height / page.height
    for number, block in enumerate(page.blocks, 1):
        _draw_block(pen, block, sx, sy)
        colour = _COLOURS.get(block.kind, "black")
        box = block.box.scale(sx, sy)
        pen.rectangle(_inside(box.pad(3), image), outline=colour, width=2)
        _label(pen, box, _name(number, block), colour)
    return image


def _draw_block(pen: ImageDraw.ImageDraw, block: Block, sx: float, sy: float) -> None:
    for line in block.lines:
        pen.rectangle(_ordered(line.box.scale(sx, sy)), outline=_LINE)
    for cell in block.table.cells if block.table else ():
        if cell.box is not None:
            fill = "#8a2be218" if cell.header else None
            pen.rectangle(_ordered(cell.box.scale(sx, sy)), outline=_CELL, fill=fill)
        if cell.text_box is not None:
            pen.rectangle(_ordered(cell.text_box.scale(sx, sy)), outline=_TEXT_BOX)


def _name(number: int, block: Block) -> str:
    size = f" {block.table.rows}x{block.table.columns}" if block.table else ""
    level = f" {block.level}" if block.kind in ("heading", "list") else ""
    return f"{number} {block.kind}{level}{size}"


def _label(pen: ImageDraw.ImageDraw, box: Box, text: str, colour: str) -> None:
    """White on the kind's colour: left of the block's top where the margin has room, else above it, else on it."""
    width = pen.textlength(text, font=_font(_LABEL))
    x, y = max(0.0, box.x0), box.y0 - _LABEL - 3 if box.y0 > _LABEL + 3 else box.y0
    if box.x0 > width + 6:
        x, y = box.x0 - width - 5, box.y0
    pen.rectangle((x, y, x + width + 4, y + _LABEL + 3), fill=colour)
    pen.text((x + 2, y), text, fill="white", font=_font(_LABEL))


def _ordered(box: Box) -> tuple[float, float, float, float]:
    return box.x0, box.y0, max(box.x0, box.x1), max(box.y0, box.y1)


def _inside(box: Box, image: Image.Image) -> tuple[float, float, float, float]:
    return _ordered(box.clip(image.width - 1, image.height - 1))


def _draw_line(image: Image.Image, row: Mapping[str, Any]) -> Image.Image:
    """The crop, twice as large, over its text and what else is known of it."""
    image = image.resize((image.width * 2, image.height * 2), Image.Resampling.LANCZOS)
    text = row.get("text", "")
    known = ", ".join(f"{key} {row[key]}" for key in ("label", "kind", "font") if row.get(key))
    if "difficulty" in row:
        known += f", difficulty {row['difficulty']:.2f}"
    width = max(image.width, int(_font(22).getlength(text)) + 8, int(_font(_LABEL).getlength(known)) + 8)
    sheet = Image.new("RGB", (width, image.height + 54), "white")
    sheet.paste(image, (0, 0))
    pen = ImageDraw.Draw(sheet)
    pen.text((4, image.height + 4), text or "(nothing to read)", fill="black" if text else "#a00000", font=_font(22))
    pen.text((4, image.height + 35), known, fill="#555555", font=_font(_LABEL))
    return sheet


@lru_cache(maxsize=4)
def _font(size: int) -> ImageFont.FreeTypeFont:
    """The face here with the most characters among the plain ones, so that truth shows as it is."""
    plain = [face for face in fonts.find_faces(64) if face.group == "sans" and not face.italic and face.weight == 400]
    if not plain:
        return fonts.load_font(fonts.find_faces(64)[0], size)
    return fonts.load_font(max(plain, key=lambda face: (len(face.characters), face.name)), size)
