"""What is drawn and written on a picture, from its pixels alone: rules, the height of the text, chunks of text.

A chunk is a stretch of one text line without a wide gap: a cell's line of text, or a phrase.  Ink here is what differs
from the ground around it, so that white words on a dark header count as ink and the dark header itself does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageFilter

from docvision.images import PAPER, grey
from docvision.page import Box

Mask = NDArray[np.bool_]

WORD_GAP = 0.28
"""Line heights; letters nearer than this belong to one word."""
CHUNK_GAP = 0.72
"""A wider gap between words ends a chunk."""
DOUBTFUL_GAP = 0.36
"""Gaps from here to ``CHUNK_GAP`` end a chunk only where something else says so."""
MIN_RULE = 2.5
"""Line heights; a shorter stroke is a dash or part of a letter."""
CONTRAST = (0.07, 0.3)
"""Shares of the grey scale by which ink differs from clean and from very noisy ground."""
THICK = 0.45
"""Line heights; the thickest rule, with its blur."""
LONG = 10.0
"""Line heights; no text is a stroke without gaps of such a length over most of the picture."""
FLANK = 3
"""Pixels beside a rule that are paper."""
FRAMED = 10
"""Pieces of ink inside a piece that is no letter then."""
NOISE = 4.0
"""Standard deviations of the ground's noise that are no ink."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Straight lines, as thin boxes in pixels."""

    across: list[Box]
    upright: list[Box]
    mask: Mask
    """Their ink."""


def ground_ink(image: Image.Image, height: float = 15.0) -> Mask:
    """Pixels that differ from the ground: the median of what lies within most of a line's height."""
    picture = grey(image)
    factor = max(1, round(height / 5))
    # Every n-th pixel as it is: means over strokes and paper would be neither.
    small = Image.fromarray(np.ascontiguousarray(np.asarray(picture)[::factor, ::factor]))
    side = 2 * max(1, round(0.8 * height / factor)) + 1
    padded = np.pad(np.asarray(small), side, mode="edge")
    median = Image.fromarray(padded).filter(ImageFilter.MedianFilter(side))
    cut = median.crop((side, side, side + small.width, side + small.height))
    ground = cut.resize((small.width * factor, small.height * factor), Image.Resampling.NEAREST)
    levels = np.asarray(picture, dtype=np.int16)
    paper = np.asarray(ground, dtype=np.int16)[: levels.shape[0], : levels.shape[1]]
    apart = np.abs(levels - paper)
    noise = 1.48 * float(np.median(apart))
    return apart > min(max(NOISE * noise, CONTRAST[0] * PAPER), CONTRAST[1] * PAPER)


def components(mask: Mask) -> list[tuple[int, int, int, int]]:
    """Connected pieces of a mask (sides touch) as (first row, last row, first column, last column).

    Row by row: a run joins every run above that shares a column.
    """
    parents: list[int] = []
    extents: list[list[int]] = []

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = (places.tolist() for places in np.nonzero(edges == 1))
    stops = np.nonzero(edges == -1)[1].tolist()
    first_above, first_here, last_row = 0, 0, -1
    for index, (row, start, stop) in enumerate(zip(rows, starts, stops, strict=True)):
        parents.append(index)
        extents.append([row, row, start, stop - 1])
        if row != last_row:
            first_above = first_here if row == last_row + 1 else index
            first_here, last_row = index, row
        # Runs above that end before this one starts end before all later ones too.
        while first_above < first_here and stops[first_above] <= start:
            first_above += 1
        other = first_above
        while other < first_here and starts[other] < stop:
            parents[root(other)] = root(index)
            other += 1
    merged: dict[int, list[int]] = {}
    for index, (r0, r1, c0, c1) in enumerate(extents):
        whole = merged.setdefault(root(index), [r0, r1, c0, c1])
        whole[:] = [min(whole[0], r0), max(whole[1], r1), min(whole[2], c0), max(whole[3], c1)]
    return sorted((r0, r1, c0, c1) for r0, r1, c0, c1 in merged.values())


