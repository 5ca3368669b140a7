"""What a document looks like to its readers: a source of numbered pages, its errors, and page selections."""

from __future__ import annotations

import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Literal

from PIL import Image

from docvision.textlayer import TextLayer

ErrorCode = Literal[
    "missing",
    "empty",
    "not-supported",
    "corrupt",
    "password-required",
    "wrong-password",
    "no-pages",
    "page-out-of-range",
    "too-large",
]
Engine = Literal["auto", "poppler", "pdfium"]
AnySource = str | Path | bytes | IO[bytes] | Image.Image
"""A path, the content of a file, a file opened for reading bytes, or a picture."""
PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
"""Of pictures that a PNG file holds as they are."""


class SourceError(ValueError):
    """A source that cannot be read; ``code`` names the reason, the message says what to do about it."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code


class SourcePage(ABC):
    """One page of a source: its size in points, a raster on demand, a text layer where there is one."""

    number: int
    width: float
    """Points, after crop box and rotation."""
    height: float
    rotation: int
    """Clockwise turn that the source asked for: 0, 90, 180 or 270. Everything here is given after it."""

    @abstractmethod
    def raster(self, dpi: float, engine: Engine = "auto") -> Image.Image:
        """The page as an RGB image.

        Args:
            dpi: pixels per inch; lowered where the page would pass ``MAX_RASTER_PIXELS``.
            engine: ``poppler``, ``pdfium`` or ``auto``: poppler where it is installed and can read the page.

        Raises:
            SourceError: ``corrupt`` where the page cannot be rendered.
        """

    def layer(self) -> TextLayer | None:
        """Words and drawings in points, or None for an image."""
        return None


class Source(ABC):
    """A document that is open: use it in a ``with`` statement or call :meth:`close`."""

    kind: Literal["pdf", "image"]
    page_count: int
    metadata: dict[str, str]
    notes: Sequence[str] = ()
    """What the document holds besides pages and is left alone: scripts, attached files."""

    @abstractmethod
    def page(self, number: int) -> SourcePage:
        """Page ``number`` from 1, loaded now and freed when it is no longer used.

        Raises:
            SourceError: ``page-out-of-range`` or ``corrupt``.
        """

    def pages(self) -> Iterator[SourcePage]:
        """All pages in order, one at a time."""
        for number in range(1, self.page_count + 1):
            yield self.page(number)

    @abstractmethod
    def close(self) -> None:
        """Free the document; calling it twice does no harm."""

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_number(self, number: int) -> None:
        if not 1 <= number <= self.page_count:
            raise SourceError(
                "page-out-of-range", f"page {number} is not there: the document has {self.page_count} pages, from 1"
            )


@contextmanager
def on_disk(source: AnySource) -> Iterator[tuple[Path, str]]:
    """(path, name) of a source; what is no file yet lies in a private temporary one while the block runs.

    Raises:
        SourceError: ``not-supported`` for an object that is no document.
    """
    if isinstance(source, str | Path):
        yield Path(source), str(source)
        return
    with tempfile.TemporaryDirectory(prefix="docvision-") as folder:
        path, name = Path(folder, "document"), "document"
        if isinstance(source, bytes | bytearray | memoryview):
            path.write_bytes(source)
        elif isinstance(source, Image.Image):
            picture = source if source.mode in PNG_MODES else source.convert("RGB")
            dpi = source.info.get("dpi")
            picture.save(path, "PNG", **({"dpi": dpi} if dpi else {}))
        elif callable(getattr(source, "read", None)):
            given = getattr(source, "name", None)
            name = Path(given).name if isinstance(given, str) else name
            with path.open("wb") as file:
                try:
                    shutil.copyfileobj(source, file)
                except TypeError:
                    raise SourceError("not-supported", f"{name} is open as text: open it with mode 'rb'") from None
        else:
            kind = type(source).__name__
            raise SourceError("not-supported", f"a {kind} is no document: give a path, bytes, a file or a picture")
        try:
            yield path, name
        except SourceError as error:
            raise SourceError(error.code, str(error).replace(str(path), name)) from None


PageSelection = str | int | Iterable[int]
"""See :func:`parse_page_range`."""


def parse_page_range(pages: PageSelection, count: int) -> list[int]:
    """Page numbers for a selection like ``1-5,8,r2-r1``.

    Args:
        pages: numbers and ranges, separated by commas; ``rN`` is the N-th page from the end, a range may run
            backwards or lack one end (``3-``), an empty text or ``all`` means every page.  Or a number, or numbers.
        count: number of pages of the document.

    Returns:
        1-based numbers in the order written, each once.

    Raises:
        SourceError: ``page-out-of-range`` for a page that is not there and for text that is not a selection.
    """
    if isinstance(pages, str):
        text = pages
    else:
        given = [pages] if isinstance(pages, int) else list(pages)
        if any(number < 1 for number in given) or not given:
            raise SourceError("page-out-of-range", f"page selection {pages!r}: pages count from 1")
        text = ",".join(map(str, given))
    if text.strip().lower() in ("", "all"):
        return list(range(1, count + 1))
    numbers: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(r?\d+)?\s*(-)?\s*(r?\d+)?\s*", part, flags=re.IGNORECASE)
        if match is None or not (match[1] or match[3]) or bool(match[1] and match[3]) > bool(match[2]):
            raise SourceError(
                "page-out-of-range", f"page selection {text!r}: {part.strip()!r} is not like 3, 2-5 or r1"
            )
        first = _page_number(match[1] or "1", count, text)
        last = _page_number(match[3] or "r1", count, text) if match[2] else first
        step = 1 if last >= first else -1
        numbers.update(dict.fromkeys(range(first, last + step, step)))
    return list(numbers)


def _page_number(text: str, count: int, selection: str) -> int:
    number = count + 1 - int(text[1:]) if text[0] in "rR" else int(text)
    if not 1 <= number <= count:
        raise SourceError(
            "page-out-of-range", f"page {text} of the selection {selection!r} is not there: the document has {count}"
        )
    return number
