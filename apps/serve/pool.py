"""The reading processes, and the line of documents that wait for one.

A place in the line is taken before a body is read, so a flood is turned away cheaply.  A process that runs out of
time, crashes or loses its caller is killed, with the programs it has started, and another one takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apps.serve.answers import Refusal, ServiceSettings
from apps.serve.reading import Job, ReaderSettings

START_SECONDS = 180
"""Until a process has loaded the model."""
LINE_BYTES = 1 << 20
"""Of one answer: they are short, the document itself goes by file."""
FIRST_GUESS_SECONDS = 5.0
"""What a document takes, before any was read."""

OnPages = Callable[[int, int], None]


class ReadingProcess:
    """One process; it is started by :meth:`launch` and again whenever it is gone."""

    def __init__(self, settings: ReaderSettings, threads: int) -> None:
        self._settings = settings
        self._threads = threads
        self._process: asyncio.subprocess.Process | None = None
        self.problem = ""
        """Why there is no model, or nothing."""
        self.ready = False

    async def launch(self) -> None:
        """Start the process unless it runs, and wait until it has loaded the model.

        Raises:
            Refusal: ``not-ready`` where it does not start.
        """
        if self._process is not None and self._process.returncode is None:
            return
        await self.stop()
        root = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        environment = {"OMP_NUM_THREADS": str(self._threads), **os.environ, "PYTHONPATH": paths}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "apps.serve.reading", json.dumps(asdict(self._settings)),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
            env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(START_SECONDS):
                answer = await self._answer()
        except (TimeoutError, Refusal):
            await self.stop()
            raise Refusal("not-ready", "the reading process does not start: see the log of the service") from None
        except asyncio.CancelledError:
            await self.stop()
            raise
        self.problem, self.ready = answer.get("problem", ""), True

    async def read(self, job: Job, seconds: float, on_pages: OnPages) -> str:
        """Read one document: its status, ``ok`` or ``partial``; the answer lies in the job's folder.

        Raises:
            Refusal: it cannot be read, or takes longer than ``seconds``.
        """
        await self.launch()
        finished = False
        try:
            async with asyncio.timeout(seconds):
                assert self._process is not None and self._process.stdin is not None
                self._process.stdin.write(job.line())
                await self._process.stdin.drain()
                while True:
                    answer = await self._answer()
                    if "pages" in answer:
                        on_pages(*answer["pages"])
                        continue
                    finished = True
                    if "error" in answer:
                        raise Refusal(answer.get("code", "internal"), answer["error"])
                    return answer["status"]
        except TimeoutError:
            raise Refusal("out-of-time", f"the document was not read within {seconds:g} seconds") from None
        except (BrokenPipeError, ConnectionResetError):
            raise Refusal("reader-crashed", "the reading process has ended unexpectedly") from None
        finally:
            if not finished:
                await self.stop()

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise Refusal("reader-crashed", "the document made the reading process crash")
        return json.loads(line)

    async def stop(self) -> None:
        """End the process and all that it has started, whatever they are at."""
        self.ready = False
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


class Pool:
    """Some reading processes, first come, first served.

    Args:
        settings: how many, and their limits.
        root: holds the folders of the jobs.
    """

    def __init__(self, settings: ServiceSettings, root: Path) -> None:
        self.settings = settings
        reader = ReaderSettings(
            str(root), settings.model, settings.device, settings.layout, settings.max_pages, settings.max_memory_mb
        )
        threads = max(1, (os.cpu_count() or 1) // settings.workers)
        self._all = [ReadingProcess(reader, threads) for _ in range(settings.workers)]
        self._idle: asyncio.Queue[ReadingProcess] = asyncio.Queue()
        self._starting: list[asyncio.Task[None]] = []
        self._places = 0
        self._seconds = FIRST_GUESS_SECONDS

    def start(self) -> None:
        """Start the processes; returns at once."""
        for process in self._all:
            self._give_back(process)

    def _give_back(self, process: ReadingProcess) -> None:
        """Let the next document have this process, after it was started if it does not run."""
        if process.ready:
            self._idle.put_nowait(process)
            return

        async def launch() -> None:
            try:
                with contextlib.suppress(Refusal):  # the next document will try again, and be told
                    await process.launch()
            finally:
                self._idle.put_nowait(process)

        self._starting = [task for task in self._starting if not task.done()] + [asyncio.create_task(launch())]

    async def close(self) -> None:
        """End all processes."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for process in self._all:
            await process.stop()

    @property
    def busy(self) -> int:
        """Documents that are being received or read, or wait."""
        return self._places

    @property
    def ready(self) -> int:
        """Processes that have loaded the model and run."""
        return sum(process.ready for process in self._all)

    @property
    def problem(self) -> str:
        """Why pages without text cannot be read, or nothing."""
        return next((process.problem for process in self._all if process.problem), "")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the line, for as long as the block runs.

        Raises:
            Refusal: ``busy``, with the seconds after which it is worth another try.
        """
        if self._places >= self.settings.workers + self.settings.queue:
            wait = self._seconds * (self.settings.queue + 1) / self.settings.workers
            raise Refusal("busy", f"{self._places} documents are being read or wait", min(wait, 600))
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    async def read(self, job: Job, on_pages: OnPages = lambda done, total: None) -> str:
        """Wait for a process and read one document; as :meth:`ReadingProcess.read`."""
        process = await self._idle.get()
        started = time.monotonic()
        try:
            return await process.read(job, self.settings.max_seconds, on_pages)
        finally:
            self._seconds += 0.2 * (time.monotonic() - started - self._seconds)
            self._give_back(process)
