"""MTAR's aids: what they may see, what they must foretell, and that nothing of them stays behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from imagegen.config import GeneratorConfig, MtarConfig
from imagegen.generate import Generator, Vocabulary
from imagegen.mtar import (
    ForesightHead,
    Mtar,
    TokenContrast,
    keep_cells,
    next_token_loss,
    offset_of,
    phase_rate,
    routed_states,
)

GRID = 5
CELLS = GRID * GRID
SAME = 1e-5
"""Two orders of the same sums in single precision."""


def full(batch: int) -> torch.Tensor:
    return torch.arange(CELLS - 1).expand(batch, -1)


@pytest.mark.parametrize(("name", "offset"), [("R2", 2), ("R3", 3), ("B", 5), ("B.R1", 6)])
def test_offsets_count_from_the_token_just_read(name, offset):
    """A row below the token just read is G further on, not G - 1, which is a row below the one foretold."""
    assert offset_of(name, GRID) == offset


def test_rate_zero_through_the_gather_path_equals_the_full_path(generator, ids_BN):
    labels = torch.tensor([0, 1, 2, 3])
    kept = keep_cells(torch.rand(4, CELLS), 0.0, 0.35, torch.Generator().manual_seed(0))
    assert torch.equal(kept, full(4))
    gathered = generator.states(labels, ids_BN.gather(1, kept), kept)
    direct = generator(labels, ids_BN)
    torch.testing.assert_close(generator.head(gathered), direct, atol=SAME, rtol=0)
    wanted = F.cross_entropy(direct.flatten(0, 1), ids_BN.flatten())
    torch.testing.assert_close(next_token_loss(generator, gathered, kept, ids_BN), wanted, atol=SAME, rtol=0)


def test_nothing_kept_before_a_changed_token_moves(generator, ids_BN):
    """Causality under a random choice of cells, for the trunk and for a head's own blocks."""
    torch.manual_seed(3)
    head = ForesightHead(generator.config.decoder(), 32, 11, 2, GRID)
    torch.nn.init.normal_(head.out.weight, std=0.3)
    cells = keep_cells(torch.rand(4, CELLS), 0.5, 0.35, torch.Generator().manual_seed(2))
    place = 6
    changed = ids_BN.clone()
    changed[torch.arange(4), cells[:, place]] = (changed[torch.arange(4), cells[:, place]] + 1) % 11
    labels = torch.zeros(4, dtype=torch.long)
    before, after = (generator.states(labels, ids.gather(1, cells), cells) for ids in (ids_BN, changed))
    assert torch.equal(before[:, : 1 + place], after[:, : 1 + place])
    assert not torch.allclose(before[:, 1 + place :], after[:, 1 + place :])
    positions = generator.positions(cells)
    told, retold = head(before, positions), head(after, positions)
    assert torch.equal(told[:, : 1 + place], retold[:, : 1 + place])
    assert not torch.allclose(told[:, 1 + place :], retold[:, 1 + place :])


