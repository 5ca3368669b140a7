"""Pages as pictures: which way up, how crooked, what size, then blocks and the text of their lines.

The reader (the model, or a fake one in tests) finds blocks with empty lines and reads line crops; everything else
is decided here from what it answers.  A page is turned when its lines are read with little confidence and much
better after a quarter turn; it is scaled when its text is far from the height that the reader was trained on,
which images without a resolution of their own need.  Boxes come back in pixels of the picture that was given.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

from PIL import Image

from docvision.blocks import DASH, SENTENCE_END, join_lines
from docvision.chunks import ground_ink, text_height
from docvision.images import crop_line, deskew_angle, grey, positive, rotate, rotate_box
from docvision.ledger import UNREADABLE
from docvision.page import Block, Box, Dropped, Line, bounding_box
from docvision.print_looks import sort_by_look
from docvision.scan_tables import Keep, find_read_tables
from docvision.table_readers import rewrite_from_ink

TEXT_HEIGHT = 15.0
"""Height in pixels of a line box on the picture that the reader takes for layout: 10 points at 110 dpi."""
HEIGHT_RANGE = (8.0, 30.0)
"""Outside this the picture is scaled and looked at again."""
FIRST_SIDE = 1300
"""Longer side in pixels at which a picture of unknown resolution is first looked at: A4 at 110 dpi."""
MIN_ANGLE = 0.3
"""Degrees below which a page counts as level."""
SURE = 0.75
"""Mean confidence above which no other orientation is tried; text that lies on its side is read with far less."""
TURN_GAIN = 0.1
MIN_CONFIDENCE = 0.3
"""A line read with less than this is dropped: it is a picture, a stamp or another script."""
CLEAR, CLEAR_CONFIDENCE, FEWEST_CLEAR = 0.85, 0.45, 5
"""The same on a page of at least so many lines whose median is above the first: a line that is read so much worse than
the others is what shows through from the back, or a scribble."""
SHORT = 3
SHORT_CONFIDENCE = 0.6
"""The same for a line of at most ``SHORT`` characters outside tables: so few are easily seen in a stamp or a speck."""
TABLE_FILLED = (3, 0.2)
"""Cells that are read, at least, and their share of all: a stamp or a shadow can look like a grid, not be one."""
HANGING, HANGING_GAP = (0.4, 4.0), 0.6
"""Line heights: how far the lines of a list item hang in from its marker, and how near they are to the line above."""
SAMPLE_LINES = 8
MAX_SIDE = 12_000
BULLETS = frozenset("-*\u2022\u2023\u25e6\u25aa\u25a0\u25cf\u25cb\u2013\u2014")


class ModelUnavailable(ValueError):
    """The reader that a page needs is not there; the message says why and what to do."""


class Reading(NamedTuple):
    """Text of one line crop and how sure the reader is, in [0, 1]."""

    text: str
    confidence: float


class Reader(Protocol):
    """What finds lines on a picture and reads them."""

    page_dpi: int
    """Resolution at which ``find_blocks`` wants a page."""

    def find_blocks(self, image: Image.Image) -> list[Block]:
        """Blocks in reading order, boxes in pixels of ``image``, their lines without text."""
        ...

    def read_lines(self, crops: Sequence[Image.Image]) -> Sequence[tuple[str, float]]:
        """Text and confidence of grey line crops, ``images.LINE_HEIGHT`` high."""
        ...


@dataclass(slots=True)
class Scan:
    """What was read on one picture."""

    blocks: list[Block]
    """Boxes in pixels of the picture that was given."""
    dropped: list[Dropped] = field(default_factory=list)
    turn: int = 0
    """Degrees, counter-clockwise, by which the picture had to be turned to read it."""
    angle: float = 0.0
    """The fine turn after that."""
    notes: list[str] = field(default_factory=list)
    """Tables that were not read as asked, and why."""


def read_picture(
    image: Image.Image, reader: Reader, dpi: float, free_scale: bool = False, table_reader: str = "maps"
) -> Scan:
    """Find and read everything on a picture of a page.

    Args:
        image: the page.
        reader: see :class:`Reader`.
        dpi: resolution of ``image``; a guess where ``free_scale``.
        free_scale: the resolution is not known, so the text's own height decides.
        table_reader: how tables are read, see table_readers.py.
    """
    image = positive(grey(image))
    upright = _look(image, reader, dpi, 0, free_scale)
    if upright.confidence < SURE:
        others = [_look(image, reader, dpi, turn, free_scale) for turn in (90, 180, 270)]
        best = max(others, key=lambda look: look.confidence)
        if best.confidence > upright.confidence + TURN_GAIN:
            upright = best
    scan = Scan(upright.blocks, turn=upright.turn, angle=upright.angle)
    if table_reader != "maps":
        scan.notes = rewrite_from_ink(upright.image, upright.blocks, reader, text=table_reader == "stream")
    lines = [line for block in upright.blocks for line in block.lines]
    read_lines(upright.image, lines, reader)
    _drop_unreadable(scan)
    # The lines of a grid that is none are held to the measure of other lines.
    scan.blocks = [part for block in scan.blocks for part in _dissolve(block)]
    _drop_unreadable(scan)
    keep: Keep = "all" if table_reader != "maps" else "alone" if free_scale else "none"
    scan.blocks = find_read_tables(upright.image, scan.blocks, keep)
    scan.blocks = [item for block in scan.blocks for item in split_items(block)]
    mark_counted(scan.blocks)
    scan.blocks = sort_by_look(upright.image, join_hanging(scan.blocks))
    for block in scan.blocks:
        fill(block)
    _map_back(scan, upright, image.size)
    return scan


@dataclass(slots=True)
class _Look:
    """One orientation of the picture and what was found on it."""

    image: Image.Image
    blocks: list[Block]
    turn: int
    angle: float
    confidence: float


def _look(image: Image.Image, reader: Reader, dpi: float, turn: int, free_scale: bool) -> _Look:
    turned = image.transpose(_TRANSPOSE[turn]) if turn else image
    angle = deskew_angle(turned)
    angle = angle if abs(angle) >= MIN_ANGLE else 0.0
    level = rotate(turned, angle)
    blocks = _find(level, reader, reader.page_dpi / dpi, free_scale)
    lines = sorted((line for block in blocks for line in block.lines), key=lambda line: -line.box.width)
    sample = lines[:SAMPLE_LINES]
    read_lines(level, sample, reader)
    weight = sum(len(line.text) for line in sample)
    confidence = sum(line.confidence * len(line.text) for line in sample) / weight if weight else 0.0
    return _Look(level, blocks, turn, angle, confidence)


_TRANSPOSE = {
    90: Image.Transpose.ROTATE_90,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_270,
}


def _find(image: Image.Image, reader: Reader, scale: float, free_scale: bool) -> list[Block]:
    """Blocks in pixels of ``image``, found on a copy of the size that the reader wants."""
    if free_scale:
        scale = min(scale, FIRST_SIDE / max(image.size))
        scale = _enlarged(image, scale)
    blocks, scale = _find_at(image, reader, scale)
    if free_scale:
        heights = [line.box.height * scale for block in blocks for line in block.lines]
        height = statistics.median(heights) if heights else TEXT_HEIGHT
        if not HEIGHT_RANGE[0] <= height <= HEIGHT_RANGE[1]:
            blocks, scale = _find_at(image, reader, scale * TEXT_HEIGHT / height)
    return blocks


def _enlarged(image: Image.Image, scale: float) -> float:
    """The scale at which small print of a small picture, such as a table cut out of a page, has its usual height."""
    room = FIRST_SIDE / max(image.size) / scale
    if room <= 1.0:
        return scale
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    height = text_height(ground_ink(image.resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0)))
    return scale * min(room, max(1.0, TEXT_HEIGHT / height)) if height else scale


def _find_at(image: Image.Image, reader: Reader, scale: float) -> tuple[list[Block], float]:
    scale = min(scale, MAX_SIDE / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    small = image if size == image.size else image.resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0)
    blocks = reader.find_blocks(small)
    for block in blocks:
        map_boxes(block, lambda box: box.scale(image.width / size[0], image.height / size[1]))
    return blocks, scale


def map_boxes(block: Block, change: Callable[[Box], Box]) -> None:
    """Apply ``change`` to every box of a block."""
    block.box = change(block.box)
    for line in block.lines:
        line.box = change(line.box)
        for word in line.words:
            word.box = change(word.box)
    for cell in block.table.cells if block.table else ():
        cell.box = change(cell.box) if cell.box else None
        cell.text_box = change(cell.text_box) if cell.text_box else None


def read_lines(image: Image.Image, lines: Sequence[Line], reader: Reader) -> None:
    """Fill in text and confidence of the lines that have none yet."""
    todo = [line for line in lines if not line.text]
    if not todo:
        return
    readings = reader.read_lines([crop_line(image, line.box) for line in todo])
    for line, (text, confidence) in zip(todo, readings, strict=True):
        line.text, line.confidence, line.source = " ".join(text.split()), float(confidence), "model"


def _drop_unreadable(scan: Scan) -> None:
    """Takes out lines without text and files those that cannot be trusted under ``dropped``."""
    read = [line.confidence for block in scan.blocks for line in block.lines if line.text]
    clear = len(read) >= FEWEST_CLEAR and statistics.median(read) > CLEAR
    least = CLEAR_CONFIDENCE if clear else MIN_CONFIDENCE
    for block in scan.blocks:
        kept = []
        for line in block.lines:
            short = block.table is None and len(line.text) <= SHORT
            if line.text and line.confidence < (SHORT_CONFIDENCE if short else least):
                scan.dropped.append(Dropped(line.text, line.box, UNREADABLE))
            elif line.text:
                kept.append(line)
        block.lines = kept
    scan.blocks = [block for block in scan.blocks if block.lines or block.table or block.kind == "figure"]


def _dissolve(block: Block) -> list[Block]:
    """A table of which hardly a cell was read as its lines; any other block as it is."""
    if block.table is None:
        return [block]
    cells = [cell for cell in block.table.cells if cell.box]
    filled = sum(any(cell.box.contains(*line.box.center) for line in block.lines) for cell in cells if cell.box)
    if filled >= min(TABLE_FILLED[0], len(cells)) and filled >= TABLE_FILLED[1] * len(cells):
        return [block]
    lines = sorted(block.lines, key=lambda line: (line.box.center[1], line.box.x0))
    return [Block("text", line.box, lines=[line], source="model") for line in lines]


def split_items(block: Block) -> list[Block]:
    """A block whose lines turn out to be list items, now that they are read, as one block for each item.

    One line that starts with a number may be a sentence; two whose numbers follow each other, or bullets, are a list.
    A dash inside a sentence, or one asterisk (a footnote's), is none.  A line left of its item's marker is running text
    again, and so is one below it after the end of a sentence.
    """
    if block.kind not in ("text", "list"):
        return [block]
    starts = [_marker(line.text) for line in block.lines]
    numbers = [number for mark in starts if (number := _number(mark))]
    counted = any(second == first + 1 for first, second in pairwise(numbers))
    if starts.count("*") == 1 and block.kind != "list":
        starts[starts.index("*")] = ""
    for index, (above, mark) in enumerate(pairwise(starts), 1):
        if DASH.match(mark) and not above and not SENTENCE_END.search(block.lines[index - 1].text):
            starts[index] = ""
    blocks: list[Block] = []
    gaps = [below.box.y0 - above.box.y1 for above, below in pairwise(block.lines)]
    usual = statistics.median(gaps) if gaps else 0.0
    for line, mark in zip(block.lines, starts, strict=True):
        listed = bool(mark) and (counted or block.kind == "list" or not _number(mark))
        last = blocks[-1] if blocks else None
        indent = (line.box.x0 - last.lines[0].box.x0) / line.box.height if last and last.marker else 0.0
        if listed:
            blocks.append(replace(block, kind="list", lines=[line], marker=mark))
        elif last is None or indent < -0.5 or (last.marker and indent < 0.4 and _is_over(last, line, usual)):
            blocks.append(replace(block, kind="text" if last else block.kind, lines=[line], marker=""))
        else:
            last.lines.append(line)
    if not any(item.marker for item in blocks):
        return [block]
    for item in blocks:
        item.box = bounding_box(line.box for line in item.lines)
    return blocks


def _is_over(item: Block, line: Line, usual: float) -> bool:
    """Whether a list item ends above a line at its marker: with a sentence, or with more white than is usual."""
    last = item.lines[-1]
    return bool(SENTENCE_END.search(last.text)) or line.box.y0 - last.box.y1 > usual + 0.3 * line.box.height


def mark_counted(blocks: Sequence[Block]) -> None:
    """Make neighbouring blocks list items, in place, where the numbers that they start with follow each other.

    Numbered sections have text between them.
    """
    numbers = [_number(_marker(block.lines[0].text)) if block.kind == "text" and block.lines else 0 for block in blocks]
    for index, (above, here) in enumerate(pairwise(numbers), 1):
        if above and here == above + 1:
            for block in blocks[index - 1 : index + 1]:
                block.kind, block.marker = "list", _marker(block.lines[0].text)


def _number(mark: str) -> int:
    """Of a marker; 0 for a bullet or none."""
    digits = mark.strip("().")
    return int(digits) if digits.isdigit() else 0


def join_hanging(blocks: Sequence[Block]) -> list[Block]:
    """Blocks with the lines that hang under a list item, right of its marker and close below, put into the item."""
    joined: list[Block] = []
    for block in blocks:
        item = joined[-1] if joined else None
        if item is not None and item.marker and block.kind in ("text", "list") and not block.marker and block.lines:
            first, last = block.lines[0].box, item.lines[-1].box
            height = min(first.height, last.height)
            indent = first.x0 - item.lines[0].box.x0
            if HANGING[0] < indent / height < HANGING[1] and -height < first.y0 - last.y1 < HANGING_GAP * height:
                item.lines.extend(block.lines)
                item.box = item.box.union(block.box)
                continue
        joined.append(block)
    return joined


def _marker(text: str) -> str:
    """The bullet or number (of at most two digits) that a line starts with, else ""."""
    first, _, rest = text.partition(" ")
    return first if rest and (first in BULLETS or DASH.match(first) or re.fullmatch(r"\(?\d{1,2}[.)]", first)) else ""


def fill(block: Block) -> None:
    """Text, confidence and source of a block or a table from its lines."""
    block.source = "model"
    if not block.lines:
        return
    weight = sum(len(line.text) for line in block.lines)
    block.confidence = sum(line.confidence * len(line.text) for line in block.lines) / weight
    if block.table is None:
        texts = [line.text for line in block.lines]
        block.text = "\n".join(texts) if block.kind == "code" else join_lines(texts)
        if block.marker:
            block.text = block.text.removeprefix(block.marker).strip()
        return
    inside: dict[int, list[Line]] = {}
    for line in block.lines:
        held = [cell for cell in block.table.cells if cell.box and cell.box.contains(*line.box.center)]
        if held:
            # Places of a decoded table may overlap; the line was put into the one whose text it is.
            home = max(held, key=lambda cell: line.box.iou(cell.text_box) if cell.text_box else 0.0)
            inside.setdefault(id(home), []).append(line)
    for cell in block.table.cells:
        lines = inside.get(id(cell))
        if lines:
            cell.text = join_lines([line.text for line in lines])
            cell.text_box = bounding_box(line.box for line in lines)
            cell.confidence = min(cell.confidence, *(line.confidence for line in lines))
            cell.source = "model"


def _map_back(scan: Scan, look: _Look, size: tuple[int, int]) -> None:
    """Boxes from the turned, level picture to the one that was given."""
    width, height = size
    level_width, level_height = look.image.size

    def change(box: Box) -> Box:
        if look.angle:
            box = rotate_box(box, -look.angle, level_width, level_height)
        return turn_box(box, look.turn, width, height).clip(width, height)

    for block in scan.blocks:
        map_boxes(block, change)
        for line in block.lines:
            line.angle = round((-look.turn - look.angle) % 360, 2) % 360
    for dropped in scan.dropped:
        dropped.box = change(dropped.box)


def turn_box(box: Box, turn: int, width: float, height: float) -> Box:
    """Where a box of a picture turned counter-clockwise by ``turn`` lies on the original ``width`` x ``height``."""
    if turn == 90:
        return Box(width - box.y1, box.x0, width - box.y0, box.x1)
    if turn == 180:
        return Box(width - box.x1, height - box.y1, width - box.x0, height - box.y0)
    if turn == 270:
        return Box(box.y0, height - box.x1, box.y1, height - box.x0)
    return box
