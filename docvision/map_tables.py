"""The grid of a table on a picture: the separator maps say what belongs together, the ink says where exactly.

    chunks of text -> columns and levels of text -> levels put together into rows -> cells with their spans

Maps are 8 pixels coarse and may be unsure, ink is exact and mute about meaning.  So every decision adds up both, the
maps with a weight that grows with how clearly they speak in this very table; without any the ink decides alone.
Drawn lines count like a map that is sure.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from docvision.chunks import Mask, Rules, find_chunks, find_rules, text_lines
from docvision.map_cells import Grid, Span, band_edges, find_cells, header_rows, inside_span
from docvision.net_tables import net_grid
from docvision.page import Block, Box, Cell, Line, Table, bounding_box
from docvision.separators import Evidence, Interval, SeparatorMaps, turn

DOUBT = 0.35
"""A separator of this strength in the map says neither yes nor no."""
RUNNING, WIDE = 0.75, 15.0
"""Share of the width that a line of prose fills; line heights of the narrowest such width."""
DEAF = 0.1
"""Factor for what a map says that sees nothing above most of the lines that are filled from end to end."""


def read_table(area: Box, ink: Mask, maps: SeparatorMaps | None, height: float) -> Block | None:
    """The table in a part of a picture.

    Args:
        area: where it lies, in pixels.
        ink: of the whole picture, see :func:`docvision.chunks.ground_ink`.
        maps: of the whole picture; None to go by the ink alone.
        height: of a line of text in pixels.

    Returns:
        A table block whose cells have boxes and whose lines have no text yet; None where there are not two columns.
    """
    held = _within(area, ink)
    rules = find_rules(held, height)
    rows, columns = _evidence(maps, rules)
    if maps is not None:
        rows.listen(area)
        columns.listen(turn(area))
    text = held & ~rules.mask
    doubt = max(0.5, 1.5 - columns.say)

    def parted(gap: Box) -> bool:
        return columns.at(gap.x0 - 4, gap.x1 + 4, gap.y0, gap.y1) > doubt

    chunks = find_chunks(text, height, parted, rules.upright)
    if len(chunks) < 2:
        return None
    net = net_grid(chunks, rules, height)
    if net is not None:
        return _block(*net, rules, height)
    inner = without_prose(area, chunks, height)
    if inner.height < area.height - height:
        return read_table(inner, ink, maps, height)
    grid = Grid(find_columns(chunks, columns, height), [])
    levels = find_levels(chunks, rows, height)
    grid.rows = join_levels(levels, chunks, grid.columns, rows, height)
    if len(grid.columns) < 2:
        return None
    grid.places = [_place(chunk, grid) for chunk in chunks]
    cells = find_cells(grid, rows, columns, height)
    return _block(grid, cells, rules, height)


def read_net(area: Box, ink: Mask, height: float) -> Block | None:
    """The table in a part of a picture where it is drawn as a net, see :func:`read_table`; None where it is not."""
    held = _within(area, ink)
    rules = find_rules(held, height)
    net = net_grid(find_chunks(held & ~rules.mask, height, lambda gap: False, rules.upright), rules, height)
    return _block(*net, rules, height) if net is not None else None


def _within(area: Box, ink: Mask) -> Mask:
    """The ink of a part, white around it."""
    held = np.zeros_like(ink)
    part = slice(max(0, int(area.y0)), int(area.y1) + 1), slice(max(0, int(area.x0)), int(area.x1) + 1)
    held[part] = ink[part]
    return held


def without_prose(area: Box, chunks: list[Box], height: float) -> Box:
    """The area without the paragraphs above and below a table: lines that run on across its columns, two or more.

    Args:
        area: of the table so far.
        chunks: of text in it.
        height: of a line of text.
    """
    lines: list[list[Box]] = []
    for chunk in sorted(chunks, key=lambda box: box.center[1]):
        if lines and chunk.overlap_y(lines[-1][-1]) > 0.5 * min(chunk.height, lines[-1][-1].height):
            lines[-1].append(chunk)
        else:
            lines.append([chunk])
    whole = bounding_box(chunks)
    running = [_running_lines(line, whole, height) for line in lines]
    top, bottom = 0, len(lines)
    while top < bottom and (running[top] or (top and running[top - 1] and len(lines[top]) == 1)):
        top += 1
    # The last line of the lower paragraph may be short: look for the long ones above it.
    while bottom > top and (
        running[bottom - 1] or (bottom - 1 > top and running[bottom - 2] and len(lines[bottom - 1]) == 1)
    ):
        bottom -= 1
    top, bottom = (top if sum(running[:top]) > 1 else 0), (bottom if sum(running[bottom:]) > 1 else len(lines))
    rest = [line for line in lines[top:bottom] if len(line) > 1]
    if len(rest) < 2 or (top, bottom) == (0, len(lines)):
        return area
    columns = _merge([(box.x0, box.x1) for line in rest for box in line], 0.3 * height)
    outside = [index for index in (*range(top), *range(bottom, len(lines))) if running[index]]
    prose = [max(lines[index], key=lambda box: box.width) for index in outside]
    if len(columns) < 2 or any(len(covered((box.x0, box.x1), columns)) < 2 for box in prose):
        return area
    y0 = (bounding_box(lines[top - 1]).y1 + bounding_box(lines[top]).y0) / 2 if top else area.y0
    y1 = (bounding_box(lines[bottom - 1]).y1 + bounding_box(lines[bottom]).y0) / 2 if bottom < len(lines) else area.y1
    return Box(area.x0, y0, area.x1, y1)


def _running_lines(line: list[Box], whole: Box, height: float) -> int:
    """How many lines go from side to side here, with gaps no wider than justified print has; lines may touch."""
    gaps = [b.x0 - a.x1 for a, b in pairwise(sorted(line, key=lambda box: box.x0))]
    inked = sum(box.width for box in line)
    if inked < RUNNING * whole.width or max(gaps, default=0.0) > 1.2 * height or whole.width < WIDE * height:
        return 0
    return max(1, round(bounding_box(line).height / (1.4 * height)))


def _evidence(maps: SeparatorMaps | None, rules: Rules) -> tuple[Evidence, Evidence]:
    """Rows and columns."""
    turned = [turn(box) for box in rules.upright]
    if maps is None:
        empty = np.zeros((1, 1), np.float32)
        return Evidence(empty, rules.across), Evidence(empty, turned)
    return Evidence(maps.rows, rules.across), Evidence(maps.columns.T, turned)


# columns and levels


def _neighbours(boxes: list[Box], height: float) -> list[tuple[int, int]]:
    """Pairs (above, below) of boxes with nothing between them."""
    pairs = []
    order = sorted(range(len(boxes)), key=lambda i: boxes[i].y0)
    for index in order:
        box = boxes[index]
        best: int | None = None
        for other in order:
            below = boxes[other]
            common = box.overlap_x(below)
            under = below.y0 >= box.y1 - 0.25 * height and below.center[1] > box.center[1] and other != index
            faces = under and common > 0.3 * min(box.width, below.width)
            if faces and (best is None or below.y0 < boxes[best].y0):
                best = other
        if best is not None:
            pairs.append((index, best))
    return pairs


def _spanning(boxes: list[Box], evidence: Evidence, height: float) -> set[int]:
    """Boxes that reach over a separator of the others, in y (turn everything for x).

    For a separator speak pairs of boxes above and below it that both overlap the box; against it, boxes across it.
    """
    pairs = _neighbours(boxes, height)
    found = set()
    for index, box in enumerate(boxes):
        votes: list[tuple[float, float, float]] = []
        for above, below in pairs:
            first, second = boxes[above], boxes[below]
            if index in (above, below) or first.y1 <= box.y0 or second.y0 >= box.y1:
                continue
            need = 0.22 * height
            if (
                min(first.overlap_y(box) / min(need, first.height), second.overlap_y(box) / min(need, second.height))
                < 1
            ):
                continue
            told = evidence.at(first.y1, second.y0, max(first.x0, second.x0), min(first.x1, second.x1))
            votes.append((first.y1, second.y0, 1.0 + evidence.say * (2 * told - 1)))
        for middle in {(top + bottom) / 2 for top, bottom, _ in votes}:
            speak = sum(weight for top, bottom, weight in votes if top - 1 <= middle <= bottom + 1)
            against = sum(other.y0 + 0.1 * height < middle < other.y1 - 0.1 * height for other in boxes)
            if speak > against:
                found.add(index)
    return found


def _merge(intervals: list[Interval], touch: float) -> list[Interval]:
    """Intervals that overlap put together; those that overlap by no more than ``touch`` stay apart."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start < merged[-1][1] - min(touch, 0.5 * (end - start)):
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def find_columns(chunks: list[Box], evidence: Evidence, height: float) -> list[Interval]:
    """Intervals of x that hold the columns; ``evidence`` is that of the columns, turned."""
    turned = [turn(box) for box in chunks]
    wide = _spanning(turned, evidence, height)
    columns = _merge([(box.x0, box.x1) for i, box in enumerate(chunks) if i not in wide], 0.3 * height)
    index = 0
    while index + 1 < len(columns):
        left, right = columns[index], columns[index + 1]
        if _one_column(left, right, chunks, evidence, height):
            columns[index : index + 2] = [(left[0], right[1])]
        else:
            index += 1
    return columns


