"""Perceptual hashes: pictures that look the same, whatever their size, compression or slight blur.

The hash is 64 signs: the picture is shrunk to 32 x 32 greys, its cosine transform's 8 x 8 lowest frequencies are
compared with their median.  The distance of two hashes is the number of signs that differ; rescans of one region are
a few apart, other regions about 32.  Regions of running text of one shape come closer than that, so the caller also
compares what they say.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from PIL import Image

from docvision.images import grey

BITS = 64
_SIDE = 32
_LOW = 8


def _cosines() -> np.ndarray:
    """The first ``_LOW`` rows of the DCT-II matrix for ``_SIDE`` samples."""
    k, n = np.arange(_LOW)[:, None], np.arange(_SIDE)[None, :]
    return np.cos(np.pi * k * (2 * n + 1) / (2 * _SIDE))


def perceptual_hash(image: Image.Image) -> int:
    """64 bits; pictures that look alike differ in few of them."""
    small = grey(image).resize((_SIDE, _SIDE), Image.Resampling.BOX)
    basis = _cosines()
    low = (basis @ np.asarray(small, dtype=np.float64) @ basis.T).ravel()
    low[0] = 0.0  # the mean grey: paper is not what a picture shows
    signs = low > np.median(low)
    return int.from_bytes(np.packbits(signs).tobytes(), "big")


def distance(left: int, right: int) -> int:
    """Number of bits that differ."""
    return (left ^ right).bit_count()


class HashIndex:
    """Finds hashes within a distance without comparing with all.

    Of ``reach + 1`` bands of bits, one at least is the same in two hashes that differ in ``reach`` bits or fewer; so
    only hashes that share a band are compared, and none is missed.
    """

    def __init__(self, reach: int) -> None:
        if not 0 <= reach < BITS:
            raise ValueError(f"hamming distance is {reach}: use 0 to {BITS - 1}")
        self.reach = reach
        edges = [BITS * band // (reach + 1) for band in range(reach + 2)]
        self._bands = [(low, (1 << (high - low)) - 1) for low, high in pairwise(edges)]
        self._held: list[dict[int, list[tuple[int, int]]]] = [{} for _ in self._bands]

    def add(self, value: int, item: int) -> None:
        for held, (shift, mask) in zip(self._held, self._bands, strict=True):
            held.setdefault(value >> shift & mask, []).append((value, item))

    def near(self, value: int) -> list[tuple[int, int]]:
        """(distance, item) of all within reach, nearest first, then in the order of the items."""
        found = {
            item: distance(value, other)
            for held, (shift, mask) in zip(self._held, self._bands, strict=True)
            for other, item in held.get(value >> shift & mask, ())
        }
        return sorted((gap, item) for item, gap in found.items() if gap <= self.reach)
