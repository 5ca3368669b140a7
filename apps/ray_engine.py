"""The engine that reads documents on a Ray cluster, beside those of batch.py: the same list in, the same outcomes out.

    batch.run (manifest, list of work)  ->  data_pipeline.scale.Pool  ->  one Host an actor  ->  one process that reads

A host keeps a crew of one (workers.py), so a document that crashes, hangs or takes too much costs what it costs on one
machine, with the same words in failures.jsonl.  What is added here is the host itself dying, or its machine: the
document that it was at is read again by another one, three times in all, and then it is listed as ``crash``.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from apps import batch, parts
from apps.batch_log import Log, Tally
from apps.inputs import Inputs
from apps.jobs import Loss, Outcome, Task, WorkList
from apps.read_task import Settings
from apps.workers import Limits, Workers, WorkersUnavailable
from data_pipeline import scale
from data_pipeline.scale import ClusterError

HOST = "apps.ray_engine:Host"


def run(address: str, workers: int, found: Inputs, settings: Settings, how: batch.How) -> Tally:
    """:func:`apps.batch.run` on a cluster.

    Args:
        address: see :func:`data_pipeline.scale.connected`.
        workers: at most; 0: as many as the cluster has room for.
        found: documents.
        settings: with a folder for the outputs.
        how: see :class:`apps.batch.How`.

    Raises:
        ImportError: ray is not installed.
        ClusterError: the cluster cannot be used.
    """
    with scale.connected(address, workers):
        return batch.run(found, settings, how, RayEngine(workers))


@dataclass(frozen=True)
class RayEngine:
    """An engine for :func:`apps.batch.run`, to be called while a cluster is connected."""

    workers: int = 0
    """At most; 0: as many as the cluster has room for."""

    def __call__(self, work: WorkList, settings: Settings, log: Log, how: batch.How) -> batch.Outcomes:
        if not len(work):
            return
        need = scale.Need(gpus=0.0 if settings.options.device == "cpu" else 1.0)
        count = min(self.workers or scale.slots(need), scale.slots(need), len(work))
        token = _leave_token(settings)
        model = batch.shared_model(settings.options, work.paths())
        limits = {"timeout": how.timeout or batch.DEFAULT_TIMEOUT_S, "memory": how.memory}
        setup = json.dumps({"settings": settings.to_json(), "limits": limits, "model": model})
        here = {**_installed(settings), "token": token}
        pool = scale.Pool(HOST, setup, count, need, lambda said: _check(here, json.loads(said), settings))
        tasks = _Tasks(work, parts.SPLIT_PAGES if parts.may_split(settings.options) else 0)
        answers = pool.run(tasks, log.look)
        try:
            for text, answer in answers:
                yield from tasks.given_up()
                yield from tasks.finished(text, json.loads(answer))
            yield from tasks.given_up()
        finally:
            answers.close()


class _Tasks:
    """A list of work as a pool takes it, each task as text.

    Args:
        work: documents.
        split: documents with more pages are read in parts; 0: none.
    """

    def __init__(self, work: WorkList, split: int) -> None:
        self.work, self.split = work, split
        self._parts = parts.Parts(work.back)
        self._failed: list[tuple[Task, Outcome]] = []

    def __len__(self) -> int:
        return len(self.work)

    def next(self) -> str | None:
        task = self.work.next()
        if task is None:
            return None
        return json.dumps(replace(task, split=task.split or self.split).to_json())

    def back(self, task: str) -> None:
        self.work.back(_task(task))

    def lost(self, task: str, how: str) -> None:
        lost = _task(task)
        outcome = self.work.lost(lost, Loss("crash", None, how))
        if outcome is not None:
            self._failed += self._parts.finished(lost, outcome)

    def given_up(self) -> Iterator[tuple[Task, Outcome]]:
        """Documents over which actors have died too often."""
        while self._failed:
            yield self._failed.pop(0)

    def finished(self, task: str, answer: dict[str, Any]) -> Iterator[tuple[Task, Outcome]]:
        if "unavailable" in answer:
            raise WorkersUnavailable(answer["unavailable"])
        return self._parts.finished(_task(task), Outcome.from_json(answer["outcome"]))


def _task(text: str) -> Task:
    return Task.from_json(json.loads(text))


# What must be the same everywhere


def _installed(settings: Settings) -> dict[str, str]:
    """What decides on the outputs besides the settings."""
    known = batch.identity(settings)
    return {"version": known["version"], "weights": known["weights"]}


def _leave_token(settings: Settings) -> str:
    """A file beside the outputs, by which workers know that they write into the same folder; none at an address."""
    if settings.address:
        return ""
    token = secrets.token_hex(8)
    assert settings.outputs.scratch is not None
    (settings.outputs.scratch / "token").write_text(token)
    return token


def _check(here: dict[str, str], there: dict[str, str], settings: Settings) -> None:
    """Stop where a worker would write something else, or elsewhere.

    Raises:
        ClusterError: what is to be done about it.
    """
    node = there["node"]
    if "fault" in there:
        raise ClusterError(
            f"the worker on {node} cannot run docvision ({there['fault']}): "
            f"pip install docvision=={here['version']} on every machine of the cluster"
        )
    if there["version"] != here["version"]:
        raise ClusterError(
            f"the worker on {node} has docvision {there['version']}, this machine has {here['version']}: install one "
            "version everywhere"
        )
    if there["weights"] != here["weights"]:
        raise ClusterError(
            f"the model {settings.options.model} on {node} is another one than here, or not there: put the same files "
            "on every machine"
        )
    if there["token"] != here["token"]:
        raise ClusterError(
            f"the worker on {node} does not see {settings.outputs.folder}: give -o a folder on a disk that all "
            "machines share"
        )


# On a worker


class Host:
    """What an actor holds: a crew of one reader that may die alone, with its model loaded once.

    Args:
        setup: settings, limits and the model to load at once, as JSON.
    """

    def __init__(self, setup: str) -> None:
        data = json.loads(setup)
        settings = Settings.from_json(data["settings"])
        shared = settings.outputs.scratch
        assert shared is not None
        self._hello = {
            **_installed(settings),
            "token": _token(shared),
            "node": os.uname().nodename,
            "pid": str(os.getpid()),
        }
        # Files are written under the process's number, which two machines may both give.
        own = shared / secrets.token_hex(8)
        if not settings.address:
            settings = replace(settings, outputs=replace(settings.outputs, scratch=own))
        self._settings = settings
        # A reader's process would begin by importing what this one was started with, which is Ray.
        vars(sys.modules["__main__"]).pop("__file__", None)
        self._work = WorkList([])
        self._limits, self._model = Limits(**data["limits"]), data["model"]
        self._outcomes: Generator[tuple[Task, Outcome], None, None] | None = None

    def hello(self) -> str:
        """What is installed here, and whether the folder of the outputs is the one that the driver sees."""
        return json.dumps(self._hello)

    def do(self, text: str) -> str:
        """Read one document; JSON with its ``outcome``, or ``unavailable`` and why no process reads here."""
        self._work.back(_task(text))
        try:
            if self._outcomes is None:
                scratch = self._settings.outputs.scratch
                if scratch is not None and not self._settings.address:
                    scratch.mkdir(parents=True, exist_ok=True)
                crew = Workers(1, self._settings, self._limits, self._model, reader=parts.PartReader)
                self._outcomes = crew.run(self._work)
            _, outcome = next(self._outcomes)
        except WorkersUnavailable as error:
            return json.dumps({"unavailable": f"{error} (on {self._hello['node']})"})
        return json.dumps({"outcome": outcome.to_json()})


def _token(scratch: Path) -> str:
    try:
        return (scratch / "token").read_text()
    except OSError:
        return ""
