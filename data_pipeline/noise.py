"""Banks of noise: cutting a piece out of a fixed square costs a tenth of drawing it fresh."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

Rng = np.random.Generator

_BANK = 1024


@lru_cache(maxsize=8)
def _noise_bank(kind: str) -> np.ndarray:
    """A square of zero-mean, unit-variance noise: ``white``, or smoothed to a grain of 2, 6 or 30 pixels."""
    rng = np.random.default_rng(20_240_607)
    white: np.ndarray = rng.standard_normal((_BANK, _BANK), dtype=np.float32)
    sigma = {"white": 0.0, "grain": 1.0, "mottle": 3.0, "cloud": 15.0}[kind]
    if sigma:
        white = cv2.GaussianBlur(white, (0, 0), sigma, borderType=cv2.BORDER_REFLECT)
    return (white - white.mean()) / white.std()


def noise(kind: str, shape: tuple[int, int], rng: Rng) -> np.ndarray:
    """A random cut of a noise bank, tiled where the image is larger."""
    bank = _noise_bank(kind)
    height, width = shape
    top, left = int(rng.integers(_BANK)), int(rng.integers(_BANK))
    if top + height <= _BANK and left + width <= _BANK:
        return bank[top : top + height, left : left + width]
    return np.take(
        np.take(bank, np.arange(top, top + height), 0, mode="wrap"), np.arange(left, left + width), 1, mode="wrap"
    )


def smooth_field(shape: tuple[int, int], rng: Rng, cells: int = 3) -> np.ndarray:
    """A slowly changing field with values in [0, 1]."""
    coarse = rng.random((cells, max(2, min(12, cells * shape[1] // max(1, shape[0])))), dtype=np.float32)
    # Smooth at an eighth of the size, where it is cheap; linear steps of eight pixels do not show.
    small = max(2, shape[1] // 8), max(2, shape[0] // 8)
    field = np.clip(cv2.resize(coarse, small, interpolation=cv2.INTER_CUBIC), 0, 1)
    return cv2.resize(field, (shape[1], shape[0]), interpolation=cv2.INTER_LINEAR)
