"""What ``docvision show`` and ``docvision diff`` do: look at a parsed document, and at what changed in one."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from apps.console import OK, PARTIAL, show
from apps.outputs import write_atomic
from docvision.compare import compare
from docvision.crops import page_pictures
from docvision.overlay_html import draw_overlay, to_overlay_html
from docvision.page import Document, Page
from docvision.pdf import open_source

PICTURE_DPI = 150


class ShowError(ValueError):
    """What was asked for cannot be shown, said in one line."""


def read_document(path: Path) -> Document:
    """A document that ``parse -f json`` wrote.

    Raises:
        ShowError: it is not there, or is none.
    """
    try:
        return Document.from_json(path.read_bytes())
    except OSError as error:
        raise ShowError(f"{path} cannot be read ({error.strerror}): name a JSON file that parse wrote") from error
    except ValueError as error:
        raise ShowError(f"{path} is {error}; make one with docvision parse -f json") from error


def page_of(document: Document, words: Sequence[str]) -> Page | None:
    """The page that ``page 3`` or ``3`` names; None where nothing does.

    Raises:
        ShowError: the words name no page, or one that is not in the document.
    """
    if not words:
        return None
    match = re.fullmatch(r"(?:page\s*)?(\d{1,9})", " ".join(words).strip(), flags=re.IGNORECASE)
    if match is None:
        raise ShowError(f"{' '.join(words)!r} is no page: write page 3, or nothing for all pages")
    found = [page for page in document.pages if page.number == int(match[1])]
    if not found:
        numbers = ", ".join(str(page.number) for page in document.pages[:12])
        more = " ..." if len(document.pages) > 12 else ""
        raise ShowError(f"page {match[1]} is not in this document, which has {numbers or 'none'}{more}")
    return found[0]


def source_of(document: Document, json_path: Path, given: Path | None) -> Path:
    """The file that the document was made of: given, or where it was, or beside the JSON.

    Raises:
        ShowError: it is nowhere.
    """
    if given is not None:
        return given
    for place in (Path(document.source), json_path.parent / Path(document.source).name):
        if place.is_file():
            return place
    raise ShowError(f"{document.source} is not there any more: name the PDF or image with --source")


def draw(path: Path, words: Sequence[str], out: Path | None, source: Path | None, password: str) -> int:
    """Write the overlay of one page as PNG, or of all pages as one HTML file; returns the exit code.

    Raises:
        ShowError: the document, the page or the source is not there.
        SourceError: the source cannot be read.
        OutputError: the overlay cannot be written.
    """
    document = read_document(path)
    page = page_of(document, words)
    origin = source_of(document, path, source)
    if page is None:
        target = out or path.with_suffix(".overlay.html")
        pictures = page_pictures(document, origin, password)
        write_atomic(target, [to_overlay_html(document, pictures)])
        missing = [page.number for page in document.pages if page.number not in pictures]
    else:
        target = out or path.with_suffix(f".p{page.number}.png")
        with open_source(origin, password) as opened:
            image = opened.page(page.number).raster(PICTURE_DPI)
        write_atomic(target, [_png(draw_overlay(page, image))])
        missing = []
    show(str(target))
    for number in missing:
        show(f"page {number} has no picture: it cannot be drawn")
    return PARTIAL if missing else OK


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def diff(first: Path, second: Path) -> int:
    """Print what differs between two documents; returns the exit code.

    Raises:
        ShowError: one of them is not there, or is no document.
    """
    changes = list(compare(read_document(first), read_document(second)))
    for change in changes:
        show(" ".join(str(change).split()))
    pages = len({change.page for change in changes})
    show(f"{len(changes)} differences on {pages} pages" if changes else "no differences")
    return PARTIAL if changes else OK
