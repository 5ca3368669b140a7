"""A long batch under watch: pages per second with one worker and with more, and the memory that the workers take.

    docvision bench soak examples/two-columns.pdf --pages 2000 -o docs/memory.svg

The documents are read again and again; the outputs are thrown away.  A busy machine stretches the clock but hardly the
processor time, so both are given: with cores to itself, N workers read N x (CPU of one) / (CPU of N) times as much,
which is the column ``scaling_cpu``.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.jobs import Task, WorkList
from apps.outputs import Outputs
from apps.read_task import Settings
from apps.workers import Limits, Workers, resident_mb
from docvision.parse import ParseOptions
from docvision.pdf import open_source

WIDTH, HEIGHT, EDGE = 640, 220, 40
"""Of the picture, in pixels."""
COLOURS = ("#1f6feb", "#d1570a", "#2da44e", "#8250df")


@dataclass
class Watch:
    """What was seen of the workers of one run."""

    pages: int = 0
    memory: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """Process -> (pages that all have read, its MB)."""
    seconds: dict[int, float] = field(default_factory=dict)
    """Process -> processor time when it was last seen."""

    def look(self, pids: Sequence[int]) -> None:
        for pid in pids:
            if taken := resident_mb(pid):
                self.memory.setdefault(pid, []).append((self.pages, taken))
                self.seconds[pid] = max(self.seconds.get(pid, 0.0), processor_seconds(pid))


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(files: Sequence[Path], pages: int, workers: int, options: ParseOptions) -> tuple[dict[str, Any], Watch]:
    """Read the files until so many pages are read.

    Returns:
        One row: ``workers``, ``documents``, ``pages``, ``per_s`` (wall clock), ``cpu_ms`` a page, ``mb_first`` and
        ``mb_last``, the median memory of a worker in the second and in the last quarter of its time; and what was seen.

    Raises:
        SourceError: a file cannot be read.
    """
    counts = []
    for path in files:
        with open_source(path) as source:
            counts.append(source.page_count)
    rounds = -(-pages // sum(counts))
    watch = Watch()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "partial").mkdir()
        outputs = Outputs(("md", "json"), Path(place), scratch=Path(place) / "partial")
        tasks = [Task(str(path), f"{number}/{path.stem}") for number in range(rounds) for path in files]

        def on_page() -> None:
            watch.pages += 1
            if watch.pages % max(1, pages // 400) == 0:
                watch.look(crew.pids())

        crew = Workers(workers, Settings(options, outputs), Limits(), on_page=on_page)
        began = time.perf_counter()
        for _, outcome in crew.run(WorkList(tasks)):
            watch.look(crew.pids())
            for name in outcome.files:
                (Path(place) / name).unlink()
        seconds = time.perf_counter() - began
    quarters = [quarter_medians([taken for _, taken in seen]) for seen in watch.memory.values() if len(seen) >= 4]
    row = {
        "workers": workers, "documents": len(tasks), "pages": watch.pages, "per_s": round(watch.pages / seconds, 2),
        "cpu_ms": round(1000 * sum(watch.seconds.values()) / max(1, watch.pages), 1),
        "mb_first": round(max((first for first, _ in quarters), default=0.0), 1),
        "mb_last": round(max((last for _, last in quarters), default=0.0), 1),
    }  # fmt: skip
    return row, watch


def quarter_medians(values: Sequence[float]) -> tuple[float, float]:
    """Medians of the second and the last quarter; the first one is when a process fills its memory."""
    size = len(values) // 4
    return statistics.median(values[size : 2 * size]), statistics.median(values[-size:])


def compare(
    files: Sequence[Path], pages: int, workers: int, options: ParseOptions
) -> tuple[list[dict[str, Any]], Watch]:
    """Rows with one worker and with ``workers``, the second with its ratios to the first; and the last watch."""
    row, watch = run(files, pages, 1, options)
    rows = [row]
    if workers > 1:
        row, watch = run(files, pages, workers, options)
        scaling = {
            "scaling": round(row["per_s"] / rows[0]["per_s"], 2),
            "scaling_cpu": round(workers * rows[0]["cpu_ms"] / max(row["cpu_ms"], 0.1), 2),
        }
        rows = [{**rows[0], "scaling": 1.0, "scaling_cpu": 1.0}, {**row, **scaling}]
    return rows, watch


def plot(watch: Watch) -> str:
    """The memory of each worker over the pages, as SVG."""
    seen = [points for points in watch.memory.values() if len(points) > 1]
    top = max((taken for points in seen for _, taken in points), default=1.0) * 1.2
    right = max(watch.pages, 1)

    def place(pages: float, taken: float) -> str:
        x = EDGE + (WIDTH - EDGE - 10) * pages / right
        return f"{x:.1f},{HEIGHT - EDGE - (HEIGHT - EDGE - 20) * taken / top:.1f}"

    step = 10 ** (len(str(int(top))) - 1)
    step = step if top / step >= 3 else step // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11" fill="#57606a"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{EDGE}" y="14">memory of each worker, MB</text>',
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 8}" text-anchor="end">{watch.pages:,} pages</text>',
    ]
    for mark in range(0, int(top) + 1, max(1, step)):
        x, y = place(0, mark).split(",")
        parts.append(
            f'<path d="M{x} {y}H{WIDTH - 10}" stroke="#d0d7de"/><text x="4" y="{float(y) + 4:.1f}">{mark}</text>'
        )
    for colour, points in zip(COLOURS * len(seen), seen, strict=False):
        line = " ".join(place(pages, taken) for pages, taken in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return "\n".join([*parts, "</svg>", ""])
