"""Pages typeset for a test, read and arranged; no word of a text layer may be lost on the way."""

from __future__ import annotations

from pathlib import Path

import typst

from docvision.layout import finish_document, layout_from_layer
from docvision.ledger import check_ledger
from docvision.page import Page
from docvision.pdf import open_source

LOREM = (
    "Rivers carry sand and silt from the mountains to the sea, and the shape of a delta tells how much of it arrives. "
    "Where the tide is weak the channels split again and again; where waves are strong the shore is smooth. "
)


def parse(tmp_path: Path, source: str) -> list[Page]:
    """Typeset, read and arrange; every word of the text layer must be accounted for."""
    path = tmp_path / "page.pdf"
    path.write_bytes(typst.compile(source.encode()))
    pages, layers = [], []
    with open_source(path) as opened:
        for page in opened.pages():
            layer = page.layer()
            blocks, dropped = layout_from_layer(layer, page.width, page.height)
            pages.append(Page(page.number, page.width, page.height, blocks, dropped=dropped))
            layers.append(layer)
    finish_document(pages)
    for page, layer in zip(pages, layers, strict=True):
        assert check_ledger([word.text for word in layer.words + layer.hidden], page) == []
    return pages


def texts(page: Page, kind: str) -> list[str]:
    return [block.text for block in page.blocks if block.kind == kind]
