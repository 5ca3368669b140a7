"""One ``fit`` for everything that is trained: CPU, GPU, or several processes by accelerate's launcher.

    docvision train lines optim.steps=2000          one process
    accelerate launch --cpu --num_processes 2 -m docvision.train lines

``fit`` knows nothing about documents: it is handed a model, an objective (a function from batch to losses) and
streams of batches addressed by number.  A checkpoint holds the number of the next batch of each stream, so a
resumed run gives the losses of one that never stopped.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from docvision import checkpoint, methods
from docvision.batches import Stream
from docvision.config import OptimConfig, RunConfig, TrainRecipe, dump_recipe, load_recipe
from docvision.model import DocVisionModel
from docvision.objectives import DocumentTrainer, validate_document

Objective = Callable[[nn.Module, Any, torch.Generator], dict[str, Tensor]]


class BatchStream(Protocol):
    """What ``fit`` asks of a data source."""

    def batch(self, number: int) -> Any: ...


@dataclass
class Job:
    """What ``fit`` trains on: streams with their shares, and hooks."""

    streams: dict[str, BatchStream]
    shares: dict[str, float]
    objective: Objective
    validate: Callable[[Any], dict[str, float]] | None = None
    save_model: Callable[[nn.Module, Path], None] | None = None


def learning_rate(step: int, optim: OptimConfig) -> float:
    """Warm-up, stable, cosine decay (WSD) at ``step``, counted from 0."""
    start = optim.steps * (1 - optim.decay)
    if step < optim.warmup:
        return optim.lr * (step + 1) / optim.warmup
    if step < start or optim.decay == 0:
        return optim.lr
    progress = min(1.0, (step - start) / max(1.0, optim.steps - start))
    return optim.lr * (optim.final + (1 - optim.final) * 0.5 * (1 + math.cos(math.pi * progress)))


def choose_task(shares: dict[str, float], counts: dict[str, int]) -> str:
    """The task furthest behind its share: a fixed interleaving that needs no random numbers."""
    return min(shares, key=lambda name: (counts[name] + 0.5) / shares[name] if shares[name] > 0 else math.inf)


def fit(model: nn.Module, job: Job, optim: OptimConfig, run: RunConfig) -> dict[str, float]:
    """Train to ``optim.steps``, resuming from the newest checkpoint in ``run.out``.

    Returns:
        Mean losses of the last logging interval and the last validation figures.
    """
    from accelerate import Accelerator, DistributedDataParallelKwargs

    # A page batch leaves the line head without gradient and the other way round.
    accelerator = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
    torch.set_num_threads(run.threads)
    out = Path(run.out)
    optimiser = torch.optim.AdamW(parameter_groups(model, optim.weight_decay), lr=optim.lr, betas=optim.betas)
    prepared, optimiser = accelerator.prepare(model, optimiser)
    counts, step = _resume(accelerator.unwrap_model(prepared), optimiser, out, job)
    rank, world = accelerator.process_index, accelerator.num_processes
    if accelerator.is_main_process:
        _announce(model, job, optim, run, step, world)
    sums: dict[str, list[float]] = {}
    report: dict[str, float] = {}
    began, seen = time.perf_counter(), 0
    prepared.train()
    while step < optim.steps:
        rate = learning_rate(step, optim)
        for group in optimiser.param_groups:
            group["lr"] = rate
        for _ in range(optim.accumulate):
            task = choose_task(job.shares, counts)
            number = counts[task] * world + rank
            counts[task] += 1
            batch = move(job.streams[task].batch(number), accelerator.device)
            noise = torch.Generator().manual_seed(run.seed * 1_000_003 + step * world + rank)
            losses = job.objective(prepared, batch, noise)
            accelerator.backward(sum(losses.values()) / optim.accumulate)
            for name, value in losses.items():
                sums.setdefault(name, []).append(float(value.detach()))
            seen += 1
        accelerator.clip_grad_norm_(prepared.parameters(), optim.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        if step % run.log_every == 0 or step == optim.steps:
            report |= {name: float(np.mean(values)) for name, values in sums.items()}
            sums.clear()
            rates = {"lr": rate, "batches_per_s": seen * world / (time.perf_counter() - began)}
            if accelerator.is_main_process:
                _log(out, step, report | rates)
            began, seen = time.perf_counter(), 0
        last = step == optim.steps
        if accelerator.is_main_process and (step % run.save_every == 0 or last):
            _save(accelerator.unwrap_model(prepared), optimiser, out, step, counts, run.keep, job)
        if accelerator.is_main_process and job.validate and (step % run.validate_every == 0 or last):
            report |= job.validate(accelerator.unwrap_model(prepared))
            _log(out, step, report)
            prepared.train()
        if step % run.save_every == 0 or last:
            accelerator.wait_for_everyone()
    return report


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and kernels decay; biases, norms and embeddings do not."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (decayed if parameter.dim() > 1 and "embedding" not in name else free).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


def move(batch: Any, device: torch.device) -> Any:
    """Tensors of a batch dataclass to a device, in place."""
    if device.type != "cpu":
        for name, value in vars(batch).items():
            if isinstance(value, Tensor):
                setattr(batch, name, value.to(device))
            elif isinstance(value, dict):
                setattr(batch, name, {key: item.to(device) for key, item in value.items()})
    return batch


def train_document(recipe: TrainRecipe) -> dict[str, float]:
    """Train the document model as the recipe says; weights and curve lie in ``run.out``."""
    torch.manual_seed(recipe.run.seed)
    model = DocVisionModel(recipe.model)
    folder = checkpoint.find_model(recipe.run.init) if recipe.run.init else None
    if folder:
        checkpoint.load_weights(model, folder)
    for method, options in recipe.model.methods.items():
        methods.attach(model, method, options)  # starts from the core's own layers
    if folder and recipe.model.methods:
        checkpoint.load_weights(model, folder)  # and goes on from its own weights where there are any
    if not recipe.optim.core:
        model.requires_grad_(False)
        model.methods.requires_grad_(True)
    if not recipe.optim.encoder:
        model.encoder.requires_grad_(False)
        model.line_head.requires_grad_(False)
    streams: dict[str, Stream] = {}
    held_out: dict[str, Stream] = {}
    shares: dict[str, float] = {}
    for index, task in enumerate(recipe.tasks):
        name = task.kind if task.kind not in streams else f"{task.kind}{index}"
        streams[name] = Stream(task, model.vocabulary, recipe.run.seed + index)
        shares[name] = task.share
        if task.validation:
            held_out[name] = Stream(task, model.vocabulary, 0, task.validation)
    out = Path(recipe.run.out)
    out.mkdir(parents=True, exist_ok=True)
    dump_recipe(recipe, out / "recipe.yaml")
    job = Job(
        streams=dict(streams),
        shares=shares,
        objective=lambda module, batch, noise: module(batch, recipe.loss, noise),
        validate=(lambda module: validate_document(module, held_out, recipe.run.validate_samples, recipe.loss))
        if held_out
        else None,
        save_model=lambda module, folder: module.model.save_pretrained(folder),
    )
    return fit(DocumentTrainer(model), job, recipe.optim, recipe.run)


def _resume(model: nn.Module, optimiser: Any, out: Path, job: Job) -> tuple[dict[str, int], int]:
    found = checkpoint.checkpoints(out)
    if not found:
        return dict.fromkeys(job.streams, 0), 0
    folder = found[-1]
    state = checkpoint.read_state(folder)
    if set(state["counts"]) != set(job.streams):
        raise checkpoint.CheckpointError(
            f"{folder} was trained on {sorted(state['counts'])}, the recipe has {sorted(job.streams)}:"
            " choose another run.out"
        )
    checkpoint.load_weights(model, folder / "trainer")
    checkpoint.load_optimiser(getattr(optimiser, "optimizer", optimiser), folder)
    return state["counts"], state["step"]


def _save(model: nn.Module, optimiser: Any, out: Path, step: int, counts: dict[str, int], keep: int, job: Job) -> None:
    def write(partial: Path) -> None:
        (partial / "trainer").mkdir()
        checkpoint.save_weights(model, partial / "trainer")
        checkpoint.save_optimiser(getattr(optimiser, "optimizer", optimiser), partial)
        if job.save_model:
            job.save_model(model, partial / "model")
        checkpoint.write_state(partial, {"step": step, "counts": counts})

    checkpoint.write_folder(out / f"step-{step:07d}", write)
    checkpoint.drop_old(out, keep)


def _announce(model: nn.Module, job: Job, optim: OptimConfig, run: RunConfig, step: int, world: int) -> None:
    """Every derived quantity once, before the first step."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    total = sum(job.shares.values())
    tasks = ", ".join(f"{name} {share / total:.0%} of steps" for name, share in job.shares.items())
    print(
        f"{parameters / 1e6:.2f} M parameters; {tasks}; {world} process(es) x {optim.accumulate} batch(es) a step;"
        f" steps {step} -> {optim.steps}; rate {optim.lr:g}, warm-up {optim.warmup},"
        f" decay from step {round(optim.steps * (1 - optim.decay))}; checkpoints in {run.out}",
        flush=True,
    )


def _log(out: Path, step: int, values: dict[str, float]) -> None:
    print(f"step {step} " + " ".join(f"{name} {value:.4g}" for name, value in values.items()), flush=True)
    path = out / "curve.csv"
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(("step", "time", "name", "value"))
        writer.writerows((step, round(time.time()), name, f"{value:.6g}") for name, value in values.items())


def main(recipe: str, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Entry point of ``docvision train RECIPE [key=value ...]``."""
    return train_document(load_recipe(recipe, overrides))


if __name__ == "__main__":
    import sys

    main(sys.argv[1], sys.argv[2:])
