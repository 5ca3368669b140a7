"""Our pages to and from the formats of others: ``python -m data_pipeline.formats export DIR --to coco -o FILE``.

``export`` reads a data set of pages (a folder of ``part-*.parquet`` with a ``document`` column), ``import`` writes one.

    pubtabnet   a JSON line for each table: structure, texts, boxes of texts     (pubtabnet.py)
    otsl        a JSON line for each table: five structure tokens and the texts  (otsl.py)
    coco        one JSON object: blocks as boxes with categories                 (coco.py)
    doctags     docling's markup: blocks, texts, tables, boxes to 1/500          (doctags.py)

Each file says at its top what its format holds; that much comes back the same.  ``--images FOLDER`` writes the pictures
the file names, or reads them; for the two table formats these are the tables, cut out of their pages.  Reading stops at
the first fault with the line it is in, and then nothing is written.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from data_pipeline import coco, doctags, otsl, page_rows, pubtabnet
from data_pipeline.shards import write_atomic
from docvision.page import Block, Box, Cell, Document, Page, Table, bounding_box, page_from_json, page_to_json

Picture = bytes | None


@dataclass(frozen=True)
class Sample:
    """A page with its picture and the picture's name."""

    name: str
    page: Page
    picture: Picture = None


def read_samples(folder: Path) -> Iterator[Sample]:
    """The pages of a data set in order."""
    for number, row in enumerate(page_rows.read_parts(folder, ["image", "document"])):
        image = row["image"] or {}
        page = page_from_json(row["document"])
        data = image.get("bytes")
        if data and page.pixels is None:
            with Image.open(io.BytesIO(data)) as picture:
                page = replace(page, pixels=picture.size)
        suffix = ".jpg" if data and data.startswith(b"\xff\xd8") else ".png"
        yield Sample(f"{number:08d}{suffix}", page, data)


def write_samples(folder: Path, samples: Iterable[Sample], origin: str) -> int:
    """Write a data set of pages; the number of its rows."""
    rows = (
        {
            "image": {"bytes": sample.picture, "path": sample.name},
            "document": page_to_json(sample.page, sample.name),
            "width": round(sample.page.width), "height": round(sample.page.height),
            "kind": origin, "difficulty": 0.0, "index": index,
        }
        for index, sample in enumerate(samples)
    )  # fmt: skip
    return page_rows.write_parts(folder, rows, page_rows.PAGE_SCHEMA, {"from": origin})


# Tables


def tables_of(samples: Iterable[Sample]) -> Iterator[Sample]:
    """One sample for each table, in pixels of its own cut-out, boxes in whole pixels."""
    for sample in samples:
        page = sample.page
        scale = (page.pixels[0] / page.width, page.pixels[1] / page.height) if page.pixels else (1.0, 1.0)
        found = [block for block in page.blocks if block.table is not None]
        for number, block in enumerate(found, 1):
            area = _outward(block.box.scale(*scale)).clip(*(page.pixels or (math.inf, math.inf)))
            table = block.table or Table(0, 0)
            cells = [
                replace(
                    cell,
                    text_box=cell.text_box and _outward(cell.text_box.scale(*scale)).shift(-area.x0, -area.y0),
                    box=None,
                )
                for cell in table.cells
            ]
            stem = Path(sample.name).stem
            name = f"{stem}-{number}.png"
            yield Sample(name, table_page(replace(table, cells=cells), area), _cut(sample.picture, area))


def _outward(box: Box) -> Box:
    """Whole numbers around the box."""
    return Box(float(math.floor(box.x0)), float(math.floor(box.y0)), float(math.ceil(box.x1)), float(math.ceil(box.y1)))


def table_page(table: Table, area: Box | None = None) -> Page:
    """A page with nothing on it but the table; its size is that of ``area``, else what holds all boxes."""
    boxes = [cell.text_box for cell in table.cells if cell.text_box is not None]
    around = area or (bounding_box([Box(0, 0, 1, 1), *boxes]) if boxes else Box(0, 0, 1, 1))
    width, height = max(1.0, math.ceil(around.width)), max(1.0, math.ceil(around.height))
    block = Block("table", Box(0.0, 0.0, width, height), table=table, source="truth")
    return Page(1, width, height, [block], pixels=(int(width), int(height)))


def _cut(picture: Picture, area: Box) -> Picture:
    if picture is None or area.area <= 0:
        return None
    with Image.open(io.BytesIO(picture)) as image:
        stream = io.BytesIO()
        image.convert("RGB").crop((int(area.x0), int(area.y0), int(area.x1), int(area.y1))).save(stream, "PNG")
    return stream.getvalue()


def pubtabnet_text(samples: Iterable[Sample]) -> str:
    records = [
        pubtabnet.to_record(_only_table(sample.page), sample.name, number=number)
        for number, sample in enumerate(samples)
    ]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _only_table(page: Page) -> Table:
    return next(block.table for block in page.blocks if block.table is not None)


def read_pubtabnet(text: str) -> Iterator[Sample]:
    for number, line in _lines(text):
        record = _located(number, pubtabnet.parse_line, line)
        table = _located(number, pubtabnet.from_record, record)
        yield Sample(_name(record, number), _truth(table_page(table)))


def otsl_text(samples: Iterable[Sample]) -> str:
    lines = []
    for sample in samples:
        tokens, texts = otsl.to_otsl(_only_table(sample.page))
        lines.append(json.dumps({"filename": sample.name, "otsl": tokens, "texts": texts}, ensure_ascii=False) + "\n")
    return "".join(lines)


