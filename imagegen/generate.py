"""The generator: a class, then tokens row by row, on the decoder that reads documents; and drawing images with it.

As LlamaGen (arXiv 2406.06525): the class is the first token, an extra class stands for "none" and makes
classifier-free guidance possible, the output layer is its own and starts at zero.  Unlike its release, the class token
is turned by the identity, not by zeros, so others can attend to what it holds.

What an image becomes depends on (seed, number of the image, class, settings) and not on the batch it is drawn in: the
noise of each token is a hash of seed, image and cell (docvision.accept.Chooser).

Shape suffixes: B images, N cells, S = 1 + source cells, D width, V codes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision import checkpoint
from docvision.accept import Chooser
from docvision.config import build, to_plain
from docvision.decoder import CausalDecoder, KVCache
from imagegen.config import GeneratorConfig, SampleConfig
from imagegen.vq import VQTokenizer, read_config

WEIGHTS = Path(__file__).parent / "weights"


class GenerateError(ValueError):
    """A class that does not exist, or settings that cannot be drawn with."""


@dataclass(frozen=True)
class Vocabulary:
    """What a generator speaks of."""

    codes: int
    """V."""
    grid: int
    """Cells a side."""
    names: tuple[str, ...]
    """Of the classes."""
    tokenizer: str = ""
    """Fingerprint of the tokenizer that the ids belong to."""


class Generator(nn.Module):
    """Class and tokens to scores of the next token.

    Args:
        config: sizes.
        vocabulary: codes, grid and classes.
    """

    def __init__(self, config: GeneratorConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        width = config.resolved()[2]
        self.decoder = CausalDecoder(config.decoder(), width, vocabulary.codes)
        self.class_embedding = nn.Embedding(len(vocabulary.names) + 1, width)
        nn.init.normal_(self.class_embedding.weight, std=0.5)
        self.head = nn.Linear(width, vocabulary.codes, bias=False)
        nn.init.zeros_(self.head.weight)

    @property
    def cells(self) -> int:
        return self.vocabulary.grid**2

    @property
    def none(self) -> int:
        """The class that stands for no class."""
        return len(self.vocabulary.names)

    def positions(self, cells_BS: Tensor) -> Tensor:
        """(B,1+S,2) rows and columns of the class token (0, 0: no turn) and of cells."""
        at_BS2 = torch.stack([cells_BS // self.vocabulary.grid, cells_BS % self.vocabulary.grid], -1)
        return F.pad(at_BS2, (0, 0, 1, 0))

    def states(
        self, labels_B: Tensor, ids_BS: Tensor, cells_BS: Tensor, embedding_mask: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B,1+S,D) after the class and after each token.

        Args:
            labels_B: classes; :attr:`none` for no class.
            ids_BS: tokens that are read.
            cells_BS: their cells, rising; any subset of the grid.
            embedding_mask: (B,1+S,D) factors, for dropout.
        """
        return self.decoder(self.embed(labels_B, ids_BS, embedding_mask), self.positions(cells_BS))

    def embed(self, labels_B: Tensor, ids_BS: Tensor, embedding_mask: Tensor | None = None) -> Tensor:
        """(B,1+S,D) what the decoder reads."""
        x = torch.cat([self.class_embedding(labels_B)[:, None], self.decoder.embed(ids_BS)], 1)
        return x if embedding_mask is None else x * embedding_mask

    def forward(self, labels_B: Tensor, ids_BN: Tensor) -> Tensor:
        """Scores (B,N,V) of every token of whole grids, each from what stands before it."""
        cells_BS = torch.arange(self.cells - 1, device=ids_BN.device).expand(len(ids_BN), -1)
        return self.head(self.states(labels_B, ids_BN[:, :-1], cells_BS))

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write config.json and model.safetensors; nothing of the training aids is in them."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        plain = {"kind": "generator", "model": to_plain(self.config), "vocabulary": to_plain(self.vocabulary)}
        (folder / checkpoint.CONFIG).write_text(json.dumps(plain, indent=1), encoding="utf-8")
        checkpoint.save_weights(self, folder, dtype)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Generator:
        """Load a folder that :meth:`save_pretrained` wrote.

        Raises:
            CheckpointError: no generator there, or one that does not fit its config.
        """
        plain = read_config(Path(folder), "generator", "imagegen train")
        model = cls(
            build(GeneratorConfig, plain["model"], str(folder)), build(Vocabulary, plain["vocabulary"], str(folder))
        )
        checkpoint.load_weights(model, Path(folder))
        return model.eval()


