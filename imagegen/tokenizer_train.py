"""Training of the tokenizer: pixels, codebook, and where a recipe asks for them features and a PatchGAN.

The discriminator learns in the same step as the tokenizer: its own loss sees detached reconstructions, the tokenizer's
term runs through frozen copies of its weights, so one optimiser and one ``fit`` serve both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from docvision.config import RunConfig
from docvision.train import Job, fit
from imagegen.batches import ImageBatch, ImageStream
from imagegen.config import ImageRecipe, TokenizerConfig
from imagegen.images import ImageSet
from imagegen.vq import VQTokenizer, reconstruction_report, to_floats

Features = Callable[[Tensor], list[Tensor]]
"""Images (B,C,H,W) to feature maps (B,*,h,w)."""


class PatchDiscriminator(nn.Module):
    """Real or reconstructed, patch by patch (pix2pix, arXiv 1611.07004), for the hinge loss."""

    def __init__(self, channels: int, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), nn.GroupNorm(8, 2 * width), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 1, 3, padding=1),
        )  # fmt: skip

    def forward(self, images_BCHW: Tensor) -> Tensor:
        return self.body(images_BCHW)


class TokenizerTrainer(nn.Module):
    """Tokenizer and discriminator with the losses of one batch.

    Args:
        config: weights of the terms.
        size: pixels a side.
        channels: 1 or 3.
        features: what the perceptual term compares.
    """

    def __init__(self, config: TokenizerConfig, size: int, channels: int, features: Features | None = None) -> None:
        super().__init__()
        self.config, self.features = config, features
        self.model = VQTokenizer(config, size, channels)
        self.discriminator = PatchDiscriminator(channels) if config.adversarial else None
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, batch: ImageBatch) -> dict[str, Tensor]:
        """Losses by name, already weighted."""
        real = to_floats(batch.images_BHWC)
        made, quantised = self.model(real)
        losses = {"l2": F.mse_loss(made, real), "l1": F.l1_loss(made, real), **quantised.losses}
        if self.config.perceptual:
            assert self.features is not None
            pairs = zip(self.features(made), self.features(real), strict=True)
            told = [(F.normalize(a, dim=1) - F.normalize(b, dim=1)).pow(2).sum(1).mean() for a, b in pairs]
            losses["perceptual"] = self.config.perceptual * torch.stack(told).mean()
        if self.discriminator is not None:
            losses |= self._adversarial(self.discriminator, real, made)
        self.calls += 1
        return losses

    def _adversarial(self, discriminator: PatchDiscriminator, real: Tensor, made: Tensor) -> dict[str, Tensor]:
        frozen = {name: value.detach() for name, value in discriminator.named_parameters()}
        fooled = functional_call(discriminator, frozen, (made,))
        on = float(self.calls >= self.config.adversarial_start * self.config.optim.accumulate)
        judged_real, judged_made = discriminator(real), discriminator(made.detach())
        hinge = 0.5 * (F.relu(1 - judged_real).mean() + F.relu(1 + judged_made).mean())
        return {"adversarial": -on * self.config.adversarial * fooled.mean(), "discriminator": on * hinge}


def train_tokenizer(
    recipe: ImageRecipe, train: ImageSet, held: ImageSet, features: Features | None = None
) -> VQTokenizer:
    """Train to the end, resuming where a run was cut off; the model lies in ``<run.out>/tokenizer/model``."""
    config, out = recipe.tokenizer, Path(recipe.run.out) / "tokenizer"
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(recipe.run.seed)
    trainer = TokenizerTrainer(config, recipe.data.size, recipe.data.channels, features)
    shown = torch.from_numpy(held.read(range(min(recipe.run.validate_samples * 4, len(held))))[0])
    run: RunConfig = replace(recipe.run, out=str(out), init="")
    job = Job(
        streams={"images": ImageStream(train, config.batch, recipe.run.seed, recipe.data.flip)},
        shares={"images": 1.0},
        objective=lambda module, batch, noise: module(batch),
        validate=lambda module: reconstruction_report(module.model, shown),
        save_model=lambda module, folder: module.model.save_pretrained(folder),
    )
    fit(trainer, job, config.optim, run)
    trainer.model.save_pretrained(out / "model")
    return VQTokenizer.from_pretrained(out / "model")
