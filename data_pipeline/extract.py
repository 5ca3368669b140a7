"""A rendered PDF page -> its truth: words, lines, blocks and cells with boxes, read from the PDF's own objects.

:mod:`data_pipeline.marks` says which characters and rectangles belong to which element.  The characters of an
element, in drawing order, must spell the element's text; where they do not (a glyph was lost, the page cut it) the page
is refused.  The text gives the word breaks, and tells a hyphen that the typesetter added from one that was written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from data_pipeline.marks import Glyph, Marks
from data_pipeline.table_plans import CellPlan, TablePlan
from data_pipeline.typeset import Element
from docvision.page import Block, Box, Cell, Line, Page, Table, Word, bounding_box

HYPHENS = "-\u00ad\u2010\x02\ufffe"


class TruthError(ValueError):
    """The PDF does not say what the plan says."""


@dataclass(slots=True)
class Truth:
    """What a page says."""

    page: Page
    metadata: dict[str, str]
    """``block N``: JSON with ``table_part`` for a block that is part of a table: ``first_row``, ``rows`` and ``of``
    count rows of the whole table, ``repeated_head`` the rows of headings that are printed again."""


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
        turned = element.cell is not None and element.cell.turned
        if turned:
            glyphs = [glyph.turned() for glyph in glyphs]
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
        for line in (line for part in found for line in part.lines if turned):
            _turn_back(line)
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


def _turn_back(line: Line) -> None:
    """The place of a line whose glyphs were turned to read from left to right."""
    line.angle = 90.0
    line.box = _turned_back(line.box)
    for word in line.words:
        word.box = _turned_back(word.box)


def _turned_back(box: Box) -> Box:
    return Box(box.y0, -box.x1, box.y1, -box.x0)


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


def read_page(marks: Marks, speller: Speller, elements: list[Element], elsewhere: Collection[int] = ()) -> Truth:
    """The page's blocks, in the order of their elements.

    Args:
        marks: what the page holds.
        speller: has read the pages before.
        elements: of all pages.
        elsewhere: numbers of the elements whose rectangles stand on other pages.

    Raises:
        TruthError: the page and the plan disagree, or a page break cuts a cell.
    """
    page = Page(1, round(marks.width, 2), round(marks.height, 2))
    truth = Truth(page, {})
    spelled = {
        n: speller.fragments(n, found)
        for n, found in marks.glyphs.items()
        if n in speller.elements and _is_text(speller.elements[n])
    }
    cells: dict[int, list[Member]] = {}
    for element in elements:
        if element.cell is not None:
            cells.setdefault(id(element.item), []).append((element, element.cell))
    for element in elements:
        if element.cell is not None:
            continue
        if element.item.table is not None:
            for part in table_parts(element.item.table, cells.get(id(element.item), []), marks, elsewhere):
                if part.rows != range(element.item.table.rows):
                    truth.metadata[f"block {len(page.blocks)}"] = part.described()
                page.blocks.append(part.block(spelled))
        elif element.item.figure is not None or element.item.formula:
            page.blocks.extend(_drawn_block(element, marks))
        else:
            for fragment in spelled.get(element.number, []):
                page.blocks.append(_text_block(element, fragment))
    return truth


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


# tables


Member = tuple[Element, CellPlan]
"""A cell of a table, with its number."""


@dataclass(slots=True)
class TablePart:
    """Consecutive rows of a table that stand together in one column of one page."""

    plan: TablePlan
    rows: range
    """Rows of the whole table."""
    head: int
    """Rows of headings that are printed once more above them."""
    cells: list[Member]
    marks: Marks

    def described(self) -> str:
        """JSON for the page's metadata."""
        found = {"first_row": self.rows.start, "rows": len(self.rows), "of": self.plan.rows, "repeated_head": self.head}
        return json.dumps({"table_part": found})

    def block(self, spelled: dict[int, list[Fragment]]) -> Block:
        """The part as a table of its own.

        Raises:
            TruthError: a cell does not hold its text.
        """
        cells, lines = [], []
        for element, c in self.cells:
            parts = spelled.get(element.number, [])
            text = " ".join(part.text for part in parts)
            if text != " ".join(c.printed.split()) or len(parts) > 1:
                raise TruthError("a cell does not hold its text in one place")
            found = [line for part in parts for line in part.lines]
            lines.extend(found)
            row = c.row if c.row < self.head else c.row - self.rows.start + self.head
            box = bounding_box(line.box for line in found) if found else None
            area = self.marks.areas[element.number]
            for x0, y0, x1, y1 in (glyph.box for glyph in self.marks.glyphs.get(element.number, [])):
                if x1 > x0 and not area.contains((x0 + x1) / 2, (y0 + y1) / 2):
                    raise TruthError("a glyph stands outside its cell")
            cells.append(Cell(row, c.column, text, c.row_span, c.column_span, c.header, area, box, source="truth"))
        area = bounding_box(cell.box for cell in cells)
        table = Table(self.head + len(self.rows), self.plan.columns, cells)
        return Block("table", area, "", lines, table=table, source="truth")


def table_parts(plan: TablePlan, cells: list[Member], marks: Marks, elsewhere: Collection[int]) -> list[TablePart]:
    """The parts of a table on this page, from top to bottom of each column.

    Raises:
        TruthError: a cell is cut, or rows are missing in between.
    """
    here = [(element, cell) for element, cell in cells if element.number in marks.areas]
    heads = [(element, cell) for element, cell in here if element.repeated]
    rows = [(element, cell) for element, cell in here if not element.repeated]
    tops: dict[int, float] = {}
    for element, cell in rows:
        top = marks.areas[element.number].y0
        tops[cell.row] = min(top, tops.get(cell.row, top))
    if any(element.number in elsewhere for element, _ in rows) or (heads and not rows):
        raise TruthError("a page break cuts a table inside a row or under its head")
    if not rows:
        return []
    order = sorted(tops)
    starts = [row for i, row in enumerate(order) if not i or tops[row] < tops[order[i - 1]]]
    head = plan.header_rows if heads else 0
    parts = []
    for start, end in zip(starts, [*starts[1:], plan.rows], strict=True):
        own = [(element, cell) for element, cell in rows if start <= cell.row < end]
        stop = max(cell.row + cell.row_span for _, cell in own)
        first = start == head
        part = TablePart(plan, range(0 if first else start, stop), 0 if first else head, [*heads, *own], marks)
        if (
            sum(cell.row_span * cell.column_span for _, cell in part.cells)
            != (len(part.rows) + part.head) * plan.columns
        ):
            raise TruthError("a break cuts a row of a table")
        parts.append(part)
    return parts
