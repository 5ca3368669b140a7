"""MTAR's training aids: heads that look further ahead, a token-contrastive term, and cells left out by their worth.

"Efficient Training with Foresight" (arXiv 2608.25386, sections 3.1 to 3.3).  Everything here is used in training only:
its weights live beside the generator, never in it, so an exported model has none of them.

Conventions, where one is easily off by one: cells are counted from 0; the state of kept cell p has read token p and
foretells token p+1; the state of the class foretells token 0; a head of offset d foretells p+d, and d of "one row
below" is the grid's side, counted from the token just read, not from the one foretold.  Targets are those of the whole
grid, also where the next token is left out as an input.

Deviations: the generator's blocks have no dropout, so these heads have none; a norm stands before their output layer;
the class keeps its loss while cells are left out (the authors' code loses it; their equation 1 has it).

Shape suffixes: B images, N cells, M kept cells, T states (1 + M), D width, K drawn rows, V codes.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.config import DecoderConfig
from docvision.decoder import DecoderLayer, rotary_angles
from imagegen.config import MtarConfig
from imagegen.generate import Generator

NEAR = 0.05
"""A foreign row this close in cosine to a row's own second view counts as a false negative."""


def offset_of(name: str, grid: int) -> int:
    """How many cells after the one just read a head looks."""
    return {"R2": 2, "R3": 3, "B": grid, "B.R1": grid + 1}[name]


def phase_rate(config: MtarConfig, step: int, steps: int) -> float:
    """Share of cells left out at ``step``, counted from 0, of a run of ``steps``."""
    if not config.scorer:
        return 0.0
    end = 0.0
    for share, rate in zip(config.phases, config.rates, strict=True):
        end += share
        if step < round(end * steps):
            return rate
    return config.rates[-1]


def uniform(shape: tuple[int, ...], noise: torch.Generator, device: torch.device) -> Tensor:
    """Draws from [0, 1), made where they are used: a GPU gets a generator of its own, seeded by ``noise``."""
    if device.type != "cpu":
        seed = int(torch.randint(2**62, (), generator=noise))
        noise = torch.Generator(device).manual_seed(seed)
    return torch.rand(shape, generator=noise, device=device)


def kept_count(sources: int, rate: float) -> int:
    """M: how many of the N-1 cells that can be read are."""
    return max(1, math.floor(sources * (1 - rate)))


def keep_cells(scores_BN: Tensor, rate: float, sharpness: float, noise: torch.Generator) -> Tensor:
    """(B,M) cells that are read, rising.

    Gumbel's trick draws them without replacement with chances that follow score ** (1 / sharpness); scores of zero are
    allowed, where torch.multinomial would raise.
    """
    sources = scores_BN.shape[1] - 1
    count = kept_count(sources, rate)
    drawn_BN = uniform((len(scores_BN), sources), noise, scores_BN.device).clamp(1e-20, 1 - 1e-7)
    key_BN = (scores_BN[:, :-1].clamp(min=0) + 1e-12).log() / sharpness - (-drawn_BN.log()).log()
    return key_BN.topk(count, 1).indices.sort(1).values


class ForesightHead(nn.Module):
    """Own blocks and own output layer, for the token ``offset`` cells after the one just read."""

    def __init__(self, config: DecoderConfig, width: int, codes: int, depth: int, offset: int) -> None:
        super().__init__()
        self.offset, self.rope = offset, (width // config.heads, config.rope_base)
        self.blocks = nn.ModuleList(DecoderLayer(config, width) for _ in range(depth))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.out = nn.Linear(width, codes, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, hidden_BTD: Tensor, positions_BT2: Tensor) -> Tensor:
        """Scores (B,T,V)."""
        return self.out(self.norm(self.states(hidden_BTD, positions_BT2)))

    def states(self, hidden_BTD: Tensor, positions_BT2: Tensor) -> Tensor:
        """(B,T,D) after the head's own blocks."""
        rotary = rotary_angles(positions_BT2, *self.rope)
        for block in self.blocks:
            hidden_BTD, _ = block(hidden_BTD, rotary, None, None, None, None, 0)
        return hidden_BTD

    def loss(self, hidden_BTD: Tensor, positions_BT2: Tensor, cells_BM: Tensor, ids_BN: Tensor) -> Tensor:
        """Mean loss of the states that have a target; only those, and what they attend to, are run.

        Cells rise in a row, so those with a target come first.  The output layer is run on them alone.
        """
        target_BM = cells_BM + self.offset
        valid_BM = target_BM < ids_BN.shape[1]
        least, used = (int(count) for count in valid_BM.sum(1).aminmax())
        if not used:
            return hidden_BTD.sum() * 0
        own_BMD = self.states(hidden_BTD[:, : 1 + used], positions_BT2[:, : 1 + used])[:, 1:]
        wanted_BM = ids_BN.gather(1, target_BM[:, :used].clamp(max=ids_BN.shape[1] - 1))
        if least == used:
            rows_RD, wanted_R = own_BMD.flatten(0, 1), wanted_BM.flatten()
        else:
            rows_RD, wanted_R = own_BMD[valid_BM[:, :used]], wanted_BM[valid_BM[:, :used]]
        return F.cross_entropy(self.out(self.norm(rows_RD)).float(), wanted_R)


class TokenContrast(nn.Module):
    """Two dropout views of the same token states, told apart from the other tokens of the batch (one-sided InfoNCE)."""

    def __init__(self, config: MtarConfig, width: int, out: int = 256) -> None:
        super().__init__()
        self.config = config
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, out)
        self.near = 0.0
        """Share of foreign rows that were as close as a row's own view, at the last call."""

    def view(self, rows_KD: Tensor, noise: torch.Generator) -> Tensor:
        """Unit vectors (K,E) under one draw of dropout."""
        keep = 1 - self.config.contrast_dropout
        mask = (uniform(tuple(rows_KD.shape), noise, rows_KD.device) < keep).to(rows_KD.dtype) / keep
        return F.normalize(self.outer(F.gelu(self.inner(rows_KD * mask), approximate="tanh")).float(), dim=-1)

    def forward(self, hidden_BMD: Tensor, marks_BM: Tensor, noise: torch.Generator) -> Tensor:
        """Loss over K rows drawn without replacement.

        Args:
            hidden_BMD: states of the kept cells.
            marks_BM: equal for tokens that count as the same; used with ``contrast_mask``.
            noise: source of the draws.
        """
        rows_RD, marks_R = hidden_BMD.flatten(0, 1), marks_BM.flatten()
        drawn = torch.randperm(len(rows_RD), generator=noise)[: self.config.contrast_rows].to(rows_RD.device)
        rows_KD, marks_K = rows_RD[drawn], marks_R[drawn]
        cosine_KK = self.view(rows_KD, noise) @ self.view(rows_KD, noise).T
        own = torch.eye(len(drawn), dtype=torch.bool, device=cosine_KK.device)
        with torch.no_grad():
            near = (cosine_KK >= cosine_KK.diagonal()[:, None] - NEAR) & ~own
            self.near = float(near.sum() / max(1, near.numel() - len(drawn)))
        if self.config.contrast_mask:
            same_KK = (marks_K[:, None] == marks_K[None]) & ~own
            cosine_KK = cosine_KK.masked_fill(same_KK, float("-inf"))
        return F.cross_entropy(
            cosine_KK / self.config.contrast_temperature, torch.arange(len(drawn), device=own.device)
        )


