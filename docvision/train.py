"""One ``fit`` for everything that is trained: CPU, GPU, or several processes by accelerate's launcher.

    docvision train lines optim.steps=2000                          one process
    accelerate launch --num_processes 8 -m docvision.train lines    eight GPUs
    torchrun --standalone --nproc-per-node 2 -m docvision.train lines    two processes on CPUs

``fit`` knows nothing about documents: it is handed a model, an objective (a function from batch to losses) and
streams of batches addressed by number.  A step is the mean over processes x ``optim.accumulate`` batches: however
that number is made up, the same batches give the same step.  Each batch goes to one process, and a checkpoint holds
how many of each stream are used up, so a resumed run, on any number of processes, goes on where the data ended.
"""

from __future__ import annotations

import copy
import csv
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from docvision import checkpoint, methods
from docvision.alignment import seat_places
from docvision.batches import Stream
from docvision.config import OptimConfig, RecipeError, RunConfig, TrainRecipe, dump_recipe, load_recipe
from docvision.model import DocVisionModel
from docvision.objectives import DocumentTrainer, validate_document

SEATING = 30
"""Batches of tables from which the head of places starts."""
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
    divisible: bool = False
    """Whether the objective may run on a model whose weights are split over processes (``run.shard``)."""


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
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    accelerator = Accelerator(cpu=on_cpu(), kwargs_handlers=[unused])
    torch.set_num_threads(run.threads)
    out = Path(run.out)
    folder, counts, step = _newest(model, out, job)
    placed = Placement(accelerator, model, optim, _may_split(accelerator, run, job))
    if folder:
        checkpoint.load_optimiser(placed.bare_optimiser, folder)
    rank, world = accelerator.process_index, accelerator.num_processes
    if accelerator.is_main_process:
        _announce(model, job, optim, run, step, world)
    sums: dict[str, list[float]] = {}
    report: dict[str, float] = {}
    began, seen = time.perf_counter(), 0
    placed.prepared.train()
    while step < optim.steps:
        rate = learning_rate(step, optim)
        for group in placed.optimiser.param_groups:
            group["lr"] = rate * group["share"]
        for _ in range(optim.accumulate):
            task = choose_task(job.shares, counts)
            number, position = counts[task] + rank, sum(counts.values()) + rank
            counts[task] += world
            batch = move(job.streams[task].batch(number), accelerator.device)
            noise = torch.Generator().manual_seed(run.seed * 1_000_003 + position)
            losses = job.objective(placed.prepared, batch, noise)
            accelerator.backward(sum(losses.values()) / optim.accumulate)
            for name, value in losses.items():
                sums.setdefault(name, []).append(float(value.detach()))
            seen += 1
        placed.step(optim.clip)
        step += 1
        last = step == optim.steps
        if run.due(run.log_every, step) or last:
            report |= _averaged(sums)
            sums.clear()
            rates = {"lr": rate, "batches_per_s": seen * world / (time.perf_counter() - began)}
            if accelerator.is_main_process:
                _log(out, step, report | rates)
            began, seen = time.perf_counter(), 0
        if run.due(run.save_every, step) or last:
            _save(placed, out, step, counts, run.keep, job)
        if job.validate and (run.due(run.validate_every, step) or last):
            report |= placed.validated(job.validate)
            if accelerator.is_main_process:
                _log(out, step, report)
        if run.due(run.save_every, step) or last:
            accelerator.wait_for_everyone()
    if accelerator.is_main_process and job.save_model:
        print(f"trained: the model is in {checkpoint.checkpoints(out)[-1] / 'model'}", flush=True)
    return report


