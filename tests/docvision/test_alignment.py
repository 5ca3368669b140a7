"""Alignment: the best CTC path against all paths, places of characters and coordinates, the loss against its sum."""

import itertools
import math

import pytest
import torch

from docvision.alignment import TEXT_HEAD, best_path, guide_loss, line_places, table_places, watched
from docvision.config import load_recipe
from docvision.decoder import PLACE_HEAD
from docvision.encoder import Memory
from docvision.model import DocVisionModel
from docvision.tokens import CHARACTERS, Vocabulary


def test_the_best_path_is_the_best_of_all_paths() -> None:
    torch.manual_seed(3)
    for labels in ([1, 2], [2, 2], [1]):
        frames = 5
        scores = torch.randn(1, frames + 2, 3).log_softmax(-1)
        best, first = -math.inf, []
        for path in itertools.product(range(3), repeat=frames):
            kept = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
            score = sum(float(scores[0, t, c]) for t, c in enumerate(path))
            if kept == labels and score > best:
                best = score
                first = [i for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
        padded = torch.tensor([[*labels, 0]])
        found = best_path(scores, padded, torch.tensor([len(labels)]), torch.tensor([frames]))
        assert found[0, : len(labels)].tolist() == first


def test_rows_of_a_batch_are_aligned_as_if_alone() -> None:
    torch.manual_seed(4)
    scores = torch.randn(2, 9, 4).log_softmax(-1)
    labels, lengths, frames = torch.tensor([[1, 2, 3], [3, 1, 0]]), torch.tensor([3, 2]), torch.tensor([9, 6])
    both = best_path(scores, labels, lengths, frames)
    for row in range(2):
        alone = best_path(scores[row : row + 1, : frames[row]], labels[row : row + 1], lengths[row : row + 1],
                          frames[row : row + 1])  # fmt: skip
        assert both[row, : lengths[row]].tolist() == alone[0, : lengths[row]].tolist()


def test_characters_stand_behind_start_and_prompt() -> None:
    places = line_places(torch.tensor([[2, 5, 7], [4, 0, 0]]), torch.tensor([3, 1]), 2, 4)
    assert places[0].tolist() == [[-1, -1], [0.5, 1], [0.5, 2], [0.5, 3]]
    assert places[1].tolist() == [[-1, -1], [0.5, 2], [-1, -1], [-1, -1]]


def test_corners_stand_where_their_text_is_and_lone_coordinates_nowhere() -> None:
    v = Vocabulary(CHARACTERS, 64)
    box = [v.x(9), v.y(10), v.x(30), v.y(33)]  # 18, 20, 60, 66 px; its middle is at 43
    targets = torch.tensor([[5, 8, *box, 7, v.y(3), v.x(1), 8], [8, v.x(50), v.y(40), 7, 0, 0, 0, 0, 0, 0]])
    first, second = table_places(targets, v).tolist()
    middle, nowhere = 43 // 16, [-1, -1]
    assert first[1:6] == [[middle, 2], [middle, 2], [20 // 16, 2], [middle, 60 // 8], [66 // 16, 60 // 8]]
    assert first[0] == nowhere and first[6:] == [nowhere] * 4
    assert second[:3] == [[80 // 16, 100 // 8]] * 3 and second[3:] == [nowhere] * 7  # a corner without its second
    assert bool((table_places(torch.tensor([[5, 6]]), v) == -1).all())


@pytest.mark.parametrize(("head", "columns"), [(TEXT_HEAD, 1), (PLACE_HEAD, 0)])
def test_loss_is_the_surprise_of_the_neighbourhood_and_reaches_the_queries(head: int, columns: int) -> None:
    torch.manual_seed(5)
    model = DocVisionModel(load_recipe("tiny", ["model.decoder.layers=3"]).model)
    D, heads = model.config.width, model.config.decoder.heads
    states, mask = torch.randn(1, 2 * 6, D), torch.ones(1, 12, dtype=torch.bool)
    mask[0, 5] = mask[0, 11] = False  # the last column is padding
    memory = Memory(states, mask, (2, 6), {})
    ids = torch.tensor([[1, 5, 6]])
    with watched(model.decoder) as seen:
        model.decoder(ids, torch.arange(3), memory)
    assert len(seen) == model.config.decoder.layers - 1
    loss = guide_loss(seen, memory, torch.tensor([[[-1.0, -1.0], [0.5, 2.0], [0.5, 4.0]]]), head)
    expected = []
    for attention, queries in seen:
        keys = attention.project_memory(states)[0][0, head]
        weights = (
            (queries[0, :, head * D // heads : (head + 1) * D // heads] @ keys.T / math.sqrt(D // heads))
            .masked_fill(~mask, -math.inf)
            .softmax(-1)
        )
        by_column = weights.view(3, 2, 6).sum(1)
        found = [by_column[t, c - columns : c + columns + 1].sum().log() for t, c in ((1, 2), (2, 4))]
        expected.append(-sum(found) / 2)
    assert float(loss.detach()) == pytest.approx(float(torch.stack(expected).mean().detach()), rel=1e-5)
    loss.backward()
    assert float(seen[0][0].query.weight.grad.abs().sum()) > 0
    with watched(model.decoder) as later:
        pass
    assert not later and not model.decoder.layers[1].cross_attention.query._forward_hooks
