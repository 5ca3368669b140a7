"""Structure maps of a page picture -> blocks in reading order, their lines still without text.

The maps say, for each cell of 8 x 8 pixels, whether the middle of a text line passes and what kind of block it is.
A line is a connected piece of the line map; its box is then fitted to the ink, because a cell is half a line high.
Lines take the class that most of their cells have, and are put in order and grouped like the words of a text layer.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from docvision.chunks import components, ground_ink, text_height
from docvision.columns import Group, reading_order
from docvision.images import ink_mask
from docvision.line_pieces import GUTTER, Item, whole_lines
from docvision.map_tables import read_net, read_table
from docvision.maps import CLASSES
from docvision.net_tables import find_net_boxes
from docvision.page import Block, BlockKind, Box, Line, bounding_box

if TYPE_CHECKING:
    from PIL import Image

    from docvision.model import StructureMaps

CELL = 8
LINE_THRESHOLD = 0.4
LEAST_HEIGHT = 15.0
"""Pixels; height of the lines whose ground is measured, at least."""
CONTRAST = 50.0
"""Grey levels between the darkest and the lightest of a figure, at least: photographs and drawings have more."""
MIN_REGION = 12
"""Cells of the smallest table or figure."""
ALL_TABLE = (0.3, 0.6)
"""Shares of what is printed that the table class must have for the picture to be one table: if the ink looks so too,
and in any case."""
SURE = 0.6
LABEL = 14.0
"""Line heights; the widest label beside what it names."""
TABLE, FIGURE = CLASSES.index("table"), CLASSES.index("figure")


def layout_from_maps(maps: StructureMaps, image: Image.Image) -> list[Block]:
    """Blocks of one page picture.

    Args:
        maps: probabilities for this very image.
        image: the picture, upright and level.

    Returns:
        Blocks in reading order, boxes in pixels of ``image``; lines have boxes and no text, tables have cells.
    """
    ink = ink_mask(image)
    classes = maps.block.argmax(0)
    lines = find_lines(maps, ink)
    height = statistics.median(line.box.height for line in lines) if lines else 0.0
    nets = find_net_boxes(ink, height) if lines else []
    tables = find_tables(maps, image, lines, nets)
    figures = [
        Item(box, "figure")
        for box in regions(classes == FIGURE)
        if _is_drawn(image, box) and not any(box.nesting(table.box) > 0.5 for table in tables)
    ]
    items = []
    for line in lines:
        if not any(table.box.contains(*line.box.center) for table in tables):
            items.append(line)
    blocks: list[Block] = []
    everything = [*items, *figures, *(Item(t.box, "table") for t in tables)]
    for leaf in reading_order(everything, GUTTER * height, is_read_across):
        blocks.extend(_blocks(leaf.items if isinstance(leaf, Group) else leaf, tables))
    return blocks


def find_lines(maps: StructureMaps, ink: NDArray[np.bool_]) -> list[Item]:
    """Text lines with boxes fitted to the ink."""
    cores = components(maps.line > LINE_THRESHOLD)
    boxes = [Box(c0 * CELL, r0 * CELL, (c1 + 1) * CELL, (r1 + 1) * CELL) for r0, r1, c0, c1 in cores]
    lines = []
    for index, core in enumerate(boxes):
        box = fit_to_ink(core, boxes[:index] + boxes[index + 1 :], ink)
        if box is None:
            continue
        r0, r1, c0, c1 = cores[index]
        votes = maps.block[1:, r0 : r1 + 1, c0 : c1 + 1].sum((1, 2))
        kind = CLASSES[1 + int(votes.argmax())]
        sure = float(maps.line[r0 : r1 + 1, c0 : c1 + 1].max())
        lines.append(Item(box, "text" if kind in ("table", "figure") else kind, sure))  # type: ignore[arg-type]
    return whole_lines(lines, ink)


def line_on_strip(image: Image.Image) -> Box | None:
    """The text line on a picture that holds one, cut out of a page with bits of its neighbours.

    The band of rows with most ink is the line; what touches the upper or lower edge beyond white rows is not.

    Args:
        image: the strip, level.

    Returns:
        Box in pixels; None where there is no ink.
    """
    ink = ink_mask(image, window=max(31, 2 * image.height // 3))
    profile = ink.sum(1).astype(np.float32)
    if not profile.any():
        return None
    dark = np.convolve(profile, np.ones(3) / 3, mode="same") > 0.25 * float(np.percentile(profile, 95))
    edges = np.flatnonzero(np.diff(dark.astype(np.int8), prepend=0, append=0))
    bands = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    if not bands:
        return None
    top, bottom = max(bands, key=lambda band: float(profile[band[0] : band[1]].sum()))
    # The caps of a line of small letters, or its underline, can be a band of their own.
    apart = 0.3 * (bottom - top)
    others = [Box(0, a, image.width, b) for a, b in bands if b < top - apart or a > bottom + apart]
    core = Box(0, top, image.width, bottom)
    # The core is the height of small letters; capitals with accents and descenders reach about as far again.
    return fit_to_ink(core, others, ink, reach=max(4, round(1.1 * core.height)))


def fit_to_ink(core: Box, others: Sequence[Box], ink: NDArray[np.bool_], reach: int = 0) -> Box | None:
    """The box of a line's ink: up and down from its core to white paper, or to the thinnest row before a neighbour."""
    height, width = ink.shape
    x0, x1 = max(0, int(core.x0) - CELL), min(width, int(core.x1) + CELL)
    reach = reach or int(max(2 * core.height, 3 * CELL))
    near = [o for o in others if o.overlap_x(core) > 0]
    above = max((o.y1 for o in near if o.y1 <= core.y0), default=-1e9)
    below = min((o.y0 for o in near if o.y0 >= core.y1), default=1e9)
    top, bottom = int(max(0, core.y0 - reach, above)), int(min(height, core.y1 + reach, below))
    if bottom <= top or x1 <= x0:
        return None
    profile = ink[top:bottom, x0:x1].sum(1).astype(np.float32)
    start, stop = max(0, int(core.y0) - top), min(len(profile), int(core.y1) - top)
    if stop <= start or profile[start:stop].max(initial=0.0) < 1:
        return None
    floor = max(1.0, 0.012 * float(profile[start:stop].max()))
    y0 = _edge(profile[:start][::-1], floor, above > core.y0 - reach)
    y1 = _edge(profile[stop:], floor, below < core.y1 + reach)
    rows = slice(top + start - y0, top + stop + y1)
    columns = np.flatnonzero(ink[rows, x0:x1].any(0))
    inked = np.flatnonzero(ink[rows, x0:x1].any(1))
    if not len(columns):
        return None
    return Box(
        float(x0 + columns[0]),
        float(rows.start + inked[0]),
        float(x0 + columns[-1] + 1),
        float(rows.start + inked[-1] + 1),
    )


