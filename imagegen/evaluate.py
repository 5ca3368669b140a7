"""One report on a generator: cost of held-out images, distances with their floors, agreement, copies, speed.

The figure to compare runs by is ``nll``: exact, cheap, and free of sampling.  Distances compare images drawn with equal
numbers and settings.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from imagegen.batches import INDEX, encode_set, fingerprint
from imagegen.classifier import load_classifier
from imagegen.config import ImageRecipe, SampleConfig, load_recipe
from imagegen.generate import Generator, draw, load_pair, sample_images
from imagegen.images import DataError, ImageSet, load_images
from imagegen.metrics import (
    PixelPca,
    agreement,
    class_score,
    export_npz,
    frechet,
    inception_distance,
    kernel_distance,
    memorisation,
    precision_recall,
)
from imagegen.train import Prepared, held_out_nll
from imagegen.vq import VQTokenizer, reconstruction_report


class EvaluationError(ValueError):
    """A run or settings that cannot be measured, said in one line."""


@dataclass(frozen=True)
class Scale:
    """How much is drawn and compared."""

    each: int = 100
    """Images a class."""
    classifiers: int = 1
    """Independently trained; distances are given for each."""
    copies: bool = True
    """Look for the nearest training image of each made one."""
    inception: str = ""
    """File with torch-fidelity's Inception weights, to give FID as well."""


def read_all(images: ImageSet, limit: int = 0) -> tuple[Tensor, Tensor]:
    """Bytes and labels of the first ``limit`` images, all for 0."""
    count = min(limit or len(images), len(images))
    pixels, kept = images.read(range(count))
    if not len(kept):
        raise DataError("no image could be read")
    return torch.from_numpy(pixels), torch.from_numpy(images.labels_N[:count][kept])


def floors(features_ND: Tensor, train_MD: Tensor, rebuilt_ND: Tensor, count: int) -> dict[str, float]:
    """What real and reconstructed images score: the lowest that a distance can be asked to be.

    Args:
        features_ND: held-out images.
        train_MD: training images.
        rebuilt_ND: held-out images through the tokenizer.
        count: images on the made side; the floors are taken at the same number, for the bias depends on it.
    """
    half = len(features_ND) // 2
    return {
        "halves": frechet(features_ND[:half], features_ND[half:]),
        "train": frechet(train_MD[:count], features_ND),
        "reconstructions": frechet(rebuilt_ND[:count], features_ND),
    }


def evaluate(recipe: ImageRecipe, scale: Scale, model: str = "", guidances: Sequence[float] = ()) -> dict[str, object]:
    """Measure a trained generator.

    Args:
        recipe: of its run.
        scale: how much is drawn.
        model: folder of the pair, or a packaged name; empty for ``<run.out>/export``.
        guidances: to draw with; the recipe's by default.

    Returns:
        Figures by name; those of a guidance are nested under ``guidance <value>``.

    Raises:
        EvaluationError: no trained run there, one of other settings, or a guidance that is none.
    """
    drawing = _drawing(recipe, guidances)
    if not model:
        check_run(recipe)
    generator, tokenizer = load_pair(model or Path(recipe.run.out) / "export")
    ready = prepare_for(recipe, tokenizer, model)
    held, held_labels = read_all(ready.held)
    train, _ = read_all(ready.train, 20_000)
    report: dict[str, object] = dict(held_out_nll(generator, ready.held_tokens))
    report |= reconstruction_report(tokenizer, held)
    labels = torch.arange(generator.none).repeat_interleave(scale.each)
    rebuilt = tokenizer.decode(torch.from_numpy(ready.held_tokens.ids_KAN[:, 0].astype("int64"))[: len(held)])
    looks = {}
    for seed in range(scale.classifiers):
        classifier = load_classifier(recipe, ready.train, ready.held, seed)
        looks[classifier.name()] = classifier
    pca = PixelPca(train)
    report |= {"images": len(labels), "held_out": len(held)}
    for name, classifier in looks.items():
        real, share = classifier.look(held)
        seen, again = (classifier.look(images)[0] for images in (train, rebuilt))
        report[f"agreement-{name} of real images"] = agreement(share, held_labels)
        report[f"FD-{name} floor"] = floors(real, seen, again, len(labels))
    report["FD-pca64 floor"] = floors(pca(held), pca(train), pca(rebuilt), len(labels))
    for settings in drawing:
        began = time.perf_counter()
        made = sample_images(generator, tokenizer, labels, settings, recipe.run.seed)
        figures: dict[str, object] = {"images_per_s": len(labels) / (time.perf_counter() - began)}
        for name, classifier in looks.items():
            own, share = classifier.look(made)
            real, _ = classifier.look(held)
            figures[f"FD-{name}"] = frechet(own, real)
            figures[f"KID-{name}"] = kernel_distance(own, real)[0]
            sides = min(len(own), len(real), 5000)
            pair = precision_recall(real[:sides].float(), own[torch.randperm(len(own))[:sides]].float())
            figures[f"precision-{name}"], figures[f"recall-{name}"] = pair
            figures[f"CS-{name}"] = class_score(share)
            figures[f"agreement-{name}"] = agreement(share, labels)
        figures["FD-pca64"] = frechet(pca(made), pca(held))
        if scale.copies:
            figures |= memorisation(made, held[:1000], train)
        if scale.inception:
            figures["FID"] = inception_distance(made, held, Path(scale.inception))
        export_npz(made, labels, Path(recipe.run.out) / "evaluation" / f"samples-guidance-{settings.guidance:g}.npz")
        report[f"guidance {settings.guidance:g}"] = figures
    return report


