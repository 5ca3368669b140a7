"""The commands ``parse`` and ``retry``: documents in, finished files out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.arguments import (
    FORMATS,
    LAYOUT,
    TABLE_READERS,
    TABLES,
    TEXT,
    UsageError,
    check_model,
    check_pages,
    one_of,
    place_of,
)
from apps.console import FAILED, OK, PARTIAL, Debug, missing, say

if TYPE_CHECKING:
    from apps.batch import How
    from apps.batch_log import Tally
    from apps.inputs import Inputs
    from apps.read_task import Settings

Out = Annotated[
    str | None,
    typer.Option("--out", "-o", help="Folder or address for the outputs, or a file for a single input; else print it."),
]
Formats = Annotated[str | None, typer.Option("--format", "-f", help=f"Some of {','.join(FORMATS)}.", show_default="md")]
Pages = Annotated[
    str | None, typer.Option(help="Pages to read, such as 1-5,8,r1 (r1 is the last).", show_default="all")
]
MaxPages = Annotated[
    int | None, typer.Option(min=1, help="Read so many pages of a document at most; the rest is reported.")
]
Password = Annotated[str, typer.Option(envvar="DOCVISION_PASSWORD", show_envvar=True, help="Opens encrypted PDFs.")]
Text = Annotated[
    str, typer.Option(help="layer: the PDF's own text; model: read the picture; auto: the layer if it holds up.")
]
Anchors = Annotated[bool, typer.Option("--anchors/--no-anchors", help="In Markdown: begin each page with an anchor.")]
Images = Annotated[
    bool, typer.Option("--images/--no-images", help="Cut figures out and show them in Markdown and HTML.")
]
JoinTables = Annotated[
    bool, typer.Option("--join-tables/--no-join-tables", help="Write a table over several pages as one.")
]
TableReader = Annotated[
    str,
    typer.Option(help="What finds cells: maps and ink; crops or stream: the decoder, its boxes alone or its text too."),
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that read documents; they share the processor's cores.")]
Ray = Annotated[
    str,
    typer.Option(
        metavar="auto|HOST:PORT",
        help="Work on a Ray cluster: auto takes this machine's or starts one; workers as it has room, or --workers.",
        show_default="on this machine alone",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Leave out what an earlier run into this folder has finished.")
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Read again what failed in an earlier run into this folder.")
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0.1, help="Seconds for one page; then it is given up.", show_default="300 with several documents"),
]
Memory = Annotated[
    int | None, typer.Option(min=64, help="Megabytes that a process may take (Linux); then the page is given up.")
]
JsonLog = Annotated[bool, typer.Option("--json-log", help="Report in JSON, one object a line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Report failures only.")]


def parse(
    context: typer.Context,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="PDFs, images, folders, patterns, s3:// and such, @list.txt, or - for a list."
        ),
    ],
    out: Out = None,
    formats: Formats = None,
    pages: Pages = None,
    max_pages: MaxPages = None,
    password: Password = "",
    text: Text = "auto",
    layout: Annotated[str, typer.Option(help="auto, or rules: never load the model.")] = "auto",
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    tables: Annotated[str, typer.Option(help="In Markdown: auto, html or markdown (pipes).")] = "auto",
    headers: Annotated[bool, typer.Option("--headers/--no-headers", help="Write running headers and footers.")] = False,
    anchors: Anchors = False,
    images: Images = False,
    join_tables: JoinTables = True,
    table_reader: TableReader = "maps",
    workers: Workers = 1,
    ray: Ray = "",
    resume: Resume = True,
    retry_failed: RetryFailed = False,
    timeout: Timeout = None,
    memory: Memory = None,
    json_log: JsonLog = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Turn documents into Markdown, HTML, JSON, CSV, Excel or plain text."""
    from apps.batch import How
    from apps.outputs import Outputs
    from apps.read_task import Settings
    from docvision.parse import ParseOptions

    for value, choices, option in (
        (text, TEXT, "--text"), (layout, LAYOUT, "--layout"), (tables, TABLES, "--tables"),
        (table_reader, TABLE_READERS, "--table-reader"),
    ):  # fmt: skip
        one_of(value, choices, option)
    if "" in inputs:
        raise UsageError("an input is empty: give a file or a folder.")
    check_pages(pages)
    how = How(workers, timeout, memory, resume, retry_failed, quiet, json_log)
    try:
        options = ParseOptions(text, layout, device, model, join_tables, table_reader)
        found, place, address = _found(inputs, out)
    except ValueError as error:
        raise UsageError(str(error)) from None
    kinds, folder, file = place_of(place, formats, len(found.documents) + len(found.problems))
    if layout != "rules" and text != "layer":
        check_model(model, "cpu" if ray else device)  # a cluster has devices that this machine lacks
    outputs = Outputs(kinds, folder, file, headers, tables, anchors, images, password)  # type: ignore[arg-type]
    settings = Settings(options, outputs, pages or "", max_pages, debug, address)
    _check_place(context, settings)
    raise typer.Exit(_read(context, found, settings, how, ray).exit_code)


