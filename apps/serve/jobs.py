"""Documents that are read while their sender does something else: states, results, cancelling, forgetting.

A job's upload is deleted as soon as it is read; its result waits for ``keep_seconds`` or until the job is deleted,
whichever comes first.  A job belongs to the key that started it: to others it does not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from apps.serve.answers import Refusal, ServiceSettings
from apps.serve.pool import Pool
from apps.serve.reading import ANSWER, UPLOAD, Job

SWEEP_SECONDS = 1.0

State = Literal["waiting", "reading", "done", "failed"]


@dataclass
class Work:
    """One job and how far it is."""

    id: str
    owner: str
    job: Job
    state: State = "waiting"
    pages_done: int = 0
    pages_total: int = 0
    status: str = ""
    """``ok`` or ``partial``, when it is done."""
    refusal: Refusal | None = None
    """Why it failed."""
    ended: float | None = None
    """By the monotonic clock."""
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        return Path(self.job.folder)


class Jobs:
    """All jobs that are not forgotten yet.

    Args:
        settings: how many, and for how long.
        pool: reads them.
    """

    def __init__(self, settings: ServiceSettings, pool: Pool) -> None:
        self.settings = settings
        self.pool = pool
        self._all: dict[str, Work] = {}

    def check_room(self) -> None:
        """Raises a refusal where results that nobody has fetched fill the store."""
        if len(self._all) >= self.settings.max_jobs:
            ended = [work.ended for work in self._all.values() if work.ended is not None]
            wait = min(ended) + self.settings.keep_seconds - time.monotonic() if ended else self.settings.max_seconds
            raise Refusal("busy", f"{len(self._all)} jobs wait to be fetched or deleted", wait)

    def start(self, job: Job, owner: str, leave: Callable[[], object]) -> Work:
        """Begin a job; ``leave`` gives up its place in the line when it has ended, cancelled or not."""
        work = Work(secrets.token_urlsafe(16), owner, job)
        self._all[work.id] = work
        work.task = asyncio.create_task(self._run(work))
        work.task.add_done_callback(lambda _: leave())
        return work

    async def _run(self, work: Work) -> None:
        def on_pages(done: int, total: int) -> None:
            work.state, work.pages_done, work.pages_total = "reading", done, total

        try:
            work.status = await self.pool.read(work.job, on_pages)
            work.state = "done"
        except Refusal as refusal:
            work.state, work.refusal = "failed", refusal
        except Exception as error:
            work.state, work.refusal = "failed", Refusal("internal", f"{type(error).__name__}: {error}")
        finally:
            work.ended = time.monotonic()
            (work.folder / UPLOAD).unlink(missing_ok=True)

    def get(self, id: str, owner: str) -> Work:
        """The owner's job.

        Raises:
            Refusal: ``no-job``, for jobs of others too.
        """
        work = self._all.get(id)
        if work is None or work.owner != owner or self._expired(work):
            raise Refusal("no-job", "there is no such job, or no more")
        return work

    def result(self, id: str, owner: str) -> tuple[Work, bytes]:
        """A job that is done, and its answer.

        Raises:
            Refusal: ``no-job``, ``not-finished``, or the reason why the job failed.
        """
        work = self.get(id, owner)
        if work.refusal is not None:
            raise work.refusal
        if work.state != "done":
            raise Refusal("not-finished", f"{work.pages_done} of {work.pages_total or '?'} pages are read")
        return work, (work.folder / ANSWER).read_bytes()

    async def forget(self, id: str, owner: str) -> None:
        """Stop a job if it still runs, and remove all that is left of it."""
        await self._remove(self.get(id, owner))

    def expires_in(self, work: Work) -> float | None:
        """Seconds until an ended job is forgotten."""
        return None if work.ended is None else max(0.0, work.ended + self.settings.keep_seconds - time.monotonic())

    def _expired(self, work: Work) -> bool:
        return self.expires_in(work) == 0.0

    async def _remove(self, work: Work) -> None:
        self._all.pop(work.id, None)
        if work.task is not None and not work.task.done():
            work.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work.task
        shutil.rmtree(work.folder, ignore_errors=True)

    async def sweep(self) -> None:
        """Forget jobs as their time comes, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for work in [work for work in self._all.values() if self._expired(work)]:
                await self._remove(work)

    async def close(self) -> None:
        for work in list(self._all.values()):
            await self._remove(work)
