"""What only the whole document tells: running heads, heading levels, footnotes, paragraphs that go on elsewhere."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from docvision.blocks import HYPHEN, SECTION, SENTENCE_END, join_lines, main_size
from docvision.furniture import mark_furniture
from docvision.page import Block, Page

MAX_LEVEL = 6
_PLAIN = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "0123456789")
CROOKED = 20.0
"""Degrees by which a line of running text may differ from the others of its page."""
SMALL = 0.88
"""Height of a footnote's lines as a share of the page's usual one, at most."""
FLOATS = ("table", "figure", "caption", "footnote")
RAISED_MARK = re.compile("^[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,3}(?=[^\\W\\d_])")
FOOTNOTE_MARK = re.compile(r"^(?:\d{1,2}|[*\u2020\u2021\u00a7\u00b6#]+|[a-z])(?=[\s.)]|[A-Z\u00c0-\u00de])")


def finish_document(pages: list[Page]) -> None:
    """Decide what needs all pages, in place: furniture, footnotes, heading levels, list nesting, broken paragraphs."""
    mark_furniture(pages)
    body = _body_size(pages)
    _mark_counted(pages, body)
    for page in pages:
        _mark_footnotes(page, body)
        _nest_lists(page)
    _level_headings(pages)
    _mend_paragraphs(pages, body)
    _resolve_hyphens(pages)


def block_size(block: Block) -> float:
    """Main font size of a block; 0 where it has no lines."""
    words = [word for line in block.lines for word in line.words]
    return main_size(words) if words else 0.0


def _body_size(pages: list[Page]) -> float:
    blocks = [block for page in pages for block in page.blocks]
    weights: Counter[float] = Counter()
    for block in [block for block in blocks if block.kind in ("text", "list")] or blocks:
        weights[block_size(block)] += len(block.text)
    return weights.most_common(1)[0][0] if weights else 10.0


def _is_small(block: Block, body: float, page: Page) -> bool:
    """Whether a block is set smaller than running text; lines read off a picture by their height on the page."""
    size = block_size(block)
    if size or not block.lines:
        return size <= 0.93 * body
    usual = statistics.median(line.box.height for other in page.blocks for line in other.lines)
    return _line_height(block) < SMALL * usual


def _line_height(block: Block) -> float:
    return statistics.median(line.box.height for line in block.lines)


def _mark_footnotes(page: Page, body: float) -> None:
    for block in page.blocks:
        if block.kind not in ("text", "list") or block.box.y0 < 0.5 * page.height or not block.lines:
            continue
        if not _is_small(block, body, page) or not _is_mark(block.lines[0].text):
            continue
        below = [
            other
            for other in page.blocks
            if other.kind in ("text", "heading") and other.box.y0 > block.box.y1 and other.box.overlap_x(block.box) > 10
        ]
        if all(_is_small(other, body, page) for other in below):
            block.kind = "footnote"
            if block.marker:
                block.text, block.marker = f"{block.marker} {block.text}", ""
            block.text = RAISED_MARK.sub(r"\g<0> ", block.text)
    for above, block in pairwise(page.blocks):
        if above.kind == "footnote" and block.kind == "text" and _goes_on_below(above, block):
            block.kind = "footnote"  # a note of several paragraphs
    _sink_footnotes(page)


def _goes_on_below(above: Block, block: Block) -> bool:
    same = abs(block_size(above) - block_size(block)) < 0.3
    return same and block.box.y0 > above.box.y0 and block.box.overlap_x(above.box) > 10


def _is_mark(text: str) -> bool:
    return bool(RAISED_MARK.match(text) or FOOTNOTE_MARK.match(text.translate(_PLAIN)))


def _sink_footnotes(page: Page) -> None:
    """Put footnotes behind the running text, but keep a table's notes below their table."""
    stay: list[Block] = []
    notes: list[Block] = []
    feet = [block for block in page.blocks if block.kind == "footer"]
    for block in page.blocks:
        if block.kind == "footnote" and not (stay and _notes_table(stay[-1], block)):
            notes.append(block)
        elif block.kind != "footer":
            stay.append(block)
    if notes:
        page.blocks = stay + notes + feet


def _notes_table(above: Block, note: Block) -> bool:
    near = 0 <= note.box.y0 - above.box.y1 + 3 < 25 and note.box.overlap_x(above.box) > 0
    return near and above.kind in ("table", "footnote")


