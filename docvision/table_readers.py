"""Tables by the decoder: its stream gives the grid, and what stands on the page falls into the cells by position.

    table found on the page -> picture of it at the decoder's scale -> stream -> cells -> text

How tables are read is ``table_reader``:

    ``maps``    pictures by separator maps and ink (map_tables.py), pages with a text layer by lines and gaps.
    ``crops``   grid and boxes from the stream; chunks of ink fall into the cells and are read as lines.
    ``stream``  grid, boxes and text from the stream; ink in a cell that the stream left empty is read as a line.

On a page whose text layer is used both take the grid alone from the stream, and the PDF's own words fall into it.
Each chunk and word goes to exactly one cell, so none is lost whatever the grid.  A stream is believed where it ended
by itself, was sure, and has most of the text in its boxes; else the table stays as the first way read it, and a note
says why.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from docvision.cells import make_cell
from docvision.chunks import find_chunks, find_rules, ground_ink, shares, text_lines
from docvision.images import grey
from docvision.page import Block, Box, Cell, Line, Table, Word, bounding_box

if TYPE_CHECKING:
    from PIL import Image

TABLE_READERS = ("maps", "crops", "stream")
LINE_PIXELS = 13.0
"""Height of a text line on the picture that the decoder takes: in the middle of what it was trained on."""
LONGEST, LARGEST = 1200, 900_000
"""Pixels of such a picture: its longer side and its area at most."""
MARGIN = 0.8
"""Line heights of paper around the table."""
LEAST_SURE = 0.5
"""Geometric mean probability of a stream's tokens below which it is a guess."""
LEAST_ON_TEXT = 0.5
"""Share of the page's text in the table that lies in the stream's boxes, at least."""
BESIDE = "read without the decoder"


class NoTableDecoder(ValueError):
    """The model writes no tables; the message says why."""


@dataclass
class WrittenTable:
    """What the decoder wrote for one picture."""

    table: Table
    """Boxes in pixels of the picture."""
    confidence: float
    """Geometric mean probability of the tokens that it chose, a coordinate's with its neighbours."""
    stopped: str = ""
    """Why the stream was ended before the decoder ended it."""


class TableWriter(Protocol):
    """The part of a reader that writes tables."""

    def write_tables(self, pictures: Sequence[Image.Image], text: bool) -> Sequence[WrittenTable]:
        """Tables of pictures, ``text`` with their cells' text.

        Raises:
            NoTableDecoder: this model has not learnt it.
        """
        ...


@dataclass(frozen=True)
class Cut:
    """The picture of one table, and where it was cut out."""

    picture: Image.Image
    origin: tuple[float, float]
    scale: float
    """Pixels of the picture per pixel of the page."""

    def back(self, box: Box) -> Box:
        return box.scale(1 / self.scale).shift(*self.origin)


def rewrite_from_ink(image: Image.Image, blocks: Sequence[Block], reader: object, text: bool) -> list[str]:
    """Give the tables of a picture the structure that the decoder writes, in place.

    Args:
        image: the page, upright and level.
        blocks: tables have cells and lines without text, boxes in pixels of ``image``.
        reader: may have :meth:`TableWriter.write_tables`.
        text: take the cells' text from the stream too.

    Returns:
        A note for each table that stays as it was.
    """
    tables = [block for block in blocks if block.table is not None]
    cuts = [cut_table(image, block.box, _line_height(block)) for block in tables]
    written, trouble = _ask(reader, cuts, text)
    notes = []
    for number, (block, cut, answer) in enumerate(zip(tables, cuts, written, strict=True), 1):
        fault = _take_ink(block, cut, answer) if answer is not None else trouble
        if fault:
            notes.append(f"table {number} {BESIDE}: {fault}")
    return notes


def rewrite_from_words(
    image: Image.Image, scale: tuple[float, float], blocks: Sequence[Block], words: Sequence[Word], reader: object
) -> list[str]:
    """Give the tables of a text layer the grid that the decoder writes, in place; their words stay the PDF's.

    Args:
        image: of the page.
        scale: pixels of ``image`` per unit of the boxes, by axis.
        blocks: of the page, the tables with text.
        words: of the layer that stand upright.
        reader: may have :meth:`TableWriter.write_tables`.

    Returns:
        A note for each table that stays as it was.
    """
    tables = [block for block in blocks if block.table is not None and block.source == "text-layer"]
    held = [[word for word in words if block.box.contains(*word.box.center)] for block in tables]
    cuts = []
    for block, inside in zip(tables, held, strict=True):
        height = statistics.median(word.box.height for word in inside) if inside else 0.0
        cuts.append(cut_table(image, block.box.scale(*scale), height * scale[1]))
    written, trouble = _ask(reader, cuts, text=False)
    notes = []
    for number, (block, inside, cut, answer) in enumerate(zip(tables, held, cuts, written, strict=True), 1):
        fault = trouble
        if answer is not None:
            for cell in answer.table.cells:
                box = cell.text_box
                cell.text_box = box and cut.back(box).scale(1 / scale[0], 1 / scale[1])
            fault = _take_words(block, inside, answer)
        if fault:
            notes.append(f"table {number} {BESIDE}: {fault}")
    return notes


