"""The thin layer over PDFium: one lock, fast prototypes of the calls made per character or path, page geometry.

pypdfium2's own bindings convert every argument through rich ctypes types.  A page has thousands of characters, so
the calls made for each of them are bound here once more with plain integers for pointers, which is several times
faster.  They also keep the interpreter lock: PDFium is not thread safe.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from ctypes import POINTER, c_double, c_float, c_int, c_uint, c_void_p
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from docvision.page import Box

PDFIUM_LOCK = threading.RLock()
"""Held by every caller of PDFium, here and elsewhere."""


def _bind(name: str, result: type | None, *arguments: type) -> Callable[..., Any]:
    place = ctypes.cast(getattr(raw, name), c_void_p).value or 0
    return ctypes.PYFUNCTYPE(result, *arguments)(place)


_floats4 = (POINTER(c_float),) * 4
count_chars = _bind("FPDFText_CountChars", c_int, c_void_p)
get_unicode = _bind("FPDFText_GetUnicode", c_uint, c_void_p, c_int)
get_text_object = _bind("FPDFText_GetTextObject", c_void_p, c_void_p, c_int)
is_generated = _bind("FPDFText_IsGenerated", c_int, c_void_p, c_int)
get_loose_box = _bind("FPDFText_GetLooseCharBox", c_int, c_void_p, c_int, POINTER(raw.FS_RECTF))
get_char_box = _bind("FPDFText_GetCharBox", c_int, c_void_p, c_int, *(POINTER(c_double),) * 4)
get_origin = _bind("FPDFText_GetCharOrigin", c_int, c_void_p, c_int, POINTER(c_double), POINTER(c_double))
get_char_matrix = _bind("FPDFText_GetMatrix", c_int, c_void_p, c_int, POINTER(raw.FS_MATRIX))
get_font_size = _bind("FPDFText_GetFontSize", c_double, c_void_p, c_int)
get_render_mode = _bind("FPDFTextObj_GetTextRenderMode", c_int, c_void_p)
get_font = _bind("FPDFTextObj_GetFont", c_void_p, c_void_p)
get_font_name = _bind("FPDFFont_GetBaseFontName", ctypes.c_size_t, c_void_p, c_void_p, ctypes.c_size_t)
get_font_flags = _bind("FPDFFont_GetFlags", c_int, c_void_p)
get_font_weight = _bind("FPDFFont_GetWeight", c_int, c_void_p)
get_italic_angle = _bind("FPDFFont_GetItalicAngle", c_int, c_void_p, POINTER(c_int))

count_objects = _bind("FPDFPage_CountObjects", c_int, c_void_p)
get_object = _bind("FPDFPage_GetObject", c_void_p, c_void_p, c_int)
count_form_objects = _bind("FPDFFormObj_CountObjects", c_int, c_void_p)
get_form_object = _bind("FPDFFormObj_GetObject", c_void_p, c_void_p, ctypes.c_ulong)
get_object_type = _bind("FPDFPageObj_GetType", c_int, c_void_p)
get_object_matrix = _bind("FPDFPageObj_GetMatrix", c_int, c_void_p, POINTER(raw.FS_MATRIX))
get_bounds = _bind("FPDFPageObj_GetBounds", c_int, c_void_p, *_floats4)
get_stroke_width = _bind("FPDFPageObj_GetStrokeWidth", c_int, c_void_p, POINTER(c_float))
get_fill_color = _bind("FPDFPageObj_GetFillColor", c_int, c_void_p, *(POINTER(c_uint),) * 4)
get_stroke_color = _bind("FPDFPageObj_GetStrokeColor", c_int, c_void_p, *(POINTER(c_uint),) * 4)
get_draw_mode = _bind("FPDFPath_GetDrawMode", c_int, c_void_p, POINTER(c_int), POINTER(c_int))
count_segments = _bind("FPDFPath_CountSegments", c_int, c_void_p)
get_segment = _bind("FPDFPath_GetPathSegment", c_void_p, c_void_p, c_int)
get_segment_point = _bind("FPDFPathSegment_GetPoint", c_int, c_void_p, POINTER(c_float), POINTER(c_float))
get_segment_type = _bind("FPDFPathSegment_GetType", c_int, c_void_p)
get_segment_close = _bind("FPDFPathSegment_GetClose", c_int, c_void_p)

Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def address(handle: Any) -> int:
    """The pointer inside a pypdfium2 object, as the prototypes above want it."""
    return ctypes.cast(getattr(handle, "raw", handle), c_void_p).value or 0


def multiply(first: Matrix, second: Matrix) -> Matrix:
    """The matrix that applies ``first``, then ``second``."""
    a, b, c, d, e, f = first
    p, q, r, s, t, u = second
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def object_matrix(item: int) -> Matrix:
    matrix = raw.FS_MATRIX()
    if not get_object_matrix(item, matrix):
        return IDENTITY
    return (matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)


@dataclass(frozen=True, slots=True)
class Frame:
    """From PDF user space (origin bottom left, before rotation) to points from the top left of the visible page."""

    matrix: Matrix
    width: float
    height: float
    turn: int
    """Clockwise rotation of the page in degrees."""

    @classmethod
    def of(cls, page: pypdfium2.PdfPage, width: float, height: float) -> Frame:
        left, bottom, right, top = page.get_bbox()
        turn = page.get_rotation() % 360
        matrix = {
            90: (0.0, 1.0, 1.0, 0.0, -bottom, -left),
            180: (-1.0, 0.0, 0.0, 1.0, right, -bottom),
            270: (0.0, -1.0, -1.0, 0.0, top, right),
        }.get(turn, (1.0, 0.0, 0.0, -1.0, -left, top))
        return cls(matrix, width, height, turn)

    def point(self, x: float, y: float) -> tuple[float, float]:
        a, b, c, d, e, f = self.matrix
        return a * x + c * y + e, b * x + d * y + f

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        """The rectangle in visible points, not clipped; corners in order."""
        x0, y0 = self.point(left, bottom)
        x1, y1 = self.point(right, top)
        return Box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))

    def visible(self, box: Box) -> bool:
        """Whether a part of the box lies on the page; false where a coordinate is not finite."""
        return (
            all(map(math.isfinite, box)) and box.x1 > 0 and box.y1 > 0 and box.x0 < self.width and box.y0 < self.height
        )
