"""What a multi-token method is made of: an objective for training, a drafter for decoding, and what both share.

A method never decides which tokens stand.  Its drafter proposes, ``docvision.decode`` verifies in one forward of
the core and tells the drafter what was kept.  Its objective adds losses to the core's own.  Either may be empty:
drafts from the line head need no training, and an objective may only shape the core.

Shape suffixes: B batch, T training positions, N nodes of a block (certain tokens, then drafted ones), K drafted
tokens, E riders, M memory cells, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.decoder import CausalDecoder, CrossAttention, DecoderLayer, MemoryView, key_mask
from docvision.pace import Pace

PAD = 0
"""Padding in tokens and targets, as in docvision.tokens."""


class MethodError(ValueError):
    """A method that does not exist, has no weights here, or was given an option it does not know."""


@dataclass
class Draft:
    """Proposed tokens: a chain, or a tree whose nodes come after their parents."""

    tokens_BK: Tensor
    length_B: Tensor
    """Nodes that count, for each row; what lies behind is padding."""
    confidence_BK: Tensor | None = None
    """How sure the drafter is of each token, in [0, 1]; None where it cannot say."""
    parent_BK: Tensor | None = None
    """Index of each node's parent, -1 for the last certain token; None for a chain."""

    @classmethod
    def from_lists(
        cls,
        tokens: Sequence[Sequence[int]],
        device: torch.device,
        confidence: Sequence[Sequence[float]] | None = None,
        parent: Sequence[Sequence[int]] | None = None,
    ) -> Draft:
        """Ragged rows, padded to the longest."""
        width = max((len(row) for row in tokens), default=0)

        def padded(rows: Sequence[Sequence[Any]], fill: float) -> Tensor:
            return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], device=device)

        return cls(
            padded(tokens, PAD).long().view(len(tokens), width),
            torch.tensor([len(row) for row in tokens], device=device),
            None if confidence is None else padded(confidence, 0.0).float().view(len(tokens), width),
            None if parent is None else padded(parent, -1).long().view(len(tokens), width),
        )


@dataclass
class Block:
    """What one forward of the core verifies: certain tokens not yet in the cache, then a draft."""

    tokens_BN: Tensor
    positions_BN: Tensor
    certain: int
    draft: Draft
    ancestors_BNN: Tensor | None = None
    """True where a node stands on the path to another, itself included; None for a chain."""

    @property
    def root(self) -> int:
        """Index of the last certain token, from which the draft starts."""
        return self.certain - 1


@dataclass
class Riders:
    """Embeddings that travel behind a chain in its verifying forward; the cache never keeps them."""

    embeddings_BED: Tensor
    positions_BE: Tensor
    sees_EN: Tensor
    """True where a rider may look at a node of the block; all see what is committed."""
    sees_EE: Tensor


@dataclass
class Step:
    """What came of one verifying forward."""

    block: Block
    hidden_BND: Tensor
    riders_BED: Tensor | None
    last_B: Tensor
    """Index of the last node that was kept."""
    next_B: Tensor
    """The core's own token after it: certain from now on, not yet in the cache."""
    position_B: Tensor
    """Position of that token."""
    emitted: list[list[int]]
    """Tokens that each row gained: accepted drafts, then the core's own."""
    accepted: list[int]

    def last_hidden(self) -> Tensor:
        """(B,D) state of the core at the last node kept."""
        return self.hidden_BND[torch.arange(len(self.last_B), device=self.last_B.device), self.last_B]


@dataclass
class Request:
    """What a drafter is told at the start of a batch."""

    model: Any
    """Owner of ``decoder``, and of what a particular drafter needs: ``line_head``, ``vocabulary``."""
    memory: Any
    """The image memory of the rows (docvision.encoder.Memory), or None."""
    prompt_BP: Tensor
    eos: int
    choose: Callable[[Tensor, Tensor], Tensor]
    """Logits (B,S,V) and positions (B,S) of the tokens to choose, to ids: greedy, or the run's own sampling noise."""
    pace: Pace
    blind: bool = False
    """Every draft will be kept unverified."""
    words: Sequence[Sequence[str]] | None = None
    """For each row, words that a PDF's text layer shows there."""
    options: Mapping[str, Any] = field(default_factory=dict)


