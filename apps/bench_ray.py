"""What Ray costs: the same documents read by local workers and by as many on a cluster, by turns in one run.

    docvision bench ray examples/two-columns.pdf --pages 500 --workers 2

The documents are read again and again, the outputs thrown away.  ``start`` is the time to the first outcome, which a
long run forgets; ``per_s`` counts it, ``per_s_then`` does not.  ``driver_ms`` is this process's own work for each
document, by processor time: it bounds how many workers one driver can feed.
"""

from __future__ import annotations

import io
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps import batch
from apps.batch_log import Log, Tally
from apps.jobs import Task, WorkList
from apps.outputs import Outputs
from apps.ray_engine import RayEngine
from apps.read_task import Settings
from data_pipeline import scale
from docvision.parse import ParseOptions
from docvision.pdf import open_source


@dataclass(frozen=True)
class Round:
    """One engine, once through the documents."""

    pages: int
    start: float
    """Seconds to the first outcome."""
    seconds: float
    driver: float
    """Processor seconds of this process."""
    documents: int


def compare(
    files: Sequence[Path], pages: int, workers: int, rounds: int, address: str, options: ParseOptions
) -> list[dict[str, Any]]:
    """Rows ``local`` and ``ray``, with the ratio of their times: above 1 is slower than local.

    Args:
        files: documents.
        pages: to be read by each engine in all rounds together.
        workers: of each.
        rounds: by turns, beginning with one engine and the other by turns too.
        address: see :func:`data_pipeline.scale.connected`.
        options: how to parse.

    Raises:
        SourceError: a file cannot be read.
        ClusterError: there is no cluster to be had.
    """
    counts = []
    for path in files:
        with open_source(path) as source:
            counts.append(source.page_count)
    repeats = max(1, round(pages / rounds / sum(counts)))
    engines: dict[str, batch.Engine] = {"local": batch.read_in_workers, "ray": RayEngine(workers)}
    done: dict[str, list[Round]] = {name: [] for name in engines}
    with scale.connected(address, workers):
        for number in range(rounds):
            for name in sorted(engines, reverse=bool(number % 2)):
                done[name].append(_once(engines[name], files, repeats, workers, options))
    local = math.fsum(turn.seconds for turn in done["local"])
    local_then = math.fsum(turn.seconds - turn.start for turn in done["local"])
    rows = []
    for name, turns in done.items():
        seconds = math.fsum(turn.seconds for turn in turns)
        start = math.fsum(turn.start for turn in turns)
        read = sum(turn.pages for turn in turns)
        rows.append(
            {
                "engine": name, "workers": workers, "pages": read, "start": round(start / rounds, 2),
                "per_s": round(read / seconds, 2), "per_s_then": round(read / (seconds - start), 2),
                "driver_ms": round(1000 * sum(t.driver for t in turns) / sum(t.documents for t in turns), 2),
                "ratio": round(seconds / local, 3), "ratio_then": round((seconds - start) / local_then, 3),
            }
        )  # fmt: skip
    return rows


def _once(engine: batch.Engine, files: Sequence[Path], repeats: int, workers: int, options: ParseOptions) -> Round:
    with tempfile.TemporaryDirectory(prefix="docvision-") as place:
        scratch = Path(place, ".docvision", "partial")
        scratch.mkdir(parents=True)
        settings = Settings(options, Outputs(("md", "json"), Path(place), scratch=scratch))
        tasks = [Task(str(path.resolve()), f"{number}/{path.stem}") for number in range(repeats) for path in files]
        log = Log(io.StringIO(), True, Tally(len(tasks)))
        how = batch.How(workers=workers)
        began, driver, start, pages = time.perf_counter(), time.process_time(), 0.0, 0
        for _, outcome in engine(WorkList(tasks), settings, log, how):
            start = start or time.perf_counter() - began
            pages += outcome.pages
        seconds = time.perf_counter() - began
        driver = time.process_time() - driver
    return Round(pages, start, seconds, driver, len(tasks))
