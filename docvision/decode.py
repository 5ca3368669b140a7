"""Draft, verify, roll back: the one loop that writes tokens, for plain decoding and every multi-token method.

Each step runs the core once over a block: the tokens that are certain but not yet in the cache, then a draft,
then what the drafter sends along (riders).  The policy keeps a part of the draft, the core's own token after it
becomes certain, and the cache commits exactly what was kept, row by row; the next step starts with that token,
so a kept draft never costs a forward of its own.  Rejected entries are overwritten, never moved.  Finished rows
leave the batch.  Only the ids kept and their scores are copied to the host, never logits.

With ``accept="exact"`` the ids equal those of plain decoding, greedy or sampled, up to ties that another order of
sums can flip (a logit gap near 1e-6 in single precision).

Shape suffixes: B batch, P prompt, C certain tokens, K drafted, N = C + K nodes, R = 1 + K, J kept path, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from docvision import methods
from docvision.accept import Chooser, Constraint, Grammar, Policy, Verdict, judge
from docvision.decoder import KVCache
from docvision.encoder import Memory
from docvision.methods.base import Block, Draft, Drafter, Request, Riders, Step, rider_mask
from docvision.model import DocVisionModel, Reading
from docvision.pace import Pace, clock


@dataclass(frozen=True)
class Plan:
    """How to decode."""

    limit: int = 192
    """Most new tokens a row."""
    method: str = "ntp"
    """A name in docvision.methods.REGISTRY."""
    accept: str = "exact"
    """``exact``, ``all`` or ``confidence(TAU)``."""
    temperature: float = 0.0
    """0 is greedy."""
    seed: int = 0
    """Of the sampling noise."""
    fallback: bool = True
    """Stop drafting where the clock says that it does not pay; only with ``exact``, where it cannot change the ids."""
    draft: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method's drafter, such as ``{"registers": 2}``."""
    eos: int | None = None
    """Id that ends a row; None for the vocabulary's, -1 for none."""


@dataclass(frozen=True)
class Hints:
    """What is known of each row beforehand."""

    words: Sequence[Sequence[str]] | None = None
    """Words of the PDF's text layer in the row's crop, for ``textlayer``; they change speed, never output."""
    grammars: Sequence[Grammar] | None = None
    """What may be written next."""
    written: Sequence[Sequence[int]] | None = None
    """Tokens that an interrupted session wrote; decoding goes on behind them."""


@dataclass
class Decoded:
    """What was written, and what it cost."""

    ids: Tensor
    """(B,<=limit), ``<eos>`` where reached and 0 behind it."""
    scores: Tensor
    """Log probability of each id under the core."""
    runs: list[list[int]]
    """For each row, the tokens won by each forward that it took part in."""
    forwards: int
    disagreements: int
    """Tokens kept that the core would not have chosen; 0 for lossless policies."""

    @property
    def tokens_per_forward(self) -> float:
        """Over rows: tokens written by forwards taken part in."""
        return sum(map(sum, self.runs)) / max(1, sum(map(len, self.runs)))


_PACES: WeakKeyDictionary[Any, dict[str, Pace]] = WeakKeyDictionary()
"""What was learnt about the speed of each method, with its options, on each model."""


