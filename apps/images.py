"""The command line of image generation: ``imagegen train``, ``tokenize``, ``sample``, ``evaluate``, ``bench``.

Exit codes: 0 all well, 1 it failed, 2 wrong use, 3 some pictures were left out, 130 interrupted.  An error is one line
on standard error; ``--debug`` shows where it came from.  torch is imported by the command that needs it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from apps.arguments import UsageError
from apps.console import PARTIAL, USAGE, Debug, run, show

app = typer.Typer(
    name="imagegen",
    help="Train image generators on VQ tokens, and draw images with them.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(help="Compare training with and without MTAR's aids.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(bench, name="bench")
Recipe = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name or the path of its YAML file.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE...]", help="Override settings, such as optim.steps=100.")
]
Anyway = Annotated[bool, typer.Option("--anyway", help="Start even where the estimate says that it is hopeless.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif")
"""Suffixes of what images can be drawn into."""


def _recipe(name: str, overrides: Sequence[str] | None) -> Any:
    from docvision.config import RecipeError
    from imagegen.config import load_recipe

    try:
        return load_recipe(name, overrides or [])
    except RecipeError as error:
        raise UsageError(str(error)) from None


@app.command()
def train(recipe: Recipe, overrides: Overrides = None, anyway: Anyway = False, debug: Debug = False) -> None:
    """Train a generator: the tokenizer and the token shards first, where they are missing.

    Run the same command again after an interruption: it goes on, with the losses of a run that never stopped.
    """
    loaded = _recipe(recipe, overrides)
    from imagegen.estimate import check_machine
    from imagegen.train import train_generator

    if told := check_machine(loaded, anyway):
        show(told.line())
    _, report = train_generator(loaded)
    show(_figures(report))
    show(f"draw with: imagegen sample --model {Path(loaded.run.out) / 'export'} -o grid.png")


@app.command()
def tokenize(recipe: Recipe, overrides: Overrides = None, debug: Debug = False) -> None:
    """Train the tokenizer, encode the images once, and say how well images survive it."""
    loaded = _recipe(recipe, overrides)
    from imagegen.evaluate import read_all
    from imagegen.train import prepare
    from imagegen.vq import reconstruction_report

    ready = prepare(loaded)
    report = reconstruction_report(ready.tokenizer, read_all(ready.held, 2000)[0])
    show(f"{len(ready.train_tokens)} training and {len(ready.held_tokens)} held-out images in {ready.folder}")
    show(_figures(report))
    if ready.train.skipped or ready.held.skipped:
        raise typer.Exit(PARTIAL)


@app.command()
def sample(
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="Name or number; several times for several; all by default.")
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="Images in all, shared out among the classes.")] = 40,
    out: Annotated[Path, typer.Option("-o", "--out", help="Picture of all images.")] = Path("grid.png"),
    folder: Annotated[Path | None, typer.Option(help="Write each image as well, one sub-folder a class.")] = None,
    model: Annotated[
        str, typer.Option(help="Folder of a trained pair, or the name of a packaged one.")
    ] = "fashion-mnist",
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="The same seed draws the same images, whatever the batch.")
    ] = 0,
    guidance: Annotated[float, typer.Option(help="1 is none; more is closer to the class, less varied.")] = 5.0,
    schedule: Annotated[
        str, typer.Option(help="linear (none at first, full at the end), constant or early.")
    ] = "linear",
    temperature: Annotated[float, typer.Option(help="0 always takes the likeliest token.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Only the k likeliest tokens; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Only the likeliest tokens up to this probability.")] = 1.0,
    columns: Annotated[int, typer.Option(min=1, help="Images in a row of the picture.")] = 8,
    scale: Annotated[int, typer.Option(min=1, help="Pixels for each pixel.")] = 2,
    debug: Debug = False,
) -> None:
    """Draw images."""
    from docvision.config import build
    from imagegen.config import SampleConfig

    given = {
        "guidance": guidance, "schedule": schedule, "temperature": temperature, "top_k": top_k, "top_p": top_p,
    }  # fmt: skip
    try:
        settings = build(SampleConfig, given, "imagegen sample")
    except ValueError as error:
        raise UsageError(str(error)) from None
    if out.suffix.lower() not in PICTURES or out.is_dir():
        raise UsageError(f"--out {out}: a picture's name, ending in {', '.join(PICTURES)}")
    import torch

    from docvision.checkpoint import CheckpointError
    from imagegen.generate import GenerateError, class_number, grid_picture, load_pair, sample_images
    from imagegen.train import save_picture

    try:
        generator, tokenizer = load_pair(model)
        chosen = [class_number(generator, name) for name in classes or generator.vocabulary.names]
    except (GenerateError, CheckpointError) as error:
        raise UsageError(str(error)) from None
    labels = torch.tensor(chosen).repeat_interleave(-(-count // len(chosen)))[:count]
    out.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    images = sample_images(generator, tokenizer, labels, settings, seed)
    took = time.perf_counter() - began
    save_picture(grid_picture(images, columns, scale), out)
    if folder is not None:
        _write_each(images, labels.tolist(), [*generator.vocabulary.names, "none"], folder, seed)
    show(f"{count} images in {took:.1f} s ({count / took:.0f} a second): {out}")


def _write_each(images: Any, labels: Sequence[int], names: Sequence[str], folder: Path, seed: int) -> None:
    from imagegen.train import save_picture

    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / names[label]
        place.mkdir(parents=True, exist_ok=True)
        save_picture(image, place / f"{seed}-{number:05d}.png")


@app.command()
def evaluate(
    recipe: Recipe,
    overrides: Overrides = None,
    model: Annotated[str, typer.Option(help="Folder of a trained pair or packaged name; else the recipe's run.")] = "",
    each: Annotated[int, typer.Option(min=2, help="Images drawn for each class.")] = 100,
    guidance: Annotated[list[float] | None, typer.Option(help="Several times for several; else the recipe's.")] = None,
    classifiers: Annotated[int, typer.Option(min=1, help="Independently trained ones to measure with.")] = 1,
    copies: Annotated[bool, typer.Option("--copies/--no-copies", help="Look for copies of training images.")] = True,
    inception: Annotated[str, typer.Option(help="torch-fidelity's Inception weights on disk, for FID as well.")] = "",
    speed: Annotated[bool, typer.Option("--speed", help="Also images a second, with and without the cache.")] = False,
    json_file: Json = None,
    debug: Debug = False,
) -> None:
    """Measure a generator: held-out cost, distances beside their floors, class agreement, copies."""
    loaded = _recipe(recipe, overrides)
    from imagegen import evaluate as evaluation
    from imagegen.generate import load_pair

    scale = evaluation.Scale(each, classifiers, copies, inception)
    try:
        report = evaluation.evaluate(loaded, scale, model, guidance or ())
    except evaluation.EvaluationError as error:
        raise UsageError(str(error)) from None
    if speed:
        report["speed"] = evaluation.speed(*load_pair(model or Path(loaded.run.out) / "export"), loaded)
    _write(json_file, report)
    show(_figures(report))
    show("FD, KID, CS and agreement are by our own classifier: not comparable with published FID, KID or IS.")


@bench.command("steps")
def bench_steps(
    recipe: Annotated[str, typer.Argument(metavar="[RECIPE]", help="Sizes, batch and phases.")] = "fashion_mnist_mtar",
    overrides: Overrides = None,
    rounds: Annotated[int, typer.Option(min=3, help="Timed steps of each kind.")] = 50,
    json_file: Json = None,
    debug: Debug = False,
) -> None:
    """Time training steps with and without MTAR's aids, in turns, in one process."""
    loaded = _recipe(recipe, overrides)
    from imagegen.step_bench import bench_steps as run

    report = run(loaded, rounds)
    _write(json_file, report)
    show(_figures(report))


