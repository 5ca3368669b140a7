"""Opening documents: PDFs and images become numbered pages, each with a raster and, for a PDF, a text layer.

A page is loaded when it is asked for and freed when it goes, so a thousand pages stream in the memory of one.
Rasters come from poppler (through pdf2image) where ``pdftoppm`` is installed and from PDFium elsewhere; text,
rules and figures always come from PDFium.  PDFium is not thread safe: every call into it runs under one lock.

Limits
    A raster has at most ``MAX_RASTER_PIXELS`` pixels; a larger page is rendered at a lower resolution.
    An image file of more than ``MAX_IMAGE_PIXELS`` pixels is refused.
    The ``UserUnit`` of a page is ignored, as in PDFium and poppler.
"""

from __future__ import annotations

import mmap
import re
import shutil
import struct
import warnings
from pathlib import Path
from typing import Literal

import pdf2image
import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image, ImageOps, UnidentifiedImageError

from docvision.images import eight_bits, smooth_halftone
from docvision.pdfium import PDFIUM_LOCK
from docvision.source import Engine, Source, SourceError, SourcePage, parse_page_range
from docvision.textlayer import TextLayer, read_layer

__all__ = ["Source", "SourceError", "SourcePage", "TextLayer", "open_source", "parse_page_range"]

MAX_RASTER_PIXELS = 50_000_000
"""A4 at 600 dpi is 35 million."""
MAX_IMAGE_PIXELS = 400_000_000
MIN_IMAGE_DPI, MAX_IMAGE_DPI, DEFAULT_IMAGE_DPI = 50, 1200, 72
"""An image file's own resolution counts where it is plausible; else one pixel is one point."""
MAX_TIFF_PAGES = 5000
POPPLER_TIMEOUT_S = 120
MAX_NAMES, MAX_NAME = 3, 60
"""Attached files that are named in a note, and characters of a name."""
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "TIFF")


def open_source(path: str | Path, password: str = "") -> Source:
    """Open a PDF or an image file.

    Args:
        path: a PDF, PNG, JPEG, WebP or TIFF; the content decides, not the extension.
        password: user or owner password of an encrypted PDF; ignored where none is needed.

    Returns:
        A context manager with the pages.

    Raises:
        SourceError: with ``code`` saying why the file cannot be read.
    """
    path = Path(path)
    kind = _sniff(path)
    return _PdfSource(path, password) if kind == "pdf" else _ImageSource(path)


