"""``docvision bench ray`` and ``bench scale``: what Ray costs, and how long a corpus takes on many cores."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from apps.arguments import LAYOUT, UsageError, one_of
from apps.bench_table_commands import bench
from apps.console import Debug, missing, save_report, show

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Documents.")]
Layout = Annotated[str, typer.Option(help="auto, or rules: never load the model.")]


@bench.command("ray")
def bench_ray(
    files: Files,
    pages: Annotated[int, typer.Option(min=1, help="Read by each engine in all rounds together.")] = 500,
    workers: Annotated[int, typer.Option(min=1, help="Of each engine.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="By turns.")] = 4,
    ray: Annotated[str, typer.Option(metavar="auto|HOST:PORT", help="The cluster.")] = "auto",
    layout: Layout = "rules",
    debug: Debug = False,
) -> None:
    """Time the same documents by local workers and on Ray, by turns.

    Prints pages per second with and without the time to the first document, and the ratio to local workers.
    """
    from apps import bench_ray as benchmarks
    from apps.bench import table
    from data_pipeline.cluster_address import check_address
    from docvision.parse import ParseOptions

    one_of(layout, LAYOUT, "--layout")
    try:
        check_address(ray)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        show(table(benchmarks.compare(files, pages, workers, rounds, ray, ParseOptions(layout=layout))))
    except ImportError as error:
        raise missing(error, "ray") from None


@bench.command("scale")
def bench_scale(
    files: Files,
    pages: Annotated[int, typer.Option(min=1, help="Of the corpus.")] = 10_000_000,
    cores: Annotated[str, typer.Option(help="Numbers of cores.")] = "64,1000,10000",
    length: Annotated[float, typer.Option(min=1, help="Mean pages of a document.")] = 10.0,
    ratio: Annotated[int, typer.Option(min=1, help="The simulation's scale, 1:N.")] = 1000,
    start: Annotated[float, typer.Option(min=0, help="Seconds until a worker is there.")] = 60.0,
    files_per_s: Annotated[float, typer.Option(min=1, help="Small files that the store takes a second.")] = 3000.0,
    price: Annotated[float, typer.Option(min=0, help="Dollars a core and hour.")] = 0.04,
    layout: Layout = "rules",
    json_out: Annotated[Path | None, typer.Option("--json", help="Write what was measured there too.")] = None,
    debug: Debug = False,
) -> None:
    """Predict how long a corpus takes on many cores, and simulate it.

    Prints hours by a formula and by a simulation, what bounds them, the parts that do not scale, and the price.
    """
    from apps import bench_scale as benchmarks
    from apps.bench import table
    from apps.bench_commands import parts, whole
    from docvision.parse import ParseOptions

    one_of(layout, LAYOUT, "--layout")
    numbers = [whole(part, "--cores") for part in parts(cores)]
    measured = benchmarks.measure(files, ParseOptions(layout=layout))
    cluster = benchmarks.Cluster(start=start, files=files_per_s, price=price)
    rows = benchmarks.table(measured, cluster, numbers, pages, length, 2, ratio)
    page = sum(measured.pages) / len(measured.pages)
    show(
        f"{len(measured.pages)} pages of {1000 * page:.1f} ms of one core ({1 / page:.1f} pages/s), "
        f"{1000 * measured.document:.1f} ms more a document, {1000 * measured.outcome:.2f} ms of the driver"
    )
    show(table(rows))
    save_report(json_out, {"measured": asdict(measured), "cluster": asdict(cluster), "rows": rows})
