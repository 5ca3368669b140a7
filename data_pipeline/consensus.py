"""One answer out of several: normalise, compare in pairs, keep what the majority says.

Answers are compared in a normal form in which only what is read counts: NFKC, one kind of dash and of quote, single
spaces, words joined over line ends.  Text is compared by edit similarity, 1 - edits / longer length.  Tables are
compared by TEDS's costs (Zhong et al., arXiv 1911.10683) on rows and cells: a row or cell too many costs 1, a cell with
another span costs 1, one with another text its normalised edit distance; rows are aligned with rows and cells with
cells of the aligned row, which is TEDS restricted to mappings that keep rows whole, so it is never above TEDS.

The winner is the medoid: the answer with the highest mean similarity to the others.  It wins if more than half of those
who answered, itself included and two at least, are within the threshold of it.  Everything else is *hard*: kept with
all answers and no label.  An empty answer is an answer, so a majority can also say that there is nothing to read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from data_pipeline.table_html import Opened, place, read_html_table, tidy
from docvision.export import table_to_html
from docvision.page import Cell, Table

Decision = Literal["keep", "hard", "drop"]
_Item = TypeVar("_Item")
_DASHES = re.compile("[\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d]")
_DOUBLE_QUOTES = re.compile("[\u00ab\u00bb\u201c-\u201f\u2033\u301d-\u301f\uff02]")
_SINGLE_QUOTES = re.compile("[`\u00b4\u2018-\u201b\u2032\u2039\u203a\uff07]")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_FENCE = re.compile(r"\s*```[\w-]*[ \t]*\n(.*?)\n?```\s*", re.DOTALL)
_RULE = re.compile(r":?-+:?")


class AnnotatorError(ValueError):
    """An annotator that is not installed, not spelt right, or gave no answer."""


@dataclass(frozen=True)
class Candidate:
    """What one annotator answered for one region."""

    annotator: str
    text: str = ""
    error: str = ""
    """Why there is no answer."""


@dataclass(frozen=True)
class Verdict:
    """What became of a region, and why."""

    decision: Decision
    reason: str
    text: str = ""
    """The label, of a kept region only."""
    similarities: tuple[float | None, ...] = field(default=())
    """Mean similarity of each candidate to the others; None for one that has no say."""


def normalise(text: str) -> str:
    """The form in which two readings of the same print are equal."""
    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", unfenced(text)))
    text = _DASHES.sub("-", text)
    text = _SINGLE_QUOTES.sub("'", _DOUBLE_QUOTES.sub('"', text)).replace("''", '"')
    text = re.sub(r"(?<=\w)-[ \t]*\n\s*(?=[^\W\d_])", "", text)
    return " ".join(_CONTROL.sub("", text).split())


def label(text: str) -> str:
    """An answer as it is stored: the annotator's own characters, without stray spaces and empty lines."""
    lines = tidy(_CONTROL.sub("", unfenced(text)).replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    return "\n".join(line for line in lines if line)


def unfenced(text: str) -> str:
    """Without the code fence that language models like to put around an answer."""
    match = _FENCE.fullmatch(text)
    return match[1] if match else text


def read_table(text: str) -> Table | None:
    """The table of an answer in HTML or in pipes; None where there is none."""
    text = unfenced(text)
    if "<table" in text.lower():
        return read_html_table(text)
    lines = [line.strip() for line in text.split("\n")]
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines if line.startswith("|") and line.endswith("|")]
    if len(rows) < 2:
        return None
    head = 1 if all(_RULE.fullmatch(cell.strip()) for cell in rows[1]) else 0
    if head:
        del rows[1]
    return place(
        [
            [Opened(header=number < head, text=cell.strip().replace("\\|", "|")) for cell in row]
            for number, row in enumerate(rows)
        ]
    )


def normal_table(text: str) -> Table | None:
    """The table of an answer with its texts normalised, for comparison."""
    table = read_table(text)
    for cell in table.cells if table else ():
        cell.text = normalise(cell.text)
    return table


def edit_distance(left: str, right: str) -> int:
    """Levenshtein distance, a column of the matrix at a time in the bits of one integer (Hyyro 2003)."""
    if not left or not right:
        return max(len(left), len(right))
    where: dict[str, int] = {}
    for place_, char in enumerate(left):
        where[char] = where.get(char, 0) | 1 << place_
    full, last = (1 << len(left)) - 1, 1 << (len(left) - 1)
    up, down, score = full, 0, len(left)
    for char in right:
        same = where.get(char, 0)
        vertical = same | down
        horizontal = (((same & up) + up) ^ up) | same
        rises, falls = down | (full & ~(horizontal | up)), up & horizontal
        score += bool(rises & last) - bool(falls & last)
        rises, falls = (rises << 1 | 1) & full, falls << 1 & full
        up, down = falls | (full & ~(vertical | rises)), rises & vertical
    return score


