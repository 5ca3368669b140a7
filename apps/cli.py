"""The command line: ``docvision parse``, ``make``, ``train``, ``schema``, ``bench`` and the commands of other files.

Exit codes: 0 all well, 1 nothing worked, 2 wrong use, 3 some of it failed or a promise was broken, 130 interrupted.
An error is one line on standard error; ``--debug`` shows where it came from.  Heavy packages are imported by the
command that needs them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from apps.arguments import ClickException, UsageError, one_of
from apps.bench_ray_commands import bench
from apps.console import USAGE, Debug, missing, run, show
from apps.parse_command import Ray, given_by_user, parse, retry
from apps.serve.command import serve
from apps.settings import stay_offline, with_variables
from apps.settings_commands import COMPLETE, completion, config, doctor, models, read_completion
from apps.settings_examples import with_examples
from apps.view_commands import demo, diff
from apps.view_commands import show as show_overlay

app = typer.Typer(
    name="docvision",
    help="PDFs, scans and photographed pages to Markdown, HTML, tables and JSON, on your own machine.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(parse)
app.command()(retry)
app.add_typer(bench, name="bench")
app.command()(demo)
app.command("show")(show_overlay)
app.command()(diff)
app.command()(serve)
app.command()(doctor)
app.add_typer(models, name="models")
app.add_typer(config, name="config")
app.command()(completion)


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
def schema() -> None:
    """Print the JSON Schema of the JSON output."""
    from docvision.page import Document

    show(json.dumps(Document.json_schema(), indent=1))


@app.command()
def make(
    context: typer.Context,
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe's name or the path of its YAML file.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the shards.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Samples in all.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Sample i of a seed is always the same.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    ray: Ray = "",
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
            number = workers if not ray or given_by_user(context, "workers") else 0
            code = maker.make(str(recipe), Path(str(out)), count, seed, number, form, ray)
    except ImportError as error:  # ray itself, or what Ray Data wants
        raise missing(error, "ray" if ray else "data") from None
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
        if Path(recipe).stem.startswith("hf-"):  # beside a model of Hugging Face
            from docvision.hf_vlm.recipe import main as train_beside

            train_beside(recipe, given)
        else:
            from docvision.train import main as train_own

            train_own(recipe, given)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never a traceback unless ``--debug`` asks for one."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    stay_offline()
    command = with_examples(with_variables(typer.main.get_command(app)))
    if COMPLETE in os.environ:
        read_completion()
    elif not given:
        command(["--help"], prog_name="docvision", standalone_mode=False)
        return USAGE
    return run(command, "docvision", given)


if __name__ == "__main__":
    sys.exit(main())