class Placement:
    """Where a model's weights lie while it learns: whole on each process (DDP), or split over them (FSDP).

    The model that ``fit`` was given stays what it is: where what learns is split, it lies whole in the host's memory
    and is filled before it is saved or validated.
    """

    def __init__(self, accelerator: Any, model: nn.Module, optim: OptimConfig, split: bool) -> None:
        self.accelerator, self.model, self.split = accelerator, model, split
        backbone = _backbone(model, optim)
        if backbone is not None:
            backbone.freeze(optim.frozen_stages)
        held = split_over_processes(copy.deepcopy(model).to(accelerator.device)) if split else model
        groups = parameter_groups(held, optim.weight_decay, _backbone(held, optim), optim.layer_decay)
        self.bare_optimiser = torch.optim.AdamW(groups, lr=optim.lr, betas=optim.betas)
        # What is split already is not to be wrapped once more.
        self.prepared = accelerator.prepare_model(held, evaluation_mode=split)
        self.optimiser = accelerator.prepare_optimizer(self.bare_optimiser)

    def step(self, clip: float) -> None:
        self.accelerator.clip_grad_norm_(self.prepared.parameters(), clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def whole(self) -> nn.Module:
        """The model with all its weights; where they are split, all processes call this together."""
        if not self.split:
            return self.accelerator.unwrap_model(self.prepared)
        tensors = {name: checkpoint.whole(value).cpu() for name, value in self.prepared.state_dict().items()}
        self.model.load_state_dict(tensors)
        return self.model

    def validated(self, validate: Callable[[Any], dict[str, float]]) -> dict[str, float]:
        """Held-out figures, on the main process."""
        model, report = self.whole(), {}
        if self.accelerator.is_main_process:
            report = validate(model.to(self.accelerator.device))
        if self.split:
            model.to("cpu")
        self.prepared.train()
        return report


def split_over_processes(model: nn.Module) -> nn.Module:
    """FSDP: between steps each process holds its share of every weight, gradient and moment.

    The whole model is one unit, put together for a forward and its backward: ours are small, and their parts are
    called by other ways than ``forward``.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def touch_all(module: nn.Module, given: Any, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Processes must agree on which weights have a gradient, and batches differ in what they use."""
        name = next(name for name, value in losses.items() if value.requires_grad)
        nothing = sum(0.0 * weight.sum() for weight in module.parameters() if weight.requires_grad)
        return {**losses, name: losses[name] + nothing}

    model.register_forward_hook(touch_all)
    device = next(model.parameters()).device.type
    fully_shard(model, mesh=init_device_mesh(device, (torch.distributed.get_world_size(),)))
    return model


def _may_split(accelerator: Any, run: RunConfig, job: Job) -> bool:
    if "FSDP" in str(accelerator.distributed_type):
        raise RecipeError("leave --use_fsdp out of the launch line: run.shard=true splits what is trained")
    if run.shard and not job.divisible:
        raise RecipeError("run.shard=true is for the document model: leave it out, each process holds this model whole")
    if run.shard and accelerator.num_processes < 2:
        raise RecipeError("run.shard=true splits over processes: accelerate launch --num_processes 2 or more")
    return run.shard


def _backbone(model: nn.Module, optim: OptimConfig) -> Any:
    """The part of a model that has stages, where the recipe speaks of them."""
    if not optim.frozen_stages and optim.layer_decay == 1:
        return None
    found = next((module for module in model.modules() if hasattr(module, "weights_by_stage")), None)
    if found is None:
        raise RecipeError(
            "optim.frozen_stages and optim.layer_decay: this model has no backbone of stages, leave them out"
        )
    return found


def parameter_groups(
    model: nn.Module, weight_decay: float, backbone: Any = None, layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """Matrices and kernels decay; biases, norms and embeddings do not.

    Args:
        model: whose weights with a gradient are meant.
        weight_decay: of the former.
        backbone: gives its weights by stage.
        layer_decay: rate of each stage as a share of the next one's; ``share`` of a group is that of the full rate.
    """
    shares: dict[int, float] = {}
    stages = backbone.weights_by_stage() if backbone is not None else []
    for ahead, stage in enumerate(reversed(stages), start=1):
        shares |= {id(weight): layer_decay**ahead for weight in stage}
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {(1.0, True): [], (1.0, False): []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = parameter.dim() > 1 and "embedding" not in name
            groups.setdefault((shares.get(id(parameter), 1.0), decays), []).append(parameter)
    return [
        {"params": weights, "weight_decay": weight_decay if decays else 0.0, "share": share}
        for (share, decays), weights in groups.items()
    ]


def on_cpu() -> bool:
    """Whether there are only CPUs here: accelerate joins several processes on CPUs only where it is told so."""
    return not torch.accelerator.is_available()


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
    # Published weights are for the start, not for what is saved.
    plain = replace(recipe.model.encoder, pretrained=False)
    model.config = replace(recipe.model, encoder=plain)
    folder = checkpoint.find_model(recipe.run.init) if recipe.run.init else None
    fresh = [name for name in model.state_dict() if name.startswith("decoder.coordinates.")]
    if folder:
        lacking = checkpoint.load_weights(model, folder, fresh="decoder.coordinates.")
        fresh = [name for name in fresh if name in lacking]
    for method, options in recipe.model.methods.items():
        methods.attach(model, method, options)  # starts from the core's own layers
    if folder and recipe.model.methods:  # and goes on from its own weights where there are any
        checkpoint.load_weights(model, folder, fresh="decoder.coordinates.")
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
    if fresh and not recipe.optim.encoder and recipe.loss.alignment > 0 and not checkpoint.checkpoints(out):
        tables = [stream for stream in streams.values() if stream.task.kind == "tables"]
        _seat(model, tables, fresh)
    out.mkdir(parents=True, exist_ok=True)
    dump_recipe(recipe, out / "recipe.yaml")
    checked = recipe.run.validate_samples, recipe.loss
    job = Job(
        streams=dict(streams),
        shares=shares,
        objective=lambda module, batch, noise: module(batch, recipe.loss, noise),
        validate=(lambda model: validate_document(model, held_out, *checked)) if held_out else None,
        save_model=lambda module, folder: module.model.save_pretrained(folder),
        divisible=True,
    )
    teacher = DocVisionModel.from_pretrained(recipe.loss.teacher).eval() if recipe.loss.teacher else None
    return fit(DocumentTrainer(model, teacher), job, recipe.optim, recipe.run)


def _seat(model: DocVisionModel, tables: list[Stream], fresh: list[str]) -> None:
    """New weights for coordinates start by least squares, where the features are those that will stay."""
    batches = [stream.batch(number) for stream in tables for number in range(SEATING)]
    if batches:
        memories = (model.encoder(batch.pixels_B1HW, batch.size_B2) for batch in batches)
        seat_places(model.decoder, memories, amplitudes=any("amplitudes" in name for name in fresh))


def _newest(model: nn.Module, out: Path, job: Job) -> tuple[Path | None, dict[str, int], int]:
    """Folder of the newest checkpoint, whose weights are loaded, batches used up of each stream, and steps done."""
    found = checkpoint.checkpoints(out)
    if not found:
        return None, dict.fromkeys(job.streams, 0), 0
    folder = found[-1]
    state = checkpoint.read_state(folder)
    remedy = f"{out} holds a run of another recipe: choose another run.out or remove it"
    if set(state["counts"]) != set(job.streams):
        raise checkpoint.CheckpointError(
            f"{folder} was trained on {sorted(state['counts'])}, the recipe has {sorted(job.streams)}; {remedy}"
        )
    checkpoint.load_weights(model, folder / "trainer", remedy=remedy)
    return folder, state["counts"], state["step"]


def _save(placed: Placement, out: Path, step: int, counts: dict[str, int], keep: int, job: Job) -> None:
    if not placed.split and not placed.accelerator.is_main_process:
        return
    model, moments = placed.whole(), checkpoint.optimiser_tensors(placed.bare_optimiser)

    def write(partial: Path) -> None:
        (partial / "trainer").mkdir()
        checkpoint.save_weights(model, partial / "trainer")
        checkpoint.save_optimiser(moments, partial)
        if job.save_model:
            job.save_model(model, partial / "model")
        checkpoint.write_state(partial, {"step": step, "counts": counts})

    if placed.accelerator.is_main_process:
        checkpoint.write_folder(out / f"step-{step:07d}", write)
        checkpoint.drop_old(out, keep)


def _averaged(sums: dict[str, list[float]]) -> dict[str, float]:
    """Means over the batches of all processes."""
    from accelerate.utils import gather_object

    found: dict[str, list[float]] = {}
    for part in gather_object([sums]):
        for name, values in part.items():
            found.setdefault(name, []).extend(values)
    return {name: float(np.mean(values)) for name, values in found.items()}


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
