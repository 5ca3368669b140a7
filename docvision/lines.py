"""Words -> line pieces: runs of words on one baseline that no column gap cuts.

A gap between two words is a *gutter* when it is wide, or when the white strip inside it goes on through the lines above
and below with text on both of its sides: columns of a page and of a table align, the loose spaces of justified lines do
not.  Monospaced lines are not cut, their columns are part of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from docvision.glyphs import MONO_NAME
from docvision.page import Box, Line, Word, bounding_box
from docvision.words import DESCENT

JOIN_GAP = 0.8
"""Gaps up to this share of the font size never end a piece."""
FAR_GAP = 2.0
"""Gaps beyond this always do, except after a list marker and inside monospaced text."""
NEAR_GAP = 1.0
"""The same for words that do not follow each other in the content stream."""
MARKER_GAP = 4.0
GUTTER_LINES = 2.6
"""A gutter has text on both sides over this many line heights."""
MARKER = re.compile(
    r"^(?:[\u2022\u2023\u25aa\u25ab\u25cf\u25cb\u25e6\u25a0\u25a1\u2043\u2219\u00b7\u27a2\u2713\u2714\u2756\u2666*\ufffd\u2013\u2014-]"
    r"|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\d{1,2}(?:\.\d{1,2}){1,4}\.?|[A-Z]\.\d{1,2}(?:\.\d{1,2})*\.?|\[\d{1,3}\])$"
)
"""A bullet, list number or section number standing alone as a word."""


@dataclass(slots=True)
class Piece:
    """Words on one baseline, in the direction of their script."""

    words: list[Word]
    box: Box
    size: float
    baseline: float
    mono: bool = False
    bold: bool = False
    order: int = 0
    """Place of its first word in the content stream."""
    text: str = field(default="")

    @classmethod
    def of(cls, words: list[Word], order: int) -> Piece:
        if 2 * sum(_is_rtl(word.text[0]) for word in words if word.text) > len(words):
            words = sorted(words, key=lambda word: -word.box.x1)
        weights: dict[float, int] = {}
        letters = bold = mono = 0
        for word in words:
            count = len(word.text)
            weights[word.size] = weights.get(word.size, 0) + count
            letters += count
            bold += count if word.bold else 0
            mono += count if is_mono(word.font) else 0
        size = max(weights, key=weights.__getitem__)
        lowest = max((word for word in words if word.size == size), key=lambda word: len(word.text))
        return cls(
            words=words,
            box=bounding_box(word.box for word in words),
            size=size,
            baseline=lowest.box.y1 - DESCENT * lowest.size,
            mono=mono > 0.6 * letters,
            bold=bold > 0.8 * letters,
            order=order,
            text=words_text(words),
        )

    def line(self) -> Line:
        return Line(text=self.text, box=self.box, words=self.words)


@lru_cache(maxsize=1024)
def is_mono(font: str) -> bool:
    """Whether a font's name says that its letters are all of one width."""
    return MONO_NAME.search(font) is not None


def is_cjk(char: str) -> bool:
    """Whether a character belongs to a script written without spaces (Chinese, Japanese; Hangul has spaces)."""
    code = ord(char)
    return (
        0x2E80 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or 0xFF00 <= code <= 0xFFEF or 0x20000 <= code <= 0x3FFFF
    )


def _is_rtl(char: str) -> bool:
    """Whether a character belongs to a script written from right to left."""
    return "\u0590" <= char <= "\u08ff" or "\ufb1d" <= char <= "\ufefc"


def words_text(words: list[Word]) -> str:
    """Words joined by spaces, without a space between two characters of a script that has none."""
    parts: list[str] = []
    for word in words:
        if parts and not (parts[-1] and word.text and is_cjk(parts[-1][-1]) and is_cjk(word.text[0])):
            parts.append(" ")
        parts.append(word.text)
    return "".join(parts)


