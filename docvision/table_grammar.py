"""Which tokens may come next in a table stream, so that decoding can only write a table.

:class:`TableGrammar` holds the rules, a :class:`TableState` one stream's place in them.  The language: a rectangular
grid, where every row fills the columns of the first one, counting the spans from above; spans inside the grid; text
without doubled or outer spaces; in a row boxes go right, row by row they go down, and no box leaves the picture.
Within the limits below it holds all streams that :func:`docvision.tableseq.table_to_ids` writes of tables read from
left to right, pictures turned by a few degrees included.

Where one token alone is legal, ``forced`` names it and no forward pass is needed to choose it.

Loops are caught by geometry, not by comparing text: rows that do not move down, or that hold no box at all, end the
table.  From then on only tokens that close it are legal; ``stopped`` says why.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from docvision.tableseq import COORDINATE_PIXELS, STALLED_ROWS, TableStreamError
from docvision.tokens import MAX_SPAN, TAGS, Vocabulary

MAX_ROWS = 500
MAX_COLUMNS = 100
MAX_EMPTY_ROWS = 30
"""Rows in succession without a box; forms have some, a loop has no end."""
MAX_CELL_TOKENS = 600
"""Characters and bytes of one cell's text."""
SKEW = 0.05
"""A row may start this much of the horizontal distance above the last one: 3 degrees."""

NO_TEXT, FIRST, SPACED, CONTINUED = range(4)
"""What text may come: none, no space, any, the rest of a character spelled in bytes."""


class Phase(IntEnum):
    """What came last."""

    START = 0
    TABLE = 1
    SECTION = 2
    """``<thead>``, ``<tbody>`` or the end of a row in one."""
    HEAD_DONE = 3
    BODY_DONE = 4
    TABLE_DONE = 5
    DONE = 6
    ROW = 7
    """``<tr>`` or the end of a cell."""
    OPENING = 8
    OPENED = 9
    """A span attribute."""
    CELL = 10
    """``<td>`` or the ``>`` of a longer one."""
    LEFT = 11
    TEXT = 12
    """The top coordinate, or a piece of text."""
    RIGHT = 13
    BOTTOM = 14


class Options(NamedTuple):
    """Legal tokens in brief; the mask is made from it once."""

    tags: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    """First and last id of runs of spans or coordinates."""
    text: int = NO_TEXT


class TableGrammar:
    """The rules for one kind of stream.

    Args:
        vocabulary: token ids.
        text: the stream holds the cells' text.
        boxes: the stream holds coordinates.
    """

    def __init__(self, vocabulary: Vocabulary, text: bool = True, boxes: bool = True) -> None:
        self.vocabulary = vocabulary
        self.text = text
        self.boxes = boxes
        self.tag = {name: vocabulary.ids[name] for name in TAGS if name != ">"}
        self.span = {name: vocabulary.ids[f'{name}="2"'] - 2 for name in ("colspan", "rowspan")}
        """Id of a span's value 0, which does not exist."""
        self.steps = {self.tag[name]: name for name in _AFTER if name in self.tag}
        self.steps |= {vocabulary.eos: "<eos>", vocabulary.close_bracket: ">"}
        self._masks: dict[Options, np.ndarray] = {}

    def start(self, size: tuple[float, float] | None = None) -> TableState:
        """The state before ``<table>``.

        Args:
            size: width and height in pixels of the model's picture; None for as far as the bins go.
        """
        return TableState(self, size or (np.inf, np.inf))

    def mask(self, options: Options) -> np.ndarray:
        """Boolean over the vocabulary, read-only and shared."""
        mask = self._masks.get(options)
        if mask is None:
            v = self.vocabulary
            mask = np.zeros(len(v), dtype=bool)
            mask[list(options.tags)] = True
            for first, last in options.ranges:
                mask[first : last + 1] = True
            if options.text == CONTINUED:
                mask[v.first_byte + 0x80 : v.first_byte + 0xC0] = True
            elif options.text:
                mask[1 : v.first_byte] = True
                mask[v.first_byte + 0xC2 : v.first_byte + 0xF5] = True
                mask[v.ids[" "]] = options.text == SPACED
            mask.flags.writeable = False
            self._masks[options] = mask
        return mask

    def accepts(self, ids: Sequence[int], size: tuple[float, float] | None = None) -> bool:
        """Whether a stream, up to ``</table>`` or ``<eos>``, is a whole one of this language."""
        state = self.start(size)
        for token in ids:
            if not state.allows(token):
                return False
            state.advance(token)
        return state.phase in (Phase.TABLE_DONE, Phase.DONE)


