"""Do rendered pages look like real ones? Simple statistics of page pictures, side by side, and a recipe fitted to them.

    python -m data_pipeline.statistics compare REAL SYNTHETIC     # two folders: pictures, or shards of pages
    python -m data_pipeline.statistics fit FOLDER -o recipe.yaml  # options that bring rendered pages near a user's own

Only measures of the picture are taken (contrast, skew, text height, stroke width, sharpness, noise, lines a page); no
content is read or kept, so a fitted recipe says nothing of what the pages hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from data_pipeline.shards import read_rows
from docvision.page import Document

PICTURES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp"}
_WIDTH = 1000
"""Pages are measured at this width, so that resolutions compare."""
_MOST = 200
"""Pages of a folder that are looked at; more do not change the quantiles."""


@dataclass(frozen=True, slots=True)
class PageStatistics:
    """Measures of one page; lengths in thousandths of the page's width."""

    contrast: float
    """Grey levels between paper and ink."""
    paper: float
    """Grey level of the paper."""
    skew: float
    """Degrees by which the lines rise or fall, without sign."""
    text_height: float
    """Height of the small letters."""
    stroke: float
    """Width of the strokes."""
    softness: float
    """Width of the edges between paper and ink; 1 or 2 is sharp."""
    grain: float
    """Deviation of the paper's grey levels from their neighbours'."""
    shading: float
    """Grey levels between the lighter and the darker regions of the paper."""
    ink: float
    """Share of the page that is ink, in percent."""
    lines: float
    """Lines of text, from the picture."""
    letters: float = float("nan")
    """Characters a line, where the truth is known."""


def measure(image: np.ndarray, letters: float = float("nan")) -> PageStatistics | None:
    """The measures of a grey page picture; None for one without text."""
    scale = _WIDTH / image.shape[1]
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    page = cv2.resize(image, (_WIDTH, max(32, round(image.shape[0] * scale))), interpolation=method)
    background = cv2.medianBlur(cv2.dilate(page, np.ones((5, 5), np.uint8)), 31)
    depth = cv2.subtract(background, page)
    level = max(18.0, cv2.threshold(depth, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)[0])
    ink = (depth > level).astype(np.uint8)
    count, _, parts, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    tall, wide, area = parts[1:, 3], parts[1:, 2], parts[1:, 4]
    letter = (tall >= 4) & (tall <= 60) & (wide <= 80) & (area >= 8)
    if count < 12 or letter.sum() < 10:
        return None
    height = float(np.median(tall[letter]))
    skew = _skew(ink)
    strokes = cv2.distanceTransform(ink, cv2.DIST_L2, 3)
    ridge = strokes[(strokes > 0) & (strokes >= cv2.dilate(strokes, np.ones((3, 3), np.uint8)) - 1e-6)]
    dark = page[cv2.erode(ink, np.ones((2, 2), np.uint8)) > 0] if ink.any() else page[ink > 0]
    dark = dark if dark.size else page[ink > 0]
    blank = cv2.dilate(ink, np.ones((7, 7), np.uint8)) == 0
    contrast = float(np.median(background)) - float(np.median(dark))
    gradient = cv2.magnitude(cv2.Sobel(page, cv2.CV_32F, 1, 0), cv2.Sobel(page, cv2.CV_32F, 0, 1))
    steepest = float(np.percentile(gradient[cv2.dilate(ink, np.ones((3, 3), np.uint8)) > 0], 90)) / 4
    residue = page.astype(np.float32) - cv2.GaussianBlur(page, (0, 0), 2.0)
    low, high = np.percentile(background, (5, 95))
    return PageStatistics(
        contrast=contrast, paper=float(np.median(background)), skew=abs(skew), text_height=height,
        stroke=2 * float(np.mean(ridge)), softness=max(0.0, contrast / max(1.0, steepest)),
        grain=float(residue[blank].std()) if blank.any() else 0.0, shading=float(high - low),
        ink=100 * float(ink.mean()), lines=float(_count_lines(_level(ink, skew), height)), letters=letters,
    )  # fmt: skip


