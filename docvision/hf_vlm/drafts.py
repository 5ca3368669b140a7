"""Drafts for token vocabularies of any kind: copied from given words, and from the prompt and the output so far.

The words of a PDF's text layer are followed by a cursor over their letters and digits, whatever markup, spaces and
line ends stand in between, so that copying goes on behind ``</td><td>`` or ``## ``.  What is proposed is the text from
the cursor on, in the model's own tokens.  The second source supplies the markup: the longest recent run of tokens that
was written before, continued as it was then (prompt-lookup decoding).  Both go into one tree.

The layer may be wrong, shuffled or hostile: exact decoding keeps only what the model writes anyway.  A layer of which
next to nothing is kept is no longer offered.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from docvision.methods.base import Drafter, Request
from docvision.methods.textlayer import CopyDrafter, merge

KEYS = (12, 8, 5, 3)
"""Letters and digits by which a lost place is found again, longest first."""
RUNS = (6, 4, 3, 2)
"""Tokens by which a run written before is found, longest first."""
SHORT, LONG = 8, 64
"""Tokens of a copied draft: it grows while it is kept whole and shrinks when it is not."""
RUN_LONG = 16
MARKS, LONG_MARK = 3, 64
"""Kinds of markup remembered, and characters of one."""
CHARACTERS_A_TOKEN = 6
"""Text offered to the tokenizer for each token wanted; more than prose needs."""
MARKUP = "\0"
"""Stands for a tag in what was written behind a letter: no source goes on with it."""
JUNK_AFTER, JUNK_SHARE = 10, 0.05
"""Cycles and share of drafted tokens kept below which a layer is given up."""


class TextPieces:
    """A tokenizer seen as pieces of text that join without gaps."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.markup = {int(token) for token in getattr(tokenizer, "added_tokens_decoder", {})}
        self.known: dict[int, str] = {}
        # Some tokenizers put a space before the first word of whatever they are given; behind a line end they do not.
        self.anchor = "\n" if self._behind("\n", "a") != self._behind("", "a") else ""

    def encode(self, text: str) -> list[int]:
        """Ids of a text in the middle of another."""
        return self._behind(self.anchor, text)

    def _behind(self, before: str, text: str) -> list[int]:
        ids = self.tokenizer.encode(before + text, add_special_tokens=False)
        return list(ids[len(self.tokenizer.encode(before, add_special_tokens=False)) :] if before else ids)

    def text(self, token: int) -> str:
        """What a token adds to the text; nothing for special tokens and tags that are tokens."""
        if token not in self.known:
            piece = ""
            if token not in self.markup:
                piece = self.tokenizer.decode([token])
                name = self.tokenizer.convert_ids_to_tokens(token)
                if isinstance(name, str) and name.startswith("\u2581") and not piece.startswith(" "):
                    piece = " " + piece
            self.known[token] = piece
        return self.known[token]


class CopyText(CopyDrafter):
    """One :class:`Follower` a row.

    Args:
        request: the batch.
        pieces: the tokenizer, or None to copy from the output alone.
        words: of each row's text layer.
        prompts: ids of each row's prompt, padding and picture tokens left out.
        nodes: most drafted tokens a row in one forward.
    """

    def __init__(
        self,
        request: Request,
        pieces: TextPieces | None,
        words: Sequence[Sequence[str]] | None,
        prompts: Sequence[Sequence[int]],
        nodes: int = 64,
    ) -> None:
        self.device = request.prompt_BP.device
        self.nodes = nodes
        sources = [" ".join(row) for row in words] if words is not None and pieces is not None else [""] * len(prompts)
        self.rows = [
            Follower(pieces, source, prompt, request.eos) for source, prompt in zip(sources, prompts, strict=True)
        ]


