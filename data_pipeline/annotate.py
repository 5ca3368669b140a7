"""Real pages to labelled regions: ``python -m data_pipeline.annotate FOLDER -o OUT --annotators tesseract,rapidocr``.

The way of PTP's training data (arXiv 2603.15206): pages are cut into regions, several annotators read each, the
majority's reading is the label.  FOLDER holds PDFs and pictures.  A page is straightened, cut by a finder that can be
replaced, and read; its answers lie in ``OUT/pages``.  Then :mod:`gather` votes over all of them and writes
``OUT/part-*.parquet`` with one row for each region, whatever became of it, and why:

    keep   a majority agrees; ``text`` is its reading
    hard   no majority; all answers are there, ``text`` is null
    drop   blank, small, a figure, nothing to read, or a duplicate

Start the same command again after an interruption or with more files: finished pages are not read again, pages with a
failure are.  A page that fails costs only itself.  Exit codes: 0 all pages, 1 none, 2 wrong use, 3 some failed, 130.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

from data_pipeline.annotators import Annotator, make_annotator, split_specs
from data_pipeline.gather import MAJORITY, ROW_SCHEMA, Votes, gather
from data_pipeline.page_rows import parquet_bytes
from data_pipeline.phash import perceptual_hash
from data_pipeline.regions import Region, RegionFinder, find_regions
from data_pipeline.shards import write_atomic
from docvision.images import deskew_angle, grey, is_blank, rotate
from docvision.page import Box
from docvision.pdf import Source, SourceError, open_source

SUFFIXES = (".pdf", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")
RECIPE = "annotators.json"
PAD = 0.015
"""White around a region, as a share of its longer side."""
PAD_MIN = 4


@dataclass(frozen=True)
class Reading:
    """How pages are rendered and cut."""

    dpi: int = 150
    """For pages of a PDF; pictures are taken pixel by pixel."""
    min_side: int = 16
    """Regions with a shorter side in pixels are dropped."""

    def __post_init__(self) -> None:
        if not 40 <= self.dpi <= 600:
            raise ValueError(f"dpi is {self.dpi}: use 40 to 600")
        if self.min_side < 1:
            raise ValueError(f"min_side is {self.min_side}: use at least 1")


@dataclass(frozen=True)
class PageFailure:
    """A page, or with number 0 a file, that could not be read."""

    source: str
    page: int
    error: str


def annotate_page(
    raster: Image.Image, place: tuple[str, int], annotators: Sequence[Annotator], finder: RegionFinder, min_side: int
) -> list[dict[str, Any]]:
    """The rows of one page; ``decision`` is empty where the vote is still to come.

    Args:
        raster: picture of the page.
        place: name of its source, and its number there.
        annotators: all are asked about every region worth reading.
        finder: picture to regions.
        min_side: regions with a shorter side in pixels are dropped.
    """
    angle = deskew_angle(raster)
    straight = rotate(grey(raster), angle)
    rows: list[dict[str, Any]] = []
    crops: dict[int, Image.Image] = {}
    for number, region in enumerate(finder(straight)):
        box = region.box.clip(straight.width, straight.height)
        crop = _crop(straight, box)
        reason = _worthless(box, crop, region, min_side)
        if not reason:
            crops[number] = crop
        rows.append(
            {
                "image": {"bytes": _png(crop), "path": None}, "text": None, "kind": region.kind, "source": place[0],
                "page": place[1], "region": number, "box": box.rounded(1)._asdict(), "angle": angle,
                "width": crop.width, "height": crop.height, "candidates": [], "decision": "drop" if reason else "",
                "reason": reason, "hash": f"{perceptual_hash(crop):016x}", "index": -1,
            }
        )  # fmt: skip
    for kind in sorted({rows[number]["kind"] for number in crops}):
        chosen = [number for number in crops if rows[number]["kind"] == kind]
        for annotator in annotators:
            answers = _ask(annotator, [crops[number] for number in chosen], kind)
            for number, (text, error) in zip(chosen, answers, strict=True):
                answer = {"annotator": annotator.name, "text": text, "error": error, "similarity": None}
                rows[number]["candidates"].append(answer)
    return rows


def _crop(image: Image.Image, box: Box) -> Image.Image:
    pad = max(PAD_MIN, PAD * max(box.width, box.height))
    around = box.pad(pad).clip(image.width, image.height)
    x0, y0 = int(around.x0), int(around.y0)
    return image.crop((x0, y0, max(x0 + 1, round(around.x1)), max(y0 + 1, round(around.y1))))


def _worthless(box: Box, crop: Image.Image, region: Region, min_side: int) -> str:
    """Why a region is not worth reading, or nothing."""
    if min(box.width, box.height) < min_side:
        return "small"
    if is_blank(crop):
        return "blank"
    return "figure" if region.kind == "figure" else ""


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _ask(annotator: Annotator, images: list[Image.Image], kind: str) -> list[tuple[str, str]]:
    """(text, error) for each picture; a batch that fails is asked again one by one, so that one costs only itself."""
    try:
        texts = annotator(images, kind)
        if len(texts) != len(images):
            raise ValueError(f"{annotator.name} gave {len(texts)} answers to {len(images)} pictures")
        return [(text, "") for text in texts]
    except Exception as error:  # a plug-in may raise anything
        if len(images) == 1:
            return [("", _one_line(error))]
        return [_ask(annotator, [image], kind)[0] for image in images]


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def annotate_folder(
    folder: Path,
    out: Path,
    annotators: Sequence[Annotator],
    reading: Reading = Reading(),
    votes: Votes = MAJORITY,
    finder: RegionFinder = find_regions,
    described: Sequence[str] = (),
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Read all pages that are not read yet, then vote on everything.

    Args:
        folder: PDFs and pictures, in sub-folders too; or one file.
        out: for ``pages/``, ``part-*.parquet`` and the marker ``_SUCCESS`` with the counts.
        annotators: two at least.
        reading: how pages are rendered and cut.
        votes: what counts as agreement and as a duplicate.
        finder: picture of a page to regions.
        described: what tells these annotators from others of the same names, for the check on resuming.
        report: gets a line for each page.

    Returns:
        The marker's contents; ``failed`` lists the pages that are missing, ``pages`` counts the others.

    Raises:
        ValueError: nothing to read, too few annotators, or ``out`` was made with other annotators or settings.
    """
    if len(annotators) < 2:
        raise ValueError(f"{len(annotators)} annotator: a majority needs two at least, three are better")
    names = [annotator.name for annotator in annotators]
    if len(set(names)) < len(names):
        raise ValueError(f"two annotators are called {max(names, key=names.count)}: put NAME= before one")
    paths = find_files(folder)
    _check_recipe(out, {"annotators": list(described or names), "dpi": reading.dpi, "min_side": reading.min_side})
    files: list[Path] = []
    failures: list[PageFailure] = []
    for path in paths:
        name = str(path.relative_to(folder)) if folder.is_dir() else path.name
        for file, failure in _annotate_file(path, name, out / "pages", (annotators, finder, reading, report)):
            if failure is None:
                files.append(file)
            else:
                failures.append(failure)
                report(f"failed: {failure.source} page {failure.page}: {failure.error}")
    failed = [{"source": one.source, "page": one.page, "error": one.error} for one in failures]
    return gather(files, out, votes, {"pages": len(files), "failed": failed, "annotators": list(described or names)})