class Mtar(nn.Module):
    """All auxiliary weights of one run.

    Args:
        config: which aids, and their weights.
        model: the generator that is trained; only its sizes are used.
    """

    def __init__(self, config: MtarConfig, model: Generator) -> None:
        super().__init__()
        self.config = config
        width, spoken = model.config.resolved()[2], model.vocabulary
        self.heads = nn.ModuleDict(
            {
                name.replace(".", "_"): ForesightHead(
                    model.config.decoder(), width, spoken.codes, config.depth, offset_of(name, spoken.grid)
                )
                for name in config.heads
            }
        )
        self.contrast = TokenContrast(config, width) if config.contrast else None

    def losses(
        self, model: Generator, hidden_BTD: Tensor, cells_BM: Tensor, ids_BN: Tensor, noise: torch.Generator
    ) -> dict[str, Tensor]:
        """Weighted terms, from the generator's states after its last norm."""
        found: dict[str, Tensor] = {}
        if self.heads:
            positions = model.positions(cells_BM)
            terms = [head.loss(hidden_BTD, positions, cells_BM, ids_BN) for head in self.heads.values()]
            found["mtp"] = self.config.weight * torch.stack(terms).mean()
        if self.contrast is not None:
            marks_BM = ids_BN.gather(1, cells_BM) * model.cells + cells_BM
            found["tcr"] = self.config.contrast * self.contrast(hidden_BTD[:, 1:], marks_BM, noise)
        return found


def next_token_loss(model: Generator, hidden_BTD: Tensor, cells_BM: Tensor, ids_BN: Tensor) -> Tensor:
    """Mean loss of the class's state and of every kept cell's."""
    wanted_BT = ids_BN.gather(1, F.pad(cells_BM + 1, (1, 0)))
    return F.cross_entropy(model.head(hidden_BTD).flatten(0, 1).float(), wanted_BT.flatten())


def routed_states(model: Generator, x_BTD: Tensor, positions_BT2: Tensor, cells_BM: Tensor) -> Tensor:
    """States of all cells where those not kept skip the middle layers and come back (TREAD, arXiv 2501.04765).

    From layer L/6 to layer 2L/3 only the class and ``cells_BM`` are run; the others carry what they had.
    """
    decoder = model.decoder
    first = max(1, round(len(decoder.layers) / 6))
    last = max(first + 1, round(len(decoder.layers) * 2 / 3))
    head, base = x_BTD.shape[-1] // decoder.config.heads, decoder.config.rope_base
    kept_BT = F.pad(cells_BM + 1, (1, 0))
    everywhere = rotary_angles(positions_BT2, head, base)
    there = rotary_angles(
        positions_BT2.expand(len(x_BTD), -1, -1).gather(1, kept_BT[..., None].expand(-1, -1, 2)), head, base
    )
    index = kept_BT[..., None].expand(-1, -1, x_BTD.shape[-1])
    middle = x_BTD
    for number, layer in enumerate(decoder.layers):
        if number == first:
            middle = x_BTD.gather(1, index)
        if first <= number < last:
            middle, _ = layer(middle, there, None, None, None, None, number)
            if number == last - 1:
                x_BTD = x_BTD.scatter(1, index, middle)
        else:
            x_BTD, _ = layer(x_BTD, everywhere, None, None, None, None, number)
    return decoder.norm(x_BTD)
