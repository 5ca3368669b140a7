"""Processes that read documents: each can be stopped at any page, may crash alone, and is replaced.

They are forked from a server process that has one thread and has imported everything, with the model where it is
surely needed (shared_model.py), so a new one is there in milliseconds and shares memory with the others.  Tasks and
answers travel as JSON.  A worker dies with the process that it works for, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps import shared_model
from apps.jobs import Loss, Outcome, Task, WorkList
from apps.outputs import unfinished
from apps.read_task import Settings, TaskReader

if TYPE_CHECKING:
    from docvision.scan import Reader

LOOK_S = 0.25
"""Between looks at limits."""
LOAD_S = 900.0
"""For loading the model, which is no page's fault."""
GRACE_S = 60.0
"""After its time is up twice over, the system ends a worker whom nobody has ended."""
MAX_FALSE_STARTS = 3
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class WorkersUnavailable(OSError):
    """Workers do not start here, or have no room within the limits."""


@dataclass(frozen=True)
class Limits:
    """What a worker may take."""

    timeout: float | None = None
    """Seconds for one page."""
    memory: int | None = None
    """Megabytes of the whole process, what it has started included."""


@dataclass
class _Slot:
    """One worker and what it is at."""

    process: BaseProcess
    pipe: Connection
    ready: bool = False
    task: Task | None = None
    page: int | None = None
    read: int = 0
    """Pages of this task that are read."""
    loading: bool = False
    since: float = field(default_factory=time.monotonic)
    """When the page was begun."""


class Workers:
    """A number of workers for one run.

    Args:
        count: of processes.
        settings: of the run.
        limits: for each page.
        model: name of a model to load once for all of them; empty: who needs it loads it.
        on_page: called when a page has been read.
        on_look: called a few times a second.
        reader: made in each worker, of the settings and the shared model; a class or function of a module.
    """

    def __init__(
        self, count: int, settings: Settings, limits: Limits, model: str = "",
        on_page: Callable[[], None] = lambda: None, on_look: Callable[[], None] = lambda: None,
        reader: Callable[[Settings, Reader | None], TaskReader] = TaskReader,
    ) -> None:  # fmt: skip
        self.reader = reader
        self.count, self.settings, self.limits = count, settings, limits
        self.on_page, self.on_look = on_page, on_look
        self._slots: list[_Slot] = []
        self._false_starts = 0
        self._context = _server(model, threads_of(count))

    def run(self, work: WorkList) -> Generator[tuple[Task, Outcome], None, None]:
        """Outcomes as they come; leaving the loop early stops all workers at once.

        Raises:
            WorkersUnavailable: they do not start.
        """
        try:
            while True:
                self._hand_out(work)
                if not self._slots:
                    return
                yield from self._listen(work)
                yield from self._check(work)
                self.on_look()
        finally:
            for slot in self._slots:
                self._end(slot)
            self._slots.clear()

    def pids(self) -> list[int]:
        """Of the workers that live."""
        return [slot.process.pid for slot in self._slots if slot.process.pid is not None]

    def _hand_out(self, work: WorkList) -> None:
        """Give each idle worker a task, start workers for waiting ones, and let go of those who stay idle."""
        for slot in [slot for slot in self._slots if slot.ready and slot.task is None]:
            slot.task = work.next()
            if slot.task is None:
                self._end(slot, kindly=True)
                self._slots.remove(slot)
            else:
                slot.page, slot.read, slot.since = None, 0, time.monotonic()
                with contextlib.suppress(OSError):  # a dead one is noticed by its end
                    slot.pipe.send_bytes(json.dumps(slot.task.to_json()).encode())
        starting = sum(slot.task is None for slot in self._slots)
        for _ in range(min(self.count - len(self._slots), len(work) - starting)):
            self._slots.append(self._start())

    def _start(self) -> _Slot:
        ours, theirs = self._context.Pipe()
        setup = json.dumps(self.settings.to_json())
        limit = 0 if self.limits.timeout is None else int(2 * self.limits.timeout + GRACE_S)
        arguments = (theirs, setup, threads_of(self.count), limit, self.reader)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Slot(process, ours)

    def _listen(self, work: WorkList) -> Iterator[tuple[Task, Outcome]]:
        """Wait a moment for answers, and take them."""
        by_pipe = {slot.pipe: slot for slot in self._slots}
        for pipe in wait(list(by_pipe), timeout=LOOK_S):
            slot = by_pipe[pipe]  # type: ignore[index]
            try:
                answer = json.loads(slot.pipe.recv_bytes())
            except (OSError, EOFError, ValueError):
                yield from self._lost(slot, work, "crash")
                continue
            slot.ready, self._false_starts, slot.since = True, 0, time.monotonic()
            if "load" in answer:
                slot.loading = answer["load"]
                continue
            if slot.page:
                slot.read += 1
                self.on_page()
            slot.page = answer.get("page") or None
            if "outcome" in answer:
                assert slot.task is not None
                task, slot.task = slot.task, None
                yield task, Outcome.from_json(answer["outcome"])
            elif "ready" in answer:
                self._check_room(slot)

    def _check(self, work: WorkList) -> Iterator[tuple[Task, Outcome]]:
        """End workers that are beyond a limit."""
        now = time.monotonic()
        for slot in list(self._slots):
            if slot.ready and slot.task is None:
                continue
            limit = self._seconds(slot)
            if limit is not None and now - slot.since > limit:
                yield from self._lost(slot, work, "timeout")
            elif slot.task is not None and self._too_large(slot):
                yield from self._lost(slot, work, "memory")

    def _seconds(self, slot: _Slot) -> float | None:
        """How long a worker may take for what it is at; a document is written in the time of all its pages."""
        if slot.loading or not slot.ready:
            return LOAD_S
        if self.limits.timeout is None or slot.page:
            return self.limits.timeout
        return self.limits.timeout * max(1, slot.read)

    def _lost(self, slot: _Slot, work: WorkList, code: str) -> Iterator[tuple[Task, Outcome]]:
        """Replace a worker that is dead, or has to die."""
        self._slots.remove(slot)
        message = self._message(slot, code)
        self._end(slot)
        if slot.task is None:
            self._false_starts += 1
            if self._false_starts >= MAX_FALSE_STARTS:
                raise WorkersUnavailable(f"workers do not start ({message}): try it with fewer --workers")
            return
        outcome = work.lost(slot.task, Loss(code, slot.page, message))
        if outcome is not None:
            yield slot.task, outcome

    def _message(self, slot: _Slot, code: str) -> str:
        if code == "timeout":
            return f"took longer than {self._seconds(slot):g} seconds"
        if code == "memory":
            return f"took more than {self.limits.memory} MB of memory"
        slot.process.join(2)
        number = slot.process.exitcode
        if number == -signal.SIGKILL:
            return "the reader was killed, perhaps for lack of memory"
        try:
            return f"the reader crashed ({signal.Signals(-(number or 0)).name})"
        except ValueError:
            return f"the reader ended by itself (exit code {number})"

    def _too_large(self, slot: _Slot) -> bool:
        return self.limits.memory is not None and resident_mb(slot.process.pid) > self.limits.memory

    def _check_room(self, slot: _Slot) -> None:
        if self._too_large(slot):
            taken = resident_mb(slot.process.pid)
            raise WorkersUnavailable(f"a worker takes {taken:.0f} MB before it reads anything: give more --memory")

    def _end(self, slot: _Slot, kindly: bool = False) -> None:
        """End a worker and what it has started, and remove its unfinished files."""
        slot.pipe.close()  # which an idle one takes as its leave
        pid = slot.process.pid
        if not kindly and pid is not None:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            slot.process.kill()
        slot.process.join(5)
        if slot.process.is_alive():
            slot.process.kill()
            slot.process.join()
        scratch = self.settings.outputs.scratch
        if scratch is not None and pid is not None:
            unfinished(scratch, pid).unlink(missing_ok=True)


