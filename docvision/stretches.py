"""Where does a passage stand in a long text, and how many edits is it away?

The whole text is never compared: runs of a few characters that both have vote for an offset, and the edit distance is
worked out around it, with both ends of the stretch free.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

LONG_RUN, SHORT_RUN = 8, 4
"""Characters of a run that votes, in passages of at least ``LONG_RUN`` x 2 characters and in shorter ones."""
STEP = 32
"""Offsets this near vote together; insertions and deletions move the later part of a passage."""
USUAL = 20
"""A run is looked up at so many places at most: one that stands everywhere tells nothing."""


class Stretches:
    """A text in which passages are looked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._runs: dict[int, dict[str, list[int]]] = {}

    def best(self, passage: str) -> tuple[int, int]:
        """The stretch of the text that fits a passage best.

        Returns:
            Edits from it to the passage, at most the passage's length, and where it begins; -1 where no run is shared.
        """
        place = self.text.find(passage)
        if place >= 0:
            return 0, place
        for length in (LONG_RUN, SHORT_RUN):
            offset = self._offset(passage, length) if len(passage) >= length else None
            if offset is not None:
                break
        else:
            return len(passage), -1
        margin = STEP + len(passage) // 4
        start = max(0, offset - margin)
        edits, end = stretch_edits(passage, self.text[start : offset + len(passage) + STEP + margin])
        return min(edits, len(passage)), max(0, start + end - len(passage))

    def _offset(self, passage: str, length: int) -> int | None:
        places = self._places(length)
        votes = Counter[int]()
        for index in range(len(passage) - length + 1):
            for place in places.get(passage[index : index + length], ())[:USUAL]:
                votes[(place - index) // STEP] += 1
        if not votes:
            return None
        return STEP * max(votes, key=lambda offset: (votes[offset - 1] + votes[offset] + votes[offset + 1], -offset))

    def _places(self, length: int) -> dict[str, list[int]]:
        if length not in self._runs:
            runs: dict[str, list[int]] = {}
            for place in range(len(self.text) - length + 1):
                runs.setdefault(self.text[place : place + length], []).append(place)
            self._runs[length] = runs
        return self._runs[length]


def stretch_edits(passage: str, text: str) -> tuple[int, int]:
    """Edit distance of a passage to the stretch of ``text`` that fits it best, and where that stretch ends."""
    letters = np.array([ord(char) for char in text], dtype=np.int32)
    steps = np.arange(len(letters) + 1, dtype=np.int32)
    above = np.zeros(len(letters) + 1, dtype=np.int32)
    for char in passage:
        here = above + 1
        np.minimum(here[1:], above[:-1] + (letters != ord(char)), out=here[1:])
        # Inserting is one more for each step to the right: a running minimum of cost - step.
        here -= steps
        np.minimum.accumulate(here, out=here)
        here += steps
        above = here
    end = int(above.argmin())
    return int(above[end]), end