class Drafter:
    """Proposes nothing: plain decoding.  Methods override what they need."""

    def propose(self, limit: int) -> Draft | None:
        """A draft of at most ``limit`` tokens deep that follows what is certain, or None."""
        return None

    def ride(self, block: Block) -> Riders | None:
        """Embeddings to run along with a block."""
        return None

    def observe(self, step: Step) -> None:
        """Learn what was kept."""

    def select(self, rows: Tensor) -> None:
        """Keep only these rows: the others are finished."""

    def begin(self, written: list[list[int]]) -> None:
        """Learn what earlier sessions wrote, when decoding is resumed."""


@dataclass
class TextRun:
    """What an objective sees of one training batch of the core."""

    decoder: CausalDecoder
    memory: Any
    inputs_BT: Tensor
    targets_BT: Tensor
    """The token after each input, 0 where none is to be learnt (prompt and padding)."""
    hidden_BTD: Tensor

    def part(self, tokens: slice) -> TextRun:
        """The same of some of the tokens."""
        inputs, targets, hidden = self.inputs_BT[:, tokens], self.targets_BT[:, tokens], self.hidden_BTD[:, tokens]
        return TextRun(self.decoder, self.memory, inputs, targets, hidden)

    def predicted(self) -> Tensor:
        """(B,T) the core's own next tokens where the targets are known, else 0: what a verifier will compare with."""
        with torch.no_grad():
            best = self.decoder.logits(self.hidden_BTD).argmax(-1)
        return torch.where(self.targets_BT == PAD, PAD, best)


class Method(nn.Module):
    """Weights of a method; registered as ``methods.<name>`` of the model."""

    trained = False
    """Whether the method is useless without weights of its own."""

    def expand(self, inputs_BT: Tensor, targets_BT: Tensor, noise: torch.Generator) -> Riders | None:
        """Extra embeddings for the training forward."""
        return None

    def losses(self, run: TextRun, riders_BED: Tensor | None) -> dict[str, Tensor]:
        """Losses to minimise, and detached figures to report under names that start with ``_``."""
        return {}

    def drafter(self, request: Request) -> Drafter:
        """A drafter for one batch; a method with options hands them on to its drafter's constructor."""
        return Drafter(**request.options)


class LookLayer(nn.Module):
    """A decoder layer without self-attention: look at the image, then SwiGLU; for heads that run on single states."""

    def __init__(self, width: int, heads: int, ffn: int, image: bool) -> None:
        super().__init__()
        if image:
            self.cross_norm = nn.RMSNorm(width, eps=1e-6)
            self.cross_attention = CrossAttention(width, heads)
        self.image = image
        self.ffn_norm = nn.RMSNorm(width, eps=1e-6)
        self.ffn_in = nn.Linear(width, 2 * ffn, bias=False)
        self.ffn_out = nn.Linear(ffn, width, bias=False)
        nn.init.normal_(self.ffn_out.weight, std=0.02)

    def start_from(self, layer: DecoderLayer) -> None:
        """Copy what fits from a layer of the core: a trained one already knows where to look."""
        if self.image:
            self.cross_norm.load_state_dict(layer.cross_norm.state_dict())
            self.cross_attention.load_state_dict(layer.cross_attention.state_dict())
        if self.ffn_in.weight.shape == layer.ffn_in.weight.shape:
            for own, other in (
                (self.ffn_norm, layer.ffn_norm),
                (self.ffn_in, layer.ffn_in),
                (self.ffn_out, layer.ffn_out),
            ):
                own.load_state_dict(other.state_dict())

    def look(self, memory: MemoryView | None) -> tuple[tuple[Tensor, Tensor], Tensor] | None:
        """Keys, values and mask of the memory, computed once for all calls on a batch."""
        if not self.image or memory is None:
            return None
        return self.cross_attention.project_memory(memory.states_BMD), memory.mask_BM

    def forward(self, x_BSD: Tensor, seen: tuple[tuple[Tensor, Tensor], Tensor] | None) -> Tensor:
        if seen is not None:
            pairs, mask_BM = seen
            x_BSD = x_BSD + self.cross_attention(self.cross_norm(x_BSD), pairs, key_mask(mask_BM, x_BSD))
        gate, value = self.ffn_in(self.ffn_norm(x_BSD)).chunk(2, -1)
        return x_BSD + self.ffn_out(F.silu(gate) * value)


