"""Shards on disk to training batches, as a pure function of (seed, batch number).

Batch i of a stream is the same whatever came before it, so resuming a run means remembering one number, and
ranks share the data without overlap by taking batches i*world + rank.  Lines are sorted by width inside a
pool, so little is padded; pages are cut to windows of one size.
"""

from __future__ import annotations

import contextlib
import io
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from docvision.config import TaskConfig
from docvision.images import to_float
from docvision.maps import maps_from_page
from docvision.model import pad_images
from docvision.page import page_from_json
from docvision.tableseq import COORDINATE_PIXELS, TableStreamError, table_to_ids
from docvision.tokens import PAD, Vocabulary


class DataError(ValueError):
    """Training data that is missing or not in the shard format."""


@dataclass
class LineBatch:
    """Text-line crops with their text."""

    pixels_B1HW: Tensor
    size_B2: Tensor
    tokens_BT: Tensor
    """<bos> <prompt:text> characters <eos>, padded with 0."""
    labels_BU: Tensor
    """Character ids for CTC, padded with 0."""
    label_length_B: Tensor
    texts: list[str]


@dataclass
class PageBatch:
    """Windows of pages with structure targets on the 8-pixel grid."""

    pixels_B1HW: Tensor
    size_B2: Tensor
    targets: dict[str, Tensor]
    """Maps by name, and ``valid`` (B,h,w)."""


@dataclass
class TableBatch:
    """Pictures of tables with their streams and the structure targets of the whole picture."""

    pixels_B1HW: Tensor
    size_B2: Tensor
    tokens_BT: Tensor
    """<bos> <prompt:...> stream <eos>, padded with 0."""
    targets: dict[str, Tensor]
    """Maps by name, and ``valid`` (B,h,w)."""


@dataclass
class PictureBatch:
    """Windows of any pictures, without truth."""

    pixels_B1HW: Tensor
    size_B2: Tensor


COLUMNS = {
    "tables": {"image", "document", "rows", "columns"},
    "lines": {"image", "text", "width"},
    "pages": {"image", "document"},
    "maps": {"image"},
}
"""What the rows of a task's shards must hold, by its kind."""


class Shards:
    """Random access to the rows of a folder of Parquet shards, a few shards in memory at a time."""

    def __init__(self, folder: str | Path, held: int = 2) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise DataError("training data needs pyarrow: pip install 'docvision[train]'") from error
        self.parquet = parquet
        self.files = sorted(Path(folder).glob("*.parquet"))
        if not self.files and any(Path(folder).glob("*.tar")):
            raise DataError(
                f"{folder}: its shards are in the other format, webdataset (*.tar): make them with"
                " docvision make RECIPE -o FOLDER --format parquet"
            )
        if not self.files:
            raise DataError(f"{folder}: no *.parquet shards: make them with docvision make RECIPE -o {folder}")
        self.rows = [parquet.read_metadata(file).num_rows for file in self.files]
        self.columns = set(parquet.read_schema(self.files[0]).names)
        self.held = held
        self._tables: OrderedDict[int, Any] = OrderedDict()

    def table(self, shard: int) -> Any:
        if shard not in self._tables:
            self._tables[shard] = self.parquet.read_table(self.files[shard])
            while len(self._tables) > self.held:
                self._tables.popitem(last=False)
        self._tables.move_to_end(shard)
        return self._tables[shard]

    def column(self, shard: int, name: str) -> np.ndarray:
        """One column of a shard, without reading its images."""
        return self.parquet.read_table(self.files[shard], columns=[name])[name].to_numpy()

    def row(self, shard: int, index: int) -> dict[str, Any]:
        return self.table(shard).slice(index, 1).to_pylist()[0]


