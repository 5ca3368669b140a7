"""The engine that makes shards on a Ray cluster: the same tasks as on one machine, the same bytes out.

Each shard is one row of a Ray Data set (see scale.py) and is written by the worker that has made it, whole or not at
all, so a worker that dies costs its shard's time.  A worker whose fonts, texts or libraries are others than the
driver's would make other bytes, so it refuses.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from data_pipeline import build, scale, shards

FUNCTION = "data_pipeline.build_ray:make"
_SURROUNDINGS = ("sources", "versions")


@dataclasses.dataclass(frozen=True)
class RayEngine:
    """An engine for :func:`data_pipeline.build.build`, to be called while a cluster is connected."""

    workers: int = 0
    """At most; 0: as many as the cluster has room for."""

    def __call__(
        self, tasks: Sequence[build.ShardTask], described: dict[str, Any], on_count: Callable[[int], None]
    ) -> Iterator[int]:
        """The number of samples of each shard, as they are written.

        Raises:
            SampleError: the recipe leaves no sample that can be used.
            WriteError: a shard cannot be written.
            ClusterError: a worker has other fonts, texts, libraries or another disk.
        """
        if not tasks:
            return
        room = scale.slots(scale.Need())
        made = 0
        texts = [_to_text(task, described) for task in tasks]
        for answer in map(json.loads, scale.map_unordered(FUNCTION, texts, min(self.workers or room, room))):
            if "error" in answer:
                raise _ERRORS[answer["error"]](answer["message"])
            made += answer["rows"]
            on_count(made)
            yield answer["rows"]


_ERRORS: dict[str, type[Exception]] = {
    "sample": build.SampleError, "write": shards.WriteError, "cluster": scale.ClusterError,
}  # fmt: skip


def _to_text(task: build.ShardTask, described: dict[str, Any]) -> str:
    return json.dumps(
        {
            "recipe": dataclasses.asdict(task.recipe), "seed": task.seed, "path": str(task.path),
            "indexes": [task.indexes.start, task.indexes.stop],
            "surroundings": {name: described[name] for name in _SURROUNDINGS},
        }
    )  # fmt: skip


# On a worker


def make(text: str) -> str:
    """Make one shard; JSON with ``rows``, or ``error`` and ``message``."""
    data = json.loads(text)
    task = build.ShardTask(
        build.Recipe(**data["recipe"]), data["seed"], range(*data["indexes"]), Path(data["path"]).absolute()
    )
    node = os.uname().nodename
    differing = _differing(json.dumps(data["recipe"]), json.dumps(data["surroundings"]))
    if differing:
        return _error("cluster", f"{node} has {differing}: install the same on every machine of the cluster")
    if not (task.path.parent / shards.RECIPE).is_file():
        return _error("cluster", f"{node} does not see {task.path.parent}: give -o a folder that all machines share")
    try:
        build.make_shard(task)
    except build.SampleError as error:
        return _error("sample", str(error))
    except OSError as error:
        return _error("write", str(error))
    return json.dumps({"rows": len(task.indexes)})


@lru_cache
def _differing(recipe: str, surroundings: str) -> str:
    """What of this machine would change the bytes; looked up once a process."""
    wanted, here = json.loads(surroundings), build.surroundings_of(build.Recipe(**json.loads(recipe)))
    for group in _SURROUNDINGS:
        for name in sorted(wanted[group].keys() | here[group].keys()):
            if wanted[group].get(name) != here[group].get(name):
                return f"another {name} ({here[group].get(name)} there, {wanted[group].get(name)} here)"
    return ""


def _error(kind: str, message: str) -> str:
    return json.dumps({"error": kind, "message": message})
