"""Two Documents of the same source side by side: which blocks are new, gone or different.

Blocks are matched page by page in reading order by their kind and text; what is left between two matches is paired
in order.  A box that moved by less than ``MOVED`` and a confidence that changed are no differences.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from docvision.export import block_code, split_marker, table_to_markdown
from docvision.page import Block, Document, Page

MOVED = 3.0
"""Points."""
CONTEXT = 3
"""Words shown around a difference."""


@dataclass(frozen=True)
class Change:
    """One difference: ``what`` is ``page``, ``new``, ``gone``, ``kind``, ``text``, ``source`` or ``moved``."""

    page: int
    block: int
    """Its number on the page from 1, in the second document where it is there; 0 for the page itself."""
    what: str
    detail: str

    def __str__(self) -> str:
        place = f"page {self.page}" + (f", block {self.block}" if self.block else "")
        return f"{place}: {self.what}: {self.detail}"


def compare(first: Document, second: Document) -> Iterator[Change]:
    """The differences, page by page."""
    before = {page.number: page for page in first.pages}
    after = {page.number: page for page in second.pages}
    for number in sorted(before.keys() | after.keys()):
        if number not in before or number not in after:
            where = "second" if number in after else "first"
            yield Change(number, 0, "page", f"only in the {where} document")
            continue
        yield from _compare_pages(before[number], after[number])


def _compare_pages(old: Page, new: Page) -> Iterator[Change]:
    if (old.status, old.error) != (new.status, new.error):
        yield Change(new.number, 0, "page", f"{_status(old)} -> {_status(new)}")
    first, second = ([f"{block.kind} {text_of(block)}" for block in page.blocks] for page in (old, new))
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    for _, start, stop, new_start, new_stop in matcher.get_opcodes():
        pairs = zip_longest(range(start, stop), range(new_start, new_stop))
        for old_index, new_index in pairs:
            if new_index is None:
                yield Change(new.number, old_index + 1, "gone", _named(old.blocks[old_index]))
            elif old_index is None:
                yield Change(new.number, new_index + 1, "new", _named(new.blocks[new_index]))
            else:
                yield from _compare_blocks(new.number, new_index + 1, old.blocks[old_index], new.blocks[new_index])


def _compare_blocks(page: int, number: int, old: Block, new: Block) -> Iterator[Change]:
    if (old.kind, old.level) != (new.kind, new.level):
        yield Change(page, number, "kind", f"{_kind(old)} -> {_kind(new)}")
    before, after = text_of(old), text_of(new)
    if before != after:
        yield Change(page, number, "text", word_changes(before, after))
    if old.source != new.source:
        yield Change(page, number, "source", f"{old.source} -> {new.source}")
    distance = max(abs(a - b) for a, b in zip(old.box, new.box, strict=True))
    if distance > MOVED:
        yield Change(page, number, "moved", f"by up to {distance:.0f} points")


def text_of(block: Block) -> str:
    """All text of a block, a table's cells included."""
    if block.table is not None:
        return table_to_markdown(block.table)
    return block_code(block) if block.kind == "code" else " ".join(split_marker(block)).strip()


def word_changes(before: str, after: str) -> str:
    """``the [-old-] {+new+} words``, with a few words around each difference."""
    old, new = before.split(), after.split()
    if old == new:
        return "only spaces or line ends"
    shown: list[str] = []
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for number, (what, start, stop, new_start, new_stop) in enumerate(codes):
        if what == "equal":
            shown += _around(old[start:stop], first=number == 0, last=number == len(codes) - 1)
            continue
        if stop > start:
            shown.append(f"[-{' '.join(old[start:stop])}-]")
        if new_stop > new_start:
            shown.append(f"{{+{' '.join(new[new_start:new_stop])}+}}")
    return " ".join(shown)


def _around(words: Sequence[str], first: bool, last: bool) -> list[str]:
    """The words next to the differences before and after; three dots for the rest."""
    head = 0 if first else CONTEXT
    tail = 0 if last else CONTEXT
    if len(words) <= head + tail:
        return list(words)
    return [*words[:head], "...", *words[len(words) - tail :]]


def _named(block: Block) -> str:
    text = " ".join(text_of(block).split())
    return f"{_kind(block)} {text[:80]!r}" if text else _kind(block)


def _kind(block: Block) -> str:
    return f"{block.kind} {block.level}" if block.level else block.kind


def _status(page: Page) -> str:
    return f"{page.status} ({page.error})" if page.error else page.status
