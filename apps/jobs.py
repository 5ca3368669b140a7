"""What is to be read and what came of it: tasks, outcomes, and the rules for readers that die.

Nothing here knows processes, clocks or disks, so that any engine can stand underneath: it asks a :class:`WorkList`
for the next task, and tells it the outcome, or that the reader was lost.  A reader that dies is no proof against a
document, so the document is read again, after all others; a page that took too long or too much memory, or that has
cost more readers than ``RETRIES``, is left out the next time, with its reason.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

RETRIES = 2
"""More readings of a document whose reader died."""
MAX_BAD_PAGES = 5
"""A document is given up when this many of its pages have cost a reader."""
AGAIN = frozenset({"missing", "not-fetched", "not-written", "disk-full", "no-model"})
"""Reasons outside the document: it is tried again in the next run without being asked."""
UNFINISHED = frozenset({"partial", "max-pages"})
"""Codes of pages that would come out just the same."""
_HINTS = {
    "missing": "check the path and its permissions",
    "not-fetched": "check the address and your rights",
    "unreadable-folder": "give yourself the right to read the folder",
    "link-loop": "name the folder that the link leads to",
    "empty": "fetch or export it again",
    "not-supported": "convert it to PDF, PNG, JPEG, WebP or TIFF",
    "corrupt": "repair it or fetch it again",
    "password-required": "give --password or DOCVISION_PASSWORD",
    "wrong-password": "give the right --password",
    "no-pages": "export it again",
    "page-out-of-range": "change --pages",
    "too-large": "scale it down first",
    "timeout": "give more seconds: docvision retry OUT --timeout SECONDS",
    "memory": "give more memory: docvision retry OUT --memory MB",
    "crash": "docvision retry OUT; if it fails again, please report it",
    "page-failed": "look at the page; docvision retry OUT reads it again",
    "no-model": "name a model that is there with --model, or use --layout rules",
    "not-written": "choose another place with -o",
    "disk-full": "free some space and run the same command again",
    "internal": "please report it; --debug shows where it came from",
    "max-pages": "give a higher --max-pages",
    "partial": "see the message",
}
_RETRYABLE = AGAIN | {"timeout", "memory", "crash", "page-failed", "internal", "unreadable-folder"}


@dataclass(frozen=True)
class Failure:
    """One line of failures.jsonl."""

    input: str
    """The path as it was given."""
    code: str
    message: str
    page: int | None
    """None: the whole document."""
    retryable: bool
    """The same document may come out better another time, or with other limits."""
    hint: str


def failure(path: str, code: str, message: str, page: int | None = None) -> Failure:
    """A failure with the hint that goes with its code."""
    return Failure(path, code, message, page, code in _RETRYABLE, _HINTS.get(code, "see the message"))


@dataclass(frozen=True)
class Loss:
    """A reader that is gone, and what it was at."""

    code: str
    """``crash``, ``timeout`` or ``memory``."""
    page: int | None
    """None: before the first page or after the last one."""
    message: str


@dataclass(frozen=True)
class Task:
    """One document to read."""

    path: str
    name: str
    """Of its outputs: a relative path without suffix."""
    skip: tuple[Loss, ...] = ()
    """Pages that are not to be read, with what they did."""
    split: int = 0
    """With more pages than this the answer may be how to read it in parts, see parts.py; 0: nobody has said."""
    part: str = ""
    """Pages of the one part that is to be read."""
    parts: tuple[str, ...] = ()
    """Files of the parts that make the document, all of them read."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Task:
        skip = tuple(Loss(**loss) for loss in data["skip"])
        return cls(**{**data, "skip": skip, "parts": tuple(data["parts"])})


@dataclass(frozen=True)
class Outcome:
    """What came of one document."""

    status: str
    """``ok``, ``partial`` or ``failed``; between an engine and its readers also what parts.py says."""
    pages: int = 0
    sha256: str = ""
    """Of the input's bytes; empty where nobody asked for it or it could not be read."""
    files: dict[str, int] = field(default_factory=dict)
    """Outputs, relative to the folder -> size in bytes."""
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know about it, most important first."""
    urgent: int = 0
    """So many of the notes are told even where little is to be said."""
    aside: tuple[str, ...] = ()
    """Outputs of an earlier run that are called ``.stale`` now."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """Inverse of :meth:`to_json`.

        Raises:
            TypeError: it is something else.
        """
        failures = tuple(Failure(**item) for item in data.pop("failures"))
        return cls(**{**data, "failures": failures, "notes": tuple(data["notes"]), "aside": tuple(data["aside"])})


def failed(task: Task, code: str, message: str, sha256: str = "", aside: Iterable[str] = ()) -> Outcome:
    """The outcome of a document of which nothing came."""
    return Outcome("failed", 0, sha256, failures=(failure(task.path, code, message),), aside=tuple(aside))


def given_up(task: Task, skip: tuple[Loss, ...]) -> Outcome:
    """The outcome of a document with too many bad pages."""
    told = "; ".join(f"page {bad.page}: {bad.message}" for bad in skip[:2])
    return failed(task, skip[-1].code, f"given up after {len(skip)} pages that cost a reader: {told}; ...")


class WorkList:
    """Tasks waiting, and what happened to those whose reader was lost."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting = deque(tasks)
        self._losses: Counter[tuple[str, int | None]] = Counter()
        self.retried = 0

    def __len__(self) -> int:
        """Tasks waiting, without those being read."""
        return len(self._waiting)

    def paths(self) -> list[str]:
        """Of the tasks waiting."""
        return [task.path for task in self._waiting]

    def next(self) -> Task | None:
        """The next task; None when no more are waiting just now."""
        return self._waiting.popleft() if self._waiting else None

    def back(self, task: Task) -> None:
        """A task is the next one again, as nobody has begun it; or it is a new one."""
        self._waiting.appendleft(task)

    def lost(self, task: Task, loss: Loss) -> Outcome | None:
        """The reader of a task is gone: the task waits for another one, or has failed, with the outcome.

        Args:
            task: as it came from :meth:`next`.
            loss: why, and at which page.
        """
        self._losses[task.name, loss.page] += 1
        if loss.code == "crash" and self._losses[task.name, loss.page] <= RETRIES:
            self._again(task)
            return None
        if loss.page is None:
            return failed(task, loss.code, loss.message)
        skip = (*task.skip, loss)
        if len(skip) >= MAX_BAD_PAGES:
            return given_up(task, skip)
        self._again(replace(task, skip=skip))
        return None

    def _again(self, task: Task) -> None:
        self.retried += 1
        self._waiting.append(task)


def count(number: int, noun: str) -> str:
    """``1 page``, ``2 pages``."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
