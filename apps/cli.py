"""The command line: ``docvision parse``, ``make``, ``train``, ``schema``, ``bench``.

Exit codes: 0 all well, 1 nothing worked, 2 wrong use, 3 some of it failed or a promise was broken, 130 interrupted.
An error is one line on standard error; ``--debug`` shows where it came from.  Heavy packages are imported by the
command that needs them.
"""

from __future__ import annotations

import difflib
import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

OK, FAILED, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130
FORMATS = ("md", "html", "json", "csv", "txt")
TEXT, LAYOUT, TABLES = ("auto", "layer", "model"), ("auto", "rules"), ("auto", "html", "markdown")
PAGE = r"r?0*[1-9]\d*"
PAGE_SELECTION = (
    rf"\s*(all|({PAGE}(\s*-\s*({PAGE})?)?|-\s*{PAGE})\s*(,\s*({PAGE}(\s*-\s*({PAGE})?)?|-\s*{PAGE})\s*)*)?\s*"
)

# Typer carries its own copy of click or uses the installed one, depending on its version.
UsageError: type[Any] = typer.BadParameter.__mro__[1]
ClickException: type[Any] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="docvision",
    help="PDFs, scans and photographed pages to Markdown, HTML, tables and JSON, on your own machine.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(help="Compare parsers on the same documents: quality and speed.", rich_markup_mode=None)
app.add_typer(bench, name="bench")
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Engines = Annotated[
    list[str], typer.Option("--engine", help="A parser, docvision or an installed peer; give it several times.")
]


