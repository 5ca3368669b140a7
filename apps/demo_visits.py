"""What the demo holds for each visitor while the visit lasts, and how it takes files in and gives them out.

A visit has one folder below the demo's own temporary folder; both are gone when the visit ends, at the latest when
the demo does.  Names of uploads are never trusted: :func:`safe_name` makes one that is a plain file name everywhere.
"""

from __future__ import annotations

import io
import re
import shutil
import threading
import time
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from apps.demo_reading import picture_path
from apps.outputs import Outputs, render
from docvision import export
from docvision.overlay_html import to_overlay_html
from docvision.page import Document, Page, Table
from docvision.table_join import whole_tables

MAX_NAME = 80
TASKS = ("read", "watch", "draw")
"""What a visitor may have going on, one of each at a time."""
RESERVED = {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))}
"""Names that mean devices on Windows, where people open archives too."""
IDLE_S = 3600
"""A visit that has asked for nothing so long is over."""
EDITED = "edited by hand: "


class VisitError(ValueError):
    """Something a visitor asked for that cannot be done, said in one line."""


@dataclass(frozen=True)
class Limits:
    """What one visitor may ask for at once."""

    max_pages: int = 50
    """Of one document."""
    max_mb: int = 50
    """Of one file."""
    max_files: int = 10
    max_seconds: float = 300
    """Of reading one document."""


@dataclass
class Opened:
    """A document that was read in this visit."""

    name: str
    """Safe, unique in the visit, without suffix."""
    folder: Path
    """Holds the upload and the pictures of its pages."""
    document: Document
    file: Path = Path()
    """The upload."""
    password: str = ""
    cut: str = ""
    """Why pages that were asked for are not in the document."""

    def outcome(self) -> dict[str, str]:
        """``status``, and unless that is ``ok`` why in ``error``: pages left out, else the first bad page's reason."""
        status = self.document.status
        if status == "ok":
            return {"status": "partial", "error": self.cut} if self.cut else {"status": "ok"}
        bad = [page for page in self.document.pages if page.status != "ok"]
        why = [self.cut] if self.cut else []
        for page in bad[:1]:
            reasons = "; ".join(filter(None, (page.error, *page.warnings))) or page.status
            why.append(f"page {page.number}: {reasons}")
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return {"status": status, "error": "; ".join(why) + more}

    def page(self, number: int) -> Page:
        """The page of that number, else the nearest one that was read."""
        return min(self.document.pages, key=lambda page: abs(page.number - number))

    def turned(self, number: int, step: int) -> int:
        """Number of the page ``step`` pages after one, or of the first or last."""
        numbers = [page.number for page in self.document.pages]
        at = numbers.index(self.page(number).number)
        return numbers[min(max(at + step, 0), len(numbers) - 1)]

    def picture(self, number: int, small: bool = False) -> bytes:
        path = picture_path(self.folder, number, small)
        return path.read_bytes() if path.is_file() else b""

    def tables(self) -> list[tuple[int, int, Table]]:
        return export.document_tables(self.document)


@dataclass
class Visit:
    """One visitor's documents."""

    folder: Path
    opened: list[Opened] = field(default_factory=list)
    given: set[Path] = field(default_factory=set)
    """Folders outside ``folder`` to be removed with it: what the web server keeps of uploads and downloads."""
    stops: dict[str, threading.Event] = field(default_factory=lambda: {task: threading.Event() for task in TASKS})
    """Set to end what is going on."""
    seen: float = field(default_factory=time.monotonic)
    readings: int = 0
    """Documents taken in so far: each has a folder of that number."""

    def chosen(self, index: int | None) -> Opened | None:
        """A document by its number from 0, if it is still there."""
        return self.opened[index] if index is not None and 0 <= index < len(self.opened) else None

    def clear(self) -> None:
        """Forget the documents, keep the visit."""
        for opened in self.opened:
            shutil.rmtree(opened.folder, ignore_errors=True)
        self.opened = []

    def take(self, upload: Path, limits: Limits) -> Path:
        """A copy of an uploaded file in a folder of its own, under a safe name.

        Raises:
            VisitError: it is too large or gone.
        """
        name = safe_name(upload.name)
        try:
            size = upload.stat().st_size
            if size > limits.max_mb * 1_000_000:
                raise VisitError(f"{name} has {size / 1e6:.1f} MB; this demo takes {limits.max_mb} MB a file")
            self.readings += 1
            folder = self.folder / str(self.readings)
            folder.mkdir(parents=True)
            shutil.copyfile(upload, folder / name)
        except OSError as error:
            raise VisitError(f"{name} is not there any more ({error.strerror}): upload it again") from error
        return folder / name

    def add(self, path: Path, document: Document, password: str = "", cut: str = "") -> Opened:
        """Keep what was read from a file that :meth:`take` gave."""
        taken = {opened.name.casefold() for opened in self.opened}
        name, number = path.stem, 1
        while name.casefold() in taken:
            number += 1
            name = f"{path.stem}-{number}"
        opened = Opened(name, path.parent, document, path, password, cut)
        self.opened.append(opened)
        return opened


