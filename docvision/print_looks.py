"""How printed lines look, and what that makes of them: headings and captions of pages read as pictures.

A picture has no fonts, but larger letters are higher and bold ones have thicker strokes, measured against the other
lines of the page.  With these in the place of font sizes a line passes the same rules as one of a text layer
(blocks.py); a heading that stands on top of its paragraph without a gap becomes a block of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from docvision.blocks import SENTENCE_END, classify
from docvision.chunks import ground_ink, text_height
from docvision.lines import Piece
from docvision.page import Block, Line, Word, bounding_box

BODY = 10.0
"""Font size that the page's usual height of letters stands for."""
SAME = (0.85, 1.2)
"""Heights of letters, as shares of the usual one, that are its size: a line is measured within a tenth, a short one
within a sixth."""
BOLD = 1.25
"""Thickness of strokes at the same size, as a share of the usual one, from which letters are bold (bold ones have 1.4,
nine of ten regular ones less than 1.05)."""
PROSE = ("text", "footnote", "caption", "heading")
MOST_HEADINGS = 0.4
"""Share of a page's characters in headings from which the structure maps are not believed: a page has running text."""
FEWEST_LINES = 4
"""With fewer lines there is no usual look."""
FEWEST_LETTERS = 3
"""Of a heading that the structure maps alone see: page numbers stand apart like headings."""
LONGEST = 3
"""Lines of a heading on top of its paragraph."""
TITLE = 1.45
"""Size from which a heading is a title, as a share of the usual one."""


@dataclass(frozen=True)
class Look:
    """Of one line; 0 where it could not be measured."""

    height: float
    """Of its letters with ascenders, in pixels."""
    stroke: float
    """Mean length of level runs of ink, in pixels."""


def measure(crop: Image.Image) -> Look:
    """The look of a line.

    Args:
        crop: grey, of the line alone, at the picture's own resolution.
    """
    ink = 1 - np.asarray(crop, dtype=np.float32) / 255
    ink = np.abs(ink - np.median(ink))
    edges = np.abs(np.diff(ink, axis=1)).sum()
    return Look(text_height(ground_ink(crop)), float(2 * ink.sum() / edges) if edges > 0 else 0.0)


def sort_by_look(image: Image.Image, blocks: Sequence[Block]) -> list[Block]:
    """Blocks with headings and captions told from running text.

    Args:
        image: the page, grey and level.
        blocks: read, boxes in pixels of ``image``.
    """
    prose = [block for block in blocks if block.kind in PROSE and block.lines]
    lines = [line for block in prose for line in block.lines]
    if len(lines) < FEWEST_LINES:
        return list(blocks)
    looks = [measure(image.crop(line.box.pad(1).clip(*image.size))) for line in lines]
    usual = _usual(lines, looks)
    if not usual.height or not usual.stroke:
        return list(blocks)
    pieces = {id(line): _piece(line, look, usual) for line, look in zip(lines, looks, strict=True)}
    headed = sum(len(line.text) for block in prose if block.kind == "heading" for line in block.lines)
    doubted = headed > MOST_HEADINGS * sum(len(line.text) for line in lines)
    found: list[Block] = []
    for block in blocks:
        if block.kind == "heading" and doubted:
            block = replace(block, kind="text", level=0)
        found += _sorted(block, pieces) if block.kind in PROSE and block.lines else [block]
    return found


def _usual(lines: Sequence[Line], looks: Sequence[Look]) -> Look:
    """The look that most characters have."""
    weights = np.array([len(line.text) for line in lines], dtype=np.float64)

    def middle(values: list[float]) -> float:
        order = np.argsort(values)
        total = np.cumsum(weights[order] * (np.array(values)[order] > 0))
        return float(values[order[int(np.searchsorted(total, 0.5 * total[-1]))]]) if total[-1] > 0 else 0.0

    return Look(middle([look.height for look in looks]), middle([look.stroke for look in looks]))


def _piece(line: Line, look: Look, usual: Look) -> Piece:
    """A line as a piece of a text layer, its words with the size and the weight that it looks like."""
    share = look.height / usual.height or 1.0
    share = 1.0 if SAME[0] < share < SAME[1] else share
    bold = look.stroke > BOLD * share * usual.stroke
    words = [Word(text, line.box, size=BODY * share, bold=bold) for text in line.text.split()]
    return Piece.of(words, 0)


def _sorted(block: Block, pieces: dict[int, Piece]) -> list[Block]:
    """A block, cut where headings begin and end, each part of the kind that it looks like."""
    parts: list[list[Line]] = [[]]
    for line in block.lines:
        last = parts[-1]
        if last and _is_break(last, line, pieces):
            parts.append([])
        parts[-1].append(line)
    edges = block.box.x0, block.box.x1
    made = []
    for lines in parts:
        rows = [pieces[id(line)] for line in lines]
        kind = classify(rows, edges, BODY)
        if kind not in ("heading", "caption") or (kind == "heading" and len(lines) > LONGEST):
            stays = block.kind != "heading" or (
                len(parts) == 1 and sum(map(str.isalpha, rows[0].text)) >= FEWEST_LETTERS
            )
            kind = block.kind if stays else "text"
        level = (1 if min(row.size for row in rows) > TITLE * BODY else 2) if kind == "heading" else 0
        made.append(replace(block, kind=kind, level=level, lines=lines, box=bounding_box(line.box for line in lines)))
    return made


def _is_break(last: list[Line], line: Line, pieces: dict[int, Piece]) -> bool:
    """Whether a heading ends before this line, or begins with it."""
    above, here = pieces[id(last[-1])], pieces[id(line)]
    if (above.bold, above.size > BODY) == (here.bold, here.size > BODY):
        return False
    if here.bold or here.size > above.size:
        return bool(SENTENCE_END.search(above.text))
    return len(last) <= LONGEST and classify([pieces[id(one)] for one in last], (0.0, 1.0), BODY) == "heading"
