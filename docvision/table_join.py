"""Tables that go on on the next page, as one table.

A page's JSON shows what stands on that page, so a continued table stays on its page, boxes and all.  What joining
does there (:func:`mark_continued`) is to give it no header of its own: a repeated header is moved to ``dropped``
with its reason, so that every word keeps its one place, and a first row that was taken for a header no longer is.
The exports then write the parts as one table (:func:`whole_tables`).

A table goes on where it is the last thing on its page, the next page begins with one of as many columns in the same
places, and either the header is repeated there or the first row is a row like those before.  A caption that says
"continued" may stand between.  A row that the page end cuts in two stays two rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from docvision.cells import is_numeric
from docvision.page import Block, Box, Cell, Document, Dropped, Page, Table

REPEATED = "table header repeated on the next page"
FURNITURE = ("header", "footer", "footnote")
CONTINUED = re.compile(r"\b(continued|cont['.]?d?|fortsetzung|suite)\b", re.IGNORECASE)
SAME_LINE = 3.0
"""Points by which a drawn column line may differ between pages."""
LOW, HIGH = 0.6, 0.4
"""A table that goes on ends below this share of its page's height, and begins above that of the next."""


@dataclass(frozen=True)
class Part:
    """A table block and where it stands."""

    page: Page
    index: int
    block: Block
    table: Table


def mark_continued(pages: Sequence[Page]) -> int:
    """Take the header off every table that goes on from the page before, in place.

    Returns:
        Number of continued tables.
    """
    count = 0
    head: Table | None = None
    for above, below in _neighbours(pages):
        if above is None or below is None or not _same_columns(above, below):
            head = None
            continue
        head = head or above.table
        repeated = _repeated_rows(head, below.table)
        if not repeated and not _goes_on(above, below):
            head = None
            continue
        for cell in below.table.cells:
            cell.header = False
        _take_rows(below, repeated)
        count += 1
    return count


def joined_tables(pages: Sequence[Page]) -> dict[tuple[int, int], Table | None]:
    """What to write for the tables that are parts of a larger one.

    Returns:
        (page number, index of the block on it) -> the whole table for its first part, None for the others.  Tables
        on one page only are not in it.
    """
    plan: dict[tuple[int, int], Table | None] = {}
    first: Part | None = None
    for above, below in _neighbours(pages):
        if above is None or below is None or not _is_marked(below) or not _same_columns(above, below):
            first = None
            continue
        first = first or above
        place = first.page.number, first.index
        whole = plan.get(place) or first.table
        plan[place] = append_rows(whole, below.table)
        plan[below.page.number, below.index] = None
    return plan


def whole_tables(document: Document) -> Callable[[Page], Iterator[tuple[int, Block]]]:
    """A function from a page to its (index, block), a table that goes on on later pages whole on its first page."""
    plan = joined_tables(document.pages) if document.settings.get("join_tables") != "off" else {}

    def blocks(page: Page) -> Iterator[tuple[int, Block]]:
        for index, block in enumerate(page.blocks):
            table = plan.get((page.number, index), block.table)
            if table is not None or block.table is None:
                yield index, block if table is block.table else replace(block, table=table)

    return blocks


def append_rows(table: Table, more: Table) -> Table:
    """A table with the rows of another of as many columns below its own."""
    moved = [replace(cell, row=cell.row + table.rows) for cell in more.cells]
    return Table(table.rows + more.rows, table.columns, [*table.cells, *moved])


def _neighbours(pages: Sequence[Page]) -> Iterator[tuple[Part | None, Part | None]]:
    """For each page but the first: the table that ends the page before, and the one that begins this page."""
    for before, page in pairwise(pages):
        yield (_edge(before, last=True), _edge(page, last=False)) if page.number == before.number + 1 else (None, None)


def _edge(page: Page, last: bool) -> Part | None:
    """The table that is the last or the first thing on a page."""
    order = range(len(page.blocks))
    for index in reversed(order) if last else order:
        block = page.blocks[index]
        if block.kind in FURNITURE or (not last and _says_continued(block)):
            continue
        if block.kind != "table" or block.table is None or not block.table.rows:
            return None
        low, high = block.box.y1 > LOW * page.height, block.box.y0 < HIGH * page.height
        return Part(page, index, block, block.table) if (low if last else high) else None
    return None


