"""What the inputs of a command line name: files, folders, patterns and lists become documents in a fixed order.

``-`` is a list on standard input, ``@list.txt`` a list in a file: one path a line, or ended by zero bytes as
``find -print0`` writes them.  A pattern in quotes (``'scans/**/*.pdf'``) is searched here.  Links to folders are
followed, each real folder once.  What cannot be looked into is a problem of its own and stops nothing.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from apps import places
from apps.jobs import Failure, failure

SUFFIXES = (".pdf", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")
"""What is taken from a folder; a file that is named itself may be called anything."""
_OWN_FIGURES = re.compile(r"p\d+-f\d+\.png")
"""Pictures that --images writes into folders that end in ``.images``."""


@dataclass
class Inputs:
    """What was found."""

    documents: list[tuple[Path | str, str]] = field(default_factory=list)
    """Path as given, or an address, and the natural name of its outputs, the place below the folder that was named."""
    problems: list[Failure] = field(default_factory=list)
    """Folders that could not be searched."""
    notes: list[str] = field(default_factory=list)


def find(words: Iterable[str], skip: Path | None = None) -> Inputs:
    """Documents for the inputs, folders and patterns searched in sorted order, each file once.

    Args:
        words: files, folders, patterns, addresses, ``-`` and ``@list``; a file that does not exist stays, to be
            reported when its turn comes.
        skip: the output folder, whose content is no input unless it is named itself.

    Raises:
        ValueError: a list that cannot be read, a pattern without a match, no document at all.
        PlaceError: an address that cannot be listed.
    """
    found = Inputs()
    seen: set[str] = set()
    given = list(_listed(words))
    for word in map(places.plain, given):
        problems = len(found.problems)
        documents: list[tuple[Path | str, str]] = []
        if places.is_address(word):
            documents += places.find(word, SUFFIXES)
        else:
            for path, root in _matches(word):
                documents += _folder(path, root, skip, found) if path.is_dir() else [(path, _natural(path, root))]
        for document, name in documents:
            real = places.real(document)
            if real not in seen:
                seen.add(real)
                found.documents.append((document, name))
        if not documents and len(found.problems) == problems:
            # An empty folder beside other inputs is one failed document, as a missing file is.
            found.problems.append(failure(word, "empty", f"{word} holds no document: name a folder with {_KINDS}"))
    if not given:
        raise ValueError("the list of inputs is empty: give a file or a folder")
    if not found.documents and {problem.code for problem in found.problems} == {"empty"}:
        raise ValueError(found.problems[0].message)
    return found


DOCUMENTS = (b"%PDF", b"\x89PNG", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"RIFF")
"""How documents that are no lists begin."""
_KINDS = f"{', '.join(SUFFIXES)} files"


def _listed(words: Iterable[str]) -> Iterator[str]:
    """The words, each list in place of its name."""
    for word in words:
        if word == "-":
            yield from _lines(sys.stdin.buffer.read())
        elif word.startswith("@"):
            try:
                data = Path(word[1:]).read_bytes()
            except OSError as error:
                raise ValueError(f"the list {word[1:]} cannot be read ({error.strerror}): check its path") from None
            yield from _lines(data)
        else:
            yield word


def _lines(data: bytes) -> list[str]:
    """Paths of a list without its comments (# and no file of that name); the bytes of a path need not be UTF-8.

    Raises:
        ValueError: it is a document itself.
    """
    if data.startswith(DOCUMENTS):
        raise ValueError("a document was given where a list of paths is read: save it and name the file")
    parts = data.split(b"\0") if b"\0" in data else [line.strip(b"\r\t ") for line in data.split(b"\n")]
    names = [os.fsdecode(part) for part in parts if part]
    return [name for name in names if not name.startswith("#") or os.path.lexists(name)]


def _matches(word: str) -> Iterator[tuple[Path, Path | None]]:
    """(path, folder below which outputs mirror it): the word itself, or what its pattern matches."""
    if not glob.has_magic(word) or os.path.lexists(word):
        yield Path(word), None
        return
    fixed = []
    for part in Path(word).parts:
        if glob.has_magic(part):
            break
        fixed.append(part)
    root = Path(*fixed)
    matches = sorted(glob.glob(word, recursive=True))
    # A pattern that ends in ** matches folders too, whose files it matches as well.
    files = [Path(match) for match in matches if not os.path.isdir(match)]
    wanted = [path for path in files if path.suffix.lower() in SUFFIXES] or files or [Path(match) for match in matches]
    if not wanted:
        raise ValueError(f"nothing matches {word!r}: check the pattern")
    yield from ((path, root) for path in wanted)


def _natural(path: Path, root: Path | None) -> str:
    if root is None:
        return path.stem
    return path.relative_to(root).with_suffix("").as_posix()


def _folder(top: Path, root: Path | None, skip: Path | None, found: Inputs) -> list[tuple[Path | str, str]]:
    """Documents below a folder; links to folders are followed, each real folder once."""
    avoid = os.path.realpath(skip) if skip is not None else ""
    entered = {os.path.realpath(top)}
    documents: list[tuple[Path | str, str]] = []

    def cannot(error: OSError) -> None:
        place = str(error.filename)
        found.problems.append(failure(place, "unreadable-folder", f"{place} cannot be searched ({error.strerror})"))

    for folder, below, files in os.walk(top, onerror=cannot, followlinks=True):
        for name in sorted(below):
            place = os.path.join(folder, name)
            real = os.path.realpath(place)
            # What a link inside the tree leads to is found, and named, in its own place.
            if name.startswith(".") or real == avoid or real in entered or (os.path.islink(place) and _in(real, top)):
                below.remove(name)
                _note(found, place, real, avoid)
            else:
                entered.add(real)
        below.sort()
        own = folder.endswith(".images") and bool(avoid) and _in(folder, avoid)
        for file in sorted(files):
            path = Path(folder, file)
            if path.suffix.lower() in SUFFIXES and file[:1] != "." and not (own and _OWN_FIGURES.fullmatch(file)):
                documents.append((path, path.relative_to(root or top).with_suffix("").as_posix()))
    return documents


def _in(place: str, folder: str | Path) -> bool:
    return f"{os.path.realpath(place)}{os.sep}".startswith(f"{os.path.realpath(folder)}{os.sep}")


def _note(found: Inputs, place: str, real: str, avoid: str) -> None:
    """Say what is left out on purpose where a person might wonder."""
    if real == avoid:
        found.notes.append(f"{place} is the output folder: what lies in it is no input")
    elif os.path.islink(place) and _in(os.path.dirname(place), real):
        found.notes.append(f"{place} is a link to a folder above it: not followed")
