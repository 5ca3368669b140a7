"""Finds the tables of a page: nets of lines first, then regions between parallel lines, then mere alignment."""

from __future__ import annotations

from itertools import pairwise

from docvision.cells import FoundTable
from docvision.grids import grid_table, interval_kind
from docvision.lattice import Ruling, find_lattices
from docvision.page import Box, Word, bounding_box

MIN_RULE = 60.0
"""Points: a shorter line bounds no table."""


def find_tables(words: list[Word], ruling: Ruling) -> list[FoundTable]:
    """Tables that lines announce.

    Args:
        words: upright words of the page.
        ruling: the page's lines.
    """
    found = find_lattices(words, ruling)
    for table in found:
        words = without(words, table.words)
    return found + _find_strips(words, ruling)


def without(words: list[Word], taken: list[Word]) -> list[Word]:
    gone = {id(word) for word in taken}
    return [word for word in words if id(word) not in gone]


def aligned_table(words: list[Word], ruling: Ruling) -> FoundTable | None:
    """Words in aligned columns as a table, where they look like one."""
    box = bounding_box(word.box for word in words).pad(5)
    across = [line for line in ruling.across if box.contains(*line.center)]
    upright = [line for line in ruling.upright if box.contains(*line.center)]
    return grid_table(words, across, upright, strict=True)


def _find_strips(words: list[Word], ruling: Ruling) -> list[FoundTable]:
    """Tables between horizontal lines of one width."""
    found: list[FoundTable] = []
    lines = [line for line in ruling.across if line.width > MIN_RULE]
    used: set[int] = set()
    for index, line in enumerate(lines):
        if index in used:
            continue
        stack = [line]
        for later in range(index + 1, len(lines)):
            other = lines[later]
            if abs(other.x0 - line.x0) < 5 and abs(other.x1 - line.x1) < 5:
                stack.append(other)
                used.add(later)
        for run in _tabular_runs(stack, words):
            box = Box(line.x0 - 4, run[0].y0, line.x1 + 4, run[-1].y1)
            inside = [word for word in words if box.contains(*word.box.center)]
            across = [rule for rule in ruling.across if box.contains(*rule.center)]
            upright = [rule for rule in ruling.upright if box.contains(*rule.center)]
            table = grid_table(inside, across, upright, strict=len(run) < 3)
            if table is not None:
                found.append(table)
                words = without(words, inside)
    return found


def _tabular_runs(stack: list[Box], words: list[Word]) -> list[list[Box]]:
    """Stretches of a stack of lines with rows of cells between them, and no prose or captions."""
    runs: list[list[Box]] = []
    current: list[Box] = []
    if len(stack) < 2:
        return []
    left, right = min(line.x0 for line in stack) - 4, max(line.x1 for line in stack) + 4
    words = [word for word in words if left <= word.box.center[0] < right]
    heights = [word.box.center[1] for word in words]
    for above, below in pairwise(stack):
        box = Box(above.x0 - 4, above.y0, above.x1 + 4, below.y1)
        level = [word for word, y in zip(words, heights, strict=True) if box.y0 <= y < box.y1]
        kind = interval_kind([word for word in level if box.contains(*word.box.center)], below.y0 - above.y1)
        if kind == "other" or (kind == "between" and not current):
            if len(current) > 1:
                runs.append(current)
            current = []
        elif current:
            current.append(below)
        else:
            current = [above, below]
    if len(current) > 1:
        runs.append(current)
    return runs
