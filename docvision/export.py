"""A Document as Markdown, HTML, JSON, CSV or plain text.

Every export shows the blocks in reading order and nothing that is not in them.  Markdown is CommonMark plus
pipe tables; characters are escaped only where a Markdown reader would take them for syntax, so prose stays
prose.  A table becomes a pipe table where that loses nothing (no spans, one line per cell, at most one header
row) and an HTML table otherwise.  Running headers and footers are left out unless asked for.

Limits: bold, italic and links of single words are not written; a formula is written as mathematics only when
its text is TeX, which a PDF's text layer never is.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, get_args

from pydantic import TypeAdapter

from docvision import markdown
from docvision.blocks import join_lines
from docvision.markdown import clean, escape_inline, escape_line_start, fenced, heading, is_tex, paragraph
from docvision.page import Block, Cell, Document, Page, Table
from docvision.table_join import whole_tables

TableStyle = Literal["auto", "html", "markdown"]
ImageNames = Mapping[tuple[int, int], str]
"""(page number, index of the block on that page) -> address of the picture that was written for it."""

BULLETS = frozenset("-*+\u2022\u00b7\u2023\u2043\u204c\u204d\u2219\u25aa\u25ab\u25a0\u25a1\u25b6\u25b8\u25ba\u25cb"
                    "\u25cf\u25e6\u2013\u2014\u2012\u2212\u27a2\u27a4\u2713\u2714\u2756\u2794\u00bb\u203a")  # fmt: skip
_NUMBER = re.compile(r"(\d{1,9})([.)])")
_PAGE_FURNITURE = ("header", "footer")
_STYLE = (
    "body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 serif}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #999;padding:.2rem .5rem;text-align:left}"
    "pre{overflow-x:auto;background:#f4f4f4;padding:.5rem}.header,.footer,.footnote,.caption{font-size:.85rem}"
    ".page+.page{border-top:1px solid #ccc}.marked{list-style:none}"
)


def to_markdown(
    document: Document, headers: bool = False, tables: TableStyle = "auto", images: ImageNames | None = None,
    anchors: bool = False,
) -> str:  # fmt: skip
    """Markdown of all pages, ending in one line feed; empty for a document without text.

    Args:
        document: what to write.
        headers: also write running headers and footers.
        tables: "auto" (see the top of this file), or one form for all of them; "markdown" writes the text of a
            spanning cell once and leaves the other places empty.
        images: pictures that were written for figure blocks; a figure without one is not shown.
        anchors: begin each page with ``<a id="page-3"></a>``, for links to it.
    """
    if tables not in get_args(TableStyle):
        raise ValueError(f"tables={tables!r}: one of {', '.join(get_args(TableStyle))}")
    waiting = [page.number for page in document.pages] if anchors else []
    parts: list[tuple[str, str]] = []
    items = _ListItems()
    for page, index, block in _reading(document, headers):
        while page.number in waiting:
            items.close()
            parts.append(("anchor", f'<a id="page-{waiting.pop(0)}"></a>'))
        if block is None:
            parts.append(("comment", _comment(f"page {page.number} failed: {page.error}")))
        elif block.kind == "list":
            parts.extend(items.write(block))
        else:
            body = _block_markdown(block, tables, (images or {}).get((page.number, index), ""))
            if body:
                items.close()
                parts.append((block.kind, body))
    return _join_blocks(parts)


def _reading(document: Document, headers: bool) -> Iterator[tuple[Page, int, Block | None]]:
    """All blocks to be shown as (page, index on it, block); a paragraph cut by a page end comes whole.

    A page that failed gives one item without a block.
    """
    held: tuple[Page, int, Block] | None = None
    whole = whole_tables(document)
    for page in document.pages:
        if page.status == "failed":
            if held:
                yield held
                held = None
            yield page, 0, None
        for index, block in whole(page):
            if block.kind in _PAGE_FURNITURE and not headers:
                continue
            if held and held[0] is not page and not headers and _goes_on(held[2], block):
                held = page, index, replace(held[2], text=join_lines([held[2].text, block.text]))
                continue
            if held:
                yield held
            held = page, index, block
    if held:
        yield held


def _goes_on(block: Block, other: Block) -> bool:
    """Whether the last block of a page is one sentence with the first of the next."""
    if block.kind not in ("text", "list") or other.kind != "text" or not other.text or not block.text:
        return False
    cut = re.search(r"\w[-\u2010]$", block.text) is not None
    return other.text[0].islower() and (cut or re.search(r"[\w,(]$", block.text) is not None)


def _join_blocks(parts: list[tuple[str, str]]) -> str:
    """One blank line between blocks, none between the items of a list."""
    out: list[str] = []
    for number, (kind, body) in enumerate(parts):
        if number:
            out.append("\n" if kind == parts[number - 1][0] == "list" else "\n\n")
        out.append(body)
    return "".join(out) + "\n" if out else ""


def _block_markdown(block: Block, tables: TableStyle, picture: str) -> str:
    text = clean(block.text)
    if block.kind == "table":
        return table_to_markdown(block.table, tables) if block.table is not None else paragraph(text)
    if block.kind == "code":
        return fenced(block_code(block))
    if block.kind == "heading":
        return heading(text, block.level)
    if block.kind == "formula" and is_tex(text):
        return markdown.formula(text)
    if block.kind == "figure":
        shown = markdown.image("figure", picture) if picture else ""
        return "\n\n".join(part for part in (shown, paragraph(text)) if part)
    return paragraph(_marked(block))


class _ListItems:
    """Writes list blocks one after another, remembering how far each open level is indented."""

    def __init__(self) -> None:
        self.close()

    def close(self) -> None:
        """The next item starts a new list."""
        self.indents: list[int] = [0]
        self.numbers: list[int | None] = []

    def write(self, block: Block) -> Iterator[tuple[str, str]]:
        marker, text = split_marker(block)
        text = " ".join(text.split())
        if not text and not marker:
            return
        level = min(max(block.level, 0), len(self.numbers))
        number = _NUMBER.fullmatch(marker)
        bullet = marker if number else "-"
        if not number and marker and marker not in BULLETS:
            text = f"{marker} {text}".rstrip()  # "a)" or "(iii)" is no Markdown marker: keep it as text
        here = int(number[1]) if number else None
        previous = self.numbers[level] if level < len(self.numbers) else None
        if here is not None and previous is not None and here != previous + 1:
            # A Markdown reader counts on from the first item; a comment ends the list, so 1, 3 stays 1, 3.
            yield "list", " " * self.indents[level] + "<!-- -->"
        body = escape_line_start(escape_inline(text), first=True)
        yield "list", (" " * self.indents[level] + bullet + " " + body).rstrip(" ")
        self.numbers[level:] = [here]
        self.indents[level + 1 :] = [self.indents[level] + len(bullet) + 1]


def split_marker(block: Block) -> tuple[str, str]:
    """A block's marker and its text, which does not repeat the marker."""
    return clean(block.marker).strip(), clean(block.text).strip()


