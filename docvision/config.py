"""Recipes of training: what may stand in them, one dataclass a concern, and where they are found.

A field's docstring says its unit.  How YAML and ``key=value`` overrides become these is in docvision.schema.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from docvision import schema as plain
from docvision.schema import RecipeError as RecipeError
from docvision.schema import build as build
from docvision.schema import to_plain as to_plain

RECIPES = Path(__file__).parent / "recipes"
T = TypeVar("T")


@dataclass(frozen=True)
class EncoderConfig:
    """Pixels to memory."""

    backbone: str = "fcn"
    """``fcn`` (ours) or ``timm/<model name>``."""
    pretrained: bool = False
    """Load timm's published weights; ``fcn`` has none."""
    widths: tuple[int, ...] = (24, 40, 80, 160)
    """Channels of the fcn's four stages, at strides (2,2) (2,2) (2,2) (2,1)."""
    depths: tuple[int, ...] = (0, 1, 2, 3)
    """Residual blocks of each stage."""
    layers: int = 1
    """Transformer layers over the grid."""
    prior: bool = False
    """Let the separator maps bias the decoder's cross-attention in tables (TableSeq's structure prior)."""

    def problems(self) -> list[str]:
        found = []
        if self.backbone != "fcn" and not self.backbone.startswith("timm/"):
            found.append(f"encoder.backbone={self.backbone!r}: write fcn or timm/<model name>")
        if self.backbone == "fcn" and (len(self.widths) != 4 or len(self.depths) != 4):
            found.append(f"encoder.widths and encoder.depths have {len(self.widths)} and {len(self.depths)} entries: 4")
        if self.backbone == "fcn" and self.pretrained:
            found.append("encoder.pretrained=true: fcn has no published weights, use it with timm/<model name>")
        return found


@dataclass(frozen=True)
class DecoderConfig:
    """Tokens to hidden states."""

    layers: int = 4
    heads: int = 8
    ffn: int = 640
    """Inner width of the SwiGLU feed-forward."""
    cross_attention: bool = True
    rope_base: float = 10_000.0
    waves: int = 0
    """Of the Fourier series that score coordinates, by axis; with 0 their embeddings do."""

    def problems(self) -> list[str]:
        found = [] if self.layers > 0 else [f"decoder.layers={self.layers}: at least 1"]
        return found if self.waves >= 0 else [*found, f"decoder.waves={self.waves}: at least 0"]


@dataclass(frozen=True)
class ModelConfig:
    """The whole model; saved as config.json beside its weights."""

    width: int = 256
    """Channels of memory and decoder."""
    characters: str = ""
    """The vocabulary's characters; empty for docvision.tokens.CHARACTERS."""
    bins: int = 640
    """Coordinate tokens per axis."""
    line_height: int = 32
    """Height in pixels of a text-line crop."""
    page_dpi: int = 110
    """Resolution at which whole pages are read."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    methods: dict[str, Any] = field(default_factory=dict)
    """Options of each multi-token method whose weights the model has, by name (docvision.methods)."""

    def problems(self) -> list[str]:
        found = [*self.encoder.problems(), *self.decoder.problems()]
        if self.width % (4 * self.decoder.heads):
            found.append(f"width={self.width}: a multiple of 4 x decoder.heads ({4 * self.decoder.heads}) for 2-D RoPE")
        if self.line_height % 16:
            found.append(f"line_height={self.line_height}: a multiple of 16, the encoder's vertical stride")
        return found


@dataclass(frozen=True)
class TaskConfig:
    """One stream of training batches."""

    kind: str
    """``lines``, ``pages``, ``tables``, or ``maps``: any pictures, whose structure maps ``loss.teacher`` tells."""
    data: str
    """Folder of Parquet shards made by ``docvision make``."""
    validation: str = ""
    """Folder of held-out shards; empty for none."""
    batch: int = 32
    """Samples in a batch."""
    share: float = 1.0
    """Relative frequency of this task's steps."""
    crop: tuple[int, int] = (512, 640)
    """Height and width in pixels of the windows cut from pages and pictures; lines are never cut."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Pages and pictures are scaled by a factor drawn from here before a window is cut."""
    max_width: int = 2048
    """Pixels; wider lines are left out. Short lines first get the line head off the ground sooner."""
    max_difficulty: float = 1.0
    """Lines degraded more than this are left out."""
    pool: int = 16
    """Batches sorted together by width (tables by their number of cells), so that little is padded."""
    prompt: str = "structure"
    """What the decoder writes of a table: ``structure`` (tags and boxes) or ``table`` (with the text)."""
    max_cells: int = 450
    """Tables of more cells are left out: small ones first."""
    maps: bool = True
    """Train the structure maps on pictures of tables; false leaves the maps to the pages."""

    def problems(self) -> list[str]:
        found = []
        if self.kind not in ("lines", "pages", "tables", "maps"):
            found.append(f"task kind {self.kind!r}: lines, pages, tables or maps")
        if self.scale != (1.0, 1.0) and self.kind not in ("pages", "maps"):
            found.append(f"task {self.kind}: scale is for pages and maps, leave it out")
        if not 0 < self.scale[0] <= self.scale[1]:
            found.append(f"task {self.kind}: scale {list(self.scale)}: least and greatest factor, above 0")
        if self.prompt not in ("structure", "table"):
            found.append(f"task {self.kind}: prompt {self.prompt!r}: structure or table")
        if min(self.batch, self.pool, self.max_width, self.max_cells) < 1 or self.share < 0:
            found.append(f"task {self.kind}: batch, pool, max_width, max_cells are at least 1, share is at least 0")
        return found


