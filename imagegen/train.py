"""Training of the generator from a recipe: tokenizer, token shards, scores, ``docvision.train.fit``, export.

    imagegen train fashion_mnist_mtar optim.steps=3000                    one process
    accelerate launch --mixed_precision bf16 -m imagegen.train RECIPE     one or several GPUs

Everything that a step depends on lies in the checkpoint (weights, average, optimiser, number of the step, place in the
data), so a run that is cut off and started again gives the losses of one that never stopped, across phases too.
"""

from __future__ import annotations

import copy
import csv
import json
import math
import platform
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from docvision.checkpoint import load_weights, write_folder
from docvision.config import dump_recipe, to_plain
from docvision.train import BatchStream, Job, fit
from imagegen.batches import TokenBatch, TokenSet, TokenStream, encode_set
from imagegen.classifier import load_classifier
from imagegen.config import ImageRecipe, load_recipe
from imagegen.generate import Generator, Vocabulary, find_weights, grid_picture, sample_images
from imagegen.images import ImageSet, load_images
from imagegen.mtar import Mtar, keep_cells, kept_count, next_token_loss, phase_rate, routed_states, uniform
from imagegen.scores import scores_of
from imagegen.tokenizer_train import train_tokenizer
from imagegen.vq import VQTokenizer

AUX_SEED = 7919
"""Added to the run's seed for the auxiliary weights, so that arms of a comparison start with equal shared weights."""


@dataclass
class Prepared:
    """What a generator is trained on."""

    train: ImageSet
    held: ImageSet
    tokenizer: VQTokenizer
    train_tokens: TokenSet
    held_tokens: TokenSet
    folder: Path
    """Of the token shards."""

    def vocabulary(self) -> Vocabulary:
        tokens = self.train_tokens
        return Vocabulary(self.tokenizer.config.codes, tokens.grid, tokens.names, tokens.tokenizer)


class GeneratorTrainer(nn.Module):
    """The generator, its auxiliary weights and its running average, with the losses of one batch.

    Args:
        recipe: sizes, aids, decay of the average, steps.
        vocabulary: codes, grid and classes.
    """

    def __init__(self, recipe: ImageRecipe, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.recipe = recipe
        torch.manual_seed(recipe.run.seed)
        self.model = Generator(recipe.model, vocabulary)
        torch.manual_seed(recipe.run.seed + AUX_SEED)
        self.methods = nn.ModuleDict({"mtar": Mtar(recipe.mtar, self.model)})
        self.average = copy.deepcopy(self.model).requires_grad_(False) if recipe.ema else None
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    @property
    def step(self) -> int:
        """Optimiser steps done, which are also those the average has seen."""
        return int(self.calls) // self.recipe.optim.accumulate

    def forward(self, batch: TokenBatch, noise: torch.Generator) -> dict[str, Tensor]:
        """Losses by name, already weighted.

        Draws that every arm of a comparison makes come first, so that the classes left out are the same in all of them.
        """
        if int(self.calls) % self.recipe.optim.accumulate == 0:
            self.update_average()
        model, ids_BN = self.model, batch.ids_BN
        B, N = ids_BN.shape
        config = self.recipe.model
        unclassed_B = uniform((B,), noise, ids_BN.device) < config.class_dropout
        labels_B = torch.where(unclassed_B, model.none, batch.labels_B)
        rate = phase_rate(self.recipe.mtar, self.step, self.recipe.optim.steps)
        routed = bool(rate) and self.recipe.mtar.mode == "route"
        keep = 1 - config.dropout
        read = 1 + (N - 1 if routed else kept_count(N - 1, rate))
        mask_BTD = (uniform((B, read, config.resolved()[2]), noise, ids_BN.device) < keep).float() / keep
        everything_BS = torch.arange(N - 1, device=ids_BN.device).expand(B, -1)
        cells_BM = everything_BS
        if rate:
            assert batch.scores_BN is not None
            cells_BM = keep_cells(batch.scores_BN, rate, self.recipe.mtar.sharpness, noise)
        if routed:
            x_BTD = model.embed(labels_B, ids_BN[:, :-1], mask_BTD)
            hidden_BTD = routed_states(model, x_BTD, model.positions(everything_BS), cells_BM)
            cells_BM = everything_BS
        else:
            hidden_BTD = model.states(labels_B, ids_BN.gather(1, cells_BM), cells_BM, mask_BTD)
        self.calls += 1
        losses = {"ntp": next_token_loss(model, hidden_BTD, cells_BM, ids_BN)}
        return losses | self.methods["mtar"].losses(model, hidden_BTD, cells_BM, ids_BN, noise)

    def start_from(self, folder: Path) -> None:
        """Take the weights of a trained generator, for the average as well."""
        load_weights(self.model, folder)
        if self.average is not None:
            self.average.load_state_dict(self.model.state_dict())

    @torch.no_grad()
    def update_average(self) -> None:
        """Take in the weights of the step before; the decay grows from 0.1 to the recipe's."""
        if self.average is None:
            return
        decay = min(self.recipe.ema, (1 + self.step) / (10 + self.step))
        own = list(self.model.parameters())
        torch._foreach_lerp_(list(self.average.parameters()), own, 1 - decay)

    def exported(self) -> Generator:
        """The weights that are kept: the average where there is one."""
        return self.model if self.average is None else self.average


@torch.inference_mode()
def held_out_nll(model: Generator, tokens: TokenSet, limit: int = 0, batch: int = 256) -> dict[str, float]:
    """Exact cost of held-out images given their classes, all tokens, no dropout.

    Returns:
        ``nll`` in nats a token, ``bits`` an image.
    """
    was_training = model.training
    model.eval()
    device = model.head.weight.device
    count = min(limit or len(tokens), len(tokens))
    total = 0.0
    for start in range(0, count, batch):
        stop = min(start + batch, count)
        ids = torch.from_numpy(tokens.ids_KAN[start:stop, 0].astype(np.int64)).to(device)
        labels = torch.from_numpy(tokens.labels_K[start:stop].astype(np.int64)).to(device)
        logits = model(labels, ids).float()
        total += float(F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="sum"))
    model.train(was_training)
    nll = total / (count * tokens.ids_KAN.shape[2])
    return {"nll": nll, "bits": nll * tokens.ids_KAN.shape[2] / math.log(2)}


