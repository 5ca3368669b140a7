"""MTAR against plain training, as a comparison that could come out either way.

Arms share tokenizer, shards, order of the data, initial shared weights, schedule and averaging; they differ in the aids
alone.  Three questions: equal iterations (every arm), a third of the iterations (as completed runs, never a checkpoint
of a longer one), equal time (plain training gets as many steps as the whole of MTAR's run costs, by step times
measured in the same process).  Figures are held-out cost and the Frechet distance on our classifier's features, at full
sequences and with averaged weights.  Results are kept by run, and the report is written after each, so a bench that was
cut off goes on and has a table on the way; distances may be asked for later, of runs that are done.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from imagegen.classifier import load_classifier
from imagegen.config import ImageRecipe, MtarConfig
from imagegen.estimate import scaled
from imagegen.evaluate import read_all
from imagegen.generate import Generator, load_pair, sample_images
from imagegen.metrics import frechet
from imagegen.scores import scores_of
from imagegen.step_bench import bench_steps, full_aids
from imagegen.train import Prepared, held_out_nll, prepare, train_generator

ARMS = ("base", "MTP", "TCR", "SD-uniform", "SD-scored", "MTP+TCR", "all-uniform", "all")
PAIRED = ("base", "all")
"""Arms that get every seed; the others get three at most."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % points of Student's t for 1 to 9 degrees of freedom."""
PAPER = {
    "base": 21.96,
    "MTP": 19.75,
    "TCR": 20.55,
    "SD-scored": 22.02,
    "MTP+TCR": 18.78,
    "all": 18.65,
    "all-uniform": 19.97,
}
"""FID of the paper's ablation (B, ImageNet-100k, 50 epochs, one run each): shown for its order only."""


@dataclass(frozen=True)
class Protocol:
    """Size of the comparison."""

    seeds: int = 5
    arms: tuple[str, ...] = ()
    """Beside "base"; empty for all of them."""
    each: int = 100
    """Images a class for the distance; 0 leaves it out."""
    guidances: tuple[float, ...] = (1.0, 1.5, 2.0)
    held: int = 0
    """Held-out images for the cost; 0 for all."""
    timed_rounds: int = 50

    def __post_init__(self) -> None:
        unknown = sorted(set(self.arms) - set(ARMS))
        if unknown:
            raise ValueError(f"arm {', '.join(unknown)}: unknown, one of {', '.join(ARMS)}")
        for guidance in self.guidances:
            if not 0 <= guidance < math.inf:
                raise ValueError(f"guidance {guidance:g}: a number from 0; 1 is none")


def arms_of(recipe: ImageRecipe) -> dict[str, MtarConfig]:
    """The recipe's aids taken apart; the scorer of "scored" arms is the recipe's, the control draws uniformly."""
    aids = full_aids(recipe.mtar)
    scored = aids.scorer if aids.scorer != "uniform" else "vit-cls"
    heads = replace(MtarConfig(), heads=aids.heads, depth=aids.depth, weight=aids.weight)
    contrast = {name: getattr(aids, name) for name in vars(aids) if name.startswith("contrast")}
    dropping = {name: getattr(aids, name) for name in ("mode", "sharpness", "rates", "phases")}
    return {
        "base": MtarConfig(),
        "MTP": heads,
        "TCR": replace(MtarConfig(), **contrast),
        "SD-uniform": replace(MtarConfig(), scorer="uniform", **dropping),
        "SD-scored": replace(MtarConfig(), scorer=scored, **dropping),
        "MTP+TCR": replace(heads, **contrast),
        "all-uniform": replace(aids, scorer="uniform"),
        "all": replace(aids, scorer=scored),
    }


