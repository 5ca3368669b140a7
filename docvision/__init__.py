"""PDFs, scans and photographed pages to Markdown, HTML, tables and JSON, on your own machine.

>>> from docvision import parse
>>> document = parse("report.pdf")  # doctest: +SKIP

Importing this package costs nothing: the parser is loaded when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docvision.export import table_to_csv, to_html, to_json, to_markdown, to_text
    from docvision.hf_vlm import accelerate
    from docvision.page import Block, Document, Page, Table
    from docvision.parse import DocumentParser, ParseOptions, parse
    from docvision.source import SourceError

__all__ = [
    "Block", "Document", "DocumentParser", "Page", "ParseOptions", "SourceError", "Table", "__version__", "accelerate",
    "parse", "table_to_csv", "to_html", "to_json", "to_markdown", "to_text",
]  # fmt: skip

_HOMES = {
    "SourceError": "docvision.source",
    "accelerate": "docvision.hf_vlm",
    **dict.fromkeys(("Block", "Document", "Page", "Table"), "docvision.page"),
    **dict.fromkeys(("DocumentParser", "ParseOptions"), "docvision.parse"),
    **dict.fromkeys(("table_to_csv", "to_html", "to_json", "to_markdown", "to_text"), "docvision.export"),
}


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
