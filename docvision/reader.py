"""The model as a page reader: structure maps to blocks, line crops to text.  The only file of parsing with torch."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from docvision.layout_maps import layout_from_maps
from docvision.model import DocVisionModel, Reading
from docvision.page import Block


class ModelReader:
    """A :class:`docvision.scan.Reader` made of a trained model.

    Args:
        model: in evaluation mode, on the device where it shall run.
    """

    def __init__(self, model: DocVisionModel) -> None:
        self.model = model
        self.page_dpi: int = model.config.page_dpi

    @classmethod
    def from_pretrained(cls, name: str, device: str = "cpu") -> ModelReader:
        """Load a model by name, folder or hub id.

        Raises:
            CheckpointError: no such model, or a damaged one.
            RuntimeError: the device is not there.
        """
        return cls(DocVisionModel.from_pretrained(name, device))

    def find_blocks(self, image: Image.Image) -> list[Block]:
        return layout_from_maps(self.model.structure(image), image)

    def read_lines(self, crops: Sequence[Image.Image]) -> list[Reading]:
        return self.model.read_lines(crops)