class Session:
    """Decoding of one batch, step by step.

    Args:
        model: owner of ``decoder``, and of what the method needs.
        memory: image memory of the B rows, or None for a decoder without cross-attention.
        prompt_BP: token ids, all of one length.
        plan: how to decode.
        hints: what is known of the rows.

    Raises:
        MethodError: unknown method or draft option, or no weights for the method.
        AcceptError: unknown policy.
    """

    def __init__(
        self, model: Any, memory: Memory | None, prompt_BP: Tensor, plan: Plan, hints: Hints | None = None
    ) -> None:
        hints = hints or Hints()
        self.plan = plan
        self.policy = Policy.parse(plan.accept)
        self.chooser = Chooser(plan.temperature, plan.seed)
        self.decoder = model.decoder
        self.eos: int = model.vocabulary.eos if plan.eos is None else plan.eos
        self.memory = memory
        B = prompt_BP.shape[0]
        self.cache: KVCache = self.decoder.new_cache(B, prompt_BP.device)
        self.rows_B = torch.arange(B, device=prompt_BP.device)
        self.alive = list(range(B))
        self.certain_BC = prompt_BP
        self.lengths = [0] * B
        """Committed entries of the alive rows, on the host."""
        self.written: list[list[int]] = [[] for _ in range(B)]
        self.scores: list[list[float]] = [[] for _ in range(B)]
        self.runs: list[list[int]] = [[] for _ in range(B)]
        self.forwards = 0
        self.disagreements = 0
        drafting = f"{plan.method} {sorted(plan.draft.items())}"
        self.pace = _PACES.setdefault(model, {}).setdefault(drafting, Pace())
        self.pace.hold = 0
        self.clock = clock(prompt_BP.device.type)
        told = Request(
            model, memory, prompt_BP, self.eos, self._choose, self.pace,
            blind=self.policy.name == "all", words=hints.words, options=plan.draft,
        )  # fmt: skip
        self.drafter: Drafter = methods.drafter(plan.method, told)
        self.constraint = None
        if hints.grammars is not None:
            self.constraint = Constraint(hints.grammars, plan.limit, self.eos, greedy=plan.temperature <= 0)
        self.paced = plan.fallback and self.policy.lossless and plan.method != "ntp"
        if hints.written is not None and any(hints.written):
            self._resume(hints.written)

    def run(self) -> Decoded:
        """Decode until every row has ended or is full."""
        while self.alive:
            self.step()
        used = max(map(len, self.written), default=0)
        ids = torch.zeros(len(self.written), used, dtype=torch.long)
        scores = torch.zeros(len(self.written), used)
        for row, (tokens, values) in enumerate(zip(self.written, self.scores, strict=True)):
            ids[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
            scores[row, : len(values)] = torch.tensor(values)
        device = self.rows_B.device
        return Decoded(ids.to(device), scores.to(device), self.runs, self.forwards, self.disagreements)

    def step(self) -> None:
        """One forward of the core: draft, verify, commit, hand the finished rows back."""
        began = self.clock()
        rows, first = len(self.alive), self.forwards == 0
        drafting = not self.paced or self.pace.wants_draft(rows, first)
        block = self._block(self._draft() if drafting else self._constrained(None))
        riders = self.drafter.ride(block) if drafting else None
        states = self._forward(block, riders)
        nodes = block.tokens_BN.shape[1]
        hidden_BND = states[:, :nodes]
        logits_BRV = self.decoder.logits(hidden_BND[:, block.root :]).float()
        if self.constraint is not None:
            logits_BRV = self.constraint.mask(logits_BRV)
        choice_BR = self._choose(logits_BRV, block.positions_BN[:, block.root :] + 1)
        verdict = judge(self.policy, block, choice_BR)
        emitted, accepted, next_B = self._emit(block, verdict, choice_BR, logits_BRV)
        self._commit(block, verdict, accepted)
        self.certain_BC = next_B[:, None]
        riding = states[:, nodes:] if riders is not None else None
        position_B = self.cache.length_B
        self.drafter.observe(Step(block, hidden_BND, riding, verdict.last_B, next_B, position_B, emitted, accepted))
        if self.paced:
            won = sum(map(len, emitted)) / rows
            self.pace.record(rows, first, self.clock() - began, won, nodes - block.certain, drafting)
        self._retire(emitted)

    def _choose(self, logits_BSV: Tensor, positions_BS: Tensor) -> Tensor:
        return self.chooser(logits_BSV, self.rows_B, positions_BS)

    def _draft(self) -> Draft | None:
        room = self.plan.limit - min(len(self.written[row]) for row in self.alive) - 1
        draft = self.drafter.propose(room) if room > 0 else None
        return self._constrained(draft)

    def _constrained(self, draft: Draft | None) -> Draft | None:
        return draft if self.constraint is None else self.constraint.draft(draft, self.rows_B.device)

    def _block(self, draft: Draft | None) -> Block:
        B, C = self.certain_BC.shape
        device = self.certain_BC.device
        if draft is None or draft.tokens_BK.shape[1] == 0:
            draft = Draft(torch.zeros(B, 0, dtype=torch.long, device=device), torch.zeros_like(self.rows_B))
        tokens_BN = torch.cat([self.certain_BC, draft.tokens_BK], 1)
        start_B1 = self.cache.length_B[:, None]
        steps = torch.arange(tokens_BN.shape[1], device=device)
        if draft.parent_BK is None:
            return Block(tokens_BN, start_B1 + steps, C, draft)
        chain_BC = torch.arange(-1, C - 1, device=device).expand(B, C)
        ancestors_BNN = tree_ancestors(torch.cat([chain_BC, draft.parent_BK + C], 1))
        return Block(tokens_BN, start_B1 + ancestors_BNN.sum(2) - 1, C, draft, ancestors_BNN)

    def _forward(self, block: Block, riders: Riders | None) -> Tensor:
        self.forwards += 1
        if riders is None:
            mask = None if block.ancestors_BNN is None else cached_mask(self.cache, block.ancestors_BNN)
            return self.decoder(block.tokens_BN, block.positions_BN, self.memory, mask, self.cache)
        embeddings = torch.cat([self.decoder.embed(block.tokens_BN), riders.embeddings_BED], 1)
        positions = torch.cat([block.positions_BN, riders.positions_BE], 1)
        mask = cached_mask(self.cache, rider_mask(block.tokens_BN.shape[1], [riders]))
        return self.decoder(embeddings, positions, self.memory, mask, self.cache)

    def _emit(
        self, block: Block, verdict: Verdict, choice_BR: Tensor, logits_BRV: Tensor
    ) -> tuple[list[list[int]], list[int], Tensor]:
        """Tokens won by each row, cut at its end and its limit; drafted tokens kept; the core's token after them."""
        draft, accepted_B = block.draft, verdict.accepted_B
        next_B = choice_BR.gather(1, (verdict.last_B - block.root)[:, None])[:, 0]
        chosen_BR, path_BR = choice_BR, verdict.path_BJ
        kept_BR = torch.cat([draft.tokens_BK, next_B[:, None]], 1)
        if path_BR is not None:
            chosen_BR = choice_BR.gather(1, path_BR)
            kept_BR = kept_BR.gather(1, (path_BR[:, 1:] - 1).clamp(min=0))
            kept_BR = torch.cat([kept_BR, next_B[:, None]], 1)
            logits_BRV = logits_BRV.gather(1, path_BR[..., None].expand(-1, -1, logits_BRV.shape[2]))
        kept_BR = kept_BR.scatter(1, accepted_B[:, None], next_B[:, None])
        scores_BR = logits_BRV.gather(2, kept_BR[..., None])[..., 0] - logits_BRV.logsumexp(2)
        accepted, tokens, scores = accepted_B.tolist(), kept_BR.tolist(), scores_BR.tolist()
        emitted = []
        for index, row in enumerate(self.alive):
            new = tokens[index][: min(accepted[index] + 1, self.plan.limit - len(self.written[row]))]
            if self.eos in new:
                new = new[: new.index(self.eos) + 1]
            emitted.append(new)
            self.written[row] += new
            self.scores[row] += scores[index][: len(new)]
            self.runs[row].append(len(new))
        if not self.policy.lossless:
            wrong = (kept_BR != chosen_BR).tolist()
            self.disagreements += sum(sum(row[: len(new)]) for row, new in zip(wrong, emitted, strict=True))
        return emitted, accepted, next_B

    def _commit(self, block: Block, verdict: Verdict, accepted: list[int]) -> None:
        if verdict.path_BJ is not None:
            gather_path(self.cache, block.certain, verdict.path_BJ)
        self.cache.commit(verdict.accepted_B + block.certain)
        self.lengths = [length + block.certain + count for length, count in zip(self.lengths, accepted, strict=True)]
        self.cache.longest = max(self.lengths)

    def _retire(self, emitted: list[list[int]]) -> None:
        if self.constraint is not None:
            self.constraint.advance(emitted)
        going = [
            index
            for index, row in enumerate(self.alive)
            if len(self.written[row]) < self.plan.limit and self.written[row][-1:] != [self.eos]
        ]
        if len(going) < len(self.alive):
            self._select(going)

    def _select(self, going: list[int]) -> None:
        self.alive = [self.alive[index] for index in going]
        self.lengths = [self.lengths[index] for index in going]
        if not going:
            return
        kept = torch.tensor(going, device=self.rows_B.device)
        self.rows_B, self.certain_BC = self.rows_B[kept], self.certain_BC[kept]
        if self.memory is not None:
            states, mask = self.memory.states_BMD[kept], self.memory.mask_BM[kept]
            self.memory = self.memory._replace(states_BMD=states, mask_BM=mask)
        self.cache.select(kept)
        self.drafter.select(kept)
        if self.constraint is not None:
            self.constraint.select(going)

    def _resume(self, written: Sequence[Sequence[int]]) -> None:
        """Take in what stands already: all but the last token of each row in one forward, of ragged lengths."""
        self.written = [list(row) for row in written]
        self.scores = [[0.0] * len(row) for row in written]
        device = self.certain_BC.device
        past = [[*prompt, *row] for prompt, row in zip(self.certain_BC.tolist(), self.written, strict=True)]
        self.lengths = [len(row) - 1 for row in past]
        draft = Draft.from_lists([row[:-1] for row in past], device)
        positions = torch.arange(draft.tokens_BK.shape[1], device=device)
        self.decoder(draft.tokens_BK, positions, self.memory, cache=self.cache)
        self.cache.commit(draft.length_B)
        self.certain_BC = torch.tensor([row[-1:] for row in past], device=device)
        self.drafter.begin(self.written)
        self._retire(self.written)


@torch.inference_mode()
def decode(model: Any, memory: Memory | None, prompt_BP: Tensor, plan: Plan, hints: Hints | None = None) -> Decoded:
    """Decode a batch; see :class:`Session`."""
    return Session(model, memory, prompt_BP, plan, hints).run()


def generate(
    model: Any, memory: Memory | None, prompt_BP: Tensor, limit: int = 192, hints: Hints | None = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """Continuation of prompts.

    Args:
        model: decoder and vocabulary.
        memory: image memory of the B rows.
        prompt_BP: token ids, all of one length.
        limit: most new tokens a row.
        hints: words, grammars or earlier tokens of the rows.
        options: other fields of :class:`Plan`: ``method``, ``accept``, ``temperature``, ``seed``, ...

    Returns:
        New ids (B,<=limit) with ``<eos>`` where reached and 0 after it, and their log probabilities.
    """
    found = decode(model, memory, prompt_BP, Plan(limit, **options), hints)
    return found.ids, found.scores


def generate_text(
    model: DocVisionModel, memory: Memory, limit: int = 192, hints: Hints | None = None, **options: Any
) -> list[Reading]:
    """Transcription of line crops already encoded; ``options`` as for :func:`generate`.

    No line holds more characters than the line head has frames, so a longer row is a loop and is cut there.
    """
    prompt = text_prompt(model, memory.states_BMD.shape[0])
    ids, scores = generate(model, memory, prompt, min(limit, 2 * memory.grid[1] + 2), hints, **options)
    readings = []
    for row, score in zip(ids, scores, strict=True):
        count = int((row != 0).sum())
        confidence = float(score[:count].mean().exp()) if count else 1.0
        readings.append(Reading(model.vocabulary.decode(row.tolist()), confidence))
    return readings


def text_prompt(model: DocVisionModel, batch: int) -> Tensor:
    """The prompt (B,2) that asks for the text of a line."""
    ids = [model.vocabulary.bos, model.vocabulary.ids["<prompt:text>"]]
    return torch.tensor([ids], device=model.device).expand(batch, -1)


def tree_ancestors(parent_BN: Tensor) -> Tensor:
    """(B,N,N) True where the second node lies on the first one's path to the root, itself included."""
    B, N = parent_BN.shape
    steps = torch.eye(N, device=parent_BN.device).expand(B, N, N).clone()
    above = parent_BN >= 0
    steps.scatter_add_(2, parent_BN.clamp(min=0)[..., None], above[..., None].float())
    reach = 1
    while reach < N:  # paths of twice the length by each product
        steps = (steps @ steps).clamp(max=1)
        reach *= 2
    return steps > 0


def cached_mask(cache: KVCache, seen: Tensor) -> Tensor:
    """(B,S,K) for S new entries: everything committed, and of the new ones what ``seen`` (S,S) or (B,S,S) allows."""
    S = seen.shape[-1]
    columns = torch.arange(cache.longest + S, device=seen.device)
    slot_BK = columns - cache.length_B[:, None]
    index_BK = slot_BK.clamp(0, S - 1)
    if seen.dim() == 2:
        looked_BSK = seen[:, index_BK].permute(1, 0, 2)
    else:
        looked_BSK = seen.gather(2, index_BK[:, None].expand(-1, S, -1))
    inside_BK = (slot_BK >= 0) & (slot_BK < S)
    return (slot_BK < 0)[:, None] | (looked_BSK & inside_BK[:, None])


def gather_path(cache: KVCache, certain: int, path_BR: Tensor) -> None:
    """Move the entries of the nodes kept to directly behind the certain ones.

    Their rotary positions are right already: a node's position is its depth, not its slot.
    """
    B, R = path_BR.shape
    rows = torch.arange(B, device=path_BR.device)[:, None]
    source = cache.length_B[:, None] + certain - 1 + path_BR
    target = cache.length_B[:, None] + certain - 1 + torch.arange(R, device=path_BR.device)
    for store in (cache.keys, cache.values):
        for held in store:
            if held is not None:
                held[rows, target] = held[rows, source]
