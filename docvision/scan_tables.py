"""Tables of a page picture that its words give away once they are read.

The structure maps miss tables of plain columns, and what they call text comes out column by column.  Words that have
been read pass the rules that find the tables of a text layer (tables.py): nets and pairs of lines, figures below each
other, white between columns.  Their boxes are those of the ink: the widest gaps of a line part its words.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from docvision.cells import text_lines
from docvision.chunks import Mask, find_rules
from docvision.images import ink_mask
from docvision.layout import arrange
from docvision.page import Block, Box, Line, Word, bounding_box
from docvision.table_readers import home_cells
from docvision.textlayer import TextLayer

Keep = Literal["none", "alone", "all"]
Columns = NDArray[np.int_]
BODY = 10.0
"""Font size in points that the page's usual line stands for: the rules are in points."""
SAME = (0.8, 1.25)
"""Heights of lines, as shares of the usual one, that are its font size: lines without descenders are lower."""
FEWEST_LINES = 4
FEWEST_ROWS = 3
"""Of a table that the maps did not see: in two lines of a paragraph gaps lie below each other by chance."""
FINE = 20.0
"""Pixels; lines of this height are as good as higher ones and cost less, lower ones lose thin rules."""
ASTRAY = 0.1
"""Pixels that a gap has to be wider for each column of ink by which it makes a word too wide or too narrow."""
NARROW, WIDE = set("iljtfrI1.,:;'|!()[]-/ "), set("mwMW%@—")
LEAST_SHARE = 0.3
"""Of the words of a table without prose that have to stand in those found by the words."""
PROSE_WORDS = 6
"""Of a line, at least."""
READABLE = 0.6
"""Median confidence of the lines from which words are believed."""


def find_read_tables(image: Image.Image, blocks: Sequence[Block], keep: Keep = "none") -> list[Block]:
    """Blocks with the tables among their lines in the place of these lines.

    Args:
        image: the page, grey and level.
        blocks: read, boxes in pixels of ``image``.
        keep: which tables among them do not give way to what the words say: ``alone`` for one that is all there is on
            the picture, which may be cut out around it.

    Returns:
        Blocks in the same order; a table stands where the first of its lines stood.
    """
    lines = [line for block in blocks if block.kind != "figure" for line in block.lines]
    if len(lines) < FEWEST_LINES or statistics.median(line.confidence for line in lines) < READABLE:
        return list(blocks)
    sheet = _Sheet(image, statistics.median(line.box.height for line in lines))
    if keep != "all":
        alone = keep == "alone" and sum(bool(block.lines) for block in blocks) == 1
        blocks = [part for block in blocks for part in (sheet.rearranged(block, alone) if block.table else [block])]
    return sheet.with_tables(blocks)


