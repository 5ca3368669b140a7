"""PDFs, scans and photographed pages to Markdown, HTML, tables and JSON, on your own machine.

>>> from docvision import parse
>>> document = parse("report.pdf")  # doctest: +SKIP

Importing this package costs nothing: the parser is loaded when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docvision.page import Document
    from docvision.parse import DocumentParser, parse

__all__ = ["Document", "DocumentParser", "__version__", "parse"]

_HOMES = {"Document": "docvision.page", "DocumentParser": "docvision.parse"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata  # slow to import

        try:
            return metadata.version("docvision")
        except metadata.PackageNotFoundError:  # run from a checkout that was never installed
            return "0+unknown"
    if name == "parse":
        return import_module("docvision.parse")  # a module that can be called: see the end of it
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'docvision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
