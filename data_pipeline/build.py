"""Recipe -> shards: ``python -m data_pipeline.build NAME -o DIR --count N --seed S --workers W``.

NAME is a recipe in ``recipes/`` or a path to one.  A recipe names a *kind* of sample and its options; :data:`KINDS`
lists the kinds.  Sample i of seed s depends on (s, i) and the recipe only, not on the workers or their number: each
sample has a generator of its own.  Kill the build at any time and start the same command again: it goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import yaml

from data_pipeline import fonts, lines, render, shards, text

RECIPES = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class Kind:
    """A kind of sample."""

    function: Callable[[np.random.Generator, Any], dict[str, Any]]
    """(generator, options) -> the columns of one row, without ``index``."""
    options: type
    """Frozen dataclass that the recipe's ``options`` fill."""
    schema: pa.Schema | None
    """Columns of the shards, ``index`` included."""
    sources: Callable[[Any], dict[str, str]]
    """Digests of what the samples depend on besides recipe and seed; called once before the workers start."""


def _line_sources(options: lines.LineOptions | render.PageOptions) -> dict[str, str]:
    return {
        "fonts": fonts.digest(fonts.find_faces(getattr(options, "faces", 0))),
        "corpus": text.load_corpus(options.corpus).digest,
    }


KINDS: dict[str, Kind] = {
    "lines": Kind(lines.sample_line, lines.LineOptions, shards.LINE_SCHEMA, _line_sources),
    "pages": Kind(render.sample_page, render.PageOptions, render.PAGE_SCHEMA, _line_sources),
}
"""Register a kind with one line here."""


@dataclass(frozen=True)
class Recipe:
    """What to build; the YAML file's fields."""

    kind: str
    rows: int = shards.ROWS
    """Rows a shard."""
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r} in the recipe: use one of {', '.join(KINDS)}")
        if self.rows < 1:
            raise ValueError(f"rows is {self.rows} in the recipe: use at least 1")

    def sample_options(self) -> Any:
        return fill(KINDS[self.kind].options, self.options, "options")


def fill(cls: type, values: Any, place: str) -> Any:
    """A dataclass from a mapping; unknown keys are an error with the nearest known one."""
    if not isinstance(values, dict):
        raise ValueError(f"{place} must be a mapping of names to values")
    known = [entry.name for entry in dataclasses.fields(cls)]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"unknown key {key!r} in {place}: {hint}")
    return cls(**{key: _tuples(value) for key, value in values.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def load_recipe(name: str) -> Recipe:
    """A recipe by name or path."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else RECIPES / f"{name}.yaml"
    if not path.exists():
        found = ", ".join(sorted(entry.stem for entry in RECIPES.glob("*.yaml")))
        raise ValueError(f"no recipe {name!r} ({path}): use one of {found}, or a path to a YAML file")
    return fill(Recipe, yaml.safe_load(path.read_text()), path.name)


def sample_rng(seed: int, index: int) -> np.random.Generator:
    """The generator of sample ``index`` of a data set."""
    return np.random.default_rng([seed, index])


def make_rows(recipe: Recipe, seed: int, indexes: range) -> list[dict[str, Any]]:
    """The rows of some indexes."""
    function, options = KINDS[recipe.kind].function, recipe.sample_options()
    return [{**function(sample_rng(seed, index), options), "index": index} for index in indexes]


def _make_shard(task: tuple[Recipe, int, range, Path]) -> tuple[int, int]:
    recipe, seed, indexes, path = task
    size = shards.write_shard(path, make_rows(recipe, seed, indexes), KINDS[recipe.kind].schema)
    return len(indexes), size


def _start_worker() -> None:
    """Let a worker end with its parent, however that ends; else a killed build leaves workers that wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()


def _run(tasks: list[tuple[Recipe, int, range, Path]], workers: int) -> Iterator[tuple[int, int]]:
    """The tasks' results as they come, in this process for one worker."""
    if workers == 1:
        yield from map(_make_shard, tasks)
        return
    # Workers are forked where that exists, to share faces and corpus. A child of a process whose OpenCV has a thread
    # pool hangs, so the pool is given up first; workers use one thread each anyway.
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    try:
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker) as pool:
            try:
                for done in as_completed([pool.submit(_make_shard, task) for task in tasks]):
                    yield done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool as error:
        raise OSError(
            "a worker died, perhaps for lack of memory: run the same command again with fewer --workers"
        ) from error
    finally:
        cv2.setNumThreads(threads)


def build(recipe: Recipe, folder: Path, count: int, seed: int, workers: int = 1) -> dict[str, Any]:
    """Make all missing shards of a data set and finish it.

    Returns:
        What the marker holds.
    """
    sources = KINDS[recipe.kind].sources(recipe.sample_options())
    described = {**dataclasses.asdict(recipe), "count": count, "seed": seed, "sources": sources}
    missing = shards.open_folder(folder, _plain(described))
    ranges = shards.shard_ranges(count, recipe.rows)
    tasks = [(recipe, seed, ranges[number], shards.shard_path(folder, number)) for number in missing]
    print(
        f"{recipe.kind}: {count} samples in {len(ranges)} shards, {len(missing)} to make, "
        f"seed {seed}, {workers} workers; {sources}",
        flush=True,
    )
    started, made = time.perf_counter(), 0
    for number, (rows, size) in enumerate(_run(tasks, workers), 1):
        made += rows
        rate = made / (time.perf_counter() - started)
        print(f"shard {number}/{len(tasks)}: {made} samples, {rate:.0f} samples/s, {size / 1e6:.1f} MB", flush=True)
    return shards.finish(folder)


def _plain(value: Any) -> Any:
    """As JSON would give it back, so that recipes compare."""
    return json.loads(json.dumps(value))


def preview(recipe: Recipe, folder: Path, count: int, seed: int) -> None:
    """Write the first samples as PNG files, with their truth in ``truth.tsv``."""
    KINDS[recipe.kind].sources(recipe.sample_options())
    folder.mkdir(parents=True, exist_ok=True)
    truth = []
    for row in make_rows(recipe, seed, range(count)):
        name = f"{row['index']:06d}.png"
        (folder / name).write_bytes(row["image"]["bytes"])
        truth.append("\t".join([name, *(str(value) for key, value in row.items() if key not in ("image", "index"))]))
    (folder / "truth.tsv").write_text("\n".join(truth) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_pipeline.build", description="Build a data set from a recipe."
    )
    parser.add_argument("recipe", help="a recipe's name or path")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="folder for the shards, or for PNG files with --preview"
    )
    parser.add_argument("--count", type=int, default=10_000, help="samples in all (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="default %(default)s")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--preview", type=int, metavar="N", help="write the first N samples as PNG files instead")
    given = parser.parse_args(arguments)
    if given.count < 1 or given.workers < 1 or given.seed < 0 or (given.preview is not None and given.preview < 1):
        parser.error("--count, --workers and --preview must be at least 1, --seed at least 0")
    try:
        recipe = load_recipe(given.recipe)
        if given.preview:
            preview(recipe, given.output, given.preview, given.seed)
        else:
            build(recipe, given.output, given.count, given.seed, given.workers)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
