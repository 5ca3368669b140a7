"""Documents and outputs at addresses: brought to this machine, read here, and what came of them taken there.

A document is fetched into a private folder, read as any other, its files are sent one by one, each whole, and the
folder is removed.  The journal is staged_manifest.py's.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from apps import places
from apps.jobs import Failure, Outcome, Task, failed


def read_staged(task: Task, reader: Any, tell: Any) -> Outcome:
    """Read a task whose input or outputs are elsewhere.

    Args:
        task: its path may be an address.
        reader: a :class:`apps.read_task.TaskReader`, whose settings name the outputs' address, if they have one.
        tell: see :data:`apps.read_task.Tell`.
    """
    settings = reader.settings
    with tempfile.TemporaryDirectory(prefix="docvision-") as place:
        path, sha256 = task.path, ""
        if places.is_address(task.path):
            path = str(Path(place, "in", task.path.rpartition("/")[2]))
            Path(path).parent.mkdir()
            try:
                places.fetch(task.path, Path(path))
                sha256 = places.fingerprint(task.path)
            except FileNotFoundError:
                return failed(task, "missing", f"{task.path} is not there: check the address")
            except places.PlaceError as error:
                return failed(task, "not-fetched", str(error))
        inner = copy.copy(reader)  # with the same loaded model
        outputs = settings.outputs
        if settings.address:
            outputs = replace(outputs, folder=Path(place, "out"), scratch=Path(place))
        inner.settings, inner.named = replace(settings, outputs=outputs, address=""), task.path
        parts = [f"{settings.address}/{name}" for name in task.parts if settings.address]
        try:
            for name, part in zip(task.parts, parts, strict=False):
                Path(place, "out", name).parent.mkdir(parents=True, exist_ok=True)
                places.fetch(part, Path(place, "out", name))
        except (FileNotFoundError, places.PlaceError) as error:
            return failed(task, "not-fetched", str(error), sha256)
        outcome = inner.read(replace(task, path=path), tell)
        if settings.address:
            try:
                for name in outcome.files:
                    places.send(Path(place, "out", name), f"{settings.address}/{name}")
                for part in parts:
                    places.remove(part)
            except places.PlaceError as error:
                return failed(task, "not-written", str(error), sha256 or outcome.sha256)
    return _renamed(outcome, path, task.path, sha256)


def _renamed(outcome: Outcome, here: str, there: str, sha256: str) -> Outcome:
    """An outcome that speaks of the address instead of the copy."""

    def failure(found: Failure) -> Failure:
        return replace(found, input=there, message=found.message.replace(here, there))

    return replace(
        outcome, sha256=sha256 or outcome.sha256, failures=tuple(map(failure, outcome.failures)),
        notes=tuple(note.replace(here, there) for note in outcome.notes),
    )  # fmt: skip
