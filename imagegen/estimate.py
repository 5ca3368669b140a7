"""What a run will cost on this machine, said before it starts.

Arithmetic: 6 operations a weight and token for the blocks and output layers, attention on top, against the speed of a
timed matrix product; memory by 4-byte weights, gradients, two moments, the average, and the activations of one batch.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

import torch

from imagegen.config import ImageRecipe
from imagegen.generate import Generator, Vocabulary
from imagegen.mtar import Mtar, phase_rate

REFUSED_HOURS = 48.0
"""A run that would take longer on a CPU starts only when asked twice."""
EFFICIENCY = 0.45
"""Share of a plain matrix product's speed that training reaches; measured 0.4 to 0.6 at widths 192 to 768."""


class EstimateError(ValueError):
    """A run that this machine cannot do in reasonable time or memory."""


@dataclass(frozen=True)
class Estimate:
    """Cost of a run."""

    parameters: int
    training_only: int
    step_operations: float
    """Mean over the phases."""
    steps: int
    memory_gib: float
    seconds: float
    """On this machine's CPU."""

    def line(self) -> str:
        hours = self.seconds / 3600
        told = f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.0f} h" if hours < 96 else f"{hours / 24:.0f} days"
        return (
            f"{self.parameters / 1e6:.1f} M parameters (+{self.training_only / 1e6:.1f} M in training),"
            f" {self.steps} steps of {self.step_operations / 1e12:.2f} TFLOP: about {told}"
            f" and {self.memory_gib:.1f} GiB on this CPU"
        )


def cpu_speed(side: int = 768, seconds: float = 0.2) -> float:
    """Floating-point operations a second of a matrix product with the threads that torch uses."""
    left, right = torch.randn(side, side), torch.randn(side, side)
    left @ right
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        left @ right
        count += 1
    return 2 * side**3 * count / (time.perf_counter() - began)


def estimate(recipe: ImageRecipe, classes: int = 10, speed: float | None = None) -> Estimate:
    """Cost of training the generator of a recipe.

    Args:
        recipe: what is trained.
        classes: of the data; they matter little.
        speed: operations a second; measured when None.
    """
    vocabulary = Vocabulary(recipe.tokenizer.codes, recipe.grid, tuple(map(str, range(classes))))
    with torch.device("meta"):
        model = Generator(recipe.model, vocabulary)
        aids = Mtar(recipe.mtar, model)
    layers, _, width = recipe.model.resolved()
    blocks = sum(parameter.numel() for parameter in model.decoder.layers.parameters())
    extra = sum(parameter.numel() for parameter in aids.heads.parameters())
    steps, cells = recipe.optim.steps, recipe.grid**2
    operations = 0.0
    for step in range(0, steps, max(1, steps // 20)):
        tokens = cells * (1 - phase_rate(recipe.mtar, step, steps))
        weights = blocks + extra + model.head.weight.numel()
        operations += 6 * weights * tokens + 12 * layers * width * tokens**2 / 2
    operations *= recipe.batch * recipe.optim.accumulate / len(range(0, steps, max(1, steps // 20)))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    training_only = sum(parameter.numel() for parameter in aids.parameters())
    weights = 16 * (parameters + training_only) + 4 * parameters * bool(recipe.ema)
    ffn = recipe.model.decoder().ffn
    held = recipe.batch * cells * (layers * (9 * width + 4 * ffn) + 3 * recipe.tokenizer.codes) * 4
    seconds = operations * steps / ((speed or cpu_speed()) * EFFICIENCY)
    return Estimate(parameters, training_only, operations, steps, (weights + held) / 2**30 + 0.4, seconds)


def check_machine(recipe: ImageRecipe, anyway: bool = False) -> Estimate | None:
    """Estimate a run on a CPU and refuse a hopeless one; None where a GPU will do the work.

    Raises:
        EstimateError: more than REFUSED_HOURS or more memory than there is, unless ``anyway``.
    """
    if torch.cuda.is_available():
        return None
    before = torch.get_num_threads()
    torch.set_num_threads(recipe.run.threads)
    found = estimate(recipe)
    torch.set_num_threads(before)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    if not anyway and (found.seconds > REFUSED_HOURS * 3600 or found.memory_gib > memory):
        raise EstimateError(
            f"{found.line()}, which has {memory:.0f} GiB: this recipe is for a GPU: run it there with accelerate"
            " launch, take a smaller model.size or fewer optim.steps, or add --anyway"
        )
    return found


def scaled(recipe: ImageRecipe, steps: int) -> ImageRecipe:
    """The same recipe as a completed run of another length: warm-up, decay and phases go with it."""
    warmup = max(1, round(recipe.optim.warmup * steps / recipe.optim.steps))
    return replace(recipe, optim=replace(recipe.optim, steps=steps, warmup=warmup))
