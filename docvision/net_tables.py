"""Tables of a picture that are drawn as a net of lines: the meshes are the cells, whatever the text in them looks like.

The net is believed where it is whole: no white strip in it parts columns that no line does.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from docvision.chunks import Mask, Rules, find_rules, text_lines
from docvision.columns import merge_intervals
from docvision.lattice import LatticeGrid, Ruling, find_nets, net_edges
from docvision.map_cells import Grid, Span
from docvision.page import Box, bounding_box

SNAP = 0.3
"""Line heights; lines closer than this are one, and ends this near to a line touch it."""
THIN = 0.7
"""Line heights; no text stands between double lines that are this close."""
STRIP = 0.4
"""Line heights; white of this width down a column parts two."""
FILLED = 0.35
"""Share of the meshes that hold text, at least: a chart's do not."""
MANY = 5
"""Lines of text in one band of a net that are rows if most columns have them; of few bands (FEW) 3 do."""
FEW = 3


def find_net_boxes(ink: Mask, height: float) -> list[Box]:
    """Boxes around the nets of lines of a picture that have two rows and two columns of meshes or more."""
    found = []
    rules = find_rules(ink, height)
    for across, upright in find_nets(Ruling(rules.across, rules.upright), SNAP * height):
        box = bounding_box([*across, *upright])
        if len(across) > 2 and len(upright) > 1 and box.width > 4 * height and box.height > 2 * height:
            found.append(box)
    return found


def net_grid(chunks: list[Box], rules: Rules, height: float) -> tuple[Grid, list[Span]] | None:
    """Rows, columns and cells of a table drawn as a net.

    Args:
        chunks: of text, parted at drawn lines, in pixels.
        rules: drawn lines.
        height: of a line of text.

    Returns:
        The grid with the chunks in their places, and the cells; None where no net holds nearly all of the text, or
        where it parts the text only here and there.
    """
    nets = find_nets(Ruling(rules.across, rules.upright), SNAP * height)
    if not nets or not chunks:
        return None
    across, upright = max(nets, key=lambda net: bounding_box([*net[0], *net[1]]).area)
    edges = net_edges([box.center for box in chunks], across, upright, SNAP * height)
    if edges is None:
        return None
    xs, ys = (_without_thin(values, height) for values in edges)
    inside = [box for box in chunks if xs[0] <= box.center[0] <= xs[-1] and ys[0] <= box.center[1] <= ys[-1]]
    if len(xs) < 3 or len(ys) < 3 or len(inside) < 0.9 * len(chunks):
        return None
    meshes = LatticeGrid(xs, ys, across, upright, SNAP * height).cells()
    texts = {mesh: [box for box in inside if _holds(mesh, xs, ys, box)] for mesh in meshes}
    if len(meshes) < 4 or not _is_whole(texts, height):
        return None
    for row in range(len(ys) - 2, -1, -1):
        cuts = _rows_within(row, texts, len(ys) - 1)
        if cuts:
            texts = _cut(row, cuts, texts, ys)
    grid = Grid(list(pairwise(xs)), list(pairwise(ys)))
    spans = []
    for (row, column, tall, wide), boxes in sorted(texts.items()):
        spans.append((row, row + tall - 1, column, column + wide - 1))
        grid.places += [(*spans[-1], box) for box in boxes]
    return grid, spans


Mesh = tuple[int, int, int, int]
"""Row, column, row span, column span."""


def _without_thin(edges: list[float], height: float) -> list[float]:
    """One line in the place of two that lie side by side."""
    kept = edges[:1]
    for edge in edges[1:]:
        if edge - kept[-1] < THIN * height:
            kept[-1] = (kept[-1] + edge) / 2
        else:
            kept.append(edge)
    return kept


def _holds(mesh: Mesh, xs: list[float], ys: list[float], box: Box) -> bool:
    row, column, tall, wide = mesh
    x, y = box.center
    return xs[column] <= x < xs[column + wide] and ys[row] <= y < ys[row + tall]


def _is_whole(texts: dict[Mesh, list[Box]], height: float) -> bool:
    """Whether enough meshes hold text, and no white strip runs down a column between the parts of its lines."""
    if sum(bool(boxes) for boxes in texts.values()) < max(3, FILLED * len(texts)):
        return False
    columns: dict[tuple[int, int], list[list[Box]]] = {}
    for (_, column, _, wide), boxes in texts.items():
        columns.setdefault((column, wide), []).extend(_lines(boxes))
    for lines in columns.values():
        # Justified lines have gaps too, at other places each.
        parts = merge_intervals([(box.x0, box.x1) for line in lines for box in line], STRIP * height)
        if len(parts) > 1 and sum(len(line) > 1 for line in lines) > 1:
            return False
    return True


def _lines(boxes: list[Box]) -> list[list[Box]]:
    """Chunks by line of text."""
    merged = text_lines(boxes)
    return [[box for box in boxes if line.contains(*box.center)] for line in merged]


def _rows_within(row: int, texts: dict[Mesh, list[Box]], rows: int) -> list[float]:
    """Heights that part the rows of text in one band of the net; none where the band is one row."""
    band = {mesh: boxes for mesh, boxes in texts.items() if mesh[0] <= row < mesh[0] + mesh[2]}
    if any(mesh[2] > 1 for mesh in band):
        return []
    counts = [len(text_lines(boxes)) for boxes in band.values() if boxes]
    most = Counter(counts).most_common(1)[0][0] if counts else 0
    if len(counts) < 2 or most < (3 if rows <= FEW else MANY) or sum(n == most for n in counts) < 0.7 * len(counts):
        return []
    levels = text_lines([box for boxes in band.values() for box in boxes])
    return [(above.y1 + below.y0) / 2 for above, below in pairwise(levels)] if len(levels) == most else []


def _cut(row: int, cuts: list[float], texts: dict[Mesh, list[Box]], ys: list[float]) -> dict[Mesh, list[Box]]:
    """The meshes with one band cut at some heights, which enter ``ys``."""
    ys[row + 1 : row + 1] = cuts
    made: dict[Mesh, list[Box]] = {}
    for (top, column, tall, wide), boxes in texts.items():
        if top != row:
            made[top + len(cuts) * (top > row), column, tall, wide] = boxes
            continue
        for step in range(len(cuts) + 1):
            low, high = ys[row + step], ys[row + step + 1]
            made[row + step, column, 1, wide] = [
                box
                for box in boxes
                if (step == 0 or low <= box.center[1]) and (step == len(cuts) or box.center[1] < high)
            ]
    return made
