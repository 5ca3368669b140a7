"""Processes that work for the demo: each can be stopped at any moment, and may crash alone.

A job goes out as one line of JSON; the answers come back as lines of JSON, the last one ``{"end": true}`` or
``{"error": ...}``.  What stands on the other side is demo_worker.py.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import IO, Any

POLL_S = 0.2
MAX_WAITING = 32
"""Jobs that wait for a process; the next one is turned away."""
Answer = dict[str, Any]
Tell = Callable[..., None]


class WorkStopped(ValueError):
    """A job that did not come to its end, with the reason."""


class OutOfTime(WorkStopped):
    """A job that took longer than it may."""


class WorkProcess:
    """Starts its process when it is first needed, and again after it was stopped or has crashed.

    Args:
        model: name or folder of the model that it shall use.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()

    def ask(
        self, job: Mapping[str, Any], max_seconds: float, stopped: Callable[[], bool]
    ) -> Generator[Answer, None, None]:
        """The answers to one job, and an empty one at least every ``POLL_S`` seconds.

        Leaving the loop early, by ``close()`` of this generator too, stops the work at once.

        Raises:
            OutOfTime: ``max_seconds`` are over.
            WorkStopped: the job was refused, its process crashed, or ``stopped`` said so.
        """
        deadline = time.monotonic() + max_seconds
        process = self._start()
        finished = False
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            while True:
                yield {}
                if stopped():
                    raise WorkStopped("stopped")
                if time.monotonic() > deadline:
                    raise OutOfTime(f"not ready within {max_seconds:g} seconds")
                answer = self._next()
                finished = "end" in answer or "error" in answer
                if "error" in answer:
                    raise WorkStopped(answer["error"])
                if finished:
                    return
                yield answer
        except BrokenPipeError:
            raise WorkStopped("the work ended unexpectedly: try again") from None
        finally:
            if not finished:
                self.stop()

    def _next(self) -> Answer:
        """The next answer, or an empty one if there is none soon."""
        try:
            line = self._answers.get(timeout=POLL_S)
        except queue.Empty:
            return {}
        if line is None:
            raise WorkStopped("the work crashed: the document may be damaged, or larger than the memory")
        return json.loads(line)

    def _start(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        root = str(Path(__file__).resolve().parent.parent)
        paths = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "apps.demo_worker", self.model],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C is for the server, which ends this process itself
        )  # fmt: skip
        self._answers = queue.Queue()
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process

    def stop(self) -> None:
        """End the process, whatever it is at."""
        process, self._process = self._process, None  # taken first: another thread may be stopping it too
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _listen(stream: IO[str], answers: queue.Queue[str | None]) -> None:
    try:
        for line in stream:
            answers.put(line)
    except ValueError:  # closed under us by stop()
        return
    answers.put(None)


class Pool:
    """Some processes and the line of those who wait for one, first come, first served.

    Args:
        model: for all of them.
        count: of processes.
    """

    def __init__(self, model: str, count: int) -> None:
        self._all = [WorkProcess(model) for _ in range(count)]
        self._idle = list(self._all)
        self._line: deque[object] = deque()
        self._changed = threading.Condition()

    def ask(
        self, job: Mapping[str, Any], max_seconds: float, stopped: Callable[[], bool] = lambda: False
    ) -> Generator[Answer, None, None]:
        """Wait for a process, telling ``{"waiting": those before}``; then as :meth:`WorkProcess.ask`.

        Raises:
            WorkStopped: too many wait already, or any reason of the process.
        """
        process = yield from self._turn(stopped)
        try:
            yield from process.ask(job, max_seconds, stopped)
        finally:
            with self._changed:
                self._idle.append(process)
                self._changed.notify_all()

    def _turn(self, stopped: Callable[[], bool]) -> Generator[Answer, None, WorkProcess]:
        ticket = object()
        with self._changed:
            if len(self._line) >= MAX_WAITING:
                raise WorkStopped(f"{MAX_WAITING} others are waiting already: try again in a few minutes")
            self._line.append(ticket)
        try:
            while True:
                with self._changed:
                    if self._line[0] is ticket and self._idle:
                        return self._idle.pop()
                    before = self._line.index(ticket) + len(self._all) - len(self._idle)
                yield {"waiting": before}
                if stopped():
                    raise WorkStopped("stopped")
                with self._changed:
                    self._changed.wait(POLL_S)
        finally:
            with self._changed:
                self._line.remove(ticket)
                self._changed.notify_all()

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.stop()
