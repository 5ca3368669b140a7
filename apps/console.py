"""What all commands share: exit codes, the option --debug, and how they speak."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from apps.arguments import ClickException

OK, FAILED, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def missing(error: ImportError, extra: str) -> Exception:
    return ClickException(f"{error}; run: pip install 'docvision[{extra}]'")


def show(text: str) -> None:
    """To standard output, now, so that a failure is this command's and not the interpreter's."""
    print(text, flush=True)


def say(message: str) -> None:
    print(f"docvision: {' '.join(message.split())}", file=sys.stderr)