def _level(ink: np.ndarray, degrees: float) -> np.ndarray:
    height, width = ink.shape
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    return cv2.warpAffine(ink, matrix, (width, height), flags=cv2.INTER_NEAREST)


def _skew(ink: np.ndarray) -> float:
    """The angle that makes rows of ink and rows of paper differ most, within 5 degrees."""
    small = cv2.resize(ink * np.uint8(255), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)

    def edge(degrees: float) -> float:
        rows = _level(small, degrees).sum(axis=1, dtype=np.float64)
        return float(np.square(np.diff(rows)).sum())

    coarse = max(np.arange(-5, 5.1, 0.5), key=edge)
    return float(max(coarse + np.arange(-0.4, 0.41, 0.1), key=edge))


def _count_lines(ink: np.ndarray, letter: float) -> int:
    """Bands of rows with ink, about as tall as letters."""
    rows = cv2.blur(ink.astype(np.float32), (1, max(1, round(letter / 3)))).mean(axis=1)
    full = rows > max(0.004, 0.25 * float(np.percentile(rows, 90)))
    starts = np.flatnonzero(np.diff(np.concatenate([[False], full, [False]]).astype(np.int8)))
    tall = starts[1::2] - starts[::2]
    return int((tall >= 0.5 * letter).sum())


