"""The rarer things that drivers, scanners and cameras do to a picture, taken from albumentations.

The library is imported when the first picture needs it, and without two habits of its import: it looks for newer
releases on the network, and it loads torch (400 MB and seconds for every worker) for one class that is not used here.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

import numpy as np

Rng = np.random.Generator


def _albumentations() -> Any:
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    # None in sys.modules is Python's own sign for "not to be imported"; the library does without.
    hidden = "torch" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import albumentations
    finally:
        if hidden:
            del sys.modules["torch"]
    return albumentations


@lru_cache(maxsize=1)
def pipeline() -> Any:
    """One of the effects, picked by its own generator; built once and seeded for every picture."""
    A = _albumentations()
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
    one_of = pipeline()
    one_of.set_random_seed(int(rng.integers(2**31)))
    return one_of(image=image[:, :, None])["image"].reshape(image.shape)
