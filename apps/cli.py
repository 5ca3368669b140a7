"""The command line: ``docvision parse``, ``make``, ``train``, ``schema``, ``bench``.

Exit codes: 0 all well, 1 nothing worked, 2 wrong use, 3 some of it failed or a promise was broken, 130 interrupted.
An error is one line on standard error; ``--debug`` shows where it came from.  Heavy packages are imported by the
command that needs them.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from apps.arguments import (
    FORMATS,
    LAYOUT,
    TABLES,
    TEXT,
    ClickException,
    UsageError,
    check_model,
    check_pages,
    one_of,
    place_of,
)
from apps.bench_commands import bench
from apps.console import FAILED, INTERRUPTED, OK, USAGE, Debug, missing, say, show
from apps.view_commands import demo, diff
from apps.view_commands import show as show_overlay

if TYPE_CHECKING:
    from apps.outputs import Outputs

app = typer.Typer(
    name="docvision",
    help="PDFs, scans and photographed pages to Markdown, HTML, tables and JSON, on your own machine.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench, name="bench")
app.command()(demo)
app.command("show")(show_overlay)
app.command()(diff)


def _version(wanted: bool) -> None:
    if wanted:
        from docvision import __version__

        show(f"docvision {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """PDFs, scans and photographed pages to Markdown, HTML, tables and JSON, on your own machine."""


@app.command()
def parse(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="PDFs, images, or folders of them.")],
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Folder for the outputs, or a file for a single input; else print it."),
    ] = None,
    formats: Annotated[
        str | None, typer.Option("--format", "-f", help=f"Some of {','.join(FORMATS)}.", show_default="md")
    ] = None,
    pages: Annotated[
        str | None, typer.Option(help="Pages to read, such as 1-5,8,r1 (r1 is the last).", show_default="all")
    ] = None,
    password: Annotated[
        str, typer.Option(envvar="DOCVISION_PASSWORD", show_envvar=True, help="Opens encrypted PDFs.")
    ] = "",
    text: Annotated[
        str, typer.Option(help="layer: the PDF's own text; model: read the picture; auto: the layer if it holds up.")
    ] = "auto",
    layout: Annotated[str, typer.Option(help="auto, or rules: never load the model.")] = "auto",
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    tables: Annotated[str, typer.Option(help="In Markdown: auto, html or markdown (pipes).")] = "auto",
    headers: Annotated[bool, typer.Option("--headers/--no-headers", help="Write running headers and footers.")] = False,
    anchors: Annotated[
        bool, typer.Option("--anchors/--no-anchors", help="In Markdown: begin each page with an anchor.")
    ] = False,
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Cut figures out and show them in Markdown and HTML.")
    ] = False,
    join_tables: Annotated[
        bool, typer.Option("--join-tables/--no-join-tables", help="Write a table over several pages as one.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Report failures only.")] = False,
    debug: Debug = False,
) -> None:
    """Turn documents into Markdown, HTML, JSON, CSV, Excel or plain text."""
    from apps import batch
    from apps.outputs import Outputs
    from docvision.parse import DocumentParser, ParseOptions

    one_of(text, TEXT, "--text")
    one_of(layout, LAYOUT, "--layout")
    one_of(tables, TABLES, "--tables")
    if "" in inputs:
        raise UsageError("an input is empty: give a file or a folder.")
    check_pages(pages)
    try:
        options = ParseOptions(text=text, layout=layout, device=device, model=model, join_tables=join_tables)
        items = batch.expand([Path(given) for given in inputs], skip=Path(out) if out else None)
    except ValueError as error:
        raise UsageError(str(error)) from None
    kinds, folder, file = place_of(out, formats, len(items))
    if layout != "rules" and text != "layer":
        check_model(model, device)
    outputs = Outputs(kinds, folder, file, headers, tables, anchors, images, password)  # type: ignore[arg-type]
    _check_place(outputs)
    parser = DocumentParser(options)
    tally = batch.run(items, parser, outputs, pages=pages or "", password=password, quiet=quiet, debug=debug)
    raise typer.Exit(tally.exit_code)


def _check_place(outputs: Outputs) -> None:
    """Stop where the outputs have no place, before hours of work."""
    from apps.outputs import OutputError, check_folder

    if outputs.images and outputs.folder is None:
        raise UsageError("--images writes pictures beside the other files: name a folder with -o.")
    if outputs.folder is not None:
        try:
            check_folder(outputs.folder)
        except OutputError as error:
            say(str(error))
            raise typer.Exit(FAILED) from None


@app.command()
def schema() -> None:
    """Print the JSON Schema of the JSON output."""
    from docvision.page import Document

    show(json.dumps(Document.json_schema(), indent=1))


@app.command()
def make(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe's name or the path of its YAML file.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the shards.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Samples in all.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Sample i of a seed is always the same.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    form: Annotated[str, typer.Option("--format", "-f", help="parquet or webdataset.")] = "parquet",
    preview: Annotated[
        int | None, typer.Option(min=1, help="Write so many samples as pictures with their truth drawn in instead.")
    ] = None,
    inspect: Annotated[
        Path | None, typer.Option(help="Print what lies in a data set's folder, and whether it is whole.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Make synthetic training data with exact truth.

    Run the same command again after an interruption: it goes on, and the result is the same.
    """
    one_of(form, ("parquet", "webdataset"), "--format")
    if inspect is None and (recipe is None or out is None):
        raise UsageError("Missing argument 'RECIPE'." if recipe is None else "Missing option '--out' / '-o'.")
    if inspect is not None and (recipe, out, preview) != (None, None, None):
        raise UsageError("--inspect DIR stands alone: leave RECIPE, -o and --preview out.")
    try:
        from apps import make as maker
        from data_pipeline.build import SampleError
    except ImportError as error:
        raise missing(error, "data") from None
    try:
        if inspect is not None:
            code = maker.inspect(inspect)
        elif preview is not None:
            code = maker.preview(str(recipe), Path(str(out)), preview, seed)
        else:
            code = maker.make(str(recipe), Path(str(out)), count, seed, workers, form)
    except ValueError as error:
        if debug:
            raise
        raise UsageError(str(error)) from None
    except SampleError as error:
        if debug:
            raise
        raise ClickException(str(error)) from None
    raise typer.Exit(code)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name or the path of its YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE...]", help="Override settings, such as optim.steps=100.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Train a model from a recipe."""
    from docvision.config import RecipeError

    given = overrides or []
    try:
        _load(recipe, given)  # a mistake in it is told before torch is loaded
        from docvision import train as training

        training.main(recipe, given)
    except RecipeError as error:
        raise UsageError(str(error)) from None
    except ImportError as error:
        raise missing(error, "train") from None


def _load(recipe: str, overrides: Sequence[str]) -> None:
    """Raise RecipeError for a mistake, with the overrides in front where the file alone is good."""
    from docvision.config import RecipeError, find_recipe, load_recipe

    try:
        load_recipe(recipe, overrides)
    except RecipeError as error:
        try:
            load_recipe(recipe)
        except RecipeError:
            raise error from None
        told = str(error).removeprefix(f"{find_recipe(recipe)}: ")
        raise RecipeError(f"{' '.join(overrides)}: {told}") from None


def _on_terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt  # the same way out as Ctrl-C: outputs whole, no temporary files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never a traceback unless ``--debug`` asks for one."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        app(["--help"], prog_name="docvision", standalone_mode=False)
        return USAGE
    try:
        signal.signal(signal.SIGTERM, _on_terminate)
        result = app(given, prog_name="docvision", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        if result == INTERRUPTED:  # Typer has caught Ctrl-C
            raise KeyboardInterrupt
        return result if isinstance(result, int) else OK
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return INTERRUPTED
    except UsageError as error:
        say(error.format_message())
        return USAGE
    except ClickException as error:
        say(error.format_message())
        return FAILED
    except BrokenPipeError:
        sys.stdout = None  # nobody reads it any more; nothing is left to flush
        return FAILED
    except Exception as error:
        if "--debug" in given:
            raise
        known = isinstance(error, ValueError | OSError | ImportError)
        say(_reason(error) if known else f"internal error: {type(error).__name__}: {error} (--debug shows more)")
        return FAILED


def _reason(error: Exception) -> str:
    """An error of the operating system without its number; one of a nameless file is standard output's."""
    if isinstance(error, OSError) and error.strerror:
        if error.filename is not None:
            return f"{error.filename}: {error.strerror}"
        sys.stdout = None  # what is left in it cannot be written either
        return f"standard output was not written ({error.strerror})"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
