"""How long a corpus takes on many cores: a formula, and a simulation event by event that checks it.

    docvision bench scale examples/two-columns.pdf --pages 10000000 --cores 64,1000,10000

Measured here, by processor time: seconds a page and a document of the files given, and what a driver does for each
outcome (the journal's line, the task's and the answer's JSON).  Assumed, since they belong to the cluster: what is in
:class:`Cluster`.  Four things do not scale with the cores: listing the inputs, one driver's outcomes a second, the
store's small files a second, and the last documents, for which most workers wait.

The simulation draws documents from the measured ones, hands them out as scale.py does, lets pages hang, and makes one
worker of ``cores`` wait for the driver and for the store where these are behind.  It runs at a scale of 1:1000: a
thousandth of the pages on a thousandth of the cores (at least ``LEAST``), with drivers and store a thousandth as fast,
so that everything is as busy as it would be, and times stay times.  Only the tail is flattered: of fewer documents the
last one is less bad.
"""

from __future__ import annotations

import heapq
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from apps.jobs import Outcome, Task
from apps.manifest import Manifest
from apps.outputs import Item, Outputs
from apps.parts import PART_PAGES, SPLIT_PAGES
from apps.read_task import Settings, TaskReader
from docvision.parse import ParseOptions

LEAST = 10
"""Cores of a simulation, at least."""
OUTCOMES = 500
"""Over which the driver's work is measured."""


@dataclass(frozen=True)
class Cluster:
    """What is assumed of a cluster; options of the command."""

    start: float = 60.0
    """Seconds until a worker is there: a container is fetched, the model loaded."""
    listed: float = 2000.0
    """Inputs that one driver lists a second; object stores give 1,000 a request."""
    files: float = 3000.0
    """Small files that the store takes a second; one prefix of S3 takes 3,500."""
    call: float = 0.001
    """Of the driver for a task on Ray, see ``bench ray``."""
    cores_per_driver: int = 500
    """More cores are several runs, each with a part of the inputs and an output folder of its own."""
    hang: float = 1e-5
    """Share of pages that hang until their time is up."""
    timeout: float = 300.0
    spread: float = 0.6
    """Of the length of documents: the sigma of a log-normal distribution."""
    price: float = 0.04
    """Dollars a core and hour."""


@dataclass(frozen=True)
class Measured:
    """Seconds of one core."""

    pages: tuple[float, ...]
    document: float
    """Of a document besides its pages: opened, hashed, written."""
    outcome: float
    """Of the driver, for each document."""


def measure(files: Sequence[Path], options: ParseOptions, rounds: int = 3) -> Measured:
    """Read the files, after one round to warm up, and keep a journal of made-up outcomes."""
    pages: list[float] = []
    others: list[float] = []
    with tempfile.TemporaryDirectory(prefix="docvision-") as place:
        reader = TaskReader(Settings(options, Outputs(("md", "json"), Path(place))))
        for number in range(rounds + 1):
            for path in files:
                marks: list[float] = []
                began = time.process_time()
                reader.read(Task(str(path), path.stem), lambda *_: marks.append(time.process_time()))  # noqa: B023
                spent = [after - before for before, after in pairwise(marks)]
                if number:
                    pages += spent
                    others.append(time.process_time() - began - sum(spent))
        with Manifest(Path(place, "journal"), {}) as manifest:
            began = time.process_time()
            for number in range(OUTCOMES):
                _record(manifest, number)
            outcome = (time.process_time() - began) / OUTCOMES
    return Measured(tuple(pages), statistics.mean(others), outcome)


def _record(manifest: Manifest, number: int) -> None:
    """What a driver does for a document."""
    task = Task(f"/data/{number:06d}.pdf", f"{number // 1000}/{number:06d}")
    done = Outcome("ok", 10, "0" * 64, {f"{task.name}.md": 20_000, f"{task.name}.json": 90_000})
    task = Task.from_json(json.loads(json.dumps(task.to_json())))
    outcome = Outcome.from_json(json.loads(json.dumps({"outcome": done.to_json()}))["outcome"])
    manifest.record(Item(Path(task.path), task.name), outcome)


def drawn_length(rng: random.Random, mean: float, spread: float) -> int:
    """Pages of a document."""
    return max(1, round(rng.lognormvariate(0.0, spread) * mean / 2.718281828 ** (spread**2 / 2)))


