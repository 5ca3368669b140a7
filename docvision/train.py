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
import torch.nn.functional as F
from torch import Tensor, nn

from docvision import checkpoint
from docvision.batches import LineBatch, PageBatch, Stream
from docvision.config import LossConfig, OptimConfig, RunConfig, TrainRecipe, dump_recipe, load_recipe
from docvision.metrics import error_rate
from docvision.model import CTC_FRAMES, DocVisionModel
from docvision.tokens import PAD

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
    validate: Callable[[nn.Module], dict[str, float]] | None = None
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


class DocumentTrainer(nn.Module):
    """The model with its losses as one forward, the form that DDP and FSDP wrap."""

    def __init__(self, model: DocVisionModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: LineBatch | PageBatch, loss: LossConfig, noise: torch.Generator) -> dict[str, Tensor]:
        if isinstance(batch, LineBatch):
            return self._lines(batch, loss, noise)
        return {"structure": loss.structure * structure_loss(self.model, batch)}

    def _lines(self, batch: LineBatch, loss: LossConfig, noise: torch.Generator) -> dict[str, Tensor]:
        model = self.model
        memory = model.encoder(batch.pixels_B1HW, batch.size_B2)
        log_probs = model.line_head(memory).float().log_softmax(-1).transpose(0, 1)
        frames_B = CTC_FRAMES * ((batch.size_B2[:, 1] + 7) // 8)
        ctc = F.ctc_loss(log_probs, batch.labels_BU, frames_B, batch.label_length_B, zero_infinity=True)
        if loss.decoder == 0:
            return {"ctc": loss.ctc * ctc}
        inputs, targets = batch.tokens_BT[:, :-1], batch.tokens_BT[:, 1:]
        inputs = noisy(inputs, loss.input_noise, model.vocabulary.ctc_classes, noise)
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        hidden = model.decoder(inputs, positions, memory)
        known = targets != PAD
        known[:, 0] = False  # the prompt is given, not predicted
        logits = model.decoder.logits(hidden[known])
        return {"ctc": loss.ctc * ctc, "decoder": loss.decoder * F.cross_entropy(logits.float(), targets[known])}


def noisy(tokens_BT: Tensor, share: float, characters: int, generator: torch.Generator) -> Tensor:
    """Replace a share of the character tokens by random characters."""
    pick = torch.rand(tokens_BT.shape, generator=generator).to(tokens_BT.device) < share
    pick &= (tokens_BT > 0) & (tokens_BT < characters)
    other = torch.randint(1, characters, tokens_BT.shape, generator=generator).to(tokens_BT.device)
    return torch.where(pick, other, tokens_BT)


def structure_loss(model: DocVisionModel, batch: PageBatch) -> Tensor:
    """Cross-entropy of the block class and binary cross-entropy of the other maps, over valid cells.

    Separators and corners fill a few cells in a hundred, so their positives weigh 5 times.
    """
    maps = model.encoder.structure_maps(batch.pixels_B1HW, batch.size_B2)
    valid = batch.targets["valid"] > 0
    total = F.cross_entropy(maps["block"].permute(0, 2, 3, 1)[valid], batch.targets["block"][valid])
    for name, weight in (("line", 1.0), ("rows", 5.0), ("columns", 5.0), ("corners", 5.0)):
        logits, target = maps[name][:, 0][valid], batch.targets[name][valid]
        total = total + F.binary_cross_entropy_with_logits(logits, target, pos_weight=logits.new_tensor(weight))
    return total


def validate_document(model: nn.Module, streams: dict[str, Stream], samples: int, decoder: bool) -> dict[str, float]:
    """CER of the line head, and of greedy decoding where trained, on held-out lines; loss on held-out pages."""
    core = model.model if isinstance(model, DocumentTrainer) else model
    core.eval()
    report: dict[str, float] = {}
    with torch.inference_mode():
        for name, stream in streams.items():
            batches = [stream.batch(i) for i in range(min(stream.per_epoch, max(1, samples // stream.task.batch)))]
            if stream.task.kind == "lines":
                lines = [batch for batch in batches if isinstance(batch, LineBatch)]
                report |= {f"{name}_{key}": value for key, value in _line_errors(core, lines, decoder).items()}
            else:
                losses = [float(structure_loss(core, batch)) for batch in batches if isinstance(batch, PageBatch)]
                report[f"{name}_structure"] = float(np.mean(losses))
    core.train()
    return report


def _line_errors(core: DocVisionModel, batches: list[LineBatch], decoder: bool) -> dict[str, float]:
    from docvision.decode import generate_text

    truth: list[str] = []
    by_ctc: list[str] = []
    by_decoder: list[str] = []
    for batch in batches:
        memory = core.encoder(batch.pixels_B1HW, batch.size_B2)
        by_ctc += [r.text for r in core._best_paths(core.line_head(memory), batch.size_B2[:, 1])]
        by_decoder += [r.text for r in generate_text(core, memory)] if decoder else []
        truth += batch.texts
    rates = {"cer_ctc": error_rate(by_ctc, truth)}
    return rates | {"cer_decoder": error_rate(by_decoder, truth)} if decoder else rates


def train_document(recipe: TrainRecipe) -> dict[str, float]:
    """Train the document model as the recipe says; weights and curve lie in ``run.out``."""
    torch.manual_seed(recipe.run.seed)
    model = DocVisionModel(recipe.model)
    if recipe.run.init:
        checkpoint.load_weights(model, checkpoint.find_model(recipe.run.init))
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
        validate=(
            lambda module: validate_document(module, held_out, recipe.run.validate_samples, recipe.loss.decoder > 0)
        )
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
