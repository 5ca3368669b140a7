"""``docvision bench``: parsers, table extractors, decoding and data making side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from apps.arguments import LAYOUT, UsageError, check_model, one_of
from apps.console import FAILED, PARTIAL, Debug, missing, save_report, say, show

bench = typer.Typer(
    help="Compare parsers on the same documents: quality and speed.", no_args_is_help=True, rich_markup_mode=None
)
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


@bench.command("scorecard")
def bench_scorecard(
    folder: Annotated[
        Path, typer.Option("--bench", exists=True, file_okay=False, help="Folder of a benchmark with manifest.jsonl.")
    ],
    only: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Give it several times.")] = None,
    peers: Annotated[str, typer.Option(help="Some peers, by commas.", show_default="all")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Documents of each kind; 0 for all.")] = 0,
    cache: Annotated[Path, typer.Option(help="What was read is kept there.")] = Path("build/scorecard"),
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds for one document.")] = 300.0,
    peers_python: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Python of an environment with the peers.")
    ] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the tables there, between its marks where it has them.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure docvision beside its peers on a benchmark.

    Prints quality, processor time, memory and size on disk for every kind of document.
    """
    from apps import card_page, scorecard
    from apps.outputs import write_atomic
    from apps.peers import PEERS

    names = [one_of(name, tuple(PEERS), "--peers") for name in parts(peers)]
    wish = scorecard.Wish(folder, only or (), names, limit, cache, time_limit)
    if peers_python is not None:
        wish = replace(wish, peers_python=str(peers_python.absolute()))
    card = scorecard.make_card(wish, say=say)
    page = card_page.tables(card)
    show(page.rstrip("\n"))
    if json_out is not None:
        write_atomic(json_out, [scorecard.to_json(card, wish)])
    if markdown is not None:
        write_atomic(markdown, [card_page.placed(page, markdown)])


@bench.command("confidence")
def bench_confidence(
    source: Annotated[Path, typer.Argument(metavar="SHARDS|MANIFEST", exists=True, help="Lines with their truth.")],
    limit: Annotated[int, typer.Option(min=1, help="Most lines.")] = 1000,
    risk: Annotated[str, typer.Option(help="Character error rates to stay below.")] = "0.01,0.02,0.05",
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    json_out: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write confidence against what is right there, as SVG.")] = None,
    debug: Debug = False,
) -> None:
    """Compare the confidence of read lines with how much of them is right.

    Prints ten bins, the calibration error, and from which confidence on a line errs less than asked.
    """
    from apps import bench_confidence as benchmarks
    from apps.bench import table
    from apps.outputs import write_atomic

    risks = [_share(part, "--risk") for part in parts(risk)]
    lines = benchmarks.read(source, limit, model)
    bins, kept = benchmarks.bins(lines), [benchmarks.kept(lines, value) for value in risks]
    show(table(bins))
    show(f"\ncalibration error {benchmarks.calibration_error(lines):.4f} over {len(lines)} lines\n")
    show(table(kept))
    if json_out is not None:
        report = {"calibration_error": benchmarks.calibration_error(lines), "bins": bins, "kept": kept}
        write_atomic(json_out, [json.dumps(report, indent=1) + "\n"])
    if plot is not None:
        write_atomic(plot, [benchmarks.plot(lines)])


@bench.command("soak")
def bench_soak(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Documents.")],
    pages: Annotated[int, typer.Option(min=1, help="Read the documents again until so many pages are read.")] = 2000,
    workers: Annotated[int, typer.Option(min=1, help="Of the second run; the first has one.")] = 2,
    layout: Annotated[str, typer.Option(help="auto, or rules: never load the model.")] = "rules",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the workers' memory over the pages there, as SVG.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Watch a long batch: speed with one worker and with more, and the memory that they take.

    Exit code 3 if memory has grown by more than a tenth between the second and the last quarter.
    """
    from apps import bench_soak as benchmarks
    from apps.bench import table
    from docvision.parse import ParseOptions

    one_of(layout, LAYOUT, "--layout")
    rows, watch = benchmarks.compare(files, pages, workers, ParseOptions(layout=layout))
    show(table(rows))
    if out is not None:
        out.write_text(benchmarks.plot(watch), encoding="utf-8")
    if any(row["mb_last"] > 1.1 * row["mb_first"] for row in rows):
        say("memory grows: a batch of many more pages would not fit")
        raise typer.Exit(PARTIAL)


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
        list[Path] | None,
        typer.Option(
            exists=True,
            help="PDF, or folder of shards or PDFs; may be repeated.",
            show_default="drawn on the spot",
        ),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Some of text,born_digital,table.", show_default="all that the data has")
    ] = None,
    accept: Annotated[
        str, typer.Option(help="For methods that name none: some of exact,all,confidence(TAU).")
    ] = "exact",
    batch: Annotated[str, typer.Option(help="Rows decoded together.")] = "1,8,32",
    limit: Annotated[int, typer.Option(min=1, help="Sequences of each task.")] = 32,
    tokens: Annotated[int, typer.Option(min=16, help="Most tokens of a sequence.")] = 512,
    max_width: Annotated[int, typer.Option(min=32, help="Wider lines are left out.")] = 640,
    max_cells: Annotated[int, typer.Option(min=1, help="Larger tables are left out.")] = 30,
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
    from apps.decode_samples import TASKS, Bounds, present
    from docvision.model import DocVisionModel

    check_model(model, device)
    loaded = DocVisionModel.from_pretrained(model, device)
    try:
        sizes = [whole(part, "--batch") for part in parts(batch)]
        names = benchmarks.crossed(parts(methods or ",".join(["ctc", "textlayer", *loaded.methods])), parts(accept))
        bounds = Bounds(limit, max_width, max_cells)
        chosen = list(present(data or (), bounds)) if tasks is None else parts(tasks)
        if tasks is None and len(chosen) < len(TASKS):
            say(f"--data has no samples of {', '.join(task for task in TASKS if task not in chosen)}: left out")
        report = benchmarks.bench(loaded, names, data or (), chosen, sizes, bounds, tokens)
    except ValueError as error:
        raise UsageError(str(error)) from None
    show(table([{key: row[key] for key in benchmarks.SHOWN} for row in report["rows"]]))
    save_report(json_out, report)
    if plot is not None:
        plot.write_text(benchmarks.plot(report["rows"]), encoding="utf-8")


def parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def whole(text: str, option: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"{option} {text!r}: whole numbers from 1, such as 1,8,32")
    return int(text)


def _share(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{option} {text!r}: shares from 0 to 1, such as 0.01,0.05")
    return value


def _engines(names: Sequence[str]) -> list[str]:
    from apps.bench import ENGINES

    return [one_of(name, tuple(ENGINES), "--engine") for name in dict.fromkeys(names)]
