"""Recipe -> shards: ``docvision make NAME -o DIR``, or ``python -m data_pipeline.build`` with the same options.

NAME is a recipe in ``recipes/`` or a path to one.  A recipe names a *kind* of sample and its options; :data:`KINDS`
lists the kinds.  Sample i of seed s depends on (s, i) and the recipe only, not on the workers or their number: each
sample has a generator of its own.  (A page whose text stands in its shard already is drawn again, so the recipe's
``rows`` count too.)  Kill the build at any time and start the same command again: it goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from data_pipeline import (
    checks,
    fonts,
    glyphs,
    lines,
    mixed,
    overlay,
    pictures,
    processes,
    progress,
    render,
    shards,
    table_sets,
    text,
)
from data_pipeline.options import RecipeError, fill, read_yaml

RECIPES = Path(__file__).parent / "recipes"
_LIBRARIES = ("docvision", "fonttools", "numpy", "opencv-python-headless", "pillow", "pyarrow", "pypdfium2", "typst")
"""What a sample's bytes depend on besides the sources."""

_REDRAWS = 20
"""Repeats are kept after so many tries: a recipe may have little to say."""


class SampleError(RuntimeError):
    """A sample that cannot be made."""


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


def _line_sources(options: Any) -> dict[str, str]:
    return {
        "fonts": fonts.digest(fonts.find_faces(getattr(options, "faces", 0))),
        "corpus": text.load_corpus(options.corpus).digest,
    }


def _line_faces(options: lines.LineOptions) -> dict[str, str]:
    """Sources of lines, with the kinds that this machine has no face for.

    Raises:
        RecipeError: that is all of them.
    """
    wanted = sorted(kind for kind, share in options.kinds.items() if share > 0 and kind != "empty")
    groups = fonts.by_group(fonts.find_faces(options.faces)).keys()
    lacking = [kind for kind in wanted if not groups & lines._KIND_GROUPS[kind].keys()]
    if lacking and lacking == wanted:
        raise RecipeError(
            f"no face on this machine for lines of kind {', '.join(lacking)}: install some (packages in "
            f"{RECIPES / 'lines.yaml'}) or name other kinds"
        )
    return {**_line_sources(options), **({"drawn as print": ", ".join(lacking)} if lacking else {})}


def _page_faces(options: Any) -> dict[str, str]:
    """Sources of what Typst sets.

    Raises:
        RecipeError: there is no family to set text in.
        PictureError: the folder of paper and stamps cannot be used.
    """
    if not render.families():
        raise RecipeError(
            "no font family with accents that both fontconfig and Typst know: install some, such as fonts-dejavu "
            "fonts-liberation (apt-get install)"
        )
    own = getattr(options, "pictures", pictures.PictureOptions())  # tables have none
    return {**_line_sources(options), **pictures.sources(own)}


