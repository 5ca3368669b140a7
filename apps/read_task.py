"""Read one document of a batch: pages chosen, parsed, written; whatever happens becomes an outcome.

This runs in the process that the command line was given to, or in one of its workers, or wherever else a task is
brought to: it needs the settings of the run and the task, and keeps nothing but the loaded model between tasks.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apps import places
from apps.jobs import Failure, Outcome, Task, count, failed, failure
from apps.outputs import Item, OutputError, Outputs, set_aside, write
from apps.staging import read_staged
from docvision.page import Document, Page
from docvision.parse import MODEL_GONE, DocumentParser, ParseOptions
from docvision.pdf import SourceError, open_source, parse_page_range
from docvision.scan import Reader
from docvision.steps import one_line

Tell = Callable[[str, int], None]
"""Called when something begins: ``("page", 3)``; ``("load", 0)`` and ``("loaded", 0)`` around the model;
``("open", 0)`` for all else."""


MAX_NAMED = 3
"""Pages that are named in one line."""


@dataclass(frozen=True)
class Settings:
    """What decides on the outputs of all documents of a run."""

    options: ParseOptions
    outputs: Outputs
    pages: str = ""
    max_pages: int | None = None
    debug: bool = False
    address: str = ""
    """Of the outputs where they lie elsewhere; their folder is then only for the time of one document."""

    def to_json(self) -> dict[str, Any]:
        outputs = {name: str(value) if isinstance(value, Path) else value for name, value in vars(self.outputs).items()}
        return {**vars(self), "options": asdict(self.options), "outputs": outputs}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Settings:
        places = {
            name: Path(data["outputs"][name])
            for name in ("folder", "file", "scratch")
            if data["outputs"].get(name) is not None
        }
        outputs = Outputs(**{**data["outputs"], **places, "formats": tuple(data["outputs"]["formats"])})
        return cls(**{**data, "options": ParseOptions(**data["options"]), "outputs": outputs})


class _Parser(DocumentParser):
    """A parser that may be given a model which other processes share, and tells when it loads its own."""

    shared: Reader | None = None
    tell: Tell | None = None

    def reader(self) -> Reader:
        if self._reader is None:
            self._reader = self.shared
        if self._reader is not None or self.tell is None:
            return super().reader()
        self.tell("load", 0)
        try:
            return super().reader()
        finally:
            self.tell("loaded", 0)


class TaskReader:
    """Reads tasks with one parser.

    Args:
        settings: of the run.
        shared: the model where it is loaded already; what is read with it is the same as without.
        hashes: give the digest of each input with its outcome.
        raises: let an error of the program through instead of reporting it.
    """

    def __init__(
        self, settings: Settings, shared: Reader | None = None, hashes: bool = True, raises: bool = False
    ) -> None:
        self.settings, self.hashes, self.raises = settings, hashes, raises
        self.parser = _Parser(settings.options)
        self.parser.shared = shared
        self.named = ""
        """What a document says where it is from, where that is not the path that is read."""

    def read(self, task: Task, tell: Tell | None = None) -> Outcome:
        """Read a task; only an interrupt, a closed pipe and, where asked for, an error of the program are raised."""
        if places.is_address(task.path) or self.settings.address:
            return read_staged(task, self, tell)
        return self.read_here(task, tell)

    def read_here(self, task: Task, tell: Tell | None = None) -> Outcome:
        """Read a task whose input has a path, into a folder that is here."""
        item, outputs = Item(Path(task.path), task.name), self.settings.outputs
        written: set[Path] = set()
        sha256 = ""
        try:
            sha256 = digest(item.path) if self.hashes else ""
            document, cut = self._parse(item, task, tell)
            if document.status != "failed":
                write(document, item, outputs, written)
        except (SourceError, OutputError) as error:
            # A file that is not there is perhaps a slip of the pen: no reason to touch another one's output.
            aside = [] if error.code == "missing" else set_aside(item, outputs, written)
            return failed(task, error.code, str(error), sha256, map(str, aside))
        except MemoryError:
            aside = set_aside(item, outputs, written)
            return failed(task, "memory", "not enough memory for this document", sha256, map(str, aside))
        except BrokenPipeError:
            raise
        except Exception as error:
            if self.raises:
                raise
            if self.settings.debug:
                traceback.print_exc(file=sys.stderr)
            reason = f"internal error: {type(error).__name__}: {one_line(error)} (--debug shows more)"
            return failed(task, "internal", reason, sha256, map(str, set_aside(item, outputs, written)))
        aside = set_aside(item, outputs, written)
        return self._outcome(document, task, cut, written, aside, sha256)

    def _parse(self, item: Item, task: Task, tell: Tell | None) -> tuple[Document, list[tuple[str, str]]]:
        """The document, and (code, message) of each thing that its selection of pages left out."""
        known = tell is None and not task.skip and self.settings.max_pages is None
        selection, numbers, cut = self.chosen(item, not known)
        lost = {loss.page for loss in task.skip}
        kept = [number for number in numbers if number not in lost]
        selection = ranges(kept) if numbers else selection
        self.parser.tell = tell
        if numbers and not selection:
            document = Document(task.path)
        else:
            document = self.document(item, task, selection, teller(kept, tell))
        document.source = self.named or document.source
        document.warnings += [message for _, message in cut]
        if task.skip:
            reasons = {loss.page: loss.message for loss in task.skip}
            read = {page.number: page for page in document.pages}
            document.pages = [
                read.get(number) or Page(number, 0.0, 0.0, status="failed", error=reasons[number]) for number in numbers
            ]
        return document, cut

    def chosen(self, item: Item, numbered: bool) -> tuple[str, list[int], list[tuple[str, str]]]:
        """The selection, its page numbers if they are wanted, and what it asks for and does not get."""
        settings, password = self.settings, self.settings.outputs.password
        selection, gone = existing_pages(item.path, settings.pages, password)
        cut = [("page-out-of-range", message) for message in gone]
        if not numbered:
            return selection, [], cut
        with open_source(item.path, password) as source:
            numbers = parse_page_range(selection, source.page_count)
        if settings.max_pages is not None and len(numbers) > settings.max_pages:
            cut.append(("max-pages", f"only {settings.max_pages} of {count(len(numbers), 'page')} were read"))
            numbers = numbers[: settings.max_pages]
        return selection, numbers, cut

    def document(self, item: Item, task: Task, pages: str, on_page: Callable[[Page], None] | None) -> Document:
        """The pages of a document, parsed."""
        return self.parser.parse(item.path, pages=pages, password=self.settings.outputs.password, on_page=on_page)

    def _outcome(
        self, document: Document, task: Task, cut: list[tuple[str, str]], written: set[Path], aside: list[Path],
        sha256: str,
    ) -> Outcome:  # fmt: skip
        lost = {loss.page: loss.code for loss in task.skip}
        failures = [failure(task.path, code, message) for code, message in cut]
        failures += [found for page in document.pages for found in _page_failures(page, task.path, lost)]
        urgent = [message for _, message in cut] + _grouped(document, failed=True)
        notes = [*urgent, *_grouped(document, failed=False)]
        notes += [warning for warning in document.warnings if warning not in notes]
        if not notes and not any(page.blocks for page in document.pages):
            notes = ["nothing to read: no text, table or figure was found"]
        folder = self.settings.outputs.folder
        files = {os.path.relpath(path, folder): path.stat().st_size for path in sorted(written)} if folder else {}
        status = "partial" if cut and document.status == "ok" else document.status
        told = [str(path) for path in aside]
        return Outcome(
            status, len(document.pages), sha256, files, tuple(failures), tuple(notes), len(urgent), tuple(told)
        )


def teller(numbers: list[int], tell: Tell | None) -> Callable[[Page], None] | None:
    """Tell of the first page now, and of each next one when the one before is read."""
    if tell is None or not numbers:
        return None
    following = iter([*numbers[1:], 0])

    def on_page(page: Page) -> None:
        number = next(following, 0)
        tell("page" if number else "open", number)

    tell("page", numbers[0])
    return on_page


def _page_failures(page: Page, path: str, lost: dict[int | None, str]) -> list[Failure]:
    if page.status == "ok":
        return []
    if page.status == "partial":
        return [failure(path, "partial", "; ".join(page.warnings) or "not all of it was read", page.number)]
    code = lost.get(page.number, "page-failed")
    for start, meaning in (("internal error", "internal"), ("not enough memory", "memory")):
        code = meaning if page.error.startswith(start) else code
    return [failure(path, "no-model" if MODEL_GONE in page.error else code, page.error, page.number)]


def _grouped(document: Document, failed: bool) -> list[str]:
    """Each reason once with the pages that it holds for: errors of failed pages, or warnings."""
    reasons: dict[str, list[int]] = {}
    for page in document.pages:
        for reason in ([page.error] if page.status == "failed" else []) if failed else page.warnings:
            reasons.setdefault(reason, []).append(page.number)
    return [f"{_page_names(numbers)}: {reason}" for reason, numbers in reasons.items()]


def _page_names(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"page {numbers[0]}"
    more = f" and {len(numbers) - MAX_NAMED} more" if len(numbers) > MAX_NAMED else ""
    return f"pages {', '.join(map(str, numbers[:MAX_NAMED]))}{more}"


def existing_pages(path: Path, pages: str, password: str) -> tuple[str, list[str]]:
    """The part of a page selection that the document has, and a warning if that is not all of it.

    A selection of which nothing is there comes back as it is, for the parser to refuse.

    Raises:
        SourceError: the document does not open.
    """
    if pages.strip().lower() in ("", "all"):
        return pages, []
    with open_source(path, password) as source:
        total = source.page_count
    kept, gone = [], []
    for part in pages.split(","):
        match = re.fullmatch(r"\s*(r?\d+)?\s*(-)?\s*(r?\d+)?\s*", part, flags=re.IGNORECASE)
        if match is None:
            return pages, []
        first = _number(match[1] or "1", total)
        last = _number(match[3] or "r1", total) if match[2] else first
        low, high = max(1, min(first, last)), min(total, max(first, last))
        open_ended = bool(match[2]) and not (match[1] and match[3])
        if low <= high and not (open_ended and first > last):  # 7- of five pages is none of them
            kept.append(f"{low}-{high}" if first <= last else f"{high}-{low}")
        if min(first, last) < 1 or max(first, last) > total:
            gone.append(part.strip())
    if not kept or not gone:
        return pages, []
    return ",".join(kept), [f"not all of {', '.join(gone)} is there: the document has {count(total, 'page')}"]


def _number(text: str, total: int) -> int:
    return total + 1 - int(text[1:]) if text[0] in "rR" else int(text)


def ranges(numbers: list[int]) -> str:
    """Page numbers as a selection: ``1-3,8``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" for first, last in parts)


def digest(path: Path) -> str:
    """SHA-256 of a file; empty where it cannot be read, which its reader will say better."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
