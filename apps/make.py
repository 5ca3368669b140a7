"""What ``docvision make`` does: a data set with a progress bar, pictures to look at, or a look into a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from data_pipeline import build, inspection
from data_pipeline.progress import Progress

OK, PARTIAL = 0, 3


def make(recipe: str, out: Path, count: int, seed: int, workers: int, form: str) -> int:
    """Make a data set, or what is missing of it.

    Returns:
        The exit code.

    Raises:
        ValueError: the recipe or the folder cannot be used as asked.
        OSError: something cannot be written.
        SampleError: the recipe leaves no sample that can be used.
    """
    summary = build.build(build.load_recipe(recipe), out, count, seed, workers, form, Progress(sys.stderr))
    size = sum(entry["bytes"] for entry in summary["files"])
    dropped = sum(summary["dropped"].values())
    print(f"{out}: {count:,} samples, {size / 1e6:,.1f} MB, {dropped:,} drawn and not kept", file=sys.stderr)
    return OK


def preview(recipe: str, out: Path, count: int, seed: int) -> int:
    """Write the first samples as pictures with their truth drawn in."""
    paths = build.preview(build.load_recipe(recipe), out, count, seed)
    print(
        f"{out}: {len(paths)} picture{'s' if len(paths) > 1 else ''}, {paths[0].name} to {paths[-1].name}",
        file=sys.stderr,
    )
    return OK


def inspect(folder: Path) -> int:
    """Print what lies in a data set's folder; exit code 3 where it is not complete and whole."""
    report = inspection.inspect(folder)
    print("\n".join(inspection.lines(report)))
    return OK if report.complete else PARTIAL