def _one_column(left: Interval, right: Interval, chunks: list[Box], evidence: Evidence, height: float) -> bool:
    """Whether two neighbouring intervals are one column: no line of text has something in both."""
    first = [box for box in chunks if left[0] <= box.center[0] <= left[1] and box.x1 <= right[0] + 0.3 * height]
    second = [box for box in chunks if right[0] <= box.center[0] <= right[1] and box.x0 >= left[1] - 0.3 * height]
    beside = sum(any(one.overlap_y(two) > 0.4 * min(one.height, two.height) for two in second) for one in first)
    told = evidence.at(left[1], right[0], min(b.y0 for b in chunks), max(b.y1 for b in chunks))
    score = evidence.say * (2 * told - 0.6) + min(beside, 3) * 0.5
    if evidence.ruled(left[1] - 2, right[0] + 2, chunks[0].y0, chunks[-1].y1) > 0.5:
        score += 1
    return score < (0.25 if right[0] - left[1] < 3 * height else 0.0)


def find_levels(chunks: list[Box], evidence: Evidence, height: float) -> list[Interval]:
    """Intervals of y that hold text, a line each or several where cells stand at different heights."""
    tall = _spanning(chunks, evidence, height)
    cores = [(box.y0 + 0.22 * box.height, box.y1 - 0.22 * box.height) for i, box in enumerate(chunks) if i not in tall]
    return _merge(cores, 0.0)


