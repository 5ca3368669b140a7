"""Tables from the model: greedy decoding of table streams inside the grammar.

Tokens that the grammar leaves no choice about are written without asking the model: they enter the cache with the
token before them, in one forward pass.  Without the grammar the result is that of ``decode.generate``.
Rows of a batch end on their own and leave it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from docvision.accept import by_class
from docvision.decoder import KVCache, MemoryView
from docvision.encoder import Memory
from docvision.model import DocVisionModel
from docvision.table_grammar import TableGrammar, TableState
from docvision.tableseq import ParsedTable, TableStreamError, ids_to_table
from docvision.tokens import Vocabulary

PROMPTS = {"structure": False, "table": True}
"""Prompts that a table stream answers, and whether it holds the cells' text."""
LEAST_LIMIT = 16
"""Tokens that hold an empty table."""
NEAR = 2
"""Bins on either side over which training spreads the target of a coordinate."""


@dataclass
class TableStream:
    """What was decoded for one picture."""

    ids: list[int] = field(default_factory=list)
    """Up to ``<eos>``, which is missing only where decoding without the grammar met the limit."""
    scores: list[float | None] = field(default_factory=list)
    """Log probability that the model gave each token, or for a coordinate to it and the NEAR bins on either side; None
    where the grammar left no choice."""
    stopped: str = ""
    """Why the stream was ended before the model ended it; empty where it was not."""

    @property
    def forwards(self) -> int:
        """Forward passes that chose a token of this stream."""
        return sum(score is not None for score in self.scores)

    def table(
        self, vocabulary: Vocabulary, scale: tuple[float, float], origin: tuple[float, float] = (0.0, 0.0)
    ) -> ParsedTable:
        """The table; a cell's confidence is the geometric mean of its scores as probabilities.

        Args:
            vocabulary: the model's.
            scale: pixels of the model's picture per unit of the boxes wanted, by axis.
            origin: place of the picture's top left corner in those units.
        """
        parsed = ids_to_table(self.ids, vocabulary, scale, origin, self.scores)
        return ParsedTable(parsed.table, [*([f"ended early: {self.stopped}"] if self.stopped else []), *parsed.notes])


@torch.inference_mode()
def decode_table(
    model: DocVisionModel,
    memory: Memory,
    prompt: str = "structure",
    grammar: bool = True,
    limit: int = 2048,
    size_B2: Tensor | None = None,
    rules: TableGrammar | None = None,
) -> list[TableStream]:
    """Greedy table streams of B pictures.

    Args:
        model: decoder and vocabulary.
        memory: image memory of the B pictures.
        prompt: ``structure`` for tags and boxes, ``table`` for the text as well.
        grammar: False lets the model write anything.
        limit: most tokens a stream; inside the grammar a table is closed in time.
        size_B2: height and width in pixels of the pictures without padding, so that no box leaves them.
        rules: another grammar than that of the prompt.

    Raises:
        TableStreamError: an unknown prompt, or a limit below LEAST_LIMIT.
    """
    if prompt not in PROMPTS or limit < LEAST_LIMIT:
        raise TableStreamError(
            f"prompt={prompt!r}, limit={limit}: one of {', '.join(PROMPTS)}, and {LEAST_LIMIT} tokens at least"
        )
    vocabulary = model.vocabulary
    B = memory.states_BMD.shape[0]
    sizes = [None] * B if size_B2 is None else [(float(w), float(h)) for h, w in size_B2.tolist()]
    rules = rules or TableGrammar(vocabulary, text=PROMPTS[prompt])
    rows = [_Row(rules.start(size) if grammar else None, limit, vocabulary.eos) for size in sizes]
    for row in rows:
        row.pending = [vocabulary.bos, vocabulary.ids[f"<prompt:{prompt}>"], *row.write_forced()]
    streams = [row.stream for row in rows]
    view = MemoryView(memory.states_BMD, memory.mask_BM)
    cache = model.decoder.new_cache(B, memory.states_BMD.device)
    while rows:
        logits_BV = _forward(model, view, rows, cache)
        scores_BV = logits_BV.log_softmax(-1)
        best_B = _legal(scores_BV, rows, vocabulary).argmax(-1)
        chosen = _chosen(scores_BV, best_B, vocabulary)
        for row, token, score in zip(rows, best_B.tolist(), chosen.tolist(), strict=True):
            row.write(token, score)
        kept = [index for index, row in enumerate(rows) if not row.done]
        if len(kept) < len(rows):
            rows = [rows[index] for index in kept]
            index_B = torch.tensor(kept, dtype=torch.long, device=best_B.device)
            view = MemoryView(view.states_BMD[index_B], view.mask_BM[index_B])
            cache.select(index_B)
    return streams