@dataclass(frozen=True)
class LossConfig:
    """Weights of the sum that is minimised."""

    ctc: float = 1.0
    decoder: float = 1.0
    """0 leaves the decoder out altogether: the line head alone trains the encoder, at two thirds of the cost."""
    structure: float = 1.0
    teacher: str = ""
    """A model folder or name: tasks of kind ``maps`` learn its structure maps, so that they outlast new features."""
    methods: float = 1.0
    """Of the multi-token methods' losses; PTP's alpha is decoder / (decoder + methods)."""
    alignment: float = 0.0
    """Of the surprise of one head in each later layer that does not look where the next token stands; 0 for none."""
    coordinates: float = 0.5
    """Weight of the coordinate tokens of a table's stream beside its tags and text."""
    input_noise: float = 0.1
    """Share of the decoder's input characters and coordinates replaced at random, so that it looks at the image."""
    scheduled_sampling: float = 0.0
    """Share of a table's input coordinates that the model draws itself: it learns to go on from its own errors."""

    def problems(self) -> list[str]:
        """What is wrong with the values."""
        weights = ("ctc", "decoder", "structure", "methods", "alignment", "coordinates")
        found = [
            f"loss.{name}={getattr(self, name)}: a number from 0"
            for name in weights
            if not 0 <= getattr(self, name) < math.inf
        ]
        return found + [
            f"loss.{name}={getattr(self, name)}: a share from 0 to 1"
            for name in ("input_noise", "scheduled_sampling")
            if not 0 <= getattr(self, name) <= 1
        ]


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with warm-up, a stable phase and a decay (WSD), so that training can go on from any checkpoint."""

    steps: int = 10_000
    lr: float = 1e-3
    warmup: int = 300
    decay: float = 0.3
    """Share of the steps over which the rate falls to ``final`` (a cosine)."""
    final: float = 0.02
    """Rate at the end, as a share of ``lr``."""
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    """Largest gradient norm."""
    accumulate: int = 1
    """Batches whose gradients are averaged into one step."""
    core: bool = True
    """Train encoder, decoder and heads; false trains the weights of the multi-token methods alone."""
    encoder: bool = True
    """Train the encoder, its maps and the line head; false leaves all they read as it is, and a step costs half."""
    frozen_stages: int = 0
    """Stages of the encoder's backbone, from the pixels on, that stay as they are."""
    layer_decay: float = 1.0
    """Rate of each stage of the backbone as a share of the next one's; 1 for one rate."""

    def problems(self) -> list[str]:
        found = []
        if self.steps < 1 or self.accumulate < 1:
            found.append(f"optim.steps={self.steps} and optim.accumulate={self.accumulate}: at least 1")
        if not 0 < self.lr < math.inf:
            found.append(f"optim.lr={self.lr}: above 0, such as 1e-3")
        if min(self.warmup, self.weight_decay) < 0 or not self.clip > 0:
            found.append(
                f"optim.warmup={self.warmup} and optim.weight_decay={self.weight_decay} are at least 0,"
                f" optim.clip={self.clip} is above 0"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            found.append(f"optim.betas={list(self.betas)}: each at least 0 and below 1")
        if not 0 <= self.decay <= 1:
            found.append(f"optim.decay={self.decay}: a share between 0 and 1")
        if self.frozen_stages < 0 or not 0 < self.layer_decay <= 1:
            found.append("optim.frozen_stages is no negative number, optim.layer_decay is above 0 and at most 1")
        return found


@dataclass(frozen=True)
class RunConfig:
    """Where a run lives and how often it reports."""

    out: str = "runs/docvision"
    """Folder for checkpoints, the resolved recipe and the loss curve."""
    seed: int = 0
    log_every: int = 50
    """Steps; here and in the next two 0 means at the end alone."""
    save_every: int = 500
    validate_every: int = 1000
    keep: int = 2
    """Checkpoints kept, newest first."""
    validate_samples: int = 256
    init: str = ""
    """A model folder or name to start from; empty for random weights."""
    threads: int = 1
    """CPU threads of each process."""
    shard: bool = False
    """Split weights, gradients and optimiser over the processes (FSDP); of a Hugging Face model, the frozen weights."""

    def problems(self) -> list[str]:
        """What is wrong with the values."""
        return [
            f"run.{name}={getattr(self, name)}: at least {least}"
            for name, least in (("log_every", 0), ("save_every", 0), ("validate_every", 0), ("keep", 1), ("threads", 1))
            if getattr(self, name) < least
        ]

    @staticmethod
    def due(every: int, step: int) -> bool:
        """Whether this step is one of every so many; never for 0."""
        return every > 0 and step % every == 0


@dataclass(frozen=True)
class TrainRecipe:
    """Everything ``docvision train`` needs."""

    tasks: tuple[TaskConfig, ...]
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def problems(self) -> list[str]:
        found = [*self.model.problems(), *self.optim.problems(), *self.loss.problems(), *self.run.problems()]
        for task in self.tasks:
            found.extend(task.problems())
        if not self.optim.encoder and (
            self.loss.decoder == 0 or any(task.kind in ("pages", "maps") for task in self.tasks)
        ):
            found.append("optim.encoder=false leaves the decoder to train: no pages, no maps, loss.decoder above 0")
        if any(task.kind == "maps" for task in self.tasks) != bool(self.loss.teacher):
            found.append(f"loss.teacher={self.loss.teacher!r}: a model, and a task of kind maps, or neither")
        if sum(task.share for task in self.tasks) <= 0:
            found.append("tasks: at least one with a share above 0")
        return found


def find_recipe(name: str | Path, folder: Path = RECIPES) -> Path:
    """Path of a recipe given by path or by the name of a file in ``folder``.

    Raises:
        RecipeError: no such recipe; the message lists the names that exist.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    named = folder / f"{name}.yaml"
    if named.is_file():
        return named
    known = sorted(entry.stem for entry in folder.glob("*.yaml"))
    raise RecipeError(f"no recipe {str(name)!r}: give a .yaml file or one of {', '.join(known) or '(none here)'}")


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> TrainRecipe:
    """Read a training recipe and apply overrides such as ``optim.lr=3e-4`` or ``tasks.0.batch=8``.

    Raises:
        RecipeError: every unknown key, wrong type and broken bound, together.
    """
    return load_as(TrainRecipe, name, overrides)


def load_as(schema: type[T], name: str | Path, overrides: Sequence[str] = (), folder: Path = RECIPES) -> T:
    """Read a recipe into any dataclass.

    Args:
        schema: the dataclass that the recipe fills.
        name: file, or the name of a recipe in ``folder``.
        overrides: ``dotted.key=value``, the value in YAML.
        folder: where named recipes lie.

    Raises:
        RecipeError: every unknown key, wrong type and broken bound, together.
    """
    path = find_recipe(name, folder)
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of keys, not a {type(tree).__name__}")
    for override in overrides:
        plain.override(tree, override)
    return build(schema, tree, str(path))


def dump_recipe(recipe: Any, path: Path) -> None:
    """Write the resolved recipe, defaults included."""
    path.write_text(yaml.safe_dump(to_plain(recipe), sort_keys=False, allow_unicode=True), encoding="utf-8")
