"""``docvision bench``: parsers, table extractors, decoding and data making side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from apps.arguments import UsageError, one_of
from apps.console import FAILED, PARTIAL, Debug, missing, say, show

bench = typer.Typer(help="Compare parsers on the same documents: quality and speed.", rich_markup_mode=None)
Engines = Annotated[
    list[str], typer.Option("--engine", help="A parser, docvision or an installed peer; give it several times.")
]


@bench.command("predict")
def bench_predict(
    manifest: Annotated[Path, typer.Argument(metavar="MANIFEST", exists=True, dir_okay=False, help="JSON lines.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for a folder of predictions for each engine.")],
    engine: Engines,
    kinds: Annotated[str, typer.Option(help="Only rows of these kinds, such as pdf_text,scan.")] = "",
    debug: Debug = False,
) -> None:
    """Write predictions for a scorer.

    Prints how many files each engine could not read.
    """
    from apps import bench as benchmarks

    names = _engines(engine)
    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    failures = benchmarks.predict(manifest, out, names, chosen)
    show(benchmarks.table([{"engine": name, "unread": count} for name, count in failures.items()]))


@bench.command("speed")
def bench_speed(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Documents.")],
    engine: Engines,
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds, after one to warm up.")] = 3,
    debug: Debug = False,
) -> None:
    """Time parsers side by side.

    Prints pages per second of each engine and the ratio to the first one.
    """
    from apps import bench as benchmarks

    rows = benchmarks.speed(files, _engines(engine), rounds)
    show(benchmarks.table(rows))
    if any(row["unread"] for row in rows):
        say("some files could not be read, so these rates are no speeds: leave them out")
        raise typer.Exit(FAILED if all(row["unread"] for row in rows) else PARTIAL)


@bench.command("data")
def bench_data(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Recipes of docvision make.")],
    count: Annotated[int, typer.Option(min=1, help="Samples of each build.")] = 40,
    workers: Annotated[int, typer.Option(min=1, help="Of the second build; the first has one.")] = 2,
    debug: Debug = False,
) -> None:
    """Time the making of training data.

    Prints samples per second by the clock and by processor time, and what more workers add.
    """
    try:
        from apps import bench_data as benchmarks
        from apps.bench import table
    except ImportError as error:
        raise missing(error, "data") from None
    try:
        loaded = benchmarks.load(recipes)
    except ValueError as error:
        raise UsageError(str(error)) from None
    show(table(benchmarks.speed(loaded, count, workers)))


@bench.command("tables")
def bench_tables(
    manifest: Annotated[Path, typer.Argument(metavar="MANIFEST", exists=True, dir_okay=False, help="JSON lines.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for a folder of predictions for each engine.")],
    engine: Annotated[
        list[str] | None, typer.Option("--engine", help="Give it several times.", show_default="all")
    ] = None,
    kinds: Annotated[str, typer.Option(help="pdf_table, table_image or both.")] = "pdf_table,table_image",
    scorer: Annotated[
        Path | None, typer.Option(help="The benchmark's scorer.", show_default="score.py beside MANIFEST")
    ] = None,
    debug: Debug = False,
) -> None:
    """Compare table extractors: predictions, then the benchmark's scores in one table."""
    from apps import bench_tables as benchmarks

    names = [one_of(name, tuple(benchmarks.TABLE_ENGINES), "--engine") for name in dict.fromkeys(engine or ())]
    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    found = benchmarks.compare(manifest, out, names, chosen, scorer, say)
    for reason in found.missing.values():
        say(f"{reason}; skipped")
    show(benchmarks.markdown(found.rows).rstrip("\n"))
    if found.missing:
        raise typer.Exit(PARTIAL if found.rows else FAILED)


@bench.command("decode")
def bench_decode(
    methods: Annotated[
        str | None,
        typer.Option(
            help="Some of ptp,pmtp,mtp,ctc,textlayer; NAME/ACCEPT/OPTION=VALUE, such as ptp/all/registers=2.",
            show_default="all that the model has",
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    data: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Shards or PDFs.", show_default="lines drawn on the spot"),
    ] = None,
    tasks: Annotated[str, typer.Option(help="Some of text,born_digital,table.")] = "text,born_digital",
    batch: Annotated[str, typer.Option(help="Rows decoded together.")] = "1,8,32",
    limit: Annotated[int, typer.Option(min=1, help="Sequences of each task.")] = 64,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    json_out: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write speed against score there, as SVG.")] = None,
    debug: Debug = False,
) -> None:
    """Compare ways to decode on one model.

    Prints tokens a forward, speed relative to plain decoding in the same run, and whether the output is the same.
    """
    from apps import bench_decode as benchmarks
    from apps.bench import table
    from docvision.model import DocVisionModel

    loaded = DocVisionModel.from_pretrained(model, device)
    names = [name.strip() for name in (methods or ",".join(["ctc", "textlayer", *loaded.methods])).split(",")]
    try:
        sizes = [int(part) for part in batch.split(",")]
        report = benchmarks.bench(loaded, names, data, [task.strip() for task in tasks.split(",")], sizes, limit)
    except ValueError as error:
        raise UsageError(str(error)) from None
    show(table([{key: row[key] for key in benchmarks.SHOWN} for row in report["rows"]]))
    if json_out is not None:
        json_out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if plot is not None:
        plot.write_text(benchmarks.plot(report["rows"]), encoding="utf-8")


def _engines(names: Sequence[str]) -> list[str]:
    from apps.bench import ENGINES

    return [one_of(name, tuple(ENGINES), "--engine") for name in dict.fromkeys(names)]
