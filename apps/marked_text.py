"""Markdown of any parser read back as plain text and tables, for scoring.

Tables are taken from HTML and from pipes; their texts stand in the plain text where the table stood.  Emphasis, links,
pictures, heading and list marks go.  Nothing raises: markup that is none stays text.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from docvision.page import Cell, Table
from docvision.table_html import html_to_table

_HTML_TABLE = re.compile(r"<table\b.*?(?:</table\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_PIPE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_FENCE = re.compile(r"\s*(```|~~~)")
_BREAK = re.compile(r"<br\s*/?>|</(?:p|div|li|h[1-6])>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>", re.IGNORECASE)
_LINE_MARK = re.compile(r"^(?:\s{0,3}(?:#{1,6}\s+|>\s?)|\s*[-*+]\s+(?=\S))")
_EMPHASIS = re.compile(r"(\*{1,3}|_{2,3}|~~|`+)(?=\S)(.+?)(?<=\S)\1")
_LONE_UNDERSCORE = re.compile(r"(?<![\w\\])_(?=[^\W_])([^_\n]+?)(?<=\S)_(?!\w)")
_PICTURE = re.compile(r"!\[[^\]\n]*\]\([^)\n]*\)")
_LINK = re.compile(r"\[([^\]\n]*)\]\((?:https?:|mailto:|#|/|\.)[^)\s]*\)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass
class Marked:
    """What stands in a piece of Markdown."""

    text: str
    tables: list[Table] = field(default_factory=list)


def read_marked(markdown: str) -> Marked:
    """Plain text in the order given, lines kept, and the tables."""
    marked = Marked("")
    parts: list[str] = []
    place = 0
    for match in _HTML_TABLE.finditer(markdown):
        parts.append(_read_lines(markdown[place : match.start()], marked.tables))
        table = html_to_table(match[0])
        if table is not None:
            marked.tables.append(table)
            parts.append(_table_text(table))
        place = match.end()
    parts.append(_read_lines(markdown[place:], marked.tables))
    marked.text = "\n".join(part for part in parts if part)
    return marked


def _read_lines(markdown: str, tables: list[Table]) -> str:
    lines = markdown.split("\n")
    plain = []
    place = 0
    while place < len(lines):
        line = lines[place]
        below = lines[place + 1] if place + 1 < len(lines) else ""
        place += 1
        if "|" in line and "|" in below and _PIPE_RULE.fullmatch(below):
            rows = [_pipe_cells(line)]
            place += 1
            while place < len(lines) and "|" in lines[place]:
                rows.append(_pipe_cells(lines[place]))
                place += 1
            if not any(rows[0]) and len(rows) > 1:
                rows = rows[1:]  # a table without a header has an empty one in Markdown
            cells = [Cell(r, c, text) for r, row in enumerate(rows) for c, text in enumerate(row)]
            tables.append(Table(len(rows), max(map(len, rows)), cells))
            plain.append(_table_text(tables[-1]))
        elif not _FENCE.match(line):
            plain.append(inline_text(_LINE_MARK.sub("", line, count=1)))
    return "\n".join(plain)


def _pipe_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [" ".join(inline_text(part).split()) for part in re.split(r"(?<!\\)\|", inner)]


def inline_text(text: str) -> str:
    """A line without emphasis, links, pictures, tags and escapes."""
    text = _TAG.sub("", _BREAK.sub("\n", text))
    text = _LINK.sub(r"\1", _PICTURE.sub("", text))
    text = _LONE_UNDERSCORE.sub(r"\1", _EMPHASIS.sub(r"\2", text))
    return html.unescape(_ESCAPE.sub(r"\1", text))


def _table_text(table: Table) -> str:
    return " ".join(cell.text for cell in table.cells if cell.text)
