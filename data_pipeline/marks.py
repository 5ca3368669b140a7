"""The characters and rectangles of a rendered PDF page, by the number of the element that each belongs to.

Each of them names its element by its colour (:mod:`data_pipeline.typeset`); PDFium tells the colours and the places.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_double, c_float, c_int, c_uint, c_void_p
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from data_pipeline.typeset import number_of
from docvision.page import Box


def _bind(name: str, result: type, *arguments: type) -> Callable[..., Any]:
    """A PDFium function with plain integers for pointers: several times faster than pypdfium2's own binding."""
    address = ctypes.cast(getattr(raw, name), c_void_p).value or 0
    return ctypes.PYFUNCTYPE(result, *arguments)(address)


_count_chars = _bind("FPDFText_CountChars", c_int, c_void_p)
_unicode = _bind("FPDFText_GetUnicode", c_uint, c_void_p, c_int)
_char_box = _bind("FPDFText_GetCharBox", c_int, c_void_p, c_int, *(POINTER(c_double),) * 4)
_origin = _bind("FPDFText_GetCharOrigin", c_int, c_void_p, c_int, *(POINTER(c_double),) * 2)
_is_generated = _bind("FPDFText_IsGenerated", c_int, c_void_p, c_int)
_text_object = _bind("FPDFText_GetTextObject", c_void_p, c_void_p, c_int)
_font_size = _bind("FPDFText_GetFontSize", c_double, c_void_p, c_int)
_fill_color = _bind("FPDFPageObj_GetFillColor", c_int, c_void_p, *(POINTER(c_uint),) * 4)
_draw_mode = _bind("FPDFPath_GetDrawMode", c_int, c_void_p, POINTER(c_int), POINTER(c_int))
_count_objects = _bind("FPDFPage_CountObjects", c_int, c_void_p)
_object = _bind("FPDFPage_GetObject", c_void_p, c_void_p, c_int)
_object_type = _bind("FPDFPageObj_GetType", c_int, c_void_p)
_bounds = _bind("FPDFPageObj_GetBounds", c_int, c_void_p, *(POINTER(c_float),) * 4)


@dataclass(slots=True)
class Glyph:
    """A visible character with its ink box, top left origin."""

    text: str
    box: tuple[float, float, float, float]
    baseline: float
    size: float
    start: float = 0.0
    """Where the pen stood, along the baseline."""

    def turned(self) -> Glyph:
        """The glyph of text that reads from bottom to top, as if it read from left to right."""
        x0, y0, x1, y1 = self.box
        return Glyph(self.text, (-y1, x0, -y0, x1), self.start, self.size, -self.baseline)


@dataclass(slots=True)
class Marks:
    """What one PDF page holds, by element number."""

    width: float
    height: float
    glyphs: dict[int, list[Glyph]]
    areas: dict[int, Box]
    """Bounds of an element's own rectangles."""


def read_marks(page: pypdfium2.PdfPage) -> Marks:
    """All characters and rectangles of a page."""
    width, height = page.get_size()
    return Marks(width, height, _read_glyphs(page, height), read_areas(page))


def _address(handle: pypdfium2.PdfPage | pypdfium2.PdfTextPage) -> int:
    return ctypes.cast(handle.raw, c_void_p).value or 0


def _color_number(item: int, channels: list[c_uint]) -> int:
    if not item or not _fill_color(item, *channels):
        return 0
    return number_of(*(channel.value for channel in channels[:3]))


def _read_glyphs(page: pypdfium2.PdfPage, height: float) -> dict[int, list[Glyph]]:
    text_page = page.get_textpage()
    handle = _address(text_page)
    channels = [c_uint() for _ in range(4)]
    left, right, bottom, top, x, y = (c_double() for _ in range(6))
    numbers: dict[int, int] = {}
    glyphs: dict[int, list[Glyph]] = {}
    high = 0
    for index in range(_count_chars(handle)):
        code = _unicode(handle, index)
        if (code <= 32 and code != 2) or code == 0xA0:
            continue
        if _is_generated(handle, index) == 1 and code != 2:
            continue
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
        item = _text_object(handle, index) or 0
        if item not in numbers:
            numbers[item] = _color_number(item, channels)
        _char_box(handle, index, left, right, bottom, top)
        _origin(handle, index, x, y)
        box = (left.value, height - top.value, right.value, height - bottom.value)
        glyph = Glyph(chr(code), box, height - y.value, _font_size(handle, index), x.value)
        glyphs.setdefault(numbers[item], []).append(glyph)
    text_page.close()
    return glyphs


def read_areas(page: pypdfium2.PdfPage) -> dict[int, Box]:
    """Bounds of the filled rectangles by the number in their colour."""
    height = page.get_height()
    handle = _address(page)
    channels = [c_uint() for _ in range(4)]
    sides = [c_float() for _ in range(4)]
    filled, stroked = c_int(), c_int()
    areas: dict[int, Box] = {}
    for index in range(_count_objects(handle)):
        item = _object(handle, index)
        if _object_type(item) != raw.FPDF_PAGEOBJ_PATH or not _draw_mode(item, filled, stroked) or not filled.value:
            continue
        number = _color_number(item, channels)
        if number and _bounds(item, *sides):
            left, bottom, right, top = (side.value for side in sides)
            box = Box(left, height - top, right, height - bottom)
            areas[number] = areas[number].union(box) if number in areas else box
    return areas