class WhiteSpace:
    """Where a page is empty, at a resolution of one by two points: finds how far a white strip goes on."""

    def __init__(self, words: list[Word], width: float, height: float) -> None:
        rows, columns = min(int(height / 2) + 2, 15_000), min(int(width) + 2, 15_000)
        self.used = np.zeros((rows, columns), dtype=bool)
        for word in words:
            x0, y0, x1, y1 = word.box
            top, bottom = int(y0 / 2 + 0.5), int(y1 / 2)
            self.used[top : max(bottom, top + 1), int(x0 + 0.5) : max(int(x1 + 0.5), int(x0) + 1)] = True
        index = np.arange(rows, dtype=np.int16)[:, None]
        self.above = np.maximum.accumulate(np.where(self.used, index, np.int16(-1)), axis=0)
        self.below = np.minimum.accumulate(np.where(self.used, index, np.int16(rows))[::-1], axis=0)[::-1]

    def support(self, x0: float, x1: float, y: float, reach: float) -> float:
        """Height in points over which the strip between ``x0`` and ``x1`` is white with text left and right.

        Args:
            x0: left end of the gap.
            x1: right end of the gap.
            y: where the gap was found.
            reach: how near the text on both sides has to be, in points.
        """
        rows, columns = self.used.shape
        row = min(max(int(y / 2), 0), rows - 1)
        first, last = max(int(x0) + 1, 0), min(int(x1), columns)
        window = max(3, int(0.5 * (last - first)))
        best = 0.0
        for left in {first, (first + last - window) // 2, last - window}:
            if left < first or left + window > columns:
                continue
            top = int(self.above[row, left : left + window].max()) + 1
            bottom = int(self.below[row, left : left + window].min())
            before = self.used[top:bottom, max(0, int(x0 - reach)) : left].any(axis=1)
            after = self.used[top:bottom, left + window : int(x1 + reach)].any(axis=1)
            best = max(best, 2.0 * float((before & after).sum()))
        return best


def build_pieces(words: list[Word], rules: list[Box], width: float, height: float) -> list[Piece]:
    """Cut the words of a page into line pieces.

    Args:
        words: horizontal words in content order.
        rules: drawn lines; an upright one between two words always cuts.
        width: of the page.
        height: of the page.
    """
    if not words:
        return []
    space = WhiteSpace(words, width, height)
    uprights = sorted((rule for rule in rules if rule.height > 2 * rule.width and rule.height > 6), key=lambda r: r.x0)
    runs: list[tuple[list[Word], int]] = []
    for order, word in enumerate(words):
        if runs and _joins(runs[-1][0][-1], word, space, uprights, True):
            runs[-1][0].append(word)
        else:
            runs.append(([word], order))
    return _join_rows(runs, space, uprights)


def _same_baseline(one: Word, two: Word) -> bool:
    low, high = sorted((one.size, two.size))
    shift = abs((one.box.y1 - DESCENT * one.size) - (two.box.y1 - DESCENT * two.size))
    if shift <= 0.25 * low:
        return True
    # Raised and lowered small type: its box lies within the line of the large type.
    return low < 0.85 * high and one.box.overlap_y(two.box) > 0.55 * min(one.box.height, two.box.height)


def _is_ruled(uprights: list[Box], x0: float, x1: float, y: float) -> bool:
    """Whether an upright line, of those sorted from left to right, starts between two places at this height."""
    for index in range(bisect_left(uprights, x0, key=_left), len(uprights)):
        rule = uprights[index]
        if rule.x0 > x1:
            return False
        if rule.y0 <= y <= rule.y1:
            return True
    return False


def _left(box: Box) -> float:
    return box.x0


def _joins(last: Word, word: Word, space: WhiteSpace, uprights: list[Box], consecutive: bool) -> bool:
    """Whether ``word`` goes on the piece that ends with ``last``."""
    if not _same_baseline(last, word):
        return False
    size = (last.size + word.size) / 2
    gap = word.box.x0 - last.box.x1
    if gap < -0.6 * size:
        return False
    middle = (max(last.box.y0, word.box.y0) + min(last.box.y1, word.box.y1)) / 2
    if gap > 0.2 * size and _is_ruled(uprights, last.box.x1 - 1, word.box.x0 + 1, middle):
        return False
    if gap <= JOIN_GAP * size:
        return True
    if is_mono(last.font) and is_mono(word.font):
        return consecutive
    if gap <= MARKER_GAP * size and MARKER.match(last.text) and not word.text[0].isdigit() and consecutive:
        return True
    if gap > (FAR_GAP if consecutive else NEAR_GAP) * size:
        return False
    support = space.support(last.box.x1, word.box.x0, middle, 3 * size)
    return support < GUTTER_LINES * 1.2 * size


def _join_rows(runs: list[tuple[list[Word], int]], space: WhiteSpace, uprights: list[Box]) -> list[Piece]:
    """Join runs that stand apart in the content stream but side by side on the page."""
    pieces = [Piece.of(words, order) for words, order in runs]
    pieces.sort(key=lambda piece: (piece.baseline, piece.box.x0))
    joined: list[Piece] = []
    used = [False] * len(pieces)
    typical = [_typical(piece) for piece in pieces]
    for index, piece in enumerate(pieces):
        if used[index]:
            continue
        row = [piece]
        for later in range(index + 1, len(pieces)):
            other = pieces[later]
            if other.baseline - piece.baseline > 0.6 * max(piece.size, other.size):
                break
            if not used[later] and _same_baseline(typical[index], typical[later]):
                row.append(other)
                used[later] = True
        row.sort(key=lambda item: item.box.x0)
        joined.extend(_join_row(row, space, uprights))
    return joined


def _typical(piece: Piece) -> Word:
    """A word that stands for the whole piece: its own box and main size."""
    height_below = DESCENT * piece.size
    box = Box(piece.box.x0, piece.box.y0, piece.box.x1, piece.baseline + height_below)
    return Word("", box, size=piece.size)


def _join_row(row: list[Piece], space: WhiteSpace, uprights: list[Box]) -> list[Piece]:
    done = [row[0]]
    for piece in row[1:]:
        last = done[-1]
        consecutive = piece.order == last.order + len(last.words)
        if _joins(last.words[-1], piece.words[0], space, uprights, consecutive):
            done[-1] = Piece.of(last.words + piece.words, min(last.order, piece.order))
        else:
            done.append(piece)
    return done
