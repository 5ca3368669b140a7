"""What a training step costs with MTAR's aids, against a plain one: interleaved in one process.

Arms take turns (ABCABC...), five rounds warm up, the figures are medians.  On a CPU the process's own time is the
clock, since a busy machine stretches the wall clock of whoever runs at the time; wall clock ratios stand beside them.
Random tokens serve: what a step costs does not depend on them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from docvision.train import parameter_groups
from imagegen.batches import TokenBatch
from imagegen.config import ImageRecipe, MtarConfig
from imagegen.generate import Vocabulary
from imagegen.train import GeneratorTrainer

WARM = 5


@dataclass
class Arm:
    """One kind of step."""

    trainer: GeneratorTrainer
    optimiser: torch.optim.Optimizer
    cpu: list[float]
    wall: list[float]


def full_aids(config: MtarConfig) -> MtarConfig:
    """The recipe's aids, each one that it leaves out at its default: one head below, contrast, uniform scores."""
    return replace(
        config,
        heads=config.heads or ("B",),
        contrast=config.contrast or 0.2,
        scorer=config.scorer or "uniform",
        rates=config.rates if any(config.rates) else (0.5, 0.0),
    )


def step_arms(recipe: ImageRecipe) -> dict[str, ImageRecipe]:
    """Recipes of the kinds of step: plain, and with all aids while cells are left out and while none are."""
    aids = full_aids(recipe.mtar)
    found = {"base": replace(recipe, mtar=MtarConfig())}
    for depth in (2, 1):
        own = replace(aids, depth=depth)
        found[f"sd {depth}"] = replace(recipe, mtar=replace(own, rates=(aids.rates[0],), phases=(1.0,)))
        found[f"full {depth}"] = replace(recipe, mtar=replace(own, rates=(0.0,), phases=(1.0,)))
    return found


def bench_steps(recipe: ImageRecipe, rounds: int = 50, classes: int = 10) -> dict[str, float | str]:
    """Time the kinds of step.

    Args:
        recipe: sizes, batch, aids and phases.
        rounds: timed steps of each kind.
        classes: of the data.

    Returns:
        ``sd_ratio`` and ``full_ratio`` to a plain step, ``schedule_speedup`` of the recipe's phases against plain
        steps, with heads of two blocks; the same with ``_1block``; wall clock ones with ``_wall``;
        ``predicted_full_ratio`` by the share of weights.
    """
    torch.set_num_threads(recipe.run.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    grid, codes = recipe.grid, recipe.tokenizer.codes
    vocabulary = Vocabulary(codes, grid, tuple(map(str, range(classes))))
    arms = {name: _arm(own, vocabulary, device) for name, own in step_arms(recipe).items()}
    source = torch.Generator().manual_seed(recipe.run.seed)
    batch = TokenBatch(
        torch.randint(codes, (recipe.batch, grid**2), generator=source).to(device),
        torch.randint(classes, (recipe.batch,), generator=source).to(device),
        torch.rand(recipe.batch, grid**2, generator=source).to(device),
    )
    for number in range(WARM + rounds):
        for arm in arms.values():
            cpu, wall = timed(lambda arm=arm, number=number: _step(arm, batch, recipe, number), device)  # type: ignore[misc]
            if number >= WARM:
                arm.cpu.append(cpu)
                arm.wall.append(wall)
    report: dict[str, float | str] = {"rounds": rounds, "clock": "process" if device.type == "cpu" else "wall"}
    for name, arm in arms.items():
        report[f"seconds {name}"] = statistics.median(arm.cpu if device.type == "cpu" else arm.wall)
    for depth, mark in ((2, ""), (1, "_1block")):
        for clock in ("cpu", "wall") if device.type == "cpu" else ("wall",):
            report |= _ratios(
                arms, depth, mark + ("_wall" if clock == "wall" and device.type == "cpu" else ""), clock, recipe
            )
    layers = recipe.model.resolved()[0]
    block = sum(p.numel() for p in arms["base"].trainer.model.decoder.layers[0].parameters())
    head = arms["base"].trainer.model.head.weight.numel()
    report["predicted_full_ratio"] = 1 + (2 * block + head) / (layers * block + head)
    return report


def _arm(recipe: ImageRecipe, vocabulary: Vocabulary, device: torch.device) -> Arm:
    trainer = GeneratorTrainer(recipe, vocabulary).to(device).train()
    optimiser = torch.optim.AdamW(
        parameter_groups(trainer, recipe.optim.weight_decay), lr=recipe.optim.lr, betas=recipe.optim.betas
    )
    return Arm(trainer, optimiser, [], [])


def _step(arm: Arm, batch: TokenBatch, recipe: ImageRecipe, number: int) -> None:
    noise = torch.Generator().manual_seed(number)
    losses = arm.trainer(batch, noise)
    torch.stack(list(losses.values())).sum().backward()
    torch.nn.utils.clip_grad_norm_(arm.trainer.parameters(), recipe.optim.clip)
    arm.optimiser.step()
    arm.optimiser.zero_grad(set_to_none=True)


def timed(act: Callable[[], None], device: torch.device) -> tuple[float, float]:
    """Process and wall seconds of one call."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.process_time() - cpu, time.perf_counter() - wall


def _ratios(arms: dict[str, Arm], depth: int, mark: str, clock: str, recipe: ImageRecipe) -> dict[str, float | str]:
    median = {name: statistics.median(getattr(arm, clock)) for name, arm in arms.items()}
    dropped, full = median[f"sd {depth}"] / median["base"], median[f"full {depth}"] / median["base"]
    aids = full_aids(recipe.mtar)
    cost = sum(share * (dropped if rate else full) for share, rate in zip(aids.phases, aids.rates, strict=True))
    return {f"sd_ratio{mark}": dropped, f"full_ratio{mark}": full, f"schedule_speedup{mark}": 1 / cost}
