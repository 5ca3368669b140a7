"""A peer in a process of its own, so that its time and memory are its own and its end is nobody else's.

The process (``python -m apps.peer_process NAME KIND``) says hello with what the peer is, then answers requests, a
line of JSON each.  The other side is :class:`PeerProcess`, which ends it at the time limit.  Time is processor time of
the process and its children on one thread; memory is the peak of the process and of the programs that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from apps.bench import Engine, EngineMissing, Output, Request

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
LOOK_SECONDS = {True: 0.004, False: 0.05}
"""Between two looks at the memory of the programs that a peer starts: one that is a program itself, such as pdftotext,
may run for 20 ms; a library starts some to draw pages."""
START_SECONDS = 120.0


@dataclass(frozen=True)
class Hello:
    """What a peer is in the environment where it would run."""

    installed: bool
    version: str = ""
    own_mb: float | None = None
    """On disk, with its models."""
    all_mb: float | None = None
    """On disk, with all that it needs."""
    base_mb: float | None = None
    """Memory before it has read anything: Python and this file's imports."""


@dataclass(frozen=True)
class Reading:
    """What a peer made of one file, and what it took."""

    status: str
    """``ok``, ``failed`` (an error of its own), ``died`` or ``late``."""
    text: str = ""
    pages: int = 1
    seconds: float = 0.0
    """Processor time."""
    wall: float = 0.0
    peak_mb: float | None = None
    error: str = ""


class PeerGone(RuntimeError):
    """The process ended before it said hello."""


class PeerProcess:
    """The far end of a peer; use as a context manager.

    Args:
        name: of the peer.
        kind: of the documents.
        python: interpreter of the environment that has the peer.
        module: what runs there.
    """

    def __init__(self, name: str, kind: str, python: str = sys.executable, module: str = "apps.peer_process") -> None:
        self.command = [python, "-m", module, name, kind]
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *details: object) -> None:
        self.stop()

    def hello(self) -> Hello:
        """Start the process if need be.

        Raises:
            PeerGone: it did not come up.
        """
        self.stop()
        root = str(Path(__file__).resolve().parent.parent)
        paths = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            encoding="utf-8", env={**os.environ, **ONE_THREAD, "PYTHONPATH": paths}, start_new_session=True,
        )  # fmt: skip
        answer = self._answer(START_SECONDS)
        if answer is None:
            raise PeerGone(f"{' '.join(self.command)} did not start: run it to see why")
        return Hello(**answer)

    def read(self, request: Request, limit: float) -> Reading:
        """One file; the process is started (again) where it is not running."""
        if self.process is None or self.process.poll() is not None:
            self.hello()
        process = self.process
        assert process is not None and process.stdin is not None
        began = time.perf_counter()
        try:
            process.stdin.write(json.dumps({**asdict(request), "path": str(request.path.resolve())}) + "\n")
            process.stdin.flush()
            answer = self._answer(limit)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            return Reading(**answer)
        wall = time.perf_counter() - began
        died = process.poll() is not None or wall < limit
        self.stop()
        said = f"ended by itself ({process.returncode})" if died else f"stopped after {limit:.0f} s"
        return Reading("died" if died else "late", wall=round(wall, 3), error=said)

    def _answer(self, limit: float) -> dict[str, Any] | None:
        """The next line, or None where none comes in time."""
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line.endswith("\n") else None

    def stop(self) -> None:
        """End the process and what it started."""
        if self.process is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.process = None


# Inside the process


class Memory:
    """The peak of this process and of the programs that it starts, as far as the system tells."""

    def __init__(self, own: bool) -> None:
        self.own = own
        self.children_mb = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.children_mb = max(self.children_mb, sum(status_mb(pid, "VmRSS") for pid in _programs(os.getpid())))
            time.sleep(LOOK_SECONDS[not self.own])

    def peak(self) -> float | None:
        """MB up to now; None where nothing was seen."""
        peak = self.children_mb + (status_mb(os.getpid(), "VmHWM") if self.own else 0.0)
        return round(peak, 1) if peak else None


def status_mb(pid: int, name: str) -> float:
    """A size from a process's status in MB; 0 where the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name + ":")), 0.0)


def _programs(pid: int) -> list[int]:
    """Processes below this one that run another program; one just forked still shows the memory of its parent."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()):
                if os.readlink(f"/proc/{child}/exe") != os.readlink("/proc/self/exe"):
                    found.append(child)
                found += _programs(child)
    except OSError:  # it has just ended
        return found
    return found


def processor_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def answer(engine: Engine, request: Request, memory: Memory) -> Reading:
    """Run an engine on one request."""
    cpu, wall = processor_seconds(), time.perf_counter()
    try:
        output, status, error = engine(request), "ok", ""
    except EngineMissing:
        raise
    except Exception as fault:  # a peer may raise anything on a broken file; that is a result, not our failure
        output, status, error = Output("", 1), "failed", " ".join(f"{type(fault).__name__}: {fault}".split())[:300]
    taken = processor_seconds() - cpu, time.perf_counter() - wall
    text = output.text.encode("utf-8", "replace").decode("utf-8")
    return Reading(status, text, max(1, output.pages), round(taken[0], 6), round(taken[1], 6), memory.peak(), error)


def serve(name: str, kind: str, requests: TextIO, answers: TextIO) -> None:
    """Say hello, then answer until the requests end."""
    from apps.peers import PEERS, sizes_mb

    peer = PEERS[name]
    if not peer.is_installed():
        _say(answers, asdict(Hello(False)))
        return
    sizes = sizes_mb(peer)
    base = None if peer.command else round(status_mb(os.getpid(), "VmHWM"), 1) or None
    own, everything = (round(sizes[0], 1), round(sizes[1], 1)) if sizes else (None, None)
    _say(answers, asdict(Hello(True, peer.version(), own, everything, base)))
    memory = Memory(own=not peer.command)
    for line in requests:
        asked: dict[str, Any] = json.loads(line)
        _say(answers, asdict(answer(peer.engines[kind], Request(**{**asked, "path": Path(asked["path"])}), memory)))


def _say(answers: TextIO, message: Mapping[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def main(name: str, kind: str) -> None:
    """Serve on standard input and output; what a peer prints goes to standard error, never between the answers."""
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(name, kind, sys.stdin, private)


if __name__ == "__main__":
    main(*sys.argv[1:])
