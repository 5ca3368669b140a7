"""The one document model: what truth, prediction and every export are made of.

A :class:`Document` holds pages, a :class:`Page` holds blocks in reading order, a :class:`Block` holds lines
or a table.  The synthetic pipeline writes it as truth, the parser writes it as prediction, and the JSON on
disk is this file's dataclasses and nothing else, so ``Document.from_json(doc.to_json()) == doc`` always.

Conventions
    Boxes are ``(x0, y0, x1, y1)`` in PDF points (1/72 inch), origin at the top left of the *visible* page:
    after the crop box and the page's own rotation have been applied.  ``Page.pixels`` is the size of the
    raster that was read; ``Page.to_pixels`` converts a box.  ``x1``/``y1`` are exclusive.
    Sequences are tuples and lists of plain dataclasses; nothing here imports torch, numpy or PIL.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

SCHEMA_VERSION: Literal["1"] = "1"

BlockKind = Literal[
    "text", "heading", "list", "caption", "table", "figure", "header", "footer", "footnote", "code", "formula"
]
Source = Literal["text-layer", "model", "truth"]
Status = Literal["ok", "partial", "failed"]


class Box(NamedTuple):
    """An axis-aligned rectangle in points, or in pixels where a name says so."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def area(self) -> float:
        return max(0.0, self.width) * max(0.0, self.height)

    @property
    def center(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def intersection(self, other: Box) -> Box:
        """The common rectangle; empty (zero or negative sides, ``area == 0``) where the two do not meet."""
        return Box(max(self.x0, other.x0), max(self.y0, other.y0), min(self.x1, other.x1), min(self.y1, other.y1))

    def union(self, other: Box) -> Box:
        return Box(min(self.x0, other.x0), min(self.y0, other.y0), max(self.x1, other.x1), max(self.y1, other.y1))

    def iou(self, other: Box) -> float:
        """Intersection over union, in [0, 1]; 0 for two empty boxes."""
        common = self.intersection(other).area
        total = self.area + other.area - common
        return common / total if total > 0 else 0.0

    def coverage(self, other: Box) -> float:
        """Share of *this* box that lies inside ``other``, in [0, 1]."""
        return self.intersection(other).area / self.area if self.area > 0 else 0.0

    def nesting(self, other: Box) -> float:
        """Share of the one of two boxes that lies in the other, whichever is more, in [0, 1]; 1 for a box inside."""
        return max(self.coverage(other), other.coverage(self))

    def overlap_x(self, other: Box) -> float:
        """Length of the common interval on the x axis, never negative."""
        return max(0.0, min(self.x1, other.x1) - max(self.x0, other.x0))

    def overlap_y(self, other: Box) -> float:
        """Length of the common interval on the y axis, never negative."""
        return max(0.0, min(self.y1, other.y1) - max(self.y0, other.y0))

    def contains(self, x: float, y: float) -> bool:
        return self.x0 <= x < self.x1 and self.y0 <= y < self.y1

    def scale(self, sx: float, sy: float | None = None) -> Box:
        sy = sx if sy is None else sy
        return Box(self.x0 * sx, self.y0 * sy, self.x1 * sx, self.y1 * sy)

    def shift(self, dx: float, dy: float) -> Box:
        return Box(self.x0 + dx, self.y0 + dy, self.x1 + dx, self.y1 + dy)

    def pad(self, dx: float, dy: float | None = None) -> Box:
        """Grow by ``dx`` on the left and right and ``dy`` (default ``dx``) on the top and bottom."""
        dy = dx if dy is None else dy
        return Box(self.x0 - dx, self.y0 - dy, self.x1 + dx, self.y1 + dy)

    def clip(self, width: float, height: float) -> Box:
        """The part inside a page of this size; finite and with ``x0 <= x1`` and ``y0 <= y1``."""
        x0, x1 = sorted((min(max(self.x0, 0.0), width), min(max(self.x1, 0.0), width)))
        y0, y1 = sorted((min(max(self.y0, 0.0), height), min(max(self.y1, 0.0), height)))
        return Box(x0, y0, x1, y1)

    def rounded(self, digits: int = 2) -> Box:
        return Box(*(round(v, digits) for v in self))


def bounding_box(boxes: Any) -> Box:
    """The smallest box around all ``boxes``.

    Raises:
        ValueError: there is no box.
    """
    boxes = list(boxes)
    if not boxes:
        raise ValueError("bounding_box() of no boxes: pass at least one")
    return Box(min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes))


@dataclass(slots=True)
class Word:
    """A run of characters between spaces, as the text layer or a reader gave it."""

    text: str
    box: Box
    confidence: float = 1.0
    source: Source = "text-layer"
    font: str = ""
    size: float = 0.0
    """Font size in points as it appears on the page; 0 where unknown."""
    bold: bool = False
    italic: bool = False
    link: str = ""


@dataclass(slots=True)
class Line:
    """Words on one baseline, left to right (or in the script's own direction)."""

    text: str
    box: Box
    words: list[Word] = field(default_factory=list)
    confidence: float = 1.0
    source: Source = "text-layer"
    angle: float = 0.0
    """Direction of the baseline in degrees, counter-clockwise; 0 is left to right."""