@torch.inference_mode()
def opening_probability(model: DocVisionModel, memory: Memory, prompt: str) -> Tensor:
    """(B) how probable the model itself, outside any grammar, finds ``<table>`` after a prompt."""
    vocabulary = model.vocabulary
    view = MemoryView(memory.states_BMD, memory.mask_BM)
    tokens_P = torch.tensor([vocabulary.bos, vocabulary.ids[f"<prompt:{prompt}>"]], device=memory.states_BMD.device)
    tokens_BP = tokens_P.expand(memory.states_BMD.shape[0], -1)
    hidden_BPD = model.decoder(tokens_BP, torch.arange(2, device=tokens_P.device), view)
    return model.decoder.logits(hidden_BPD[:, -1]).float().softmax(-1)[:, vocabulary.ids["<table>"]]


class _Row:
    """One stream being written."""

    def __init__(self, state: TableState | None, limit: int, eos: int) -> None:
        self.state = state
        self.limit = limit
        self.eos = eos
        self.stream = TableStream()
        self.pending: list[int] = []
        """Tokens that have not been through the decoder yet."""
        self.done = False

    def write(self, token: int, score: float) -> None:
        """Take the token that the model chose, and those that it forces."""
        self._append(token, score)
        self.pending = [token, *self.write_forced()]

    def write_forced(self) -> list[int]:
        forced = []
        while self.state is not None and not self.done and (token := self._forced(self.state)) is not None:
            self._append(token, None)
            forced.append(token)
        return forced

    def _forced(self, state: TableState) -> int | None:
        if len(self.stream.ids) + state.closing_cost() > self.limit:
            state.close(f"{self.limit} tokens")
        return state.forced()

    def _append(self, token: int, score: float | None) -> None:
        self.stream.ids.append(token)
        self.stream.scores.append(score)
        if self.state is not None:
            self.state.advance(token)
            self.stream.stopped = self.state.stopped
        self.done = token == self.eos
        if not self.done and len(self.stream.ids) == self.limit:
            self.done, self.stream.stopped = True, f"{self.limit} tokens"


def _forward(model: DocVisionModel, view: MemoryView, rows: list[_Row], cache: KVCache) -> Tensor:
    """Feed each row's pending tokens; logits (B,V) behind the last of them.

    Rows with fewer tokens are padded at the end; what the padding writes is not committed.
    """
    device = view.states_BMD.device
    longest = max(len(row.pending) for row in rows)
    tokens_BS = torch.tensor([row.pending + [0] * (longest - len(row.pending)) for row in rows], device=device)
    count_B = torch.tensor([len(row.pending) for row in rows], device=device)
    positions_BS = cache.length_B[:, None] + torch.arange(longest, device=device)
    hidden_BSD = model.decoder(tokens_BS, positions_BS, view, cache=cache)
    cache.commit(count_B)
    cache.rollback(cache.length_B)  # drops nothing; the cache learns how long its longest row really is
    last_BD = hidden_BSD[torch.arange(len(rows), device=device), count_B - 1]
    return model.decoder.logits(last_BD).float()


def _chosen(scores_BV: Tensor, best_B: Tensor, vocabulary: Vocabulary) -> Tensor:
    """(B) the scores of the tokens chosen, see ``TableStream.scores``."""
    first, bins = vocabulary.first_x, vocabulary.bins
    axis_B = (best_B - first).div(bins, rounding_mode="floor")
    start_B1 = (first + axis_B * bins)[:, None]
    offsets = torch.arange(-NEAR, NEAR + 1, device=best_B.device)
    near_BN = best_B[:, None] + offsets
    inside_BN = (near_BN >= start_B1) & (near_BN < start_B1 + bins) & (axis_B >= 0)[:, None] | (offsets == 0)
    near_BN = near_BN.clamp(0, scores_BV.shape[1] - 1)
    return scores_BV.gather(1, near_BN).masked_fill(~inside_BN, -torch.inf).logsumexp(1)


def _legal(scores_BV: Tensor, rows: list[_Row], vocabulary: Vocabulary) -> Tensor:
    """The scores with all illegal tokens out of the running, and coordinates or tags."""
    masks = [row.state.legal() for row in rows if row.state is not None]
    if not masks:
        return scores_BV
    legal_BV = torch.from_numpy(np.stack(masks)).to(scores_BV.device)
    return by_class(scores_BV.masked_fill(~legal_BV, -torch.inf), vocabulary.first_x)
