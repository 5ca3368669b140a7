"""A character n-gram model, and the search that reads a line with it.

The line head says what each column of a line looks like; which letters follow each other in a language it has no
room to learn.  So its frames are searched for the text that is likeliest under both (prefix beam search with shallow
fusion: Hannun et al., arXiv 1408.2873).  The model is interpolated by Witten and Bell's rule, its counts pruned, its
logarithms kept in a byte each.  Frames that are sure leave the search nothing to choose, and cost next to nothing.

Shape suffixes: T frames, C classes, N n-grams.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

FILE = "language.safetensors"
"""In a model's folder."""
LEAST = (1, 1, 2, 3, 4)
"""How often an n-gram of length 1, 2, ... must have been seen to be kept; their number is the order."""
WEIGHT = 0.4
"""Of the logarithm of the model beside that of the line head."""
SURPRISE = -5.0
"""The model's logarithm counts as no less, so that figures and names are not read as words."""
BONUS = 1.0
"""For each character, since a model alone prefers short texts."""
BEAM = 6
LEAST_LIKELY = -5.0
"""Logarithm of the probability below which a character of a frame is not tried."""
SURE = math.log(0.99)
"""Logarithm of the probability from which on a frame leaves no choice: a line of only such frames needs no search."""
UNSEEN = -14.0
"""Logarithm of the probability of a character that no text held."""
_STEP = 1 / 16
"""Nats in a unit of a stored byte."""
_MULTIPLIER = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_IMPOSSIBLE = -1e30


class LanguageError(ValueError):
    """A language model cannot be made or read."""


class CharacterModel:
    """Probability of a character after those before it.

    Args:
        order: characters in the longest n-gram.
        keys_N: hashes of the n-grams, rising.
        scores_N: negative logarithm of each one's last character after the others, in sixteenths of a nat.
        backoffs_N: the same of what is left for characters that never followed it.
    """

    def __init__(self, order: int, keys_N: np.ndarray, scores_N: np.ndarray, backoffs_N: np.ndarray) -> None:
        self.order = order
        self.keys_N, self.scores_N, self.backoffs_N = keys_N, scores_N, backoffs_N
        self._keys = keys_N.data
        self.log_probability = lru_cache(1 << 18)(self._log_probability)

    def _log_probability(self, before: str, character: str) -> float:
        """Natural logarithm of the probability of ``character`` after the text ``before``."""
        before = before[max(0, len(before) - self.order + 1) :]
        places = self._places(character, before)
        contexts = self._places("", before)
        lost = 0.0
        for length in range(len(before), -1, -1):
            if (place := places[length]) >= 0:
                return -_STEP * (int(self.scores_N[place]) + lost)
            if length and (context := contexts[length - 1]) >= 0:
                lost += int(self.backoffs_N[context])
        return UNSEEN

    def _places(self, character: str, before: str) -> list[int]:
        """Where the n-grams that end ``before + character`` stand, the shortest first; -1 for one that is not kept."""
        places: list[int] = []
        value = 0
        for letter in reversed(before + character):
            value = ((value ^ ord(letter)) * _MULTIPLIER + len(places) + 1) & _MASK
            key = value >> 32
            place = bisect_left(self._keys, key)
            found = place < len(self._keys) and self._keys[place] == key
            places.append(place if found else -1)
        return places

    def save(self, path: str | Path) -> None:
        order = np.array(self.order, dtype=np.uint8)
        save_file({"order": order, "keys": self.keys_N, "scores": self.scores_N, "backoffs": self.backoffs_N}, path)

    @classmethod
    def load(cls, path: str | Path) -> CharacterModel:
        """Read what :meth:`save` wrote.

        Raises:
            LanguageError: not such a file.
        """
        try:
            parts = load_file(path)
            return cls(int(parts["order"]), parts["keys"], parts["scores"], parts["backoffs"])
        except (OSError, SafetensorError, KeyError) as error:
            raise LanguageError(f"{path}: not a language model ({error}): make one with docvision language") from None