def _found(inputs: list[str], out: str | None) -> tuple[Inputs, str | None, str]:
    """What the inputs name, the place of the outputs, and its address where it is elsewhere: that is a folder."""
    from apps.inputs import find
    from apps.manifest import PLACE
    from apps.places import is_address, plain

    out = plain(out) if out else out
    if out and is_address(out):
        return find(inputs), f"{PLACE}/", out.rstrip("/")
    return find(inputs, skip=Path(out) if out else None), out, ""


def _read(context: typer.Context, found: Inputs, settings: Settings, how: How, ray: str) -> Tally:
    """On this machine, or on a cluster with all the workers that it has room for unless their number is given."""
    from apps.batch import run

    if not ray or settings.outputs.folder is None:
        return run(found, settings, how)
    try:
        from apps.ray_engine import run as run_on_ray
        from data_pipeline.cluster_address import check_address

        try:
            check_address(ray)
        except ValueError as error:
            raise UsageError(str(error)) from None
        workers = how.workers if given_by_user(context, "workers") else 0
        return run_on_ray(ray, workers, found, settings, how)
    except ImportError as error:
        raise missing(error, "ray") from None


def given_by_user(context: typer.Context, name: str) -> bool:
    """Whether an option is on the command line or in the environment, and no default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _check_place(context: typer.Context, settings: Settings) -> None:
    """Stop where the outputs have no place, before hours of work."""
    from apps.outputs import OutputError, check_folder
    from apps.places import check

    outputs = settings.outputs
    if settings.address:
        check(settings.address)
        return
    if outputs.folder is not None:
        try:
            check_folder(outputs.folder)
        except OutputError as error:
            say(str(error))
            raise typer.Exit(FAILED) from None
        return
    if outputs.images:
        raise UsageError("--images writes pictures beside the other files: name a folder with -o.")
    for name in ("workers", "ray", "timeout", "memory", "resume", "retry_failed"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":  # a variable of the environment is for other runs too
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for outputs in a folder: name one with -o.")


def retry(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="A folder that parse -o has written.")],
    workers: Workers = 1,
    ray: Ray = "",
    timeout: Timeout = None,
    memory: Memory = None,
    password: Password = "",
    json_log: JsonLog = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Read again what failed in a folder, each document with the settings that it had."""
    from apps.batch import How, settings_of
    from apps.inputs import Inputs
    from apps.manifest import read_settings

    how = How(workers, timeout, memory, True, True, quiet, json_log)
    codes = set()
    for known, entries in list(read_settings(folder)):
        # The natural name is the one that the document has, so it keeps it.
        found = Inputs(
            [(Path(entry.given if Path(entry.given).exists() else entry.path), entry.name) for entry in entries]
        )
        codes.add(_read(context, found, settings_of(known, folder, password, debug), how, ray).exit_code)
    if not codes:
        say(f"nothing that failed in {folder} could come out better: see its failures.jsonl")
    raise typer.Exit(codes.pop() if len(codes) == 1 else PARTIAL if codes else OK)
