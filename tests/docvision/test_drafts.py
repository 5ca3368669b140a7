"""Drafts that need no training: copies from words and from the output, and a line head's reading lined up again."""

import torch

from docvision.methods.base import gated_length
from docvision.methods.ctc import realign
from docvision.methods.textlayer import Copier, merge


def test_gate_closes_on_the_paths_probability() -> None:
    sure = torch.tensor([[0.9, 0.9, 0.5, 0.9], [0.2, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert gated_length(sure, 0.5).tolist() == [3, 1, 4]
    assert gated_length(sure, 0.0).tolist() == [4, 4, 4]
    # The sure row alone does not pay for slots that all three rows compute.
    assert gated_length(sure, 0.6).tolist() == [3, 1, 3]


def test_line_head_drafts_are_lined_up_again() -> None:
    text = list(b"the quick brown fox")
    for written, place in (("the quixk", 9), ("the qick", 9), ("the quiick", 9), ("the quick br", 12)):
        at = len(written)
        assert realign(list(written.encode()), text, at) == place, written


def test_copies_go_on_behind_tags_and_repeat_markup() -> None:
    visible, space, eos, tag = frozenset(range(2, 100)), 1, 200, 300
    copier = Copier([10, 11, 12, space, 13, 14, 15, space, 16, 17], visible, space, eos)
    assert copier.branches(20, 64)[0][:3] == [10, 11, 12]
    copier.learn([10, 11, 12, tag, tag + 1], 3)
    assert copier.branches(20, 64)[0][:3] == [13, 14, 15]  # no space behind a tag
    copier.learn([13, 14, 15, tag, tag + 1], 3)
    copier.learn([16, 17], 2)
    assert copier.branches(20, 64)[0] == [eos]
    lost = Copier([*range(2, 40)], visible, space, eos)
    lost.learn([90, 91, 20, 21, 22], 0)
    assert lost.branches(20, 64)[0][:2] == [23, 24]


def test_junk_layers_are_given_up_and_length_adapts() -> None:
    copier = Copier([*range(2, 90)], frozenset(range(2, 100)), 1, 200)
    for step in range(12):
        copier.branches(50, 64)
        copier.learn([90 + (step * step) % 11], 0)
    assert copier.branches(50, 64)[0] == []
    good = Copier([*range(2, 90)], frozenset(range(2, 100)), 1, 200)
    first = good.branches(80, 64)[0]
    good.learn([*first, first[-1] + 1], len(first))
    assert len(good.branches(80, 64)[0]) > len(first)


def test_trees_share_beginnings() -> None:
    tokens, parents = merge([[5, 6, 7], [5, 6, 8, 9], [4]], 6)
    assert tokens == [5, 6, 7, 8, 9, 4] and parents == [-1, 0, 1, 1, 3, -1]
    assert merge([[1, 2, 3], [4]], 2) == ([1, 2], [-1, 0])