def _version(wanted: bool) -> None:
    if wanted:
        from docvision import __version__

        print(f"docvision {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """PDFs, scans and photographed pages to Markdown, HTML, tables and JSON, on your own machine."""


def one_of(value: str, choices: Sequence[str], option: str) -> str:
    """``value`` if it is one of ``choices``, else a usage error with a suggestion."""
    if value in choices:
        return value
    close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.3)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.{hint}", param_hint=option)


@app.command()
def parse(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="PDFs, images, or folders of them.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the outputs, or a file for a single input; else print it."),
    ] = None,
    formats: Annotated[
        str | None, typer.Option("--format", "-f", help=f"Some of {','.join(FORMATS)}.", show_default="md")
    ] = None,
    pages: Annotated[str, typer.Option(help="Pages to read, such as 1-5,8,r1 (r1 is the last).")] = "",
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Report failures only.")] = False,
    debug: Debug = False,
) -> None:
    """Turn documents into Markdown, HTML, JSON, CSV or plain text."""
    from apps import batch
    from docvision.parse import DocumentParser, ParseOptions

    one_of(text, TEXT, "--text")
    one_of(layout, LAYOUT, "--layout")
    one_of(tables, TABLES, "--tables")
    if "" in inputs:
        raise UsageError("an input is empty: give a file or a folder.")
    if not re.fullmatch(PAGE_SELECTION, pages, flags=re.IGNORECASE):
        raise typer.BadParameter(f"{pages!r} is not like 3, 2-5, r1 or 1-5,8.", param_hint="--pages")
    try:
        options = ParseOptions(text=text, layout=layout, device=device, model=model)
        items = batch.expand([Path(given) for given in inputs], skip=out)
    except ValueError as error:
        raise UsageError(str(error)) from None
    kinds, folder, file = _place(out, formats, len(items))
    outputs = batch.Outputs(kinds, folder, file, headers, tables)  # type: ignore[arg-type]
    if outputs.folder is not None:
        try:
            batch.check_folder(outputs.folder)
        except batch.OutputError as error:
            _say(str(error))
            raise typer.Exit(FAILED) from None
    tally = batch.run(items, DocumentParser(options), outputs, pages=pages, password=password, quiet=quiet, debug=debug)
    raise typer.Exit(tally.exit_code)


def _place(out: Path | None, formats: str | None, count: int) -> tuple[tuple[str, ...], Path | None, Path | None]:
    """Formats, and the output folder or file, out of ``-o`` and ``--format``."""
    named = out.suffix[1:].lower() if out is not None and not out.is_dir() else ""
    named = named if named in FORMATS else ""
    texts = [part.strip() for part in (formats or named or "md").split(",") if part.strip()]
    kinds = tuple(dict.fromkeys(one_of(kind, FORMATS, "--format") for kind in texts))
    if not kinds:
        raise typer.BadParameter(f"name one of {', '.join(FORMATS)}.", param_hint="--format")
    if out is None:
        if count > 1:
            raise UsageError(f"{count} documents do not fit on standard output: name a folder with -o.")
        if len(kinds) > 1:
            raise UsageError("several formats do not fit on standard output: name a folder with -o.")
        return kinds, None, None
    if named:
        if count > 1:
            raise UsageError(f"-o {out} is one file, but there are {count} documents: name a folder.")
        if kinds != (named,):
            raise UsageError(f"-o {out} does not go with --format {formats}: name a folder.")
        return kinds, None, out
    if out.exists() and not out.is_dir():
        raise UsageError(f"-o {out} is a file, not a folder, and does not end in one of .{', .'.join(FORMATS)}.")
    return kinds, out, None


@app.command()
def schema() -> None:
    """Print the JSON Schema of the JSON output."""
    from docvision.page import Document

    print(json.dumps(Document.json_schema(), indent=1))


@app.command()
def make(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name or the path of its YAML file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the shards.")],
    count: Annotated[int, typer.Option(min=1, help="Samples in all.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Sample i of a seed is always the same.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    preview: Annotated[int | None, typer.Option(min=1, help="Write so many samples as PNG files instead.")] = None,
    debug: Debug = False,
) -> None:
    """Make synthetic training data with exact truth."""
    try:
        from data_pipeline import build
    except ImportError as error:
        raise _missing(error, "data") from None
    try:
        loaded = build.load_recipe(recipe)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if preview is not None:
        build.preview(loaded, out, preview, seed)
    else:
        build.build(loaded, out, count, seed, workers)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name or the path of its YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE...]", help="Override settings, such as optim.steps=100.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Train a model from a recipe."""
    from docvision.config import RecipeError, load_recipe

    try:
        load_recipe(recipe, overrides or [])  # a mistake in it is told before torch is loaded
        from docvision import train as training

        training.main(recipe, overrides or [])
    except RecipeError as error:
        raise UsageError(str(error)) from None
    except ImportError as error:
        raise _missing(error, "train") from None


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
    print(benchmarks.table([{"engine": name, "unread": count} for name, count in failures.items()]))


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
    print(benchmarks.table(rows))
    if any(row["unread"] for row in rows):
        _say("some files could not be read, so these rates are no speeds: leave them out")
        raise typer.Exit(FAILED if all(row["unread"] for row in rows) else PARTIAL)


def _engines(names: Sequence[str]) -> list[str]:
    from apps.bench import ENGINES

    return [one_of(name, tuple(ENGINES), "--engine") for name in dict.fromkeys(names)]


def _missing(error: ImportError, extra: str) -> Exception:
    return ClickException(f"{error}; run: pip install 'docvision[{extra}]'")


def _say(message: str) -> None:
    print(f"docvision: {' '.join(message.split())}", file=sys.stderr)


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
        if result == INTERRUPTED:  # Typer has caught Ctrl-C
            raise KeyboardInterrupt
        return result if isinstance(result, int) else OK
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return INTERRUPTED
    except UsageError as error:
        _say(error.format_message())
        return USAGE
    except ClickException as error:
        _say(error.format_message())
        return FAILED
    except BrokenPipeError:
        sys.stdout = None  # nobody reads it any more; nothing is left to flush
        return FAILED
    except Exception as error:
        if "--debug" in given:
            raise
        known = isinstance(error, ValueError | OSError | ImportError)
        _say(str(error) if known else f"internal error: {type(error).__name__}: {error} (--debug shows more)")
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
