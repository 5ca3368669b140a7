"""Which drafted tokens stand: the accept policies, the choice of a token (greedy or sampled), and grammars.

``exact`` keeps a drafted token when the core chooses the same one.  With temperature 0 the choice is the best
token.  With a temperature it is a sample whose noise is a hash of (seed, row, position, token), the Gumbel-max
trick: the noise does not depend on how many tokens a forward verifies, so a drafted run gives the very tokens of
plain sampling, not only their distribution, whatever the batch.  (A drafter that draws with the same noise agrees
with the core as often as its distribution lets it: Daliri et al. 2025, arXiv 2408.07978.)

``confidence(tau)`` also keeps tokens that the drafter was sure of, ``all`` keeps everything.  Both are lossy, and
their runs count the tokens that the core would not have written.

Shape suffixes: B batch, N nodes of a block, K drafted, R = 1 + K nodes from the last certain one on, J along the
kept path, V vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from docvision.methods.base import Block, Draft

LOW = 0xFFFFFFFF


class AcceptError(ValueError):
    """A policy that does not exist."""


@dataclass(frozen=True)
class Policy:
    """What is kept of a draft."""

    name: str = "exact"
    tau: float = 1.0
    """For ``confidence``: drafter's probability from which a token is kept unverified."""

    @property
    def lossless(self) -> bool:
        return self.name == "exact"

    @classmethod
    def parse(cls, text: str) -> Policy:
        """``exact``, ``all`` or ``confidence(0.95)``.

        Raises:
            AcceptError: anything else.
        """
        if text in ("exact", "all"):
            return cls(text)
        found = re.fullmatch(r"confidence\((0?\.\d+|0|1|1\.0*|0\.)\)", text.replace(" ", ""))
        if not found:
            raise AcceptError(f"accept={text!r}: write exact, all or confidence(TAU) with TAU in [0, 1]")
        return cls("confidence", float(found[1]))


@dataclass
class Verdict:
    """What is kept of one block."""

    last_B: Tensor
    """Index in the block of the last node kept."""
    accepted_B: Tensor
    """Drafted tokens kept."""
    path_BJ: Tensor | None
    """Indices, from the root's 0 on, of the nodes kept, padded with the last; None for a chain."""


def judge(policy: Policy, block: Block, choice_BR: Tensor) -> Verdict:
    """Follow the draft as far as it holds.

    Args:
        policy: what counts as holding.
        block: certain tokens and the draft behind them.
        choice_BR: the core's token after the last certain node and after each drafted one.
    """
    draft = block.draft
    K = draft.tokens_BK.shape[1]
    if draft.parent_BK is None:
        ok_BK = _holds(policy, draft, choice_BR[:, :K])
        accepted_B = ok_BK.long().cumprod(1).sum(1)
        return Verdict(block.root + accepted_B, accepted_B, None)
    before_BK = choice_BR.gather(1, draft.parent_BK + 1)
    ok_BR = torch.cat([torch.ones_like(draft.length_B, dtype=torch.bool)[:, None], _holds(policy, draft, before_BK)], 1)
    assert block.ancestors_BNN is not None
    above_BRR = block.ancestors_BNN[:, block.root :, block.root :]
    broken_BR = (above_BRR & ~ok_BR[:, None]).any(2)
    depth_BR = above_BRR.sum(2) - 1
    reached_BR = torch.where(broken_BR, -1, depth_BR)
    accepted_B, node_B = reached_BR.max(1)
    on_path_BR = above_BRR[torch.arange(len(node_B), device=node_B.device), node_B]
    index_BR = torch.arange(K + 1, device=node_B.device).expand_as(on_path_BR)
    path_BR = torch.where(on_path_BR, index_BR, K + 1).sort(1).values
    return Verdict(block.root + node_B, accepted_B, torch.minimum(path_BR, node_B[:, None]))


def _holds(policy: Policy, draft: Draft, before_BK: Tensor) -> Tensor:
    """(B,K) whether each drafted token may stand after its parent, for which the core chose ``before_BK``."""
    if policy.name == "all":
        ok_BK = torch.ones_like(draft.tokens_BK, dtype=torch.bool)
    else:
        ok_BK = draft.tokens_BK == before_BK
        if policy.name == "confidence" and draft.confidence_BK is not None:
            ok_BK = ok_BK | (draft.confidence_BK >= policy.tau)
    return ok_BK & (torch.arange(ok_BK.shape[1], device=ok_BK.device) < draft.length_B[:, None])