def read_folder(folder: Path, most: int = _MOST) -> list[PageStatistics]:
    """Measures of the pictures in a folder, or of the pages in a data set.

    Raises:
        ValueError: there is no page with text.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: name one with page pictures or shards")
    found = [stats for stats in map(_measured, _pages(folder, most)) if stats is not None]
    if not found:
        raise ValueError(f"{folder} has no page with text: put PNG, JPEG or TIFF pictures or shards of pages there")
    return found


def _measured(page: tuple[np.ndarray, float]) -> PageStatistics | None:
    return measure(*page)


def _pages(folder: Path, most: int) -> Iterator[tuple[np.ndarray, float]]:
    if any(folder.glob("part-*.parquet")):
        for number, row in enumerate(read_rows(folder, ["image", "document"])):
            if number == most:
                return
            image = cv2.imdecode(np.frombuffer(row["image"]["bytes"], np.uint8), cv2.IMREAD_GRAYSCALE)
            lines = [line.text for page in Document.from_json(row["document"]).pages for line in page_lines(page)]
            if image is not None:
                yield image, float(np.median([len(line) for line in lines])) if lines else float("nan")
        return
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURES)
    for path in paths[:: max(1, len(paths) // most)]:
        image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if image is not None:
            yield image, float("nan")


def page_lines(page: Any) -> Iterator[Any]:
    """Lines of running text of a page."""
    return (line for block in page.blocks if block.table is None for line in block.lines)


NAMES = tuple(entry.name for entry in fields(PageStatistics))
QUANTILES = (10, 50, 90)


def quantiles(pages: list[PageStatistics]) -> dict[str, tuple[float, ...]]:
    """The 10th, 50th and 90th percentile of each measure; measures that no page has are left out."""
    table = {}
    for name in NAMES:
        values = np.array([getattr(page, name) for page in pages])
        values = values[~np.isnan(values)]
        if len(values):
            table[name] = tuple(float(value) for value in np.percentile(values, QUANTILES))
    return table


def compare(real: list[PageStatistics], synthetic: list[PageStatistics]) -> str:
    """Both sets side by side, and the share of real pages that lie within the synthetic 5th to 95th percentile."""
    ours, theirs = quantiles(synthetic), quantiles(real)
    rows = [f"{'measure':<12} {'real 10 / 50 / 90 %':>26} {'synthetic':>26} {'covered':>8}"]
    for name in NAMES:
        if name not in ours:
            continue
        shown = [
            " / ".join(f"{value:.1f}" for value in table[name]) if name in table else "-" for table in (theirs, ours)
        ]
        inside = "-"
        if name in theirs:
            low, high = np.nanpercentile([getattr(page, name) for page in synthetic], (5, 95))
            values = np.array([getattr(page, name) for page in real])
            inside = f"{100 * np.mean((values >= low) & (values <= high)):.0f} %"
        rows.append(f"{name:<12} {shown[0]:>26} {shown[1]:>26} {inside:>8}")
    return "\n".join(rows)


def fit(pages: list[PageStatistics]) -> dict[str, Any]:
    """Options of a page recipe that bring rendered pages near these: how clean, how askew, how difficult.

    The difficulty of a page is estimated from its softness, grain, shading and lost contrast, each against what the
    degradations do at full strength.
    """
    hard = np.array([_difficulty(page) for page in pages])
    askew = np.array([page.skew for page in pages])
    spread = float(np.clip(np.percentile(askew, 90), 0.1, 3.0))
    clean = float(np.mean((hard < 0.06) & (askew <= 0.15)))
    rest = hard[(hard >= 0.06) | (askew > 0.15)]
    scanned = float(np.mean((hard < 0.15) & ((hard >= 0.06) | (askew > 0.15))))
    rest = rest[rest >= 0.15] if (rest >= 0.15).any() else np.array([0.15, 0.3])
    low, high = np.percentile(rest, (10, 90))
    return {
        "clean": round(min(clean, 1 - scanned), 2), "scanned": round(scanned, 2), "skew": round(spread, 2),
        "difficulty": [round(float(low), 2), round(float(np.clip(high, low + 0.05, 1.0)), 2)],
    }  # fmt: skip


def _difficulty(page: PageStatistics) -> float:
    signs = (
        (page.softness - 1.5) / 3.0,
        (page.grain - 1.0) / 14.0,
        (page.shading - 6.0) / 110.0,
        (215.0 - page.contrast) / 260.0,
    )
    return float(np.clip(np.mean(np.clip(signs, 0, 1)) * 2.0, 0, 1))


def write_recipe(pages: list[PageStatistics], folder: Path, path: Path) -> None:
    """A recipe of the kind ``mixed`` with the fitted options."""
    recipe = {"kind": "mixed", "rows": 100, "options": {"corpus": "system", **fit(pages)}}
    header = (
        f"# Mixed pages, degraded like the {len(pages)} pages of a folder; made by\n"
        f"# python -m data_pipeline.statistics fit {folder.name} -o {path.name}\n"
    )
    path.write_text(header + yaml.safe_dump(recipe, sort_keys=False, default_flow_style=None))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_pipeline.statistics", description=(__doc__ or "").split("\n")[0]
    )
    actions = parser.add_subparsers(dest="action", required=True)
    both = actions.add_parser("compare", help="two folders side by side")
    both.add_argument("real", type=Path)
    both.add_argument("synthetic", type=Path)
    both.add_argument("--json", type=Path, help="write the quantiles here as well")
    one = actions.add_parser("fit", help="a recipe for pages like these")
    one.add_argument("folder", type=Path)
    one.add_argument("-o", "--output", type=Path, required=True, help="the recipe's YAML")
    given = parser.parse_args(arguments)
    try:
        if given.action == "fit":
            pages = read_folder(given.folder)
            write_recipe(pages, given.folder, given.output)
            print(f"{given.output}: fitted to {len(pages)} pages: {fit(pages)}")
            return 0
        real, synthetic = read_folder(given.real), read_folder(given.synthetic)
        print(f"{len(real)} real and {len(synthetic)} synthetic pages, lengths in thousandths of the width")
        print(compare(real, synthetic))
        if given.json:
            given.json.write_text(json.dumps({"real": quantiles(real), "synthetic": quantiles(synthetic)}, indent=1))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