@bench.command("mtar")
def bench_mtar(
    recipe: Annotated[str, typer.Argument(metavar="[RECIPE]", help="With the full budget.")] = "fashion_mnist_mtar",
    overrides: Overrides = None,
    seeds: Annotated[int, typer.Option(min=1, help="Of plain and full MTAR training; other arms have three.")] = 5,
    arm: Annotated[
        list[str] | None, typer.Option(help="Beside base; several times for several, all by default.")
    ] = None,
    each: Annotated[int, typer.Option(min=0, help="Images a class for the distance; 0 leaves it out.")] = 100,
    guidance: Annotated[list[float] | None, typer.Option(help="Of the images; 1, 1.5 and 2 by default.")] = None,
    held: Annotated[int, typer.Option(min=0, help="Held-out images for the cost; 0 for all.")] = 0,
    rounds: Annotated[int, typer.Option(min=3, help="Timed steps of each kind.")] = 50,
    json_file: Json = None,
    debug: Debug = False,
) -> None:
    """Train all arms at equal iterations, a third of them, and equal time; print the table with 95 % intervals.

    Run it again after an interruption: finished runs are kept.
    """
    loaded = _recipe(recipe, overrides)
    from apps.bench import table
    from imagegen import mtar_bench as comparison

    try:
        protocol = comparison.Protocol(seeds, tuple(arm or ()), each, tuple(guidance or (1.0, 1.5, 2.0)), held, rounds)
    except ValueError as error:
        raise UsageError(str(error)) from None
    report: Any = comparison.bench_mtar(loaded, protocol)
    _write(json_file, report)
    show(_figures(report["steps"]))
    show(table(report["rows"]))
    show(
        f"scorer {report['scorer']} ({report['score_seconds']:.0f} s once, in no other figure), features"
        f" {report['classifier']}; lower is better; the paper's FID is of another data set and size."
    )


def _write(path: Path | None, report: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1), encoding="utf-8")


def _figures(report: Any, indent: str = "") -> str:
    """Figures one a line, nested ones indented."""
    lines = []
    for name, value in report.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", _figures(value, indent + "  ")]
        elif isinstance(value, list):
            for row in value:
                lines.append(f"{indent}{name}: " + "  ".join(f"{key} {_short(item)}" for key, item in row.items()))
        else:
            lines.append(f"{indent}{name} {_short(value)}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never a traceback unless ``--debug`` asks for one."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        app(["--help"], prog_name="imagegen", standalone_mode=False)
        return USAGE
    return run(app, "imagegen", given, "train", "interrupted; the same command goes on from the last checkpoint")


if __name__ == "__main__":
    sys.exit(main())