def _says_continued(block: Block) -> bool:
    return block.kind in ("caption", "text", "heading") and len(block.text) < 80 and bool(CONTINUED.search(block.text))


def _is_marked(part: Part) -> bool:
    return not any(cell.header for cell in part.table.cells)


def _same_columns(above: Part, below: Part) -> bool:
    """As many columns, each over the one with its number and no other."""
    if above.table.columns != below.table.columns or above.table.columns < 2:
        return False
    mine, theirs = _extents(above.table), _extents(below.table)
    pairs = [(mine[k], theirs[k], k) for k in range(above.table.columns) if k in mine and k in theirs]
    if len(pairs) < 2:
        return False
    for one, other, column in pairs:
        common = one.overlap_x(other)
        beside = max((other.overlap_x(box) for k, box in mine.items() if k != column), default=0.0)
        if common <= 0 or common < beside:
            return False
    wide = min(above.block.box.width, below.block.box.width)
    return above.block.box.overlap_x(below.block.box) > 0.8 * wide


def _extents(table: Table) -> dict[int, Box]:
    """Column -> the box around its cells that span no other column."""
    found: dict[int, Box] = {}
    for cell in table.cells:
        box = cell.box or cell.text_box
        if box is not None and cell.column_span == 1:
            found[cell.column] = found[cell.column].union(box) if cell.column in found else box
    return found


def _repeated_rows(head: Table, table: Table) -> int:
    """How many leading rows of a table are those that head the first part; 0 unless all of the header is there."""
    count = head.header_rows
    if not count or count >= table.rows:
        return 0
    return count if _texts(head, count) == _texts(table, count) else 0


def _texts(table: Table, rows: int) -> list[tuple[int, int, str]]:
    cells = [(c.row, c.column, "".join(c.text.split()).casefold()) for c in table.cells if c.row < rows and c.text]
    return sorted(cells)


def _goes_on(above: Part, below: Part) -> bool:
    """Whether the first row of a table without a repeated header is a row like those of the part before."""
    body = [cell for cell in above.table.cells if not cell.header]
    first = [cell for cell in below.table.cells if cell.row == 0]
    figures = _share_of_figures(body)
    if figures >= 0.5:
        return _share_of_figures(first) >= 0.5
    # Words above and below prove nothing; drawn columns at the same places, to the point, do.
    lines, other = (_drawn(part.table) for part in (above, below))
    if lines is None or other is None or any(abs(a - b) > SAME_LINE for a, b in zip(lines, other, strict=True)):
        return False
    return figures < 0.2 or _share_of_figures(first) >= 0.3


def _share_of_figures(cells: Sequence[Cell]) -> float:
    """Share of figures among filled cells, the first column (names) aside."""
    texts = [cell.text for cell in cells if cell.text and cell.column > 0]
    return sum(is_numeric(text) for text in texts) / len(texts) if texts else 0.0


def _drawn(table: Table) -> list[float] | None:
    """Left edges of the columns where every cell knows its box, then the right edge of the last one."""
    if any(cell.box is None for cell in table.cells):
        return None
    columns = _extents(Table(table.rows, table.columns, [replace(cell, text_box=None) for cell in table.cells]))
    if len(columns) < table.columns:
        return None
    return [columns[k].x0 for k in range(table.columns)] + [columns[table.columns - 1].x1]


def _take_rows(part: Part, count: int) -> None:
    """Move the first rows of a table to the page's dropped texts."""
    table = part.table
    for cell in table.cells:
        if cell.row < count and cell.text:
            part.page.dropped.append(Dropped(cell.text, cell.text_box or cell.box or part.block.box, REPEATED))
    kept = [replace(cell, row=cell.row - count) for cell in table.cells if cell.row >= count]
    part.block.table = Table(table.rows - count, table.columns, kept)