class _Sheet:
    """A page whose words have places in points, as those of a text layer."""

    def __init__(self, image: Image.Image, usual: float) -> None:
        """``usual``: height of its lines in pixels."""
        self.usual = usual
        self.scale = BODY / usual
        self.factor = max(1, int(usual / FINE))
        height = usual / self.factor
        self.ink = ink_mask(image.reduce(self.factor), window=max(31, round(3 * height)))
        rules = find_rules(self.ink, height)
        self.rules = [rule.scale(self.factor * self.scale) for rule in (*rules.across, *rules.upright)]
        self.size = image.width * self.scale, image.height * self.scale

    def words(self, lines: Iterable[Line]) -> list[tuple[Word, Line]]:
        """The words of lines, each with its line, row by row."""
        found = []
        for line in sorted(lines, key=lambda line: (line.box.center[1], line.box.x0)):
            share = line.box.height / self.usual
            size = BODY * (1.0 if SAME[0] < share < SAME[1] else share)
            for text, box in split_words(line.text, line.box.scale(1 / self.factor), self.ink):
                place = box.scale(self.factor * self.scale)
                found.append((Word(text, place, line.confidence, "model", size=size), line))
        return found

    def arranged(self, words: list[Word]) -> list[tuple[Block, list[Word]]]:
        """Blocks of words by the rules of a text layer, boxes in points, with the words in them."""
        blocks = arrange(words, TextLayer(words, rules=self.rules), *self.size)
        standing = {id(word) for block in blocks for line in block.lines for word in line.words}
        left = [word for word in words if id(word) not in standing]
        found = []
        for block in blocks:
            if block.table is None:
                found.append((block, [word for line in block.lines for word in line.words]))
                continue
            inside = [word for word in left if block.box.contains(*word.box.center)]
            left = [word for word in left if not block.box.contains(*word.box.center)]
            if inside:
                found.append((_table_block(block, inside, 1 / self.scale), inside))
        if left:
            found.append((Block("text", bounding_box(word.box for word in left)), left))
        return found

    def rearranged(self, block: Block, alone: bool) -> list[Block]:
        """The tables that the words of a table make, and the prose that was taken for rows of it.

        Args:
            block: a table that the maps found.
            alone: it is all there is on the picture; then the maps know its cells better, unless they took in prose.
        """
        words = [word for word, _ in self.words(block.lines)]
        found = self.arranged(words)
        kept = sum(len(inside) for part, inside in found if part.table is not None)
        little = alone or kept < LEAST_SHARE * len(words)
        if not kept or (little and not self._has_prose(found, block.box)):
            return [block]
        return [part if part.table else self._prose(part, inside) for part, inside in found]

    def _prose(self, block: Block, words: Sequence[Word]) -> Block:
        """A block of running text, in pixels."""
        lines = _lines(words, 1 / self.scale)
        box = bounding_box(line.box for line in lines)
        return Block(block.kind, box, lines=lines, level=block.level, source="model")

    def _has_prose(self, found: Sequence[tuple[Block, list[Word]]], box: Box) -> bool:
        """Whether lines outside the tables run on over most of a width."""
        lines = [line for part, _ in found if part.table is None for line in part.lines]
        return (
            sum(len(line.words) >= PROSE_WORDS and line.box.width > 0.5 * box.width * self.scale for line in lines) > 1
        )

    def with_tables(self, blocks: Sequence[Block]) -> list[Block]:
        """Blocks with the tables among their lines in the place of these lines."""
        words = self.words(line for block in blocks if _is_prose(block) for line in block.lines)
        found = self.arranged([word for word, _ in words])
        tables = [
            (part, {id(word) for word in inside})
            for part, inside in found
            if part.table is not None and part.table.rows >= FEWEST_ROWS
        ]
        made = _with_tables(blocks, tables, words, 1 / self.scale) if tables else blocks
        boxes = [block.box for block in made if block.table]
        return [  # a figure may be a table's coloured rows
            block for block in made if block.kind != "figure" or not any(block.box.nesting(box) > 0.5 for box in boxes)
        ]


def split_words(line: str, box: Box, ink: Mask) -> list[tuple[str, Box]]:
    """The words of a line with their boxes, parted at gaps of its ink: wide ones, with the words' letters between them.

    Args:
        line: its text.
        box: where it stands on the ink.
        ink: of the page.
    """
    texts = line.split()
    x0, y0, x1, y1 = (max(0, round(v)) for v in box)
    inked = np.flatnonzero(ink[y0:y1, x0:x1].any(0))
    before = np.flatnonzero(np.diff(inked) > 1)
    if len(before) < len(texts) - 1 or not len(inked):
        return _spread(texts, box)
    cuts = _cuts(np.diff(inked)[before], before + 1, texts, len(inked), box.height)
    starts = [int(inked[0]), *(int(inked[before[cut] + 1]) for cut in cuts)]
    ends = [*(int(inked[before[cut]]) for cut in cuts), int(inked[-1])]
    return [
        (text, Box(float(x0 + start), box.y0, float(x0 + end + 1), box.y1))
        for text, start, end in zip(texts, starts, ends, strict=True)
    ]