def boxes_of(mask: Mask) -> list[Box]:
    """Boxes in pixels around the connected pieces."""
    return [Box(float(c0), float(r0), float(c1 + 1), float(r1 + 1)) for r0, r1, c0, c1 in components(mask)]


def text_height(ink: Mask) -> float:
    """Typical height in pixels of a line of text, ascenders and descenders included; 0 where there is none.

    Measured on letters: four of five are no higher than an ascender or a descender more than small letters, which is
    what the box of a whole line is high within an eighth.
    """
    sizes = [box for box in boxes_of(ink) if box.height >= 4 and box.width < 8 * box.height < 64 * box.width]
    heights = np.sort([box.height for box in _without_frames(sizes)])
    if len(heights) < 5:
        return 0.0
    # Weighed by height, since specks and dots may be many.
    total = np.cumsum(heights)
    typical = heights[np.searchsorted(total, 0.5 * total[-1])]
    letters = heights[(heights > 0.4 * typical) & (heights < 2.2 * typical)]
    return 1.03 * float(np.percentile(letters, 80))


def _without_frames(boxes: list[Box]) -> list[Box]:
    """Boxes without those that hold several others: a net of lines or a chart outweighs all letters of a page."""
    sides_N4 = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    middles_N2 = (sides_N4[:, :2] + sides_N4[:, 2:]) / 2
    large = 6 * np.median(sides_N4[:, 3] - sides_N4[:, 1]) if boxes else 0.0

    def is_frame(box: Box) -> bool:
        held = ((middles_N2 > box[:2]) & (middles_N2 < box[2:])).all(1)
        return int(held.sum()) > FRAMED

    return [box for box in boxes if box.height < large or not is_frame(box)]


def find_rules(ink: Mask, height: float) -> Rules:
    """Straight level and upright lines longer than letters."""
    mask = np.zeros_like(ink)
    inked = np.flatnonzero(ink.any(0))
    endless = max(LONG * height, 0.6 * float(np.ptp(inked))) if len(inked) else 0.0
    across = _strokes(ink, round(MIN_RULE * height), height, endless, mask)
    turned = _strokes(ink.T, round(1.8 * height), height, math.inf, mask.T)
    return Rules(_join(across, 1), _join([Box(box.y0, box.x0, box.y1, box.x1) for box in turned], 0), mask)


def _strokes(ink: Mask, length: int, height: float, endless: float, mask: Mask) -> list[Box]:
    """Level strokes of at least ``length``, thinner than letters are high; marks them and their blur in ``mask``.

    From the length ``endless`` on a stroke is one whatever lies beside it.
    """
    runs = _long_runs(ink, length)
    found = []
    for box in boxes_of(runs):
        x0, y0, x1, y1 = (int(v) for v in box)
        part = runs[y0:y1, x0:x1]
        long = box.width > endless
        thick = max(3.0, (2 if long else 1) * THICK * height)
        slim = part.sum() <= thick * box.width and box.height < 0.03 * box.width + thick
        if slim and (long or _stands_alone(ink, part, box)):
            found.append(box)
            for shift in range(1 - FLANK, FLANK):
                rows = np.arange(y0, y1) + shift
                inside = (rows >= 0) & (rows < len(mask))
                mask[rows[inside], max(0, x0 - 2) : x1 + 2] |= np.pad(part[inside], ((0, 0), (min(2, x0), 2)), "edge")[
                    :, : mask.shape[1] - max(0, x0 - 2)
                ]
    return found


def _stands_alone(ink: Mask, part: Mask, box: Box) -> bool:
    """Whether a stroke is solid, with paper above and below: the feet of letters that touch make strokes too."""
    columns = np.arange(int(box.x0), int(box.x1))
    first = int(box.y0) + part.argmax(0)
    last = int(box.y1) - 1 - part[::-1].argmax(0)
    heights = np.arange(len(part))[:, None] + int(box.y0)
    between = (heights >= first) & (heights <= last)
    if (between & ink[int(box.y0) : int(box.y1), columns]).sum() < 0.93 * between.sum():
        return False
    for rows in (first - FLANK, last + FLANK):
        inside = (rows >= 0) & (rows < len(ink))
        if ink[rows[inside], columns[inside]].mean() > 0.25 if inside.any() else False:
            return False
    return True