KINDS: dict[str, Kind] = {
    "lines": Kind(lines.sample_line, lines.LineOptions, shards.LINE_SCHEMA, _line_faces),
    "pages": Kind(render.sample_page, render.PageOptions, render.PAGE_SCHEMA, _page_faces),
    "mixed": Kind(mixed.sample_mixed, mixed.MixedOptions, render.PAGE_SCHEMA, _page_faces),
    "tables": Kind(table_sets.sample_table, table_sets.TableOptions, table_sets.TABLE_SCHEMA, _page_faces),
    "glyphs": Kind(glyphs.sample_glyph, glyphs.GlyphOptions, glyphs.GLYPH_SCHEMA, glyphs.sources),
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
        self.sample_options()

    def sample_options(self) -> Any:
        return fill(KINDS[self.kind].options, self.options, "options")


def load_recipe(name: str) -> Recipe:
    """A recipe by name or path.

    Raises:
        RecipeError: there is none of that name, or something in it is wrong.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else RECIPES / f"{name}.yaml"
    if not path.exists():
        found = ", ".join(sorted(entry.stem for entry in RECIPES.glob("*.yaml")))
        raise RecipeError(f"no recipe {name!r} ({path}): use one of {found}, or a path to a YAML file")
    return fill(Recipe, read_yaml(path), path.name)


def sample_rng(seed: int, index: int) -> np.random.Generator:
    """The generator of sample ``index`` of a data set."""
    return np.random.default_rng([seed, index])


def make_rows(recipe: Recipe, seed: int, indexes: range, tick: processes.Tick = lambda: None) -> list[dict[str, Any]]:
    """The rows of some indexes; ``tick`` is called after each.

    Raises:
        SampleError: the recipe leaves no sample that can be used.
    """
    function, options = KINDS[recipe.kind].function, recipe.sample_options()
    rows: list[dict[str, Any]] = []
    seen: set[int] = set()
    for index in indexes:
        try:
            rng = sample_rng(seed, index)
            row = function(rng, options)
            for _ in range(_REDRAWS):
                if not checks.is_repeat(row, seen):
                    break
                render.DROPPED["repeated text"] += 1
                row = function(rng, options)
            rows.append({**row, "index": index})
        except (RuntimeError, ValueError, OSError) as error:
            raise SampleError(
                f"sample {index} of seed {seed} cannot be made: {' '.join(str(error).split())}"
            ) from error
        tick()
    return rows


@dataclass(frozen=True)
class ShardTask:
    """One shard to make."""

    recipe: Recipe
    seed: int
    indexes: range
    path: Path


Engine = Callable[[Sequence[ShardTask], dict[str, Any], Callable[[int], None]], Iterable[Any]]
"""(tasks, what the folder holds by its recipe, told the samples so far) -> something for each shard that is written."""


def make_shard(task: ShardTask, tick: processes.Tick = lambda: None) -> int:
    """Make and write a shard; its size in bytes."""
    before = Counter(render.DROPPED)
    rows = make_rows(task.recipe, task.seed, task.indexes, tick)
    dropped: Counter[str] = Counter()
    for reason, number in (render.DROPPED - before).items():
        if reason != "kept":
            dropped[_general(reason)] += number
    return shards.write_shard(task.path, rows, KINDS[task.recipe.kind].schema, dropped)


def _general(reason: str) -> str:
    """A reason without the words and numbers of the one sample, so that equal reasons add up."""
    return re.sub(r"\d+", "N", re.sub(r"\s*'.*", " ...", reason))


def build(
    recipe: Recipe, folder: Path, count: int, seed: int, workers: int = 1, form: str = "parquet",
    show: progress.Progress | None = None, engine: Engine | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Make all missing shards of a data set and finish it.

    Args:
        recipe: what to make.
        folder: where; an unfinished data set of the same recipe is gone on with.
        count: samples in all.
        seed: of the whole set.
        workers: processes.
        form: ``parquet`` or ``webdataset``.
        show: told how far it is; None writes lines to standard error.
        engine: makes the shards elsewhere than in processes of this machine.

    Returns:
        What the marker holds.
    """
    show = show or progress.Progress(sys.stderr)
    surroundings = surroundings_of(recipe)
    sources = surroundings["sources"]
    described = _plain({**dataclasses.asdict(recipe), "count": count, "seed": seed, "format": form, **surroundings})
    where = f"{workers} worker{'s' if workers > 1 else ''}" if engine is None else "on a Ray cluster"
    with shards.locked(folder) as lock:
        missing, damaged = shards.open_folder(folder, described)
        ranges = shards.shard_ranges(count, recipe.rows)
        tasks = [ShardTask(recipe, seed, ranges[k], shards.shard_path(folder, k, form)) for k in missing]
        for name, reason in damaged.items():
            show.say(f"{folder / name} is damaged and made again: {reason}")
        show.say(
            f"{recipe.kind}: {count} samples in {len(ranges)} shards, {len(missing)} to make, seed {seed}, "
            f"{where}; {', '.join(f'{k} {v}' for k, v in sources.items())}"
        )
        show.start(sum(len(task.indexes) for task in tasks))
        try:
            if engine is None:
                made: Iterable[Any] = processes.run(make_shard, tasks, workers, show.update, lock, not typst_ran())
            else:
                made = engine(tasks, described, show.update)
            for _ in made:
                pass
            summary = shards.finish(folder)
        finally:
            show.close()
            shards.sweep(folder)
    return summary


def typst_ran() -> bool:
    """Whether this process has typeset something: Typst's threads do not survive a fork, and the child would hang."""
    return render._compiler.cache_info().currsize > 0


def surroundings_of(recipe: Recipe) -> dict[str, Any]:
    """What a sample's bytes depend on besides recipe, seed and index, as this machine has it."""
    return {"sources": KINDS[recipe.kind].sources(recipe.sample_options()), "versions": _versions()}


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # another build of OpenCV, a checkout that was never installed
            found[name] = "unknown"
    return found


def _plain(value: Any) -> Any:
    """As JSON would give it back, so that recipes compare."""
    return json.loads(json.dumps(value))


def preview(recipe: Recipe, folder: Path, count: int, seed: int) -> list[Path]:
    """Write the first samples as PNG files with their truth drawn in, one file a sample.

    Raises:
        ShardError: the folder holds a data set or is none.
    """
    KINDS[recipe.kind].sources(recipe.sample_options())
    if (folder / shards.RECIPE).exists():
        raise shards.ShardError(f"{folder} holds a data set: give -o another folder for the pictures")
    with shards.locked(folder):
        paths = []
        for row in make_rows(recipe, seed, range(count)):
            paths.append(folder / f"{row['index']:06d}.png")
            shards.write_atomic(paths[-1], overlay.draw(row))
    return paths


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_pipeline.build", description="Build a data set from a recipe."
    )
    parser.add_argument("recipe", help="a recipe's name or path")
    parser.add_argument("-o", "--out", "--output", type=Path, required=True, help="folder for the shards or previews")
    parser.add_argument("--count", type=int, default=10_000, help="samples in all (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="default %(default)s")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--format", choices=tuple(shards.FORMATS), default="parquet", help="default %(default)s")
    parser.add_argument("--preview", type=int, metavar="N", help="write the first N samples as PNG files instead")
    given = parser.parse_args(arguments)
    if given.count < 1 or given.workers < 1 or given.seed < 0 or (given.preview is not None and given.preview < 1):
        parser.error("--count, --workers and --preview must be at least 1, --seed at least 0")
    try:
        recipe = load_recipe(given.recipe)
        if given.preview:
            preview(recipe, given.out, given.preview, given.seed)
        else:
            build(recipe, given.out, given.count, given.seed, given.workers, given.format)
    except (ValueError, OSError, SampleError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