def text_similarity(left: str, right: str) -> float:
    """1 - edits / longer length; 1 for two empty texts."""
    longer = max(len(left), len(right))
    return 1.0 if left == right else 1.0 - edit_distance(left, right) / longer


def table_similarity(left: Table, right: Table) -> float:
    """1 - cost / nodes of the larger table, its rows and cells being the nodes."""
    a, b = _rows(left), _rows(right)
    nodes = max(len(a) + sum(map(len, a)), len(b) + sum(map(len, b)))
    known: dict[tuple[str, str], float] = {}

    def cell_cost(one: Cell, other: Cell) -> float:
        if (one.row_span, one.column_span) != (other.row_span, other.column_span):
            return 1.0
        key = one.text, other.text
        if key not in known:
            known[key] = 1.0 - text_similarity(*key)
        return known[key]

    def row_cost(one: Sequence[Cell], other: Sequence[Cell]) -> float:
        return _align(one, other, cell_cost, lambda cell: 1.0)

    return 1.0 - _align(a, b, row_cost, lambda row: 1.0 + len(row)) / nodes if nodes else 1.0


def _rows(table: Table) -> list[list[Cell]]:
    rows: list[list[Cell]] = [[] for _ in range(table.rows)]
    for cell in sorted(table.cells, key=lambda cell: cell.column):
        rows[cell.row].append(cell)
    return rows


def _align(
    left: Sequence[_Item],
    right: Sequence[_Item],
    change: Callable[[_Item, _Item], float],
    lone: Callable[[_Item], float],
) -> float:
    """Least cost of turning one sequence into the other, order kept."""
    above = [0.0]
    for b in right:
        above.append(above[-1] + lone(b))
    for a in left:
        row = [above[0] + lone(a)]
        for column, b in enumerate(right):
            row.append(min(above[column] + change(a, b), above[column + 1] + lone(a), row[column] + lone(b)))
        above = row
    return above[-1]


def similarity(left: str, right: str, kind: str) -> float:
    """Of two answers in any spelling; an answer that is no table has nothing in common with one that is."""
    if kind != "table":
        return text_similarity(normalise(left), normalise(right))
    one, other = normal_table(left), normal_table(right)
    return (
        table_similarity(one, other) if one and other else float(one is other and normalise(left) == normalise(right))
    )


def vote(candidates: Sequence[Candidate], kind: str, threshold: float) -> Verdict:
    """What the majority reads.

    Args:
        candidates: one for each annotator, in a fixed order; the earlier wins a tie.
        kind: of the region; answers for a ``table`` must hold one to have a say.
        threshold: least similarity of two answers that agree.
    """
    tables = [normal_table(one.text) if kind == "table" else None for one in candidates]
    texts = [normalise(one.text) for one in candidates]
    voters = [
        place_
        for place_, one in enumerate(candidates)
        if not one.error and (kind != "table" or tables[place_] is not None)
    ]
    blank: list[float | None] = [None] * len(candidates)
    if len(voters) < 2:
        what = "gave a table" if kind == "table" else "answered"
        return Verdict("hard", f"{len(voters)} of {len(candidates)} annotators {what}", similarities=tuple(blank))

    def compare(i: int, j: int) -> float:
        one, other = tables[i], tables[j]
        return table_similarity(one, other) if one and other else text_similarity(texts[i], texts[j])

    pairs = {(i, j): compare(i, j) for i in voters for j in voters if i < j}
    pairs |= {(j, i): value for (i, j), value in pairs.items()}
    means = {i: sum(pairs[i, j] for j in voters if j != i) / (len(voters) - 1) for i in voters}
    best = max(voters, key=lambda i: (means[i], -i))
    agreed = 1 + sum(pairs[best, j] >= threshold for j in voters if j != best)
    shown = tuple(round(means[i], 4) if i in means else None for i in range(len(candidates)))
    if 2 * agreed <= len(voters):
        closest = max(pairs[best, j] for j in voters if j != best)
        return Verdict("hard", f"{agreed} of {len(voters)} agree, the closest at {closest:.3f}", similarities=shown)
    table = tables[best]
    if table is None and not texts[best]:
        return Verdict("drop", f"{agreed} of {len(voters)} read nothing", similarities=shown)
    said = f"{agreed} of {len(voters)} agree with {candidates[best].annotator}"
    text = table_to_html(read_table(candidates[best].text) or table) if table else label(candidates[best].text)
    return Verdict("keep", said, text, shown)
