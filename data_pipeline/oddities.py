"""The rarer things that drivers, scanners and cameras do to a picture, taken from albumentations."""

from __future__ import annotations

from functools import lru_cache

import albumentations as A
import numpy as np

Rng = np.random.Generator


@lru_cache(maxsize=1)
def _pipeline() -> A.Compose:
    """Built once; seeded for every picture."""
    effects = [
        A.MotionBlur(blur_limit=(3, 5), p=1),
        A.Defocus(radius=(1, 2), alias_blur=(0.1, 0.3), p=1),
        A.Sharpen(alpha=(0.1, 0.5), lightness=(0.8, 1.0), p=1),
        A.UnsharpMask(blur_limit=(3, 5), alpha=(0.2, 0.7), p=1),
        A.MultiplicativeNoise(multiplier=(0.85, 1.1), elementwise=True, p=1),
        A.ShotNoise(scale_range=(0.01, 0.1), p=1),
        A.Posterize(num_bits=(3, 5), p=1),
        A.Equalize(p=0.3),
        A.MedianBlur(blur_limit=3, p=0.5),
        A.ImageCompression(quality_range=(30, 80), compression_type="webp", p=1),
    ]
    return A.Compose([A.OneOf(effects, p=1)])


def oddity(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """One of them, at its own strength: ``d`` decides elsewhere how often this happens."""
    pipeline = _pipeline()
    pipeline.set_random_seed(int(rng.integers(2**31)))
    return pipeline(image=image[:, :, None])["image"].reshape(image.shape)