def join_levels(
    levels: list[Interval], chunks: list[Box], columns: list[Interval], evidence: Evidence, height: float
) -> list[Interval]:
    """Rows: neighbouring levels stay apart where the map, a drawn line, or the look of the text says so."""
    held = [_on_level(level, chunks) for level in levels]
    filled = [{column for box in boxes for column in covered((box.x0, box.x1), columns)} for boxes in held]
    gaps = [below[0] - above[1] for above, below in pairwise(levels)]
    told = [_told(above, below, columns, evidence) for above, below in pairwise(levels)]
    left, right = columns[0][0], columns[-1][1]
    drawn = [evidence.ruled(above[1], below[0], left, right) for above, below in pairwise(levels)]
    plain = [told[i] for i, share in enumerate(drawn) if share < 0.5 and _is_full(filled[i + 1], columns)]
    if len(plain) > 1 and np.median(plain) < DOUBT:
        evidence.say *= DEAF
    rows = [levels[0]]
    here = set(filled[0])
    for index, below in enumerate(levels[1:]):
        look = _look(here, filled[index + 1], len(columns)) + _pitch(index, gaps, height)
        if filled[index + 1] == {0} and 0 in here:
            look += _label(held[index], held[index + 1], columns[0], height)
        voice = min(1.0, max(-1.0, (told[index] - DOUBT) / 0.4))
        score = 1.6 * evidence.say * voice + (1 - 0.6 * evidence.say) * look
        score += 2.0 if drawn[index] > 0.6 else 0.8 if drawn[index] > 0.08 else 0.0
        if score > 0:
            rows.append(below)
            here = set(filled[index + 1])
        else:
            rows[-1] = (rows[-1][0], below[1])
            here |= filled[index + 1]
    return rows


