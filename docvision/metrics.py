"""Figures of quality: edit distance and character error rate."""

from __future__ import annotations

from collections.abc import Sequence


def edit_distance(left: Sequence[object], right: Sequence[object]) -> int:
    """Levenshtein distance: insertions, deletions and substitutions, each 1."""
    if len(left) < len(right):
        left, right = right, left
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def error_rate(predictions: Sequence[Sequence[object]], truths: Sequence[Sequence[object]]) -> float:
    """Edits summed over all pairs, divided by the length of all truths: CER on strings, WER on lists of words.

    Raises:
        ValueError: unequal counts.
    """
    if len(predictions) != len(truths):
        raise ValueError(f"{len(predictions)} predictions for {len(truths)} truths: give one for each")
    edits = sum(edit_distance(p, t) for p, t in zip(predictions, truths, strict=True))
    return edits / max(1, sum(len(truth) for truth in truths))