class Stream:
    """Batches of one task, addressed by number."""

    def __init__(self, task: TaskConfig, vocabulary: Vocabulary, seed: int, folder: str | None = None) -> None:
        self.task = task
        self.vocabulary = vocabulary
        self.seed = seed
        self.shards = Shards(folder or task.data)
        _check_columns(self.shards.columns, task.kind, folder or task.data)
        self.sizes = [self._sizes(shard) for shard in range(len(self.shards.files))]
        self.eligible = [self._eligible(shard) for shard in range(len(self.shards.files))]
        self.per_shard = [-(-len(rows) // task.batch) for rows in self.eligible]
        self.per_epoch = sum(self.per_shard)
        if not self.per_epoch:
            raise DataError(
                f"{task.data}: no sample within max_width={task.max_width}, max_cells={task.max_cells} and"
                f" max_difficulty={task.max_difficulty}: raise them"
            )

    def batch(self, number: int) -> LineBatch | PageBatch | TableBatch | PictureBatch:
        """Batch ``number`` (from 0) of the endless stream."""
        epoch, place = divmod(number, self.per_epoch)
        for shard in np.random.default_rng((self.seed, epoch)).permutation(len(self.per_shard)).tolist():
            if place < self.per_shard[shard]:
                break
            place -= self.per_shard[shard]
        rng = np.random.default_rng((self.seed, epoch, shard))
        rows = [self.shards.row(shard, index) for index in self._rows(shard, place, rng)]
        if self.task.kind == "lines":
            return line_batch(rows, self.vocabulary)
        if self.task.kind == "tables":
            return table_batch(rows, self.vocabulary, self.task.prompt, self.task.maps)
        window = np.random.default_rng((self.seed, epoch, shard, place))
        make = page_batch if self.task.kind == "pages" else picture_batch
        return make(rows, self.task.crop, window, self.task.scale)

    def _eligible(self, shard: int) -> np.ndarray:
        """Row numbers of a shard that are neither too large nor too degraded."""
        sizes = self.sizes[shard]
        if sizes is None:
            return np.arange(self.shards.rows[shard])
        fits = sizes <= (self.task.max_width if self.task.kind == "lines" else self.task.max_cells)
        if self.task.max_difficulty < 1:
            fits &= self.shards.column(shard, "difficulty") <= self.task.max_difficulty
        return np.flatnonzero(fits)

    def _sizes(self, shard: int) -> np.ndarray | None:
        """By what samples are sorted so that little is padded: widths of lines, numbers of cells of tables."""
        if self.task.kind in ("pages", "maps"):
            return None
        if self.task.kind == "lines":
            return self.shards.column(shard, "width")
        return self.shards.column(shard, "rows") * self.shards.column(shard, "columns")

    def _rows(self, shard: int, place: int, rng: np.random.Generator) -> list[int]:
        """Rows of batch ``place`` of a shard: shuffled, sorted by size within pools, pools' batches shuffled."""
        order = rng.permutation(self.eligible[shard])
        sizes = self.sizes[shard]
        if sizes is None:
            return order[place * self.task.batch : (place + 1) * self.task.batch].tolist()
        size = self.task.batch * self.task.pool
        pools = [order[start : start + size] for start in range(0, len(order), size)]
        ordered = np.concatenate([pool[np.argsort(sizes[pool], kind="stable")] for pool in pools])
        batches = rng.permutation(self.per_shard[shard])
        start = int(batches[place]) * self.task.batch
        return ordered[start : start + self.task.batch].tolist()


def _check_columns(found: set[str], kind: str, folder: str) -> None:
    if COLUMNS[kind] <= found:
        return
    held = next((name for name, columns in COLUMNS.items() if columns <= found), f"columns {', '.join(sorted(found))}")
    wanted = "pages" if kind == "maps" else kind
    raise DataError(f"{folder} holds {held}, task {kind} needs {wanted}: docvision make {wanted} -o FOLDER")


def line_batch(rows: list[dict[str, Any]], vocabulary: Vocabulary) -> LineBatch:
    """Rows with ``image`` and ``text`` to tensors."""
    pixels, size = pad_images([to_float(_image(row)) for row in rows])
    texts = [row["text"] for row in rows]
    prompt = [vocabulary.bos, vocabulary.ids["<prompt:text>"]]
    tokens = _pad([[*prompt, *vocabulary.encode(text), vocabulary.eos] for text in texts])
    labels = [vocabulary.encode_ctc(text) for text in texts]
    lengths = torch.tensor([len(label) for label in labels])
    return LineBatch(pixels, size, tokens, _pad(labels), lengths, texts)


def page_batch(
    rows: list[dict[str, Any]],
    crop: tuple[int, int],
    rng: np.random.Generator,
    scale: tuple[float, float] = (1.0, 1.0),
) -> PageBatch:
    """Rows with ``image`` and ``document`` to one random window of each page, aligned to the 8-pixel grid."""
    arrays, targets = [], []
    for row in rows:
        image = _scaled(_image(row), scale, rng)
        maps = maps_from_page(page_from_json(row["document"]), image.width, image.height)
        left, top, right, bottom = _window(image, crop, rng)
        arrays.append(to_float(image.crop((left, top, right, bottom))))
        h, w = -(-(bottom - top) // 8), -(-(right - left) // 8)
        targets.append(
            {name: value[top // 8 : top // 8 + h, left // 8 : left // 8 + w] for name, value in maps.items()}
        )
    pixels, size = pad_images(arrays)
    return PageBatch(pixels, size, _stack(targets, pixels.shape[2:]))


def picture_batch(
    rows: list[dict[str, Any]],
    crop: tuple[int, int],
    rng: np.random.Generator,
    scale: tuple[float, float] = (1.0, 1.0),
) -> PictureBatch:
    """Rows with ``image`` to one random window of each picture."""
    images = [_scaled(_image(row), scale, rng) for row in rows]
    return PictureBatch(*pad_images([to_float(image.crop(_window(image, crop, rng))) for image in images]))


def _scaled(image: Image.Image, scale: tuple[float, float], rng: np.random.Generator) -> Image.Image:
    if scale == (1.0, 1.0):
        return image
    factor = float(rng.uniform(*scale))
    size = max(8, round(image.width * factor)), max(8, round(image.height * factor))
    return image.resize(size, Image.Resampling.LANCZOS)


def _window(image: Image.Image, crop: tuple[int, int], rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a random window on the 8-pixel grid; all of an image smaller than that."""
    top = 8 * int(rng.integers(0, max(1, (image.height - crop[0]) // 8 + 1)))
    left = 8 * int(rng.integers(0, max(1, (image.width - crop[1]) // 8 + 1)))
    return left, top, min(left + crop[1], image.width), min(top + crop[0], image.height)


def table_batch(rows: list[dict[str, Any]], vocabulary: Vocabulary, prompt: str, maps: bool = True) -> TableBatch:
    """Rows with ``image`` and a ``document`` of one table to pictures, streams and, if wanted, maps.

    A picture that has more pixels than there are coordinates is scaled down first, and its boxes with it.
    """
    arrays, targets, streams = [], [], []
    for row in rows:
        image = _image(row)
        longest = vocabulary.bins * COORDINATE_PIXELS
        if max(image.size) > longest:
            image.thumbnail((longest, longest))
        page = page_from_json(row["document"])
        table = next(block.table for block in page.blocks if block.table is not None)
        scale = image.width / page.width, image.height / page.height
        streams.append([vocabulary.bos, vocabulary.ids[f"<prompt:{prompt}>"]])
        # A table that has no stream (a cell ends beyond the last coordinate) trains the maps alone.
        with contextlib.suppress(TableStreamError):
            streams[-1] += [*table_to_ids(table, vocabulary, scale, text=prompt == "table"), vocabulary.eos]
        if maps:
            targets.append(maps_from_page(page, image.width, image.height))
        arrays.append(to_float(image))
    pixels, size = pad_images(arrays)
    return TableBatch(pixels, size, _pad(streams), _stack(targets, pixels.shape[2:]))


def _stack(targets: list[dict[str, np.ndarray]], shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Maps of unequal size as one batch, padded with 0 to the grid of images of ``shape``."""
    h, w = -(-shape[0] // 8), -(-shape[1] // 8)
    stacked: dict[str, Tensor] = {}
    for name in targets[0] if targets else ():
        whole = np.zeros((len(targets), h, w), dtype=targets[0][name].dtype)
        for index, maps in enumerate(targets):
            part = maps[name]
            whole[index, : part.shape[0], : part.shape[1]] = part
        stacked[name] = torch.from_numpy(whole)
    return stacked


def _image(row: dict[str, Any]) -> Image.Image:
    image = row["image"]
    return Image.open(io.BytesIO(image["bytes"] if isinstance(image, dict) else image)).convert("L")


def _pad(sequences: list[list[int]]) -> Tensor:
    longest = max(1, *(len(sequence) for sequence in sequences)) if sequences else 1
    return torch.tensor([[*sequence, *[PAD] * (longest - len(sequence))] for sequence in sequences], dtype=torch.long)
