"""A PDF or an image -> Document.

    open -> for each page: text layer -> is it to be trusted? -> blocks from the layer, or blocks and text from the
    picture -> running headers, levels (whole document) -> ledger

Each step works on one page and leaves its time in ``Page.timings``.  A page that fails is a page with a reason;
the document goes on.  The model, and torch with it, is loaded when the first page needs it: a born-digital PDF
never does.

Where the text comes from (``text``)
    ``layer``  the PDF's text layer only; a page without one is left without text and says so.
    ``model``  the picture only.
    ``auto``   the layer where it is there and holds up (see trust.py), else the picture.  A layer that lies over a
               picture of the whole page is somebody's OCR: it is compared with the picture before it is believed.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import asdict, dataclass, replace
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from docvision.hf_kind import is_vlm
from docvision.layout import finish_document
from docvision.page import Document, Page
from docvision.pdf import Source, open_source, parse_page_range
from docvision.scan import ModelUnavailable
from docvision.source import AnySource, PageSelection, on_disk
from docvision.steps import Run, one_line
from docvision.table_join import mark_continued
from docvision.table_readers import TABLE_READERS

if TYPE_CHECKING:
    from docvision.scan import Reader

TEXT_CHOICES = ("auto", "layer", "model")
LAYOUT_CHOICES = ("auto", "rules")
DEFAULT_MODEL = "docvision-tiny"
MODEL_GONE = "the model cannot be loaded"
CLOSED = "this parser is closed: use it inside its with statement, or make another one"
OnPage = Callable[[Page], None]
OnProgress = Callable[[int, int], None]
"""Called with the number of pages that are read and the number of pages to read."""


@dataclass(frozen=True)
class ParseOptions:
    """How to parse; checked when it is made."""

    text: str = "auto"
    layout: str = "auto"
    """``rules`` never loads the model: a page without a text layer stays without text."""
    device: str = "cpu"
    model: str = DEFAULT_MODEL
    """A packaged model's name, a folder or a hub id."""
    join_tables: bool = True
    """Write a table that goes on on the next page as one, see table_join.py."""
    table_reader: str = "maps"
    """``maps``, ``crops`` or ``stream``: what finds the cells of tables, see table_readers.py."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", self.device):
            raise ValueError(f"device {self.device!r} is none: use cpu, cuda or cuda:1")
        check_choice("text", self.text, TEXT_CHOICES)
        check_choice("layout", self.layout, LAYOUT_CHOICES)
        if self.text == "model" and self.layout == "rules":
            raise ValueError("text 'model' needs the model, which layout 'rules' never loads: leave one of them out")
        check_choice("table_reader", self.table_reader, TABLE_READERS)
        if self.table_reader != "maps" and (self.layout == "rules" or self.text == "layer"):
            never = "layout 'rules'" if self.layout == "rules" else "text 'layer'"
            raise ValueError(
                f"table_reader {self.table_reader!r} needs the model, which {never} never loads: leave one of them out"
            )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises a ValueError with a suggestion unless ``value`` is one of ``choices``."""
    if value not in choices:
        close = difflib.get_close_matches(value, choices, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name} {value!r} is not one of {', '.join(choices)}{hint}")


def parse(
    source: AnySource,
    *,
    pages: PageSelection = "",
    password: str = "",
    text: str = "auto",
    layout: str = "auto",
    device: str = "cpu",
    model: str = DEFAULT_MODEL,
    join_tables: bool = True,
    table_reader: str = "maps",
    on_page: OnPage | None = None,
    on_progress: OnProgress | None = None,
) -> Document:
    """Parse one document.

    Args:
        source: a PDF, PNG, JPEG, WebP or TIFF as its path, its bytes or an open file; or a PIL image.
        pages: selection such as ``1-5,8,r1``, a number or numbers; empty for all.
        password: opens an encrypted PDF.
        text: ``auto``, ``layer`` or ``model``: where the text is taken from, see the top of this file.
        layout: ``auto`` or ``rules``.
        device: where the model runs, ``cpu`` or ``cuda``.
        model: packaged name, folder or hub id.
        join_tables: write a table that goes on on the next page as one.
        table_reader: ``maps``, ``crops`` or ``stream``: what finds the cells of tables, see table_readers.py.
        on_page: called with each page as soon as it is read, before what only the whole document tells
            (running headers, heading levels) is filled in.
        on_progress: called with (pages read, pages in all) when the document is open and after each page.

    Raises:
        SourceError: the source cannot be read at all.
        ValueError: an option or page selection that does not exist.
    """
    options = ParseOptions(text, layout, device, model, join_tables, table_reader)
    with DocumentParser(options) as parser:
        return parser.parse(source, pages=pages, password=password, on_page=on_page, on_progress=on_progress)