def _marked(block: Block) -> str:
    """Text of a block other than a list item, with its marker (a footnote's number) in front."""
    marker, text = split_marker(block)
    return f"{marker} {text}" if marker else text


def block_code(block: Block) -> str:
    """Program text with its line feeds: the block's own, else one line a line."""
    if "\n" in block.text or not block.lines:
        return clean(block.text).strip("\n")
    return "\n".join(clean(line.text) for line in block.lines)


# Tables


def table_to_markdown(table: Table, style: TableStyle = "auto") -> str:
    """A pipe table, or the HTML table where ``style`` says so or "auto" finds that pipes would lose something."""
    if not table.rows or not table.columns:
        return ""
    simple = not table.has_spans and table.header_rows <= 1
    simple = simple and not any("\n" in cell.text.strip() for cell in table.cells)
    if style == "html" or (style == "auto" and not simple):
        return table_to_html(table)
    rows = [[_pipe_cell(text) for text in row] for row in _grid_texts(table)]
    head = rows.pop(0) if table.header_rows else [""] * table.columns
    return "\n".join(_pipe_row(row) for row in [head, ["---"] * table.columns, *rows])


def _pipe_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _pipe_cell(text: str) -> str:
    lines = [" ".join(line.split()) for line in clean(text).strip().split("\n")]
    # The table is cut at its bars before anything else is read, so bars are escaped last.
    return "<br>".join(escape_inline(line).replace("|", "\\|") for line in lines)


