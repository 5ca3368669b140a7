"""The files of one parsed document: written whole, never two under one name, old ones set aside."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import quote

from docvision import export
from docvision.crops import figure_crops, page_pictures
from docvision.overlay_html import to_overlay_html
from docvision.page import Document
from docvision.passages import to_jsonl
from docvision.steps import one_line


class OutputError(ValueError):
    """An output that cannot be written; ``code`` is ``not-written`` or ``disk-full``."""

    def __init__(self, message: str, code: str = "not-written") -> None:
        super().__init__(message)
        self.code = code


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
    anchors: bool = False
    """Begin each page of the Markdown with an anchor."""
    images: bool = False
    """Cut the figures out of the pages and show them in Markdown and HTML; needs a folder."""
    password: str = ""
    """Opens the input again, for figures and page pictures."""
    scratch: Path | None = None
    """Where files lie until they are whole, on the disk of ``folder``; None: beside their place."""


def write(document: Document, item: Item, outputs: Outputs, written: set[Path] | None = None) -> None:
    """Write one document's files, or its text to standard output; the files' paths are added to ``written``.

    Raises:
        OutputError: a file cannot be written.
    """
    for suffix, chunks in render(document, outputs, item):
        path = outputs.file or (outputs.folder / (item.name + suffix) if outputs.folder is not None else None)
        if path is None:
            _print(chunks)
        else:
            if path.exists() and item.path.exists() and path.samefile(item.path):
                raise OutputError(f"{path} is the input itself: choose another place with -o")
            write_atomic(path, chunks, outputs.scratch)
            if written is not None:
                written.add(path)


def set_aside(item: Item, outputs: Outputs, written: set[Path]) -> list[Path]:
    """Give the ending ``.stale`` to outputs of an earlier run of this input that this run has not replaced."""
    found = [outputs.file] if outputs.file is not None else []
    if outputs.folder is not None:
        base = outputs.folder / item.name
        kinds = ["overlay.html" if kind == "overlay" else kind for kind in outputs.formats if kind != "csv"]
        found += [base.with_name(f"{base.name}.{kind}") for kind in kinds]
        if "csv" in outputs.formats and base.parent.is_dir():
            pattern = re.compile(re.escape(base.name) + r"\.p\d+-t\d+\.csv")
            found += sorted(path for path in base.parent.iterdir() if pattern.fullmatch(path.name))
    aside = []
    for path in found:
        with contextlib.suppress(OSError):
            if path not in written and path.is_file() and not (item.path.exists() and path.samefile(item.path)):
                os.replace(path, path.with_name(f"{path.name}.stale"))
                aside.append(path)
    return aside


def _print(chunks: Iterable[str | bytes]) -> None:
    try:
        sys.stdout.writelines(str(chunk) for chunk in chunks)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader has what it wants: no failure of this document
    except OSError as error:
        raise OutputError(f"standard output was not written ({error.strerror or one_line(error)})") from error


def render(
    document: Document, outputs: Outputs, item: Item | None = None
) -> Iterator[tuple[str, Iterable[str | bytes]]]:
    """(end of the file's name, content) of each output; one file a table for CSV, unless it goes to one place.

    Args:
        document: what to write.
        outputs: how.
        item: the input, which figures and the page overlay need again.
    """
    images: dict[tuple[int, int], str] = {}
    if outputs.images and item is not None:
        folder = quote(PurePath(item.name).name)
        for key, name, picture in figure_crops(document, item.path, outputs.password):
            images[key] = f"{folder}.images/{name}"
            yield f".images/{name}", [picture]
    for kind in outputs.formats:
        if kind == "md":
            yield ".md", [export.to_markdown(document, outputs.headers, outputs.tables, images, outputs.anchors)]
        elif kind == "html":
            yield ".html", [export.to_html(document, outputs.headers, images)]
        elif kind == "jsonl":
            yield ".jsonl", to_jsonl(document)
        elif kind == "overlay" and item is not None:
            pictures = page_pictures(document, item.path, outputs.password)
            yield ".overlay.html", [to_overlay_html(document, pictures)]
        elif kind == "txt":
            yield ".txt", [export.to_text(document, outputs.headers)]
        elif kind == "json":
            yield ".json", export.json_chunks(document)
        elif kind == "xlsx":
            from docvision.sheets import to_xlsx

            yield ".xlsx", [to_xlsx(document)]
        elif kind == "csv":
            tables = export.document_tables(document)
            if outputs.folder is None:
                yield ".csv", ["\n".join(export.table_to_csv(table) for _, _, table in tables)]
            else:
                for page, number, table in tables:
                    yield f".p{page}-t{number}.csv", [export.table_to_csv(table)]


def write_atomic(path: Path, chunks: Iterable[str | bytes], scratch: Path | None = None) -> None:
    """Write under a temporary name, then rename; what a link points to is written, the link stays.

    Args:
        path: the file.
        chunks: its content.
        scratch: folder of the temporary file, on the same disk; beside ``path`` where there is none.

    Raises:
        OutputError: with the reason.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    partial = path.with_name(f".{path.name[:40]}.{os.getpid()}.tmp") if scratch is None else unfinished(scratch)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.writelines(chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk for chunk in chunks)
        os.replace(partial, path)
    except OSError as error:
        if error.errno == errno.EXDEV and scratch is not None:  # a folder below the output folder on another disk
            with partial.open("rb") as file:
                return write_atomic(path, file)
        raise _write_failure(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def unfinished(scratch: Path, pid: int | None = None) -> Path:
    """The file that a process, this one unless told, is writing in the scratch folder; it writes one at a time."""
    return scratch / f"{pid or os.getpid()}.tmp"


def _write_failure(path: Path, error: OSError) -> OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = f"{path} was not written: the disk is full; free some space and run again"
        return OutputError(reason, "disk-full")
    return OutputError(f"{path} was not written ({error.strerror or one_line(error)}): choose another place with -o")


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
        raise _write_failure(folder, error) from error
