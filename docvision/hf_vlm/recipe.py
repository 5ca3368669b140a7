"""Training by recipe: ``hf-ptp`` and others whose name begins with ``hf-``.

They are written like all recipes.  ``run.init`` names the model, the one method in ``model.methods`` learns, and the
one task has its pairs in ``data``.  What a recipe of our own model has besides is refused: it would have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from docvision.config import LossConfig, ModelConfig, RecipeError, TaskConfig, TrainRecipe, dump_recipe, load_recipe
from docvision.hf_vlm.adapter import save_adapter
from docvision.hf_vlm.loading import accelerate
from docvision.hf_vlm.pairs import Pairs
from docvision.hf_vlm.sharding import meet, own_device, share_held, split_base
from docvision.hf_vlm.training import PairBatch, VlmTrainer
from docvision.train import Job, fit

TRAINER_OPTIONS = ("dtype", "checkpointing", "revision")
"""Options in the method's section that belong to the loading of the model."""


def main(name: str, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Entry point of ``docvision train hf-... [key=value ...]``: train, and leave the adapter in ``run.out``."""
    return train_recipe(load_recipe(name, overrides))


def train_recipe(recipe: TrainRecipe, accelerated: Any = None) -> dict[str, float]:
    """Train as the recipe says.

    Args:
        recipe: see above.
        accelerated: a loaded model; None loads ``run.init``.

    Returns:
        Mean losses of the last interval.

    Raises:
        RecipeError: a setting that is missing or has no effect.
    """
    check(recipe)
    ((method, options),) = recipe.model.methods.items()
    options = dict(options or {})
    how = {key: options.pop(key) for key in TRAINER_OPTIONS if key in options}
    torch.manual_seed(recipe.run.seed)
    if accelerated is None:
        where = None if recipe.run.shard else own_device()
        accelerated = accelerate(
            recipe.run.init, method, revision=how.get("revision"), dtype=how.get("dtype", "auto"), device_map=where
        )
    if recipe.run.shard:
        split_base(accelerated)
        print(f"each process holds {share_held(accelerated):.0%} of the model", flush=True)
    trainer = VlmTrainer(accelerated, {method: options}, bool(how.get("checkpointing")))
    (task,) = recipe.tasks
    out = Path(recipe.run.out)
    out.mkdir(parents=True, exist_ok=True)
    dump_recipe(recipe, out / "recipe.yaml")
    job = Job(
        streams={"pairs": _OnDevice(Pairs(task.data, accelerated, task.batch, recipe.run.seed), accelerated)},
        shares={"pairs": 1.0},
        objective=lambda module, batch, noise: module(batch, noise),
        save_model=lambda module, folder: save_adapter(module.accelerated, folder, method),
    )
    report = fit(trainer, job, recipe.optim, replace(recipe.run, shard=False))  # what learns is whole on each
    if meet():
        save_adapter(accelerated, out / "adapter", method)
    return report


def check(recipe: TrainRecipe) -> None:
    """Raises RecipeError naming every setting that cannot be followed."""
    problems = []
    if len(recipe.model.methods) != 1 or not set(recipe.model.methods) <= {"ptp", "pmtp"}:
        problems.append(f"model.methods={list(recipe.model.methods)}: one of ptp or pmtp")
    if len(recipe.tasks) != 1:
        problems.append(f"tasks: one, with pairs of picture and text, not {len(recipe.tasks)}")
    if not recipe.run.init:
        problems.append("run.init: name the model, a folder or a hub id")
    plain = ModelConfig(methods=recipe.model.methods)
    parts: list[tuple[str, Any, Any, tuple[str, ...]]] = [
        ("model", recipe.model, plain, ()),
        ("loss", recipe.loss, LossConfig(), ()),
    ]
    parts += [("tasks", task, TaskConfig("lines", ""), ("data", "batch")) for task in recipe.tasks]
    for place, given, default, known in parts:
        for item in fields(default):
            if item.name not in known and getattr(given, item.name) != getattr(default, item.name):
                problems.append(f"{place}.{item.name} has no effect on a model of Hugging Face: leave it out")
    optim = recipe.optim
    if not optim.core or not optim.encoder or optim.frozen_stages or optim.layer_decay != 1:
        told = "optim.core, encoder, frozen_stages and layer_decay have no effect: the model is always frozen"
        problems.append(told)
    if problems:
        raise RecipeError("; ".join(problems))


class _OnDevice:
    """Batches where the model is: ``fit`` moves tensors of a batch, but knows nothing of number formats."""

    def __init__(self, pairs: Pairs, accelerated: Any) -> None:
        self.pairs, self.accelerated = pairs, accelerated

    def batch(self, number: int) -> PairBatch:
        made = self.pairs.batch(number)
        stack = self.accelerated.core.decoder.stack
        inputs = {
            name: value.to(stack.device, stack.dtype) if value.is_floating_point() else value.to(stack.device)
            for name, value in made.inputs.items()
        }
        return replace(made, inputs=inputs, targets_BT=made.targets_BT.to(stack.device))


if __name__ == "__main__":
    import sys

    main(sys.argv[1], sys.argv[2:])
