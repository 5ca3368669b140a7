"""Many inputs in, finished files out: what ``docvision parse`` does with files.

Every output is written under a temporary name and renamed, so a file that exists is whole.  Two inputs never share
an output name.  A document that fails costs one line and the run's exit code, never the next document; an output
that an earlier run made of it gets the ending ``.stale``, so that nobody takes it for today's.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from apps.outputs import Item, OutputError, Outputs, set_aside, write
from docvision.page import Document, Page
from docvision.parse import DocumentParser
from docvision.pdf import SourceError, open_source
from docvision.steps import one_line

SUFFIXES = (".pdf", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")
"""What is taken from a folder; a file that is named itself may be called anything."""
MAX_WARNINGS = 3
OK, FAILED, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""


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
        parts = [f"{self.ok} ok", f"{self.partial} partial", f"{self.failed} failed"]
        unread = self.total - self.ok - self.partial - self.failed
        if unread:
            parts.append(f"{unread} not reached")
        return f"{_count(self.total, 'document')}: {', '.join(parts)}; {_count(self.pages, 'page')} in {seconds:.1f} s"


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
            written: set[Path] = set()
            try:
                selection, gone = existing_pages(item.path, pages, password)
                document = parser.parse(item.path, pages=selection, password=password, on_page=log.on_page(item))
                document.warnings += gone
                if document.status != "failed":
                    write(document, item, outputs, written)
            except (SourceError, OutputError) as error:
                # A file that is not there is perhaps a slip of the pen: no reason to touch another one's output.
                aside = [] if getattr(error, "code", "") == "missing" else set_aside(item, outputs, written)
                log.failure(item, str(error), aside)
                tally.failed += 1
                continue
            except BrokenPipeError:
                raise
            except Exception as error:
                if debug:
                    raise
                reason = f"internal error: {type(error).__name__}: {one_line(error)} (--debug shows more)"
                log.failure(item, reason, set_aside(item, outputs, written))
                tally.failed += 1
                continue
            status = "partial" if gone and document.status == "ok" else document.status
            tally.pages += len(document.pages)
            setattr(tally, status, getattr(tally, status) + 1)
            log.done(item, document, status, gone, set_aside(item, outputs, written))
    finally:
        log.summary(tally)
    return tally


def existing_pages(path: Path, pages: str, password: str) -> tuple[str, list[str]]:
    """The part of a page selection that the document has, and a warning if that is not all of it.

    A selection of which nothing is there comes back as it is, for the parser to refuse.

    Raises:
        SourceError: the document does not open.
    """
    if pages.strip().lower() in ("", "all"):
        return pages, []
    with open_source(path, password) as source:
        count = source.page_count
    kept, gone = [], []
    for part in pages.split(","):
        match = re.fullmatch(r"\s*(r?\d+)?\s*(-)?\s*(r?\d+)?\s*", part, flags=re.IGNORECASE)
        if match is None:
            return pages, []
        first = _number(match[1] or "1", count)
        last = _number(match[3] or "r1", count) if match[2] else first
        low, high = max(1, min(first, last)), min(count, max(first, last))
        open_ended = bool(match[2]) and not (match[1] and match[3])
        if low <= high and not (open_ended and first > last):  # 7- of five pages is none of them
            kept.append(f"{low}-{high}" if first <= last else f"{high}-{low}")
        if min(first, last) < 1 or max(first, last) > count:
            gone.append(part.strip())
    if not kept or not gone:
        return pages, []
    return ",".join(kept), [f"not all of {', '.join(gone)} is there: the document has {_count(count, 'page')}"]


def _number(text: str, count: int) -> int:
    return count + 1 - int(text[1:]) if text[0] in "rR" else int(text)


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
        start = f"[{self.number}/{self.total}] {_printable(item.path.name[:50])}: page "

        def show(page: Page) -> None:
            print(f"\r\x1b[K{start}{page.number}", end="", file=self.stream, flush=True)

        return show

    def line(self, text: str) -> None:
        text = _printable(text)
        print(f"\r\x1b[K{text}" if self.live else text, file=self.stream, flush=True)

    def failure(self, item: Item, reason: str, aside: list[Path]) -> None:
        """One line, without the path twice: most reasons begin with it."""
        text = f"failed: {reason}" if str(item.path) in reason else f"failed: {item.path}: {reason}"
        self.line("; ".join([text, *_asides(aside)]))

    def done(self, item: Item, document: Document, status: str, gone: list[str], aside: list[Path]) -> None:
        reasons: dict[str, list[int]] = {}
        for page in document.pages:
            for reason in (*([page.error] if page.status == "failed" else ()), *(() if self.quiet else page.warnings)):
                reasons.setdefault(reason, []).append(page.number)
        notes = [f"{_page_names(numbers)}: {reason}" for reason, numbers in reasons.items()]
        notes = [*gone, *notes, *([] if self.quiet else [note for note in document.warnings if note not in gone])]
        if not notes and not self.quiet and not any(page.blocks for page in document.pages):
            notes = ["nothing to read: no text, table or figure was found"]
        more = f" (and {len(notes) - MAX_WARNINGS} more)" if len(notes) > MAX_WARNINGS else ""
        if notes or aside or not self.quiet:
            text = "; ".join(["; ".join(notes[:MAX_WARNINGS]) + more] * bool(notes) + _asides(aside))
            self.line(f"{status}: {item.path}: {_count(len(document.pages), 'page')}{': ' if text else ''}{text}")

    def summary(self, tally: Tally) -> None:
        if not self.quiet:
            self.line(tally.summary())


def _printable(text: str) -> str:
    """On one line whatever it holds: a file's name may have line ends and escape codes in it."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _asides(paths: list[Path]) -> list[str]:
    return [f"the earlier {path.name} is now {path.name}.stale" for path in paths[:1]] + (
        [f"and {len(paths) - 1} more"] if len(paths) > 1 else []
    )


def _page_names(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"page {numbers[0]}"
    shown = ", ".join(map(str, numbers[:MAX_WARNINGS]))
    return f"pages {shown}" + (f" and {len(numbers) - MAX_WARNINGS} more" if len(numbers) > MAX_WARNINGS else "")
