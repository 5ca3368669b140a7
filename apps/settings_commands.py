"""The commands ``doctor``, ``models``, ``config`` and ``completion``: what is on this machine and how it is set."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from apps.arguments import ClickException, UsageError, check_model, one_of
from apps.console import FAILED, OK, PARTIAL, Debug, show

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
COMPLETE = "_DOCVISION_COMPLETE"
"""Set by a shell that asks for the words that may come next."""
SHELLS = ("bash", "zsh", "fish")
MARKS = {"ok": "ok", "missing": "--", "broken": "!!"}

models = typer.Typer(help="The models on this machine.", no_args_is_help=True, rich_markup_mode=None)
config = typer.Typer(help="Settings, and where each comes from.", no_args_is_help=True, rich_markup_mode=None)


def doctor(
    context: typer.Context,
    as_json: AsJson = False,
    device: Annotated[str, typer.Option(help="Where the model runs in the self-test: cpu or cuda.")] = "cpu",
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    debug: Debug = False,
) -> None:
    """Say what is found on this machine and whether it works; exit code 1 where something needed does not."""
    check_model(model, device)
    from apps.doctor import examine

    found = []
    group = ""
    for check in examine(model, device):
        found.append(check)
        if as_json:
            continue
        if check.group != group:
            show(f"{check.group}")
            group = check.group
        seconds = f" ({check.seconds:.2f} s)" if check.seconds is not None else ""
        hint = f"; {check.hint}" if check.hint and check.state != "ok" else ""
        show(f"  {MARKS[check.state]} {check.name}: {check.detail or check.state}{seconds}{hint}")
    for name, meant in _unknown_variables(context):
        if not as_json:
            show(f"  !! {name} is no variable of docvision" + (f"; did you mean {meant}?" if meant else ""))
    broken = [check for check in found if check.fatal]
    if as_json:
        verdict = "broken" if broken else "ok"
        show(json.dumps({"status": verdict, "checks": [asdict(check) for check in found]}, indent=1))
    else:
        show("all that is needed works" if not broken else f"broken: {', '.join(check.name for check in broken)}")
    raise typer.Exit(FAILED if broken else OK)


@models.command("list")
def list_models(as_json: AsJson = False, debug: Debug = False) -> None:
    """List packaged and cached models with path, size, parameters and state."""
    from apps.models import cached, packaged

    rows = [_row(model) for model in (*packaged(), *cached())]
    if as_json:
        show(json.dumps(rows, indent=1))
        return
    for row in rows:
        count = f"{row['parameters'] / 1e6:.1f} M parameters" if row["parameters"] is not None else "unreadable"
        state = "verified" if not row["faults"] else f"!! {row['faults'][0]}"
        show(f"{row['name']}  {row['origin']}  {row['bytes'] / 1e6:.1f} MB  {count}  {state}\n    {row['path']}")


@models.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Names or folders; else all.")] = None,
    debug: Debug = False,
) -> None:
    """Compare the files of models with the hashes kept beside them."""
    from apps.models import ModelFileError, cached, faults, find, packaged

    try:
        chosen = [find(name) for name in names] if names else [*packaged(), *cached()]
    except ModelFileError as error:
        raise UsageError(str(error)) from None
    bad = 0
    for model in chosen:
        found = faults(model)
        bad += bool(found)
        show(f"{'!!' if found else 'ok'} {model.name}" + "".join(f": {fault}" for fault in found))
    raise typer.Exit(OK if not bad else FAILED if bad == len(chosen) else PARTIAL)


@models.command()
def fetch(
    repository: Annotated[str, typer.Argument(metavar="USER/MODEL", help="A model of the Hugging Face hub.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.", show_default="newest")] = None,
    debug: Debug = False,
) -> None:
    """Download a model; nothing else here asks the network."""
    from apps.models import ModelFileError, faults
    from apps.models import fetch as download

    try:
        model = download(repository, revision)
    except (ModelFileError, ValueError) as error:
        raise ClickException(str(error)) from None
    found = faults(model)
    show(f"{'!!' if found else 'ok'} {model.name}: {found[0] if found else model.folder}")
    raise typer.Exit(FAILED if found else OK)


@models.command()
def seal(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A model's folder.")], debug: Debug = False
) -> None:
    """Write the hashes of a model's files beside them, for verify."""
    from apps.models import ModelFileError
    from apps.models import seal as write

    try:
        show(str(write(folder)))
    except ModelFileError as error:
        raise UsageError(str(error)) from None


