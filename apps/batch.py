"""Many inputs in, finished files out: what ``docvision parse`` does with files.

Every output is written under a temporary name and renamed, so a file that exists is whole.  Two inputs never share
an output name.  A document that fails costs one line and the run's exit code, never the next document.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from docvision import export
from docvision.page import Document, Page
from docvision.parse import DocumentParser
from docvision.pdf import SourceError
from docvision.steps import one_line

SUFFIXES = (".pdf", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")
"""What is taken from a folder; a file that is named itself may be called anything."""
MAX_WARNINGS = 3
OK, FAILED, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""


class OutputError(ValueError):
    """An output that cannot be written."""


@dataclass(frozen=True)
class Item:
    """One input and the name of its outputs, a relative path without suffix."""

    path: Path
    name: str


@dataclass(frozen=True)
class Outputs:
    """What to write and where."""

    formats: tuple[str, ...] = ("md",)
    folder: Path | None = None
    """None: standard output."""
    file: Path | None = None
    """The one output file, where it was named itself."""
    headers: bool = False
    tables: export.TableStyle = "auto"


@dataclass
class Tally:
    """Counts for the summary and the exit code."""

    total: int
    ok: int = 0
    partial: int = 0
    failed: int = 0
    pages: int = 0
    started: float = field(default_factory=time.perf_counter)

    @property
    def exit_code(self) -> int:
        if self.ok == self.total:
            return OK
        return FAILED if self.failed == self.total else PARTIAL

    def summary(self) -> str:
        seconds = time.perf_counter() - self.started
        noun = "document" if self.total == 1 else "documents"
        parts = [f"{self.ok} ok", f"{self.partial} partial", f"{self.failed} failed"]
        unread = self.total - self.ok - self.partial - self.failed
        if unread:
            parts.append(f"{unread} not reached")
        return f"{self.total} {noun}: {', '.join(parts)}; {self.pages} pages in {seconds:.1f} s"


def expand(inputs: Iterable[Path], skip: Path | None = None) -> list[Item]:
    """Files for the inputs, folders searched in sorted order, each file once, output names unique.

    Args:
        inputs: files and folders; a file that does not exist stays, to be reported when its turn comes.
        skip: the output folder, whose content is no input.

    Raises:
        ValueError: a folder without a document in it.
    """
    seen: set[str] = set()
    taken: set[str] = set()
    items = []
    inputs = list(inputs)
    found = [_folder(given, skip) if given.is_dir() else [(given, given.stem)] for given in inputs]
    if not any(found):
        raise ValueError(f"{inputs[0]} holds no document: name a folder with {', '.join(SUFFIXES)} files")
    for given, documents in zip(inputs, found, strict=True):
        # An empty folder beside other inputs is one failed item, as a missing file is.
        for path, name in documents or [(given, given.name)]:
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                items.append(Item(path, _unique(name, taken)))
    return items


def _folder(root: Path, skip: Path | None) -> list[tuple[Path, str]]:
    avoid = os.path.realpath(skip) if skip is not None else ""
    found = []
    for folder, below, files in os.walk(root):
        below[:] = sorted(
            name for name in below if name[:1] != "." and os.path.realpath(os.path.join(folder, name)) != avoid
        )
        for file in sorted(files):
            path = Path(folder, file)
            if path.suffix.lower() in SUFFIXES and file[:1] != ".":
                found.append((path, path.relative_to(root).with_suffix("").as_posix()))
    return found


def _unique(name: str, taken: set[str]) -> str:
    """``name``, or ``name-2``, ``name-3`` ... where taken; upper and lower case count as one, as on some disks."""
    name = name or "document"
    candidate, number = name, 1
    while candidate.casefold() in taken:
        number += 1
        candidate = f"{name}-{number}"
    taken.add(candidate.casefold())
    return candidate


def run(
    items: list[Item], parser: DocumentParser, outputs: Outputs, *, pages: str = "", password: str = "",
    quiet: bool = False, debug: bool = False,
) -> Tally:  # fmt: skip
    """Parse all items, one after another, and write their outputs.

    Args:
        items: from :func:`expand`.
        parser: shared by all of them.
        outputs: what to write.
        pages: selection applied to each document.
        password: tried on each encrypted document.
        quiet: only failures are reported.
        debug: an internal error is raised instead of being reported in one line.
    """
    log = _Log(sys.stderr, quiet, len(items))
    tally = Tally(len(items))
    try:
        for item in items:
            try:
                document = parser.parse(item.path, pages=pages, password=password, on_page=log.on_page(item))
                write(document, item, outputs)
            except (SourceError, OutputError) as error:
                log.failure(item, str(error))
                tally.failed += 1
                continue
            except BrokenPipeError:
                raise
            except Exception as error:
                if debug:
                    raise
                log.failure(item, f"internal error: {type(error).__name__}: {one_line(error)} (--debug shows more)")
                tally.failed += 1
                continue
            tally.pages += len(document.pages)
            setattr(tally, document.status, getattr(tally, document.status) + 1)
            log.done(item, document)
    finally:
        log.summary(tally)
    return tally


# Writing


def write(document: Document, item: Item, outputs: Outputs) -> None:
    """Write one document's files, or its text to standard output.

    Raises:
        OutputError: a file cannot be written.
    """
    for suffix, chunks in render(document, outputs):
        if outputs.file is not None:
            write_atomic(outputs.file, chunks)
        elif outputs.folder is not None:
            write_atomic(outputs.folder / (item.name + suffix), chunks)
        else:
            _print(chunks)


def _print(chunks: Iterable[str]) -> None:
    try:
        sys.stdout.writelines(chunks)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader has what it wants: no failure of this document
    except OSError as error:
        raise OutputError(f"standard output was not written ({error.strerror or one_line(error)})") from error


def render(document: Document, outputs: Outputs) -> Iterator[tuple[str, Iterable[str]]]:
    """(end of the file's name, content) of each output; one file a table for CSV, unless it goes to one place."""
    for kind in outputs.formats:
        if kind == "md":
            yield ".md", [export.to_markdown(document, outputs.headers, outputs.tables)]
        elif kind == "html":
            yield ".html", [export.to_html(document, outputs.headers)]
        elif kind == "txt":
            yield ".txt", [export.to_text(document, outputs.headers)]
        elif kind == "json":
            yield ".json", export.json_chunks(document)
        elif kind == "csv":
            tables = export.document_tables(document)
            if outputs.folder is None:
                yield ".csv", ["\n".join(export.table_to_csv(table) for _, _, table in tables)]
            else:
                for page, number, table in tables:
                    yield f".p{page}-t{number}.csv", [export.table_to_csv(table)]


def write_atomic(path: Path, chunks: Iterable[str]) -> None:
    """Write under a temporary name beside ``path``, then rename.

    Raises:
        OutputError: with the reason.
    """
    partial = path.with_name(f".{path.name[:80]}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.writelines(chunk.encode("utf-8", "replace") for chunk in chunks)
        os.replace(partial, path)
    except OSError as error:
        raise OutputError(_write_failure(path, error)) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _write_failure(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} was not written: the disk is full; free some space and run again"
    return f"{path} was not written ({error.strerror or one_line(error)}): choose another place with -o"


def check_folder(folder: Path) -> None:
    """Make the output folder and see that files can be made in it, before hours of work.

    Raises:
        OutputError: they cannot.
    """
    probe = folder / f".docvision.{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OutputError(_write_failure(folder, error)) from error


# Reporting


class _Log:
    """Lines on standard error: progress on a terminal, one line a document, one summary."""

    def __init__(self, stream: TextIO, quiet: bool, total: int) -> None:
        self.stream, self.quiet, self.total = stream, quiet, total
        self.live = not quiet and stream.isatty()
        self.number = 0

    def on_page(self, item: Item) -> Callable[[Page], None] | None:
        self.number += 1
        if not self.live:
            return None
        start = f"[{self.number}/{self.total}] {item.path.name[:50]}: page "

        def show(page: Page) -> None:
            print(f"\r\x1b[K{start}{page.number}", end="", file=self.stream, flush=True)

        return show

    def line(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self.live else text, file=self.stream, flush=True)

    def failure(self, item: Item, reason: str) -> None:
        """One line, without the path twice: most reasons begin with it."""
        self.line(f"failed: {reason}" if str(item.path) in reason else f"failed: {item.path}: {reason}")

    def done(self, item: Item, document: Document) -> None:
        reasons: dict[str, list[int]] = {}
        for page in document.pages:
            for reason in (*([page.error] if page.status == "failed" else ()), *(() if self.quiet else page.warnings)):
                reasons.setdefault(reason, []).append(page.number)
        notes = [f"{_page_names(numbers)}: {reason}" for reason, numbers in reasons.items()]
        notes += [] if self.quiet else document.warnings
        more = f" (and {len(notes) - MAX_WARNINGS} more)" if len(notes) > MAX_WARNINGS else ""
        if notes or not self.quiet:
            text = "; ".join(notes[:MAX_WARNINGS]) + more
            count = f"{len(document.pages)} page{'s' if len(document.pages) != 1 else ''}"
            self.line(f"{document.status}: {item.path}: {count}{': ' if notes else ''}{text}")

    def summary(self, tally: Tally) -> None:
        if not self.quiet:
            self.line(tally.summary())


def _page_names(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"page {numbers[0]}"
    shown = ", ".join(map(str, numbers[:MAX_WARNINGS]))
    return f"pages {shown}" + (f" and {len(numbers) - MAX_WARNINGS} more" if len(numbers) > MAX_WARNINGS else "")