class Chooser:
    """Picks tokens from logits: the best, or a sample that depends on (seed, row, position) alone.

    Args:
        temperature: 0 for the best token.
        seed: another seed gives other samples.
    """

    def __init__(self, temperature: float = 0.0, seed: int = 0) -> None:
        self.temperature = temperature
        self.seed = seed

    def __call__(self, logits_BSV: Tensor, rows_B: Tensor, positions_BS: Tensor) -> Tensor:
        """Ids (B,S); ``positions_BS`` are those of the tokens to be chosen."""
        if self.temperature <= 0:
            return logits_BSV.argmax(-1)
        V = logits_BSV.shape[-1]
        mixed_BS = _scramble(rows_B[:, None] * 0x9E3779B1 + positions_BS * 0x85EBCA6B + self.seed * 0xC2B2AE35)
        bits = _scramble(mixed_BS[..., None] + torch.arange(V, device=logits_BSV.device) * 0x27D4EB2F)
        uniform = (bits.double() + 0.5) / (LOW + 1)
        gumbel = -(-uniform.log()).log()
        return (logits_BSV.double() / self.temperature + gumbel).argmax(-1)


def _scramble(value: Tensor) -> Tensor:
    """The finaliser of MurmurHash3 on 32 bits held in 64: products may wrap, their low halves stay right."""
    value = value & LOW
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & LOW
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & LOW
    return value ^ (value >> 16)


def by_class(scores: Tensor, first: int) -> Tensor:
    """Scores with the ids from ``first`` on at minus infinity, or all before, whichever are less likely.

    Coordinates spread their probability over neighbours, by training and by doubt.  One bin against one tag would
    leave a cell empty whose text is seen, only not to the pixel: all bins together stand against all else together.

    Args:
        scores: (..., V) logits or log probabilities, what is not legal at minus infinity.
        first: id of the first coordinate; they are the last of the vocabulary.
    """
    places, others = scores[..., first:].float().logsumexp(-1), scores[..., :first].float().logsumexp(-1)
    is_place = torch.arange(scores.shape[-1], device=scores.device) >= first
    return scores.masked_fill((places > others)[..., None] != is_place, -torch.inf)


class Grammar(Protocol):
    """What a constrained stream may write next, such as docvision.table_grammar.TableState; one object a row."""

    @property
    def spread(self) -> int:
        """First of the ids that :func:`by_class` takes together."""
        ...

    def legal(self) -> np.ndarray:
        """Mask (V,) of the ids that may come next."""
        ...

    def forced(self) -> int | None:
        """The id, where only one is legal."""
        ...

    def advance(self, token: int) -> None: ...

    def copy(self) -> Grammar: ...

    def closing_cost(self) -> int:
        """Most tokens that a stream closed here still takes."""
        ...

    def close(self, reason: str) -> None:
        """From here on allow only what ends the stream."""
        ...


