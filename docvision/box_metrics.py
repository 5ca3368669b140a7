"""Figures of quality for boxes, each predicted box matched with at most one true box.

Pairing boxes by their place in the sequence, as some releases do, counts everything after one early insertion as
wrong; here the pairs are those that match best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from docvision.metrics import Score, shared
from docvision.page import Box


def overlaps(predicted: Sequence[Box], true: Sequence[Box]) -> np.ndarray:
    """Intersection over union of every pair, shape (predicted, true)."""
    return np.array([[box.iou(other) for other in true] for box in predicted]).reshape(len(predicted), len(true))


def matched_f1(ious: np.ndarray, threshold: float) -> Score:
    """F1 over the largest possible set of pairs with IoU of at least ``threshold``, no box in two of them."""
    options = [np.flatnonzero(row >= threshold).tolist() for row in ious]
    partner: dict[int, int] = {}
    spent: set[int] = set()
    hits = sum(_find_partner(index, options, partner, spent) for index in range(len(options)))
    return shared(hits, *ious.shape)


def _find_partner(start: int, options: list[list[int]], partner: dict[int, int], spent: set[int]) -> bool:
    """Pair one more predicted box, moving others on where they have a choice (an augmenting path).

    Args:
        start: the predicted box.
        options: for each predicted box the true ones it may have.
        partner: true box -> its predicted one; changed in place.
        spent: true boxes from which no path leads on, now and later; changed in place.
    """
    came_from: dict[int, int] = {}
    waiting = [start]
    for box in waiting:
        for other in options[box]:
            if other in came_from or other in spent:
                continue
            came_from[other] = box
            if other in partner:
                waiting.append(partner[other])
                continue
            moved = {taken: place for place, taken in partner.items() if taken in waiting}
            place: int | None = other
            while place is not None:
                owner = came_from[place]
                partner[place] = owner
                place = moved.get(owner)
            return True
    spent.update(came_from)
    return False


def mean_iou(ious: np.ndarray) -> float:
    """IoU summed over pairs, best pair first, divided by the number of boxes on the side that has more."""
    predicted, true = ious.shape
    if not predicted or not true:
        return float(predicted == true)
    left, right, total = set(range(predicted)), set(range(true)), 0.0
    for place in np.argsort(-ious, axis=None, kind="stable"):
        i, j = divmod(int(place), true)
        if i in left and j in right:
            left.discard(i)
            right.discard(j)
            total += float(ious[i, j])
    return total / max(predicted, true)


@dataclass(frozen=True)
class Detections:
    """What average precision needs of one image."""

    confidences: np.ndarray
    """Of each predicted box."""
    hits: np.ndarray
    """Whether it found a true box that no more confident one had taken."""
    true: int
    """Number of true boxes."""


def detections(ious: np.ndarray, confidences: Sequence[float], threshold: float) -> Detections:
    """Give predicted boxes, the most confident first, their best free true box with IoU >= ``threshold``."""
    scores = np.array(confidences, dtype=np.float64)
    hits = np.zeros(len(scores), dtype=bool)
    free = np.ones(ious.shape[1], dtype=bool)
    for index in np.argsort(-scores, kind="stable"):
        candidates = np.where(free, ious[index], -1.0)
        if candidates.size and candidates.max() >= threshold:
            free[candidates.argmax()] = False
            hits[index] = True
    return Detections(scores, hits, ious.shape[1])


class Pool:
    """The boxes of many images in order of confidence."""

    def __init__(self, images: Sequence[Detections]) -> None:
        none = np.zeros(0)
        scores = np.concatenate([none, *(image.confidences for image in images)])
        order = np.argsort(-scores, kind="stable")
        self.true = np.array([image.true for image in images], dtype=np.int64)
        self.image = np.repeat(np.arange(len(images)), [len(image.hits) for image in images])[order]
        self.hits = np.concatenate([none, *(image.hits for image in images)])[order]
        # Boxes of equal confidence enter the curve together: each run of them is one point.
        self.last = np.flatnonzero(np.diff(scores[order], append=-np.inf))

    def average_precision(self, counts: np.ndarray | None = None) -> float:
        """Area under the precision-recall curve over all images, precision made monotone.

        A predictor without confidences gets precision x recall, whatever the order of its boxes.

        Args:
            counts: how often each image counts (a bootstrap sample); None for once.

        Returns:
            1 for no true and no predicted box.
        """
        weights = np.ones(len(self.true), dtype=np.int64) if counts is None else counts
        true, each = int(weights @ self.true), weights[self.image]
        if not true:
            return float(not each.any())
        found, taken = np.cumsum(self.hits * each)[self.last], np.cumsum(each)[self.last]
        precision = np.maximum.accumulate((found / np.maximum(taken, 1))[::-1])[::-1]
        return float(np.sum(np.diff(found / true, prepend=0.0) * precision))