class Visits:
    """All visits by their key; each is made when it first asks and removed when it ends."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._visits: dict[str, Visit] = {}
        self._lock = threading.Lock()
        self._made = 0

    def of(self, key: str) -> Visit:
        """The visit of this key; visits long idle end here."""
        now = time.monotonic()
        with self._lock:
            idle = [other for other, visit in self._visits.items() if other != key and now - visit.seen > IDLE_S]
            if key not in self._visits:
                self._made += 1
                self._visits[key] = Visit(self.root / f"visit-{self._made}")
            visit = self._visits[key]
            visit.seen = now
        for other in idle:
            self.end(other)
        return visit

    def end(self, key: str) -> None:
        """Stop what the visit is at and remove all it left on the disk."""
        with self._lock:
            visit = self._visits.pop(key, None)
            shared = {path for other in self._visits.values() for path in other.given}
        if visit is not None:
            for stop in visit.stops.values():
                stop.set()
            for folder in (visit.folder, *(visit.given - shared)):
                shutil.rmtree(folder, ignore_errors=True)

    def end_all(self) -> None:
        for key in list(self._visits):
            self.end(key)


def safe_name(name: str) -> str:
    """A plain file name: no folders, no control or direction signs, no device, no leading dot or dash, not too long."""
    name = unicodedata.normalize("NFC", re.split(r"[/\\]", name)[-1])
    name = "".join(sign for sign in name if unicodedata.category(sign)[0] != "C")
    name = re.sub(r'[<>:"|?*\s]+', " ", name).strip(" .-")
    stem, dot, suffix = name.rpartition(".")
    if not dot:
        stem, suffix = name, ""
    stem, suffix = stem.strip(" .-")[:MAX_NAME].rstrip(" .") or "document", suffix[:8]
    if stem.split(".")[0].strip().casefold() in RESERVED:
        stem = f"_{stem}"
    return f"{stem}.{suffix}" if suffix else stem


def archive(opened: Sequence[Opened]) -> bytes:
    """A zip file with each document as Markdown, HTML, JSON, its tables as CSV, and the page overlay."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for document in opened:
            for suffix, content in _files(document):
                file.writestr(document.name + suffix, content)
    return out.getvalue()


def _files(opened: Opened) -> Iterator[tuple[str, bytes]]:
    kinds = Outputs(("md", "html", "json", "csv"), folder=opened.folder)
    for suffix, parts in render(opened.document, kinds):
        yield suffix, b"".join(part.encode("utf-8", "replace") if isinstance(part, str) else part for part in parts)
    pictures = {page.number: opened.picture(page.number) for page in opened.document.pages}
    yield ".overlay.html", to_overlay_html(opened.document, pictures).encode("utf-8", "replace")


def table_rows(table: Table) -> list[list[str]]:
    """The texts of a table by row and column; a spanning cell's text stands at its first place."""
    rows = [[""] * table.columns for _ in range(table.rows)]
    for cell in table.cells:
        rows[cell.row][cell.column] = cell.text
    return rows


def edit_table(opened: Opened, number: int, rows: Sequence[Sequence[object]]) -> int:
    """Take over a visitor's corrections of table ``number`` (from 0), and note them in the document.

    A place that a spanning cell covers keeps no text of its own: what is written there is not taken.

    Returns:
        Cells that are now different.
    """
    page, on_page, _ = opened.tables()[number]
    changed, first = 0, 0
    for part in _parts(opened.document)[number]:
        for cell in part.cells:
            text = str(rows[first + cell.row][cell.column] or "") if first + cell.row < len(rows) else cell.text
            if text != cell.text:
                cell.text = text
                changed += 1
        first += part.rows
    note = f"{EDITED}table {on_page} of page {page}"
    if changed and note not in opened.document.warnings:
        opened.document.warnings.append(note)
    return changed


def _parts(document: Document) -> list[list[Table]]:
    """The tables as they stand on their pages, for each of :meth:`Opened.tables`: one that goes on has several."""
    whole = whole_tables(document)
    parts: list[list[Table]] = []
    for page in document.pages:
        starts = {index for index, _ in whole(page)}
        for index, block in enumerate(page.blocks):
            if block.kind != "table" or block.table is None:
                continue
            if index in starts:
                parts.append([])
            parts[-1].append(block.table)
    return parts