def plan(recipe: ImageRecipe, protocol: Protocol, schedule_speedup: float) -> list[tuple[str, str, int, int]]:
    """Runs as (budget, arm, seed, steps), so ordered that an early end leaves whole comparisons.

    Args:
        recipe: its optim.steps is the full budget.
        protocol: seeds.
        schedule_speedup: of the "all" arm, for the equal-time budget.
    """
    steps = recipe.optim.steps
    equal_time = max(1, math.floor(steps / schedule_speedup))
    runs = []
    arms = [arm for arm in ARMS if arm == "base" or arm in (protocol.arms or ARMS)]
    for seed in range(protocol.seeds):
        runs += [("full", arm, seed, steps) for arm in arms if arm in PAIRED or seed < 3]
        runs += [("third", arm, seed, max(1, steps // 3)) for arm in arms if arm in PAIRED]
        runs.append(("equal time", "base", seed, equal_time))
    return runs


def bench_mtar(recipe: ImageRecipe, protocol: Protocol) -> dict[str, object]:
    """Run the protocol, or what is left of it.

    Returns:
        ``steps`` (step times), ``rows`` (the table), ``runs`` (every run's figures), ``scorer``, ``score_seconds``
        (scoring all images once, in no other figure) and ``classifier``.
    """
    ready = prepare(recipe)
    out = Path(recipe.run.out) / "bench"
    out.mkdir(parents=True, exist_ok=True)
    times_path = out / "steps.json"
    if not times_path.is_file():
        timing = bench_steps(recipe, protocol.timed_rounds, len(ready.train.names))
        times_path.write_text(json.dumps(timing, indent=1), encoding="utf-8")
    times = json.loads(times_path.read_text(encoding="utf-8"))
    mark = "_1block" if full_aids(recipe.mtar).depth == 1 else ""
    runs = plan(recipe, protocol, float(times[f"schedule_speedup{mark}"]))
    seconds = scores_of(arms_of(recipe)["all"].scorer, ready.train_tokens, ready.tokenizer, ready.folder / "train")[1]
    report: dict[str, object] = {"steps": times, "scorer": arms_of(recipe)["all"].scorer, "score_seconds": seconds}
    report["classifier"] = load_classifier(recipe, ready.train, ready.held).name() if protocol.each else "none"
    done = []
    for number, (budget, arm, seed, steps) in enumerate(runs):
        print(f"run {number + 1} of {len(runs)}: {arm}, {budget}, seed {seed}, {steps} steps", flush=True)
        done.append(_one_run(recipe, protocol, ready, out, (budget, arm, seed, steps)))
        report |= {"runs": done, "rows": rows_of(done, protocol)}
        (out / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return report


def _one_run(
    recipe: ImageRecipe, protocol: Protocol, ready: Prepared, out: Path, what: tuple[str, str, int, int]
) -> dict[str, object]:
    """Figures of one run, trained, or read where it was done before."""
    budget, arm, seed, steps = what
    folder = out / f"{arm}-{budget.replace(' ', '-')}-{seed}"
    path = folder / "result.json"
    result: dict[str, object] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if result.get("steps") != steps:
        own = replace(scaled(recipe, steps), mtar=arms_of(recipe)[arm])
        run = replace(recipe.run, out=str(folder), seed=seed, save_every=steps, validate_every=10 * steps, keep=1)
        began = time.process_time()
        train_generator(replace(own, run=run), ready)
        spent = round(time.process_time() - began, 1)
        result = {"budget": budget, "arm": arm, "seed": seed, "steps": steps, "cpu_seconds": spent}
    missing = [guidance for guidance in protocol.guidances if f"FD {guidance:g} {protocol.each}" not in result]
    if result.get("held") != protocol.held or (protocol.each and missing):
        model, _ = load_pair(folder / "export")
        result |= held_out_nll(model, ready.held_tokens, protocol.held) | {"held": protocol.held}
        if protocol.each:
            result |= _distances(recipe, protocol, ready, model, missing)
    path.write_text(json.dumps(result), encoding="utf-8")
    return result


def _distances(
    recipe: ImageRecipe, protocol: Protocol, ready: Prepared, model: Generator, guidances: Sequence[float]
) -> dict[str, float]:
    classifier = load_classifier(recipe, ready.train, ready.held)
    real, _ = classifier.look(read_all(ready.held)[0])
    labels = torch.arange(model.none).repeat_interleave(protocol.each)
    found = {}
    for guidance in guidances:
        settings = replace(recipe.sample, guidance=guidance)
        made, _ = classifier.look(sample_images(model, ready.tokenizer, labels, settings, 1000))
        found[f"FD {guidance:g} {protocol.each}"] = frechet(made, real)
    return found


def rows_of(done: Sequence[dict[str, object]], protocol: Protocol) -> list[dict[str, object]]:
    """The table: each arm and budget with its paired difference from plain training at the full budget.

    The guidance of the distance is chosen once, on plain training, and held for all arms.
    """
    plain = {run["seed"]: run for run in done if run["arm"] == "base" and run["budget"] == "full"}
    distances = [f"FD {guidance:g} {protocol.each}" for guidance in protocol.guidances] if protocol.each else []
    chosen = min(distances, key=lambda name: sum(figure_of(run, name) for run in plain.values()), default="")
    rows = []
    for budget, arm in dict.fromkeys((run["budget"], run["arm"]) for run in done):
        own = [run for run in done if (run["budget"], run["arm"]) == (budget, arm)]
        row: dict[str, object] = {"budget": budget, "arm": arm, "steps": own[0]["steps"], "seeds": len(own)}
        row["CPU s"] = round(statistics.mean(figure_of(run, "cpu_seconds") for run in own), 1)
        for figure in ["nll", *([chosen] if chosen else [])]:
            values = [figure_of(run, figure) for run in own]
            row[figure] = round(statistics.mean(values), 4)
            gaps = [figure_of(run, figure) - figure_of(plain[run["seed"]], figure) for run in own]
            row[f"{figure} - base"] = "" if (budget, arm) == ("full", "base") else interval(gaps)
        row["paper's FID"] = PAPER.get(str(arm), "") if budget == "full" else ""
        rows.append(row)
    return rows


def figure_of(run: dict[str, object], name: str) -> float:
    value = run[name]
    assert isinstance(value, int | float)
    return float(value)


def interval(gaps: Sequence[float]) -> str:
    """Mean and 95 % interval by Student's t, for paired differences of a few seeds."""
    mean = statistics.mean(gaps)
    if len(gaps) < 2:
        return f"{mean:+.4f} (one seed)"
    half = STUDENT[min(len(gaps) - 1, len(STUDENT)) - 1] * statistics.stdev(gaps) / math.sqrt(len(gaps))
    return f"{mean:+.4f} +- {half:.4f}"
