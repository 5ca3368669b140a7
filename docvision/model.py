"""The model: one encoder, one decoder, the line head, and how images become text with them.

``DocVisionModel.from_pretrained`` follows the Hugging Face habit: a packaged name, a folder, or a hub id.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision import checkpoint
from docvision.config import ModelConfig, build, to_plain
from docvision.decoder import CausalDecoder
from docvision.encoder import Memory, VisionEncoder
from docvision.images import to_float
from docvision.language import FILE as LANGUAGE
from docvision.language import SURE, CharacterModel, likeliest
from docvision.tableseq import COORDINATE_PIXELS
from docvision.tokens import CHARACTERS, Vocabulary

if TYPE_CHECKING:
    from PIL.Image import Image

CTC_FRAMES = 2
"""Line-head frames per memory column: one every 4 pixels."""
PIECE_WIDTH = 640
"""Pixels; a wider crop is cut at white gaps and read in pieces, so that a line of any length reads like a short one."""
LINE_PIXELS = 400_000
"""Pixels of padded line crops read in one batch."""


class Reading(NamedTuple):
    """What was read in one crop."""

    text: str
    confidence: float
    """Geometric mean of the probabilities along the path, in [0, 1]."""


@dataclass(frozen=True)
class StructureMaps:
    """Probabilities on a grid of 8 x 8 pixels over one page image."""

    line: np.ndarray
    """(h,w) text-line core."""
    block: np.ndarray
    """(12,h,w) class of the block, docvision.maps.CLASSES."""
    rows: np.ndarray
    columns: np.ndarray
    corners: np.ndarray
    size: tuple[int, int]
    """Width and height in pixels of the image that was read."""


class LineHead(nn.Module):
    """CTC over the vocabulary's characters, two frames per memory column (Graves 2006)."""

    def __init__(self, width: int, rows: int, classes: int) -> None:
        super().__init__()
        self.rows = rows
        self.hidden = nn.Linear(rows * width, width)
        self.out = nn.Linear(width, CTC_FRAMES * classes)

    def forward(self, memory: Memory) -> Tensor:
        """Logits (B, 2w, classes) of line crops whose grid is ``rows`` cells high."""
        B, _, D = memory.states_BMD.shape
        h, w = memory.grid
        if h != self.rows:
            raise ValueError(f"line crops are {h} cells high, the line head reads {self.rows}: resize to line_height")
        columns = memory.states_BMD.view(B, h, w, D).transpose(1, 2).reshape(B, w, h * D)
        return self.out(F.gelu(self.hidden(columns))).view(B, CTC_FRAMES * w, -1)


class StoredWeights(nn.Module):
    """Weights of a multi-token method as they were found, until docvision.methods builds the method on them."""

    def __init__(self, tensors: dict[str, Tensor], method: str) -> None:
        super().__init__()
        prefix = f"methods.{method}."
        for name, tensor in tensors.items():
            if name.startswith(prefix):
                *path, last = name.removeprefix(prefix).split(".")
                place: nn.Module = self
                for part in path:
                    if part not in dict(place.named_children()):
                        place.add_module(part, nn.Module())
                    place = place.get_submodule(part)
                place.register_parameter(last, nn.Parameter(torch.empty(tensor.shape)))