class Constraint:
    """Grammars of the rows of a batch: masks for verification, and forced tokens as drafts that cost nothing.

    The core's scores are masked at every node by the grammar's state along the path to it, so a verified draft
    equals constrained decoding one token at a time.  A stream that would outgrow its limit is closed in time.
    """

    FORCED = 16
    """Most forced tokens in one draft."""
    GROWTH = 220
    """More than any one token adds to what ending a stream takes."""
    FEW = 40
    """Choices that are tried one by one near the limit: tags and spans, not text or coordinates."""

    def __init__(self, grammars: Sequence[Grammar], limit: int, eos: int, greedy: bool = True) -> None:
        self.grammars = list(grammars)
        self.greedy = greedy
        self.left = [limit] * len(self.grammars)
        """Tokens that each row may still write."""
        self.eos = eos
        self.allowed: list[list[np.ndarray]] = []

    def draft(self, draft: Draft | None, device: torch.device) -> Draft | None:
        """The draft as a legal chain, forced tokens put in; remembers what is legal at each of its nodes.

        A tree is reduced to the path through its first nodes.
        """
        self.allowed, tokens, confidence = [], [], []
        for row, grammar in enumerate(self.grammars):
            legal, kept, sure = self._follow(grammar.copy(), self.left[row], _first_path(draft, row))
            self.allowed.append(legal)
            tokens.append(kept)
            confidence.append(sure)
        return Draft.from_lists(tokens, device, confidence) if any(tokens) else None

    def _follow(
        self, grammar: Grammar, left: int, proposed: Sequence[tuple[int, float]]
    ) -> tuple[list[np.ndarray], list[int], list[float]]:
        """Masks before and after each token of the draft, its tokens and their confidences."""
        kept: list[int] = []
        sure: list[float] = []
        legal: list[np.ndarray] = []
        spare, place = self.FORCED, 0
        while True:
            self._mind_limit(grammar, left - len(kept))
            legal.append(grammar.legal())
            forced = grammar.forced()
            meant = proposed[place] if place < len(proposed) else None
            if forced is not None and spare:
                # A draft may have been made as if forced tokens stood already: it is kept for what follows them.
                place += meant is not None and meant[0] == forced
                spare -= 1
                token, confidence = forced, 1.0
            elif meant is not None and legal[-1][meant[0]]:
                (token, confidence), place = meant, place + 1
            else:
                return legal, kept, sure
            kept.append(token)
            sure.append(confidence)
            if token == self.eos:  # whatever is chosen behind the end is thrown away
                return [*legal, np.ones_like(legal[-1])], kept, sure
            grammar.advance(token)

    def _mind_limit(self, grammar: Grammar, left: int) -> None:
        """Close the stream where one more free choice could leave too few tokens to end it."""
        cost = grammar.closing_cost()
        if left > cost + self.GROWTH:
            return
        choices = np.flatnonzero(grammar.legal()).tolist()
        if len(choices) <= self.FEW:
            cost = max(self._cost_after(grammar, token) for token in choices)
        else:
            cost += 4  # a coordinate or a byte opens a box or a character
        if left - 1 < cost:
            grammar.close("the limit of tokens is reached")

    def _cost_after(self, grammar: Grammar, token: int) -> int:
        if token == self.eos:
            return 0
        after = grammar.copy()
        after.advance(token)
        return after.closing_cost()

    def mask(self, logits_BRV: Tensor) -> Tensor:
        """Logits with what is not legal at each node at minus infinity; what is drawn needs no :func:`by_class`."""
        open_BRV = np.ones(logits_BRV.shape, dtype=bool)
        for row, nodes in enumerate(self.allowed):
            for node, legal in enumerate(nodes[: open_BRV.shape[1]]):
                open_BRV[row, node] = legal
        logits_BRV = logits_BRV.masked_fill(~torch.from_numpy(open_BRV).to(logits_BRV.device), float("-inf"))
        return by_class(logits_BRV, self.grammars[0].spread) if self.greedy and self.grammars else logits_BRV

    def advance(self, emitted: Sequence[Sequence[int]]) -> None:
        """Take the tokens that were written."""
        for row, tokens in enumerate(emitted):
            for token in tokens:
                self._mind_limit(self.grammars[row], self.left[row])
                self.left[row] -= 1
                if token != self.eos:
                    self.grammars[row].advance(token)

    def select(self, rows: Sequence[int]) -> None:
        self.grammars = [self.grammars[row] for row in rows]
        self.left = [self.left[row] for row in rows]


def _first_path(draft: Draft | None, row: int) -> list[tuple[int, float]]:
    """Tokens and confidences of a row's draft, down the first child of every node."""
    if draft is None:
        return []
    count = int(draft.length_B[row])
    tokens = draft.tokens_BK[row, :count].tolist()
    sure = draft.confidence_BK[row, :count].tolist() if draft.confidence_BK is not None else [0.0] * count
    if draft.parent_BK is None:
        return list(zip(tokens, sure, strict=True))
    path, at = [], -1
    for node, parent in enumerate(draft.parent_BK[row, :count].tolist()):
        if parent == at:
            path.append((tokens[node], sure[node]))
            at = node
    return path
