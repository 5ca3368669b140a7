"""A small classifier of the data set itself: features for distances, and whether a sample shows its class.

No Inception weights are at hand, so a network trained on the training split stands in.  Its numbers are named after
it and compare runs on the same data; they are not comparable with published FID.

Shape suffixes: B batch, C channels, H W pixels, D features, K classes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision import checkpoint
from docvision.config import OptimConfig
from docvision.train import Job, fit
from imagegen.batches import ImageBatch, ImageStream
from imagegen.config import ImageRecipe
from imagegen.images import ImageSet
from imagegen.vq import read_config, to_floats

STEPS = 900
BATCH = 128


class Classifier(nn.Module):
    """Three stages of convolutions at half the side each, averaged to D features, one linear layer.

    Args:
        channels: 1 or 3.
        classes: K.
        width: channels of the first stage.
    """

    FEATURES = 96

    def __init__(self, channels: int, classes: int, width: int = 24) -> None:
        super().__init__()
        self.shape = (channels, classes, width)
        wide = (width, 2 * width, self.FEATURES)
        self.stages = nn.ModuleList()
        for index, own in enumerate(wide):
            before = channels if index == 0 else wide[index - 1]
            self.stages.append(
                nn.Sequential(
                    nn.Conv2d(before, own, 3, stride=2, padding=1),
                    nn.GroupNorm(8, own),
                    nn.SiLU(),
                    nn.Conv2d(own, own, 3, padding=1),
                    nn.GroupNorm(8, own),
                    nn.SiLU(),
                )
            )
        self.out = nn.Linear(self.FEATURES, classes)

    def maps(self, images_BCHW: Tensor) -> list[Tensor]:
        """Feature maps of the three stages."""
        found = []
        for stage in self.stages:
            images_BCHW = stage(images_BCHW)
            found.append(images_BCHW)
        return found

    def features(self, images_BCHW: Tensor) -> Tensor:
        """(B,D), what Frechet distances are taken of."""
        return self.maps(images_BCHW)[-1].mean((2, 3))

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Scores (B,K)."""
        return self.out(self.features(images_BCHW))

    def name(self) -> str:
        """``clf-`` and 8 hex digits that change with any weight."""
        digest = hashlib.sha256()
        for value in self.state_dict().values():
            digest.update(value.detach().cpu().half().contiguous().numpy().tobytes())
        return f"clf-{digest.hexdigest()[:8]}"

    @torch.inference_mode()
    def look(self, images_NHWC: Tensor, batch: int = 512) -> tuple[Tensor, Tensor]:
        """Features (N,D) in double and class probabilities (N,K) of bytes (N,H,W,C)."""
        features, shares = [], []
        for part in images_NHWC.split(batch):
            seen = self.features(to_floats(part))
            features.append(seen.double())
            shares.append(self.out(seen).softmax(-1))
        return torch.cat(features), torch.cat(shares)

    def save_pretrained(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        plain = {"kind": "classifier", "shape": list(self.shape)}
        (folder / checkpoint.CONFIG).write_text(json.dumps(plain), encoding="utf-8")
        checkpoint.save_weights(self, folder, dtype)

    @classmethod
    def from_pretrained(cls, folder: Path) -> Classifier:
        """Load a folder that :meth:`save_pretrained` wrote.

        Raises:
            CheckpointError: no classifier there, or a damaged one.
        """
        model = cls(*read_config(folder, "classifier", "imagegen evaluate")["shape"])
        checkpoint.load_weights(model, folder)
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        return model.eval()


class ClassifierTrainer(nn.Module):
    """Cross-entropy on images shifted by up to two pixels."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: ImageBatch, noise: torch.Generator) -> dict[str, Tensor]:
        down, right = (torch.randint(-2, 3, (2,), generator=noise)).tolist()
        shifted = torch.roll(batch.images_BHWC, (down, right), (1, 2))
        return {"class": F.cross_entropy(self.model(to_floats(shifted)), batch.labels_B, label_smoothing=0.05)}


def load_classifier(recipe: ImageRecipe, train: ImageSet, held: ImageSet, seed: int = 0) -> Classifier:
    """The classifier of a run, trained into ``<run.out>/classifier-<seed>`` where it is not there yet."""
    out = Path(recipe.run.out) / f"classifier-{seed}"
    if not (out / "model" / checkpoint.CONFIG).is_file():
        out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(seed)
        trainer = ClassifierTrainer(Classifier(recipe.data.channels, len(train.names)))
        shown = min(len(held), 4 * recipe.run.validate_samples)
        pixels, kept = held.read(range(shown))

        def validate(module: ClassifierTrainer) -> dict[str, float]:
            module.eval()
            _, share = module.model.look(torch.from_numpy(pixels))
            right = share.argmax(1) == torch.from_numpy(held.labels_N[:shown][kept])
            return {"accuracy": float(right.double().mean())}

        job = Job(
            streams={"images": ImageStream(train, BATCH, seed)},
            shares={"images": 1.0},
            objective=lambda module, batch, noise: module(batch, noise),
            validate=validate,
        )
        steps = min(STEPS, max(200, 3 * len(train) // BATCH))
        optim = OptimConfig(steps=steps, lr=3e-3, warmup=50, decay=0.7, weight_decay=0.05, betas=(0.9, 0.95))
        fit(trainer, job, optim, replace(recipe.run, out=str(out), seed=seed, init=""))
        trainer.model.save_pretrained(out / "model")
    return Classifier.from_pretrained(out / "model")
