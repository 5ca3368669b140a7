"""Ray: a cluster to connect to or to start, actors that do tasks there, and shards made on Ray Data.

Nothing else imports ray, so that all else works without it.  Two ways of using it stand here:

:class:`Pool` is for documents.  Ray Data's ``map_batches`` with an actor pool would read them too, but it repeats the
task of a dead actor for ever, has no word for "given up after three", and takes one block a row where outcomes are
wanted one by one.  So actors are kept here: outcomes come as they are finished, each task is in one actor's hands at a
time, and whoever asked is told which task an actor died over.

:func:`map_unordered` is for shards, which have no bad ones among them and may be made twice without harm: that is a
Ray Data set, with its back-pressure and its repeating.

Tasks and answers are text (JSON): nothing of ours is pickled but one small class.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from data_pipeline.cluster_address import answers, check_address

ROOT = str(Path(__file__).resolve().parent.parent)
"""Where these packages lie; workers on the same disk find them there even if nobody has installed them."""
START_S = 300.0
"""For the first worker; a cluster that grows on demand takes minutes."""
AHEAD = 2
"""Tasks in an actor's hands: the next one is there when it has finished the one before."""
LOOK_S = 0.25
_STARTS = 3
"""A busy machine may need another try: Ray gives a new cluster 30 seconds, whatever it runs on."""
_STORE_BYTES = 100 * 2**20
"""Shared memory of a cluster that is started here; what travels is small."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}  # fmt: skip
"""No telemetry, no advice for programmers, no lines on standard output about workers that died."""


class ClusterError(OSError):
    """A cluster that cannot be used as asked; the message is one line that says what to do."""


@dataclass(frozen=True)
class Need:
    """What a worker takes of the cluster."""

    cpus: float = 1.0
    gpus: float = 0.0


@contextlib.contextmanager
def connected(address: str, workers: int = 0) -> Iterator[None]:
    """Be connected with a cluster while the block runs.

    Args:
        address: ``HOST:PORT``, or ``auto``: the cluster that ``RAY_ADDRESS`` or an earlier ``ray start`` on this
            machine names, else one that is started here and ends with the block.
        workers: processors that a cluster started here shall offer; 0: all that there are.

    Raises:
        ImportError: ray is not installed.
        ClusterError: nothing answers, or a cluster does not start.
        ValueError: see :func:`check_address`.
    """
    address = check_address(address)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    named = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    try:
        if named and named != "auto":
            _connect(ray, named)
        else:
            _find_or_start(ray, workers)
        _restore(handlers)  # Ray sets its own for SIGTERM, which leaves outputs half done
        yield
    finally:
        _restore(handlers)
        ray.shutdown()


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    with contextlib.suppress(ValueError):  # not in the main thread, where Ray has set none either
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _connect(ray: Any, address: str) -> None:
    if not answers(check_address(address)):
        raise ClusterError(
            f"nothing answers at {address}: check the address, or start a cluster with 'ray start --head'"
        )
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray has no class for these: other versions, other programs on that port
        raise ClusterError(
            f"{address} cannot be used as a Ray cluster ({one_line(error)}): it must be Ray {ray.__version__}; if it "
            "asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        ) from error


def _find_or_start(ray: Any, workers: int) -> None:
    """Connect with the cluster that ``ray start`` has made on this machine; where there is none, start one."""
    options = {"log_to_driver": False, "logging_level": "ERROR"}
    own = {"num_cpus": workers or _cores(), "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    for left in reversed(range(_STARTS)):
        try:
            try:
                ray.init(**own, **options)
            except ValueError:  # there is one, which has a size of its own
                ray.init(**options)
            return
        except ConnectionError as error:
            raise ClusterError(
                f"the cluster of this machine does not answer ({one_line(error)}): 'ray stop' forgets it"
            ) from error
        except Exception as error:
            ray.shutdown()
            if not left:
                raise ClusterError(
                    f"Ray does not start on this machine ({one_line(error)}): leave --ray out and use --workers"
                ) from error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def slots(need: Need) -> int:
    """How many workers the cluster has room for.

    Raises:
        ClusterError: not for one.
    """
    import ray

    total = ray.cluster_resources()
    rooms = [total.get("CPU", 0.0) / need.cpus] if need.cpus else []
    rooms += [total.get("GPU", 0.0) / need.gpus] if need.gpus else []
    if int(min(rooms)) < 1:
        what = "GPU" if need.gpus and total.get("GPU", 0.0) < need.gpus else "processor"
        raise ClusterError(f"the cluster has no {what} for a worker: {_told(total)}")
    return int(min(rooms))


def _told(resources: dict[str, float]) -> str:
    return f"it offers {resources.get('CPU', 0):g} processors and {resources.get('GPU', 0):g} GPUs"


# Actors


class Work(Protocol):
    """What a pool is to do."""

    def __len__(self) -> int:
        """Tasks waiting, without those in the hands of actors."""

    def next(self) -> str | None:
        """The next task; None when no more are waiting just now."""

    def back(self, task: str) -> None:
        """A task comes back that nobody has begun."""

    def lost(self, task: str, how: str) -> None:
        """An actor died over a task; it may come again from :meth:`next`."""


@dataclass
class _Hand:
    """One actor and the tasks that it has, the one that it is at first."""

    actor: Any
    hello: Any
    """Its first answer; None once that has come."""
    held: deque[tuple[Any, str]] = field(default_factory=deque)
    """(reference of the answer, task)."""


class Pool:
    """Actors on the cluster that do tasks until none is left.

    Args:
        host: ``module:class`` of what an actor holds: made of the setup, with ``hello()`` and ``do(text)``, both text.
        setup: for each host, as text.
        count: of actors, at most.
        need: of each.
        check: given what an actor's ``hello`` says; what it raises ends the run.
    """

    def __init__(self, host: str, setup: str, count: int, need: Need, check: Callable[[str], None]) -> None:
        self.host, self.setup, self.count, self.need, self.check = host, setup, count, need, check
        self._hands: list[_Hand] = []
        self._false_starts = 0
        self._deadline = time.monotonic() + START_S

    def run(self, work: Work, on_look: Callable[[], None] = lambda: None) -> Generator[tuple[str, str]]:
        """(task, answer) as they come; leaving the loop early ends all actors at once.

        Raises:
            ClusterError: no actor starts.
        """
        import ray

        try:
            while True:
                self._hand_out(ray, work)
                waiting = {hand.held[0][0]: hand for hand in self._hands if hand.held}
                if not waiting and not len(work):
                    return
                waiting |= {hand.hello: hand for hand in self._hands if hand.hello is not None}
                references = list(waiting)
                done, _ = ray.wait(references, num_returns=1, timeout=LOOK_S, fetch_local=False)
                if done and len(references) > 1:
                    done, _ = ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
                for reference in done:
                    yield from self._take(ray, waiting[reference], reference, work)
                self._check_start()
                on_look()
        finally:
            self._end(ray, self._hands)
            self._hands = []

    def _hand_out(self, ray: Any, work: Work) -> None:
        """Tasks for actors that are ready, a second one where plenty are waiting; and actors for waiting tasks."""
        ready = [hand for hand in self._hands if hand.hello is None]
        for depth in range(AHEAD):
            for hand in ready:
                plenty = depth == 0 or len(work) > 2 * AHEAD * len(self._hands)
                task = work.next() if plenty and len(hand.held) == depth else None
                if task is not None:
                    hand.held.append((hand.actor.do.remote(task), task))
        starting = len(self._hands) - len(ready)
        for _ in range(min(self.count - len(self._hands), len(work) - starting)):
            actor = (
                ray.remote(host_class())
                .options(num_cpus=self.need.cpus, num_gpus=self.need.gpus, max_restarts=0)
                .remote(ROOT, self.host, self.setup)
            )
            self._hands.append(_Hand(actor, actor.hello.remote()))

    def _take(self, ray: Any, hand: _Hand, reference: Any, work: Work) -> Iterator[tuple[str, str]]:
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayError as error:
            self._hands.remove(hand)
            self._end(ray, [hand])
            if hand.hello is not None:
                self._false_starts += 1
                if self._false_starts >= _STARTS:
                    raise ClusterError(f"workers do not start on the cluster: {_cause(error)}") from error
                return
            (_, task), *others = hand.held
            for _, other in others:
                work.back(other)
            work.lost(task, _how(ray, error))
            return
        self._false_starts = 0
        if hand.hello is not None:
            self.check(answer)
            hand.hello, self._deadline = None, 0.0
        else:
            yield hand.held.popleft()[1], answer

    def _check_start(self) -> None:
        if self._deadline and time.monotonic() > self._deadline:
            raise ClusterError(
                f"no worker has started in {START_S:.0f} seconds: the cluster is busy with other work, or too small; "
                "'ray status' shows what it is at"
            )

    def _end(self, ray: Any, hands: Sequence[_Hand]) -> None:
        for hand in hands:
            with contextlib.suppress(Exception):  # a cluster that is gone has no actors either
                ray.kill(hand.actor)


def host_class() -> type:
    """The class of actors; local, so that it travels to workers whole and can say there what they lack."""

    class Host:
        def __init__(self, root: str, name: str, setup: str) -> None:
            import importlib
            import sys

            self.fault = ""
            self.held: Any = None
            if root not in sys.path:
                sys.path.append(root)  # behind what is installed there
            module, _, attribute = name.partition(":")
            try:
                self.held = getattr(importlib.import_module(module), attribute)(setup)
            except ImportError as error:
                self.fault = f"{error}"

        def hello(self) -> str:
            import json
            import os

            return json.dumps({"fault": self.fault, "node": os.uname().nodename}) if self.fault else self.held.hello()

        def do(self, task: str) -> str:
            return self.held.do(task)

    return Host


def _how(ray: Any, error: Exception) -> str:
    """Why an actor is gone, for the document that it was at."""
    if isinstance(error, ray.exceptions.OutOfMemoryError) or "OutOfMemory" in str(error):
        return "the worker was ended by Ray, whose machine was short of memory"
    if isinstance(error, ray.exceptions.RayTaskError):
        return f"the worker failed: {_cause(error)}"
    return "the worker died, or its machine is gone"


def _cause(error: Exception) -> str:
    """The last line of what Ray tells in many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


# Ray Data


def map_unordered(function: str, tasks: Sequence[str], workers: int) -> Iterator[str]:
    """Answers of ``function(task)`` as they are finished, each task in a block of its own.

    Args:
        function: ``module:function`` that takes and gives text and may be called again for a task after a worker has
            died over it.
        tasks: as text.
        workers: tasks at a time.

    Raises:
        ClusterError: the function has raised, or the cluster is gone.
    """
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.from_items([{"task": task} for task in tasks], override_num_blocks=len(tasks))
    pool = ray.data.TaskPoolStrategy(size=min(workers, len(tasks)))
    done = rows.map(_caller(ROOT, function), compute=pool, num_cpus=1)
    try:
        for row in done.iter_rows():
            yield row["answer"]
    except Exception as error:  # Ray Data has errors of its own, and what its own programs raise
        raise ClusterError(f"a worker failed: {_cause(error)}; the same command goes on") from error


def _caller(root: str, name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def call(row: dict[str, Any]) -> dict[str, Any]:
        import importlib
        import sys

        if root not in sys.path:
            sys.path.append(root)
        module, _, attribute = name.partition(":")
        return {"answer": getattr(importlib.import_module(module), attribute)(row["task"])}

    return call
