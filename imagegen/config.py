"""Recipes of image generation: what is trained, on which images, and how images are drawn from it.

One frozen dataclass per concern, read by :func:`docvision.config.load_as`; a field's docstring says its unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from docvision.config import DecoderConfig, OptimConfig, RunConfig, load_as

RECIPES = Path(__file__).parent / "recipes"

SIZES: dict[str, tuple[int, int, int]] = {
    "tiny": (2, 2, 64),
    "mini": (4, 4, 128),
    "small": (6, 6, 192),
    "medium": (12, 12, 384),
    "B": (12, 12, 768),
    "L": (24, 16, 1024),
    "XL": (36, 20, 1280),
    "XXL": (48, 24, 1536),
}
"""Layers, heads, width; B to XXL are LlamaGen's (arXiv 2406.06525, table 1)."""
SCORERS = ("uniform", "surprisal", "gradient", "vit-cls")
"""Keys of imagegen.scores.SCORERS, here so that a recipe is checked without torch."""
MAX_SEED = 2**31 - 1
"""The noise of a token multiplies the seed in 64 bits (docvision.accept.Chooser)."""


@dataclass(frozen=True)
class DataConfig:
    """Images and where they come from."""

    kind: str = "fashion_mnist"
    """``fashion_mnist``, ``digits`` (8 x 8, from scikit-learn), ``folder`` (one folder a class) or ``webdataset``."""
    folder: str = ""
    """Where the images lie; empty for the places where packages put Fashion-MNIST."""
    size: int = 28
    """Pixels a side; pictures of a folder are scaled and cropped to it, others must have it."""
    channels: int = 1
    """1 grey, 3 colour."""
    flip: bool = False
    """Encode a mirrored view of each training image as well."""
    limit: int = 0
    """Images of the training split that are used; 0 for all."""
    holdout: float = 0.1
    """Share held out where the folder has no split of its own (train and test, or train and val)."""

    def problems(self) -> list[str]:
        found = []
        if self.kind not in ("fashion_mnist", "digits", "folder", "webdataset"):
            found.append(f"data.kind={self.kind!r}: fashion_mnist, digits, folder or webdataset")
        if self.kind in ("folder", "webdataset") and not self.folder:
            found.append(f"data.kind={self.kind}: data.folder is empty, give the folder of the images")
        if self.channels not in (1, 3):
            found.append(f"data.channels={self.channels}: 1 or 3")
        fixed = {"fashion_mnist": 28, "digits": 8}.get(self.kind)
        if fixed and self.size != fixed:
            found.append(f"data.size={self.size}: {self.kind} has {fixed} x {fixed} pixels, write data.size={fixed}")
        if fixed and self.channels != 1:
            found.append(f"data.channels={self.channels}: {self.kind} is grey, write data.channels=1")
        if not 0 < self.holdout < 1:
            found.append(f"data.holdout={self.holdout}: a share between 0 and 1")
        return found


@dataclass(frozen=True)
class TokenizerConfig:
    """Images to token grids: LlamaGen's VQ, scaled down."""

    path: str = ""
    """Folder of a trained tokenizer; empty to train one in ``<run.out>/tokenizer``."""
    widths: tuple[int, ...] = (48, 96)
    """Channels of each level; a level halves the side, so two turn 28 pixels into 7 cells."""
    blocks: int = 1
    """Residual blocks of each level."""
    attention: bool = False
    """Self-attention over the cells at the lowest level."""
    codes: int = 512
    """V, entries of the codebook."""
    code_dim: int = 8
    """Width of a code; a low one keeps the codebook in use (LlamaGen, section 3.1)."""
    commitment: float = 0.25
    entropy: float = 0.0
    """Weight of the term that makes assignments sure and the use of codes even."""
    perceptual: float = 0.0
    """Weight of a distance between features of our own classifier; it is no LPIPS."""
    adversarial: float = 0.0
    """Weight of a hinge PatchGAN; 0 trains none."""
    adversarial_start: int = 1000
    """First step with the adversarial term."""
    batch: int = 64
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(steps=2000, lr=2e-3, warmup=50, decay=0.5))

    def problems(self) -> list[str]:
        found = [problem.replace("optim.", "tokenizer.optim.") for problem in self.optim.problems()]
        if not self.widths or any(width % 8 for width in self.widths):
            found.append(f"tokenizer.widths={list(self.widths)}: at least one, each a multiple of 8")
        if not 2 <= self.codes <= 65536:
            found.append(f"tokenizer.codes={self.codes}: 2 to 65536, shards hold 16 bits a token")
        if min(self.blocks, self.code_dim, self.batch) < 1:
            found.append("tokenizer: blocks, code_dim and batch are at least 1")
        return found


