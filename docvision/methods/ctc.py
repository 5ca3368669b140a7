"""Drafts from the line head: its CTC reading of a line costs no forward, the decoder only checks it.

The whole reading is the first draft, so a line read alike by both takes one forward.  After a disagreement the
reading is lined up again with what was written, and the rest of it is the next draft.  Drafts end where the line
head's own confidence no longer pays for the slots.

Only line crops have a reading; for other prompts there are no drafts.  No weights of its own, no training.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from docvision.decoder import CausalDecoder
from docvision.methods.base import Draft, Drafter, Method, Request, Step, gated_length

BLANK = 0
BACK, AHEAD = 4, 6
"""Characters around the expected place among which a lost reading is lined up again."""


class LineDrafts(Method):
    """The line head's reading as drafts."""

    def __init__(self, decoder: CausalDecoder) -> None:
        super().__init__()

    def drafter(self, request: Request) -> Drafter:
        memory, head = request.memory, getattr(request.model, "line_head", None)
        if head is None or memory is None or memory.grid[0] != head.rows:
            return Drafter()
        return LineDrafter(request, **request.options)


class LineDrafter(Drafter):
    def __init__(self, request: Request) -> None:
        self.pace = request.pace
        self.blind = request.blind
        self.device = request.prompt_BP.device
        self.readings, self.sure = read_paths(request)
        self.cursors = [0] * len(self.readings)
        self.tails: list[list[int]] = [[] for _ in self.readings]

    def propose(self, limit: int) -> Draft | None:
        tokens = [text[at : at + limit] for text, at in zip(self.readings, self.cursors, strict=True)]
        if not any(tokens):
            return None
        sure = [values[at : at + limit] for values, at in zip(self.sure, self.cursors, strict=True)]
        draft = Draft.from_lists(tokens, self.device, sure)
        if not self.blind:
            assert draft.confidence_BK is not None
            gate_B = gated_length(draft.confidence_BK, self.pace.threshold(len(tokens)))
            draft.length_B = torch.minimum(draft.length_B, gate_B)
            width = int(draft.length_B.max())
            draft.tokens_BK, draft.confidence_BK = draft.tokens_BK[:, :width], draft.confidence_BK[:, :width]
        return draft

    def observe(self, step: Step) -> None:
        for row, (emitted, accepted) in enumerate(zip(step.emitted, step.accepted, strict=True)):
            self._follow(row, emitted, accepted)

    def begin(self, written: list[list[int]]) -> None:
        for row, tokens in enumerate(written):
            for token in tokens:
                at = self.cursors[row]
                self._follow(row, [token], int(self.readings[row][at : at + 1] == [token]))

    def _follow(self, row: int, emitted: Sequence[int], accepted: int) -> None:
        """Move the cursor past what was accepted, and line up again where the core's own token is another."""
        text = self.readings[row]
        self.tails[row] = [*self.tails[row], *emitted][-BACK:]
        at = self.cursors[row] + min(accepted, len(emitted))
        if accepted < len(emitted):
            expected = text[at : at + 1] == list(emitted[-1:])
            at = at + 1 if expected else realign(self.tails[row], text, at + 1)
        self.cursors[row] = min(at, len(text))

    def select(self, rows: Tensor) -> None:
        kept = rows.tolist()
        self.readings = [self.readings[row] for row in kept]
        self.sure = [self.sure[row] for row in kept]
        self.cursors = [self.cursors[row] for row in kept]
        self.tails = [self.tails[row] for row in kept]


def read_paths(request: Request) -> tuple[list[list[int]], list[list[float]]]:
    """Best CTC path of each row: ids with the end mark, and for each the probability of its surest frame."""
    logits = request.model.line_head(request.memory).float()
    best = logits.softmax(-1).max(-1)
    h, w = request.memory.grid
    mask_BM = request.memory.mask_BM
    inside_BM = mask_BM if mask_BM.dtype == torch.bool else mask_BM > -torch.inf
    frames_B = inside_BM.view(-1, h, w).any(1).sum(1) * (logits.shape[1] // w)
    space = request.model.vocabulary.ids[" "]
    readings, sure = [], []
    for path, values, count in zip(best.indices.tolist(), best.values.tolist(), frames_B.tolist(), strict=True):
        ids: list[int] = []
        scores: list[float] = []
        previous = BLANK
        for index, value in zip(path[:count], values[:count], strict=True):
            if index != BLANK and index == previous:
                scores[-1] = max(scores[-1], value)
            elif index != BLANK:
                ids.append(index)
                scores.append(value)
            previous = index
        while ids and ids[-1] == space:
            ids.pop()
            scores.pop()
        lead = next((place for place, index in enumerate(ids) if index != space), len(ids))
        readings.append([*ids[lead:], request.eos])
        sure.append([*scores[lead:], values[count - 1] if count else 1.0])
    return readings, sure


def realign(tail: Sequence[int], text: Sequence[int], near: int) -> int:
    """Where in ``text`` writing goes on after ``tail``: the place near ``near`` before which both agree best."""
    best, place = -1, near
    for at in sorted(range(max(0, near - BACK), min(len(text), near + AHEAD) + 1), key=lambda at: abs(at - near)):
        backs = range(1, min(BACK, len(tail), at) + 1)
        score = sum(BACK + 1 - back for back in backs if text[at - back] == tail[-back])
        if score > best:
            best, place = score, at
    return place