def _mark_counted(pages: list[Page], body: float) -> None:
    """Plain numbered lines that follow each other are items of a list: headings have something below them."""
    blocks = [block for page in pages for block in page.blocks if block.kind not in ("header", "footer")]
    numbers = [_item_number(block, body) for block in blocks]
    items = {i for i, (above, here) in enumerate(pairwise(numbers)) if above and here == above + 1}
    for index in sorted(items | {i + 1 for i in items}):
        block = blocks[index]
        if block.kind == "heading":
            block.kind, block.level = "list", 0
            block.marker, _, block.text = block.text.partition(" ")


def _item_number(block: Block, body: float) -> int:
    """Of a list item, or of a heading of one line that looks like running text; else 0."""
    words = [word for line in block.lines for word in line.words]
    first = block.marker if block.kind == "list" else block.text.partition(" ")[0]
    if block.kind == "heading" and (
        len(block.lines) > 1 or not words or any(word.bold or word.italic or word.size > 1.07 * body for word in words)
    ):
        return 0
    number = first.strip(".()") if block.kind in ("list", "heading") else ""
    return int(number) if number.isascii() and number.isdigit() else 0


def _nest_lists(page: Page) -> None:
    """Nesting of list items by how far their markers are indented."""
    stack: list[float] = []
    for block in page.blocks:
        if block.kind != "list":
            if block.kind not in ("text", "code"):
                stack = []
            continue
        x, size = block.lines[0].box.x0, block_size(block) or _line_height(block)
        if stack and abs(x - stack[0]) > 20 * size:
            stack = []  # another column
        while stack and x < stack[-1] - 0.6 * size:
            stack.pop()
        if not stack or x > stack[-1] + 0.6 * size:
            stack.append(x)
        block.level = len(stack) - 1


def _level_headings(pages: list[Page]) -> None:
    headings = [block for page in pages for block in page.blocks if block.kind == "heading"]
    looks = {id(block): _look(block) for block in headings}
    ranks = {look: rank for rank, look in enumerate(sorted(set(looks.values()), reverse=True), 1)}
    depths = {id(block): _depth(block.text) for block in headings}
    numbered = [block for block in headings if depths[id(block)]]
    above = 0
    if numbered and headings:
        first = min(ranks[looks[id(block)]] for block in numbered)
        above = 1 if any(ranks[looks[id(block)]] < first and not depths[id(block)] for block in headings) else 0
    for block in headings:
        depth = depths[id(block)]
        level = depth + above if depth and len(numbered) >= 2 else ranks[looks[id(block)]]
        block.level = min(max(level, 1), MAX_LEVEL)


def _look(block: Block) -> tuple[float, bool, bool]:
    words = [word for line in block.lines for word in line.words]
    if not words:
        return -float(block.level), True, True  # read off a picture: its rank on the page is all there is
    return round(block_size(block)), all(word.bold for word in words), not all(word.italic for word in words)


def _depth(text: str) -> int:
    """Depth of a section number: 2 for "3.1 Methods", 0 without one."""
    first, _, rest = text.partition(" ")
    if not rest or not SECTION.match(first) or not first[0].isdigit():
        return 0
    return first.strip(".").count(".") + 1


def _mend_paragraphs(pages: list[Page], body: float) -> None:
    """Join a paragraph cut by a column end, and move floats out from between its parts at a page end."""
    usual = [_Usual(body, _page_angle(page)) for page in pages]
    for page, here in zip(pages, usual, strict=True):
        index = 0
        while index < len(page.blocks):
            index += 0 if _join_next(page, index, here) else 1
    for (page, here), (following, there) in pairwise(zip(pages, usual, strict=True)):
        _clear_page_end(page, here, following, there)


class _Usual(NamedTuple):
    """What is usual on a page: font size of running text, direction of its lines in degrees."""

    body: float
    angle: float


def _page_angle(page: Page) -> float:
    angles: Counter[int] = Counter()
    for block in page.blocks:
        for line in block.lines:
            angles[round(line.angle)] += len(line.text)
    return max(angles, key=angles.__getitem__) if angles.total() else 0.0


def _is_float(block: Block, usual: _Usual) -> bool:
    if block.lines and abs((block.lines[0].angle - usual.angle + 180) % 360 - 180) > CROOKED:
        return True  # turned text in the margin
    small = 0 < block_size(block) < 0.93 * usual.body
    return block.kind in FLOATS or (small and block.kind in ("text", "formula", "list"))