def cut_table(image: Image.Image, box: Box, height: float) -> Cut:
    """The picture of a table at the decoder's scale.

    Args:
        image: of the page.
        box: the table in pixels of ``image``.
        height: of a line of its text in pixels of ``image``; 0 where unknown.
    """
    height = max(height, 1.0) if height else LINE_PIXELS
    area = box.pad(MARGIN * height).clip(*image.size)
    x0, y0 = int(area.x0), int(area.y0)
    part = grey(image.crop((x0, y0, max(x0 + 1, round(area.x1)), max(y0 + 1, round(area.y1)))))
    scale = min(LINE_PIXELS / height, LONGEST / max(part.size), (LARGEST / (part.width * part.height)) ** 0.5)
    size = max(1, round(part.width * scale)), max(1, round(part.height * scale))
    return Cut(part.resize(size, reducing_gap=3.0), (float(x0), float(y0)), scale)


def _line_height(block: Block) -> float:
    return statistics.median(line.box.height for line in block.lines) if block.lines else 0.0


def _ask(reader: object, cuts: Sequence[Cut], text: bool) -> tuple[list[WrittenTable | None], str]:
    """What the reader writes for the pictures, or nothing and the reason."""
    nothing: list[WrittenTable | None] = [None] * len(cuts)
    write = getattr(reader, "write_tables", None)
    if write is None:
        return nothing, "this reader has no decoder for tables"
    if not cuts:
        return nothing, ""
    try:
        return list(write([cut.picture for cut in cuts], text)), ""
    except NoTableDecoder as error:
        return nothing, str(error)


def _fault(written: WrittenTable, boxes: Sequence[Box]) -> str:
    """Why a stream is not to be believed; "" where it is.

    Args:
        written: boxes in the units of ``boxes``.
        boxes: of the text that the table has.
    """
    held = [cell.text_box for cell in written.table.cells if cell.text_box is not None]
    if written.stopped:
        return f"its stream had to be ended ({written.stopped})"
    if len(held) < 2:
        return f"its stream has {len(held)} cell{'s' if len(held) != 1 else ''} with text"
    if not boxes:
        return "no text was found in it"
    if written.confidence < LEAST_SURE:
        return f"its stream is a guess (confidence {written.confidence:.2f})"
    share = float((shares(boxes, held).max(1) > 0.5).mean())
    if share < LEAST_ON_TEXT:
        return f"its boxes hold {share:.0%} of the text"
    return ""


# Ink


def _take_ink(block: Block, cut: Cut, written: WrittenTable) -> str:
    """Put a stream's grid in the place of a table's, with lines for the chunks of ink; or say why not."""
    table = written.table
    ink = ground_ink(cut.picture, LINE_PIXELS)
    rules = find_rules(ink, LINE_PIXELS)

    def parted(gap: Box) -> bool:
        sides = [Box(gap.x0 - 2, gap.y0, gap.x0 - 1, gap.y1), Box(gap.x1 + 1, gap.y0, gap.x1 + 2, gap.y1)]
        left, right = home_cells(sides, table)
        return left is not right

    settle(table, bounding_box([(0, 0, *cut.picture.size)]))
    chunks = find_chunks(ink & ~rules.mask, LINE_PIXELS, parted if table.cells else lambda gap: False, rules.upright)
    fault = _fault(written, chunks)
    if fault:
        return fault
    inside: dict[int, list[Box]] = {}
    for chunk, home in zip(chunks, home_cells(chunks, table), strict=True):
        inside.setdefault(id(home), []).append(chunk)
    lines = []
    for cell in table.cells:
        found = text_lines(inside.get(id(cell), []))
        cell.source = "model"
        if cell.text and cell.text_box is not None:
            lines.append(Line(cell.text, cell.text_box, confidence=cell.confidence, source="model"))
            cell.text = ""  # scan.fill gives it back, unless the line is too doubtful to stand
        else:
            lines += [Line("", box, source="model") for box in found]
            cell.text_box = bounding_box(found) if found else None
    settle(table, bounding_box([(0, 0, *cut.picture.size)]))
    for line in lines:
        line.box = cut.back(line.box)
    for cell in table.cells:
        cell.text_box = cut.back(cell.text_box) if cell.text_box else None
        cell.box = cut.back(cell.box) if cell.box else None
    block.table, block.lines = table, lines
    return ""