class Oracle(torch.nn.Module):
    """Scores that make the loss of a state small only where its target is the wanted one."""

    def __init__(self, wanted_BT: torch.Tensor) -> None:
        super().__init__()
        self.wanted_BT = wanted_BT

    def forward(self, hidden_BTD: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return 50 * F.one_hot(self.wanted_BT[:, : hidden_BTD.shape[1]], CELLS).float()


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_targets_are_those_of_the_whole_grid(rate):
    """With token i = i, kept cell p must foretell p+1 and p+G, and the class token 0, in both phases."""
    model = Generator(GeneratorConfig(size="tiny"), Vocabulary(CELLS, GRID, ("a",)))
    ids = torch.arange(CELLS).expand(3, -1)
    cells = keep_cells(torch.rand(3, CELLS), rate, 0.35, torch.Generator().manual_seed(5))
    hidden = torch.zeros(3, 1 + cells.shape[1], 64)
    model.head = Oracle(F.pad(cells + 1, (1, 0)))
    assert next_token_loss(model, hidden, cells, ids) < 1e-6
    head = ForesightHead(model.config.decoder(), 64, CELLS, 1, GRID)
    below = F.pad((cells + GRID).clamp(max=CELLS - 1), (1, 0))
    head.norm, head.out = torch.nn.Identity(), torch.nn.Linear(64, CELLS, bias=False)
    head.out.weight = torch.nn.Parameter(50 * torch.eye(CELLS, 64))
    head.states = lambda hidden, positions: F.one_hot(below[:, : hidden.shape[1]], 64).float()
    assert head.loss(hidden, model.positions(cells), cells, ids) < 1e-6
    head.states = lambda hidden, positions: F.one_hot((below - 1).clamp(min=0)[:, : hidden.shape[1]], 64).float()
    assert head.loss(hidden, model.positions(cells), cells, ids) > 10


def test_last_row_has_no_target_below():
    """A batch whose kept cells all lie in the last row gives a zero that can still be differentiated."""
    head = ForesightHead(GeneratorConfig(size="tiny").decoder(), 64, 11, 1, GRID)
    cells = torch.arange(CELLS - GRID, CELLS - 1).expand(2, -1)
    hidden = torch.randn(2, 1 + cells.shape[1], 64, requires_grad=True)
    loss = head.loss(hidden, torch.zeros(2, 1 + cells.shape[1], 2), cells, torch.zeros(2, CELLS, dtype=torch.long))
    loss.backward()
    assert loss == 0 and hidden.grad is not None


def test_trimmed_head_equals_untrimmed(generator, ids_BN):
    """Only states with a target enter the head; the mean over them is what the whole sequence would give."""
    torch.manual_seed(4)
    head = ForesightHead(generator.config.decoder(), 32, 11, 2, GRID)
    torch.nn.init.normal_(head.out.weight, std=0.3)
    cells = keep_cells(torch.rand(4, CELLS), 0.4, 0.35, torch.Generator().manual_seed(6))
    hidden = generator.states(torch.zeros(4, dtype=torch.long), ids_BN.gather(1, cells), cells)
    scores = head(hidden, generator.positions(cells))[:, 1:]
    valid = cells + GRID < CELLS
    wanted = ids_BN.gather(1, (cells + GRID).clamp(max=CELLS - 1))
    whole = F.cross_entropy(scores[valid], wanted[valid])
    torch.testing.assert_close(head.loss(hidden, generator.positions(cells), cells, ids_BN), whole, atol=SAME, rtol=0)


def test_contrast_of_one_row_is_zero_and_reaches_the_trunk():
    torch.manual_seed(0)
    contrast = TokenContrast(MtarConfig(contrast=0.2, contrast_rows=1), 16)
    hidden, marks = torch.randn(2, 4, 16, requires_grad=True), torch.zeros(2, 4, dtype=torch.long)
    assert contrast(hidden, marks, torch.Generator().manual_seed(0)).abs() < 1e-6
    wide = TokenContrast(MtarConfig(contrast=0.2, contrast_rows=8), 16)
    wide(hidden, marks, torch.Generator().manual_seed(0)).backward()
    assert hidden.grad.abs().sum() > 0


def test_contrast_without_dropout_finds_each_row_itself():
    torch.manual_seed(0)
    contrast = TokenContrast(MtarConfig(contrast=0.2, contrast_dropout=0.0), 16)
    rows = torch.randn(30, 16)
    noise = torch.Generator().manual_seed(0)
    cosine = contrast.view(rows, noise) @ contrast.view(rows, noise).T
    assert torch.equal(cosine.argmax(1), torch.arange(30))


def test_contrast_mask_leaves_equal_tokens_out():
    """All rows marked as the same token: masked, no negative is left and nothing is to be learnt."""
    torch.manual_seed(0)
    hidden, marks = torch.randn(2, 4, 16), torch.zeros(2, 4, dtype=torch.long)
    plain = TokenContrast(MtarConfig(contrast=0.2), 16)
    masked = TokenContrast(MtarConfig(contrast=0.2, contrast_mask=True), 16)
    assert plain(hidden, marks, torch.Generator().manual_seed(0)) > 0.1
    assert masked(hidden, marks, torch.Generator().manual_seed(0)).abs() < 1e-6


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.9])
def test_kept_cells_are_exact_sorted_and_unique(rate):
    cells = keep_cells(torch.rand(50, CELLS), rate, 0.35, torch.Generator().manual_seed(0))
    assert cells.shape == (50, int((CELLS - 1) * (1 - rate)))
    assert (cells.diff(dim=1) > 0).all() and cells.min() >= 0 and cells.max() <= CELLS - 2


def test_kept_cells_follow_the_scores():
    """2000 draws: frequencies rise with the score (chance of a false alarm below 1e-6: gaps of over 5 deviations)."""
    scores = torch.linspace(0.5, 1.5, CELLS).expand(2000, -1)
    cells = keep_cells(scores, 0.5, 0.35, torch.Generator().manual_seed(0))
    counts = torch.bincount(cells.flatten(), minlength=CELLS)[:-1].float()
    thirds = counts.view(4, -1).sum(1)
    assert (thirds.diff() > 0).all()


def test_scores_of_zero_are_allowed_and_drawn_alike():
    """torch.multinomial would raise; here every cell gets its turn (odds of a miss: 2 ** -500 a cell)."""
    cells = keep_cells(torch.zeros(500, CELLS), 0.5, 0.35, torch.Generator().manual_seed(0))
    assert cells.unique().tolist() == list(range(CELLS - 1))


def test_phases_switch_at_their_step():
    config = MtarConfig(scorer="uniform", rates=(0.5, 0.25, 0.0), phases=(0.6, 0.05, 0.35))
    rates = [phase_rate(config, step, 100) for step in range(100)]
    assert rates == [0.5] * 60 + [0.25] * 5 + [0.0] * 35
    assert phase_rate(replace(config, scorer=""), 0, 100) == 0


def test_routing_everything_equals_the_plain_decoder(generator, ids_BN):
    labels = torch.tensor([0, 1, 2, 3])
    x = generator.embed(labels, ids_BN[:, :-1])
    routed = routed_states(generator, x, generator.positions(full(4)), full(4))
    torch.testing.assert_close(generator.head(routed), generator(labels, ids_BN), atol=SAME, rtol=0)


def test_routing_keeps_every_state_and_changes_those_left_out(generator, ids_BN):
    labels = torch.zeros(4, dtype=torch.long)
    x = generator.embed(labels, ids_BN[:, :-1])
    cells = keep_cells(torch.ones(4, CELLS), 0.5, 0.35, torch.Generator().manual_seed(1))
    routed = routed_states(generator, x, generator.positions(full(4)), cells)
    assert routed.shape == (4, CELLS, 32)
    assert not torch.allclose(generator.head(routed), generator(labels, ids_BN), atol=1e-2)


def test_aids_add_their_terms_and_only_theirs(generator, ids_BN):
    hidden = generator.states(torch.zeros(4, dtype=torch.long), ids_BN[:, :-1], full(4))
    noise = torch.Generator().manual_seed(0)
    for config, names in (
        (MtarConfig(), set()),
        (MtarConfig(heads=("B", "B.R1")), {"mtp"}),
        (MtarConfig(contrast=0.2), {"tcr"}),
    ):
        assert set(Mtar(config, generator).losses(generator, hidden, full(4), ids_BN, noise)) == names