def _long_runs(mask: Mask, length: int) -> Mask:
    """What is left of a mask when only level runs of at least ``length`` stay; gaps of two pixels are closed first."""
    closed = close_gaps(mask, 2)
    total = np.cumsum(np.pad(closed, ((0, 0), (1, 0))), axis=1, dtype=np.int32)
    if mask.shape[1] < length:
        return np.zeros_like(mask)
    full = (total[:, length:] - total[:, :-length]) == length
    grown = np.cumsum(np.pad(full, ((0, 0), (length, length - 1))), axis=1, dtype=np.int32)
    return (grown[:, length:] - grown[:, :-length]) > 0


def close_gaps(mask: Mask, gap: int) -> Mask:
    """Fill level gaps of at most ``gap`` pixels between two inked ones."""
    if gap < 1:
        return mask
    rows, columns = np.nonzero(mask)
    steps = np.diff(columns)
    inner = np.flatnonzero((np.diff(rows) == 0) & (steps > 1) & (steps <= gap + 1))
    marks = np.zeros((mask.shape[0], mask.shape[1] + 1), np.int8)
    marks[rows[inner], columns[inner] + 1] = 1
    marks[rows[inner + 1], columns[inner + 1]] = -1
    return mask | (np.cumsum(marks, axis=1, dtype=np.int8)[:, :-1] > 0)


def _join(strokes: list[Box], axis: int) -> list[Box]:
    """Pieces of one line that a slight slope cut into steps; ``axis`` 1 for level lines."""
    joined: list[Box] = []
    for stroke in sorted(strokes, key=lambda box: box[1 - axis]):
        for index, other in enumerate(joined):
            apart = max(stroke[axis] - other[axis + 2], other[axis] - stroke[axis + 2])
            if apart <= 2 and stroke[1 - axis] - other[3 - axis] <= 3 and stroke[3 - axis] > other[3 - axis]:
                joined[index] = other.union(stroke)
                break
        else:
            joined.append(stroke)
    return sorted(joined, key=lambda box: (box[axis], box[1 - axis]))


def find_chunks(text: Mask, height: float, parted: Callable[[Box], bool], upright: Sequence[Box] = ()) -> list[Box]:
    """Chunks of text.

    Args:
        text: ink without rules.
        height: of a line of text.
        parted: whether two words belong to two columns, for the box of a doubtful gap between them.
        upright: drawn lines, which part chunks.
    """
    words = [
        part for box in boxes_of(close_gaps(text, round(WORD_GAP * height))) for part in _cut_lines(box, text, height)
    ]
    words = _collect_marks(words, height)
    chunks: list[Box] = []
    for word in sorted(words, key=lambda box: box.x0):
        best = None
        for index, other in enumerate(chunks):
            gap = word.x0 - other.x1
            if gap > CHUNK_GAP * height or word.overlap_y(other) < 0.5 * min(word.height, other.height):
                continue
            between = Box(
                min(other.x1, word.x0), max(word.y0, other.y0), max(other.x1, word.x0), min(word.y1, other.y1)
            )
            ruled = any(
                other.x1 - 2 <= line.center[0] <= word.x0 + 2 and line.y0 <= between.center[1] <= line.y1
                for line in upright
            )
            if ruled or (gap > DOUBTFUL_GAP * height and parted(between)):
                continue
            if best is None or other.x1 > chunks[best].x1:
                best = index
        if best is None:
            chunks.append(word)
        else:
            chunks[best] = chunks[best].union(word)
    chunks = _absorb(chunks)
    return sorted(chunks, key=lambda box: (box.y0, box.x0))