def _edge(profile: NDArray[np.float32], floor: float, shared: bool) -> int:
    """Rows to add in one direction: to two rows of white, else to the thinnest row before a neighbour."""
    for index in range(len(profile)):
        if profile[index] < floor and (index + 1 == len(profile) or profile[index + 1] < floor):
            return index
    if shared and len(profile):
        return int(profile.argmin())
    return len(profile)


def is_read_across(group: Group[Item]) -> bool:
    """Whether what looks like columns is to be read row by row."""
    return is_labelled(group) or not are_columns(group)


def are_columns(group: Group[Item]) -> bool:
    """Whether lines stand beside something in two rows at least; one wide gap between two words makes no columns."""
    for index, column in enumerate(group.columns):
        others = [item.box for later in group.columns[index + 1 :] for item in later]
        if sum(any(item.box.overlap_y(box) > 0.5 * item.box.height for box in others) for item in column) > 1:
            return True
    return False


def is_labelled(group: Group[Item]) -> bool:
    """Whether columns are to be read across: the left one holds labels, few and short, beside what they name."""
    labels, named = ([item for item in column if item.kind not in ("table", "figure")] for column in group.columns[:2])
    if len(labels) < 2 or len(named) < 2 * len(labels):
        return False
    height = statistics.median(item.box.height for item in named)
    if max(item.box.width for item in labels) > LABEL * height:
        return False
    level = sum(any(item.box.overlap_y(other.box) > 0.5 * item.box.height for other in named) for item in labels)
    return level > 0.6 * len(labels)