class DocumentParser:
    """Parses many documents with one set of options and one loaded model, from several threads if need be.

    As a context manager it lets go of the model at the end.

    Args:
        options: see :class:`ParseOptions`.
        reader: what reads pictures; None loads ``options.model`` when a page first needs it.
        changes: single options, as in ``DocumentParser(text="layer")``.
    """

    def __init__(self, options: ParseOptions | None = None, reader: Reader | None = None, **changes: Any) -> None:
        self.options = replace(options or ParseOptions(), **changes)
        self._reader = reader
        self._eager = reader is not None
        self._failure = ""
        self._load: Callable[[str, str], Reader] = load_reader
        self._loading = threading.Lock()
        self._closed = False

    @classmethod
    def from_pretrained(
        cls, model: str = DEFAULT_MODEL, *, device: str = "cpu", text: str = "auto", layout: str = "auto"
    ) -> DocumentParser:
        """A parser whose model is loaded now.

        Raises:
            ModelUnavailable: there is no such model, or it cannot run here.
        """
        options = ParseOptions(text=text, layout=layout, device=device, model=model)
        return cls(options, None if layout == "rules" else load_reader(model, device))

    def with_options(self, **changes: Any) -> DocumentParser:
        """A parser with some options changed that shares this one's loaded model."""
        other = DocumentParser(self.options, **changes)
        if (other.options.model, other.options.device) == (self.options.model, self.options.device):
            other._load = lambda model, device: self.reader()
        return other

    def parse(
        self,
        source: AnySource,
        *,
        pages: PageSelection = "",
        password: str = "",
        on_page: OnPage | None = None,
        on_progress: OnProgress | None = None,
    ) -> Document:
        """Parse one document; arguments and errors as in :func:`parse`."""
        with on_disk(source) as (path, name), open_source(path, password) as opened:
            run, document = self.begin(opened, name)
            selected = parse_page_range(pages, opened.page_count)
            if on_progress is not None:
                on_progress(0, len(selected))
            for number in selected:
                page = run.page(number)
                document.pages.append(page)
                if on_page is not None:
                    on_page(page)
                if on_progress is not None:
                    on_progress(len(document.pages), len(selected))
        self.finish(run, document)
        return document

    def begin(self, source: Source, name: str) -> tuple[Run, Document]:
        """What reads the pages of an open source, and a document without pages; see :meth:`finish`."""
        document = Document(_printable(name), metadata=dict(source.metadata), settings=self._settings())
        document.warnings += source.notes
        return self._run(source), document

    def finish(self, run: Run, document: Document) -> None:
        """Do what only the whole document tells, when its pages are there, and check the ledger of ``run``'s words."""
        finish_document(document.pages)
        if self.options.join_tables:
            mark_continued(document.pages)
        run.close(document.pages)

    async def parse_async(
        self,
        source: AnySource,
        *,
        pages: PageSelection = "",
        password: str = "",
        on_page: OnPage | None = None,
        on_progress: OnProgress | None = None,
    ) -> Document:
        """:meth:`parse` in a thread, so that the event loop goes on; the callbacks run in the loop.

        Cancelling takes effect at once for the caller; the page that is being read is finished behind its back.
        """
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def tell(page: Page) -> None:
            if stopped.is_set():
                raise asyncio.CancelledError
            if on_page is not None:
                loop.call_soon_threadsafe(on_page, page)

        def count(done: int, total: int) -> None:
            if on_progress is not None:
                loop.call_soon_threadsafe(on_progress, done, total)

        try:
            return await asyncio.to_thread(
                self.parse, source, pages=pages, password=password, on_page=tell, on_progress=count
            )
        finally:
            stopped.set()

    async def pages_async(
        self, source: AnySource, *, pages: PageSelection = "", password: str = ""
    ) -> AsyncIterator[Page]:
        """:meth:`pages` for ``async for``: each page is read in a thread while the event loop goes on."""
        iterator, stopped = self.pages(source, pages=pages, password=password), threading.Event()

        def read() -> Page | None:
            page = next(iterator, None)
            if stopped.is_set():
                iterator.close()
            return page

        try:
            while (page := await asyncio.to_thread(read)) is not None:
                yield page
        except asyncio.CancelledError:
            stopped.set()  # the thread is still at a page, and closes the document after it
            raise
        except GeneratorExit:
            iterator.close()
            raise

    def pages(self, source: AnySource, *, pages: PageSelection = "", password: str = "") -> Generator[Page, None, None]:
        """Pages one at a time as they are read, each freed when the caller lets go of it.

        What only the whole document tells stays open: running headers are not recognised across pages.
        """
        with on_disk(source) as (path, _), open_source(path, password) as opened:
            run = self._run(opened)
            for number in parse_page_range(pages, opened.page_count):
                page = run.page(number)
                run.close([page])
                yield page

    def _settings(self) -> dict[str, str]:
        from docvision import __version__

        options = asdict(self.options) | {"join_tables": "on" if self.options.join_tables else "off"}
        return {**options, "version": __version__}

    def reader(self) -> Reader:
        """The reader, loaded now if need be.

        Raises:
            ModelUnavailable: why there is none.
        """
        with self._loading:
            if self._closed:
                raise ModelUnavailable(CLOSED)
            if self._reader is None:
                if self._failure:
                    raise ModelUnavailable(self._failure)
                try:
                    self._reader = self._load(self.options.model, self.options.device)
                except ModelUnavailable as error:
                    self._failure = str(error)
                    raise
            return self._reader

    def close(self) -> None:
        """Let go of the model; the parser cannot be used any more."""
        self._closed, self._reader = True, None

    def __enter__(self) -> DocumentParser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, source: Source) -> Run:
        if self._closed:
            raise ValueError(CLOSED)
        options = self.options
        rules = options.layout == "rules"
        kind = Run
        if is_vlm(options.model):
            from docvision.hf_vlm.pages import VlmRun

            kind = VlmRun
        return kind(source, options.text, rules, self.reader, self._eager, options.table_reader)


def load_reader(model: str, device: str) -> Reader:
    """The packaged or named model as a reader.

    Raises:
        ModelUnavailable: torch, the weights or the device are missing.
    """
    if is_vlm(model):
        try:
            from docvision.hf_vlm.pages import VlmReader
        except ImportError as error:
            raise ModelUnavailable(f"{MODEL_GONE}: {error}") from error
        reader: Any = VlmReader.from_pretrained(model, device)  # reads whole pages, which its VlmRun knows
        return reader
    try:
        from docvision.reader import ModelReader
    except ImportError as error:
        raise ModelUnavailable(f"{MODEL_GONE}: {error}; install docvision with its dependencies") from error
    try:
        return ModelReader.from_pretrained(model, device)
    except (ValueError, OSError, RuntimeError) as error:
        raise ModelUnavailable(f"{MODEL_GONE}: {one_line(error)}") from error


def _printable(name: str) -> str:
    """A name as text that JSON can carry, even where its bytes are no UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _CallableModule(ModuleType):
    """``docvision.parse`` is this module and, for ``from docvision import parse``, the function of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Document:
        return parse(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