def _drawing(recipe: ImageRecipe, guidances: Sequence[float]) -> list[SampleConfig]:
    found = [replace(recipe.sample, guidance=guidance) for guidance in guidances or (recipe.sample.guidance,)]
    if problems := [problem for settings in found for problem in settings.problems()]:
        raise EvaluationError("; ".join(problems))
    return found


def check_run(recipe: ImageRecipe) -> None:
    """Check that the recipe's run is trained, with these images and this tokenizer.

    Raises:
        EvaluationError: what is missing or different.
    """
    out = Path(recipe.run.out)
    if not (out / "export").is_dir():
        raise EvaluationError(f"{out}: no trained generator there, run imagegen train first, or give --model")
    if not (out / "recipe.yaml").is_file():
        raise EvaluationError(f"{out}: no recipe.yaml there, so its data are not known: give --model {out / 'export'}")
    own = load_recipe(out / "recipe.yaml")
    different = [
        f"{part}.{name}={value!r}"
        for part in ("data", "tokenizer")
        for name, value in vars(getattr(own, part)).items()
        if value != getattr(getattr(recipe, part), name)
    ]
    if different:
        raise EvaluationError(
            f"{out} was trained with {', '.join(different)}: evaluate {out / 'recipe.yaml'}, or train another run.out"
        )


def prepare_for(recipe: ImageRecipe, tokenizer: VQTokenizer, model: str) -> Prepared:
    """Images, and held-out tokens of the run if it has them, else encoded into ``<run.out>/evaluation``."""
    train, held = load_images(recipe.data)
    folder = Path(recipe.run.out) / "tokens"
    if model or not (folder / "held-out" / INDEX).is_file():
        folder = Path(recipe.run.out) / "evaluation" / f"tokens-{fingerprint(tokenizer)}"
    held_tokens = encode_set(tokenizer, held, folder / "held-out")
    return Prepared(train, held, tokenizer, held_tokens, held_tokens, folder)


def speed(
    generator: Generator, tokenizer: VQTokenizer, recipe: ImageRecipe, batches: Sequence[int] = (1, 8, 32, 128)
) -> list[dict[str, object]]:
    """Images a second by batch, with and without the cache; the tokens are checked to be the same.

    On a CPU the clock is the process's own, as in :mod:`imagegen.step_bench`: a busy machine does not change it much.
    """
    clock = time.perf_counter if generator.head.weight.is_cuda else time.process_time
    rows = []
    for size in batches:
        labels = torch.arange(size) % generator.none
        row: dict[str, object] = {"batch": size}
        ids = []
        for name, cached in (("cached", True), ("uncached", False)):
            began = clock()
            ids.append(draw(generator, labels, recipe.sample, recipe.run.seed, cached=cached))
            tokenizer.decode(ids[-1])
            row[f"{name} images/s"] = size / (clock() - began)
        row["equal tokens"] = float((ids[0] == ids[1]).double().mean())
        rows.append(row)
    return rows
