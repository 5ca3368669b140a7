"""What an output folder knows of the documents that were read into it: names, outcomes, failures, and a lock.

``OUT/.docvision/journal.jsonl`` grows by one line when a document is finished, after its files are in their places;
so a document is in it with all its files, or it is read again, under the same name.  A line that was cut off by a
kill counts as not written.  A document is finished for these settings when the bytes of the input are the same
(SHA-256), the settings and the model's weights are the same, and its files are there with their sizes.
``OUT/failures.jsonl`` says what failed, one line a document or page, and is made anew at the end of each run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from apps import places
from apps.jobs import AGAIN, UNFINISHED, Failure, Outcome
from apps.outputs import Item, OutputError, write_atomic
from apps.read_task import digest

PLACE = ".docvision"
JOURNAL = "journal.jsonl"
FAILURES = "failures.jsonl"
MAX_NAME_BYTES = 200
_PATIENCE_S = 0.5
"""A run that was just killed may hold its lock a moment longer."""


class FolderBusy(ValueError):
    """Another run writes into this folder."""


@dataclass(frozen=True)
class Entry:
    """One document as the journal holds it."""

    name: str
    path: str
    """Where the input really is."""
    given: str
    """Its path as the command line had it."""
    key: str
    """Of the settings."""
    outcome: Outcome

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Entry:
        return cls(**{**data, "outcome": Outcome.from_json(data["outcome"])})


class Manifest:
    """The journal of one output folder, held by this run alone; use it in a ``with`` statement.

    Args:
        folder: of the outputs; it is there.
        settings: everything that decides on the outputs, as JSON.
        resume: believe what earlier runs have written.

    Raises:
        FolderBusy: another run holds the folder.
        OutputError: its journal cannot be written.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], resume: bool = True) -> None:
        self.folder, self.settings, self.resume = folder, dict(settings), resume
        self.key = settings_key(settings)
        self.place = folder / PLACE
        self.scratch = self.place / "partial"
        self.known_settings: dict[str, dict[str, Any]] = {}
        self._entries: dict[tuple[str, str], Entry] = {}
        """(name, key of the settings) -> the newest entry."""
        self._current: dict[str, Entry] = {}
        """Name -> what stands of this run, or stands still from an earlier one."""
        self._lock = self._take()
        self._journal: BinaryIO | None = None
        try:
            shutil.rmtree(self.scratch, ignore_errors=True)
            self._load()
            self._write_journal()
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> str:
        """The folder as its user knows it."""
        return str(self.folder)

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        if self._journal is not None:
            with contextlib.suppress(OSError):
                self._journal.close()
        os.close(self._lock)

    # Names

    def names(self, documents: Iterable[tuple[Path | str, str]], formats: tuple[str, ...]) -> list[Item]:
        """Documents with the names of their outputs: each name once, and the one that an input had before.

        Args:
            documents: path and natural name.
            formats: of the outputs, some of which could collide under different names.
        """
        owners = {
            entry.name.casefold(): entry
            for entry in self._entries.values()
            if entry.outcome.files or places.there(entry.path, links=True)
        }
        by_path: dict[str, list[str]] = {}
        for entry in owners.values():
            by_path.setdefault(entry.path, []).append(entry.name)
        given = [(path, fitting(natural or "document")) for path, natural in documents]
        real = [places.real(path) for path, _ in given]
        taken: set[str] = {"failures"} if "jsonl" in formats else set()
        kept: dict[int, str] = {}
        for number, (_, natural) in enumerate(given):
            for name in by_path.get(real[number], ()):
                if number not in kept and _stems_from(name, natural) and not claims(name, formats) & taken:
                    kept[number] = name
                    taken |= claims(name, formats)
        items = []
        counters: dict[str, int] = {}
        for number, (path, natural) in enumerate(given):
            name = kept.get(number) or self._free(natural, path, taken, owners, counters, formats)
            taken |= claims(name, formats)
            items.append(Item(path, name))  # type: ignore[arg-type]  # an address is never opened by it
        return items

    def _free(
        self, natural: str, path: Path | str, taken: set[str], owners: dict[str, Entry], counters: dict[str, int],
        formats: tuple[str, ...],
    ) -> str:  # fmt: skip
        """The natural name, or with -2, -3 ..., that no other document has or had; a moved one keeps its own."""
        number = counters.get(natural.casefold(), 1)
        while True:
            name = natural if number == 1 else f"{natural}-{number}"
            owner = owners.get(name.casefold())
            free = not claims(name, formats) & taken
            if free and (owner is None or (not places.there(owner.path) and _same(path, owner))):
                counters[natural.casefold()] = number
                return name
            number += 1

    # What stands

    def finished(self, item: Item, retry_failed: bool = False, password: bool = False) -> Outcome | None:
        """The outcome that stands from an earlier run; None where the document is to be read.

        Args:
            item: the document.
            retry_failed: failures do not stand.
            password: there is one now, so a failure for want of it does not stand.
        """
        entry = self._entries.get((item.name, self.key)) if self.resume else None
        if entry is None or not self._stands(entry, retry_failed, password) or not _same(item.path, entry):
            return None
        self._current[item.name] = entry
        return entry.outcome

    def _stands(self, entry: Entry, retry_failed: bool, password: bool) -> bool:
        codes = {found.code for found in entry.outcome.failures}
        if codes & AGAIN or (password and codes & {"password-required", "wrong-password"}):
            return False
        if retry_failed and codes - UNFINISHED:
            return False
        for name, size in entry.outcome.files.items():
            try:
                if self.size(name) != size:
                    return False
            except OSError:
                return False
        return True

    def size(self, name: str) -> int:
        """Of an output; raises an OSError where it is not there."""
        return (self.folder / name).stat().st_size

    def record(self, item: Item, outcome: Outcome) -> None:
        """A document is finished: its files are in their places, or it has failed.

        Raises:
            OutputError: the journal cannot be written.
        """
        kept = replace(outcome, notes=(), urgent=0, aside=())
        entry = Entry(item.name, places.real(item.path), str(item.path), self.key, kept)
        self._append(entry.to_json())
        self._keep(entry)
        self._current[item.name] = entry
        lines = [_line(asdict(found)) for found in outcome.failures]
        if lines:
            try:
                with (self.folder / FAILURES).open("ab") as file:
                    file.write(b"".join(lines))
            except OSError as error:
                raise _cannot(self.folder / FAILURES, error) from error

    def failures(self, without: Collection[str] = frozenset()) -> list[Failure]:
        """What failed and stands, in order of names; of other runs' documents what is still there to be read."""
        newest = {entry.name: entry for entry in self._newest() if places.there(entry.path, links=True)} | self._current
        return [found for name in sorted(newest.keys() - set(without)) for found in newest[name].outcome.failures]

    def failed_inputs(self) -> dict[str, list[Entry]]:
        """Key of settings -> documents with failures that another try could change."""
        found: dict[str, list[Entry]] = {}
        for entry in sorted(self._newest(), key=lambda entry: entry.name):
            if {failure.code for failure in entry.outcome.failures} - UNFINISHED:
                found.setdefault(entry.key, []).append(entry)
        return found

    def _newest(self) -> list[Entry]:
        """The last entry of each document; entries are kept in the order of time."""
        return list({entry.name: entry for entry in self._entries.values()}.values())

    def write_failures(self, problems: Iterable[Failure] = (), without: Collection[str] = frozenset()) -> int:
        """Make failures.jsonl anew, or remove it where nothing failed.

        Args:
            problems: of this run, that are no documents.
            without: names of documents that are still to be read.

        Returns:
            The number of its lines.
        """
        lines = [_line(asdict(found)) for found in (*problems, *self.failures(without))]
        if lines:
            write_atomic(self.folder / FAILURES, lines, self._scratch())
        else:
            (self.folder / FAILURES).unlink(missing_ok=True)
        return len(lines)

    # The disk

    def _take(self) -> int:
        try:
            self.place.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.place / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _cannot(self.place, error) from error
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(lock, 0)
                os.pwrite(lock, str(os.getpid()).encode(), 0)
                return lock
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = os.pread(lock, 20, 0).decode("ascii", "replace")
                    os.close(lock)
                    raise FolderBusy(
                        f"another run (process {holder}) writes into {self.folder}: wait for its end, "
                        "or name another folder with -o"
                    ) from None
                time.sleep(0.05)
            except OSError as error:
                if error.errno in (errno.ENOLCK, errno.ENOTSUP):  # a network disk without locks: go on without
                    return lock
                os.close(lock)
                raise _cannot(self.place, error) from error

    def _load(self) -> None:
        try:
            data = (self.place / JOURNAL).read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise _cannot(self.place / JOURNAL, error) from error
        for line in data.split(b"\n"):
            # A line that was cut off, or is from another version: its document is read again.
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                found = json.loads(line)
                if "settings" in found:
                    self.known_settings[found["key"]] = found["settings"]
                else:
                    self._keep(Entry.from_json(found))

    def _keep(self, entry: Entry) -> None:
        """Put an entry in the place of what it makes void: the same document, and files that it has overwritten."""
        for key in self.known_settings.keys() | {self.key}:
            old = self._entries.get((entry.name, key))
            if old is not None and (key == entry.key or old.outcome.files.keys() & entry.outcome.files.keys()):
                del self._entries[entry.name, key]
        self._entries[entry.name, entry.key] = entry

    def _write_journal(self) -> None:
        """Write the journal without what is void, and open it to go on."""
        self.known_settings[self.key] = self.settings
        used = {key for _, key in self._entries} | {self.key}
        self.known_settings = {key: value for key, value in self.known_settings.items() if key in used}
        lines = [_line({"key": key, "settings": value}) for key, value in self.known_settings.items()]
        lines += [_line(entry.to_json()) for entry in self._entries.values()]
        write_atomic(self.place / JOURNAL, lines, self._scratch())
        self._journal = (self.place / JOURNAL).open("ab", buffering=0)

    def _append(self, data: dict[str, Any]) -> None:
        assert self._journal is not None
        line = _line(data)
        try:
            if self._journal.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise _cannot(self.place / JOURNAL, error) from error

    def _scratch(self) -> Path:
        self.scratch.mkdir(parents=True, exist_ok=True)
        return self.scratch