def regions(mask: NDArray[np.bool_]) -> list[Box]:
    """Boxes in pixels around the larger connected pieces of a block class."""
    found = []
    for r0, r1, c0, c1 in components(mask):
        filled = int(mask[r0 : r1 + 1, c0 : c1 + 1].sum())
        if filled >= MIN_REGION and filled > 0.5 * (r1 - r0 + 1) * (c1 - c0 + 1):
            found.append(Box(c0 * CELL, r0 * CELL, (c1 + 1) * CELL, (r1 + 1) * CELL))
    return [box for box in found if not any(box != other and box.coverage(other) > 0.8 for other in found)]


def find_tables(
    maps: StructureMaps, image: Image.Image, lines: Sequence[Item], nets: Sequence[Box] = ()
) -> list[Block]:
    """Tables with their cells and the lines in them, still without text.

    Args:
        maps: of the picture.
        image: the picture.
        lines: of text on it.
        nets: boxes around nets of drawn lines, which are tables where their meshes hold text.
    """
    classes = maps.block.argmax(0)
    printed = int((classes > 0).sum())
    share = int((classes == TABLE).sum()) / printed if printed else 0.0
    areas = _table_areas(classes, image, lines)
    if share <= ALL_TABLE[0] and not areas and not nets:
        return []  # most pages; measuring their ink takes a tenth of the time of a page
    usual = statistics.median(line.box.height for line in lines) if lines else 0.0
    ink = ground_ink(image, max(usual, LEAST_HEIGHT))
    height = text_height(ink)
    if height == 0.0:
        return []
    drawn = [table for box in nets if (table := read_net(box.pad(CELL).clip(*image.size), ink, height)) is not None]
    if share > ALL_TABLE[0] and not drawn:
        whole = read_table(_whole(maps, image, lines), ink, maps, height)
        if whole is not None and (share > ALL_TABLE[1] or is_tabular(whole)):
            return [whole]
    # What the maps found of a net, or around it, is that net.
    areas = [area for area in areas if not any(area.nesting(net.box) > 0.5 for net in drawn)]
    found = [*drawn, *(read_table(area, ink, maps, height) for area in areas)]
    return [block for block in found if block is not None and sum(count > 1 for count in _filled(block)) > 1]


def _filled(block: Block) -> list[int]:
    """How many cells of each row of a table have text."""
    table = block.table
    if table is None:
        return []
    return [sum(cell.row == row and cell.text_box is not None for cell in table.cells) for row in range(table.rows)]


def _is_drawn(image: Image.Image, box: Box) -> bool:
    """Whether something is to be seen in a part of the picture: paper and a flat fill are no figures."""
    x0, y0, x1, y1 = (int(v) for v in box.clip(*image.size))
    if x1 <= x0 or y1 <= y0:
        return False
    levels = np.asarray(image.crop((x0, y0, x1, y1)).convert("L"), dtype=np.float32)
    return float(np.percentile(levels, 99) - np.percentile(levels, 1)) > CONTRAST


def _table_areas(classes: NDArray[np.int64], image: Image.Image, lines: Sequence[Item]) -> list[Box]:
    """Regions of the table class with the lines that they touch."""
    areas = []
    for box in regions(classes == TABLE):
        touched = [line.box for line in lines if line.box.coverage(box.pad(CELL)) > 0.5]
        if len(touched) > 1:  # else a shadow, a stroke or a stamp
            areas.append(bounding_box([box, *touched]).pad(CELL).clip(*image.size))
    return areas