def prepare(recipe: ImageRecipe) -> Prepared:
    """Images, tokenizer (trained where the recipe names none) and token shards (encoded where there are none).

    Raises:
        DataError: no images, or shards of another tokenizer.
        CheckpointError: the tokenizer cannot be read.
    """
    train, held = load_images(recipe.data)
    out = Path(recipe.run.out)
    if recipe.tokenizer.path:
        tokenizer = VQTokenizer.from_pretrained(recipe.tokenizer.path)
    else:
        features = load_classifier(recipe, train, held).maps if recipe.tokenizer.perceptual else None
        tokenizer = train_tokenizer(recipe, train, held, features)
    if torch.cuda.is_available():
        tokenizer = tokenizer.to("cuda")
    folder = out / "tokens"
    train_tokens = encode_set(tokenizer, train, folder / "train", recipe.data.flip)
    held_tokens = encode_set(tokenizer, held, folder / "held-out")
    for images in (train, held):
        if images.skipped:
            name, why = next(iter(images.skipped.items()))
            print(f"{len(images.skipped)} picture(s) left out, unreadable; the first: {name}: {why}", flush=True)
    return Prepared(train, held, tokenizer, train_tokens, held_tokens, folder)


class TimedStream:
    """Batches of another stream, with a line now and then that says when the run will be done."""

    def __init__(self, stream: BatchStream, steps: int, every: int) -> None:
        self.stream, self.steps, self.every = stream, steps, every
        self.first: tuple[int, float] | None = None
        """Number and time of the first batch asked for."""

    def batch(self, number: int) -> TokenBatch:
        now = time.perf_counter()
        if self.first is None:
            self.first = (number, now)
        done = number - self.first[0]
        if done and self.every and number % self.every == 0:
            left = (now - self.first[1]) / done * (self.steps - number)
            print(f"{number} of {self.steps} batches, {left / 60:.0f} min left", flush=True)
        return self.stream.batch(number)


