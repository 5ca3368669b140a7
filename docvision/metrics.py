"""Figures of quality for sequences: edit distance, error rates, common subsequences, precision and recall."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Score:
    """A figure with its two halves, all in [0, 1]."""

    f1: float
    precision: float
    recall: float


def shared(hits: float, predicted: int, true: int) -> Score:
    """Precision, recall and F1 of ``hits`` among so many; two empty sides agree."""
    if not predicted and not true:
        return Score(1.0, 1.0, 1.0)
    return Score(2 * hits / (predicted + true), hits / predicted if predicted else 0.0, hits / true if true else 0.0)


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


def edit_distances(
    left: Sequence[Sequence[Hashable]], right: Sequence[Sequence[Hashable]], *, substitution: int = 1
) -> np.ndarray:
    """Edit distance of every sequence of ``left`` to every one of ``right``.

    Each distinct sequence is worked on once, against all others at a time, which suits the cells of a table:
    many, short, and often the same.

    Args:
        left: sequences of tokens; a string is a sequence of characters.
        right: likewise.
        substitution: 1, or 2, which is deleting and inserting: the distance then is the sum of both lengths less
            twice the longest common subsequence.

    Returns:
        int32 array of shape (len(left), len(right)).
    """
    numbers: dict[Hashable, int] = {}
    rows, row_of = _distinct(left, numbers)
    columns, column_of = _distinct(right, numbers)
    found = np.zeros((len(rows), len(columns)), dtype=np.int32)
    for group in _by_length(columns):
        found[:, group] = _distances([np.array(row) for row in rows], [columns[k] for k in group], substitution)
    return found[np.ix_(row_of, column_of)]


def common_lengths(left: Sequence[Sequence[Hashable]], right: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """Length of the longest common subsequence of every pair; int array of shape (len(left), len(right))."""
    sums = np.array([len(x) for x in left], dtype=np.int32)[:, None] + np.array([len(x) for x in right], dtype=np.int32)
    return (sums - edit_distances(left, right, substitution=2)) // 2


def _distinct(
    sequences: Sequence[Sequence[Hashable]], numbers: dict[Hashable, int]
) -> tuple[list[tuple[int, ...]], list[int]]:
    """The different sequences as numbers, and the index of each given sequence among them."""
    places: dict[tuple[int, ...], int] = {}
    index = []
    for sequence in sequences:
        coded = tuple(numbers.setdefault(token, len(numbers)) for token in sequence)
        index.append(places.setdefault(coded, len(places)))
    return list(places), index


def _by_length(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    """Indices of sequences of about equal length together: one long cell must not pad all others."""
    groups: dict[int, list[int]] = {}
    for index, sequence in enumerate(sequences):
        groups.setdefault(len(sequence).bit_length(), []).append(index)
    return list(groups.values())


def _distances(rows: list[np.ndarray], columns: list[tuple[int, ...]], substitution: int) -> np.ndarray:
    lengths = np.array([len(column) for column in columns])
    width = int(lengths.max(initial=0))
    padded = np.full((len(columns), width), -1, dtype=np.int32)
    for place, column in zip(padded, columns, strict=True):
        place[: len(column)] = column
    steps = np.arange(width + 1, dtype=np.int32)
    found = np.empty((len(rows), len(columns)), dtype=np.int32)
    for number, row in enumerate(rows):
        above = np.repeat(steps[None, :], len(columns), axis=0)
        for token in row:
            here = above + 1
            np.minimum(here[:, 1:], above[:, :-1] + substitution * (padded != token), out=here[:, 1:])
            # Inserting is one more for each step to the right: a running minimum of cost - step.
            here -= steps
            np.minimum.accumulate(here, axis=1, out=here)
            here += steps
            above = here
        found[number] = above[np.arange(len(columns)), lengths]
    return found
