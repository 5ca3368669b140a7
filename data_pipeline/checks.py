"""Filters for plans and rendered pages: keep, or drop for a reason.

A plan is dropped for characters that its faces lack: they would print as empty boxes and stand in the truth.  A page is
dropped for what a plan cannot foresee: text pushed off the paper, two elements on top of each other, print too faint to
read, a text that its shard has already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from data_pipeline.characters import hash_text
from data_pipeline.form_fields import FILLED, TICKS
from data_pipeline.layouts import Beside, Family, Group, Item, Node, PageStyle, Plan
from docvision.page import Block, Box, Document, Page, Table

_MARGIN = 2.0
"""Points by which ink may pass the paper's edge: italic overhang."""


def check_page(page: Page) -> tuple[bool, str]:
    """Whether a page's truth can be used.

    Args:
        page: blocks with boxes in points.

    Returns:
        ``(True, "")``, or ``(False, reason)``.
    """
    if not any(block.lines for block in page.blocks):
        return False, "no text"
    for block in page.blocks:
        if not _inside(block.box, page):
            return False, f"{block.kind} off the page"
        for line in block.lines:
            if not _inside(line.box, page):
                return False, f"text of a {block.kind} off the page"
        if block.table is not None and _leaves_cell(block.table):
            return False, "text outside its cell"
    pair = _overlap([block for block in page.blocks if block.box.area > 0])
    return (False, f"{pair[0]} over {pair[1]}") if pair else (True, "")


def check_plan(plan: Plan) -> tuple[bool, str]:
    """Whether every character of a plan is in the face that prints it."""
    heads = (item for item in (*plan.header, *plan.footer) if item is not None)
    for item in (*heads, *_items(plan.title), *_items(plan.flow)):
        for content, family in _printed(item, plan.style):
            missing = set(content) - family.characters - {" ", "\n", "\u00a0"}
            if missing:
                return False, f"{family.name} lacks a character of a {item.kind}"
    return True, ""


def _items(nodes: Iterable[Node]) -> Iterator[Item]:
    for node in nodes:
        if isinstance(node, Item):
            yield node
        elif isinstance(node, Group):
            yield from node.items
        elif isinstance(node, Beside):
            yield from _items(inner for stack in node.stacks for inner in stack)


def _printed(item: Item, style: PageStyle) -> Iterator[tuple[str, Family]]:
    """The texts of an item with the family that prints each; drawings and formulas bring their own."""
    family = {"body": style.body, "heading": style.heading, "mono": style.mono}[item.look.font]
    ticked = style.ticks if item.marker and item.marker in TICKS else None
    yield item.marker, ticked or family
    for content, name in item.runs:
        filled = style.filled if name.partition(":")[0] in FILLED else None
        yield content, filled or family
    for cell in item.table.cells if item.table else ():
        yield cell.printed, style.body


def is_repeat(row: dict[str, Any], seen: set[int]) -> bool:
    """Whether a page with the same text was seen; remembers the text if not. Rows without a page never repeat."""
    if "document" not in row:
        return False
    pages = Document.from_json(row["document"]).pages
    content = "\n".join(line.text for page in pages for block in page.blocks for line in block.lines)
    key = hash_text(content)
    if key in seen:
        return True
    seen.add(key)
    return False


def check_contrast(image: np.ndarray, boxes_N4: np.ndarray, least: float = 18.0) -> tuple[bool, str]:
    """Whether ink and paper differ enough in most of the given boxes (pixels) of a grey image."""
    faint = total = 0
    for x0, y0, x1, y1 in np.asarray(boxes_N4).round().astype(int)[::7]:
        patch = image[max(0, y0 - 1) : y1 + 1, max(0, x0 - 1) : x1 + 1]
        if patch.size:
            total += 1
            low, high = np.percentile(patch, (3, 97))
            faint += high - low < least
    if total and faint > 0.3 * total:
        return False, f"unreadable contrast in {faint} of {total} words"
    return True, ""


def _inside(box: Box, page: Page) -> bool:
    return (
        box.x0 >= -_MARGIN and box.y0 >= -_MARGIN and box.x1 <= page.width + _MARGIN and box.y1 <= page.height + _MARGIN
    )


def _leaves_cell(table: Table) -> bool:
    return any(
        (cell.text_box.x0 < cell.box.x0 - 1.5 or cell.text_box.x1 > cell.box.x1 + 1.5)
        for cell in table.cells
        if cell.box is not None and cell.text_box is not None
    )


def _overlap(blocks: list[Block]) -> tuple[str, str] | None:
    """Two blocks of which one covers more than a touch of the other, as their kinds."""
    for index, first in enumerate(blocks):
        for second in blocks[index + 1 :]:
            common = first.box.intersection(second.box)
            # Tight leading lets the descenders of one block reach into the next by a point or two.
            if common.width > 2 and common.height > 2.5 and common.area > 0.02 * min(first.box.area, second.box.area):
                return first.kind, second.kind
    return None