def _grid_texts(table: Table) -> list[list[str]]:
    """Text by row and column; a spanning cell's text stands once, at its top left place."""
    rows = [[""] * table.columns for _ in range(table.rows)]
    for cell in table.cells:
        if cell.row < table.rows and cell.column < table.columns:
            rows[cell.row][cell.column] = cell.text
    return rows


def table_to_html(table: Table) -> str:
    """A ``<table>`` with thead and tbody, th and td, colspan and rowspan; one row a line."""
    starts: dict[int, list[Cell]] = {}
    for cell in table.cells:
        starts.setdefault(cell.row, []).append(cell)
    grid = table.grid()
    head = table.header_rows
    while any(cell.row < head < cell.row + cell.row_span for cell in table.cells if head < table.rows):
        head -= 1  # a span may not reach from thead into tbody, so its row is no part of thead
    lines = ["<table>"]
    for row in range(table.rows):
        if row == 0 and head:
            lines.append("<thead>")
        if row == head:
            lines.append("<tbody>")
        cells = sorted(starts.get(row, []), key=lambda cell: cell.column)
        holes = [Cell(row, column) for column in range(table.columns) if grid[row][column] is None]
        cells = sorted(cells + holes, key=lambda cell: cell.column)
        lines.append("<tr>" + "".join(_cell_html(cell, table) for cell in cells) + "</tr>")
        if row == head - 1:
            lines.append("</thead>")
    if table.rows > head:
        lines.append("</tbody>")
    return "\n".join([*lines, "</table>"])


def _cell_html(cell: Cell, table: Table) -> str:
    tag = "th" if cell.header else "td"
    rows = min(cell.row_span, table.rows - cell.row)
    columns = min(cell.column_span, table.columns - cell.column)
    spans = (f' rowspan="{rows}"' if rows > 1 else "") + (f' colspan="{columns}"' if columns > 1 else "")
    return f"<{tag}{spans}>{_html_text(cell.text)}</{tag}>"