def _join_next(page: Page, index: int, usual: _Usual) -> bool:
    block = page.blocks[index]
    if not _is_open(block, usual.body):
        return False
    for later in range(index + 1, len(page.blocks)):
        other = page.blocks[later]
        if other.kind in ("header", "footer") or (_is_float(other, usual) and not _continues(block, other)):
            continue
        # Only over a column end: what stands below in the same column would have been joined already.
        over = other.box.y0 < block.lines[-1].box.y0 or later > index + 1
        if not over or not _continues(block, other):
            return False
        block.lines = block.lines + other.lines
        block.text = join_lines([block.text, other.text])
        block.box = block.box.union(other.box)
        del page.blocks[later]
        return True
    return False


def _is_open(block: Block, body: float) -> bool:
    """Whether a paragraph may go on after its last line."""
    if block.kind not in ("text", "list") or not block.lines or len(block.text) < 20:
        return False
    return not SENTENCE_END.search(block.text) and block_size(block) >= 0.93 * body


def _continues(block: Block, other: Block) -> bool:
    if other.kind != "text" or not other.lines or abs(block_size(block) - block_size(other)) > 0.6:
        return False
    first = other.text.lstrip("(\"'\u201c\u2018[")[:1]
    if first.islower() or HYPHEN.search(block.text):
        return True
    wide = block.lines[-1].box.x1 > block.box.x1 - 1.5 * block_size(block)
    return wide and (len(block.lines) > 1 or len(block.text) > 40)


def _clear_page_end(page: Page, here: _Usual, following: Page, there: _Usual) -> None:
    """Put floats at a page break before and after the paragraph that runs over it."""
    last = next((i for i in range(len(page.blocks) - 1, -1, -1) if not _passes(page.blocks[i], here)), None)
    first = next((i for i, block in enumerate(following.blocks) if not _passes(block, there)), None)
    if last is None or first is None:
        return
    block, other = page.blocks[last], following.blocks[first]
    if not (_is_open(block, here.body) and _continues(block, other)) and not _may_go_on(page.blocks[last:], other):
        return
    feet = sum(other.kind == "footer" for other in page.blocks[last + 1 :])
    page.blocks.insert(len(page.blocks) - 1 - feet, page.blocks.pop(last))
    heads = sum(other.kind == "header" for other in following.blocks[:first])
    following.blocks.insert(heads, following.blocks.pop(first))


def _may_go_on(rest: list[Block], other: Block) -> bool:
    """Whether a paragraph that ends a sentence at a full last line may yet go on on the next page.

    Only asked where its floats stand in another column: moving them does no harm if it does not.
    """
    block, *floats = rest
    floats = [item for item in floats if item.kind != "footer"]
    if block.kind != "text" or other.kind != "text" or len(block.lines) < 2 or len(other.lines) < 2 or not floats:
        return False
    last, size = block.lines[-1].box, block_size(block)
    full = last.x1 > block.lines[-2].box.x1 - 0.3 * size
    indented = other.lines[0].box.x0 > other.lines[1].box.x0 + 0.5 * size
    moved = not block.lines[0].box.overlap_x(last)  # it already goes on over a column end, past these floats
    above = all(item.box.y0 < last.y0 and (moved or not item.box.overlap_x(last)) for item in floats)
    return full and not indented and above


def _passes(block: Block, usual: _Usual) -> bool:
    return block.kind in ("header", "footer") or _is_float(block, usual)


def _resolve_hyphens(pages: list[Page]) -> None:
    """Keep a line-end hyphen where the document writes the word with one elsewhere, and not without."""
    written: Counter[str] = Counter()
    for page in pages:
        for block in page.blocks:
            for line in block.lines:
                written.update(word.text.strip(".,;:()[]\"'").casefold() for word in line.words)
    for page in pages:
        for block in page.blocks:
            if block.kind not in ("code", "table", "figure"):
                for above, below in pairwise(block.lines):
                    _resolve(block, above.text, below.text, written)


def _resolve(block: Block, above: str, below: str, written: Counter[str]) -> None:
    if not above or not below or not HYPHEN.search(above) or not below[0].islower():
        return
    head, tail = above.split()[-1][:-1].lstrip("(["), below.split()[0].rstrip(".,;:)]")
    joined, kept = (head + tail).casefold(), f"{head}-{tail}".casefold()
    if written[kept] and not written[joined]:
        block.text = re.sub(rf"(?<!\w){re.escape(head + tail)}(?!\w)", f"{head}-{tail}", block.text, count=1)
