"""The model as a page reader: structure maps to blocks, line crops to text, pictures of tables to cells.

The only file of parsing with torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from PIL import Image

from docvision.images import to_float
from docvision.layout_maps import layout_from_maps
from docvision.model import DocVisionModel, Reading, pad_images
from docvision.page import Block
from docvision.table_decode import TableStream, decode_table, opening_probability
from docvision.table_readers import NoTableDecoder, WrittenTable

TABLE_PIXELS = 1_500_000
"""Pixels of padded pictures of tables that are decoded in one batch."""
TABLE_TOKENS = 4096
"""Most tokens of one table: 30 x 15 cells with their boxes are 2,800."""
KNOWS = 0.5
"""A decoder that has learnt tables opens one with nearly all its probability, another one with hardly any."""


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

    def write_tables(self, pictures: Sequence[Image.Image], text: bool) -> list[WrittenTable]:
        """Tables as the decoder writes them, inside the grammar, pictures of like size together.

        Args:
            pictures: grey, no side longer than the coordinates reach.
            text: with the cells' text.

        Raises:
            NoTableDecoder: the decoder has not learnt to.
        """
        prompt = "table" if text else "structure"
        found: dict[int, WrittenTable] = {}
        for group in size_groups([picture.size for picture in pictures]):
            pixels, size = pad_images([to_float(pictures[index]) for index in group])
            streams = self._write(pixels, size, prompt)
            for index, stream in zip(group, streams, strict=True):
                parsed = stream.table(self.model.vocabulary, (1.0, 1.0))
                found[index] = WrittenTable(parsed.table, sureness(stream), stream.stopped)
        return [found[index] for index in range(len(pictures))]

    @torch.inference_mode()
    def _write(self, pixels: torch.Tensor, size: torch.Tensor, prompt: str) -> list[TableStream]:
        model = self.model
        pixels, size = pixels.to(model.device), size.to(model.device)
        memory = model.encoder(pixels, size, maps=model.encoder.prior)
        if float(opening_probability(model, memory, prompt).mean()) < KNOWS:
            raise NoTableDecoder(f"the model's decoder has not learnt the prompt {prompt!r}")
        return decode_table(model, memory, prompt, limit=TABLE_TOKENS, size_B2=size)


def sureness(stream: TableStream) -> float:
    """Geometric mean of the scores of the tokens that the decoder chose."""
    scores = [score for score in stream.scores if score is not None]
    return math.exp(sum(scores) / len(scores)) if scores else 0.0


def size_groups(sizes: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Indices of pictures (width, height) of like height together, padded to TABLE_PIXELS at most in each group."""
    groups: list[list[int]] = []
    extent = (0, 0)
    for index in sorted(range(len(sizes)), key=lambda i: (sizes[i][1], sizes[i][0], i)):
        wide, high = max(extent[0], sizes[index][0]), max(extent[1], sizes[index][1])
        if groups and wide * high * (len(groups[-1]) + 1) <= TABLE_PIXELS:
            groups[-1].append(index)
            extent = (wide, high)
        else:
            groups.append([index])
            extent = sizes[index]
    return groups
