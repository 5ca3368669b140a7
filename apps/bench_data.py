"""How fast training data is made: samples per second and core of each recipe, and what a second worker adds.

    docvision bench data lines pages --count 40

Each recipe is built for real, shards written and all, once with one worker and once with more, into a folder that is
thrown away.  Sources and fonts are read before the clock starts, as they are once for a whole data set.  A busy machine
stretches the clock but hardly the processor time, so both are given: with cores to itself, N workers make
N x (CPU of one) / (CPU of N) times as much, which is the column ``scaling_cpu``.
"""

from __future__ import annotations

import io
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_pipeline import build, shards
from data_pipeline.progress import Progress


@dataclass(frozen=True)
class Cost:
    """What one build took, in seconds."""

    wall: float
    cpu: float
    size: int
    """Bytes written."""


def load(names: Sequence[str]) -> dict[str, build.Recipe]:
    """The recipes by the names given; raises RecipeError for one that cannot be used."""
    return {name: build.load_recipe(name) for name in names}


def speed(recipes: Mapping[str, build.Recipe], count: int, workers: int = 2, seed: int = 0) -> list[dict[str, Any]]:
    """Build each recipe with one worker and with ``workers``.

    Args:
        recipes: by name.
        count: samples of each build.
        workers: of the second build; 1 leaves it out.
        seed: of the data sets.

    Returns:
        One row a build: ``recipe``, ``workers``, ``samples``, ``per_s`` (wall clock), ``cpu_ms`` (processor time a
        sample, all processes together), ``per_cpu_s`` (samples a second of one core that does nothing else), ``kb`` a
        sample, ``scaling`` by wall clock and ``scaling_cpu`` by processor time, both relative to one worker.
    """
    costs: dict[tuple[str, int], Cost] = {}
    # More workers first: they are forked from a process that has made nothing yet, as in use.
    for processes in dict.fromkeys((workers, 1)):
        for name, recipe in recipes.items():
            build.KINDS[recipe.kind].sources(recipe.sample_options())
            rows = max(1, min(recipe.rows, count // (4 * workers)))  # every worker gets several shards
            costs[name, processes] = measure(build.Recipe(recipe.kind, rows, recipe.options), count, seed, processes)
    return [
        _row(name, processes, count, costs[name, processes], costs[name, 1])
        for name in recipes
        for processes in dict.fromkeys((1, workers))
    ]


def measure(recipe: build.Recipe, count: int, seed: int, workers: int) -> Cost:
    """Time one build."""
    with tempfile.TemporaryDirectory() as folder:
        began, spent = time.perf_counter(), _cpu()
        build.build(recipe, Path(folder), count, seed, workers, show=Progress(io.StringIO()))
        wall, cpu = time.perf_counter() - began, _cpu() - spent
        size = sum(path.stat().st_size for path in Path(folder).glob(f"part-*{shards.FORMATS['parquet']}"))
    return Cost(wall, cpu, size)


def _cpu() -> float:
    """Processor time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _row(name: str, workers: int, count: int, cost: Cost, alone: Cost) -> dict[str, Any]:
    return {
        "recipe": name,
        "workers": workers,
        "samples": count,
        "per_s": round(count / cost.wall, 2),
        "cpu_ms": round(1000 * cost.cpu / count, 1),
        "per_cpu_s": round(count / cost.cpu, 2),
        "kb": round(cost.size / count / 1000, 1),
        "scaling": round(alone.wall / cost.wall, 2),
        "scaling_cpu": round(workers * alone.cpu / cost.cpu, 2),
    }
