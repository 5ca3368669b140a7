"""What a person sees of a batch: a line that moves on a terminal, plain lines in a log, or JSON for programs.

Everything goes to standard error.  A document gets a line of its own; on a terminal with many documents only one
that a person should look at.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any, TextIO

from apps.jobs import Failure, Outcome, Task, count

OK, FAILED, PARTIAL = 0, 1, 3
MAX_NOTES = 3
MANY = 20
"""With more documents a terminal shows only those that something is to be said of."""
_BETWEEN_DRAWS_S = 0.2
_BETWEEN_LINES_S = 30.0
_BAR = 20


@dataclass
class Tally:
    """Counts for the progress, the summary and the exit code."""

    total: int
    ok: int = 0
    partial: int = 0
    failed: int = 0
    pages: int = 0
    pending: int = 0
    """Pages read of documents that are not finished."""
    before: int = 0
    """Of these, finished by an earlier run."""
    codes: Counter[str] = field(default_factory=Counter)
    started: float = field(default_factory=time.perf_counter)

    @property
    def done(self) -> int:
        return self.ok + self.partial + self.failed

    @property
    def exit_code(self) -> int:
        if self.ok == self.total:
            return OK
        return PARTIAL if self.ok or self.partial else FAILED

    def add(self, outcome: Outcome, before: bool = False) -> None:
        setattr(self, outcome.status, getattr(self, outcome.status) + 1)
        if before:
            self.before += 1
        else:
            self.pages += outcome.pages
            self.pending = max(0, self.pending - outcome.pages)
        self.codes.update({found.code: 1 for found in outcome.failures})

    def summary(self) -> str:
        """``7 documents: 5 ok, 0 partial, 2 failed; 31 pages in 4.0 s; 2 corrupt``."""
        parts = [f"{self.ok} ok", f"{self.partial} partial", f"{self.failed} failed"]
        if self.total > self.done:
            parts.append(f"{self.total - self.done} not reached")
        text = f"{count(self.total, 'document')}: {', '.join(parts)}"
        if self.before:
            text += f" ({self.before:,} finished before)"
        text += f"; {count(self.pages, 'page')} in {self.seconds:.1f} s"
        if self.codes:
            text += f"; {', '.join(f'{number} {code}' for code, number in self.codes.most_common())}"
        return text

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def progress(self) -> str:
        """``120 of 300 documents, 3.2 pages/s, 4 failed, 0:41 left``."""
        text = f"{self.done:,} of {count(self.total, 'document')}"
        seconds, read = self.seconds, self.done - self.before
        if self.pages + self.pending and seconds > 0:
            text += f", {(self.pages + self.pending) / seconds:.3g} pages/s"
        if self.failed:
            text += f", {self.failed:,} failed"
        if read and self.done < self.total:
            text += f", {span(seconds / read * (self.total - self.done))} left"
        return text


class Log:
    """Lines for people.

    Args:
        stream: usually standard error.
        quiet: only failures.
        tally: counted elsewhere, shown here.
        clock: seconds, for tests.
    """

    def __init__(
        self, stream: TextIO, quiet: bool, tally: Tally, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.stream, self.quiet, self.tally = stream, quiet, tally
        self.live = not quiet and stream.isatty()
        self._now = clock
        self._shown = clock()

    def begin(self, notes: list[str], problems: list[Failure]) -> None:
        """What was found before anything is read."""
        for note in [] if self.quiet else notes:
            self.line(f"note: {note}")
        for problem in problems:
            self.line(f"failed: {problem.message}")
        if self.tally.before and not self.quiet:
            text = f"{self.tally.before:,} of {count(self.tally.total, 'document')} finished before"
            failed = self.tally.done - self.tally.ok - len(problems)
            self.line(
                text + (f", {failed:,} of them not well: --retry-failed reads what failed again" if failed else "")
            )

    def done(self, task: Task, outcome: Outcome) -> None:
        """One document is finished."""
        text = self.describe(task, outcome)
        if text and not (self.live and self.tally.total > MANY and text.startswith("ok") and not outcome.notes):
            self.line(text)

    def describe(self, task: Task, outcome: Outcome) -> str:
        """The document's line; empty where nothing is to be said."""
        asides = [f"the earlier {PurePath(path).name} is now {PurePath(path).name}.stale" for path in outcome.aside[:1]]
        asides += [f"and {len(outcome.aside) - 1} more"] if len(outcome.aside) > 1 else []
        if outcome.status == "failed" and not outcome.pages:
            # The path is not told twice: most reasons begin with it.
            reason = outcome.failures[0].message
            text = f"failed: {reason}" if task.path in reason else f"failed: {task.path}: {reason}"
            return "; ".join([text, *asides])
        notes = outcome.notes[: outcome.urgent] if self.quiet else outcome.notes
        if self.quiet and not notes and not asides:
            return ""
        more = f" (and {len(notes) - MAX_NOTES} more)" if len(notes) > MAX_NOTES else ""
        told = "; ".join(["; ".join(notes[:MAX_NOTES]) + more] * bool(notes) + asides)
        return f"{outcome.status}: {task.path}: {count(outcome.pages, 'page')}{': ' if told else ''}{told}"

    def look(self, doing: str = "") -> None:
        """Show how far it is, unless something was shown a moment ago."""
        now = self._now()
        if self.quiet or now - self._shown < (_BETWEEN_DRAWS_S if self.live else _BETWEEN_LINES_S):
            return
        self._shown = now
        if not self.live:
            self.line(self.tally.progress())
        elif self.tally.total == 1:
            self._draw(doing)
        else:
            full = _BAR * self.tally.done // max(1, self.tally.total)
            self._draw(f"[{'#' * full}{'.' * (_BAR - full)}] {self.tally.progress()}")

    def begun(self, task: Task, what: str, page: int) -> None:
        """A page of a document is begun, or the model is loaded for it."""
        if what in ("page", "load"):
            doing = f"page {page}" if what == "page" else "loading the model"
            self.look(f"{PurePath(task.path).name}: {doing}")

    def stopped(self, reason: str) -> None:
        """The run ends before its time."""
        self.line(reason)

    def summary(self, place: str = "") -> None:
        """The last line."""
        if not self.quiet:
            self.line(self.tally.summary() + (f" in {place}" if place and self.tally.codes else ""))

    def line(self, text: str) -> None:
        text = printable(text)
        self._write(f"\r\x1b[K{text}\n" if self.live else f"{text}\n")

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be drawn over
        self._write(f"\r\x1b[K{printable(text)[:width]}")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a log that is gone costs the messages, not the batch
            self.stream.write(text)
            self.stream.flush()