def table_to_csv(table: Table) -> str:
    """Comma separated rows; a spanning cell's text stands once, the other places it covers are empty."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[clean(text) for text in row] for row in _grid_texts(table)])
    return out.getvalue()


def document_tables(document: Document) -> list[tuple[int, int, Table]]:
    """All tables in reading order as (page number, number of the table on its page from 1, table).

    A table that goes on on later pages is one, on its first page.
    """
    found = []
    whole = whole_tables(document)
    for page in document.pages:
        tables = [block.table for _, block in whole(page) if block.kind == "table" and block.table is not None]
        found += [(page.number, number, table) for number, table in enumerate(tables, start=1)]
    return found


# HTML, text, JSON


def to_html(document: Document, headers: bool = False, images: ImageNames | None = None) -> str:
    """One self-contained HTML page: a section a page, semantic elements, no script, nothing loaded from outside."""
    title = _escape(document.metadata.get("title") or document.source)
    lines = ["<!doctype html>", "<html>", "<head>", '<meta charset="utf-8">', f"<title>{title}</title>"]
    lines += [f"<style>{_STYLE}</style>", "</head>", "<body>"]
    whole = whole_tables(document)
    for page in document.pages:
        lines += _page_html(page, whole(page), headers, images or {})
    return "\n".join([*lines, "</body>", "</html>"]) + "\n"


def _page_html(page: Page, blocks: Iterable[tuple[int, Block]], headers: bool, images: ImageNames) -> Iterator[str]:
    yield f'<section class="page" id="page-{page.number}">'
    if page.status == "failed":
        yield _comment(f"page {page.number} failed: {page.error}")
    depth: list[str] = []  # open list elements, outermost first
    for index, block in blocks:
        if block.kind in _PAGE_FURNITURE and not headers:
            continue
        if block.kind == "list":
            yield from _item_html(block, depth)
            continue
        body = _block_html(block, images.get((page.number, index), ""))
        if body:
            yield from _close_lists(depth, 0)
            yield body
    yield from _close_lists(depth, 0)
    yield "</section>"


def _item_html(block: Block, depth: list[str]) -> Iterator[str]:
    marker, text = split_marker(block)
    number = _NUMBER.fullmatch(marker)
    kind = "ol" if number else "ul" if not marker or marker in BULLETS else "ul class=\"marked\""  # fmt: skip
    level = min(max(block.level, 0), len(depth))
    yield from _close_lists(depth, level + 1)
    if len(depth) == level + 1 and depth[level] != kind:
        yield from _close_lists(depth, level)
    if len(depth) == level:
        depth.append(kind)
        yield f"<{kind}>"
    else:
        yield "</li>"
    shown = f"{marker} {text}" if kind.startswith("ul ") else text
    yield (f'<li value="{number[1]}">' if number else "<li>") + _html_text(shown)


def _close_lists(depth: list[str], keep: int) -> Iterator[str]:
    while len(depth) > keep:
        yield f"</li></{depth.pop()[:2]}>"


def _block_html(block: Block, picture: str) -> str:
    text = _html_text(_marked(block))
    if block.kind == "table" and block.table is not None:
        return table_to_html(block.table) if block.table.rows and block.table.columns else ""
    if block.kind == "code":
        code = _escape(block_code(block))
        return f"<pre><code>{code}</code></pre>" if code.strip() else ""
    if block.kind == "figure":
        image = f'<img src="{_escape(picture)}" alt="figure">' if picture else ""
        caption = f"<figcaption>{text}</figcaption>" if text else ""
        return f"<figure>{image}{caption}</figure>" if image or caption else ""
    if not text:
        return ""
    if block.kind == "heading":
        level = min(max(block.level, 1), 6)
        return f"<h{level}>{text}</h{level}>"
    if block.kind in _PAGE_FURNITURE:
        return f'<{block.kind} class="{block.kind}">{text}</{block.kind}>'
    return f"<p>{text}</p>" if block.kind == "text" else f'<p class="{block.kind}">{text}</p>'


def to_text(document: Document, headers: bool = False) -> str:
    """The text alone: blocks apart by a blank line, list items by a line, table cells by a tab."""
    parts: list[tuple[str, str]] = []
    for _, _, block in _reading(document, headers):
        if block is None:
            continue
        if block.kind == "table" and block.table is not None:
            rows = [[" ".join(clean(text).split()) for text in row] for row in _grid_texts(block.table)]
            body = "\n".join("\t".join(row).rstrip() for row in rows)
        else:
            body = block_code(block) if block.kind == "code" else _marked(block)
        if body.strip():
            parts.append((block.kind, body))
    return _join_blocks(parts)


def to_json(document: Document) -> str:
    """The whole document as JSON, a line a page; ``Document.from_json`` reads it back."""
    return "".join(json_chunks(document))


def json_chunks(document: Document) -> Iterator[str]:
    """:func:`to_json` in pieces, so that a thousand pages need no second copy in memory."""
    adapter = TypeAdapter(Page)
    # A quote inside a string is escaped, so this can only be the field itself.
    head, tail = replace(document, pages=[]).to_json().split('"pages":[]', 1)
    yield head + '"pages":['
    for number, page in enumerate(document.pages):
        yield (",\n" if number else "\n") + adapter.dump_json(page).decode()
    yield "]" + tail + "\n"


def _escape(text: str) -> str:
    return html.escape(clean(text))


def _html_text(text: str) -> str:
    """Escaped text in one line; line feeds become ``<br>``."""
    lines = [" ".join(line.split()) for line in clean(text).strip().split("\n")]
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def _comment(text: str) -> str:
    safe = re.sub(r"-{2,}|[<>]", " ", clean(text)).strip(" -")
    return f"<!-- {' '.join(safe.split())} -->"