def train_generator(recipe: ImageRecipe, ready: Prepared | None = None) -> tuple[Generator, dict[str, float]]:
    """Train to the end, resuming where a run was cut off; the pair to draw with lies in ``<run.out>/export``.

    Returns:
        The exported generator and the last losses and held-out figures.
    """
    ready = ready or prepare(recipe)
    out = Path(recipe.run.out)
    out.mkdir(parents=True, exist_ok=True)
    dump_recipe(recipe, out / "recipe.yaml")
    scores, seconds = None, 0.0
    if recipe.mtar.scorer:
        scores, seconds = scores_of(recipe.mtar.scorer, ready.train_tokens, ready.tokenizer, ready.folder / "train")
    trainer = GeneratorTrainer(recipe, ready.vocabulary())
    if recipe.run.init:
        trainer.start_from(find_weights(recipe.run.init) / "generator")
    batches = TokenStream(ready.train_tokens, recipe.batch, recipe.run.seed, scores)
    write_card(out, recipe, ready, trainer, seconds)

    def validate(module: GeneratorTrainer) -> dict[str, float]:
        report = held_out_nll(module.exported(), ready.held_tokens, recipe.run.validate_samples)
        contrast = module.methods["mtar"].contrast
        if contrast is not None:
            report["tcr_near"] = contrast.near
        write_samples(out / "samples" / f"step-{module.step:07d}.png", module.exported(), ready.tokenizer, recipe)
        mirror_curve(out)
        return report

    job = Job(
        streams={"tokens": TimedStream(batches, recipe.optim.steps * recipe.optim.accumulate, recipe.run.log_every)},
        shares={"tokens": 1.0},
        objective=lambda module, batch, noise: module(batch, noise),
        validate=validate,
        save_model=lambda module, folder: module.exported().save_pretrained(folder),
    )
    report = fit(trainer, job, recipe.optim, recipe.run)
    trainer.update_average()
    exported = trainer.exported().eval()
    export_pair(out / "export", exported, ready.tokenizer)
    return exported, report


def export_pair(folder: Path, generator: Generator, tokenizer: VQTokenizer, dtype: torch.dtype | None = None) -> None:
    """Write what drawing needs: two model folders, whole or not at all."""

    def write(partial: Path) -> None:
        generator.save_pretrained(partial / "generator", dtype)
        tokenizer.save_pretrained(partial / "tokenizer", dtype)

    write_folder(folder, write)


def write_samples(path: Path, model: Generator, tokenizer: VQTokenizer, recipe: ImageRecipe, each: int = 8) -> None:
    """A picture of ``each`` images a class, one class a row, at most ten classes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    was_training = model.training
    model.eval()
    device = model.head.weight.device
    classes = torch.arange(min(10, model.none), device=device).repeat_interleave(each)
    images = sample_images(model, tokenizer.to(device), classes, recipe.sample, recipe.run.seed)
    model.train(was_training)
    save_picture(grid_picture(images, each, max(1, 56 // recipe.data.size)), path)


def save_picture(image_HWC: Tensor, path: Path) -> None:
    pixels = image_HWC.numpy()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(path)


def write_card(out: Path, recipe: ImageRecipe, ready: Prepared, trainer: GeneratorTrainer, seconds: float) -> None:
    """What was trained, on what, with what: enough to do it again."""
    size = sum(parameter.numel() for parameter in trainer.model.parameters())
    extra = sum(parameter.numel() for parameter in trainer.methods.parameters())
    card = {
        "data": {"train": ready.train_tokens.data, "held_out": ready.held_tokens.data, "images": len(ready.train)},
        "tokenizer": ready.train_tokens.tokenizer,
        "seed": recipe.run.seed,
        "parameters": {"generator": size, "training_only": extra},
        "score_seconds": round(seconds, 1),
        "versions": {name: version(name) for name in ("torch", "numpy", "accelerate")},
        "python": platform.python_version(),
        "settings": to_plain(recipe),
    }
    (out / "card.json").write_text(json.dumps(card, indent=1), encoding="utf-8")


def mirror_curve(out: Path) -> bool:
    """The CSV curve for TensorBoard, written anew so that it never says anything else; False where that is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return False
    path = out / "curve.csv"
    if not path.is_file():
        return False
    shutil.rmtree(out / "tensorboard", ignore_errors=True)
    with path.open(newline="", encoding="utf-8") as file, SummaryWriter(str(out / "tensorboard")) as writer:
        for row in csv.DictReader(file):
            writer.add_scalar(row["name"], float(row["value"]), int(row["step"]), walltime=float(row["time"]))
    return True


def main(recipe: str, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Entry point of ``imagegen train RECIPE [key=value ...]``."""
    return train_generator(load_recipe(recipe, overrides))[1]


if __name__ == "__main__":
    import sys

    main(sys.argv[1], sys.argv[2:])