@dataclass(slots=True)
class Cell:
    """A table cell: its place in the grid, its text, and two boxes."""

    row: int
    column: int
    text: str = ""
    row_span: int = 1
    column_span: int = 1
    header: bool = False
    box: Box | None = None
    """The grid cell, where it is known."""
    text_box: Box | None = None
    """The box around the text itself; None for an empty cell."""
    confidence: float = 1.0
    source: Source = "text-layer"


@dataclass(slots=True)
class Table:
    """A rectangular grid of cells in row-major order; a spanning cell stands once, at its top-left place."""

    rows: int
    columns: int
    cells: list[Cell] = field(default_factory=list)

    def grid(self) -> list[list[Cell | None]]:
        """``rows`` x ``columns`` references; a spanning cell stands at each place it covers, a hole is None."""
        grid: list[list[Cell | None]] = [[None] * self.columns for _ in range(self.rows)]
        for cell in self.cells:
            for row in range(cell.row, min(cell.row + cell.row_span, self.rows)):
                for column in range(cell.column, min(cell.column + cell.column_span, self.columns)):
                    grid[row][column] = cell
        return grid

    @property
    def header_rows(self) -> int:
        """Number of leading rows made of header cells only."""
        count = 0
        for row in self.grid():
            if not any(row) or not all(cell is None or cell.header for cell in row):
                break
            count += 1
        return count

    @property
    def has_spans(self) -> bool:
        return any(cell.row_span > 1 or cell.column_span > 1 for cell in self.cells)


@dataclass(slots=True)
class Block:
    """One item of the reading order."""

    kind: BlockKind
    box: Box
    text: str = ""
    """Running text: lines joined, line-end hyphens resolved. Empty for a figure; a table's text is in its cells."""
    lines: list[Line] = field(default_factory=list)
    level: int = 0
    """Heading level from 1, list nesting from 0; 0 elsewhere."""
    marker: str = ""
    """A list item's own bullet or number as printed."""
    table: Table | None = None
    source: Source = "text-layer"
    confidence: float = 1.0


@dataclass(slots=True)
class Dropped:
    """Text that was seen and deliberately left out of the reading order."""

    text: str
    box: Box
    reason: str


@dataclass(slots=True)
class Page:
    """One page, or the reason why there is none."""

    number: int
    """1-based number in the source."""
    width: float
    height: float
    blocks: list[Block] = field(default_factory=list)
    rotation: int = 0
    """Clockwise turn that the source asked for (0, 90, 180, 270); boxes are given after it."""
    pixels: tuple[int, int] | None = None
    """Width and height in pixels of the raster that was read; None where none was needed."""
    dropped: list[Dropped] = field(default_factory=list)
    status: Status = "ok"
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step."""

    def to_pixels(self, box: Box) -> Box:
        """``box`` in pixels of the page raster.

        Raises:
            ValueError: the page was never rasterised.
        """
        if self.pixels is None:
            raise ValueError(f"page {self.number} has no raster, so no pixel boxes: parse with --text model or auto")
        return box.scale(self.pixels[0] / self.width, self.pixels[1] / self.height)

    def words(self) -> list[Word]:
        """All words of the page in reading order (tables keep theirs in cells)."""
        return [word for block in self.blocks for line in block.lines for word in line.words]


@dataclass(slots=True, repr=False)
class Document:
    """A parsed source: pages in order, and how they came about."""

    source: str
    pages: list[Page] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Options and model that made this document, as text."""
    warnings: list[str] = field(default_factory=list)
    schema_version: Literal["1"] = SCHEMA_VERSION

    def __repr__(self) -> str:
        count = len(self.pages)
        return f"Document({self.source!r}, {count} page{'s' if count != 1 else ''}, {self.status})"

    @property
    def status(self) -> Status:
        """``ok`` when every page is, ``failed`` when none could be read, else ``partial``."""
        states = {page.status for page in self.pages}
        if states == {"ok"}:
            return "ok"
        return "failed" if states <= {"failed"} else "partial"

    def to_json(self, indent: int | None = None) -> str:
        return _adapter().dump_json(self, indent=indent).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Document:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: not a document, or one of another schema version.
        """
        try:
            return _adapter().validate_json(text, strict=False)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "document"
            raise ValueError(f"not a docvision document: {place}: {first['msg']} (schema {SCHEMA_VERSION})") from error

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """JSON Schema (2020-12) generated from these types."""
        schema = _adapter().json_schema()
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "docvision document", **schema}


_ADAPTER: TypeAdapter[Document] | None = None


def _adapter() -> TypeAdapter[Document]:
    """Built on first use: building validators takes longer than importing this module should."""
    global _ADAPTER
    if _ADAPTER is None:
        _ADAPTER = TypeAdapter(Document)
    return _ADAPTER


def page_from_json(text: str | bytes) -> Page:
    """One page alone, as the data shards store it."""
    return Document.from_json(text).pages[0]


def page_to_json(page: Page, source: str = "") -> str:
    """One page as a one-page document, the form in which the data shards store truth."""
    return Document(source=source, pages=[replace(page)]).to_json()