class Follower:
    """Places in a source text and in the ids written from which one row may be continued."""

    def __init__(self, pieces: TextPieces | None, source: str, prompt: Sequence[int], eos: int) -> None:
        source = unicodedata.normalize("NFKC", source).replace("\u00ad", "")
        self.pieces, self.source, self.eos = pieces, source, eos
        self.places = [place for place, char in enumerate(source) if char.isalnum()]
        self.shown = "".join(source[place].lower()[0] for place in self.places)
        self.index: dict[str, list[int]] = {}
        for size in KEYS:
            for end in range(size, len(self.shown) + 1):
                self.index.setdefault(self.shown[end - size : end], []).append(end)
        self.cursor: int | None = 0
        """Next letter or digit of the source, None where the place is lost."""
        self.last = 0
        self.written = ""
        """Letters and digits of the output."""
        self.tail = ""
        """What was written behind the last of them."""
        self.raw = ""
        """The same with its tags."""
        self.marks: list[str] = []
        """Markup that stood where the source has a gap, newest first."""
        self.tag = ""
        self.length = 2 * SHORT
        self.output: list[int] = []
        self.runs: dict[tuple[int, ...], int] = {}
        self.in_run = False
        self.given = self.offered = self.kept = self.cycles = 0
        for token in prompt:
            self._remember(token)

    def branches(self, limit: int, nodes: int) -> tuple[list[int], list[int]]:
        """Nodes and parents of this row's draft."""
        candidates: list[list[int]] = [[]]
        if self.shown and not self._is_junk():
            candidates = [self._copy()[: min(limit, self.length)]]
            if self.raw or not self.in_run:  # where a run of copies has ended, markup is due
                candidates += [self._marked(mark)[: min(limit, SHORT)] for mark in self.marks]
        self.given = len(candidates[0])
        return merge([*candidates, self._repeat()[: min(limit, RUN_LONG)]], nodes)

    def learn(self, emitted: Sequence[int], accepted: int) -> None:
        """Follow what was written."""
        if self.given:
            self.cycles += 1
            self.offered += self.given
            self.kept += min(accepted, self.given)
            self.in_run = accepted >= self.given
            if self.in_run:
                self.length = min(2 * self.length, LONG)
            elif 2 * accepted < self.given:
                self.length = SHORT
        self.given = 0
        for token in emitted:
            self._remember(token)
            if self.shown and self.pieces is not None:
                for char in self.pieces.text(token):
                    self._follow(char)
        if self.cursor is None:
            self._find()

    def _remember(self, token: int) -> None:
        """Runs are filed one token late, so that the newest run is never its own continuation."""
        for size in RUNS:
            if len(self.output) >= size:
                self.runs[tuple(self.output[-size:])] = len(self.output)
        self.output.append(token)

    def _follow(self, char: str) -> None:
        """Move the cursor over one more character of the output."""
        self.raw += char
        if self.tag == "inside":
            if char == ">":
                self.tag, self.tail = "", MARKUP
            return
        if self.tag == "<":  # a tag, or less than
            self.tag = "inside" if char.isalpha() or char in "/!|_" else ""
            if self.tag:
                return
            self.tail += "<"
        if char == "<":
            self.tag = "<"
        elif not char.isalnum():
            self.tail += char
        else:
            self._remember_mark(self.raw[:-1])
            self.tail = self.raw = ""
            self.written = self.written[-2 * KEYS[0] :] + char.lower()
            if self.cursor is not None and self.shown[self.cursor : self.cursor + 1] == char.lower():
                self.cursor += 1
                self.last = self.cursor
            else:
                self.cursor = None

    def _remember_mark(self, mark: str) -> None:
        if self.cursor is not None and len(mark) <= LONG_MARK and mark != self._gap()[0]:
            self.marks = [mark, *(other for other in self.marks if other != mark)][:MARKS]

    def _gap(self) -> tuple[str, int]:
        """What the source has before its next letter, and where that stands."""
        assert self.cursor is not None
        start = self.places[self.cursor - 1] + 1 if self.cursor else 0
        stop = self.places[self.cursor] if self.cursor < len(self.places) else len(self.source)
        return self.source[start:stop], stop

    def _find(self) -> None:
        """The place after the last letters written, the one nearest to where copying stopped."""
        for size in KEYS:
            ends = self.index.get(self.written[-size:])
            if ends:
                self.cursor = self.last = min(ends, key=lambda end: abs(end - self.last))
                return

    def _copy(self) -> list[int]:
        """The source from the cursor on, without what is written of it already."""
        if self.cursor is None or self.pieces is None:
            return []
        gap, stop = self._gap()
        start = stop - len(gap) + len(self.tail) if gap.startswith(self.tail) else self._next_word(gap, stop)
        end = start + CHARACTERS_A_TOKEN * self.length
        ids = self.pieces.encode(self.source[start:end])
        if end >= len(self.source):
            return [*ids, self.eos] if self.eos >= 0 else ids
        return ids[: max(1, len(ids) - 1)]  # the last piece may be half a word

    def _next_word(self, gap: str, stop: int) -> int:
        """Where the next word begins, with what opens it: where markup stands in the place of a gap."""
        return stop - len(gap.rsplit(None, 1)[-1]) if gap.strip() and not gap[-1:].isspace() else stop

    def _marked(self, mark: str) -> list[int]:
        """The rest of some markup, then the source's next word."""
        if self.cursor is None or self.pieces is None or not mark.startswith(self.raw):
            return []
        start = self._next_word(*self._gap())
        return self.pieces.encode(mark[len(self.raw) :] + self.source[start : start + CHARACTERS_A_TOKEN * SHORT])

    def _repeat(self) -> list[int]:
        for size in RUNS:
            place = self.runs.get(tuple(self.output[-size:])) if len(self.output) >= size else None
            if place is not None:
                return self.output[place : place + RUN_LONG]
        return []

    def _is_junk(self) -> bool:
        return self.cycles >= JUNK_AFTER and self.kept < JUNK_SHARE * self.offered


def copier(
    tokenizer: Any, words: Sequence[Sequence[str]] | None, prompts: Sequence[Sequence[int]], nodes: int = 64
) -> Callable[[Request], Drafter]:
    """What makes a batch's :class:`CopyText`."""
    pieces = None if tokenizer is None else TextPieces(tokenizer)
    return partial(CopyText, pieces=pieces, words=words, prompts=prompts, nodes=nodes)
