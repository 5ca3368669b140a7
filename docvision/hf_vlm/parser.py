"""A DocumentParser whose engine is a document model of Hugging Face."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from docvision.hf_vlm.pages import VlmReader, VlmRun
from docvision.parse import DocumentParser, ParseOptions


class VlmParser(DocumentParser):
    """A DocumentParser whose pictures are read by a document model of Hugging Face.

    Args:
        options: as for DocumentParser; ``model`` is a folder or hub id of such a model.
        reader: a loaded one.
        changes: single options.
    """

    def __init__(self, options: ParseOptions | None = None, reader: VlmReader | None = None, **changes: Any) -> None:
        super().__init__(options, reader, **changes)  # type: ignore[arg-type] # it reads pages, not blocks
        self._load = VlmReader.from_pretrained  # type: ignore[assignment]

    def _run(self, source: Any) -> VlmRun:
        run = super()._run(source)
        return VlmRun(**{item.name: getattr(run, item.name) for item in fields(run)})