def find_weights(name: str | Path) -> Path:
    """Folder with ``generator`` and ``tokenizer``: a path, or the name of a packaged one.

    Raises:
        CheckpointError: neither.
    """
    for folder in (Path(name), WEIGHTS / str(name)):
        if (folder / "generator" / checkpoint.CONFIG).is_file():
            return folder
    packaged = sorted(entry.parent.parent.name for entry in WEIGHTS.glob(f"*/generator/{checkpoint.CONFIG}"))
    raise checkpoint.CheckpointError(
        f"no generator {str(name)!r}: give a folder with generator/ and tokenizer/, as imagegen train writes it to"
        f" <run.out>/export, or one of {', '.join(packaged) or '(none packaged)'}"
    )


def load_pair(name: str | Path) -> tuple[Generator, VQTokenizer]:
    """Generator and tokenizer of a folder, checked to belong together.

    Raises:
        CheckpointError: missing, damaged, or made for different codes or grids.
    """
    folder = find_weights(name)
    generator = Generator.from_pretrained(folder / "generator")
    tokenizer = VQTokenizer.from_pretrained(folder / "tokenizer")
    spoken = generator.vocabulary
    if (spoken.codes, spoken.grid) != (tokenizer.config.codes, tokenizer.grid):
        raise checkpoint.CheckpointError(
            f"{folder}: the generator speaks {spoken.codes} codes on {spoken.grid} x {spoken.grid} cells, the tokenizer"
            f" {tokenizer.config.codes} on {tokenizer.grid} x {tokenizer.grid}: they are not of one run"
        )
    return generator, tokenizer


def class_number(generator: Generator, wanted: str) -> int:
    """Number of a class given by name, number, or ``none``.

    Raises:
        GenerateError: no such class.
    """
    names = generator.vocabulary.names
    if wanted == "none":
        return generator.none
    if wanted in names:
        return names.index(wanted)
    if wanted.isdigit() and int(wanted) < len(names):
        return int(wanted)
    shown = ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
    raise GenerateError(f"no class {wanted!r}: 0 to {len(names) - 1}, none, or one of {shown}")


def guidance_at(config: SampleConfig, cell: int, cells: int) -> float:
    """Guidance for the token of ``cell``: 1 is none."""
    if config.schedule == "linear":
        return 1 + (config.guidance - 1) * cell / max(1, cells - 1)
    if config.schedule == "early" and cell >= cells / 2:
        return 1.0
    return config.guidance


def narrow(logits_BV: Tensor, config: SampleConfig) -> Tensor:
    """Logits with what top-k and top-p leave out at minus infinity; the best token always stays."""
    if config.top_k and config.top_k < logits_BV.shape[-1]:
        least = logits_BV.topk(config.top_k, -1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < least, float("-inf"))
    if config.top_p < 1:
        ordered, places = logits_BV.sort(-1, descending=True)
        share = (ordered / max(config.temperature, 1e-6)).softmax(-1)
        out = share.cumsum(-1) - share >= config.top_p
        logits_BV = logits_BV.masked_fill(out.scatter(-1, places, out), float("-inf"))
    return logits_BV


