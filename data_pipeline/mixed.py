"""Pages, forms and single tables in one data set of one schema; each row's ``kind`` says what it is.

A few pages lie on their side or stand on their head, as they come out of a feeder: their boxes are turned with them and
each line's ``angle`` says how it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np

from data_pipeline import genres, render, table_sets
from data_pipeline.chance import weighted
from docvision.page import Box, Document, Page

Rng = np.random.Generator

SHARES = {"pages": 0.68, "forms": 0.12, "tables": 0.20}
TABLE_KIND = "table"
"""What the ``kind`` of a single table says; a page's kind is its genre."""


@dataclass(frozen=True)
class MixedOptions(render.PageOptions):
    """What to mix; what is said of pages holds for forms and tables as well."""

    kinds: dict[str, float] = field(default_factory=lambda: {k: v for k, v in genres.KINDS.items() if k != "form"})
    """Shares of the kinds of whole pages."""
    shares: dict[str, float] = field(default_factory=lambda: dict(SHARES))
    """Of whole pages, forms and single tables."""
    turned: float = 0.02
    """Share of pages that are turned by a quarter or half."""

    def __post_init__(self) -> None:
        if unknown := set(self.shares) - set(SHARES):
            raise ValueError(f"unknown part {min(unknown)!r} of the mixture: use some of {', '.join(SHARES)}")
        if not self.shares or min(self.shares.values()) < 0 or sum(self.shares.values()) <= 0:
            raise ValueError("shares of the mixture must not be negative and must not all be zero")
        if not 0 <= self.turned <= 1:
            raise ValueError(f"turned is {self.turned}: use a share within 0 to 1")
        super().__post_init__()

    def table_options(self) -> table_sets.TableOptions:
        return table_sets.TableOptions(
            corpus=self.corpus, clean=self.clean, scanned=self.scanned, skew=self.skew, difficulty=self.difficulty
        )


def sample_mixed(rng: Rng, options: MixedOptions) -> dict[str, Any]:
    """One row with the columns of :data:`data_pipeline.render.PAGE_SCHEMA`."""
    part = weighted(rng, options.shares)
    if part == "tables":
        row = table_sets.sample_table(rng, options.table_options())
        width, height = _size(row["image"]["bytes"])
        return {
            "image": row["image"], "document": row["document"], "width": width, "height": height,
            "kind": TABLE_KIND, "difficulty": row["difficulty"],
        }  # fmt: skip
    row = render.sample_page(rng, replace(options, kinds={"form": 1.0}) if part == "forms" else options)
    if rng.random() < options.turned:
        return turn_row(row, int(rng.integers(1, 4)), options.quality)
    return row


def _decode(data: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert image is not None, "a row holds a picture that OpenCV wrote"
    return image


def _size(data: bytes) -> tuple[int, int]:
    height, width = _decode(data).shape
    return width, height


def turn_row(row: dict[str, Any], quarters: int, quality: int) -> dict[str, Any]:
    """A page's row, turned clockwise by so many quarters."""
    image = np.ascontiguousarray(np.rot90(_decode(row["image"]["bytes"]), -quarters))
    data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
    document = Document.from_json(row["document"])
    for page in document.pages:
        for _ in range(quarters % 4):
            turn_page(page)
    sizes = {"width": image.shape[1], "height": image.shape[0]}
    return {**row, **sizes, "image": {"bytes": data, "path": None}, "document": document.to_json()}


def turn_page(page: Page) -> None:
    """Turn all boxes of a page clockwise by a quarter, in place."""
    height = page.height

    def turned(box: Box) -> Box:
        return Box(height - box.y1, box.x0, height - box.y0, box.x1).rounded()

    for block in page.blocks:
        block.box = turned(block.box)
        for line in block.lines:
            line.box = turned(line.box)
            line.angle = (line.angle - 90.0 + 180.0) % 360.0 - 180.0
            for word in line.words:
                word.box = turned(word.box)
        for cell in block.table.cells if block.table else ():
            cell.box = turned(cell.box) if cell.box else None
            cell.text_box = turned(cell.text_box) if cell.text_box else None
    page.width, page.height = page.height, page.width
    page.pixels = (page.pixels[1], page.pixels[0]) if page.pixels else None