def find_files(folder: Path) -> list[Path]:
    """The PDFs and pictures, sorted by name.

    Raises:
        ValueError: there is none.
    """
    if folder.is_file():
        return [folder]
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not found:
        raise ValueError(f"{folder} holds no file to read: use {', '.join(SUFFIXES)}")
    return found


def _check_recipe(out: Path, recipe: dict[str, Any]) -> None:
    (out / "pages").mkdir(parents=True, exist_ok=True)
    path = out / RECIPE
    if path.exists():
        held = json.loads(path.read_text())
        differing = [key for key in recipe if held.get(key) != recipe[key]]
        if differing:
            raise ValueError(f"{out} was made with another {', '.join(differing)}: give -o a new folder")
    else:
        write_atomic(path, json.dumps(recipe, indent=1).encode())


def _annotate_file(
    path: Path, name: str, pages: Path, means: tuple[Sequence[Annotator], RegionFinder, Reading, Callable[[str], None]]
) -> Iterator[tuple[Path, PageFailure | None]]:
    """(page file, why there is none) for each page of a document."""
    annotators, finder, reading, report = means
    key = hashlib.sha256(f"{name}\0{path.stat().st_size}".encode()).hexdigest()[:16]
    try:
        source = open_source(path)
    except SourceError as error:
        yield path, PageFailure(name, 0, _one_line(error))
        return
    with source:
        for number in range(1, source.page_count + 1):
            file = pages / f"{key}-{number:05d}.parquet"
            if _is_finished(file):
                yield file, None
                continue
            try:
                raster = source.page(number).raster(_own_dpi(source, path, number) or reading.dpi)
                rows = annotate_page(raster, (name, number), annotators, finder, reading.min_side)
            except Exception as error:  # one bad page never costs the batch
                yield file, PageFailure(name, number, _one_line(error))
                continue
            errors = sum(bool(one["error"]) for row in rows for one in row["candidates"])
            schema = ROW_SCHEMA.with_metadata({"errors": str(errors)})
            write_atomic(file, parquet_bytes(rows, schema))
            report(f"{name} page {number}: {len(rows)} regions" + (f", {errors} answers failed" if errors else ""))
            yield file, None