# Words


def _take_words(block: Block, words: Sequence[Word], written: WrittenTable) -> str:
    """Put a stream's grid in the place of a table's and the same words into it; or say why not."""
    assert block.table is not None
    if _letters(cell.text for cell in block.table.cells) != _letters(word.text for word in words):
        return "other text lies over it or it is turned"
    fault = _fault(written, [word.box for word in words])
    if fault:
        return fault
    settle(written.table, block.box)
    inside: dict[int, list[Word]] = {}
    for word, home in zip(words, home_cells([word.box for word in words], written.table), strict=True):
        inside.setdefault(id(home), []).append(word)
    table = Table(written.table.rows, written.table.columns)
    for cell in written.table.cells:
        made = make_cell(cell.row, cell.column, cell.row_span, cell.column_span, inside.get(id(cell), []), None)
        made.header, made.confidence = cell.header, cell.confidence
        table.cells.append(made)
    settle(table, block.box)
    block.table = table
    block.confidence = written.confidence
    return ""


def _letters(texts: Iterable[str]) -> Counter[str]:
    """Letters and digits, however the words are cut and joined."""
    return Counter(sign for text in texts for sign in text if sign.isalnum())


# Cells by position


def home_cells(boxes: Sequence[Box], table: Table) -> list[Cell]:
    """For each box the cell that it belongs to: always one.

    The cell whose text box holds most of it, else the one whose place in the grid holds its middle, else the nearest
    on its line, else the nearest.
    """
    held = [cell for cell in table.cells if cell.text_box is not None] or table.cells
    places = [cell.text_box or cell.box or Box(0, 0, 0, 0) for cell in held]
    overlap = shares(boxes, places)
    homes = []
    for box, held_P in zip(boxes, overlap, strict=True):
        best = int(held_P.argmax())
        if held_P[best] > 0.3:
            homes.append(held[best])
            continue
        grid = next((cell for cell in table.cells if cell.box is not None and cell.box.contains(*box.center)), None)
        homes.append(grid or (held[best] if held_P[best] > 0 else held[_nearest(box, places)]))
    return homes


def _nearest(box: Box, places: Sequence[Box]) -> int:
    def distance(index: int) -> tuple[bool, float]:
        place = places[index]
        x = max(place.x0 - box.x1, box.x0 - place.x1, 0.0)
        y = max(place.y0 - box.y1, box.y0 - place.y1, 0.0)
        return box.overlap_y(place) < 0.5 * min(box.height, place.height), (x * x + y * y) ** 0.5

    return min(range(len(places)), key=distance)


def settle(table: Table, area: Box) -> None:
    """Give each cell its place in the grid, midway between its neighbours' texts, where rows and columns are in order.

    A cell whose text would lie elsewhere gets the box of its text; so do all where there is no order.
    """
    rows = _edges(table, 1, area.y0, area.y1)
    columns = _edges(table, 0, area.x0, area.x1)
    for cell in table.cells:
        cell.box = cell.text_box
        if rows is None or columns is None:
            continue
        place = Box(
            columns[cell.column],
            rows[cell.row],
            columns[cell.column + cell.column_span],
            rows[cell.row + cell.row_span],
        )
        if cell.text_box is None or cell.text_box.coverage(place) > 0.9:
            cell.box = place if cell.text_box is None else place.union(cell.text_box)


def _edges(table: Table, axis: int, first: float, last: float) -> list[float] | None:
    """Borders of rows (axis 1) or columns; None where one has no text of its own or they are out of order."""
    count = table.rows if axis else table.columns
    starts, ends = [np.inf] * count, [-np.inf] * count
    for cell in table.cells:
        index, span = (cell.row, cell.row_span) if axis else (cell.column, cell.column_span)
        if cell.text_box is not None and span == 1 and index < count:
            starts[index] = min(starts[index], cell.text_box[axis])
            ends[index] = max(ends[index], cell.text_box[axis + 2])
    if not count or np.inf in starts:
        return None
    inner = [(end + start) / 2 for end, start in zip(ends, starts[1:], strict=False)]
    edges = [min(first, starts[0]), *inner, max(last, ends[-1])]
    return edges if all(a < b for a, b in pairwise(edges)) else None
