"""What ``docvision make`` does: a data set with a progress bar, pictures to look at, or a look into a folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from data_pipeline import build, build_ray, inspection, scale
from data_pipeline.progress import Progress

OK, PARTIAL = 0, 3


def make(recipe: str, out: Path, count: int, seed: int, workers: int, form: str, ray: str = "") -> int:
    """Make a data set, or what is missing of it.

    Args:
        recipe: a name or a path.
        out: folder.
        count: samples in all.
        seed: of the set.
        workers: processes; on a cluster 0 is as many as it has room for.
        form: ``parquet`` or ``webdataset``.
        ray: a cluster's address; empty: on this machine alone.

    Returns:
        The exit code.

    Raises:
        ValueError: the recipe or the folder cannot be used as asked.
        OSError: something cannot be written.
        SampleError: the recipe leaves no sample that can be used.
        ImportError: ray is not installed.
    """
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(out)):
        raise ValueError(f"-o {out} is an address: data sets are made in a folder; copy it when it is whole")
    loaded, show = build.load_recipe(recipe), Progress(sys.stderr)
    if ray:
        with scale.connected(ray, workers):
            engine = build_ray.RayEngine(workers)
            summary = build.build(loaded, out, count, seed, workers, form, show, engine)
    else:
        summary = build.build(loaded, out, count, seed, workers, form, show)
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
