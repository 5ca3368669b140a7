"""A process of its own that reads documents for the demo: it can be stopped at any moment, and may crash alone.

``python -m apps.demo_reading`` takes one job a line on standard input and answers in lines on standard output, both
JSON.  A job is ``{"path", "pages", "text", "password", "folder", "max_pages"}``; the answers are ``{"selected": [1, 2],
"count": 9}``, ``{"page": ...}`` for each page read, and ``{"document": ...}`` or ``{"error": ...}`` at the end.
Pictures of the pages lie in ``folder`` as ``page-3.jpg`` before the page is told.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from docvision.crops import PAGE_DPI, PAGE_WIDTH
from docvision.overlay_html import jpeg
from docvision.page import Document, Page, page_from_json, page_to_json
from docvision.parse import DocumentParser, ParseOptions
from docvision.pdf import SourceError, open_source, parse_page_range
from docvision.steps import one_line

THUMBNAIL_WIDTH = 120
POLL_S = 0.2
MAX_PIXELS = 120_000_000
"""Of one image file: a page of A3 at 600 dpi is 70 million."""


class ReadingStopped(ValueError):
    """A document that was not read to its end, with the reason."""


@dataclass(frozen=True)
class Job:
    """One document to read."""

    path: str
    folder: str
    """Takes the pictures of the pages."""
    pages: str = ""
    text: str = "auto"
    password: str = ""
    max_pages: int = 50


@dataclass
class Progress:
    """How far a job is."""

    pages: list[Page] = field(default_factory=list)
    selected: list[int] = field(default_factory=list)
    count: int = 0
    """Pages of the document."""
    document: Document | None = None
    """The finished document."""


def picture_path(folder: Path, number: int, small: bool = False) -> Path:
    return folder / f"{'thumb' if small else 'page'}-{number}.jpg"


# In the process that reads


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Read one document after another until the other side closes."""

    def tell(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    parsers: dict[str, DocumentParser] = {}
    for line in requests:
        job = Job(**json.loads(line))
        try:
            if job.text not in parsers:
                parsers[job.text] = DocumentParser(ParseOptions(text=job.text))
            _read(job, parsers[job.text], tell)
        except ValueError as error:
            tell(error=_without_path(one_line(error), job.path))
        except MemoryError:
            tell(error="not enough memory for this document: choose fewer pages")
        except Exception as error:
            tell(error=f"internal error, please report it: {type(error).__name__}: {one_line(error)}")


def _read(job: Job, parser: DocumentParser, tell: Callable[..., None]) -> None:
    with open_source(job.path, job.password) as source:
        selected = parse_page_range(job.pages, source.page_count)[: job.max_pages]
        tell(selected=selected, count=source.page_count)

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


def _without_path(message: str, path: str) -> str:
    """Where uploads lie on the server is nobody's business."""
    return message.replace(path, Path(path).name)


# In the process that asks


class ReadingProcess:
    """Starts the reading process when it is first needed, and again after it was stopped or has crashed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()

    def read(
        self, job: Job, max_seconds: float, stopped: Callable[[], bool] = lambda: False
    ) -> Generator[Progress, None, None]:
        """Read one document, yielding how far it is at least every second.

        Leaving the loop early, by ``close()`` of this generator too, stops the reading at once.

        Raises:
            ReadingStopped: the document cannot be read, or ``stopped`` said so.
        """
        progress = Progress()
        deadline = time.monotonic() + max_seconds
        process = self._start()
        finished = False
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(asdict(job)) + "\n")
            process.stdin.flush()
            while progress.document is None:
                yield progress
                if stopped():
                    raise ReadingStopped("stopped")
                if time.monotonic() > deadline:
                    progress.document = _unfinished(progress, job, max_seconds)
                    yield progress
                    return
                finished = self._take(progress)
            yield progress
        except BrokenPipeError:
            raise ReadingStopped("the reader ended unexpectedly: try again") from None
        except _Refused as error:
            finished = True
            raise ReadingStopped(str(error)) from None
        finally:
            if not finished:
                self.stop()

    def _take(self, progress: Progress) -> bool:
        """Take one answer, if there is one soon; whether it was the last one."""
        try:
            line = self._answers.get(timeout=POLL_S)
        except queue.Empty:
            return False
        if line is None:
            raise ReadingStopped("the document made the reader crash: it may be damaged, or larger than the memory")
        answer = json.loads(line)
        if "error" in answer:
            raise _Refused(answer["error"])
        if "selected" in answer:
            progress.selected, progress.count = answer["selected"], answer["count"]
        elif "page" in answer:
            progress.pages.append(page_from_json(answer["page"]))
        else:
            progress.document = Document.from_json(answer["document"])
        return progress.document is not None

    def _start(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        root = str(Path(__file__).resolve().parent.parent)
        paths = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "apps.demo_reading"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        self._answers = queue.Queue()
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process

    def stop(self) -> None:
        """End the reading process, whatever it is at."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


class _Refused(ValueError):
    """The reading process said no and is ready for the next document."""


def _listen(stream: IO[str], answers: queue.Queue[str | None]) -> None:
    try:
        for line in stream:
            answers.put(line)
    except ValueError:  # closed under us by stop()
        return
    answers.put(None)


def _unfinished(progress: Progress, job: Job, seconds: float) -> Document:
    """What was read when time ran out.

    Raises:
        ReadingStopped: nothing was.
    """
    if not progress.pages:
        raise ReadingStopped(f"no page was read within {seconds:g} seconds: choose fewer pages")
    read = f"stopped after {seconds:g} seconds with {len(progress.pages)} of {len(progress.selected)} pages read"
    return Document(Path(job.path).name, progress.pages, warnings=[f"{read}: choose fewer pages"])


def main() -> None:
    """Serve on standard input and output; what else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from docvision import pdf

    pdf.MAX_IMAGE_PIXELS = min(pdf.MAX_IMAGE_PIXELS, MAX_PIXELS)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
