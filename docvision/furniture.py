"""Running heads, running feet and page numbers, found by what repeats from page to page."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from docvision.blocks import join_lines, main_size
from docvision.page import Block, Line, Page, bounding_box

ZONE = 0.15
"""Share of the page height, at the top and the bottom, in which furniture may stand."""
ROWS = 4
"""Lines from the edge that are looked at."""
MAX_LENGTH = 160
LARGEST = 1.2
"""Larger type than this, in sizes of the running text, is a title and no furniture."""
PAGE_NUMBER = re.compile(
    r"^[-\u2013\u2014|\s]*(?:p(?:age|\.)?\s*|seite\s*|s\.\s*)?(?:\d{1,4}|[ivxlc]{1,7})(?:\s*(?:of|/|von|sur|de|\|)\s*\d{1,4})?[-\u2013\u2014|.\s]*$",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Row:
    """A line near the edge of a page."""

    page: int
    block: Block
    line: Line
    rank: int
    """0 for the line next to the edge."""
    gap: float
    """White between this line and the next one inwards, in font sizes."""
    size: float

    @property
    def baseline(self) -> float:
        return self.line.box.y1


def mark_furniture(pages: list[Page]) -> None:
    """Turn repeated lines at page edges into header and footer blocks."""
    body = main_size([word for page in pages for word in page.words()])
    for top in (True, False):
        rows = [row for index, page in enumerate(pages) for row in _edge_rows(page, index, top)]
        usual = [row for row in rows if row.size <= LARGEST * body]
        marked = _repeated(rows, len(pages), LARGEST * body) | _aligned(usual, len(pages)) | _numbers(usual)
        for index, page in enumerate(pages):
            lines = {id(row.line) for row in rows if row.page == index and id(row.line) in marked}
            if lines:
                _split_off(page, lines, "header" if top else "footer")


def _edge_rows(page: Page, index: int, top: bool) -> list[_Row]:
    lines = [
        (line, block)
        for block in page.blocks
        if block.kind not in ("table", "figure", "header", "footer")
        for line in block.lines
        if line.angle == 0
    ]
    if not lines:
        return []
    sign = 1 if top else -1
    lines.sort(key=lambda item: sign * item[0].box.y1)
    edge = page.height * (ZONE if top else 1 - ZONE)
    rows: list[_Row] = []
    groups: list[list[tuple[Line, Block]]] = []
    for line, block in lines:
        if groups and abs(line.box.y1 - groups[-1][0][0].box.y1) < 4:
            groups[-1].append((line, block))
        elif len(groups) > ROWS:
            break
        else:
            groups.append([(line, block)])
    tables = [block.box for block in page.blocks if block.kind in ("table", "figure")]
    for rank, group in enumerate(groups[:ROWS]):
        box = bounding_box(line.box for line, _ in group)
        if (box.y1 > edge) if top else (box.y0 < edge):
            break
        if any((other.y1 < box.y0) if top else (other.y0 > box.y1) for other in tables):
            break  # something else stands nearer to the edge
        following = groups[rank + 1] if rank + 1 < len(groups) else None
        size = main_size([word for line, _ in group for word in line.words])
        gap = 99.0
        if following is not None:
            other = bounding_box(line.box for line, _ in following)
            gap = ((other.y0 - box.y1) if top else (box.y0 - other.y1)) / max(size, 1)
        rows += [_Row(index, block, line, rank, gap, size) for line, block in group]
    return rows


def _key(text: str) -> str:
    text = re.sub(r"\d+", "#", text.casefold())
    return re.sub(r"\b[ivxlc]+\b|\W+", " ", text).strip() or text


def _repeated(rows: list[_Row], pages: int, largest: float) -> set[int]:
    """Lines whose text comes back on other pages at the same height."""
    groups: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        if len(row.line.text) <= MAX_LENGTH:
            # Large type counts only where it repeats to the letter: "Chapter 3" is a title, a logo is not.
            groups[_key(row.line.text) if row.size <= largest else row.line.text].append(row)
    marked: set[int] = set()
    for group in groups.values():
        for row in group:
            others = {
                o.page
                for o in group
                if o.page != row.page and abs(o.baseline - row.baseline) < 8 and abs(o.size - row.size) < 1
            }
            if len(others) + 1 >= min(3, max(2, pages // 2)):
                marked.add(id(row.line))
    return marked


def _aligned(rows: list[_Row], pages: int) -> set[int]:
    """The outermost lines of most pages, where they stand at one height and clear of the text."""
    marked: set[int] = set()
    outer = [row for row in rows if row.rank == 0 and len(row.line.text) <= MAX_LENGTH]
    for row in outer:
        same = {o.page: o for o in outer if abs(o.baseline - row.baseline) < 2 and abs(o.size - row.size) < 0.6}
        clear = sum(o.gap > 0.75 for o in same.values())
        if len(same) >= max(3, 0.4 * pages) and clear >= 0.8 * len(same) and row.gap > 0.75:
            marked.add(id(row.line))
    return marked


def _numbers(rows: list[_Row]) -> set[int]:
    """Page numbers standing alone."""
    return {
        id(row.line)
        for row in rows
        if row.rank <= 1
        and (row.gap > 0.6 or row.rank == 0)
        and PAGE_NUMBER.match(row.line.text)
        and len(row.block.lines) <= 2
    }


def _split_off(page: Page, lines: set[int], kind: str) -> None:
    blocks: list[Block] = []
    taken: list[Block] = []
    for block in page.blocks:
        away = [line for line in block.lines if id(line) in lines] if block.kind not in ("table", "figure") else []
        if not away:
            blocks.append(block)
            continue
        keep = [line for line in block.lines if id(line) not in lines]
        taken.append(_furniture_block(away, kind))
        if keep:
            block.lines, block.box = keep, bounding_box(line.box for line in keep)
            block.text = join_lines([line.text for line in keep])
            if block.marker and not block.text.startswith(block.marker):
                block.marker = ""
                block.kind = "text" if block.kind == "list" else block.kind
            elif block.marker:
                block.text = block.text[len(block.marker) :].strip()
            blocks.append(block)
    taken.sort(key=lambda block: (block.box.y0, block.box.x0))
    page.blocks = taken + blocks if kind == "header" else blocks + taken


def _furniture_block(lines: list[Line], kind: str) -> Block:
    text = " ".join(line.text for line in lines)
    return Block(
        kind="header" if kind == "header" else "footer",
        box=bounding_box(line.box for line in lines),
        text=text,
        lines=lines,
        confidence=min(line.confidence for line in lines),
        source=lines[0].source,
    )
