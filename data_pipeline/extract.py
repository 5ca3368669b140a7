"""A rendered PDF page -> its truth: words, lines, blocks and cells with boxes, read from the PDF's own objects.

Each character and each rectangle names its element by its colour (:mod:`data_pipeline.typeset`).  The characters of an
element, in drawing order, must spell the element's text; where they do not (a glyph was lost, the page cut it) the page
is refused.  The text gives the word breaks, and tells a hyphen that the typesetter added from one that was written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from ctypes import POINTER, c_double, c_float, c_int, c_uint, c_void_p
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from data_pipeline.tables import CellPlan, TablePlan
from data_pipeline.typeset import Element, number_of
from docvision.page import Block, Box, Cell, Line, Page, Table, Word, bounding_box

HYPHENS = "-\u00ad\u2010\x02\ufffe"


class TruthError(ValueError):
    """The PDF does not say what the plan says."""


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
    return Marks(width, height, _read_glyphs(page, height), _read_areas(page, height))


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
        glyph = Glyph(chr(code), box, height - y.value, _font_size(handle, index))
        glyphs.setdefault(numbers[item], []).append(glyph)
    text_page.close()
    return glyphs


def _read_areas(page: pypdfium2.PdfPage, height: float) -> dict[int, Box]:
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


# words and lines


@dataclass(slots=True)
class Fragment:
    """The part of an element's text that stands in one column of one page."""

    lines: list[Line]
    text: str
    first: bool
    """Whether it holds the element's beginning."""


class Speller:
    """Turns the glyphs of elements into lines, page by page: an element may begin on one page and end on the next."""

    def __init__(self, elements: Iterable[Element]) -> None:
        self.elements = {element.number: element for element in elements}
        self.places: dict[int, int] = {}

    def fragments(self, number: int, glyphs: list[Glyph]) -> list[Fragment]:
        """The element's fragments on this page.

        Raises:
            TruthError: the glyphs do not spell the text.
        """
        element = self.elements[number]
        words = element.text.split()
        letters = "".join(words)
        owner = [index for index, word in enumerate(words) for _ in word]
        at = 0 if element.repeated else self.places.get(number, 0)
        found: list[Fragment] = []
        rows: list[list[tuple[Glyph, int]]] = []
        start = at
        for place, glyph in enumerate(glyphs):
            previous = glyphs[place - 1] if place else None
            if previous is not None and glyph.baseline < previous.baseline - 1.2 * previous.size:
                found.append(self._fragment(rows, start))
                rows, start = [], at
            if not rows or _starts_line(previous, glyph):
                rows.append([])
            expected = letters[at : at + 1]
            if glyph.text == expected or (glyph.text in HYPHENS and expected and expected in "-\u2010"):
                # PDFium reports a hyphen at a line's end as a control character.
                glyph.text = expected
                rows[-1].append((glyph, owner[at]))
                at += 1
            elif glyph.text in HYPHENS and at:
                # Added by the typesetter; some languages repeat a written hyphen on the next line.
                glyph.text = "\u00ad"
                rows[-1].append((glyph, owner[min(at, len(owner) - 1)] if not rows[-1] else owner[at - 1]))
            else:
                kind, written = element.item.kind, letters[at : at + 12]
                raise TruthError(f"the text of a {kind} reads {glyph.text!r} where {written!r} was written")
        self.places[number] = at
        found.append(self._fragment(rows, start))
        return found

    def _fragment(self, rows: list[list[tuple[Glyph, int]]], start: int) -> Fragment:
        rows = [row for row in rows if row]
        lines = [_line(row) for row in rows]
        parts: list[str] = []
        for line, row, following in zip(lines, rows, [*rows[1:], None], strict=True):
            # A word that goes on in the next line is put together again, without the hyphen that was added.
            joined = following is not None and following[0][1] == row[-1][1]
            parts.append(line.text.strip("\u00ad") + ("" if joined else " "))
            line.text = line.text.replace("\u00ad", "-")
        return Fragment(lines, "".join(parts).strip(), start == 0)


def _starts_line(previous: Glyph | None, glyph: Glyph) -> bool:
    if previous is None:
        return True
    size = previous.size if previous.size > glyph.size else glyph.size
    return glyph.box[0] < previous.box[0] - 0.6 * size or abs(glyph.baseline - previous.baseline) > 0.75 * size


