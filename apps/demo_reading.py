"""Reading a document for the demo: the job as the web server sees it, and what the working process does for it.

The answers to the job are ``{"selected": [1, 2], "count": 9, "wanted": 5}``, ``{"page": ...}`` for each page read, and
``{"document": ...}``.  Pictures of the pages lie in ``folder`` as ``page-3.jpg`` before the page is told.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from apps.demo_process import OutOfTime, Pool, WorkStopped
from docvision.crops import PAGE_DPI, PAGE_WIDTH
from docvision.overlay_html import jpeg
from docvision.page import Document, Page, page_from_json, page_to_json
from docvision.parse import DocumentParser
from docvision.pdf import SourceError, open_source, parse_page_range
from docvision.steps import one_line

THUMBNAIL_WIDTH = 120


@dataclass(frozen=True)
class Job:
    """One document to read."""

    path: str
    folder: str
    """Takes the pictures of the pages."""
    pages: str = ""
    text: str = "auto"
    decoding: str = "line"
    """How scanned lines are read: ``line`` by the line head, else by the decoder with this method."""
    password: str = ""
    max_pages: int = 50


@dataclass
class Progress:
    """How far a job is."""

    waiting: int = 0
    """Jobs of others that come first."""
    pages: list[Page] = field(default_factory=list)
    selected: list[int] = field(default_factory=list)
    count: int = 0
    """Pages of the document."""
    wanted: int = 0
    """Pages that were asked for, of which ``selected`` are the first."""
    cut: str = ""
    """Why pages that were asked for are not in the document."""
    document: Document | None = None
    """The finished document."""


def picture_path(folder: Path, number: int, small: bool = False) -> Path:
    return folder / f"{'thumb' if small else 'page'}-{number}.jpg"


def read(
    pool: Pool, job: Job, max_seconds: float, stopped: Callable[[], bool] = lambda: False
) -> Generator[Progress, None, None]:
    """Read one document, yielding how far it is at least every second; the last one has the document.

    Leaving the loop early, by ``close()`` of this generator too, stops the reading at once.

    Raises:
        WorkStopped: the document cannot be read, or ``stopped`` said so.
    """
    progress = Progress()
    steps = pool.ask({"kind": "read", **asdict(job)}, max_seconds, stopped)
    try:
        for answer in steps:
            progress.waiting = answer.get("waiting", 0)
            if "selected" in answer:
                progress.selected, progress.count = answer["selected"], answer["count"]
                progress.wanted = answer["wanted"]
            elif "page" in answer:
                progress.pages.append(page_from_json(answer["page"]))
            elif "document" in answer:
                progress.document = Document.from_json(answer["document"])
                if progress.wanted > len(progress.selected):
                    told = f"this demo reads {job.max_pages} of the {progress.wanted} pages at once: choose others"
                    _cut(progress, told)
            yield progress
    except OutOfTime:
        progress.document = Document(Path(job.path).name, progress.pages)
        _cut(progress, _unfinished(progress, max_seconds))
        yield progress
    finally:
        steps.close()


def _cut(progress: Progress, why: str) -> None:
    assert progress.document is not None
    progress.cut = why
    progress.document.warnings.append(why)


def _unfinished(progress: Progress, seconds: float) -> str:
    """How far the reading came when time ran out.

    Raises:
        WorkStopped: nothing was.
    """
    if not progress.pages:
        raise WorkStopped(f"no page was read within {seconds:g} seconds: choose fewer pages")
    done = f"stopped after {seconds:g} seconds with {len(progress.pages)} of {len(progress.selected)} pages read"
    return f"{done}: choose fewer pages"


def read_job(job: Job, parser: DocumentParser, tell: Callable[..., None]) -> None:
    """In the working process: read the document page by page and draw its pages.

    Raises:
        ValueError: the document or the page selection cannot be read.
    """
    with open_source(job.path, job.password) as source:
        wanted = parse_page_range(job.pages, source.page_count)
        selected = wanted[: job.max_pages]
        tell(selected=selected, count=source.page_count, wanted=len(wanted))

        def on_page(page: Page) -> None:
            try:
                sheet = source.page(page.number)
                image = sheet.raster(min(PAGE_DPI, 72 * PAGE_WIDTH / sheet.width))
                picture_path(Path(job.folder), page.number).write_bytes(jpeg(image, PAGE_WIDTH))
                picture_path(Path(job.folder), page.number, small=True).write_bytes(jpeg(image, THUMBNAIL_WIDTH))
            except SourceError as error:
                page.warnings.append(f"no picture of this page: {one_line(error)}")
            tell(page=page_to_json(page))

        chosen = ",".join(map(str, selected))
        document = parser.parse(job.path, pages=chosen, password=job.password, on_page=on_page)
    document.source = Path(job.path).name
    tell(document=document.to_json())