def predict(
    measured: Measured, cluster: Cluster, cores: int, pages: int, length: float, formats: int
) -> dict[str, Any]:
    """Seconds by the formula: what is busiest decides, then comes the tail.

    Args:
        measured: of one core.
        cluster: assumed.
        cores: of all drivers together.
        pages: of the corpus.
        length: mean pages of a document.
        formats: files written for each document.
    """
    drivers = -(-cores // cluster.cores_per_driver)
    documents = pages / length
    page = statistics.mean(measured.pages)
    hung = pages * cluster.hang * cluster.timeout
    core_seconds = pages * page + documents * measured.document + hung
    work = core_seconds / cores
    busy = {
        "cores": work,
        "driver": documents * (measured.outcome + cluster.call) / drivers,
        "store": documents * formats / cluster.files,
    }
    # Most workers wait for the last piece, of PART_PAGES pages or more; where pages hang, for one of those.
    tail = PART_PAGES * page + cluster.timeout * min(1.0, pages * cluster.hang * cluster.timeout / max(work, 1e-9))
    listing = documents / drivers / cluster.listed
    seconds = cluster.start + listing + max(busy.values()) + tail
    return {
        "seconds": seconds, "listing": listing, "tail": tail, "bound": max(busy, key=lambda name: busy[name]),
        "efficiency": core_seconds / cores / seconds, "dollars": seconds * cores / 3600 * cluster.price,
    }  # fmt: skip


def simulate(
    measured: Measured, cluster: Cluster, cores: int, pages: int, length: float, formats: int, ratio: int, seed: int = 0
) -> dict[str, Any]:
    """The same by events, at a scale.

    Returns:
        ``seconds``, ``efficiency`` (share of the cores' time that was work), ``scale`` (1:n), and ``failed`` pages of
        the whole corpus.
    """
    rng = random.Random(seed)
    scale = max(1, min(ratio, cores // LEAST))
    number = round(cores / scale)
    drivers = -(-cores // cluster.cores_per_driver)
    driver_s, store_s = (measured.outcome + cluster.call) * scale / drivers, formats * scale / cluster.files
    pieces = _pieces(rng, measured, cluster, round(pages / scale), length)
    begun = cluster.start + pages / length / drivers / cluster.listed  # the list is whole before work begins
    events = [(begun + piece.seconds, order, piece) for order, piece in enumerate(islice(pieces, number))]
    heapq.heapify(events)
    driver_free = store_free = end = worked = 0.0
    failed, order = 0, number
    while events:
        done, _, piece = heapq.heappop(events)
        worked += piece.seconds
        failed += piece.hung
        if piece.last:
            store_free = max(store_free, done) + store_s
            done = max(done, store_free - store_s)  # behind the files of others
        driver_free = max(driver_free, done) + driver_s
        end = max(end, done)
        following = next(pieces, None)
        if following is not None:
            # The next task is in the worker's hands already: it waits only for a driver that is behind by a whole one.
            free = max(done, driver_free - driver_s - following.seconds)
            heapq.heappush(events, (free + following.seconds, order, following))
            order += 1
    return {
        "seconds": end, "scale": f"1:{scale}", "failed": failed * scale, "efficiency": worked / (end * number),
    }  # fmt: skip


@dataclass(frozen=True)
class _Piece:
    """What one worker reads at a time: a document, or a part of one."""

    seconds: float
    hung: int
    last: bool
    """It makes the document's files."""


def _pieces(rng: random.Random, measured: Measured, cluster: Cluster, pages: int, length: float) -> Iterator[_Piece]:
    """Documents of so many pages in all."""
    while pages > 0:
        size = min(pages, drawn_length(rng, length, cluster.spread))
        pages -= size
        step = size if size <= SPLIT_PAGES else PART_PAGES
        for first in range(0, size, step):
            count = min(step, size - first)
            hung = sum(rng.random() < cluster.hang for _ in range(count))
            seconds = measured.document + sum(rng.choices(measured.pages, k=count)) + hung * cluster.timeout
            yield _Piece(seconds, hung, first + step >= size)


def table(
    measured: Measured, cluster: Cluster, cores: Sequence[int], pages: int, length: float, formats: int, ratio: int
) -> list[dict[str, Any]]:
    """One row a number of cores."""
    rows = []
    for number in cores:
        told = predict(measured, cluster, number, pages, length, formats)
        seen = simulate(measured, cluster, number, pages, length, formats, ratio)
        rows.append(
            {
                "cores": number, "drivers": -(-number // cluster.cores_per_driver),
                "hours": round(told["seconds"] / 3600, 2), "simulated": round(seen["seconds"] / 3600, 2),
                "scale": seen["scale"], "bound": told["bound"], "listing_s": round(told["listing"]),
                "tail_s": round(told["tail"]), "busy": f"{seen['efficiency']:.0%}", "dollars": round(told["dollars"]),
                "failed": seen["failed"],
            }
        )  # fmt: skip
    return rows