def _cuts(gap_N: Columns, before_N: Columns, texts: Sequence[str], inked: int, height: float) -> list[int]:
    """Which gaps part the words: in order, as wide as can be, between them as much ink as the words' letters have.

    Args:
        gap_N: widths of the gaps in pixels.
        before_N: columns of ink before each.
        texts: the words, fewer by one than gaps at most.
        inked: columns of ink in all.
        height: of the line; wider gaps are no better.
    """
    if len(texts) < 2:
        return []
    wide_N = np.minimum(gap_N, height)
    widths = np.array([_width(text) for text in texts])
    widths *= inked / widths.sum()
    score_N = wide_N - ASTRAY * np.abs(before_N - widths[0])
    between_NN = np.where(before_N[:, None] < before_N, before_N - before_N[:, None], np.inf)
    came = []
    for width in widths[1:-1]:
        paths_NN = score_N[:, None] - ASTRAY * np.abs(between_NN - width)
        came.append(paths_NN.argmax(0))
        score_N = wide_N + paths_NN.max(0)
    cuts = [int((score_N - ASTRAY * np.abs(inked - before_N - widths[-1])).argmax())]
    for last in reversed(came):
        cuts.append(int(last[cuts[-1]]))
    return cuts[::-1]


def _width(text: str) -> float:
    """How wide a word is, about, in the widths of usual small letters."""
    return sum(0.5 if sign in NARROW else 1.4 if sign in WIDE or sign.isupper() else 1.0 for sign in text)


def _spread(texts: Sequence[str], box: Box) -> list[tuple[str, Box]]:
    """Words that ink does not part: as wide as they are long."""
    each = box.width / max(1, len(" ".join(texts)))
    placed, x = [], box.x0
    for text in texts:
        placed.append((text, Box(x, box.y0, x + each * len(text), box.y1)))
        x += each * (len(text) + 1)
    return placed


def _is_prose(block: Block) -> bool:
    return block.table is None and block.kind != "figure"


def _table_block(block: Block, words: Sequence[Word], back: float) -> Block:
    """A table found as a block of a scan: its cells and the lines in them, in pixels."""
    assert block.table is not None
    for cell in block.table.cells:
        cell.source = "model"
    homes = home_cells([word.box for word in words], block.table)
    inside: dict[int, list[Word]] = {}
    for word, home in zip(words, homes, strict=True):
        inside.setdefault(id(home), []).append(word)
    lines = [line for cell in block.table.cells for line in _lines(inside.get(id(cell), []), back)]
    for cell in block.table.cells:
        held = inside.get(id(cell))
        cell.text_box = bounding_box(word.box for word in held).scale(back) if held else None
        cell.box = cell.box.scale(back) if cell.box else cell.text_box
        if cell.box and cell.text_box:
            cell.box = cell.box.union(cell.text_box)
    return Block("table", block.box.scale(back), lines=lines, table=block.table, source="model")


def _lines(words: Sequence[Word], back: float) -> list[Line]:
    """Lines of words that lie beside each other."""
    made = []
    for row in text_lines(list(words)):
        box = bounding_box(word.box for word in row).scale(back)
        confidence = min(word.confidence for word in row)
        made.append(Line(" ".join(word.text for word in row), box, confidence=confidence, source="model"))
    return made


def _with_tables(
    blocks: Sequence[Block],
    tables: Sequence[tuple[Block, set[int]]],
    words: Sequence[tuple[Word, Line]],
    back: float,
) -> list[Block]:
    """The blocks without the words of the tables, which stand where the first of their lines stood."""
    of_line: dict[int, list[Word]] = {}
    for word, line in words:
        of_line.setdefault(id(line), []).append(word)
    gone = {word: number for number, (_, ids) in enumerate(tables) for word in ids}
    placed: set[int] = set()
    made: list[Block] = []
    for block in blocks:
        if not _is_prose(block):
            made.append(block)
            continue
        kept: list[Line] = []
        for line in block.lines:
            held = of_line.get(id(line), [])
            rest = [word for word in held if id(word) not in gone]
            first = next((gone[id(word)] for word in held if id(word) in gone), None)
            if first is not None and first not in placed:
                if kept:
                    made.append(replace(block, lines=kept, box=bounding_box(line.box for line in kept)))
                    kept = []
                made.append(tables[first][0])
                placed.add(first)
            if len(rest) == len(held):
                kept.append(line)
            else:
                kept += _lines(rest, back)
        if kept:
            made.append(replace(block, lines=kept, box=bounding_box(line.box for line in kept)))
    return made
