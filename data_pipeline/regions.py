"""Regions of a page from ink and white space alone: the finder that needs no model.

Long rules that cross make a table; the rest is cut again and again where white runs right across, first between
columns, then between paragraphs.  Cutting from the top and from the left gives the reading order.  What has the
bulk of a picture is a figure.  Any callable from a page picture to regions in reading order can take its place.

Limits: tables without rules come out as text, or in pieces; a figure with text in it may be cut; white text on black
is paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image

from docvision.images import fit, grey, ink_mask
from docvision.page import Box

SIDE = 1600
"""Longer side in pixels at which regions are looked for."""

PARTING = 0.3
"""Share of a page's side from which a rule is taken away, since it parts what stands beside it."""


@dataclass(frozen=True)
class Region:
    """A part of a page picture that is annotated on its own."""

    box: Box
    """Pixels of the page picture."""
    kind: str = "text"
    """``text``, ``table`` or ``figure``; other finders may know more."""


RegionFinder = Callable[[Image.Image], list[Region]]


def find_regions(image: Image.Image) -> list[Region]:
    """Regions in reading order, boxes trimmed to the ink; none for a blank page."""
    small, scale = fit(grey(image), SIDE, SIDE)
    mask = ink_mask(small)
    height = _letter_height(mask)
    if height == 0:
        return []
    tables, rules = _rules(mask, height)
    cut = mask & ~rules
    for x0, y0, x1, y1 in tables:
        cut[y0:y1, x0:x1] = True  # one piece, so that no cut runs through it
    found: list[tuple[int, int, int, int]] = []
    _cut(cut, (0, 0, small.width, small.height), height, found)
    return [Region(Box(*(side / scale for side in piece)), _kind(mask, piece, tables, height)) for piece in found]


def _letter_height(mask: np.ndarray) -> float:
    """Median height of what may be a letter; 0 where nothing is."""
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    sizes = stats[1:count]
    wide, high = sizes[:, cv2.CC_STAT_WIDTH], sizes[:, cv2.CC_STAT_HEIGHT]
    letters = high[(high >= 4) & (high <= 0.1 * mask.shape[0]) & (wide <= 8 * high)]
    return float(np.median(letters)) if len(letters) else 0.0


def _rules(mask: np.ndarray, height: float) -> tuple[list[tuple[int, int, int, int]], np.ndarray]:
    """Boxes of ruled tables, and the pixels of the rules that part a page: frames and lines over much of it."""
    ink = mask.astype(np.uint8)
    long = max(30, round(8 * height))
    level = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((1, long), np.uint8))
    upright = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((max(20, round(3 * height)), 1), np.uint8))
    net = cv2.dilate(np.maximum(level, upright), np.ones((3, 3), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(net, connectivity=8)
    tables = []
    parting = np.zeros_like(mask)
    for number in range(1, count):
        x, y, wide, high = (int(value) for value in stats[number, :4])
        inside = labels[y : y + high, x : x + wide] == number
        crossed = min(_runs(level[y : y + high, x : x + wide].astype(bool) & inside, 1, 0.5),
                      _runs(upright[y : y + high, x : x + wide].astype(bool) & inside, 0, 0.3))  # fmt: skip
        if crossed >= 2 and wide > 8 * height and high > 3 * height and _cells(inside) >= 4:
            tables.append((x, y, x + wide, y + high))
        if wide > PARTING * mask.shape[1] or high > PARTING * mask.shape[0]:
            parting[y : y + high, x : x + wide] |= inside
    return tables, parting


def _runs(lines: np.ndarray, axis: int, share: float) -> int:
    """How many separate lines cover at least ``share`` of the width (axis 1) or height (axis 0)."""
    full = lines.mean(axis=axis) >= share
    return int(np.count_nonzero(np.diff(np.concatenate(([False], full)).astype(np.int8)) == 1))


def _cells(net: np.ndarray) -> int:
    """Closed rooms between the lines of a net; a frame has one."""
    count, _, stats, _ = cv2.connectedComponentsWithStats((~net).astype(np.uint8), connectivity=4)
    return int(np.count_nonzero(stats[1:count, cv2.CC_STAT_AREA] > 60))


def _cut(mask: np.ndarray, box: tuple[int, int, int, int], height: float, out: list[tuple[int, int, int, int]]) -> None:
    """Add the pieces of ``box`` to ``out``."""
    x0, y0, x1, y1 = box
    part = mask[y0:y1, x0:x1]
    rows, columns = np.nonzero(part.any(axis=1))[0], np.nonzero(part.any(axis=0))[0]
    if not len(rows):
        return
    x0, x1, y0, y1 = x0 + int(columns[0]), x0 + int(columns[-1]) + 1, y0 + int(rows[0]), y0 + int(rows[-1]) + 1
    part = mask[y0:y1, x0:x1]
    # Words of one line are apart as well, so a single line is cut at wide gaps only.
    gutter = (1.8 if y1 - y0 > 4 * height else 5.0) * height
    edges = [gap for gap in _gaps(np.any(part, axis=0)) if gap[1] - gap[0] >= gutter]
    if edges:
        for start, end in _between(edges, x1 - x0):
            _cut(mask, (x0 + start, y0, x0 + end, y1), height, out)
        return
    gaps = _gaps(np.any(part, axis=1))
    usual = float(np.median([end - start for start, end in gaps])) if gaps else 0.0
    edges = [gap for gap in gaps if gap[1] - gap[0] >= max(1.5 * height, 1.6 * usual if len(gaps) > 2 else 0.0)]
    if not edges:
        out.append((x0, y0, x1, y1))
        return
    for start, end in _between(edges, y1 - y0):
        _cut(mask, (x0, y0 + start, x1, y0 + end), height, out)


def _gaps(inked: np.ndarray) -> list[tuple[int, int]]:
    """Runs of False as (start, end)."""
    steps = np.diff(np.concatenate(([True], inked, [True])).astype(np.int8))
    starts, ends = np.nonzero(steps == -1)[0], np.nonzero(steps == 1)[0]
    return [(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]


def _between(edges: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """What lies between the gaps."""
    return list(zip([0, *(end for _, end in edges)], [*(start for start, _ in edges), size], strict=True))


def _kind(
    mask: np.ndarray, piece: tuple[int, int, int, int], tables: list[tuple[int, int, int, int]], height: float
) -> str:
    box = Box(*piece)
    if any(box.coverage(Box(*table)) > 0.8 for table in tables):
        return "table"
    x0, y0, x1, y1 = piece
    part = mask[y0:y1, x0:x1].astype(np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(part, connectivity=8)
    largest = stats[1:count, cv2.CC_STAT_HEIGHT].max() if count > 1 else 0
    return "figure" if largest > 6 * height and largest > 0.4 * (y1 - y0) else "text"
