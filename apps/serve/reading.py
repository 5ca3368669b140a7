"""A process of its own that reads documents for the service: it can be killed at any moment, and may crash alone.

``python -m apps.serve.reading SETTINGS`` loads the model, says ``{"ready": true}`` and takes one job a line on standard
input.  It answers in lines of JSON: ``{"pages": [done, total]}`` after each page, and at the end ``{"status": "ok"}``
or ``{"error": message, "code": ...}``.  The document itself lies in the job's folder as ``answer``.

The process has a limit to its memory, which programs that it starts (poppler) inherit.  It ends when its standard
input does, so no reader outlives the service, and removes the folder with all uploads then.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from apps.doctor import one_line_pdf
from apps.outputs import Outputs, render
from docvision import pdf
from docvision.page import Document, Page
from docvision.parse import DocumentParser, ParseOptions
from docvision.pdf import SourceError, open_source, parse_page_range
from docvision.scan import ModelUnavailable
from docvision.steps import one_line

UPLOAD, ANSWER = "upload", "answer"
"""Names in the folder of a job; what the sender called the document is only a label in the answer."""
MAX_PIXELS = 120_000_000
"""Of one image file: a page of A3 at 600 dpi is 70 million."""

Tell = Callable[..., None]


@dataclass(frozen=True)
class ReaderSettings:
    """What a reading process is started with."""

    root: str
    """Holds the folders of all jobs; removed when the service is gone."""
    model: str
    device: str
    layout: str
    """``rules``: the model is never loaded, whatever a job asks for."""
    max_pages: int
    max_memory_mb: int


@dataclass(frozen=True)
class Job:
    """One document to read."""

    folder: str
    name: str
    format: str
    pages: str = ""
    password: str = ""
    text: str = "auto"
    layout: str = "auto"
    join_tables: bool = True
    table_reader: str = "maps"
    headers: bool = False
    tables: str = "auto"
    anchors: bool = False

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


class _Refused(ValueError):
    """A document that is not read, with one of the service's own codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Reader:
    """Reads one job after another with one loaded model."""

    def __init__(self, settings: ReaderSettings) -> None:
        self.settings = settings
        options = ParseOptions(model=settings.model, device=settings.device, layout=settings.layout)
        self._parser = DocumentParser(options)

    def warm_up(self) -> str:
        """Read a line and load the model, so that the first document waits for neither; why that failed, or nothing."""
        self._parser.with_options(layout="rules").parse(one_line_pdf("warm")).to_json()
        if self.settings.layout == "rules":
            return ""
        try:
            self._parser.reader()
        except ModelUnavailable as error:
            return one_line(error)
        return ""

    def read(self, job: Job, tell: Tell) -> None:
        """Read one document, write its answer, tell how it went."""
        path = Path(job.folder, UPLOAD)
        try:
            status = self._read(job, path, tell)
        except (SourceError, _Refused) as error:
            tell(error=_without_path(error, path, job.name), code=error.code)
        except ValueError as error:
            tell(error=_without_path(error, path, job.name), code="bad-option")
        except MemoryError:
            tell(error="the memory does not suffice for this document", code="out-of-memory")
        except Exception as error:
            tell(error=f"{type(error).__name__}: {_without_path(error, path, job.name)}", code="internal")
        else:
            tell(status=status)

    def _read(self, job: Job, path: Path, tell: Tell) -> str:
        with open_source(path, job.password) as source:
            selected = parse_page_range(job.pages, source.page_count)
            count = source.page_count
        limit = self.settings.max_pages
        if len(selected) > limit:
            raise _Refused("too-many-pages", f"{len(selected)} of {count} pages are asked for, here {limit} at most")
        done = 0

        def on_page(page: Page) -> None:
            nonlocal done
            done += 1
            tell(pages=[done, len(selected)])

        tell(pages=[0, len(selected)])
        chosen = ",".join(map(str, selected))
        layout = "rules" if self.settings.layout == "rules" else job.layout
        parser = self._parser.with_options(
            text=job.text, layout=layout, join_tables=job.join_tables, table_reader=job.table_reader
        )
        document = parser.parse(path, pages=chosen, password=job.password, on_page=on_page)
        document.source = job.name
        if document.status == "failed":
            reason = next((page.error for page in document.pages if page.error), "it has no page")
            raise _Refused("unreadable", f"no page could be read: {reason}")
        _write(document, job)
        return document.status


def _write(document: Document, job: Job) -> None:
    outputs = Outputs((job.format,), headers=job.headers, tables=job.tables, anchors=job.anchors)  # type: ignore[arg-type]
    with Path(job.folder, ANSWER).open("wb") as file:
        for _, chunks in render(document, outputs):
            file.writelines(chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk for chunk in chunks)


def _without_path(error: Exception, path: Path, name: str) -> str:
    """Where uploads lie on the server is nobody's business."""
    return one_line(error).replace(str(path), name).replace(str(path.parent), "")


def limit_memory(megabytes: int) -> None:
    """Bound what this process and those it starts may allocate; 0 for no bound."""
    if megabytes:
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_DATA, (megabytes * 1_000_000, megabytes * 1_000_000))


def jobs(stream: IO[str], root: Path) -> Iterator[Job]:
    """Jobs as they come; the process ends at once when the stream does, even in the middle of a document."""
    waiting: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in stream:
            waiting.put(line)
        shutil.rmtree(root, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield Job(**json.loads(waiting.get()))


def main() -> None:
    """Serve on standard input and output; what else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    settings = ReaderSettings(**json.loads(sys.argv[1]))
    pdf.MAX_IMAGE_PIXELS = min(pdf.MAX_IMAGE_PIXELS, MAX_PIXELS)
    if settings.device == "cpu":  # a GPU's driver reserves far more than it uses
        limit_memory(settings.max_memory_mb)
    reader = Reader(settings)
    tell(ready=True, problem=reader.warm_up())
    for job in jobs(sys.stdin, Path(settings.root)):
        reader.read(job, tell)


if __name__ == "__main__":
    main()
