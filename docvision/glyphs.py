"""The characters of a PDF page in content order, with the font, size, place and look of each.

Ligatures are spelled out, hyphens at a line end become plain hyphens, symbol fonts become Unicode, control characters
and characters of no width go.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from ctypes import c_double, c_int, c_uint
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as raw

from docvision import pdfium
from docvision.pdfium import Frame, address

INVISIBLE, FILL_STROKE = 3, 2
"""Text render modes of PDF."""
BOLD_NAME = re.compile(r"bold|black|heavy|semibold|demi|[-.,]b(i|it|d)?$|\.b$|cmbx|-bd|medi$", re.IGNORECASE)
ITALIC_NAME = re.compile(r"italic|oblique|slanted|[-.,]b?i(t)?$|\.i$|cmti|cmmi|-it\b|ital$", re.IGNORECASE)
MONO_NAME = re.compile(r"mono|courier|consol|typewriter|cmtt|menlo|fixed|lettergothic|terminal", re.IGNORECASE)


_LIGATURES = {chr(code): unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_NON_TEXT = {"Cc", "Cs", "Cn"}
_ZERO_WIDTH = set("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
_LINE_ENDS = {10, 13}
_SPACES = {3, 9, 10, 13, 32, 0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000}
"""Code 3 is what a subset font without a map calls its space."""
SYMBOL_FONT = dict(
    zip(
        range(0x41, 0x5B), "\u0391\u0392\u03a7\u0394\u0395\u03a6\u0393\u0397\u0399\u03d1\u039a\u039b\u039c"
        "\u039d\u039f\u03a0\u0398\u03a1\u03a3\u03a4\u03a5\u03c2\u03a9\u039e\u03a8\u0396", strict=True,
    )
) | dict(
    zip(
        range(0x61, 0x7B), "\u03b1\u03b2\u03c7\u03b4\u03b5\u03c6\u03b3\u03b7\u03b9\u03d5\u03ba\u03bb\u03bc"
        "\u03bd\u03bf\u03c0\u03b8\u03c1\u03c3\u03c4\u03c5\u03d6\u03c9\u03be\u03c8\u03b6", strict=True,
    )
) | {code: chr(code) for code in (*range(0x21, 0x41), 0x5B, 0x5D, 0x5F, 0x7B, 0x7C, 0x7D, 0x7E)} | {
    0x2D: "\u2212", 0xA3: "\u2264", 0xA5: "\u221e", 0xA7: "\u25aa", 0xA8: "\u25aa", 0xAB: "\u2194", 0xAC: "\u2190",
    0xAD: "\u2191", 0xAE: "\u2192", 0xAF: "\u2193", 0xB0: "\u00b0", 0xB1: "\u00b1", 0xB3: "\u2265", 0xB4: "\u00d7",
    0xB6: "\u2202", 0xB7: "\u2022", 0xB8: "\u00f7", 0xB9: "\u2260", 0xBB: "\u2248", 0xD0: "\u2220", 0xD6: "\u221a",
    0xD7: "\u22c5", 0xD8: "\u27a2", 0xE0: "\u2192", 0xE5: "\u2211", 0xF2: "\u222b", 0xFC: "\u2713",
}  # fmt: skip
"""Codes of the Symbol font (and common Wingdings bullets), which reach the text as private-use characters."""

SUPERSCRIPTS = str.maketrans("0123456789+", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a")


@dataclass(slots=True)
class Style:
    """What the characters of one text object share."""

    font: str
    size: float
    bold: bool
    italic: bool
    angle: float
    cos: float
    sin: float
    across: float
    """Distance of the baseline from the origin, measured across the writing direction."""
    hidden: bool
    white: bool


@dataclass(slots=True)
class Glyph:
    """A character along its own baseline: from ``start`` to ``end``, in points."""

    text: str
    start: float
    end: float
    style: Style
    spaced: bool = False
    """Whether PDFium sees a space before it."""


class GlyphReader:
    """Characters of a page's text, with fonts looked up once each."""

    def __init__(self, page: pypdfium2.PdfPage, frame: Frame) -> None:
        self.frame = frame
        self.text_page = page.get_textpage()
        self.handle = address(self.text_page)
        self.fonts: dict[int, tuple[str, bool, bool]] = {}

    def glyphs(self) -> list[Glyph | None]:
        """Characters in content order; None where a space was printed."""
        handle, rect = self.handle, raw.FS_RECTF()
        get_unicode, get_object, get_box = pdfium.get_unicode, pdfium.get_text_object, pdfium.get_loose_box
        glyphs: list[Glyph | None] = []
        last_object, style, high, spaced = -1, None, 0, False
        raised: bool | None = None
        for index in range(pdfium.count_chars(handle)):
            code = get_unicode(handle, index)
            if code in _SPACES:
                spaced = True
                if code not in _LINE_ENDS and not pdfium.is_generated(handle, index):
                    glyphs.append(None)
                continue
            if 0xD800 <= code < 0xDC00:
                high = code
                continue
            if high and 0xDC00 <= code < 0xE000:
                code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
            high = 0
            text = chr(code) if 0x21 <= code < 0x7F else _clean(code)
            if not text:
                continue
            item = get_object(handle, index)
            if item != last_object or style is None:
                last_object, raised = item, None
                style = self._style(index, item)
            get_box(handle, index, rect)
            if 0x30 <= code <= 0x39:
                if raised is None:
                    raised = self._is_superior(index, style)
                text = text.translate(SUPERSCRIPTS) if raised else text
            else:
                raised = None
            if style.angle == 0.0 and self.frame.turn == 0:
                shift = self.frame.matrix[4]
                glyphs.append(Glyph(text, rect.left + shift, rect.right + shift, style, spaced))
            else:
                glyphs.append(Glyph(text, *self._extent(index, style, rect), style, spaced))
            spaced = False
        return glyphs

    def _is_superior(self, index: int, style: Style) -> bool:
        """Whether a figure is the font's own superscript: its ink hangs high above the baseline of its type."""
        left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
        if style.angle or not pdfium.get_char_box(self.handle, index, left, right, bottom, top):
            return False
        ink = self.frame.box(left.value, bottom.value, right.value, top.value)
        return style.across - ink.y1 > 0.2 * style.size and 0.1 * style.size < ink.height < 0.6 * style.size

    def _extent(self, index: int, style: Style, rect: raw.FS_RECTF) -> tuple[float, float]:
        """Start and end along the writing direction."""
        if style.angle % 90 == 0:
            box = self.frame.box(rect.left, rect.bottom, rect.right, rect.top)
            ends = box.x0 * style.cos - box.y0 * style.sin, box.x1 * style.cos - box.y1 * style.sin
            return min(ends), max(ends)
        x, y = self._origin(index)
        start = x * style.cos - y * style.sin
        return start, start + 0.5 * style.size

    def _origin(self, index: int) -> tuple[float, float]:
        x, y = c_double(), c_double()
        pdfium.get_origin(self.handle, index, x, y)
        return self.frame.point(x.value, y.value)

    def _style(self, index: int, item: int) -> Style:
        matrix = raw.FS_MATRIX()
        size = pdfium.get_font_size(self.handle, index)
        angle = 0.0
        if pdfium.get_char_matrix(self.handle, index, matrix):
            size *= math.hypot(matrix.c, matrix.d)
            angle = math.degrees(math.atan2(matrix.b, matrix.a))
        angle = (angle - self.frame.turn) % 360
        nearest = round(angle / 90) * 90
        if abs(angle - nearest) < 2:
            angle = float(nearest % 360)
        rect = raw.FS_RECTF()
        pdfium.get_loose_box(self.handle, index, rect)
        box = self.frame.box(rect.left, rect.bottom, rect.right, rect.top)
        tall = box.width if angle in (90, 270) else box.height
        if angle % 90 == 0 and (not math.isfinite(size) or not 0.4 * tall <= size <= 4 * tall) and tall > 0.1:
            size = tall  # Type 3 fonts: the nominal size says nothing
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        if angle % 90 == 0:
            cos, sin = float(round(cos)), float(round(sin))
        x, y = self._origin(index)
        font, bold, italic = self._font(item)
        mode = pdfium.get_render_mode(item) if item else 0
        red, green, blue, alpha = c_uint(), c_uint(), c_uint(), c_uint(255)
        if item:
            pdfium.get_fill_color(item, red, green, blue, alpha)
        return Style(
            font=font,
            size=abs(size) or 1.0,
            bold=bold or mode == FILL_STROKE,
            italic=italic,
            angle=angle,
            cos=cos,
            sin=sin,
            across=x * sin + y * cos,
            hidden=mode == INVISIBLE or (alpha.value == 0 and mode in (0, 4)),
            white=mode in (0, 4) and bool(item) and min(red.value, green.value, blue.value) >= 250,
        )

    def _font(self, item: int) -> tuple[str, bool, bool]:
        """Name without the subset tag, bold, italic."""
        handle = pdfium.get_font(item) if item else 0
        if not handle:
            return "", False, False
        if handle not in self.fonts:
            buffer = ctypes.create_string_buffer(256)
            pdfium.get_font_name(handle, ctypes.addressof(buffer), 256)
            name = re.sub(r"^[A-Z]{6}\+", "", buffer.value.decode("utf-8", "replace"))
            flags, tilt = pdfium.get_font_flags(handle), c_int()
            pdfium.get_italic_angle(handle, tilt)
            bold = bool(BOLD_NAME.search(name)) or bool(flags & 0x40000) or pdfium.get_font_weight(handle) >= 600
            italic = bool(ITALIC_NAME.search(name)) or bool(flags & 0x40) or abs(tilt.value) >= 4
            self.fonts[handle] = (name, bold, italic)
        return self.fonts[handle]


def _clean(code: int) -> str:
    """The text of one character code; empty for what is no text."""
    if code in (0x02, 0xAD, 0xFFFE):
        return "-"  # PDFium's mark for a hyphen at a line end; a soft hyphen that was printed
    if 0xF020 <= code <= 0xF0FF:
        return SYMBOL_FONT.get(code - 0xF000, "\ufffd")
    char = chr(code)
    if char in _LIGATURES:
        return _LIGATURES[char]
    if 0xFB50 <= code <= 0xFDFF or 0xFE70 <= code <= 0xFEFC:
        return unicodedata.normalize("NFKC", char).strip()  # Arabic presentation forms
    category = unicodedata.category(char)
    if category in _NON_TEXT or char in _ZERO_WIDTH:
        return ""
    return "\ufffd" if category == "Co" else char
