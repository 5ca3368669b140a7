"""Decoding as ``generate`` of transformers means it: several ends, stopping criteria, processors of scores.

The loop itself is docvision.decode.Session; what is added here belongs to the library's generate.  Processors
(repetition penalty, bans, minimum length, and for sampling temperature, top-k and top-p) see each drafted node with
the text that leads to it, so a drafted token is kept only where plain decoding would have written it.

Shape suffixes: B batch, R nodes from the last certain one on, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from docvision.decode import Plan, Session
from docvision.methods.base import Draft, Drafter, Request
from docvision.pace import Pace

Scorer = Callable[[Tensor, Tensor], Tensor]
"""Ids (N,L) and scores (N,V) to scores."""


@dataclass
class Course:
    """What one call of generate asks of a session."""

    plan: Plan
    rows: list[int]
    """Their numbers in the batch of generate, to which the sampling noise belongs."""
    first: list[int]
    """The token after each row's prompt, which the prompt's own forward chose."""
    prompts: list[list[int]]
    """Ids of the rows as the processors see them, padding included."""
    ends: frozenset[int]
    processors: Sequence[Any] = ()
    criteria: Sequence[Any] = ()
    """Those besides the ends and the length."""
    drafter: Callable[[Request], Drafter] | None = None
    """Makes the drafter where it is none of docvision.methods."""
    name: str = "ntp"
    """Under which the pace of such a drafter is remembered."""
    on_tokens: Callable[[list[int]], None] | None = None
    """Told the new tokens of a batch of one."""


class VlmSession(Session):
    """One batch behind its prompt.

    Args:
        core: the model with its decoder, primed with the prompt's cache.
        course: what is asked.
    """

    def __init__(self, core: Any, course: Course) -> None:
        first_B1 = torch.tensor([[token] for token in course.first], device=core.device)
        self.course = course
        super().__init__(core, None, first_B1, course.plan)
        self.rows_B = torch.tensor(course.rows, device=core.device)
        if course.drafter is not None:
            self.pace = core.paces.setdefault(course.name, Pace())
            self.pace.hold = 0
            request = Request(core, None, first_B1, self.eos, self._choose, self.pace)
            self.drafter = course.drafter(request)
            self.paced = course.plan.fallback and self.policy.lossless
        self.drafter.begin([[token] for token in course.first])
        if course.processors:
            started = [[*prompt, token] for prompt, token in zip(course.prompts, course.first, strict=True)]
            own = [[for_row(processor, row) for processor in course.processors] for row in course.rows]
            self.constraint = PathScores(own, started)  # type: ignore[assignment]

    def _retire(self, emitted: list[list[int]]) -> None:
        """Cut each row at its first end, tell the processors, hand the finished rows back."""
        over = []
        for index, row in enumerate(self.alive):
            kept, ended = self._cut(row, emitted[index])
            lost = len(emitted[index]) - kept
            if lost:
                del self.written[row][-lost:], self.scores[row][-lost:]
                self.runs[row][-1] -= lost
            over.append(ended or len(self.written[row]) >= self.plan.limit)
            if self.course.on_tokens is not None:
                self.course.on_tokens(emitted[index][:kept])
        if self.constraint is not None:
            self.constraint.advance(emitted)
        going = [index for index, ended in enumerate(over) if not ended]
        if len(going) < len(self.alive):
            self._select(going)

    def _cut(self, row: int, new: Sequence[int]) -> tuple[int, bool]:
        """How many of a row's new tokens stand, and whether the row has ended with them."""
        for count, token in enumerate(new, 1):
            if token in self.course.ends:
                return count, True
            if self.course.criteria:
                written = self.written[row][: len(self.written[row]) - len(new) + count]
                ids = torch.tensor([[*self.course.prompts[row], self.course.first[row], *written]])
                if any(bool(criterion(ids.to(self.rows_B.device), None).any()) for criterion in self.course.criteria):
                    return count, True
        return len(new), False


class PathScores:
    """Score processors at every node of a draft; in the place of a session's Constraint.

    Args:
        processors: for each row, functions of ids (1,L) and scores (1,V).
        written: ids of each row so far.
    """

    def __init__(self, processors: Sequence[Sequence[Scorer]], written: list[list[int]]) -> None:
        self.processors, self.written = processors, written
        self.paths: list[list[list[int]]] = []

    def draft(self, draft: Draft | None, device: torch.device) -> Draft | None:
        """Remember which tokens lead to each node."""
        self.paths = [[[]] for _ in self.written]
        if draft is not None:
            tokens = draft.tokens_BK.tolist()
            parents = None if draft.parent_BK is None else draft.parent_BK.tolist()
            for row, paths in enumerate(self.paths):
                for node, token in enumerate(tokens[row]):
                    above = node if parents is None else max(parents[row][node], -1) + 1
                    paths.append([*paths[above], token])
        return draft

    def mask(self, logits_BRV: Tensor) -> Tensor:
        """The scores as the processors leave them."""
        scores_BRV = logits_BRV.clone()
        for row, paths in enumerate(self.paths):
            for node, path in enumerate(paths[: logits_BRV.shape[1]]):
                ids = torch.tensor([self.written[row] + path], device=logits_BRV.device)
                scores_BRV[row, node] = apply(self.processors[row], ids, logits_BRV[row, node][None])[0]
        return scores_BRV

    def advance(self, emitted: Sequence[Sequence[int]]) -> None:
        for row, tokens in enumerate(emitted):
            self.written[row] += tokens

    def select(self, rows: Sequence[int]) -> None:
        self.written = [self.written[row] for row in rows]
        self.processors = [self.processors[row] for row in rows]


def for_row(processor: Any, row: int) -> Any:
    """A processor as it treats one row: some know how long each row's prompt is."""
    lengths = getattr(processor, "prompt_ignore_length", None)
    if not isinstance(lengths, Tensor):
        return processor
    alone = copy.copy(processor)
    alone.prompt_ignore_length = lengths[row : row + 1]
    return alone


def apply(processors: Sequence[Scorer], ids_NL: Tensor, scores_NV: Tensor) -> Tensor:
    """Scores after all processors."""
    for process in processors:
        scores_NV = process(ids_NL, scores_NV)
    return scores_NV
