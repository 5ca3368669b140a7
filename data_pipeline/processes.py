"""Tasks over processes: results as they come, samples counted as they are made, no process left behind.

Workers are forked where that exists, to share faces and corpus.  They end with their parent, however that ends; an
interrupt or a failure ends them at once, in the middle of a shard, which is then made again next time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import cv2

Task = TypeVar("Task")
Result = TypeVar("Result")
Tick = Callable[[], None]
"""Called once a sample."""
_LOOK_S = 0.2
"""Between looks at the workers' counter."""


class WorkerDied(OSError):
    """A worker ended without a word."""


def run(
    function: Callable[[Task, Tick], Result],
    tasks: Sequence[Task],
    workers: int,
    on_count: Callable[[int], None],
    lock: int = -1,
    fork: bool = True,
) -> Iterator[Result]:
    """Results of ``function(task, tick)`` in the order in which they are done.

    Args:
        function: of a module, so that processes find it; it calls ``tick`` after each sample.
        tasks: what to do.
        workers: processes; 1 works in this one.
        on_count: called often with the number of ticks of all tasks so far.
        lock: a file descriptor that workers must not hold, or -1.
        fork: share this process's memory where the system can; not with threads in it that the work needs.

    Raises:
        WorkerDied: a worker was killed, as happens where memory is short.
    """
    if workers == 1:
        made = 0

        def tick() -> None:
            nonlocal made
            made += 1
            on_count(made)

        yield from (function(task, tick) for task in tasks)
        return
    # A child of a process whose OpenCV has a thread pool hangs, so the pool is given up first; workers use one thread
    # each anyway.
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield from _pool(function, tasks, workers, on_count, lock, fork)
    except BrokenProcessPool as error:
        raise WorkerDied(
            "a worker died, perhaps for lack of memory: run the same command again with fewer --workers, it goes on"
        ) from error
    finally:
        cv2.setNumThreads(threads)


def _pool(
    function: Callable[[Task, Tick], Result],
    tasks: Sequence[Task],
    workers: int,
    on_count: Callable[[int], None],
    lock: int,
    fork: bool,
) -> Iterator[Result]:
    forks = fork and sys.platform == "linux"
    context = multiprocessing.get_context("fork" if forks else "spawn")
    lock = lock if forks else -1  # a spawned process has no copy of it
    counter = context.Value("q", 0)
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(counter, lock)) as pool:
        try:
            pending = {pool.submit(_call, function, task) for task in tasks}
            while pending:
                done, pending = wait(pending, _LOOK_S, FIRST_COMPLETED)
                on_count(counter.value)
                for future in done:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


_counter: Any = None
"""In a worker: the ticks of all of them."""


def _start(counter: Any, lock: int) -> None:
    """Let a worker end with its parent; else a killed build leaves workers that wait for ever."""
    global _counter
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent says what happens
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if lock >= 0:
        os.close(lock)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()


def _call(function: Callable[[Any, Tick], Any], task: Any) -> Any:
    return function(task, _tick)


def _tick() -> None:
    with _counter.get_lock():
        _counter.value += 1
