"""Pieces of text lines found by the line map -> whole lines: what lies inside, what goes on, what stands at the ends.

The map is weak where print is faint, small or stands alone: the number of a list item, the first letter of a line, a
full stop.  The ink left over on the band of a line, within a word space of its end, belongs to it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from docvision.chunks import boxes_of, shares
from docvision.page import BlockKind, Box

OVERLAP = 8
"""Pixels by which two pieces of one line may overlap: the side of a cell of the maps."""
GUTTER = 1.1
"""Line heights; the narrowest white column between two columns of text. Word spaces of justified lines are under 1."""
LOOSE = 2.5
"""Line heights; the widest space in a line, where the lines above and below go on across it."""
NEAR = 0.6
"""Line heights; pieces nearer than this are one line even where the map gives them two classes."""
INSIDE = 0.6
"""Share of a piece that lies in a larger one and makes it part of that."""
SAME = 0.85
"""The same for a piece that is about as long."""
TALLER = 1.12
"""How much a letter beside a line's end may add to its height."""
LETTER = (0.4, 1.35)
"""Line heights; how high a left-over letter or digit is."""
MARK_SPACE = 0.45
"""Line heights between a line's end and a left-over full stop or hyphen; specks are as small, so it has to be near."""
MARKER_WIDTH, MARKER_LEVEL, THIN = (0.2, 1.3), (0.35, 0.8), 0.2
"""Line heights: width of a list's dash or bullet, from where to where its middle may stand below the line's top, and
how thick a dash is."""
SPECK = 0.006
"""Squared line heights; a smaller spot is no mark."""


@dataclass(slots=True)
class Item:
    """A line, table or figure to be put in order."""

    box: Box
    kind: BlockKind
    confidence: float = 1.0


def whole_lines(pieces: Sequence[Item], ink: NDArray[np.bool_]) -> list[Item]:
    """Lines of a page from the pieces that the map shows."""
    lines = join_pieces(absorb(pieces))
    lines = extend(lines, ink)
    return join_pieces(absorb(lines))


def absorb(pieces: Sequence[Item]) -> list[Item]:
    """Pieces of which most lies in a larger one become part of it; those as long are lines of their own."""
    kept: list[Item] = []
    sides_N4 = np.empty((len(pieces), 4))
    for piece in sorted(pieces, key=lambda item: -item.box.area):
        share_N = shares([piece.box], sides_N4[: len(kept)])[0]
        wide_N = sides_N4[: len(kept), 2] - sides_N4[: len(kept), 0]
        homes = np.flatnonzero((share_N > SAME) | ((share_N > INSIDE) & (piece.box.width < 0.5 * wide_N)))
        if not len(homes):
            sides_N4[len(kept)] = piece.box
            kept.append(replace(piece))
            continue
        home = kept[homes[0]]
        if home.box.union(piece.box).height < LETTER[1] * home.box.height:
            home.box = home.box.union(piece.box)
            sides_N4[homes[0]] = home.box
    return kept


def join_pieces(lines: Sequence[Item]) -> list[Item]:
    """Pieces that a slight slope, a weak spot or a wide space cut apart become one line again."""
    joined: list[Item] = []
    for line in sorted(lines, key=lambda item: item.box.x0):
        for index, other in enumerate(joined):
            if _goes_on(other, line, lines):
                wide = max(other, line, key=lambda item: item.box.width)
                joined[index] = Item(line.box.union(other.box), wide.kind, min(line.confidence, other.confidence))
                break
        else:
            joined.append(line)
    return joined


def _goes_on(left: Item, right: Item, lines: Sequence[Item]) -> bool:
    """Whether two pieces are one line."""
    small = min(left.box.height, right.box.height)
    gap = right.box.x0 - left.box.x1
    if gap < -OVERLAP or left.box.overlap_y(right.box) <= 0.6 * small:
        return False
    if gap < NEAR * small:
        return True
    if left.kind != right.kind or gap >= LOOSE * small:
        return False
    return gap < GUTTER * small or _is_crossed(left.box, right.box, small, lines)


def _is_crossed(left: Box, right: Box, height: float, lines: Sequence[Item]) -> bool:
    """Whether a line just above or below goes on across the space between two pieces, and none starts beyond it.

    Such a space is no gutter: a sentence's space of a justified line, or a worn letter.
    """
    middle = (left.center[1] + right.center[1]) / 2
    crossed = False
    for line in lines:
        if 0.6 * height < abs(line.box.center[1] - middle) < 2.2 * height:
            if abs(line.box.x0 - right.x0) < height:
                return False
            crossed |= line.box.x0 < left.x1 - height and line.box.x1 > right.x0 + height
    return crossed


def extend(lines: Sequence[Item], ink: NDArray[np.bool_]) -> list[Item]:
    """Lines with the ink beside their ends that no line has."""
    if not lines:
        return []
    usual = statistics.median(line.box.height for line in lines)
    rest = ink.copy()
    for line in lines:
        x0, y0, x1, y1 = (round(value) for value in line.box)
        rest[max(0, y0 - 1) : y1 + 1, max(0, x0) : x1] = False
    spots = [
        box
        for box in boxes_of(rest)
        if box.height < LETTER[1] * usual * 1.5 and box.width < 4 * usual and box.area > SPECK * usual * usual
    ]
    extended = []
    for line in lines:
        height = line.box.height
        band = [
            spot for spot in spots if spot.height < LETTER[1] * height and spot.overlap_y(line.box) > 0.6 * spot.height
        ]
        words = _words(band, MARK_SPACE * height)
        box = _grow(line.box, sorted(words, key=lambda word: -word.x1), left=True)
        box = _grow(box, sorted(words, key=lambda word: word.x0), left=False)
        extended.append(Item(box, line.kind, line.confidence))
    return extended


def _is_marker(spot: Box, line: Box) -> bool:
    """Whether a spot left of a line is the dash or bullet of a list item: no speck, as high up as small letters."""
    wide, high = spot.width / line.height, spot.height / line.height
    low, top = MARKER_LEVEL
    return (
        MARKER_WIDTH[0] < wide < MARKER_WIDTH[1]
        and (high < THIN or wide < 2 * high)
        and low < (spot.center[1] - line.y0) / line.height < top
    )


def _words(spots: Sequence[Box], gap: float) -> list[Box]:
    """Spots close together: a digit and its full stop."""
    words: list[Box] = []
    for spot in sorted(spots, key=lambda box: box.x0):
        if words and spot.x0 - words[-1].x1 < gap:
            words[-1] = words[-1].union(spot)
        else:
            words.append(spot)
    return words


def _grow(line: Box, words: Sequence[Box], left: bool) -> Box:
    """The line with the words beyond one of its ends, from near to far, until the space is too wide."""
    height = line.height
    for word in words:
        gap = line.x0 - word.x1 if left else word.x0 - line.x1
        if gap < -0.5 * height:
            continue
        letter = word.height > LETTER[0] * height
        if gap > GUTTER * height:
            break
        if letter or gap < MARK_SPACE * height or (left and _is_marker(word, line)):
            grown = line.union(word)
            line = Box(grown.x0, line.y0, grown.x1, line.y1) if grown.height > TALLER * height else grown
    return line