@models.command()
def language(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A model's folder.", exists=True, file_okay=False, writable=True)
    ],
    texts: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[TEXT...]", help="Plain text files; the training data's texts by default."),
    ] = None,
    held_out: Annotated[
        Path | None, typer.Option(help="Rendered lines whose text is left out, so that they stay a fair test.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Make the model of letters that helps the line reader where a picture is in doubt."""
    from apps.language import make_language
    from docvision.language import LanguageError

    try:
        made = make_language(folder, texts or (), held_out)
    except (OSError, UnicodeDecodeError, LanguageError) as error:
        raise ClickException(str(error)) from None
    show(f"{folder}: {len(made.keys_N):,} n-grams of up to {made.order} characters; seal the folder anew")


@config.command("show", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def show_config(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND [OPTION...]]", help="A command as you would write it.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print the options of a command (parse unless told), and whether each is default, environment or argument."""
    from apps.settings import resolve, surroundings

    given = words or ["parse"]
    root = _root(context)
    if given[0] not in root.commands:
        one_of(given[0], sorted(root.commands), "COMMAND")
    options, around = resolve(root, given), surroundings()
    unknown = [{"name": name, "perhaps": meant} for name, meant in _unknown_variables(context)]
    if as_json:
        body = {"command": given[0], "options": [asdict(each) for each in options]}
        show(json.dumps({**body, "surroundings": [asdict(each) for each in around], "unknown": unknown}, indent=1))
        return
    for title, settings in ((f"docvision {given[0]}", options), ("surroundings", around)):
        show(title)
        width = max((len(each.name) for each in settings), default=0)
        for each in settings:
            variable = f", {each.variable}" if each.variable and each.variable != each.name else ""
            show(f"  {each.name:<{width}}  {each.value or '(none)'}  [{each.origin}{variable}]")
    for entry in unknown:
        meant = f"; did you mean {entry['perhaps']}?" if entry["perhaps"] else ""
        show(f"!! {entry['name']} is no variable of docvision{meant}")


def completion(
    shell: Annotated[
        str, typer.Argument(metavar="SHELL", help=f"One of {', '.join(SHELLS)}.", show_default="that of $SHELL")
    ] = "",
    debug: Debug = False,
) -> None:
    """Print the script that lets a shell complete commands and options."""
    from typer.completion import get_completion_script

    chosen = one_of(shell or Path(os.environ.get("SHELL", "")).name, SHELLS, "SHELL")
    show(get_completion_script(prog_name="docvision", complete_var=COMPLETE, shell=chosen))


def read_completion() -> None:
    """Let the command line answer the scripts that :func:`completion` prints."""
    from typer.completion import completion_init

    completion_init()


def _row(model: Any) -> dict[str, Any]:
    from apps.models import ModelFileError, faults, sha256

    try:
        parameters = model.parameters()
    except ModelFileError:
        parameters = None
    return {
        "name": model.name, "origin": model.origin, "path": str(model.folder), "bytes": model.size(),
        "parameters": parameters, "sha256": sha256(model.weights), "faults": faults(model),
    }  # fmt: skip


def _root(context: typer.Context) -> Any:
    """The whole command line."""
    from apps.settings import with_variables

    return with_variables(context.find_root().command)


def _unknown_variables(context: typer.Context) -> Sequence[tuple[str, str]]:
    from apps.settings import unknown_variables

    return list(unknown_variables(_root(context)))