def _absorb(chunks: list[Box]) -> list[Box]:
    """Chunks of which most lies in another one become part of it."""
    kept: list[Box] = []
    sides_N4 = np.empty((len(chunks), 4))
    for chunk in sorted(chunks, key=lambda box: -box.area):
        homes = np.flatnonzero(shares([chunk], sides_N4[: len(kept)])[0] > 0.55)
        if not len(homes):
            sides_N4[len(kept)] = chunk
            kept.append(chunk)
        else:
            kept[homes[0]] = kept[homes[0]].union(chunk)
            sides_N4[homes[0]] = kept[homes[0]]
    return kept


def _cut_lines(box: Box, text: Mask, height: float) -> list[Box]:
    """Words of several lines that touch, cut at the thinnest rows."""
    count = round(box.height / height) if box.height > 1.55 * height else 1
    if count < 2 or box.width < 0.5 * height:
        return [box]
    x0, y0, x1, y1 = (int(v) for v in box)
    profile = text[y0:y1, x0:x1].sum(1)
    cuts = [0]
    for number in range(1, count):
        middle, reach = number * len(profile) / count, 0.3 * len(profile) / count
        first = max(cuts[-1] + 1, round(middle - reach))
        cuts.append(first + int(profile[first : max(first + 1, round(middle + reach) + 1)].argmin()))
    cuts.append(len(profile))
    parts = []
    for top, bottom in pairwise(cuts):
        inked = np.flatnonzero(text[y0 + top : y0 + bottom, x0:x1].any(0))
        if len(inked):
            parts.append(Box(float(x0 + inked[0]), float(y0 + top), float(x0 + inked[-1] + 1), float(y0 + bottom)))
    return parts


def _collect_marks(words: list[Box], height: float) -> list[Box]:
    """Dots, accents and commas go to the word above or below or beside them; specks alone are left out."""
    large = [box for box in words if box.height >= 0.4 * height]
    sides_N4 = np.array(large, dtype=np.float64).reshape(-1, 4)
    for mark in (box for box in words if box.height < 0.4 * height):
        # A dithered picture has tens of thousands of marks: all words are asked at once.
        low_N2, high_N2 = np.minimum(sides_N4[:, :2], mark[:2]), np.maximum(sides_N4[:, 2:], mark[2:])
        apart_N2 = np.maximum(sides_N4[:, :2] - mark[2:], mark[:2] - sides_N4[:, 2:])
        near = np.flatnonzero(
            (apart_N2 < (0.25 * height, 0.3 * height)).all(1) & (high_N2[:, 1] - low_N2[:, 1] < 1.6 * height)
        )
        if len(near):
            middle_N = (sides_N4[near, 1] + sides_N4[near, 3]) / 2
            index = int(near[np.abs(middle_N - mark.center[1]).argmin()])
            large[index] = large[index].union(mark)
            sides_N4[index] = large[index]
        elif mark.width > max(0.3 * height, 1.6 * mark.height):
            large.append(Box(mark.x0, mark.center[1] - 0.35 * height, mark.x1, mark.center[1] + 0.35 * height))
            sides_N4 = np.vstack([sides_N4, large[-1]])
    return large


def shares(boxes: ArrayLike, places: ArrayLike) -> NDArray[np.float64]:
    """(boxes, places) shares of each box that lie in each place."""
    a, b = np.array(boxes, dtype=np.float64).reshape(-1, 1, 4), np.array(places, dtype=np.float64).reshape(1, -1, 4)
    sides = np.clip(np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]), 0.0, None)
    area = np.maximum((a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1]), 1e-9)
    return sides.prod(-1) / area


def text_lines(chunks: Sequence[Box]) -> list[Box]:
    """The lines of a cell's text, from top to bottom."""
    lines: list[Box] = []
    for chunk in sorted(chunks, key=lambda box: (box.center[1], box.x0)):
        if lines and chunk.overlap_y(lines[-1]) > 0.5 * min(chunk.height, lines[-1].height):
            lines[-1] = lines[-1].union(chunk)
        else:
            lines.append(chunk)
    return lines