class JsonLog(Log):
    """The same as one JSON object a line."""

    def begin(self, notes: list[str], problems: list[Failure]) -> None:
        self._event("start", documents=self.tally.total, before=self.tally.before, notes=notes)
        for problem in problems:
            self._event("failure", **asdict(problem))

    def done(self, task: Task, outcome: Outcome) -> None:
        if outcome.status != "ok" or not self.quiet:
            told = {"input": task.path, "name": task.name, "status": outcome.status, "pages": outcome.pages}
            failures = [asdict(found) for found in outcome.failures]
            self._event("document", **told, files=list(outcome.files), notes=list(outcome.notes), failures=failures)

    def look(self, doing: str = "") -> None:
        now = self._now()
        if self.quiet or now - self._shown < _BETWEEN_LINES_S:
            return
        self._shown = now
        self._event("progress", **self._counts())

    def stopped(self, reason: str) -> None:
        self._event("stopped", reason=reason)

    def summary(self, place: str = "") -> None:
        self._event("summary", **self._counts(), codes=dict(self.tally.codes), failures=place)

    def _counts(self) -> dict[str, Any]:
        tally = self.tally
        counts = {
            name: getattr(tally, name) for name in ("total", "done", "ok", "partial", "failed", "before", "pages")
        }
        return {**counts, "seconds": round(tally.seconds, 3)}

    def _event(self, event: str, **content: Any) -> None:
        line = json.dumps({"event": event, **content}, ensure_ascii=False)
        self._write(line.encode("utf-8", "backslashreplace").decode() + "\n")


def printable(text: str) -> str:
    """On one line whatever it holds: a file's name may have line ends and escape codes in it."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def span(seconds: float) -> str:
    """``0:41``, ``12:05`` or ``3:20:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