@torch.inference_mode()
def draw(
    model: Generator,
    labels_B: Tensor,
    config: SampleConfig,
    seed: int = 0,
    numbers_B: Tensor | None = None,
    cached: bool = True,
) -> Tensor:
    """Token grids (B,N), one for each label.

    Args:
        model: in evaluation mode.
        labels_B: classes.
        config: temperature, top-k, top-p and guidance; ``batch`` is left to the caller.
        seed: another seed gives other images.
        numbers_B: numbers of the images, which their noise depends on; 0, 1, ... by default.
        cached: keep keys and values; without it every token reads all before it again, for the same tokens.
    """
    B, N = len(labels_B), model.cells
    device = labels_B.device
    numbers_B = torch.arange(B, device=device) if numbers_B is None else numbers_B
    guided = any(guidance_at(config, cell, N) != 1 for cell in range(N))
    both = torch.cat([labels_B, torch.full_like(labels_B, model.none)]) if guided else labels_B
    chooser = Chooser(config.temperature, seed)
    cache = model.decoder.new_cache(len(both), device) if cached else None
    ids_BN = torch.zeros(B, 0, dtype=torch.long, device=device)
    for cell in range(N):
        hidden_BD = _last_state(model, both, ids_BN.repeat(len(both) // B, 1), cache)
        logits_BV = model.head(hidden_BD).float()
        if guided:
            with_class, without = logits_BV.chunk(2)
            logits_BV = without + guidance_at(config, cell, N) * (with_class - without)
        logits_BV = narrow(logits_BV, config)
        at_B1 = torch.full((B, 1), cell, device=device)
        ids_BN = torch.cat([ids_BN, chooser(logits_BV[:, None], numbers_B, at_B1)], 1)
    return ids_BN


def _last_state(model: Generator, labels_B: Tensor, ids_BS: Tensor, cache: KVCache | None) -> Tensor:
    """(B,D) state after the last token; with a cache only what is new is run."""
    cells_BS = torch.arange(ids_BS.shape[1], device=ids_BS.device).expand(len(ids_BS), -1)
    if cache is None:
        return model.states(labels_B, ids_BS, cells_BS)[:, -1]
    if not ids_BS.shape[1]:
        hidden = model.decoder(model.embed(labels_B, ids_BS), model.positions(cells_BS), cache=cache)
    else:
        newest = model.positions(cells_BS[:, -1:])[:, 1:]
        hidden = model.decoder(model.decoder.embed(ids_BS[:, -1:]), newest, cache=cache)
    cache.commit(1)
    return hidden[:, -1]


def sample_images(
    model: Generator, tokenizer: VQTokenizer, labels_B: Tensor, config: SampleConfig, seed: int = 0, first: int = 0
) -> Tensor:
    """Bytes (B,H,W,C), drawn ``config.batch`` at a time.

    Args:
        model: generator.
        tokenizer: of the same run.
        labels_B: classes.
        config: how to draw.
        seed: of the noise.
        first: number of the first image.
    """
    made = []
    for start in range(0, len(labels_B), config.batch):
        part = labels_B[start : start + config.batch]
        numbers = torch.arange(first + start, first + start + len(part), device=part.device)
        made.append(tokenizer.decode(draw(model, part, config, seed, numbers)).cpu())
    return torch.cat(made)


def grid_picture(images_BHWC: Tensor, columns: int, scale: int = 1, gap: int = 2) -> Tensor:
    """One picture (H,W,C) of many, row by row, on white.

    Raises:
        GenerateError: no image.
    """
    B, H, W, C = images_BHWC.shape
    if not B:
        raise GenerateError("no image to show: draw at least 1")
    big = images_BHWC.repeat_interleave(scale, 1).repeat_interleave(scale, 2).cpu()
    rows = -(-B // columns)
    high, wide = H * scale + gap, W * scale + gap
    sheet = torch.full((rows * high + gap, columns * wide + gap, C), 255, dtype=torch.uint8)
    for index in range(B):
        top, left = index // columns * high + gap, index % columns * wide + gap
        sheet[top : top + high - gap, left : left + wide - gap] = big[index]
    return sheet
