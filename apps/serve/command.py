"""The command ``docvision serve``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from apps.arguments import LAYOUT, UsageError, check_model, one_of
from apps.console import Debug, missing, show

KEYS = "DOCVISION_API_KEY"
"""Environment variable with the keys, so that they stand in no list of processes."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""Under which an open service answers: a name that somebody else controls must not lead to it."""
MIN_KEY = 16


def serve(
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that read, one document each at a time.")] = 1,
    queue: Annotated[int, typer.Option(min=0, help="Documents that wait; one more is answered with 429.")] = 16,
    max_mb: Annotated[float, typer.Option(min=0.001, help="Megabytes of one request.")] = 50,
    max_pages: Annotated[int, typer.Option(min=1, help="Pages read of one document.")] = 200,
    max_seconds: Annotated[float, typer.Option(min=1, help="Seconds for reading one document.")] = 300,
    max_memory_mb: Annotated[int, typer.Option(min=0, help="Megabytes of one reading process; 0: no limit.")] = 6000,
    keep_seconds: Annotated[float, typer.Option(min=1, help="Seconds that a job's result waits.")] = 600,
    key_file: Annotated[
        Path | None, typer.Option(help=f"File with API keys, one a line; without it {KEYS} holds them.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Let other machines in without a key.")] = False,
    layout: Annotated[str, typer.Option(help="auto, or rules: never load the model.")] = "auto",
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    model: Annotated[str, typer.Option(help="Packaged name, folder, or hub id.")] = "docvision-tiny",
    debug: Debug = False,
) -> None:
    """Answer documents over HTTP: POST one to /parse, or to /jobs and come back for it."""
    one_of(layout, LAYOUT, "--layout")
    keys = _keys(key_file)
    if host not in LOOPBACK and not keys and not open_:
        raise UsageError(f"--host {host} lets others in: put a key into {KEYS}, or say --open.")
    if layout != "rules":
        check_model(model, device)
    try:
        from apps.serve.app import run
    except ImportError as error:
        raise missing(error, "serve") from None
    from apps.serve.answers import ServiceSettings

    settings = ServiceSettings(
        workers=workers, queue=queue, max_mb=max_mb, max_pages=max_pages, max_seconds=max_seconds,
        max_memory_mb=max_memory_mb, keep_seconds=keep_seconds, model=model, device=device, layout=layout, keys=keys,
        hosts=LOCAL_NAMES if host in LOOPBACK and not keys else (),
    )  # fmt: skip
    who = "with a key" if keys else "for everybody who reaches it"
    run(settings, host, port, lambda address: show(f"docvision listens at {address}, {who} (Ctrl-C ends it)"))


def _keys(file: Path | None) -> tuple[str, ...]:
    """The API keys: of the file, one a line, else of the environment, apart by commas."""
    if file is None:
        found, place = os.environ.get(KEYS, "").split(","), KEYS
    else:
        try:
            found, place = file.read_text("utf-8").splitlines(), str(file)
        except OSError as error:
            raise UsageError(f"{file} cannot be read ({error.strerror}): check --key-file.") from None
    keys = tuple(key.strip() for key in found if key.strip())
    if file is not None and not keys:
        raise UsageError(f"{file} holds no key: write one a line.")
    short = next((key for key in keys if len(key) < MIN_KEY or not key.isascii()), None)
    if short is not None:
        raise UsageError(f"a key in {place} is no good: it needs {MIN_KEY} ASCII characters or more.")
    return keys