def fitting(natural: str) -> str:
    """A name whose last part leaves room for endings: disks take 255 bytes."""
    folder, slash, last = natural.rpartition("/")
    encoded = os.fsencode(last)
    if len(encoded) <= MAX_NAME_BYTES:
        return natural
    return folder + slash + encoded[:MAX_NAME_BYTES].decode("utf-8", "ignore")


def claims(name: str, formats: tuple[str, ...]) -> set[str]:
    """Names that a document takes from all others; upper and lower case count as one, as on some disks."""
    name = name.casefold()
    return {name, f"{name}.overlay"} if {"overlay", "html"} <= set(formats) else {name}


def _stems_from(name: str, natural: str) -> bool:
    """Whether ``name`` is ``natural``, or it with a number."""
    rest = name.removeprefix(natural)
    return name.startswith(natural) and (not rest or (rest[0] == "-" and rest[1:].isdigit()))


def _same(path: Path | str, entry: Entry) -> bool:
    known = places.fingerprint(path) if isinstance(path, str) else digest(path)
    return bool(known) and known == entry.outcome.sha256


def settings_key(settings: Mapping[str, Any]) -> str:
    """One short text for equal settings; where the model runs does not count."""
    options = {name: value for name, value in settings.get("options", {}).items() if name != "device"}
    settings = {**settings, "options": options}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def read_settings(folder: Path) -> Iterator[tuple[dict[str, Any], list[Entry]]]:
    """Settings of earlier runs into a folder, each with the documents that failed under them.

    Raises:
        OutputError: nothing was ever read into this folder.
    """
    if not (folder / PLACE / JOURNAL).is_file():
        raise OutputError(f"{folder} holds no journal of an earlier run: name a folder that parse -o has written")
    with Manifest(folder, {}) as manifest:
        known = manifest.known_settings
        found = manifest.failed_inputs()
    yield from ((known[key], entries) for key, entries in found.items() if key in known)


def _line(data: Mapping[str, Any]) -> bytes:
    """JSON on one line; bytes of a path that are no UTF-8 come out as JSON's own escapes."""
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _cannot(path: Path, error: OSError) -> OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OutputError(f"{path} was not written: the disk is full; free some space and run again", "disk-full")
    return OutputError(f"{path} cannot be used ({error.strerror}): choose another place with -o")
