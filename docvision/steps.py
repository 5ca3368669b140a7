"""One page after another: from an open source to :class:`docvision.page.Page`, with the ledger at the end.

Each step works on one page and leaves its time in ``Page.timings``; whatever goes wrong is written on the page.
What one page teaches about the next (fonts that proved true) lives in :class:`Run`, never longer than a document.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docvision import integrity, ledger, scan, trust
from docvision.images import crop_line, is_blank
from docvision.layout import layout_from_layer
from docvision.page import Block, Box, Dropped, Line, Page
from docvision.pdf import Source, SourceError, SourcePage
from docvision.scan import ModelUnavailable
from docvision.table_readers import BESIDE, rewrite_from_words

if TYPE_CHECKING:
    from PIL import Image

    from docvision.scan import Reader
    from docvision.textlayer import TextLayer

READ_DPI = 220
"""Resolution of the page from which lines are cropped: text of 10 points is then about 32 px high."""
BLANK_DPI = 60
IMAGE_PIXELS = 8_000_000
"""An image file is brought to this size at most before it is read: A4 at 300 dpi is 8.7 million."""
FEW_WORDS = 40
"""On such a page fewer words than these are not all of its text."""
SCAN_COVERAGE = 0.55
"""A picture over this share of the page makes the text on it an OCR layer that must prove itself."""


@dataclass
class Run:
    """One document being parsed: what one page teaches about the next, and the ledger's left column."""

    source: Source
    text: str
    """``auto``, ``layer`` or ``model``."""
    rules: bool
    """Never ask for the reader."""
    reader: Callable[[], Reader]
    """Gives the reader, loading it if need be, or raises :class:`docvision.scan.ModelUnavailable`."""
    eager: bool = False
    """The reader is loaded already, so comparing with it costs little."""
    table_reader: str = "maps"
    """How tables are read, see table_readers.py."""
    good_fonts: frozenset[str] = frozenset()
    """Fonts whose text agreed with the picture."""
    model_used: bool = False
    leaned: bool = False
    """Whether a page was read as it was because of what pages before it had done."""
    words: dict[int, list[str]] = field(default_factory=dict)
    """Page number -> texts of the words of the layer, where the layer was read."""

    def page(self, number: int) -> Page:
        """Parse one page; whatever goes wrong is written on it."""
        page = Page(number, 0.0, 0.0)
        try:
            sheet = self.source.page(number)
            page.width, page.height, page.rotation = sheet.width, sheet.height, sheet.rotation
            self._read(page, sheet)
        except SourceError as error:
            _fail(page, str(error))
        except ModelUnavailable as error:
            _fail(page, f"the page has no usable text layer and {error}")
        except MemoryError:
            _fail(page, "not enough memory for this page")
        except Exception as error:  # a page must never cost the document, whatever its content does to us
            _fail(page, f"internal error, please report it: {type(error).__name__}: {one_line(error)}")
        return page

    def _read(self, page: Page, sheet: SourcePage) -> None:
        layer = None
        if self.text != "model":
            with _timed(page, "layer"):
                layer = sheet.layer()
        if layer is not None and (layer.words or layer.hidden):
            self.words[page.number] = [word.text for word in (*layer.words, *layer.hidden)]
            with _timed(page, "layout"):
                page.blocks, page.dropped = layout_from_layer(layer, page.width, page.height)
        reads_pictures = self.text != "layer" and not self.rules
        if layer is None or not layer.words:
            (self._from_picture if reads_pictures else self._without_text)(page, sheet)
            return
        suspicion = trust.suspect(layer.words)
        if not reads_pictures:
            if suspicion:
                page.warnings.append(f"the text layer looks wrong ({suspicion.reason}): try --text model")
            self._check_figures(page, layer)
            return
        scanned = covered(layer.images, page.width, page.height) >= SCAN_COVERAGE
        reason = self._distrust(page, sheet, suspicion, scanned)
        if reason:
            self._replace_layer(page, sheet, reason)
            return
        if scanned and len(layer.words) < FEW_WORDS:
            self._add_picture_text(page, sheet, layer)
        if self.table_reader != "maps":
            self._rewrite_tables(page, sheet, layer)
        self._check_figures(page, layer)

    # From the text layer

    def _rewrite_tables(self, page: Page, sheet: SourcePage, layer: TextLayer) -> None:
        """Take the grids of the layer's tables from the decoder; their words stay the layer's."""
        if not any(block.table is not None and block.source == "text-layer" for block in page.blocks):
            return
        try:
            reader = self.reader()
        except ModelUnavailable as error:
            page.warnings.append(f"tables {BESIDE}: {error}")
            return
        self.model_used = True
        with _timed(page, "tables"):
            image = self._raster(page, sheet)
            scale = image.width / page.width, image.height / page.height
            upright = [word for index, word in enumerate(layer.words) if layer.angle(index) == 0]
            page.warnings += rewrite_from_words(image, scale, page.blocks, upright, reader)

    def _check_figures(self, page: Page, layer: TextLayer) -> None:
        """Say so where a cell made from the layer has digits that the layer does not have there."""
        tables = [block.table for block in page.blocks if block.table is not None and block.source == "text-layer"]
        faults = [fault for table in tables for fault in integrity.digit_faults(table, (*layer.words, *layer.hidden))]
        if faults:
            page.status = "partial"
            page.warnings.append(integrity.describe(faults))

    def _distrust(self, page: Page, sheet: SourcePage, suspicion: trust.Suspicion | None, scanned: bool) -> str:
        """Why the picture is to be read instead of the layer; "" where the layer stands."""
        if suspicion and suspicion.proof:
            return suspicion.reason
        must = scanned or suspicion is not None
        self.leaned = self.leaned or not must
        if not (must or self.eager or self.model_used):
            return ""
        lines = trust.sample_lines(page.blocks, frozenset() if must else self.good_fonts)
        try:
            error_rate = self._compare(page, sheet, lines) if lines else None
        except ModelUnavailable as error:
            if must:
                why = f"looks wrong ({suspicion.reason})" if suspicion else "is that of an OCR layer under a scan"
                page.warnings.append(f"the text {why}, not checked: {error}")
            return ""
        if error_rate is None:
            if suspicion:
                page.warnings.append(f"the text layer looks wrong ({suspicion.reason}), and no line proves it")
            return ""
        if error_rate > trust.MAX_DISAGREEMENT:
            found = f"{error_rate:.0%} of its characters are not what the page shows in {len(lines)} sampled lines"
            return f"{suspicion.reason}, {found}" if suspicion else found
        self.good_fonts |= frozenset().union(*(trust.line_fonts(line) for line in lines))
        return ""

    def _compare(self, page: Page, sheet: SourcePage, lines: list[Line]) -> float | None:
        """Read a few of the layer's lines off the picture; how far the two are apart."""
        reader = self.reader()
        self.model_used = True
        with _timed(page, "trust"):
            image = self._raster(page, sheet)
            crops = [crop_line(image, page.to_pixels(line.box)) for line in lines]
            return trust.disagreement([line.text for line in lines], reader.read_lines(crops))

    def _replace_layer(self, page: Page, sheet: SourcePage, reason: str) -> None:
        """Put what the picture shows in the place of a layer that is not to be trusted."""
        blocks, dropped = page.blocks, page.dropped
        try:
            self.reader()
        except ModelUnavailable as error:
            page.warnings.append(f"the text layer looks wrong ({reason}) and {error}")
            page.status = "partial"
            return
        page.warnings.append(f"text layer not used: {reason}")
        page.blocks, page.dropped = [], []
        self._from_picture(page, sheet)
        for text, box in block_texts(blocks):
            page.dropped.append(Dropped(text, box, "text layer not trusted"))
        page.dropped += dropped

    def _add_picture_text(self, page: Page, sheet: SourcePage, layer: TextLayer) -> None:
        """A scan with a stamp or a running head as real text: keep that and read the rest off the picture."""
        try:
            self.reader()
        except ModelUnavailable:
            return  # _distrust has said so
        blocks, page.blocks = page.blocks, []
        self._from_picture(page, sheet)
        for block in page.blocks:
            block.lines = [line for line in block.lines if not _under_words(line.box, layer)]
            scan.fill(block)
        read = [block for block in page.blocks if block.lines]
        page.blocks = sorted(blocks + read, key=lambda block: block.box.y0) if len(read) > 1 else blocks + read

    # From the picture

    def _from_picture(self, page: Page, sheet: SourcePage) -> None:
        with _timed(page, "raster"):
            image = self._raster(page, sheet)
            blank = is_blank(image)
        if blank:
            return
        reader = self.reader()
        self.model_used = True
        with _timed(page, "read"):
            dpi = image.width * 72 / page.width
            free_scale = self.source.kind == "image"
            found = scan.read_picture(image, reader, dpi, free_scale, self.table_reader)
        x, y = page.width / image.width, page.height / image.height
        for block in found.blocks:
            scan.map_boxes(block, lambda box: box.scale(x, y))
        page.blocks = found.blocks
        page.dropped += [Dropped(item.text, item.box.scale(x, y), item.reason) for item in found.dropped]
        page.warnings += found.notes
        if found.turn:
            page.warnings.append(f"the page lies on its side: read after a turn of {found.turn} degrees")

    def _without_text(self, page: Page, sheet: SourcePage) -> None:
        """A page that may not be read: say so unless there is nothing on it."""
        with _timed(page, "raster"):
            if is_blank(sheet.raster(self._dpi(sheet, BLANK_DPI))):
                return
        asked = "--layout rules" if self.rules else "--text layer"
        page.status = "partial"
        page.warnings.append(f"no text layer, and {asked} reads no pictures: leave it out to read this page")

    def _raster(self, page: Page, sheet: SourcePage) -> Image.Image:
        image = sheet.raster(self._dpi(sheet, READ_DPI))
        page.pixels = image.size
        return image

    def _dpi(self, sheet: SourcePage, dpi: float) -> float:
        """``dpi``, less where an image file without a sane resolution would become huge."""
        if self.source.kind != "image":
            return dpi
        return min(dpi, 72 * (IMAGE_PIXELS / (sheet.width * sheet.height)) ** 0.5)

    def close(self, pages: list[Page]) -> None:
        """Check promise 1 on finished pages, where what does not add up makes the page partial; round boxes."""
        for page in pages:
            found = ledger.check_ledger(self.words.pop(page.number, ()), page) if page.number in self.words else []
            if found and page.status != "failed":
                page.status = "partial"
                page.warnings.append(ledger.describe(found))
            _round_boxes(page)


