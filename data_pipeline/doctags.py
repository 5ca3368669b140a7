"""DocTags, docling's markup of pages (SmolDocling, arXiv 2503.11576).

    <doctag><section_header_level_1><loc_50><loc_40><loc_450><loc_60>Results</section_header_level_1>
    <text><loc_50>...</text><otsl><loc_50>...<ched>Year<fcel>2024<nl></otsl><page_break>...</doctag>

Positions are left, top, right, bottom on a grid of 500 x 500 over the page.  Kept both ways: pages, kinds, order, text,
heading and list levels, numbers of ordered items, tables' spans, texts and header cells, boxes to 1/500 of the page.
Not held: the size of a page (it reads as 500 x 500 points unless it is given), lines and words, bullets, boxes of
cells, markers elsewhere, sources and confidence, empty ends of a text, ``dropped``; a place that no cell covers comes
back as an empty cell.  A heading of level 1 is a ``title``, of level n a ``section_header_level_(n - 1)``.

The markup has no escapes.  Text that looks like one of its tags is written with ``&lt;``, and ``&lt;`` and ``&amp;``
of the text with ``&amp;``, so that reading gives the text back; all other text stands as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from data_pipeline.otsl import from_otsl, to_otsl
from docvision.page import Block, BlockKind, Box, Document, Page, Table

GRID = 500
ELEMENTS: dict[str, BlockKind] = {
    "text": "text", "caption": "caption", "footnote": "footnote", "formula": "formula", "code": "code",
    "page_header": "header", "page_footer": "footer", "picture": "figure",
}  # fmt: skip
"""Written and read."""
ALSO_READ: dict[str, BlockKind] = {"paragraph": "text", "reference": "text", "chart": "figure"}
_TAGS = {kind: tag for tag, kind in ELEMENTS.items()}
_CELL = r"fcel|ecel|ched|rhed|srow|lcel|ucel|xcel|nl"
_LISTS = r"ordered_list|unordered_list"
_NAMES = (
    rf"doctag|page_break|{'|'.join([*ELEMENTS, *ALSO_READ])}|title|section_header_level_\d+|list_item|{_LISTS}"
    rf"|otsl|document_index|{_CELL}|loc_\d+"
)
_TAG = re.compile(rf"<(/?)({_NAMES})>")
_NUMBERED = re.compile(r"(\d{1,9}[.)])(?: |$)")
_CLASS = re.compile(r"<\w{1,40}>")
"""Class of a picture or language of a listing, first in its element; a Block has no place for it."""


def to_doctags(document: Document) -> str:
    """The document as one line for each element, one ``doctag`` around all pages."""
    pages = ["".join(_page(page)) for page in document.pages]
    return "<doctag>\n" + "<page_break>\n".join(pages) + "</doctag>\n"


def _page(page: Page) -> Iterator[str]:
    opened: list[str] = []
    for block in page.blocks:
        if block.kind == "list":
            yield from _list_item(block, page, opened)
            continue
        yield from _close(opened, 0)
        if block.kind == "table" and block.table is not None:
            yield f"<otsl>{_locations(block.box, page)}{table_to_doctags(block.table)}</otsl>\n"
        elif block.kind == "table":
            yield _element("text", block, page)
        else:
            yield _element(_heading(block.level) if block.kind == "heading" else _TAGS[block.kind], block, page)
    yield from _close(opened, 0)


def _heading(level: int) -> str:
    return "title" if level <= 1 else f"section_header_level_{level - 1}"


def _element(tag: str, block: Block, page: Page) -> str:
    return f"<{tag}>{_locations(block.box, page)}{_escape(block.text)}</{tag}>\n"


def _list_item(block: Block, page: Page, opened: list[str]) -> Iterator[str]:
    """One item, after as many list tags as its level asks for."""
    numbered = _NUMBERED.fullmatch(block.marker)
    kind = "ordered_list" if numbered else "unordered_list"
    depth = block.level + 1
    yield from _close(opened, depth)
    if len(opened) == depth and opened[-1] != kind:
        yield from _close(opened, depth - 1)
    while len(opened) < depth:
        opened.append(kind)
        yield f"<{kind}>\n"
    shown = f"{block.marker} {block.text}" if numbered else block.text
    yield f"<list_item>{_locations(block.box, page)}{_escape(shown)}</list_item>\n"


def _close(opened: list[str], keep: int) -> Iterator[str]:
    while len(opened) > keep:
        yield f"</{opened.pop()}>\n"


def _locations(box: Box, page: Page) -> str:
    sides = (page.width, page.height) * 2
    places = (value / side if side else 0.0 for value, side in zip(box, sides, strict=True))
    return "".join(f"<loc_{min(max(round(GRID * place), 0), GRID)}>" for place in places)


def table_to_doctags(table: Table) -> str:
    """What stands inside ``<otsl>``."""
    tokens, _ = to_otsl(table)
    cells = iter(sorted(table.cells, key=lambda cell: (cell.row, cell.column)))
    starts = {(cell.row, cell.column): cell for cell in cells}
    parts: list[str] = []
    row = column = 0
    for token in tokens:
        if token == "NL":
            parts.append("<nl>")
            row, column = row + 1, 0
            continue
        cell = starts.get((row, column)) if token == "C" else None
        if cell is not None and (cell.header or cell.text.strip()):
            parts.append(f"<{'ched' if cell.header else 'fcel'}>{_escape(cell.text)}")
        else:
            parts.append("<ecel>" if token == "C" else f"<{token.lower()}cel>")
        column += 1
    return "".join(parts)


def _escape(text: str) -> str:
    text = re.sub(r"&(?=amp;|lt;)", "&amp;", text.strip())
    if _CLASS.match(text):
        text = "&lt;" + text[1:]
    return _TAG.sub(lambda match: "&lt;" + match[0][1:], text)


def _unescape(text: str) -> str:
    return text.strip().replace("&lt;", "<").replace("&amp;", "&")


def from_doctags(text: str, width: float = GRID, height: float = GRID, source: str = "") -> Document:
    """The pages of a DocTags text.

    Args:
        text: with or without the ``doctag`` element around it.
        width: of each page in points; the markup has no sizes.
        height: likewise.
        source: name of the document.

    Raises:
        ValueError: an element is unknown, open at the end or closed twice; the message gives the line.
    """
    return _Reader(text, width, height).document(source)


class _Reader:
    """One pass over the tags, one method for each kind of element."""

    def __init__(self, text: str, width: float, height: float) -> None:
        self.text = text
        self.tags = list(_TAG.finditer(text))
        self.next = 0
        self.position = 0
        """End of what was read."""
        self.size = width, height
        self.lists: list[str] = []

    def document(self, source: str) -> Document:
        pages = [self._new_page(1)]
        while self.next < len(self.tags):
            match = self.tags[self.next]
            closing, name = match[1] == "/", match[2]
            self.next += 1
            self._nothing_before(match.start())
            self.position = match.end()
            if name == "doctag":
                continue
            if name == "page_break" and not closing:
                pages.append(self._new_page(len(pages) + 1))
            elif name in ("ordered_list", "unordered_list"):
                self._list(match)
            elif closing:
                raise self._fail(match.start(), f"</{name}> closes nothing")
            else:
                pages[-1].blocks.extend(self._element(match))
        self._nothing_before(len(self.text))
        if self.lists:
            raise self._fail(len(self.text), f"<{self.lists[-1]}> is not closed")
        return Document(source, pages)

    def _new_page(self, number: int) -> Page:
        return Page(number, float(self.size[0]), float(self.size[1]))

    def _fail(self, place: int, reason: str) -> ValueError:
        return ValueError(f"line {self.text.count(chr(10), 0, place) + 1}: {reason}")

    def _nothing_before(self, place: int) -> None:
        """Between elements there is only white space; anything else would be lost."""
        between = self.text[self.position : place]
        if between.strip():
            start = self.position + len(between) - len(between.lstrip())
            raise self._fail(start, f"{between.split()[0][:40]!r} stands outside the known elements")

    def _list(self, match: re.Match[str]) -> None:
        if match[1] != "/":
            self.lists.append(match[2])
        elif self.lists and self.lists[-1] == match[2]:
            self.lists.pop()
        else:
            raise self._fail(match.start(), f"</{match[2]}> closes nothing")

    def _element(self, start: re.Match[str]) -> list[Block]:
        """One element up to its closing tag; a caption inside a table or picture comes as a block before it."""
        name = start[2]
        if name.startswith("loc_") or re.fullmatch(_CELL, name):
            raise self._fail(start.start(), f"<{name}> is no element of a page")
        inner: list[Block] = []
        locations: list[int] = []
        pieces: list[tuple[str, str]] = [("", "")]
        while self.next < len(self.tags):
            match = self.tags[self.next]
            self.next += 1
            pieces[-1] = pieces[-1][0], pieces[-1][1] + self.text[self.position : match.start()]
            self.position = match.end()
            if match[2].startswith("loc_") and len(locations) < 4:
                locations.append(int(match[2].removeprefix("loc_")))
            elif match[1] == "/" and match[2] == name:
                return [*inner, self._block(start, locations, pieces)]
            elif match[1] != "/" and match[2] == "caption":
                inner += self._element(match)
            elif match[1] != "/" and re.fullmatch(_CELL, match[2]):
                pieces.append((match[2], ""))
            else:
                raise self._fail(match.start(), f"{match[0]} inside <{name}>")
        raise self._fail(start.start(), f"<{name}> is not closed")

    def _block(self, start: re.Match[str], locations: list[int], pieces: list[tuple[str, str]]) -> Block:
        name = start[2]
        if locations and len(locations) != 4:
            raise self._fail(start.start(), f"<{name}> has {len(locations)} positions instead of 4")
        x, y = self.size[0] / GRID, self.size[1] / GRID
        box = Box(*(float(value) for value in locations or (0, 0, 0, 0))).scale(x, y)
        if name in ("otsl", "document_index"):
            return Block("table", box, table=self._table(start, pieces), source="truth")
        text = pieces[0][1].strip()
        kind = (ELEMENTS | ALSO_READ).get(name)
        if kind in ("figure", "code"):
            text = _CLASS.sub("", text, count=1) if _CLASS.match(text) else text
        text = _unescape(text)
        if kind == "figure" and len(pieces) > 1:
            return Block("figure", box, text, table=self._table(start, pieces), source="truth")
        if len(pieces) > 1:
            raise self._fail(start.start(), f"<{pieces[1][0]}> stands outside a table, in <{name}>")
        if name == "list_item":
            level = max(len(self.lists) - 1, 0)
            found = _NUMBERED.match(text) if self.lists[-1:] == ["ordered_list"] else None
            marker, text = (found[1], text[found.end() :].strip()) if found else ("", text)
            return Block("list", box, text, level=level, marker=marker, source="truth")
        if name == "title" or name.startswith("section_header_level_"):
            level = 1 if name == "title" else int(name.rsplit("_", 1)[1]) + 1
            return Block("heading", box, text, level=level, source="truth")
        if kind is None:
            raise self._fail(start.start(), f"<{name}> cannot stand alone")
        return Block(kind, box, text, source="truth")

    def _table(self, start: re.Match[str], pieces: list[tuple[str, str]]) -> Table:
        cells = [(token, text) for token, text in pieces[1:]]
        texts = [_unescape(text) for token, text in cells if token in ("fcel", "ecel", "ched", "rhed", "srow")]
        try:
            return from_otsl([token for token, _ in cells], texts)
        except ValueError as error:
            raise self._fail(start.start(), str(error)) from None