class DocVisionModel(nn.Module):
    """Vision encoder, causal decoder and line head over one vocabulary."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = Vocabulary(config.characters or CHARACTERS, config.bins)
        self.encoder = VisionEncoder(config.encoder, config.width, heads=config.decoder.heads)
        self.decoder = CausalDecoder(config.decoder, config.width, len(self.vocabulary), config.bins)
        self._place_coordinates()
        self.line_head = LineHead(config.width, config.line_height // 16, self.vocabulary.ctc_classes)
        self.methods = nn.ModuleDict()
        """Weights of multi-token methods, put here by docvision.methods.attach."""
        self.language: CharacterModel | None = None
        """Which letters follow each other; it helps the line head where that is in doubt."""

    def _place_coordinates(self) -> None:
        """Start the embeddings of coordinates as codes of their places, the grid's own code among them.

        Neighbouring bins are then alike, and a coordinate matches the memory cells it names before any training.
        Half of the channels repeat the grid's position code of that axis, the other half tells bins apart finely.
        """
        vocabulary, width = self.vocabulary, self.config.width
        pixels = COORDINATE_PIXELS * torch.arange(vocabulary.bins)[:, None]
        k = torch.arange(width // 4) / (width // 4)
        coarse, fine = 10_000.0**-k, 0.8 * 100.0**-k
        with torch.no_grad():
            for axis, (first, cell) in enumerate(((vocabulary.first_y, 16), (vocabulary.first_x, 8))):
                place = torch.cat(
                    [torch.cat([a.sin(), a.cos()], -1) for a in (pixels / cell * coarse, pixels * fine)], -1
                )
                # The grid codes y in its first half of the channels and x in the second.
                place = place if axis == 0 else place.roll(width // 2, -1)
                rows = slice(first, first + vocabulary.bins)
                self.decoder.embedding.weight[rows] = place / math.sqrt(width / 2)

    @property
    def device(self) -> torch.device:
        return self.decoder.embedding.weight.device

    @classmethod
    def from_pretrained(cls, name: str | Path, device: str = "cpu") -> DocVisionModel:
        """A trained model in evaluation mode.

        Args:
            name: packaged name such as ``docvision-tiny``, folder, or hub id.
            device: where to put it; half-precision weights are computed in single precision on a CPU.

        Raises:
            CheckpointError: no such model, or a damaged one.
            LanguageError: a damaged language model.
        """
        folder = checkpoint.find_model(name)
        try:
            plain = json.loads((folder / checkpoint.CONFIG).read_text(encoding="utf-8"))
        except ValueError as error:
            raise checkpoint.CheckpointError(f"{folder / checkpoint.CONFIG}: not JSON: {error}") from error
        fingerprint = plain.pop("vocabulary", "")
        model = cls(build(ModelConfig, plain, str(folder / checkpoint.CONFIG)))
        if fingerprint != model.vocabulary.fingerprint:
            raise checkpoint.CheckpointError(
                f"{folder}: its vocabulary {fingerprint!r} is not this version's {model.vocabulary.fingerprint!r}:"
                " use the docvision release that made it"
            )
        for method in model.config.methods:
            model.methods[method] = StoredWeights(checkpoint.read_tensors(folder / checkpoint.WEIGHTS), method)
        checkpoint.load_weights(model, folder)
        if (folder / LANGUAGE).exists():
            model.language = CharacterModel.load(folder / LANGUAGE)
        return model.to(device).eval()

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write config and weights, floating tensors as ``dtype`` (float16 halves the file), whole or not at all."""

        def write(partial: Path) -> None:
            plain = {"vocabulary": self.vocabulary.fingerprint, **to_plain(self.config)}
            (partial / checkpoint.CONFIG).write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
            checkpoint.save_weights(self, partial, dtype)
            if self.language is not None:
                self.language.save(partial / LANGUAGE)

        checkpoint.write_folder(Path(folder), write)

    @torch.inference_mode()
    def structure(self, image: Image) -> StructureMaps:
        """Structure maps of a page image at about ``config.page_dpi``."""
        pixels = torch.from_numpy(to_float(image))[None, None].to(self.device)
        maps = self.encoder.structure_maps(pixels)
        single = {name: maps[name][0, 0].sigmoid().cpu().numpy() for name in ("line", "rows", "columns", "corners")}
        return StructureMaps(block=maps["block"][0].softmax(0).cpu().numpy(), size=image.size, **single)

    @torch.inference_mode()
    def read_lines(self, crops: Sequence[Image]) -> list[Reading]:
        """Text of line crops by the line head.

        Crops of any height are resized to ``config.line_height``; those of like width are read together.
        """
        lines = [split_line(to_float(_fit_height(crop, self.config.line_height))) for crop in crops]
        readings = self._read_pieces([piece for pieces in lines for piece in pieces])
        return [_join([next(readings) for _ in pieces]) for pieces in lines]

    def _read_pieces(self, arrays: Sequence[np.ndarray]) -> Iterator[Reading]:
        readings: list[Reading] = [Reading("", 1.0)] * len(arrays)
        for group in width_groups([array.shape[1] for array in arrays], self.config.line_height):
            pixels, size = pad_images([arrays[index] for index in group])
            memory = self.encoder(pixels.to(self.device), size.to(self.device))
            logits = self.line_head(memory)
            for index, reading in zip(group, self.best_paths(logits, size[:, 1], self.language), strict=True):
                readings[index] = reading
        return iter(readings)

    def best_paths(self, logits_BTC: Tensor, width_B: Tensor, language: CharacterModel | None = None) -> list[Reading]:
        """Text of each row of the line head's logits, and how sure the line head is by itself.

        Args:
            logits_BTC: of rows padded at the right.
            width_B: pixels of each row.
            language: has a say in the text; None for the best path of the line head alone.
        """
        log_probs_BTC = logits_BTC.float().log_softmax(-1)
        best = log_probs_BTC.max(-1)
        frames = CTC_FRAMES * ((width_B + 7) // 8)
        readings = []
        for row, (path, scores) in enumerate(zip(best.indices.cpu(), best.values.cpu(), strict=True)):
            count = int(frames[row])
            path, scores = path[:count], scores[:count]
            text = self.vocabulary.decode_ctc(path.tolist())
            if language is not None and bool((scores < SURE).any()):
                text = likeliest(log_probs_BTC[row, :count].cpu().numpy(), self.vocabulary.names, language)
            spoken = scores[path > 0]
            # Blanks are nearly always sure; the characters tell how sure the reading is.
            sure = float((spoken if len(spoken) else scores).mean().exp()) if count else 1.0
            readings.append(Reading(text.strip(), sure))
        return readings


def pad_images(arrays: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Stack images of unequal size, padded with paper at the right and the bottom: (B,1,H,W) and sizes (B,2)."""
    size = torch.tensor([array.shape for array in arrays])
    H, W = size.amax(0).tolist()
    pixels = torch.zeros(len(arrays), 1, H, W)
    for index, array in enumerate(arrays):
        pixels[index, 0, : array.shape[0], : array.shape[1]] = torch.from_numpy(array)
    return pixels, size


def width_groups(widths: Sequence[int], height: int) -> list[list[int]]:
    """Indices of like width together, each group at most LINE_PIXELS pixels when padded to its widest."""
    groups: list[list[int]] = []
    for index in sorted(range(len(widths)), key=lambda i: (widths[i], i)):
        if groups and (len(groups[-1]) + 1) * widths[index] * height <= LINE_PIXELS:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def split_line(line_HW: np.ndarray, limit: int = PIECE_WIDTH) -> list[np.ndarray]:
    """A line crop cut at its whitest columns into pieces at most ``limit`` pixels wide.

    The cut is looked for in the second half of the width allowed; the widest gap between words wins, because the
    darkness is averaged over a word space (a quarter of the height).
    """
    pieces = []
    while line_HW.shape[1] > limit:
        window = max(3, line_HW.shape[0] // 4)
        darkness = np.convolve(line_HW[:, limit // 2 : limit].mean(0), np.ones(window), mode="valid")
        cut = limit // 2 + int(darkness.argmin()) + window // 2
        pieces.append(line_HW[:, :cut])
        line_HW = line_HW[:, cut:]
    return [*pieces, line_HW]


def _join(pieces: Sequence[Reading]) -> Reading:
    """The pieces of one line as one reading; characters weigh the confidence."""
    if len(pieces) == 1:
        return pieces[0]
    weights = np.array([max(1, len(piece.text)) for piece in pieces])
    sure = np.array([max(piece.confidence, 1e-6) for piece in pieces])
    confidence = float(np.exp((weights * np.log(sure)).sum() / weights.sum()))
    return Reading(" ".join(piece.text for piece in pieces if piece.text), confidence)


def _fit_height(image: Image, height: int) -> Image:
    if image.height == height:
        return image
    return image.resize((max(1, round(image.width * height / image.height)), height))
