"""``docvision bench tables``, ``table-speed``, ``table-streams`` and ``table-boxes``: tables by several readers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from apps.arguments import TABLE_READERS, UsageError, check_model, one_of
from apps.bench_commands import bench, parts
from apps.console import FAILED, PARTIAL, Debug, missing, save_report, say, show


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
    model: Annotated[
        str, typer.Option(help="Of docvision, crops and stream: packaged name, folder, or hub id.")
    ] = "docvision-tiny",
    debug: Debug = False,
) -> None:
    """Compare table extractors: predictions, then the benchmark's scores in one table."""
    from apps import bench_tables as benchmarks

    names = [one_of(name, tuple(benchmarks.TABLE_ENGINES), "--engine") for name in dict.fromkeys(engine or ())]
    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    found = benchmarks.compare(manifest, out, names, chosen, scorer, say, model)
    for reason in found.missing.values():
        say(f"{reason}; skipped")
    show(benchmarks.markdown(found.rows).rstrip("\n"))
    if found.missing:
        raise typer.Exit(PARTIAL if found.rows else FAILED)


@bench.command("table-speed")
def bench_table_speed(
    sizes: Annotated[str, typer.Option(help="Rows x columns of the tables.")] = "5x5,10x8,30x15",
    rounds: Annotated[int, typer.Option(min=1, help="Of which the median is taken.")] = 3,
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    json_out: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
    debug: Debug = False,
) -> None:
    """Time one table of each size by every table reader.

    Prints seconds, and how they grow with the number of cells.
    """
    try:
        from apps import bench_table_speed as benchmarks
        from apps.bench import table
    except ImportError as error:
        raise missing(error, "data") from None
    from docvision.model import DocVisionModel

    chosen = []
    for part in parts(sizes):
        found = re.fullmatch(r"(\d+)x(\d+)", part)
        if not found or not all(1 <= int(number) <= 60 for number in found.groups()):
            raise UsageError(f"--sizes {part!r}: rows x columns, each from 1 to 60, such as 10x8")
        chosen.append((int(found[1]), int(found[2])))
    check_model(model, device)
    report = benchmarks.measure(DocVisionModel.from_pretrained(model, device), chosen, rounds)
    show(table([{key: row[key] for key in benchmarks.SHOWN} for row in report["rows"]]))
    if len(chosen) > 1:
        show("time grows with cells to the power of " + ", ".join(f"{k} {v}" for k, v in report["growth"].items()))
    save_report(json_out, report)


@bench.command("table-streams")
def bench_table_streams(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", exists=True, file_okay=False, help="From docvision make tables.")
    ],
    readers: Annotated[
        str, typer.Option(help="decoder (its stream alone), maps, crops, stream.")
    ] = "decoder,maps,crops",
    limit: Annotated[int, typer.Option(min=1, help="Tables, drawn at random.")] = 200,
    cells: Annotated[int, typer.Option(min=0, help="Of the largest table; 0 for any.")] = 0,
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    json_out: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
    debug: Debug = False,
) -> None:
    """Score the tables of a made data set by their size.

    Prints TEDS and boxes of the decoder's stream, and of what the table readers make of it.
    """
    try:
        from apps import bench_table_streams as benchmarks
        from apps.bench import table
        from docvision.batches import DataError
    except ImportError as error:
        raise missing(error, "train") from None
    from docvision.model import DocVisionModel
    from docvision.reader import ModelReader

    names = parts(readers)
    for name in names or [""]:
        one_of(name, (benchmarks.DECODER, *TABLE_READERS), "--readers")
    check_model(model, device)
    try:
        places = benchmarks.load(data, limit, cells)
    except DataError as error:
        raise UsageError(str(error)) from None
    report = benchmarks.measure(ModelReader(DocVisionModel.from_pretrained(model, device)), data, places, names, say)
    shown = [
        {key: "-" if value is None else value for key, value in row.items() if not key.endswith("_interval")}
        for row in report["rows"]
    ]
    show(table(shown))
    save_report(json_out, report)


@bench.command("table-boxes")
def bench_table_boxes(
    files: Annotated[list[str], typer.Argument(metavar="FILE[:PAGE]...", help="Documents, with the page to show.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="JPEG to write.")],
    picture: Annotated[
        list[str] | None, typer.Option(metavar="FILE[:PAGE]", help="Read it from its picture; give it several times.")
    ] = None,
    table_reader: Annotated[str, typer.Option(help="maps, crops or stream.")] = "maps",
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    debug: Debug = False,
) -> None:
    """Draw the boxes of cells and texts over tables, side by side in one picture."""
    from apps import bench_table_boxes as boxes
    from apps.outputs import write_atomic
    from docvision.parse import DocumentParser, ParseOptions

    one_of(table_reader, TABLE_READERS, "--table-reader")
    parser = DocumentParser(ParseOptions(model=model, table_reader=table_reader))
    drawn = boxes.draw_tables(parser, [_place(given) for given in files])
    drawn += boxes.draw_tables(parser.with_options(text="model"), [_place(given) for given in picture or ()])
    write_atomic(out, [boxes.contact_picture(drawn)])


def _place(given: str) -> tuple[Path, int]:
    """A file and its page, 1 where none is named."""
    path, _, page = given.rpartition(":")
    return (Path(path), int(page)) if path and page.isdigit() else (Path(given), 1)