def _line(row: list[tuple[Glyph, int]]) -> Line:
    """A line of words; consecutive glyphs of one owner are a word."""
    words: list[Word] = []
    start = 0
    for stop in range(1, len(row) + 1):
        if stop == len(row) or row[stop][1] != row[start][1]:
            glyphs = [glyph for glyph, _ in row[start:stop]]
            # A blank glyph has no box.
            boxes = [glyph.box for glyph in glyphs if glyph.box[2] > glyph.box[0]] or [glyphs[0].box]
            x0, y0, x1, y1 = zip(*boxes, strict=True)
            text = "".join(glyph.text for glyph in glyphs)
            words.append(
                Word(text, Box(min(x0), min(y0), max(x1), max(y1)), source="truth", size=round(glyphs[0].size, 2))
            )
            start = stop
    text = " ".join(word.text for word in words)
    for word in words:
        word.text = word.text.replace("\u00ad", "-")
    return Line(text, bounding_box(word.box for word in words), words, source="truth")


# blocks


def read_page(marks: Marks, speller: Speller, elements: list[Element]) -> Page:
    """The page's blocks, in the order of their elements."""
    page = Page(1, round(marks.width, 2), round(marks.height, 2))
    spelled = {
        n: speller.fragments(n, found)
        for n, found in marks.glyphs.items()
        if n in speller.elements and _is_text(speller.elements[n])
    }
    cells: dict[int, list[tuple[int, CellPlan]]] = {}
    for element in elements:
        if element.cell is not None:
            cells.setdefault(id(element.item), []).append((element.number, element.cell))
    for element in elements:
        if element.cell is not None:
            continue
        if element.item.table is not None:
            page.blocks.extend(_table_block(element.item.table, cells.get(id(element.item), []), marks, spelled))
        elif element.item.figure is not None or element.item.formula:
            page.blocks.extend(_drawn_block(element, marks))
        else:
            for part in spelled.get(element.number, []):
                page.blocks.append(_text_block(element, part))
    return page


def _is_text(element: Element) -> bool:
    return element.item.figure is None and not element.item.formula


def _text_block(element: Element, part: Fragment) -> Block:
    item = element.item
    marker = item.marker if part.first else ""
    text = part.text
    if item.kind == "code":
        text = _indented(item.text, part)
    elif marker and text.startswith(marker):
        text = text[len(marker) :].lstrip()
    box = bounding_box(line.box for line in part.lines)
    return Block(item.kind, box, text, part.lines, level=item.level, marker=marker, source="truth")


def _indented(written: str, part: Fragment) -> str:
    """A listing keeps its line ends and indents, where all of it is here."""
    lines = [line for line in written.split("\n") if line.strip()]
    return "\n".join(lines) if len(lines) == len(part.lines) else "\n".join(line.text for line in part.lines)


def _drawn_block(element: Element, marks: Marks) -> list[Block]:
    """A figure with its lettering, or a formula as one line."""
    area = marks.areas.get(element.number)
    if area is None:
        return []
    glyphs = marks.glyphs.get(element.number, [])
    rows: list[list[tuple[Glyph, int]]] = []
    if element.item.figure is not None:
        for place, glyph in enumerate(glyphs):
            previous = glyphs[place - 1] if place else None
            if previous is None or _starts_line(previous, glyph) or glyph.box[0] > previous.box[2] + glyph.size:
                rows.append([])
            rows[-1].append((glyph, 0))
        return [Block("figure", area, "", [_line(row) for row in rows], source="truth")]
    text = "".join(glyph.text for glyph in glyphs)
    box = bounding_box(glyph.box for glyph in glyphs) if glyphs else area
    return [
        Block(
            "formula", box, text, [Line(text, box, [Word(text, box, source="truth")], source="truth")], source="truth"
        )
    ]


def _table_block(
    plan: TablePlan, members: list[tuple[int, CellPlan]], marks: Marks, spelled: dict[int, list[Fragment]]
) -> list[Block]:
    """A table whose cells are all on this page.

    Raises:
        TruthError: the page cuts the table.
    """
    here = [number for number, _ in members if number in marks.areas]
    if not here:
        return []
    if len(here) != len(members):
        raise TruthError(f"the page cuts a table of {len(members)} cells after {len(here)}")
    cells, lines = [], []
    for number, c in members:
        parts = spelled.get(number, [])
        if c.text and len(parts) != 1:
            raise TruthError(f"a cell's text stands in {len(parts)} places")
        found = parts[0].lines if parts else []
        lines.extend(found)
        box = bounding_box(line.box for line in found) if found else None
        cells.append(
            Cell(
                c.row,
                c.column,
                parts[0].text if parts else "",
                c.row_span,
                c.column_span,
                c.header,
                marks.areas[number],
                box,
                source="truth",
            )
        )
    area = bounding_box(cell.box for cell in cells)
    return [Block("table", area, "", lines, table=Table(plan.rows, plan.columns, cells), source="truth")]
