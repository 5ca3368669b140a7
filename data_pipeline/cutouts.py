"""Parts of pages: a few blocks of one column, cut out as people crop a picture to what they want read.

The cut never runs through a block, so a part's truth is that of the page, moved.
"""

from __future__ import annotations

import math

import numpy as np

from docvision.page import Block, Box, Page, bounding_box

Rng = np.random.Generator

LINES = (3, 28)
"""Range of the number of lines that a cut-out aims at."""
_LARGEST = 0.8
"""Of the page's area; more is no part any more."""
_SMALLEST = 32
"""Pixels of the shorter side."""
_APART = 2.0
"""Points between a part and the next block, so that the cut finds a free pixel."""


def cut_out(rng: Rng, page: Page, image: np.ndarray, metadata: dict[str, str]) -> tuple[np.ndarray, dict[str, str]]:
    """Reduce a page to some neighbouring blocks, in place.

    Args:
        rng: the only source of chance.
        page: as typeset; its blocks, boxes and size change.
        image: its picture.
        metadata: of the document, where ``"block N"`` speaks of the block with index N.

    Returns:
        The part's picture and metadata; the whole where any part would be nearly all of it.
    """
    places = _neighbours(rng, page.blocks)
    kept = [page.blocks[place] for place in places]
    others = [block.box for place, block in enumerate(page.blocks) if place not in places]
    area = _margins(rng, bounding_box(block.box for block in kept), others).clip(page.width, page.height)
    x0, y0, x1, y1 = page.to_pixels(area)
    # Inwards, for there may be a pixel's width between two blocks.
    left, top = math.ceil(x0), math.ceil(y0)
    part = np.ascontiguousarray(image[top : int(y1), left : int(x1)])
    height, width = part.shape
    if min(height, width) < _SMALLEST or height * width > _LARGEST * image.size:
        return image, metadata
    sx, sy = page.width / image.shape[1], page.height / image.shape[0]
    names = {f"block {old}": f"block {new}" for new, old in enumerate(places)}
    _shift(kept, -left * sx, -top * sy)
    page.blocks, page.width, page.height, page.pixels = kept, width * sx, height * sy, (width, height)
    return part, {names[name]: value for name, value in metadata.items() if name in names}


def _neighbours(rng: Rng, blocks: list[Block]) -> list[int]:
    """Places of a random block and those next to it in its column, until there are lines enough."""
    goal = int(rng.integers(LINES[0], LINES[1] + 1))
    kept = _closed({int(rng.integers(len(blocks)))}, blocks)
    while sum(len(blocks[place].lines) for place in kept) < goal:
        area = bounding_box(blocks[place].box for place in kept)
        near = [
            (max(block.box.y0 - area.y1, area.y0 - block.box.y1), place)
            for place, block in enumerate(blocks)
            if place not in kept and block.box.overlap_x(area) > 0.5 * min(block.box.width, area.width)
        ]
        if not near:
            break
        kept = _closed({*kept, min(near)[1]}, blocks)
    return sorted(kept)


def _closed(kept: set[int], blocks: list[Block]) -> set[int]:
    """These blocks and all that their bounds touch."""
    while True:
        area = bounding_box(blocks[place].box for place in kept).pad(_APART)
        touched = kept | {place for place, block in enumerate(blocks) if block.box.intersection(area).area > 0}
        if touched == kept:
            return kept
        kept = touched


def _margins(rng: Rng, area: Box, others: list[Box]) -> Box:
    """Some paper around the blocks, as far as other blocks leave any."""
    room = rng.uniform(3.0, 36.0, 4).tolist()
    for side in range(4):
        step = [0.0, 0.0, 0.0, 0.0]
        step[side] = room[side] if side > 1 else -room[side]
        wider = Box(*(edge + move for edge, move in zip(area, step, strict=True)))
        for other in others:
            if wider.intersection(other).area > 0:
                edges = list(wider)
                # The far edge of what is in the way, with a little air.
                edges[side] = other[side - 2] - 0.5 if side > 1 else other[side + 2] + 0.5
                wider = Box(*edges)
        area = wider
    return area


def _shift(blocks: list[Block], dx: float, dy: float) -> None:
    for block in blocks:
        block.box = block.box.shift(dx, dy)
        for line in block.lines:
            line.box = line.box.shift(dx, dy)
            for word in line.words:
                word.box = word.box.shift(dx, dy)
        for cell in block.table.cells if block.table else ():
            cell.box = cell.box.shift(dx, dy) if cell.box else None
            cell.text_box = cell.text_box.shift(dx, dy) if cell.text_box else None