def threads_of(count: int) -> int:
    """Threads for each of so many workers, so that they share the cores and do not fight for them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wish = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, cores // count)
    return min(share, int(wish)) if wish.isdigit() and int(wish) else share


def resident_mb(pid: int | None) -> float:
    """Memory of a process and its children in MB; 0 where the system does not say."""
    total = 0.0
    try:
        place = Path(f"/proc/{pid}")
        total = int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        for child in (place / "task" / str(pid) / "children").read_text().split():
            total += resident_mb(int(child))
    except (OSError, ValueError, IndexError):
        return total
    return total


def _server(model: str, threads: int) -> Any:
    """What starts processes; the server process from which they are forked begins now."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    # The server reads its surroundings once: one thread for what is computed there, where to find this package, and
    # which model to hold.
    root = str(Path(__file__).resolve().parent.parent)
    paths = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    wanted = {"PYTHONPATH": paths, shared_model.VARIABLE: model, **dict.fromkeys(_THREADS, str(threads))}
    before = {name: os.environ.get(name) for name in wanted}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["apps.workers"])
    os.environ.update(wanted)
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return context


# In a worker


def _work(
    pipe: Connection, setup: str, threads: int, limit: int, make: Callable[[Settings, Reader | None], TaskReader]
) -> None:
    """Read tasks until the other side closes.

    Args:
        pipe: tasks come and answers go here.
        setup: the settings as JSON.
        threads: for computing.
        limit: seconds for one page after which the system ends this process; 0: never.
        make: the reader of tasks.
    """
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # Ctrl-C is for the other side, and what is started here ends with this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _follow_parent()
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    settings = Settings.from_json(json.loads(setup))
    reader = make(settings, shared_model.reader_of(settings.options.model, settings.options.device))

    def tell(**answer: Any) -> None:
        pipe.send_bytes(json.dumps(answer).encode())

    def begun(what: str, page: int) -> None:
        signal.alarm(limit if what == "page" else 0)
        if what in ("load", "loaded"):
            tell(load=what == "load")
        else:
            tell(page=page)

    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        tell(ready=True)
        while True:
            task = Task.from_json(json.loads(pipe.recv_bytes()))
            begun("open", 0)
            outcome = reader.read(task, begun)
            signal.alarm(0)
            tell(outcome=outcome.to_json())


def _follow_parent() -> None:
    """End when the process ends for which this one works; else a killed run leaves readers that go on writing."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        parent.join()
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=follow, daemon=True).start()