def _round_boxes(page: Page) -> None:
    """Hundredths of a point: below what any page shows, and half the size as JSON."""
    for block in page.blocks:
        scan.map_boxes(block, Box.rounded)
    for dropped in page.dropped:
        dropped.box = dropped.box.rounded()


def _fail(page: Page, reason: str) -> None:
    page.status, page.error = "failed", reason
    page.blocks = []


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _under_words(box: Box, layer: TextLayer) -> bool:
    return sum(box.intersection(word.box).area for word in layer.words) > 0.3 * box.area


def covered(boxes: list[Box], width: float, height: float) -> float:
    """Share of the page under its largest picture, in [0, 1]."""
    return max((box.clip(width, height).area for box in boxes), default=0.0) / (width * height)


def block_texts(blocks: list[Block]) -> Iterator[tuple[str, Box]]:
    """Every text of the blocks with its box: a cell's for tables."""
    for block in blocks:
        if block.table is None:
            text = " ".join(part for part in ledger.block_texts(block) if part)
            if text:
                yield text, block.box
            continue
        for cell in block.table.cells:
            if cell.text:
                yield cell.text, cell.text_box or cell.box or block.box


@contextmanager
def _timed(page: Page, step: str) -> Iterator[None]:
    """Adds the seconds spent inside to the page's timings."""
    start = time.perf_counter()
    try:
        yield
    finally:
        page.timings[step] = round(page.timings.get(step, 0.0) + time.perf_counter() - start, 4)
