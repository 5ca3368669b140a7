"""HTML tables read back: as a tree of elements, and as a :class:`docvision.page.Table`.

Predictions of other tools come as HTML of any quality, so nothing here raises on bad markup: cells, rows and
sections close each other as browsers have it, tags that close nothing are skipped, and spans that are no sensible
number count as 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from docvision.page import Cell, Table

VOID = frozenset({"br", "img", "hr", "col", "input", "wbr", "meta", "link"})
SECTIONS = frozenset({"thead", "tbody", "tfoot"})
CELLS = frozenset({"td", "th"})
MAX_DEPTH = 200
"""Open elements; deeper ones are read as if they were not there, so that walking the tree never runs out of stack."""
MAX_SPAN = 1000
"""What HTML allows; a model in a loop writes more."""
MAX_PLACES = 1_000_000
"""Places of a grid; a span that would make it larger counts as 1."""


@dataclass(slots=True)
class Node:
    """An element: its text before the first child, its children, and the text after it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    tail: str = ""
    children: list[Node] = field(default_factory=list)

    def descendants(self) -> int:
        """Number of elements below this one."""
        return sum(1 + child.descendants() for child in self.children)

    def find(self, tag: str) -> Node | None:
        """The first element of this name below this one."""
        for child in self.children:
            found = child if child.tag == tag else child.find(tag)
            if found is not None:
                return found
        return None

    def span(self, name: str) -> int:
        """``colspan`` or ``rowspan`` as a number from 1."""
        value = self.attributes.get(name, "1").strip()
        return min(max(int(value), 1), MAX_SPAN) if value.isascii() and value.isdigit() and len(value) < 6 else 1

    def plain_text(self) -> str:
        """All text inside; a ``<br>`` is a line feed, and line feeds of the source are spaces."""
        parts = [self.text.replace("\n", " ")]
        for child in self.children:
            parts += ["\n" if child.tag == "br" else child.plain_text(), child.tail.replace("\n", " ")]
        return "".join(parts)


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in CELLS:
            self._close(CELLS, "tr")
        elif tag == "tr":
            self._close({"tr"}, "table")
        elif tag in SECTIONS:
            self._close(SECTIONS, "table")
        if len(self.open) > MAX_DEPTH:
            return
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        fence = "" if tag == "table" else "table" if tag in CELLS | SECTIONS or tag == "tr" else "td"
        self._close({tag}, fence)

    def handle_data(self, data: str) -> None:
        node = self.open[-1]
        if node.children:
            node.children[-1].tail += data
        else:
            node.text += data

    def _close(self, tags: frozenset[str] | set[str], fence: str) -> None:
        """End the innermost open element of ``tags``, unless a ``fence`` element stands between."""
        for index in range(len(self.open) - 1, 0, -1):
            if self.open[index].tag in tags:
                del self.open[index:]
                return
            if self.open[index].tag in (fence, "table" if fence else ""):
                return


def parse_html(html: str) -> Node:
    """The elements of a piece of HTML below a nameless root."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    return builder.root


def first_table(html: str) -> Node | None:
    """The first ``<table>`` of a piece of HTML; None where there is none."""
    return parse_html(html).find("table")


def html_to_table(html: str) -> Table | None:
    """The first ``<table>`` as a grid of cells; None where there is none.

    A row without cells stays a row.  ``th``, and ``td`` inside ``thead``, are header cells.  Rows of unequal length
    leave holes at the right, as :class:`docvision.page.Table` allows.
    """
    node = first_table(html)
    if node is None:
        return None
    cells: list[Cell] = []
    taken: set[tuple[int, int]] = set()
    rows = list(_rows(node, head=False))
    for number, (row, head) in enumerate(rows):
        column = 0
        for item in row.children:
            if item.tag not in CELLS:
                continue
            while (number, column) in taken:
                column += 1
            tall, wide = min(item.span("rowspan"), len(rows) - number), item.span("colspan")
            if len(taken) + tall * wide > MAX_PLACES:
                tall = wide = 1
            taken.update((number + i, column + j) for i in range(tall) for j in range(wide))
            text = "\n".join(" ".join(line.split()) for line in item.plain_text().strip().split("\n"))
            cells.append(Cell(number, column, text, tall, wide, header=head or item.tag == "th"))
            column += wide
    columns = max((cell.column + cell.column_span for cell in cells), default=0)
    return Table(len(rows), columns, cells)


def _rows(node: Node, head: bool) -> list[tuple[Node, bool]]:
    """Rows of a table, not of tables inside its cells, each with whether it stands in a thead."""
    found: list[tuple[Node, bool]] = []
    for child in node.children:
        if child.tag == "tr":
            found.append((child, head))
        elif child.tag not in CELLS and child.tag != "table":
            found += _rows(child, head or child.tag == "thead")
    return found


def pubtabnet_html(table: Table) -> str:
    """A table as PubTabNet writes it: td only, thead for the header rows, tbody for the others, text as it is.

    What is compared is written by this function on both sides, so that th against td or a missing thead tag is
    never counted as an error of structure.
    """
    inner = [cell for cell in table.cells if 0 <= cell.row < table.rows and 0 <= cell.column < table.columns]
    table = Table(table.rows, table.columns, inner)  # a stream gone wrong may name cells outside
    grid = table.grid()
    starts: dict[int, list[Cell]] = {row: [] for row in range(table.rows)}
    for cell in inner:
        starts[cell.row].append(cell)
    for row, places in enumerate(grid):
        starts[row] += [Cell(row, column) for column, cell in enumerate(places) if cell is None]
    head = table.header_rows
    rows = ["<tr>" + "".join(map(_td, sorted(starts[row], key=lambda cell: cell.column))) + "</tr>" for row in starts]
    parts = [("thead", rows[:head]), ("tbody", rows[head:])]
    inside = "".join(f"<{name}>{''.join(part)}</{name}>" for name, part in parts if part)
    return f"<html><body><table>{inside}</table></body></html>"


def _td(cell: Cell) -> str:
    spans = (f' rowspan="{cell.row_span}"' if cell.row_span > 1 else "") + (
        f' colspan="{cell.column_span}"' if cell.column_span > 1 else ""
    )
    text = " ".join(cell.text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<td{spans}>{text}</td>"