def fit(texts: Iterable[str], least: Sequence[int] = LEAST) -> CharacterModel:
    """Count the n-grams of texts.

    Args:
        texts: any number, of any languages; white space counts as one space.
        least: see :data:`LEAST`.

    Raises:
        LanguageError: there is no text.
    """
    joined = " ".join(" ".join(text.split()) for text in texts)
    codes = np.frombuffer(f" {joined} ".encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    if len(codes) <= len(least) + 2:
        raise LanguageError("no text to learn a language from")
    values = np.zeros(len(codes) + 1, dtype=np.uint64)  # of the empty n-gram before each character and behind the last
    known, probability = values[:1], np.full(1, 1 / len(np.unique(codes)))
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for length, smallest in enumerate(least, 1):
        # Neighbours in ``values``: what an n-gram is without its last character, and without its first.
        context, suffix = values[:-1], values[1:]
        values = (suffix ^ codes[: len(suffix)]) * np.uint64(_MULTIPLIER) + np.uint64(length)
        found, first, counts = np.unique(values, return_index=True, return_counts=True)
        contexts, own, types = np.unique(context[first], return_inverse=True, return_counts=True)
        totals = np.bincount(own, weights=counts)
        if parts:
            parts[-1][2][np.searchsorted(known, contexts)] = types / (totals + types)
        lower = probability[np.searchsorted(known, suffix[first])]
        probability = (counts + types[own] * lower) / (totals + types)[own]
        parts.append((found, np.where(counts >= smallest, probability, 0), np.ones(len(found))))
        known = found
    keys, scores, backoffs = (np.concatenate(column) for column in zip(*parts, strict=True))
    kept = scores > 0
    rising, place = np.unique((keys[kept] >> np.uint64(32)).astype(np.uint32), return_index=True)
    return CharacterModel(len(least), rising, _bytes(scores[kept][place]), _bytes(backoffs[kept][place]))


def _bytes(probabilities_N: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(-np.log(probabilities_N) / _STEP), 0, 255).astype(np.uint8)


def likeliest(log_probs_TC: np.ndarray, letters: Sequence[str], model: CharacterModel) -> str:
    """The text of a line's frames under the line head and the language together.

    Args:
        log_probs_TC: natural logarithms, class 0 the blank.
        letters: what each class stands for; the blank's is not looked at.
        model: of the language.
    """
    # The language chooses among characters; whether there are any is for the line head to say.
    if not log_probs_TC.argmax(1).any():
        return ""
    beams: dict[str, tuple[float, float, float]] = {"": (0.0, _IMPOSSIBLE, 0.0)}
    for frame_C in log_probs_TC:
        tried = np.flatnonzero(frame_C > LEAST_LIKELY)
        if not len(tried):
            tried = frame_C.argmax()[None]
        grown: dict[str, tuple[float, float, float]] = {}
        for text, (blank, spoken, bonus) in beams.items():
            total = _either(blank, spoken)
            for index, score in zip(tried.tolist(), frame_C[tried].tolist(), strict=True):
                held = grown.get(text, (_IMPOSSIBLE, _IMPOSSIBLE, bonus))
                if not index:
                    grown[text] = (_either(held[0], total + score), held[1], bonus)
                    continue
                letter, source = letters[index], total
                if text.endswith(letter):  # without a blank between them two of a kind are one
                    grown[text] = (held[0], _either(held[1], spoken + score), bonus)
                    source = blank
                longer = text + letter
                if longer in grown:
                    held = grown[longer]
                else:
                    likely = max(SURPRISE, model.log_probability((" " + text)[1 - model.order :], letter))
                    held = (_IMPOSSIBLE, _IMPOSSIBLE, bonus + BONUS + WEIGHT * likely)
                grown[longer] = (held[0], _either(held[1], source + score), held[2])
        beams = dict(sorted(grown.items(), key=_worth, reverse=True)[:BEAM])
    return max(beams.items(), key=_worth)[0]


def _worth(item: tuple[str, tuple[float, float, float]]) -> float:
    blank, spoken, bonus = item[1]
    return _either(blank, spoken) + bonus


def _either(a: float, b: float) -> float:
    """Logarithm of the sum of two probabilities given by theirs."""
    high, low = (a, b) if a > b else (b, a)
    return high if low <= _IMPOSSIBLE else high + math.log1p(math.exp(low - high))