@dataclass(frozen=True)
class GeneratorConfig:
    """Classes and tokens to the next token."""

    size: str = "small"
    """A row of SIZES; the three numbers below replace its entries where they are not 0."""
    layers: int = 0
    heads: int = 0
    width: int = 0
    dropout: float = 0.1
    """On the embeddings."""
    class_dropout: float = 0.1
    """Share of images trained without their class, for classifier-free guidance."""

    def resolved(self) -> tuple[int, int, int]:
        """Layers, heads, width."""
        layers, heads, width = SIZES[self.size]
        return self.layers or layers, self.heads or heads, self.width or width

    def decoder(self) -> DecoderConfig:
        """SwiGLU of 2/3 x 4 D, rounded up to 256 as in LlamaGen, to 64 in small models."""
        layers, heads, width = self.resolved()
        step = 256 if width >= 512 else 64
        return DecoderConfig(layers, heads, -(-8 * width // 3 // step) * step, cross_attention=False)

    def problems(self) -> list[str]:
        if self.size not in SIZES:
            return [f"model.size={self.size!r}: one of {', '.join(SIZES)}"]
        found = []
        layers, heads, width = self.resolved()
        if min(layers, heads, width) < 1 or width % (4 * heads):
            found.append(f"model: {layers} layers, {heads} heads, width {width}: a multiple of 4 x heads for 2-D RoPE")
        for name in ("dropout", "class_dropout"):
            if not 0 <= getattr(self, name) < 1:
                found.append(f"model.{name}={getattr(self, name)}: a share from 0 to below 1")
        return found


@dataclass(frozen=True)
class MtarConfig:
    """MTAR's training aids (arXiv 2608.25386); all off by default, none of them is in the exported model."""

    heads: tuple[str, ...] = ()
    """Directions of extra heads: ``R2`` (two ahead), ``B`` (one row below the token just read), ``B.R1``."""
    depth: int = 2
    """Transformer blocks of each extra head; none at all is known to hurt (Mirai, arXiv 2601.14671)."""
    weight: float = 0.1
    """Of the extra heads' mean loss."""
    contrast: float = 0.0
    """Weight of the token-contrastive term; the paper's is 0.2."""
    contrast_rows: int = 256
    """Token states drawn for it."""
    contrast_dropout: float = 0.2
    contrast_temperature: float = 0.07
    contrast_mask: bool = False
    """Leave pairs of equal token and equal cell out of the negatives: many here, 2 % in the paper."""
    scorer: str = ""
    """What says which cells are worth reading: a name of imagegen.scores.SCORERS; empty drops nothing."""
    mode: str = "drop"
    """``drop``: left-out cells are absent; ``route``: they skip the middle layers and come back (TREAD)."""
    sharpness: float = 0.35
    """Temperature of the draw: probabilities follow score ** (1 / sharpness)."""
    rates: tuple[float, ...] = (0.5, 0.0)
    """Share of cells left out in each phase."""
    phases: tuple[float, ...] = (0.8, 0.2)
    """Share of the steps of each phase; the paper's three stages are rates 0.5 0.25 0 at 0.6 0.05 0.35."""

    def problems(self) -> list[str]:
        found = []
        unknown = [name for name in self.heads if name not in ("R2", "R3", "B", "B.R1")]
        if unknown:
            found.append(f"mtar.heads: {', '.join(unknown)} unknown: R2, R3, B or B.R1")
        if self.heads and self.depth < 1:
            found.append(f"mtar.depth={self.depth}: at least 1 block a head")
        if self.scorer and self.scorer not in SCORERS:
            found.append(f"mtar.scorer={self.scorer!r}: one of {', '.join(SCORERS)}, or empty")
        if self.mode not in ("drop", "route"):
            found.append(f"mtar.mode={self.mode!r}: drop or route")
        if len(self.rates) != len(self.phases) or abs(sum(self.phases) - 1) > 1e-6:
            found.append(f"mtar.rates={list(self.rates)} and mtar.phases={list(self.phases)}: one rate a phase, sum 1")
        if any(not 0 <= rate < 1 for rate in self.rates):
            found.append(f"mtar.rates={list(self.rates)}: shares from 0 to below 1")
        if self.sharpness <= 0 or self.contrast_temperature <= 0:
            found.append("mtar.sharpness and mtar.contrast_temperature are above 0")
        return found


@dataclass(frozen=True)
class SampleConfig:
    """How images are drawn."""

    temperature: float = 1.0
    top_k: int = 0
    """Only the k best tokens; 0 for all."""
    top_p: float = 1.0
    """Only the best tokens that together reach this probability."""
    guidance: float = 1.5
    """1 is none."""
    schedule: str = "constant"
    """``constant``; ``linear`` (from none at the first token to full at the last); ``early`` (first half only)."""
    batch: int = 128
    """Images at a time; it changes speed, never an image."""

    def problems(self) -> list[str]:
        found = []
        if self.schedule not in ("constant", "linear", "early"):
            found.append(f"sample.schedule={self.schedule!r}: constant, linear or early")
        if not 0 <= self.temperature < math.inf or not 0 < self.top_p <= 1 or self.top_k < 0 or self.batch < 1:
            found.append("sample: temperature and top_k from 0, top_p in (0, 1], batch from 1")
        if not 0 <= self.guidance < math.inf:
            found.append(f"sample.guidance={self.guidance:g}: a number from 0; 1 is none")
        return found


@dataclass(frozen=True)
class ImageRecipe:
    """Everything ``imagegen`` needs."""

    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: GeneratorConfig = field(default_factory=GeneratorConfig)
    mtar: MtarConfig = field(default_factory=MtarConfig)
    sample: SampleConfig = field(default_factory=SampleConfig)
    batch: int = 64
    """Images in a batch of the generator."""
    ema: float = 0.995
    """Decay of the averaged weights, which are the ones exported; 0 keeps no average."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def problems(self) -> list[str]:
        parts = (self.data, self.tokenizer, self.model, self.mtar, self.sample, self.optim, self.run)
        found = [problem for part in parts for problem in part.problems()]
        side = 2 ** len(self.tokenizer.widths)
        if self.data.size % side:
            found.append(f"data.size={self.data.size}: a multiple of {side}, the stride of the tokenizer's levels")
        if not 0 <= self.run.seed <= MAX_SEED:
            found.append(f"run.seed={self.run.seed}: from 0 to {MAX_SEED}")
        if self.batch < 1 or not 0 <= self.ema < 1:
            found.append(f"batch={self.batch}: at least 1; ema={self.ema}: from 0 to below 1")
        return found

    @property
    def grid(self) -> int:
        """Cells a side."""
        return self.data.size // 2 ** len(self.tokenizer.widths)


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> ImageRecipe:
    """Read a recipe of ``imagegen/recipes`` or a file, with ``key=value`` overrides.

    Raises:
        RecipeError: every unknown key, wrong type and broken bound, together.
    """
    return load_as(ImageRecipe, name, overrides, RECIPES)