def _sniff(path: Path) -> Literal["pdf", "image"]:
    """What kind of file this is by its first bytes, or the reason why it cannot be read."""
    if path.is_dir():
        raise SourceError("not-supported", f"{path} is a folder: name the files in it")
    try:
        with path.open("rb") as file:
            head = file.read(1024)
    except FileNotFoundError:
        raise SourceError("missing", f"{path} does not exist: check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SourceError("missing", f"{path} cannot be opened ({reason}): check its permissions") from None
    if not head:
        raise SourceError("empty", f"{path} is empty (0 bytes): fetch or export it again")
    if b"%PDF-" in head or (path.suffix.lower() == ".pdf" and not _is_image(head)):
        return "pdf"
    if _is_image(head):
        return "image"
    raise SourceError("not-supported", f"{path} is neither a PDF nor a PNG, JPEG, WebP or TIFF image: convert it first")


def _is_image(head: bytes) -> bool:
    return head.startswith((b"\x89PNG\r\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")) or (
        head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    )


class _PdfSource(Source):
    """A PDF held open by PDFium."""

    kind = "pdf"

    def __init__(self, path: Path, password: str) -> None:
        self.path, self.password = path, password
        self._document: pypdfium2.PdfDocument | None = _load_pdf(path, password)
        with PDFIUM_LOCK:
            self.page_count = _believable_count(self._document, path)
            found = self._document.get_metadata_dict(skip_empty=True)
            self.notes = _left_alone(self._document, path)
        self.metadata = {name.lower(): " ".join(str(value).split()) for name, value in found.items()}

    def page(self, number: int) -> _PdfPage:
        if self._document is None:
            raise SourceError("missing", f"{self.path} is closed: read its pages inside the with statement")
        self._check_number(number)
        return _PdfPage(self, self._document, number)

    def close(self) -> None:
        if self._document is not None:
            with PDFIUM_LOCK:
                self._document.close()
            self._document = None


def _believable_count(document: pypdfium2.PdfDocument, path: Path) -> int:
    """The number of pages; where a file claims more of them than it has bytes, of those that are there from page 1."""
    claimed, size = len(document), path.stat().st_size
    if claimed <= size:
        return claimed
    for index in range(size):
        page = pdfium.FPDF_LoadPage(document, index)
        if not page:
            return max(index, 1)
        pdfium.FPDF_ClosePage(page)
    return size


def _left_alone(document: pypdfium2.PdfDocument, path: Path) -> list[str]:
    """What the PDF holds besides its pages: nothing of it is run, opened or read, and people should know of it.

    PDFium counts the scripts of the name tree; those of an action are looked for in the bytes, where those inside
    compressed object streams stay unseen.
    """
    notes = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        scripted = re.search(rb"/S\s*/JavaScript\b", content) is not None
        launches = re.search(rb"/S\s*/Launch\b", content) is not None
    if scripted or pdfium.FPDFDoc_GetJavaScriptActionCount(document) > 0:
        notes.append("the PDF holds JavaScript, which is never run")
    if launches:
        notes.append("the PDF wants to start a program, which is never done")
    files = document.count_attachments()
    if files:
        names = [_shown(document.get_attachment(index).get_name()) for index in range(min(files, MAX_NAMES))]
        more = f" and {files - MAX_NAMES} more" if files > MAX_NAMES else ""
        notes.append(f"the PDF holds attached files, which are not read: {', '.join(names)}{more}")
    return notes


def _shown(name: str) -> str:
    """The name of an attached file on one line, without control characters."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in name).split())[:MAX_NAME] or "(no name)"


def _load_pdf(path: Path, password: str) -> pypdfium2.PdfDocument:
    """Open with PDFium, telling its failures apart."""
    try:
        with PDFIUM_LOCK:
            # PDFium keeps its last error until the next one, and a PDF without pages sets none: a name that cannot be
            # opened puts a known one in the place of some earlier document's.
            pdfium.FPDF_LoadDocument(b"", None)
            return pypdfium2.PdfDocument(path, password=password or None)
    except pypdfium2.PdfiumError as error:
        code = error.err_code
    if code == pdfium.FPDF_ERR_PASSWORD:
        if password:
            raise SourceError("wrong-password", f"{path} does not open with this password: check it")
        raise SourceError(
            "password-required", f"{path} is encrypted: give its password (--password or DOCVISION_PASSWORD)"
        )
    if code == pdfium.FPDF_ERR_SECURITY:
        raise SourceError("not-supported", f"{path} is encrypted in a way PDFium cannot read: decrypt it first")
    if code in (None, pdfium.FPDF_ERR_SUCCESS, pdfium.FPDF_ERR_FILE, pdfium.FPDF_ERR_PAGE):
        raise SourceError("no-pages", f"{path} has no page that can be read: export it again")
    raise SourceError("corrupt", f"{path} is damaged or not a PDF: repair it or fetch it again")


class _PdfPage(SourcePage):
    """A page of a PDF; the PDFium page lives as long as this object."""

    def __init__(self, source: _PdfSource, document: pypdfium2.PdfDocument, number: int) -> None:
        self._source = source
        self._layer: TextLayer | None = None
        self.number = number
        try:
            with PDFIUM_LOCK:
                self._page = document[number - 1]
                self.rotation = self._page.get_rotation()
                width, height = self._page.get_size()
        except pypdfium2.PdfiumError:
            raise SourceError("corrupt", f"page {number} of {source.path} is damaged and cannot be loaded") from None
        # A page without area would divide by zero everywhere downstream.
        self.width, self.height = max(float(width), 1.0), max(float(height), 1.0)

    def layer(self) -> TextLayer:
        if self._layer is None:
            with PDFIUM_LOCK:
                self._layer = read_layer(self._page, self.number - 1, self.width, self.height)
        return self._layer

    def raster(self, dpi: float, engine: Engine = "auto") -> Image.Image:
        pixels = self.width * self.height * (dpi / 72) ** 2
        dpi = dpi * min(1.0, (MAX_RASTER_PIXELS / pixels) ** 0.5)
        if engine != "pdfium" and (engine == "poppler" or shutil.which("pdftoppm")):
            image = self._poppler(dpi)
            if image is not None:
                return image
            if engine == "poppler":
                raise SourceError("corrupt", f"page {self.number} of {self._source.path}: poppler cannot render it")
        return self._pdfium(dpi)

    def _poppler(self, dpi: float) -> Image.Image | None:
        """Rendered by ``pdftoppm``, or None where that fails or runs too long."""
        size = (max(1, round(self.width * dpi / 72)), max(1, round(self.height * dpi / 72)))
        try:
            images = pdf2image.convert_from_path(
                self._source.path,
                size=size,
                first_page=self.number,
                last_page=self.number,
                userpw=self._source.password or None,  # type: ignore[arg-type]  # pdf2image writes str where None is its default
                use_cropbox=True,
                timeout=POPPLER_TIMEOUT_S,
            )
        except (OSError, ValueError, *_POPPLER_ERRORS):
            return None
        return images[0].convert("RGB") if images else None

    def _pdfium(self, dpi: float) -> Image.Image:
        try:
            with PDFIUM_LOCK:
                return self._page.render(scale=dpi / 72).to_pil().convert("RGB")
        except (pypdfium2.PdfiumError, ValueError, MemoryError):
            raise SourceError("corrupt", f"page {self.number} of {self._source.path} cannot be rendered") from None

    def __del__(self) -> None:
        page = getattr(self, "_page", None)
        if page is not None:
            with PDFIUM_LOCK:
                page.close()


_POPPLER_ERRORS = (
    pdf2image.exceptions.PDFInfoNotInstalledError,
    pdf2image.exceptions.PDFPageCountError,
    pdf2image.exceptions.PDFSyntaxError,
    pdf2image.exceptions.PDFPopplerTimeoutError,
)


class _ImageSource(Source):
    """An image file; a TIFF may hold several pages."""

    kind = "image"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata = {}
        try:
            with warnings.catch_warnings():
                # The limit here is ours (MAX_IMAGE_PIXELS), checked before anything is decoded.
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                self._image: Image.Image | None = Image.open(path, formats=IMAGE_FORMATS)
            self.page_count = _tiff_pages(path) if self._image.format == "TIFF" else 1
        except Image.DecompressionBombError:
            raise _too_large(path) from None
        except SourceError:
            raise
        except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError):
            raise SourceError("corrupt", f"{path} is damaged and cannot be decoded: export it again") from None
        self._check_size(self._image)

    def _check_size(self, image: Image.Image) -> None:
        if image.width * image.height > MAX_IMAGE_PIXELS:
            raise _too_large(self.path)

    def page(self, number: int) -> _ImagePage:
        if self._image is None:
            raise SourceError("missing", f"{self.path} is closed: read its pages inside the with statement")
        self._check_number(number)
        try:
            self._image.seek(number - 1)
            self._check_size(self._image)
            dpi = _sane_dpi(self._image.info.get("dpi"))
            upright = _flat_rgb(ImageOps.exif_transpose(self._image))
        except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError("corrupt", f"page {number} of {self.path} is damaged and cannot be decoded") from None
        return _ImagePage(number, upright, dpi)

    def close(self) -> None:
        if self._image is not None:
            self._image.close()
            self._image = None


class _ImagePage(SourcePage):
    """A decoded image; a point is ``72 / dpi`` pixels wide."""

    rotation = 0

    def __init__(self, number: int, image: Image.Image, dpi: float) -> None:
        self.number, self._image, self._dpi = number, image, dpi
        self.width, self.height = image.width * 72 / dpi, image.height * 72 / dpi

    def raster(self, dpi: float, engine: Engine = "auto") -> Image.Image:
        del engine  # an image is resized, never rendered
        scale = dpi / self._dpi
        scale *= min(1.0, (MAX_RASTER_PIXELS / (self._image.width * self._image.height * scale**2)) ** 0.5)
        size = (max(1, round(self._image.width * scale)), max(1, round(self._image.height * scale)))
        return self._image if size == self._image.size else self._image.resize(size, Image.Resampling.LANCZOS)


def _tiff_pages(path: Path) -> int:
    """Pages of a TIFF by its chain of directories; Pillow's own count takes time with the square of their number.

    Raises:
        SourceError: ``too-large`` beyond ``MAX_TIFF_PAGES``.
    """
    with path.open("rb") as file:
        head = file.read(8)
        order = "<" if head[:2] == b"II" else ">"
        big = head[2:4] in (b"+\0", b"\0+")
        count_form, entry, place_form = ("Q", 20, "Q") if big else ("H", 12, "I")
        seen: set[int] = set()
        place = 8 if big else 4  # where the place of the next directory stands
        try:
            while True:
                file.seek(place)
                (start,) = struct.unpack(order + place_form, file.read(8 if big else 4))
                if not start or start in seen:
                    break
                if len(seen) == MAX_TIFF_PAGES:
                    raise SourceError("too-large", f"{path} has more than {MAX_TIFF_PAGES} pages: split it first")
                seen.add(start)
                file.seek(start)
                (entries,) = struct.unpack(order + count_form, file.read(8 if big else 2))
                place = start + (8 if big else 2) + entry * entries
        except (struct.error, OverflowError, OSError):
            pass  # cut off here: what is there is counted, and its last page will tell
    return max(len(seen), 1)


def _too_large(path: Path) -> SourceError:
    limit = MAX_IMAGE_PIXELS // 10**6
    return SourceError("too-large", f"{path} has more than {limit} million pixels: scale it down first")


def _sane_dpi(value: object) -> float:
    """The file's own resolution where it is plausible."""
    try:
        dpi = float(value[0])  # type: ignore[index]
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return DEFAULT_IMAGE_DPI
    return dpi if MIN_IMAGE_DPI <= dpi <= MAX_IMAGE_DPI else DEFAULT_IMAGE_DPI


def _flat_rgb(image: Image.Image) -> Image.Image:
    """RGB on white paper; greys of more than 8 bits are scaled, dots of a halftone smoothed, transparency is filled."""
    if image.mode.startswith("I") or image.mode == "F":
        image = eight_bits(image)
    elif image.mode == "1":
        image = smooth_halftone(image.convert("L"))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        paper = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(paper, rgba).convert("RGB")
    return image.convert("RGB")
