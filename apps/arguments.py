"""What the words of a command line mean: choices, page selections, models and devices, formats and places.

Each function returns what is meant or raises a usage error that says what to write instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

FORMATS = ("md", "html", "json", "csv", "xlsx", "txt", "jsonl", "overlay")
TEXT, LAYOUT, TABLES = ("auto", "layer", "model"), ("auto", "rules"), ("auto", "html", "markdown")
TABLE_READERS = ("maps", "crops", "stream")
PAGE = r"r?0*[1-9]\d*"
PAGE_SELECTION = (
    rf"\s*(all|({PAGE}(\s*-\s*({PAGE})?)?|-\s*{PAGE})\s*(,\s*({PAGE}(\s*-\s*({PAGE})?)?|-\s*{PAGE})\s*)*)?\s*"
)

# Typer carries its own copy of click or uses the installed one, depending on its version.
UsageError: type[Any] = typer.BadParameter.__mro__[1]
ClickException: type[Any] = typer.BadParameter.__mro__[2]


def one_of(value: str, choices: Sequence[str], option: str) -> str:
    """``value`` if it is one of ``choices``, else a usage error with a suggestion."""
    if value in choices:
        return value
    close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.3)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.{hint}", param_hint=option)


def check_pages(pages: str | None) -> None:
    """A usage error for a page selection that is none; what the document has is seen when it is open."""
    if pages is not None and not (pages.strip() and re.fullmatch(PAGE_SELECTION, pages, flags=re.IGNORECASE)):
        raise typer.BadParameter(f"{pages!r} is not like 3, 2-5, r1 or 1-5,8.", param_hint="--pages")


def check_model(model: str, device: str) -> None:
    """A usage error for a model or device that is not there, before hours of work; torch only for a GPU."""
    from docvision import config

    weights = Path(config.__file__).parent / "weights"
    packaged = sorted(path.parent.name for path in weights.glob("*/config.json"))
    hub = re.fullmatch(r"[\w.-]+/[\w.-]+", model) and not Path(model).exists()
    if model not in packaged and not hub and not Path(model, "config.json").is_file():
        close = difflib.get_close_matches(model, packaged, n=1)
        hint = f"did you mean {close[0]}?" if close else f"packaged: {', '.join(packaged)}; else a folder or a hub id."
        raise typer.BadParameter(f"there is no model {model!r}; {hint}", param_hint="--model")
    if hub and model not in packaged:
        from docvision.checkpoint import CheckpointError, find_model

        try:
            find_model(model)
        except CheckpointError as error:
            raise typer.BadParameter(str(error), param_hint="--model") from None
    if device == "cpu":
        return
    import torch

    kind, _, number = device.partition(":")
    if number and not number.isdecimal():
        raise typer.BadParameter(f"{device!r} is not like cpu, cuda or cuda:1.", param_hint="--device")
    count = torch.cuda.device_count() if kind == "cuda" else int(torch.backends.mps.is_available())
    if int(number or 0) >= count:
        raise typer.BadParameter(
            f"{device} is not there: this machine has {count} of that kind.", param_hint="--device"
        )


def place_of(out: str | None, formats: str | None, count: int) -> tuple[tuple[str, ...], Path | None, Path | None]:
    """Formats, and the output folder or file, out of ``-o`` and ``--format``."""
    place = Path(out) if out else None
    is_folder = place is not None and (str(out).endswith("/") or place.is_dir())
    suffix = place.suffix[1:].lower() if place is not None and not is_folder else ""
    named = suffix if suffix in FORMATS else ""
    if out == "" or (formats is not None and not formats.strip(", ")):
        empty = "-o" if out == "" else "--format"
        raise typer.BadParameter(
            f"it is empty: name {'a folder' if out == '' else 'one of ' + ', '.join(FORMATS)}.", param_hint=empty
        )
    texts = [part.strip() for part in (formats or named or "md").split(",") if part.strip()]
    kinds = tuple(dict.fromkeys(one_of(kind, FORMATS, "--format") for kind in texts))
    if place is None:
        if count > 1:
            raise UsageError(f"{count} documents do not fit on standard output: name a folder with -o.")
        if len(kinds) > 1:
            raise UsageError("several formats do not fit on standard output: name a folder with -o.")
        if kinds == ("xlsx",):
            raise UsageError("a workbook does not fit on standard output: name a folder or a file with -o.")
        return kinds, None, None
    if named:
        if count > 1:
            raise UsageError(f"-o {out} is one file, but there are {count} documents: name a folder.")
        if kinds != (named,):
            raise UsageError(f"-o {out} does not go with --format {formats}: name a folder.")
        return kinds, None, place
    if place.exists() and not place.is_dir():
        raise UsageError(f"-o {out} is a file, not a folder, and does not end in one of .{', .'.join(FORMATS)}.")
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9]{1,7}", suffix):
        raise UsageError(
            f"-o {out}: .{suffix} is not written here, but .{', .'.join(FORMATS)}; end a folder's name with a slash."
        )
    return kinds, place, None