Seen = tuple[tuple[Tensor, Tensor], Tensor] | None


def select_seen(seen: Seen, rows: Tensor) -> Seen:
    """Rows of what :meth:`LookLayer.look` gave."""
    if seen is None:
        return None
    (keys, values), mask_BM = seen
    return (keys[rows], values[rows]), mask_BM[rows]


def run_text(
    decoder: CausalDecoder,
    memory: Any,
    inputs_BT: Tensor,
    targets_BT: Tensor,
    methods: Mapping[str, Method],
    noise: torch.Generator,
) -> tuple[Tensor, dict[str, Tensor]]:
    """One training forward of the core with every method's riders, and the methods' losses.

    Riders stand behind the regular tokens, which never see them, so the core's states are those of a run without.

    Args:
        decoder: the core.
        memory: image memory of the rows.
        inputs_BT: token ids.
        targets_BT: next tokens, 0 where none is to be learnt.
        methods: by name.
        noise: source of the methods' random choices.

    Returns:
        Hidden states (B,T,D) of the regular tokens, and losses named ``<method>`` or ``<method>_<part>``.
    """
    B, T = inputs_BT.shape
    positions = torch.arange(T, device=inputs_BT.device)
    riding = {name: method.expand(inputs_BT, targets_BT, noise) for name, method in methods.items()}
    parts = [riders for riders in riding.values() if riders is not None]
    frozen = not any(parameter.requires_grad for parameter in decoder.parameters())
    if parts:
        embeddings = torch.cat([riders.embeddings_BED for riders in parts], 1)
        places = torch.cat([riders.positions_BE for riders in parts], 1)
        mask = rider_mask(T, parts)
    if parts and frozen:  # no gradient reaches the regular tokens: only the riders need a backward pass
        cache = decoder.new_cache(B, inputs_BT.device)
        with torch.no_grad():
            regular = decoder(inputs_BT, positions, memory, cache=cache)
        cache.commit(T)
        states = torch.cat([regular, decoder(embeddings, places, memory, mask[T:], cache)], 1)
    elif parts:
        embeddings = torch.cat([decoder.embed(inputs_BT), embeddings], 1)
        states = decoder(embeddings, torch.cat([positions.expand(B, T), places], 1), memory, mask=mask)
    else:
        states = decoder(inputs_BT, positions, memory)
    hidden_BTD = states[:, :T]
    run = TextRun(decoder, memory, inputs_BT, targets_BT, hidden_BTD)
    losses: dict[str, Tensor] = {}
    start = T
    for name, method in methods.items():
        riders = riding[name]
        count = 0 if riders is None else riders.positions_BE.shape[1]
        own = states[:, start : start + count] if riders is not None else None
        start += count
        losses |= {f"{name}{part}": value for part, value in method.losses(run, own).items()}
    return hidden_BTD, losses


def rider_mask(nodes: int, parts: Sequence[Riders]) -> Tensor:
    """(N+E,N+E) for a causal chain of N nodes and riders behind it; riders of one part do not see another's."""
    device = parts[0].sees_EE.device
    total = nodes + sum(riders.sees_EE.shape[0] for riders in parts)
    mask = torch.zeros(total, total, dtype=torch.bool, device=device)
    mask[:nodes, :nodes] = torch.ones(nodes, nodes, dtype=torch.bool, device=device).tril()
    start = nodes
    for riders in parts:
        stop = start + riders.sees_EE.shape[0]
        mask[start:stop, :nodes] = riders.sees_EN
        mask[start:stop, start:stop] = riders.sees_EE
        start = stop
    return mask


def gated_length(confidence_BK: Tensor, threshold: float) -> Tensor:
    """(B,) tokens whose path is still likelier than ``threshold``: up to the first whose cumulative confidence falls.

    The token that closes the gate is submitted too when its predecessors were sure: it costs one slot and often holds.
    One more slot is computed for all rows, so the batch as a whole goes no deeper than its mean path pays for.
    """
    path_BK = confidence_BK.cumprod(1)
    length_B = (path_BK >= threshold).long().cumprod(1).sum(1)
    width = (path_BK.mean(0) >= threshold).long().cumprod(0).sum()
    return (torch.minimum(length_B, width) + 1).clamp(max=confidence_BK.shape[1])
