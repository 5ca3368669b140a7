"""Drafts copied from the PDF's own words and from what was already written, in one tree.

Two sources, after prompt-lookup decoding and Copy Lookup Decoding (arXiv 2512.18122): the words of the text layer,
followed by a cursor over their visible characters, so that tags, coordinates and spaces in between do not lose the
place; and the output itself, by its last few tokens, which supplies markup.  Where they part they are branches of
one tree.  A draft grows while it is kept whole and shrinks when it is not.

The layer may be wrong, shuffled or hostile: with exact acceptance it changes speed only.  A layer of which next to
nothing is kept is no longer offered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from docvision.decoder import CausalDecoder
from docvision.methods.base import Draft, Drafter, Method, Request, Step

KEYS = (8, 5, 3)
"""Visible characters by which a lost place is found again, longest first."""
HISTORY_KEYS = (6, 4, 3)
SHORT, LONG = 8, 64
HISTORY_LONG = 16
JUNK_AFTER, JUNK_SHARE = 10, 0.05
"""Cycles and share of drafted tokens kept below which a layer is given up."""


class CopiedWords(Method):
    """Copies from words and history as drafts."""

    def __init__(self, decoder: CausalDecoder) -> None:
        super().__init__()

    def drafter(self, request: Request) -> Drafter:
        return CopyDrafter(request, **request.options)


class Writer(Protocol):
    """What may be written next in one row."""

    def branches(self, limit: int, nodes: int) -> tuple[list[int], list[int]]: ...

    def learn(self, emitted: Sequence[int], accepted: int) -> None: ...


class CopyDrafter(Drafter):
    """One :class:`Copier` a row.

    Args:
        request: the batch.
        nodes: most drafted tokens a row in one forward.
    """

    def __init__(self, request: Request, nodes: int = 64) -> None:
        vocabulary = request.model.vocabulary
        self.device = request.prompt_BP.device
        self.nodes = nodes
        words = request.words or [()] * request.prompt_BP.shape[0]
        space = vocabulary.ids[" "]
        visible = frozenset(range(1, vocabulary.first_byte + 256)) - {space}
        self.rows: list[Writer] = [
            Copier(vocabulary.encode(" ".join(row)), visible, space, request.eos) for row in words
        ]

    def propose(self, limit: int) -> Draft | None:
        trees = [row.branches(limit, self.nodes) for row in self.rows]
        if not any(tokens for tokens, _ in trees):
            return None
        tokens = [tree[0] for tree in trees]
        chains = all(parents == list(range(-1, len(parents) - 1)) for _, parents in trees)
        return Draft.from_lists(tokens, self.device, parent=None if chains else [tree[1] for tree in trees])

    def observe(self, step: Step) -> None:
        for row, emitted, accepted in zip(self.rows, step.emitted, step.accepted, strict=True):
            row.learn(emitted, accepted)

    def begin(self, written: list[list[int]]) -> None:
        for row, tokens in zip(self.rows, written, strict=True):
            row.learn(tokens, 0)

    def select(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]


class Copier:
    """Places in a source and in the output from which one row may be continued.

    Args:
        source: ids of the words, joined by spaces.
        visible: ids of characters other than the space.
        space: id of the space.
        eos: id of the end.
    """

    def __init__(self, source: Sequence[int], visible: frozenset[int], space: int, eos: int) -> None:
        self.visible, self.space, self.eos = visible, space, eos
        self.source = list(source)
        self.places = [place for place, token in enumerate(source) if token in visible]
        self.shown = [source[place] for place in self.places]
        self.index: dict[tuple[int, ...], list[int]] = {}
        for size in KEYS:
            for end in range(size, len(self.shown) + 1):
                self.index.setdefault(tuple(self.shown[end - size : end]), []).append(end)
        self.cursor: int | None = 0
        """Next visible character of the source, None where the place is lost."""
        self.last = 0
        self.length = 2 * SHORT
        self.output: list[int] = []
        self.written: list[int] = []
        self.history: dict[tuple[int, ...], int] = {}
        self.offered = self.kept = self.cycles = 0
        self.given = 0

    def branches(self, limit: int, nodes: int) -> tuple[list[int], list[int]]:
        """Nodes and parents of this row's draft."""
        self.given = 0
        candidates = []
        if self.shown and not self._is_junk():
            copied = self._copy()[: min(limit, self.length)]
            self.given = len(copied)
            candidates.append(copied)
        candidates.append(self._repeat()[: min(limit, HISTORY_LONG)])
        return merge(candidates, nodes)

    def learn(self, emitted: Sequence[int], accepted: int) -> None:
        """Follow what was written."""
        if self.given:
            self.cycles += 1
            self.offered += self.given
            self.kept += min(accepted, self.given)
            if accepted >= self.given:
                self.length = min(2 * self.length, LONG)
            elif 2 * accepted < self.given:
                self.length = SHORT
        for token in emitted:
            self._write(token)
        if self.cursor is None:
            self._find()

    def _write(self, token: int) -> None:
        self.output.append(token)
        for size in HISTORY_KEYS:
            # The key ends one token before the newest, so that a look-up never finds itself.
            key = tuple(self.output[-size - 1 : -1])
            if len(key) == size:
                self.history[key] = len(self.output) - 1
        if token in self.visible:
            self.written.append(token)
            if self.cursor is not None and self.cursor < len(self.shown) and self.shown[self.cursor] == token:
                self.cursor += 1
                self.last = self.cursor
            else:
                self.cursor = None

    def _find(self) -> None:
        """The place after the last visible characters, the one nearest to where copying stopped."""
        for size in KEYS:
            ends = self.index.get(tuple(self.written[-size:]))
            if ends:
                self.cursor = self.last = min(ends, key=lambda end: abs(end - self.last))
                return

    def _copy(self) -> list[int]:
        if self.cursor is None:
            return []
        if self.cursor >= len(self.shown):
            return [self.eos]
        start = self.places[self.cursor]
        text_before = bool(self.output) and self.output[-1] in self.visible
        if text_before and start and self.source[start - 1] == self.space:
            start -= 1
        return [*self.source[start : start + LONG], *([self.eos] if start + LONG > len(self.source) else [])]

    def _repeat(self) -> list[int]:
        for size in HISTORY_KEYS:
            place = self.history.get(tuple(self.output[-size:])) if len(self.output) >= size else None
            if place is not None:
                return self.output[place : place + HISTORY_LONG]
        return []

    def _is_junk(self) -> bool:
        return self.cycles >= JUNK_AFTER and self.kept < JUNK_SHARE * self.offered


def merge(candidates: Sequence[Sequence[int]], nodes: int) -> tuple[list[int], list[int]]:
    """A tree of the candidates, shared beginnings once: tokens and parents, at most ``nodes`` of them."""
    tokens: list[int] = []
    parents: list[int] = []
    children: dict[tuple[int, int], int] = {}
    for candidate in candidates:
        at = -1
        for token in candidate:
            if (at, token) not in children:
                if len(tokens) == nodes:
                    break
                children[at, token] = len(tokens)
                tokens.append(token)
                parents.append(at)
            at = children[at, token]
    return tokens, parents
