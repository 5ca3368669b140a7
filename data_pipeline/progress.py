"""How far a build is: a bar with rate and time left on a terminal, plain lines in a log."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from typing import TextIO

_BETWEEN_DRAWS_S = 0.1
_BETWEEN_LINES_S = 10.0
_BAR = 24


class Progress:
    """Writes to a stream; a stream that fails costs the messages, not the build.

    Args:
        stream: usually standard error.
        clock: seconds, for tests.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.perf_counter) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.total = 0
        self._now = clock
        self._began = self._shown = clock()
        self._last = ""

    def start(self, total: int) -> None:
        """The clock runs from here; ``total`` samples are to be made."""
        self.total = total
        self._began = self._now()
        self._shown = self._began - _BETWEEN_DRAWS_S if self.live else self._began

    def update(self, made: int) -> None:
        """Show ``made`` samples, unless something was shown a moment ago."""
        now = self._now()
        if made < self.total and now - self._shown < (_BETWEEN_DRAWS_S if self.live else _BETWEEN_LINES_S):
            return
        text = state(made, self.total, now - self._began)
        if text != self._last:
            self._shown, self._last = now, text
            self._write(f"\r\x1b[K{bar(made, self.total)} {text}" if self.live else f"{text}\n")

    def say(self, message: str) -> None:
        """A line of its own; the bar comes again below it."""
        self._write(f"\r\x1b[K{message}\n" if self.live else f"{message}\n")

    def close(self) -> None:
        """Leave the bar's line."""
        if self.live and self._last:
            self._write("\n")
        self._last = ""

    def _write(self, text: str) -> None:
        if self.live:
            text = text[: shutil.get_terminal_size().columns + 4]  # a bar that wraps cannot be drawn over
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()


def state(made: int, total: int, seconds: float) -> str:
    """``1,240 of 10,000 (12 %), 212/s, 0:41 left``."""
    text = f"{made:,} of {total:,} ({100 * made // max(1, total)} %)"
    if made and seconds > 0:
        rate = made / seconds
        text += f", {rate:.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
        text += f", {span((total - made) / rate)} left" if made < total else f", {span(seconds)} in all"
    return text


def span(seconds: float) -> str:
    """``0:41``, ``12:05`` or ``3:20:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def bar(made: int, total: int) -> str:
    full = _BAR * made // max(1, total)
    return f"[{'#' * full}{'.' * (_BAR - full)}]"
