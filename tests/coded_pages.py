"""Pages in a bar code and a reader for it: a :class:`docvision.scan.Reader` that can really read, without a model.

A line of text is a row of black bars under a thin black rule, six bars a character, narrow for 0 and wide for 1.
Two narrow bars open a line and two wide ones close it, so a line that is upside down or on its side reads as
garbage, with little confidence, as it does for the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from docvision.page import Block, Box, Line, bounding_box
from docvision.scan import Reading

ALPHABET = " abcdefghijklmnopqrstuvwxyz0123456789-.,ABCDEFGHIJKLMNOPQRSTUVWX"
UNIT = 4
"""Pixels of a narrow bar at 220 dpi."""
LINE_HEIGHT, LINE_STEP, MARGIN = 24, 60, 80


def draw_coded(lines: Sequence[str], size: tuple[int, int] = (1760, 1210)) -> Image.Image:
    """A picture of ``lines``; the default size is 8 x 5.5 inches at 220 dpi."""
    page = Image.new("L", size, 255)
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(lines):
        x, y = MARGIN, MARGIN + LINE_STEP * number
        for wide in _bars(line):
            draw.rectangle((x, y, x + UNIT * (2 if wide else 1) - 1, y + LINE_HEIGHT - 1), fill=0)
            x += UNIT * (3 if wide else 2)
        draw.rectangle((MARGIN, y, x - UNIT - 1, y + 2), fill=0)
    return page


def line_box(text: str, number: int) -> Box:
    """Where :func:`draw_coded` puts a line, in pixels."""
    width = sum(UNIT * (3 if wide else 2) for wide in _bars(text)) - UNIT
    top = MARGIN + LINE_STEP * number
    return Box(MARGIN, top, MARGIN + width, top + LINE_HEIGHT)


def _bars(text: str) -> list[bool]:
    bits = [bool(ALPHABET.index(char) >> bit & 1) for char in text for bit in range(6)]
    return [False, False, *bits, True, True]


class CodeReader:
    """Reads what :func:`draw_coded` draws; counts its calls."""

    page_dpi = 110

    def __init__(self) -> None:
        self.pages = 0
        self.lines = 0

    def find_blocks(self, image: Image.Image) -> list[Block]:
        self.pages += 1
        ink = np.asarray(image.convert("L")) < 128
        lines = []
        for top, bottom in _runs(ink.any(1)):
            columns = np.flatnonzero(ink[top:bottom].any(0))
            lines.append(Line("", Box(float(columns[0]), top, float(columns[-1] + 1), bottom), source="model"))
        return [Block("text", bounding_box(line.box for line in lines), lines=lines)] if lines else []

    def read_lines(self, crops: Sequence[Image.Image]) -> list[Reading]:
        self.lines += len(crops)
        return [_decode(crop) for crop in crops]


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _decode(crop: Image.Image) -> Reading:
    assert crop.mode == "L" and crop.height == 32
    middle = np.asarray(crop)[14:24].mean(0) < 128
    widths = [b - a for a, b in _runs(middle)]
    if not widths:
        return Reading("", 1.0)
    narrow = min(widths)
    bits = [width > 1.5 * narrow for width in widths]
    if len(bits) < 4 or len(bits) % 6 != 4 or bits[:2] != [False, False] or bits[-2:] != [True, True]:
        return Reading("garbage", 0.2)
    inner = bits[2:-2]
    codes = [sum(bit << place for place, bit in enumerate(inner[i : i + 6])) for i in range(0, len(inner), 6)]
    return Reading("".join(ALPHABET[code] for code in codes), 0.9)
