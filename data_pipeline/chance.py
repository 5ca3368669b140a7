"""Drawing from weighted choices, cheaply: ``Generator.choice(p=...)`` costs ten times as much for a few items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def weighted(rng: np.random.Generator, shares: Mapping[T, float]) -> T:
    """One key, with probability in proportion to its value."""
    point = rng.random() * sum(shares.values())
    for key, share in shares.items():
        point -= share
        if point < 0:
            return key
    return next(reversed(list(shares)))


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One item, all equally likely."""
    return items[int(rng.integers(len(items)))]
