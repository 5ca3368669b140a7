"""The commands ``show``, ``diff`` and ``demo``: people looking at documents."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from apps.arguments import check_model
from apps.console import Debug, missing
from apps.console import show as tell


def show(
    document: Annotated[Path, typer.Argument(metavar="JSON", help="What parse -f json wrote.")],
    page: Annotated[list[str] | None, typer.Argument(metavar="[page N]", help="The page; all without it.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; beside the JSON by default.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="The PDF or image, if it is not where it was.")] = None,
    password: Annotated[
        str, typer.Option(envvar="DOCVISION_PASSWORD", show_envvar=True, help="Opens encrypted PDFs.")
    ] = "",
    debug: Debug = False,
) -> None:
    """Draw a page's blocks, their order and confidence over its picture (PNG), or all pages' (one HTML file)."""
    from apps.show import draw

    raise typer.Exit(draw(document, page or [], out, source, password))


def diff(
    first: Annotated[Path, typer.Argument(metavar="A.json", help="What parse -f json wrote.")],
    second: Annotated[Path, typer.Argument(metavar="B.json", help="The same source, parsed in another way.")],
    debug: Debug = False,
) -> None:
    """List the blocks that differ between two parses of one source; exit code 3 where some do."""
    from apps.show import diff as compare

    raise typer.Exit(compare(first, second))


def demo(
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 7860,
    max_pages: Annotated[int, typer.Option(min=1, help="Pages read of one document.")] = 50,
    max_mb: Annotated[int, typer.Option(min=1, help="Megabytes of one file.")] = 50,
    max_seconds: Annotated[int, typer.Option(min=1, help="Seconds for one document.")] = 300,
    readers: Annotated[int, typer.Option(min=1, help="Documents read at the same time.")] = 1,
    model: Annotated[str, typer.Option(help="Packaged name or folder of the model.")] = "docvision-tiny",
    debug: Debug = False,
) -> None:
    """Open the demo in a browser: upload documents, check them page by page, correct tables, download the result."""
    try:
        from apps.demo import serving
    except ImportError as error:
        raise missing(error, "app") from None
    from apps.demo_visits import Limits

    check_model(model, "cpu")
    limits = Limits(max_pages=max_pages, max_mb=max_mb, max_seconds=max_seconds)
    with serving(host, port, limits, readers, model) as address:
        tell(f"docvision is at {address} (Ctrl-C ends it)")
        threading.Event().wait()
