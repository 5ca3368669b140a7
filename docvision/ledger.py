"""The ledger of promise 1: every word of the text layer stands in the output exactly once, or under ``dropped``.

Words are compared as multisets, page by page, on the text that the exports write: block texts, markers, table
cells, dropped texts.  A word that a line end cut in two ("exam-" + "ple"), or that stands glued to its neighbour
or split in the output, balances against its parts, so the ledger speaks up only where characters are missing or
written twice.  Order is not looked at.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from docvision.export import split_marker
from docvision.page import Block, Page

UNREADABLE = "unreadable"
"""Reason under which a line read off the picture is dropped."""
MAX_PARTS = 12
"""Words that one word of the other side may consist of; only cut and glued words take this path."""
_HYPHENS = "-\u2010\u2011\u00ad"
_SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x9FFF),  # CJK, kana, their punctuation
    (0xAC00, 0xD7AF),  # Hangul
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFFEF),
    (0x20000, 0x3FFFF),
)


@dataclass(frozen=True)
class Imbalance:
    """A word whose count in the output is not its count in the text layer."""

    word: str
    count: int
    """Copies too many (positive) or missing (negative)."""


def check_ledger(layer_words: Iterable[str], page: Page) -> list[Imbalance]:
    """Words of the text layer that are lost or doubled on a finished page.

    Args:
        layer_words: texts of all words of the layer, hidden ones included.
        page: the page as it will be exported.

    Returns:
        Missing words first, then surplus ones, each in order of appearance; empty when the promise holds.
    """
    true = Counter(token for text in layer_words for token in tokens(text))
    seen = Counter(token for text in page_texts(page) for token in tokens(text))
    missing, surplus = true - seen, seen - true
    if missing and surplus:
        _balance(surplus, missing, cut=True)
        _balance(missing, surplus, cut=False)
    lost = [Imbalance(word, -count) for word, count in missing.items() if count > 0]
    return lost + [Imbalance(word, count) for word, count in surplus.items() if count > 0]


def describe(found: list[Imbalance], limit: int = 5) -> str:
    """One line for a page's warnings, naming the first words."""
    parts = []
    for verb, items in (("lost", [i for i in found if i.count < 0]), ("surplus", [i for i in found if i.count > 0])):
        if items:
            names = ", ".join(repr(item.word) for item in items[:limit])
            more = ", ..." if len(items) > limit else ""
            parts.append(f"{sum(abs(item.count) for item in items)} {verb} ({names}{more})")
    return "words of the text layer do not add up: " + "; ".join(parts)


def page_texts(page: Page) -> Iterator[str]:
    """Every text of the layer that an export of the page can show, and what of it was dropped.

    What a model read off the picture is no part of the layer and stands outside the ledger.
    """
    for block in page.blocks:
        if block.source != "model":
            yield from block_texts(block)
    for dropped in page.dropped:
        if dropped.reason != UNREADABLE:
            yield dropped.text


def block_texts(block: Block) -> Iterator[str]:
    if block.table is not None:
        for cell in block.table.cells:
            yield cell.text
        return
    yield from split_marker(block)


def tokens(text: str) -> list[str]:
    """Words in compatibility form; each character of a script without spaces is one."""
    if text.isascii():
        return text.split()
    found = []
    for word in unicodedata.normalize("NFKC", text).split():
        start = 0
        for index, char in enumerate(word):
            if _spaceless(ord(char)):
                found += [word[start:index], char]
                start = index + 1
        found.append(word[start:])
    kept = ("".join(char for char in word if unicodedata.category(char) not in ("Cf", "Cc")) for word in found)
    return [word for word in kept if word]


def _spaceless(code: int) -> bool:
    return code >= 0x0E00 and any(first <= code <= last for first, last in _SPACELESS)


def _balance(wholes: Counter[str], parts: Counter[str], cut: bool) -> None:
    """Strike out each whole together with the parts it consists of, in both counters.

    Args:
        wholes: words to be explained.
        parts: what they may be made of.
        cut: whether a hyphen at the end of a part may have gone.
    """
    for word in list(wholes):
        while wholes[word] > 0:
            used = _split(word, parts, cut, MAX_PARTS)
            if used is None:
                break
            wholes[word] -= 1
            for part in used:
                parts[part] -= 1


def _split(word: str, parts: Counter[str], cut: bool, depth: int) -> list[str] | None:
    """Parts, all in stock, that make up ``word``; None where there are none."""
    if not word:
        return []
    if depth == 0:
        return None
    for end in range(len(word), 0, -1):
        head = word[:end]
        # A cut part first: taking the whole word "man" for "man-agement" would leave "man-" without a partner.
        for part in (*(head + hyphen for hyphen in _HYPHENS), head) if cut and end < len(word) else (head,):
            if parts.get(part, 0) <= 0:
                continue
            parts[part] -= 1
            rest = _split(word[end:], parts, cut, depth - 1)
            parts[part] += 1
            if rest is not None:
                return [part, *rest]
    return None