def _told(above: Interval, below: Interval, columns: list[Interval], evidence: Evidence) -> float:
    """How strongly the map parts two levels: its mean over the upper half of the columns, because of spans."""
    edges = band_edges(columns)
    values = sorted(evidence.at(above[1], below[0], start, end) for start, end in pairwise(edges))
    return float(np.mean(values[len(values) // 2 :]))


def _is_full(filled: set[int], columns: list[Interval]) -> bool:
    return 0 in filled and len(filled) >= 0.6 * len(columns)


def _on_level(level: Interval, chunks: list[Box]) -> list[Box]:
    return [
        box
        for box in chunks
        if min(box.y1, level[1]) - max(box.y0, level[0]) > 0.5 * min(level[1] - level[0], 0.5 * box.height)
    ]


def _look(above: set[int], below: set[int], columns: int) -> float:
    """What the columns filled say about the row so far and the next level: above 0 for two rows."""
    score = 0.5
    if below <= above and len(below) < len(above) and 0 not in below:
        score -= 0.8
    if 0 in below and len(below) > max(1, columns // 2):
        score += 1.0 if len(above) < len(below) else 0.5
    return score


def _pitch(index: int, gaps: list[float], height: float) -> float:
    """Where white between levels comes in two sizes, the wide ones part rows."""
    tight, loose = (float(np.percentile(gaps, q)) for q in (20, 80))
    if loose - tight <= 0.35 * height:
        return 0.0
    return 0.9 if gaps[index] > (tight + loose) / 2 else -0.9


def _label(above: list[Box], below: list[Box], column: Interval, height: float) -> float:
    """A label alone on its level: the rest of the label above it if that one reached far, or a title of rows."""
    first = [box for box in above if box.center[0] <= column[1]]
    if not first:
        return 0.0
    indent = min(box.x0 for box in below) - min(box.x0 for box in first)
    if indent < -0.3 * height:
        return 0.5
    room = column[1] - max(box.x1 for box in first)
    return -1.0 if room < 0.3 * (column[1] - column[0]) or indent > 0.4 * height else 0.0


def covered(span: Interval, columns: list[Interval]) -> list[int]:
    """Columns that a chunk stands in; the nearest where it stands in none."""
    x0, x1 = span
    inside = [
        i for i, (a, b) in enumerate(columns) if min(x1, b) - max(x0, a) > min(4.0, 0.3 * (b - a), 0.5 * (x1 - x0))
    ]
    if inside:
        return list(range(inside[0], inside[-1] + 1))
    center = (x0 + x1) / 2
    return [min(range(len(columns)), key=lambda i: max(columns[i][0] - center, center - columns[i][1], 0.0))]


def _place(chunk: Box, grid: Grid) -> tuple[int, int, int, int, Box]:
    across = covered((chunk.x0, chunk.x1), grid.columns)
    quarter = 0.22 * chunk.height
    down = covered((chunk.y0 + quarter, chunk.y1 - quarter), grid.rows)
    return down[0], down[-1], across[0], across[-1], chunk


def _block(grid: Grid, cells: list[Span], rules: Rules, height: float) -> Block:
    box = bounding_box([place[4] for place in grid.places] + rules.across + rules.upright)
    xs, ys = band_edges(grid.columns), band_edges(grid.rows)
    xs[0], xs[-1] = min(box.x0, xs[0]), max(box.x1, xs[-1])
    ys[0], ys[-1] = min(box.y0, ys[0]), max(box.y1, ys[-1])
    header = header_rows(grid, cells, rules, height)
    made, lines = [], []
    for r0, r1, c0, c1 in cells:
        inside = text_lines([p[4] for p in grid.places if inside_span(p[:4], (r0, r1, c0, c1))])
        lines += [Line("", line, source="model") for line in inside]
        made.append(
            Cell(
                r0,
                c0,
                row_span=r1 - r0 + 1,
                column_span=c1 - c0 + 1,
                header=r0 < header,
                box=Box(xs[c0], ys[r0], xs[c1 + 1], ys[r1 + 1]),
                text_box=bounding_box(inside) if inside else None,
                source="model",
            )
        )
    return Block("table", box, lines=lines, table=Table(len(grid.rows), len(grid.columns), made), source="model")
