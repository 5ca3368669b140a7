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

import difflib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from docvision.layout import finish_document
from docvision.page import Document, Page
from docvision.pdf import Source, open_source, parse_page_range
from docvision.scan import ModelUnavailable
from docvision.steps import Run, one_line
from docvision.table_join import mark_continued

if TYPE_CHECKING:
    from docvision.scan import Reader

TEXT_CHOICES = ("auto", "layer", "model")
LAYOUT_CHOICES = ("auto", "rules")
DEFAULT_MODEL = "docvision-tiny"
MODEL_GONE = "the model cannot be loaded"


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

    def __post_init__(self) -> None:
        if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", self.device):
            raise ValueError(f"device {self.device!r} is none: use cpu, cuda or cuda:1")
        check_choice("text", self.text, TEXT_CHOICES)
        check_choice("layout", self.layout, LAYOUT_CHOICES)
        if self.text == "model" and self.layout == "rules":
            raise ValueError("text 'model' needs the model, which layout 'rules' never loads: leave one of them out")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises a ValueError with a suggestion unless ``value`` is one of ``choices``."""
    if value not in choices:
        close = difflib.get_close_matches(value, choices, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name} {value!r} is not one of {', '.join(choices)}{hint}")


def parse(
    source: str | Path,
    *,
    pages: str = "",
    password: str = "",
    text: str = "auto",
    layout: str = "auto",
    device: str = "cpu",
    model: str = DEFAULT_MODEL,
    join_tables: bool = True,
    on_page: Callable[[Page], None] | None = None,
) -> Document:
    """Parse one document.

    Args:
        source: path of a PDF, PNG, JPEG, WebP or TIFF.
        pages: selection such as ``1-5,8,r1``; empty for all.
        password: opens an encrypted PDF.
        text: ``auto``, ``layer`` or ``model``: where the text is taken from, see the top of this file.
        layout: ``auto`` or ``rules``.
        device: where the model runs, ``cpu`` or ``cuda``.
        model: packaged name, folder or hub id.
        join_tables: write a table that goes on on the next page as one.
        on_page: called with each page as soon as it is read, before what only the whole document tells
            (running headers, heading levels) is filled in.

    Raises:
        SourceError: the source cannot be read at all.
        ValueError: an option or page selection that does not exist.
    """
    options = ParseOptions(text=text, layout=layout, device=device, model=model, join_tables=join_tables)
    return DocumentParser(options).parse(source, pages=pages, password=password, on_page=on_page)


class DocumentParser:
    """Parses many documents with one set of options and one loaded model.

    Args:
        options: see :class:`ParseOptions`.
        reader: what reads pictures; None loads ``options.model`` when a page first needs it.
    """

    def __init__(self, options: ParseOptions | None = None, reader: Reader | None = None) -> None:
        self.options = options or ParseOptions()
        self._reader = reader
        self._eager = reader is not None
        self._failure = ""
        self._load: Callable[[str, str], Reader] = load_reader

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

    def parse(
        self,
        source: str | Path,
        *,
        pages: str = "",
        password: str = "",
        on_page: Callable[[Page], None] | None = None,
    ) -> Document:
        """Parse one document; arguments and errors as in :func:`parse`."""
        with open_source(source, password) as opened:
            run = self._run(opened)
            document = Document(_printable(source), metadata=dict(opened.metadata), settings=self._settings())
            for number in parse_page_range(pages, opened.page_count):
                page = run.page(number)
                document.pages.append(page)
                if on_page is not None:
                    on_page(page)
        finish_document(document.pages)
        if self.options.join_tables:
            mark_continued(document.pages)
        run.close(document.pages)
        return document

    def pages(self, source: str | Path, *, pages: str = "", password: str = "") -> Iterator[Page]:
        """Pages one at a time, each freed when the caller lets go of it.

        What only the whole document tells stays open: running headers are not recognised across pages.
        """
        with open_source(source, password) as opened:
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
        if self._reader is None:
            if self._failure:
                raise ModelUnavailable(self._failure)
            try:
                self._reader = self._load(self.options.model, self.options.device)
            except ModelUnavailable as error:
                self._failure = str(error)
                raise
        return self._reader

    def _run(self, source: Source) -> Run:
        return Run(source, self.options.text, self.options.layout == "rules", self.reader, self._eager)


def load_reader(model: str, device: str) -> Reader:
    """The packaged or named model as a reader.

    Raises:
        ModelUnavailable: torch, the weights or the device are missing.
    """
    try:
        from docvision.reader import ModelReader
    except ImportError as error:
        raise ModelUnavailable(f"{MODEL_GONE}: {error}; install docvision with its dependencies") from error
    try:
        return ModelReader.from_pretrained(model, device)
    except (ValueError, OSError, RuntimeError) as error:
        raise ModelUnavailable(f"{MODEL_GONE}: {one_line(error)}") from error


def _printable(source: str | Path) -> str:
    """A path as text that JSON can carry, even where its bytes are no UTF-8."""
    return str(source).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _CallableModule(ModuleType):
    """``docvision.parse`` is this module and, for ``from docvision import parse``, the function of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Document:
        return parse(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