def _own_dpi(source: Source, path: Path, number: int) -> float:
    """Resolution at which a picture keeps its pixels; 0 for a PDF, which has none."""
    if source.kind == "pdf":
        return 0.0
    page = source.page(number)
    with Image.open(path) as picture:
        picture.seek(number - 1)
        return 72 * max(picture.size) / max(page.width, page.height)


def _is_finished(file: Path) -> bool:
    """Whether a page was read and no annotator failed on it."""
    return file.exists() and (pq.read_schema(file).metadata or {}).get(b"errors") == b"0"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m data_pipeline.annotate", description="Label regions of real pages by majority vote."
    )
    parser.add_argument("folder", type=Path, help="PDFs and pictures")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the rows")
    parser.add_argument(
        "--annotators", default="tesseract,rapidocr",
        help="tesseract[:LANG], rapidocr, hf:MODEL, command:PROGRAM {image}; NAME= before one renames it",
    )  # fmt: skip
    parser.add_argument("--threshold", type=float, default=Votes.threshold, help="text (default %(default)s)")
    parser.add_argument("--table-threshold", type=float, default=Votes.table_threshold, help="default %(default)s")
    parser.add_argument("--hamming", type=int, default=Votes.hamming, help="duplicates' bits (default %(default)s)")
    parser.add_argument("--dpi", type=int, default=Reading.dpi, help="of PDF pages (default %(default)s)")
    parser.add_argument("--min-side", type=int, default=Reading.min_side, help="pixels (default %(default)s)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    given = _arguments().parse_args(arguments)
    try:
        specs = split_specs(given.annotators)
        reading = Reading(given.dpi, given.min_side)
        votes = Votes(given.threshold, given.table_threshold, given.hamming)
        annotators = [make_annotator(spec) for spec in specs]
        marker = annotate_folder(given.folder, given.output, annotators, reading, votes, described=specs)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt:
        print("interrupted: start the same command again to go on", file=sys.stderr)
        return 130
    print(json.dumps({key: marker[key] for key in ("pages", "decisions", "reasons", "kept", "errors")}, indent=1))
    for failure in marker["failed"]:
        print(f"failed: {failure['source']} page {failure['page']}: {failure['error']}", file=sys.stderr)
    if not marker["pages"]:
        return 1
    return 3 if marker["failed"] or marker["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
