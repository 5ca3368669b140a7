"""TEDS: similarity of two HTML tables by tree edit distance, in the published form and two that pass for it.

    TEDS = 1 - distance / max(nodes of one, nodes of the other)

Insert and delete cost 1.  Rename costs 1 when tag, colspan or rowspan differ, else, for cells, the edit distance of
their contents divided by the longer one's length.  S-TEDS leaves the contents out.  The distance is exact (Zhang
and Shasha 1989, SIAM J. Comput. 18(6)), with one numpy operation for each row of the recurrence.

Variants differ by a point or more on the same tables, so a figure without its variant says little:

``pubtabnet``  as published with PubTabNet (Zhong et al. 2020): nodes are all elements below ``<table>``, inline tags
               included; contents are characters and inline tags; only td has content, whatever stands in a th
               (inline tags too) are nodes.  The headline.
``tableseq``   as TableSeq measures: the table itself counts as a node, inline tags are dropped from the tree and the
               text; white space is folded, and left out between digits and before ``,.;:%``; th has content as td.
``trm``        as the package table-recognition-metric measures: contents as published, the size of the tree with its
               root and without inline tags.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from docvision.metrics import edit_distances
from docvision.table_html import CELLS, SECTIONS, Node, first_table

Variant = Literal["pubtabnet", "tableseq", "trm"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

_STRUCTURE = CELLS | SECTIONS | {"table", "tr"}
Content = tuple[str, ...]
Label = tuple[str, int, int]


class Tree:
    """A table as arrays in post-order: label, content and leftmost leaf of each node.

    Args:
        table: the ``<table>`` element.
        variant: which elements are nodes, and what the contents are made of.
    """

    def __init__(self, table: Node, variant: Variant) -> None:
        self.variant = variant
        self.labels: list[Label] = []
        self.contents: list[Content | None] = []
        self.leftmost: list[int] = []
        self._add(table)
        if variant == "pubtabnet":
            self.size = table.descendants()
        else:
            self.size = len(self.labels)

    def _add(self, node: Node) -> None:
        first = len(self.labels)
        has_content = node.tag == "td" or (node.tag == "th" and self.variant == "tableseq")
        if not has_content:
            for child in self._children(node):
                self._add(child)
        spans = (node.span("colspan"), node.span("rowspan")) if node.tag in CELLS else (1, 1)
        # The published code reads spans of td only; those of a th never meet a td anyway.
        self.labels.append((node.tag, *(spans if has_content else (0, 0))))
        self.contents.append(self._content(node) if has_content else None)
        self.leftmost.append(first)

    def _children(self, node: Node) -> list[Node]:
        if self.variant != "tableseq":
            return node.children
        found = []
        for child in node.children:
            found += [child] if child.tag in _STRUCTURE - {"table"} else self._children(child)
        return found

    def _content(self, node: Node) -> Content:
        if self.variant == "tableseq":
            text = re.sub(r"(?<=\d)\s+(?=\d)", "", " ".join(node.plain_text().split()))
            return tuple(re.sub(r"\s+(?=[,.;:%])", "", text))
        return tuple(_inner_tokens(node))


def _inner_tokens(node: Node) -> list[str]:
    """Characters of a cell, and its inline tags as one token each."""
    tokens = list(node.text)
    for child in node.children:
        closing = [] if child.tag == "unk" else [f"</{child.tag}>"]
        tokens += [f"<{child.tag}>", *_inner_tokens(child), *closing]
        if child.tag != "td":
            tokens += child.tail
    return tokens


def teds(predicted: str, true: str, *, structure_only: bool = False, variant: Variant = "pubtabnet") -> float:
    """Similarity of the first table of two pieces of HTML, in [0, 1].

    Args:
        predicted: HTML of a prediction; broken markup is read as far as it goes.
        true: HTML of the truth.
        structure_only: leave the contents out (S-TEDS).
        variant: see the top of this file.

    Returns:
        1 for two equal tables and for two empty ones, 0 where one of the two has no table or an empty one.
    """
    found, wanted = first_table(predicted), first_table(true)
    if found is None or wanted is None:
        return float(found is None and wanted is None)
    if not (found.children and wanted.children):
        return float(not found.children and not wanted.children)
    left, right = Tree(found, variant), Tree(wanted, variant)
    score = 1.0 - tree_distance(left, right, structure_only) / max(left.size, right.size)
    return min(max(score, 0.0), 1.0)


def tree_distance(left: Tree, right: Tree, structure_only: bool = False) -> float:
    """Exact edit distance of two ordered trees with the costs given at the top of this file."""
    rename = _rename_costs(left, right, structure_only)
    first_left, first_right = np.array(left.leftmost), np.array(right.leftmost)
    size_left = np.arange(len(first_left)) - first_left + 1
    size_right = np.arange(len(first_right)) - first_right + 1
    known = np.zeros(rename.shape)
    # A leaf against a subtree: it becomes the cheapest of the nodes, the others are inserted.
    leaves = size_left == 1
    for j in range(len(first_right)):
        known[leaves, j] = size_right[j] - 1 + rename[leaves, first_right[j] : j + 1].min(axis=1)
    leaves = size_right == 1
    for i in range(len(first_left)):
        known[i, leaves] = size_left[i] - 1 + rename[first_left[i] : i + 1, leaves].min(axis=0)
    for i in _key_roots(left.leftmost):
        for j in _key_roots(right.leftmost):
            _fill(known, rename, first_left[first_left[i] : i + 1], first_right[first_right[j] : j + 1])
    return float(known[-1, -1])


def _key_roots(leftmost: Sequence[int]) -> list[int]:
    """Inner nodes that are the topmost of all with their leftmost leaf, in post-order."""
    topmost = {leaf: node for node, leaf in enumerate(leftmost)}
    return sorted(node for leaf, node in topmost.items() if node != leaf)


def _fill(known: np.ndarray, rename: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """Distances between all subtrees along the left edges of two key roots' subtrees, written into ``known``.

    Args:
        known: distances by (node, node); those of subtrees that are no part of a left edge must stand there.
        rename: cost by (node, node).
        rows: leftmost leaves of the nodes of the first subtree, in post-order; ``columns`` of the second.
    """
    top, start = int(rows[0]), int(columns[0])
    nodes = slice(start, start + len(columns))
    before = columns - start  # forest that remains when a node's whole subtree is taken away
    edge = before == 0
    steps = np.arange(len(columns) + 1, dtype=np.float64)
    forest = np.empty((len(rows) + 1, len(columns) + 1))
    forest[0] = steps
    for row, leaf in enumerate(rows - top):
        matched = forest[leaf][before] + known[top + row, nodes]
        if leaf == 0:
            matched = np.where(edge, forest[row][:-1] + rename[top + row, nodes], matched)
        best = forest[row] + 1.0
        np.minimum(best[1:], matched, out=best[1:])
        # Inserting k nodes after column j costs k: a running minimum of cost - j, plus j.
        forest[row + 1] = np.minimum.accumulate(best - steps) + steps
        if leaf == 0:
            known[top + row, nodes] = np.where(edge, forest[row + 1][1:], known[top + row, nodes])


def _rename_costs(left: Tree, right: Tree, structure_only: bool) -> np.ndarray:
    numbers: dict[Label, int] = {}
    rows = np.array([numbers.setdefault(label, len(numbers)) for label in left.labels])
    columns = np.array([numbers.setdefault(label, len(numbers)) for label in right.labels])
    costs = (rows[:, None] != columns[None, :]).astype(np.float64)
    if structure_only:
        return costs
    mine = [i for i, content in enumerate(left.contents) if content is not None]
    theirs = [j for j, content in enumerate(right.contents) if content is not None]
    if mine and theirs:
        contents = content_costs([left.contents[i] or () for i in mine], [right.contents[j] or () for j in theirs])
        places = np.ix_(mine, theirs)
        costs[places] = np.where(costs[places] > 0, 1.0, contents)
    return costs


def content_costs(left: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> np.ndarray:
    """Edit distance of every pair divided by the longer one's length; 0 where both are empty."""
    distances = edit_distances(left, right)
    longest = np.maximum(np.array([len(x) for x in left])[:, None], np.array([len(x) for x in right])[None, :])
    return distances / np.maximum(longest, 1)
