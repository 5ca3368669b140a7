"""Passages in a long text: the edits are those of the best stretch, wherever it stands."""

from __future__ import annotations

import numpy as np

from docvision.metrics import edit_distance
from docvision.stretches import Stretches, stretch_edits


def test_edits_are_those_of_the_best_stretch_of_all() -> None:
    """Held against every stretch of the text, on random letters of a small alphabet."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        text, passage = ("".join(rng.choice(list("abc"), size)) for size in (14, 6))
        pairs = [(start, stop) for start in range(15) for stop in range(start, 15)]
        best = min(edit_distance(passage, text[start:stop]) for start, stop in pairs)
        edits, end = stretch_edits(passage, text)
        assert edits == best
        assert any(edit_distance(passage, text[start:end]) == best for start in range(end + 1))


def test_a_damaged_passage_is_found_in_a_long_text() -> None:
    rng = np.random.default_rng(1)
    text = "".join(rng.choice(list("abcdefghij klmnop"), 5000))
    passage = text[3000:3300]
    assert Stretches(text).best(passage) == (0, 3000)
    damaged = passage[:100] + "XYZ" + passage[105:200] + passage[202:]
    edits, place = Stretches(text).best(damaged)
    assert edits == 7 and abs(place - 3000) <= 10
    assert Stretches(text).best("QRSTUVW" * 5) == (35, -1)
    assert Stretches("").best("some words") == (10, -1)
    assert Stretches(text).best("a") == (0, text.index("a"))