def _whole(maps: StructureMaps, image: Image.Image, lines: Sequence[Item]) -> Box:
    """The picture without the lines above and below the table that are plainly something else."""
    outside = []
    for line in lines:
        r0, r1, c0, c1 = (int(v) // CELL for v in (line.box.y0, line.box.y1, line.box.x0, line.box.x1))
        means = maps.block[:, r0 : r1 + 1, c0 : c1 + 1].mean((1, 2))
        if 1 - means[0] - means[TABLE] - means[FIGURE] > SURE and line.box.width > 0.2 * image.width:
            outside.append(line.box)
    inside = [line.box for line in lines if line.box not in outside]
    if not inside:
        return Box(0, 0, image.width, image.height)
    top = max((box.y1 for box in outside if all(box.y1 <= other.center[1] for other in inside)), default=0.0)
    bottom = min(
        (box.y0 for box in outside if all(box.y0 >= other.center[1] for other in inside)), default=float(image.height)
    )
    return Box(0, top, image.width, bottom)


def is_tabular(block: Block) -> bool:
    """Whether a grid found by its ink is filled like a table: most rows have several short texts."""
    table = block.table
    if table is None or table.rows < 2:
        return False
    filled = _filled(block)
    widths = sorted(line.box.width for line in block.lines)
    return sum(count > 1 for count in filled) >= 0.5 * table.rows and widths[len(widths) // 2] < 0.45 * block.box.width


def _blocks(items: Sequence[Item], tables: Sequence[Block]) -> list[Block]:
    """One column, from top to bottom, cut into blocks."""
    blocks: list[Block] = []
    lines: list[Item] = []
    rows = _rows(items)
    heights = [item.box.height for row in rows for item in row if item.kind not in ("table", "figure")]
    height = statistics.median(heights) if heights else 0.0
    left = min((item.box.x0 for row in rows for item in row), default=0.0)
    gaps = [below[0].box.y0 - above[0].box.y1 for above, below in pairwise(rows)]
    usual = statistics.median(gaps) if gaps else 0.0
    for row in rows:
        for item in row:
            if item.kind in ("table", "figure"):
                blocks += _block(lines)
                lines = []
                table = next((t for t in tables if t.box == item.box), None) if item.kind == "table" else None
                blocks.append(table or Block("figure", item.box, source="model"))
            elif lines and _starts_block(lines, item, height, usual, left):
                blocks += _block(lines)
                lines = [item]
            else:
                lines.append(item)
    return blocks + _block(lines)


def _rows(items: Sequence[Item]) -> list[list[Item]]:
    """Items of a column with those that stand side by side together, left to right."""
    rows: list[list[Item]] = []
    for item in sorted(items, key=lambda i: (i.box.center[1], i.box.x0)):
        last = rows[-1][-1] if rows else None
        if last is not None and item.box.overlap_y(last.box) > 0.5 * min(item.box.height, last.box.height):
            rows[-1].append(item)
        else:
            rows.append([item])
    return [sorted(row, key=lambda i: i.box.x0) for row in rows]


def _starts_block(lines: list[Item], item: Item, height: float, usual: float, left: float) -> bool:
    last = lines[-1]
    if item.box.overlap_y(last.box) > 0.5 * min(item.box.height, last.box.height):
        return False  # goes on at the right of the same line
    if _kind(lines) != item.kind and item.kind != "text":
        return True
    gap = item.box.y0 - last.box.y1
    if gap > max(usual + 0.6 * height, 0.9 * height + 0.5 * usual):
        return True
    if _kind(lines) != item.kind:
        return True
    indented = item.box.x0 > left + 0.8 * height and last.box.x0 < left + 0.5 * height
    if item.kind == "list":
        return item.box.x0 < last.box.x0 - 0.5 * height
    return item.kind == "text" and indented


def _kind(lines: Sequence[Item]) -> BlockKind:
    return Counter(line.kind for line in lines).most_common(1)[0][0]


def _block(lines: Sequence[Item]) -> list[Block]:
    if not lines:
        return []
    kind = _kind(lines)
    made = [Line("", line.box, source="model") for line in lines]
    return [
        Block(
            kind,
            bounding_box(line.box for line in lines),
            lines=made,
            level=1 if kind == "heading" else 0,
            source="model",
        )
    ]
