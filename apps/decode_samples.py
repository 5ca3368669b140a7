"""Samples for the decoding benchmark: crops with what stands there, from shards, from PDFs, or drawn on the spot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from docvision.export import table_to_html
from docvision.images import to_float
from docvision.page import Cell, Table

TASKS = ("text", "born_digital", "table")
LONGEST = 1280
"""Pixels; a larger picture has more than the vocabulary's coordinates reach."""
SPOKEN = (
    "The quick brown fox jumps over the lazy dog. Invoice no. 2024-1187 of 12 March, total 1,204.50 EUR. "
    "Table 3 lists the measured values; see section 4.2 for the method and its limits. Kind regards, A. Smith"
)


class NoSamples(ValueError):
    """There is data, but none of it is for the task."""


@dataclass(frozen=True)
class Sample:
    """One crop and what stands there."""

    image: np.ndarray
    truth: str
    """Text of a line, or HTML of a table."""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """What is measured on."""

    samples: int = 32
    """Most of each task."""
    width: int = 640
    """Pixels; wider lines are left out."""
    cells: int = 30
    """Tables of more are left out."""


def load(task: str, folders: Sequence[Path], bounds: Bounds) -> list[Sample]:
    """Samples of a task, from the first folder that has any; drawn on the spot where no folder is given.

    Args:
        task: one of TASKS. Lines of shards come with their own text as the words of a text layer.
        folders: of shards of lines or tables, or of PDFs; or single PDFs.
        bounds: how many and how large.

    Raises:
        NoSamples: no data for the task.
        ValueError: no such task, or a file that is no PDF.
    """
    if task not in TASKS:
        raise ValueError(f"task {task!r}: one of {', '.join(TASKS)}")
    if not folders:
        return list((_drawn_tables if task == "table" else _drawn_lines)(bounds.samples))
    for folder in folders:
        if folder.is_file() and folder.suffix.lower() != ".pdf":
            raise ValueError(f"{folder} is no PDF: give PDFs, or folders of shards or PDFs")
        pdfs = [folder] if folder.is_file() else sorted(folder.glob("*.pdf"))
        found = _from_pdfs(pdfs, task, bounds.width) if pdfs else _from_shards(folder, task, bounds)
        samples = list(islice(found, bounds.samples))
        if samples:
            return samples
    raise NoSamples(f"task {task}: no samples in {', '.join(map(str, folders))}: give --data with some")


def present(folders: Sequence[Path], bounds: Bounds) -> tuple[str, ...]:
    """The tasks that :func:`load` has samples for.

    Raises:
        NoSamples: there are none at all.
        ValueError: a file that is no PDF, or a folder without shards and PDFs.
    """
    found = []
    for task in TASKS:
        with suppress(NoSamples):
            load(task, folders, replace(bounds, samples=1))
            found.append(task)
    if not found:
        raise NoSamples(f"no samples of any task in {', '.join(map(str, folders))}: give --data with lines or tables")
    return tuple(found)


def _drawn_lines(limit: int) -> Iterator[Sample]:
    """Lines in the typeface that comes with PIL: a smoke test, not a measure of quality."""
    words = SPOKEN.split()
    rng = np.random.default_rng(0)
    for _ in range(limit):
        start, count = int(rng.integers(0, len(words))), int(rng.integers(3, 9))
        text = " ".join((words * 2)[start : start + count])
        face = ImageFont.load_default(float(rng.integers(18, 24)))
        image = Image.new("L", (int(face.getlength(text)) + 16, 32), 255)
        ImageDraw.Draw(image).text((8, 3), text, font=face, fill=0)
        yield Sample(to_float(image), text, tuple(text.split()))


def _drawn_tables(limit: int) -> Iterator[Sample]:
    """Plain ruled tables in the same typeface."""
    words = [word.strip(".,;") for word in SPOKEN.split()]
    rng = np.random.default_rng(1)
    face = ImageFont.load_default(14.0)
    for _ in range(limit):
        rows, columns = int(rng.integers(2, 6)), int(rng.integers(2, 5))
        wide, tall = 16 * int(rng.integers(5, 8)), 24
        image = Image.new("L", (columns * wide + 16, rows * tall + 16), 255)
        draw = ImageDraw.Draw(image)
        cells = []
        for row in range(rows):
            for column in range(columns):
                x, y = 8 + column * wide, 8 + row * tall
                text = words[int(rng.integers(0, len(words)))]
                draw.rectangle((x, y, x + wide, y + tall), outline=0)
                draw.text((x + 6, y + 4), text, font=face, fill=0)
                cells.append(Cell(row, column, text, header=row == 0))
        yield Sample(to_float(image), table_to_html(Table(rows, columns, cells)))


def _from_pdfs(paths: Sequence[Path], task: str, width: int) -> Iterator[Sample]:
    """Line crops of pages with a text layer; their words are the layer's."""
    from docvision.images import crop_line, grey
    from docvision.page import Box
    from docvision.parse import DocumentParser, ParseOptions
    from docvision.pdf import open_source

    if task == "table":
        return
    parser = DocumentParser(ParseOptions(text="layer", layout="rules"))
    scale = 150 / 72
    for path in paths:
        with open_source(path) as source:
            for page in parser.parse(path).pages:
                raster = grey(source.page(page.number).raster(150))
                for line in (line for block in page.blocks for line in block.lines if line.text.strip()):
                    box = Box(*(scale * edge for edge in line.box))
                    crop = crop_line(raster, box)
                    if crop.width <= width:
                        yield Sample(to_float(crop), line.text, tuple(line.text.split()))


def _from_shards(folder: Path, task: str, bounds: Bounds) -> Iterator[Sample]:
    from docvision.batches import Shards, _image
    from docvision.page import page_from_json

    shards = Shards(folder)
    for shard, count in enumerate(shards.rows):
        for index in range(count):
            row = shards.row(shard, index)
            if task != "table":
                if not {"text", "width"} <= row.keys():
                    return
                if row["width"] <= bounds.width:
                    yield Sample(to_float(_image(row)), row["text"], tuple(row["text"].split()))
                continue
            if "columns" not in row:
                return
            if row["rows"] * row["columns"] <= bounds.cells:
                picture = _image(row)
                picture.thumbnail((LONGEST, LONGEST))
                blocks = page_from_json(row["document"]).blocks
                yield Sample(to_float(picture), next(table_to_html(b.table) for b in blocks if b.table is not None))
