"""Training batches: image batches for the tokenizer, token shards and token batches for the generator.

A data set is encoded once: shards of ids and labels in safetensors, written whole, ``index.json`` last.  A batch is a
pure function of seed and batch number, so a resumed run sees what it would have seen.

Shape suffixes: B batch, A views (1, or 2 with the mirrored one), N cells, H W pixels, C channels.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from docvision.checkpoint import write_folder
from imagegen.images import DataError, ImageSet
from imagegen.vq import VQTokenizer

INDEX = "index.json"
SHARD = 65_536
"""Images a shard."""


@dataclass
class ImageBatch:
    images_BHWC: Tensor
    labels_B: Tensor


@dataclass
class TokenBatch:
    ids_BN: Tensor
    labels_B: Tensor
    scores_BN: Tensor | None = None
    """How much each cell is worth reading; None where nothing is dropped."""


def shuffled(count: int, batch: int, number: int, seed: int) -> np.ndarray:
    """Indices of batch ``number``: epochs of a fresh order each, batches never straddle two."""
    batch = min(batch, count)
    epoch, slot = divmod(number, count // batch)
    order = np.random.default_rng((seed, epoch)).permutation(count)
    return order[slot * batch : (slot + 1) * batch]


class ImageStream:
    """Batches of images for the tokenizer and the classifier."""

    def __init__(self, images: ImageSet, batch: int, seed: int, flip: bool = False) -> None:
        self.images, self.size, self.seed, self.flip = images, batch, seed, flip

    def batch(self, number: int) -> ImageBatch:
        indices = shuffled(len(self.images), self.size, number, self.seed)
        pixels, kept = self.images.read(indices)
        if not len(kept):
            raise DataError(f"none of {len(indices)} pictures could be read: {last_reason(self.images)}")
        if self.flip:
            mirrored = np.random.default_rng((self.seed, number, 1)).random(len(pixels)) < 0.5
            pixels = np.where(mirrored[:, None, None, None], pixels[:, :, ::-1], pixels)
        labels = self.images.labels_N[indices[kept]]
        return ImageBatch(torch.from_numpy(np.ascontiguousarray(pixels)), torch.from_numpy(labels))


def last_reason(images: ImageSet) -> str:
    """One skipped picture and its reason, for messages."""
    return next((f"{name}: {why}" for name, why in reversed(images.skipped.items())), "no reason was noted")


@dataclass
class TokenSet:
    """An encoded split."""

    ids_KAN: np.ndarray
    """uint16, K images in A views."""
    labels_K: np.ndarray
    names: tuple[str, ...]
    grid: int
    tokenizer: str
    """Fingerprint of the tokenizer that made the ids."""
    data: str
    """Fingerprint of the images."""

    def __len__(self) -> int:
        return len(self.labels_K)


class TokenStream:
    """Batches of tokens for the generator.

    Args:
        tokens: an encoded split.
        batch: images in a batch.
        seed: of the order and of the choice of view.
        scores_KAN: float16 of the same shape as the ids, or None.
    """

    def __init__(self, tokens: TokenSet, batch: int, seed: int, scores_KAN: np.ndarray | None = None) -> None:
        self.tokens, self.size, self.seed, self.scores_KAN = tokens, batch, seed, scores_KAN

    def batch(self, number: int) -> TokenBatch:
        rows = shuffled(len(self.tokens), self.size, number, self.seed)
        views = np.random.default_rng((self.seed, number, 2)).integers(self.tokens.ids_KAN.shape[1], size=len(rows))
        ids = torch.from_numpy(self.tokens.ids_KAN[rows, views].astype(np.int64))
        labels = torch.from_numpy(self.tokens.labels_K[rows].astype(np.int64))
        if self.scores_KAN is None:
            return TokenBatch(ids, labels)
        return TokenBatch(ids, labels, torch.from_numpy(self.scores_KAN[rows, views].astype(np.float32)))


def fingerprint(tokenizer: VQTokenizer) -> str:
    """16 hex digits that change with any weight."""
    digest = hashlib.sha256()
    for name, value in sorted(tokenizer.state_dict().items()):
        digest.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def encode_set(
    tokenizer: VQTokenizer, images: ImageSet, folder: Path, flip: bool = False, batch: int = 256
) -> TokenSet:
    """Encode a split into ``folder``, or read what was encoded there from the same images by the same tokenizer.

    Raises:
        DataError: the folder holds another tokenizer's or other images' tokens, or no image could be read.
    """
    own, data = fingerprint(tokenizer), images.fingerprint()
    if (folder / INDEX).is_file():
        held = read_tokens(folder)
        if (held.tokenizer, held.data, held.ids_KAN.shape[1]) != (own, data, 1 + flip):
            raise DataError(
                f"{folder} was encoded from other images or by another tokenizer: remove it, or change run.out"
            )
        return held

    def write(partial: Path) -> None:
        counts: list[int] = []
        for start in range(0, len(images), SHARD):
            ids, labels = _encode(tokenizer, images, range(start, min(start + SHARD, len(images))), flip, batch)
            save_file({"ids": ids, "labels": labels}, partial / f"tokens-{len(counts):05d}.safetensors")
            counts.append(len(labels))
        if not sum(counts):
            raise DataError(f"none of {len(images)} pictures could be read: {last_reason(images)}")
        index = {
            "counts": counts, "names": list(images.names), "grid": tokenizer.grid, "codes": tokenizer.config.codes,
            "tokenizer": own, "data": data, "skipped": images.skipped,
        }  # fmt: skip
        (partial / INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")

    write_folder(folder, write)
    return read_tokens(folder)


def _encode(
    tokenizer: VQTokenizer, images: ImageSet, indices: range, flip: bool, batch: int
) -> tuple[np.ndarray, np.ndarray]:
    ids, labels = [], []
    for start in range(indices.start, indices.stop, batch):
        part = np.arange(start, min(start + batch, indices.stop))
        pixels, kept = images.read(part)
        if not len(kept):
            continue
        views = [pixels, pixels[:, :, ::-1]] if flip else [pixels]
        codes = [tokenizer.encode(torch.from_numpy(np.ascontiguousarray(view))).cpu().numpy() for view in views]
        ids.append(np.stack(codes, 1).astype(np.uint16))
        labels.append(images.labels_N[part[kept]])
    if not ids:
        return np.zeros((0, 1 + flip, tokenizer.grid**2), np.uint16), np.zeros(0, np.int64)
    return np.concatenate(ids), np.concatenate(labels)


def read_tokens(folder: Path) -> TokenSet:
    """Read an encoded split.

    Raises:
        DataError: missing or damaged.
    """
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        shards = [load_file(folder / f"tokens-{number:05d}.safetensors") for number in range(len(index["counts"]))]
        ids = np.concatenate([shard["ids"] for shard in shards])
        labels = np.concatenate([shard["labels"] for shard in shards])
        place = (tuple(index["names"]), index["grid"], index["tokenizer"], index["data"])
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise DataError(
            f"{folder}: no whole set of tokens ({error}): remove it and run imagegen tokenize again"
        ) from error
    return TokenSet(ids, labels, *place)
