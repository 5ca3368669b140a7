"""Pictures and vector graphics of a page -> figure boxes.

Painted things that touch or nearly touch make one cluster.  A cluster is a figure when it holds a picture or curved or
slanted strokes, is large enough to be looked at, and is not a frame around running text.
"""

from __future__ import annotations

from docvision.blocks import CAPTION
from docvision.lines import Piece
from docvision.page import Box
from docvision.textlayer import TextLayer

CELL = 4.0
"""Points: side of the squares in which painted things are collected."""
MIN_WIDTH, MIN_HEIGHT = 30.0, 20.0
MAX_SHARE = 0.8
"""A larger share of the page is a background, not a figure."""
NEAR = 9.0
"""Points: labels this near to a figure belong to it."""
PROSE_WORDS = 7
"""Words in a line, from which on it is running text."""

Mask = dict[int, int]
"""Rows of cells, each with its columns as the bits of a number."""


def find_figures(layer: TextLayer, taken: list[Box], width: float, height: float) -> list[Box]:
    """Boxes of the figures on a page, from top to bottom.

    Args:
        layer: drawings and images of the page.
        taken: boxes of tables, whose lines and fills are no drawing.
        width: of the page.
        height: of the page.
    """
    page = width * height
    seeds = [box for box in layer.images + layer.drawings if box.area < MAX_SHARE * page and not _inside(box, taken)]
    if not seeds:
        return []
    strong: Mask = {}
    for box in seeds:
        _paint(strong, box)
    weak: Mask = {}
    for box in layer.rules + layer.fills:
        if box.area < 0.5 * page and not _inside(box, taken) and box.width < 0.9 * width:
            _paint(weak, box)
    return sorted(
        (box for box in _clusters(strong, weak) if box.width >= MIN_WIDTH and box.height >= MIN_HEIGHT),
        key=lambda box: (box.y0, box.x0),
    )


def _inside(box: Box, areas: list[Box]) -> bool:
    x, y = box.center
    return any(area.pad(2).contains(x, y) for area in areas)


def _paint(mask: Mask, box: Box) -> None:
    """Mark the cells that a box touches."""
    first, last = max(int(box.x0 // CELL), 0), max(int(box.x1 // CELL), 0)
    bits = ((1 << (last - first + 1)) - 1) << first
    for row in range(int(box.y0 // CELL), int(box.y1 // CELL) + 1):
        mask[row] = mask.get(row, 0) | bits


def _clusters(strong: Mask, weak: Mask) -> list[Box]:
    """Boxes around connected cells that hold at least one strong one; a gap of one cell connects."""
    left = {row: strong.get(row, 0) | weak.get(row, 0) for row in strong.keys() | weak.keys()}
    found = []
    for start, bits in strong.items():
        while seeds := bits & left[start]:
            seed = seeds & -seeds
            left[start] ^= seed
            stack, rows, columns = [(start, seed)], {start}, seed
            while stack:
                row, cells = stack.pop()
                near = cells | cells << 1 | cells << 2 | cells >> 1 | cells >> 2
                for other in range(row - 2, row + 3):
                    if joined := left.get(other, 0) & near:
                        left[other] ^= joined
                        stack.append((other, joined))
                        rows.add(other)
                        columns |= joined
            first, last = (columns & -columns).bit_length() - 1, columns.bit_length()
            found.append(Box(first * CELL, min(rows) * CELL, last * CELL, (max(rows) + 1) * CELL))
    return found


def claim_labels(figure: Box, pieces: list[Piece], body: float) -> tuple[Box, list[Piece]] | None:
    """The text that belongs to a figure, and the box around both.

    Args:
        figure: the figure's box.
        pieces: line pieces of the page.
        body: font size of the running text.

    Returns:
        None where the box only frames running text.
    """
    inside = [piece for piece in pieces if figure.contains(*piece.box.center)]
    prose = [piece for piece in inside if len(piece.words) >= PROSE_WORDS]
    if sum(len(piece.text) for piece in prose) > 0.5 * sum(len(piece.text) for piece in inside) and len(prose) > 2:
        return None
    area = figure
    claimed = {id(piece) for piece in inside}
    for piece in sorted(pieces, key=lambda piece: _distance(figure, piece.box)):
        if id(piece) in claimed or _distance(area, piece.box) > NEAR:
            continue
        small = piece.size < 0.93 * body and len(piece.words) < PROSE_WORDS
        figures = sum(char.isdigit() for char in piece.text) > 0.5 * len(piece.text)
        if (small or figures) and not CAPTION.match(piece.text) and piece.box.width < figure.width:
            claimed.add(id(piece))
            inside.append(piece)
            area = area.union(piece.box)
    return area, inside


def _distance(one: Box, two: Box) -> float:
    """White between two boxes."""
    return max(one.x0 - two.x1, two.x0 - one.x1, one.y0 - two.y1, two.y0 - one.y1, 0.0)
