"""Readers that misbehave as their documents' names say, for tests of workers; in a module that workers can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from apps.jobs import Outcome, Task
from apps.read_task import Settings, TaskReader, Tell
from docvision.scan import Reader

LONG_S = 600.0


class OddReader(TaskReader):
    """Reads as the real one does, but for documents that are called crash, hang, greedy, once or slow.

    A page is bad if its number stands in the name: ``hang-2`` hangs at page 2.
    """

    def __init__(self, settings: Settings, shared: Reader | None = None) -> None:
        super().__init__(settings, shared)

    def read(self, task: Task, tell: Tell | None = None) -> Outcome:
        what, _, number = Path(task.path).stem.partition("-")
        assert tell is not None
        if not number:
            self.misbehave(what, Path(task.path))

        def listen(stage: str, page: int) -> None:
            tell(stage, page)
            if stage == "page" and number and page == int(number):
                self.misbehave(what, Path(task.path))

        return super().read(task, listen)

    def misbehave(self, what: str, path: Path) -> None:
        if what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif what == "once" and not path.with_suffix(".seen").exists():
            path.with_suffix(".seen").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "hang":
            time.sleep(LONG_S)
        elif what == "greedy":
            self.hoard = bytearray(os.urandom(1024) * 400_000)
            time.sleep(LONG_S)


class Unborn(TaskReader):
    """A reader that cannot be made."""

    def __init__(self, settings: Settings, shared: Reader | None = None) -> None:
        os._exit(7)


class Sharing(TaskReader):
    """A reader that notes beside its document whether it was given the model."""

    def __init__(self, settings: Settings, shared: Reader | None = None) -> None:
        super().__init__(settings, shared)
        self.shared = shared

    def read(self, task: Task, tell: Tell | None = None) -> Outcome:
        stages: list[str] = []

        def listen(stage: str, page: int) -> None:
            stages.append(stage)
            if tell is not None:
                tell(stage, page)

        outcome = super().read(task, listen)
        Path(task.path).with_suffix(".seen").write_text(f"{self.shared is not None} {'load' in stages}")
        return outcome