class TableState:
    """One stream's place in the grammar."""

    def __init__(self, grammar: TableGrammar, size: tuple[float, float]) -> None:
        self.grammar = grammar
        last = grammar.vocabulary.bins - 1
        self.last_x, self.last_y = (int(np.clip(pixels / COORDINATE_PIXELS + 0.5, 1, last)) for pixels in size)
        self.phase, self.header = Phase.START, False
        self.rows = self.section_rows = 0
        """Finished rows of the table, of thead or tbody."""
        self.columns = self.column = 0
        """Columns of the grid, 0 in the first row, and the next one to fill."""
        self.above: list[int] = []
        """By column, rows from the current one on that the cells written so far take."""
        self.wide = self.tall = 1
        """Span of the cell being written."""
        self.left = self.upper = 0
        """First corner of the cell being written, in bins."""
        self.right_of = -1
        """Left bin of the last box in this row."""
        self.top: tuple[int, int] | None = None
        """Highest first corner (top, left) among this row's cells that span no rows."""
        self.last_top: tuple[int, int] | None = None
        """The same of the last row that has one."""
        self.stalled = self.empty = 0
        """Rows in succession that do not move down, that have no box of their own."""
        self.length = self.bytes_due = 0
        """Tokens of text in the cell being written, and how many its last character still lacks."""
        self.space = False
        self.stopped = ""
        """Why only closing tokens are legal; empty while others are."""

    def copy(self) -> TableState:
        """An independent state at the same place."""
        other = copy.copy(self)
        other.above = self.above.copy()
        return other

    @property
    def spread(self) -> int:
        """See :func:`docvision.accept.by_class`."""
        return self.grammar.vocabulary.first_x

    def close(self, reason: str) -> None:
        """From here on allow only what closes the table: a loop is proved, or the budget is spent.

        The row is filled with empty cells; a row span that reaches further is left to :func:`ids_to_table` to cut.
        """
        self.stopped = self.stopped or reason

    def closing_cost(self) -> int:
        """Tokens, ``<eos>`` included, that suffice to close the stream here, or after one more token in its place."""
        row = self.above if self.phase == Phase.SECTION else self.above[self.column :]
        return 12 + 2 * row.count(0)

    def legal(self) -> np.ndarray:
        """Read-only mask over the vocabulary of the tokens that may come next."""
        return self.grammar.mask(self.options())

    def forced(self) -> int | None:
        """The only legal token, or None where there is a choice (or the stream is done)."""
        tags, ranges, text = self.options()
        if text or len(tags) + len(ranges) != 1:
            return None
        if tags:
            return tags[0]
        first, last = ranges[0]
        return first if first == last else None

    def allows(self, token: int) -> bool:
        """Whether a token may come next; quicker than a new mask."""
        options, v = self.options(), self.grammar.vocabulary
        if not 0 <= token < v.first_byte + 256 or not options.text:
            return token in options.tags or any(first <= token <= last for first, last in options.ranges)
        return bool(self.grammar.mask(Options(text=options.text))[token])

    def options(self) -> Options:
        """The legal tokens in brief."""
        tag, stopped, phase = self.grammar.tag, bool(self.stopped), self.phase
        if phase >= Phase.OPENING:
            return self._cell_options()
        if phase == Phase.START:
            return Options((tag["<table>"],))
        if phase in (Phase.TABLE, Phase.HEAD_DONE, Phase.BODY_DONE):
            sections = {Phase.TABLE: (tag["<thead>"], tag["<tbody>"]), Phase.HEAD_DONE: (tag["<tbody>"],)}
            return Options((*(() if stopped else sections.get(phase, ())), tag["</table>"]))
        if phase == Phase.SECTION:
            row, end = (tag["<tr>"],), (tag["</thead>" if self.header else "</tbody>"],)
            return Options(end if stopped else row if not self.section_rows or any(self.above) else row + end)
        if phase == Phase.ROW:
            return self._row_options()
        return Options((self.grammar.vocabulary.eos,) if phase == Phase.TABLE_DONE else ())

    def _row_options(self) -> Options:
        tag = self.grammar.tag
        end, plain, spanning = (tag["</tr>"],), (tag["<td>"],), (tag["<td"],)
        if self.columns and self.column == self.columns:
            return Options(end)
        if self.stopped:
            return Options(plain if self.columns else end)
        cell = plain + spanning if max(self._widest(), self._tallest()) > 1 else plain
        if self.columns or not self.column:
            return Options(cell)
        return Options(end + cell if self.column < MAX_COLUMNS else end)

    def _cell_options(self) -> Options:
        grammar, phase = self.grammar, self.phase
        close = (grammar.tag["</td>"],)
        if phase in (Phase.OPENING, Phase.OPENED):
            return self._span_options()
        if phase == Phase.LEFT:
            return Options((), (self._bins("y", self._highest(), self.last_y - 1),))
        if phase == Phase.RIGHT:
            return Options((), (self._bins("y", self.upper + 1, self.last_y),))
        if phase == Phase.BOTTOM:
            return Options(close)
        if phase == Phase.CELL:
            if self.stopped or not grammar.boxes:
                return Options(close, (), FIRST if grammar.text and not self.stopped else NO_TEXT)
            first, last = self.right_of + 1, self.last_x - 1
            return Options(close, (self._bins("x", first, last),) if first <= last else ())
        text = self._text() if grammar.text else NO_TEXT
        if self.bytes_due or (text and (self.space or not self.length)):
            return Options((), (), text)  # the text may not end here
        if not grammar.boxes:
            return Options(close, (), text)
        return Options((), (self._bins("x", self.left + 1, self.last_x),), text)

    def _text(self) -> int:
        if self.bytes_due:
            return CONTINUED
        if self.stopped or self.length >= MAX_CELL_TOKENS:
            return NO_TEXT
        return SPACED if self.length and not self.space else FIRST

    def _span_options(self) -> Options:
        span, bracket = self.grammar.span, self.grammar.vocabulary.close_bracket
        tall = (span["rowspan"] + 2, span["rowspan"] + self._tallest())
        ranges = (tall,) if self.tall == 1 and self._tallest() > 1 else ()
        if self.phase == Phase.OPENED:
            return Options((bracket,), () if self.stopped else ranges)
        wide = (span["colspan"] + 2, span["colspan"] + self._widest())
        return Options((), ((wide,) if self._widest() > 1 else ()) + ranges)

    def _widest(self) -> int:
        """Columns that a cell at the next place may span."""
        if not self.columns:
            return min(MAX_SPAN, MAX_COLUMNS - self.column)
        free = next((k for k, rows in enumerate(self.above[self.column :]) if rows), self.columns - self.column)
        return min(MAX_SPAN, free)

    def _tallest(self) -> int:
        return min(MAX_SPAN, MAX_ROWS - self.rows)

    def _bins(self, axis: str, first: int, last: int) -> tuple[int, int]:
        """Ids of a run of bins."""
        start = self.grammar.vocabulary.first_x if axis == "x" else self.grammar.vocabulary.first_y
        return start + first, start + last

    def _highest(self) -> int:
        """Smallest top bin for a box whose left edge has been written."""
        if self.last_top is None:
            return 0
        top, left = self.last_top
        return max(0, int(np.ceil(top - SKEW * abs(self.left - left))))

    def advance(self, token: int) -> None:
        """Take one token.

        Raises:
            TableStreamError: the token is not legal here.
        """
        v = self.grammar.vocabulary
        if not self.allows(token):
            name = v.names[token] if 0 <= token < len(v) else token
            raise TableStreamError(f"{name} may not come here ({self.phase.name}, row {self.rows}, {self.column})")
        if token in self.grammar.steps:
            self._take_tag(self.grammar.steps[token])
        else:
            self._take_content(token)

    def _take_tag(self, name: str) -> None:
        self.phase = _AFTER[name]
        if name in ("<thead>", "<tbody>"):
            self.header, self.section_rows = name == "<thead>", 0
        elif name == "<tr>":
            self.column, self.right_of, self.top = 0, -1, None
            self._skip_covered()
        elif name == "</tr>":
            self._end_row()
        elif name == "<td":
            self.wide = self.tall = 1
        elif name == "<td>":
            self.wide = self.tall = 1
            self._place()
        elif name == ">":
            self._place()

    def _place(self) -> None:
        """The opening tag is complete: take the cell's places."""
        rows = [self.tall] * self.wide
        if self.columns:
            self.above[self.column : self.column + self.wide] = rows
        else:
            self.above += rows
        self.column += self.wide
        self._skip_covered()
        self.length, self.space = 0, False

    def _skip_covered(self) -> None:
        while self.column < self.columns and self.above[self.column]:
            self.column += 1

    def _end_row(self) -> None:
        self.columns = len(self.above)
        self.above = [rows - 1 for rows in self.above]
        self.column = self.columns
        self.rows += 1
        self.section_rows += 1
        if self.grammar.boxes and self.top is None:
            self.empty += 1
        elif self.top is not None:
            moves = self.last_top is None or self.top[0] > self.last_top[0]
            self.stalled = 0 if moves else self.stalled + 1
            self.last_top, self.empty = self.top, 0
        if self.stalled >= STALLED_ROWS:
            self.close(f"the boxes of rows {self.rows - STALLED_ROWS} to {self.rows - 1} do not move down")
        elif self.empty >= MAX_EMPTY_ROWS:
            self.close(f"{self.empty} rows in succession without a box")
        elif self.rows >= MAX_ROWS:
            self.close(f"{MAX_ROWS} rows")

    def _take_content(self, token: int) -> None:
        v, span = self.grammar.vocabulary, self.grammar.span
        if token >= v.first_y:
            if self.phase == Phase.LEFT:
                self.upper, self.phase = token - v.first_y, Phase.TEXT
                if self.tall == 1 and (self.top is None or self.upper < self.top[0]):
                    self.top = (self.upper, self.left)
            else:
                self.phase = Phase.BOTTOM
        elif token >= v.first_x:
            if self.phase == Phase.CELL:
                self.left = self.right_of = token - v.first_x
                self.phase = Phase.LEFT
            else:
                self.phase = Phase.RIGHT
        elif token > v.register:
            self.phase = Phase.OPENED
            if token >= span["rowspan"] + 2:
                self.tall = token - span["rowspan"]
            else:
                self.wide = token - span["colspan"]
        else:
            self.phase = Phase.TEXT
            self.length += 1
            self.space = token == v.ids[" "]
            byte = token - v.first_byte  # negative for a character
            if byte >= 0:
                self.bytes_due = self.bytes_due - 1 if byte < 0xC0 else 1 + (byte >= 0xE0) + (byte >= 0xF0)


_AFTER = {
    "<table>": Phase.TABLE, "<thead>": Phase.SECTION, "<tbody>": Phase.SECTION, "<tr>": Phase.ROW, "<td>": Phase.CELL,
    "</thead>": Phase.HEAD_DONE, "</tbody>": Phase.BODY_DONE, "</table>": Phase.TABLE_DONE, "</tr>": Phase.SECTION,
    "</td>": Phase.ROW, "<td": Phase.OPENING, ">": Phase.CELL, "<eos>": Phase.DONE,
}  # fmt: skip
"""The phase that a tag leads to, wherever it stands."""