def read_otsl(text: str) -> Iterator[Sample]:
    for number, line in _lines(text):
        record = _located(number, pubtabnet.parse_line, line)
        tokens, texts = record.get("otsl"), record.get("texts")
        if isinstance(tokens, str):
            tokens = tokens.split()
        for value, name in ((tokens, "otsl"), (texts, "texts")):
            fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
            if not fits and not (value is None and name == "texts"):
                raise ValueError(f"line {number}: {name} must be a list of strings")
        table = _located(number, otsl.from_otsl, tokens, texts)
        yield Sample(_name(record, number), _truth(table_page(table)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _located(number: int, read: Callable[..., Any], *given: Any) -> Any:
    """``read(*given)``, its complaint with the line in front."""
    try:
        return read(*given)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None


def _name(record: dict[str, Any], number: int) -> str:
    return str(record.get("filename") or f"{number:08d}.png")


def _truth(page: Page) -> Page:
    """Cells that come from a file of truth say so."""
    for block in page.blocks:
        cells: list[Cell] = block.table.cells if block.table else []
        for cell in cells:
            cell.source = "truth"
    return page


# Whole pages


def coco_text(samples: Iterable[Sample]) -> str:
    return json.dumps(coco.to_coco((sample.name, sample.page) for sample in samples)) + "\n"


def read_coco(text: str) -> Iterator[Sample]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: not JSON ({error.msg})") from None
    return (Sample(name, page) for name, page in coco.from_coco(data))


def doctags_text(samples: Iterable[Sample]) -> str:
    return doctags.to_doctags(Document("", [sample.page for sample in samples]))


def read_doctags(text: str) -> Iterator[Sample]:
    pages = doctags.from_doctags(text).pages
    return (Sample(f"{page.number:08d}.png", _truth(replace(page, number=1))) for page in pages)


@dataclass(frozen=True)
class Format:
    """How a format is written and read, and whether its items are tables or pages."""

    write: Callable[[Iterable[Sample]], str]
    read: Callable[[str], Iterator[Sample]]
    of_tables: bool


FORMATS = {
    "pubtabnet": Format(pubtabnet_text, read_pubtabnet, of_tables=True),
    "otsl": Format(otsl_text, read_otsl, of_tables=True),
    "coco": Format(coco_text, read_coco, of_tables=False),
    "doctags": Format(doctags_text, read_doctags, of_tables=False),
}
"""Register a format with one line here."""


def export_folder(folder: Path, name: str, file: Path, images: Path | None = None) -> int:
    """Write a data set of pages in another format.

    Returns:
        The number of tables or pages written.

    Raises:
        ValueError: no data set, or a table that the format cannot hold.
    """
    chosen = FORMATS[name]
    count = 0

    def watched() -> Iterator[Sample]:
        nonlocal count
        samples = read_samples(folder)
        for sample in tables_of(samples) if chosen.of_tables else samples:
            if images is not None and sample.picture is not None:
                write_atomic(images / sample.name, sample.picture)
            count += 1
            yield replace(sample, picture=None)

    if images is not None:
        images.mkdir(parents=True, exist_ok=True)
    text = chosen.write(watched())
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, text.encode())
    return count


def import_file(file: Path, name: str, folder: Path, images: Path | None = None) -> int:
    """Read a file of another format into a data set of pages.

    Returns:
        The number of rows written.

    Raises:
        ValueError: the file does not hold what its format says, a named picture is missing, or ``folder`` is taken.
    """
    if any(folder.glob("part-*.parquet")):
        raise ValueError(f"{folder} holds a data set already: give -o a new folder")
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: is it another format?") from error
    try:
        samples = list(FORMATS[name].read(text))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    if images is not None:
        samples = [_with_picture(sample, images) for sample in samples]
    return write_samples(folder, samples, name)


def _with_picture(sample: Sample, images: Path) -> Sample:
    """The sample with its picture's bytes, in pixels of it."""
    path = images / Path(sample.name).name
    try:
        data = path.read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
    except (OSError, UnidentifiedImageError) as error:
        raise ValueError(f"{path} is no picture that can be read: check --images") from error
    # Boxes of cells are in pixels already, where a format has them; blocks are where their page says they are.
    scale = width / sample.page.width, height / sample.page.height
    blocks = [replace(block, box=block.box.scale(*scale).rounded(2)) for block in sample.page.blocks]
    page = replace(sample.page, width=float(width), height=float(height), pixels=(width, height), blocks=blocks)
    return Sample(sample.name, page, data)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_pipeline.formats", description="Pages to and from the formats of others."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    for action, source, option in (("export", "folder", "--to"), ("import", "file", "--from")):
        command = actions.add_parser(action)
        command.add_argument("source", type=Path, help=f"{source} to read")
        command.add_argument(option, dest="format", choices=sorted(FORMATS), required=True)
        command.add_argument("-o", "--output", type=Path, required=True, help="where to write")
        command.add_argument("--images", type=Path, help="folder of the pictures")
    given = parser.parse_args(arguments)
    run = export_folder if given.action == "export" else import_file
    try:
        count = run(given.source, given.format, given.output, given.images)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt:
        return 130
    print(f"{count} {'tables' if FORMATS[given.format].of_tables else 'pages'} to {given.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
