"""Items of a page -> reading order, by cutting the page into bands and columns.

A region is cut into horizontal *bands* (what no white line crosses), bands that share a white *gutter* form a *group*,
a group is cut into columns at its gutters and each column is a region again.  A region that no gutter cuts is a leaf
and is read from top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from docvision.page import Box

MIN_GUTTER = 5.0
"""Points."""
MAX_DEPTH = 12


class Item(Protocol):
    """Anything with a box: a line piece, a table, a figure."""

    box: Box


T = TypeVar("T", bound=Item)
Interval = tuple[float, float]


@dataclass(slots=True)
class Group(Generic[T]):
    """Bands of a region that share their gutters."""

    items: list[T]
    used: list[Interval]
    """Covered parts of the x axis, in order, apart by at least a gutter's width."""
    top: float
    bottom: float
    columns: list[list[T]] = field(default_factory=list)

    def split(self) -> None:
        """Sort the items into columns, each kept from top to bottom."""
        self.columns = [[] for _ in self.used]
        for item in self.items:
            center = (item.box.x0 + item.box.x1) / 2
            best = min(range(len(self.used)), key=lambda i: _distance(self.used[i], center))
            self.columns[best].append(item)


Leaf = list[T]
Chooser = Callable[[Group[T]], bool]


def reading_order(items: Sequence[T], gutter: float, take: Chooser[T] | None = None) -> list[list[T] | Group[T]]:
    """Leaves of the page in reading order.

    Args:
        items: everything to put in order.
        gutter: smallest width of a gutter in points.
        take: called with every group that has columns; where it says yes, the group is returned whole (a table)
            instead of being cut.

    Returns:
        Lists of items from top to bottom, and the groups that were taken.
    """
    return _region(list(items), max(gutter, MIN_GUTTER), take, 0)


def _region(items: list[T], gutter: float, take: Chooser[T] | None, depth: int) -> list[list[T] | Group[T]]:
    if not items:
        return []
    if len(items) == 1 or depth >= MAX_DEPTH:
        return [sorted(items, key=lambda item: (item.box.y1, item.box.x0))]
    leaves: list[list[T] | Group[T]] = []
    for group in _groups(items, gutter):
        if len(group.used) == 1:
            leaf = sorted(group.items, key=lambda item: (item.box.y1, item.box.x0))
            # Neighbouring groups of one column are one leaf.
            if leaves and isinstance(leaves[-1], list) and len(group.items) < len(items):
                leaves.append(leaf)
            else:
                leaves.append(leaf)
            continue
        group.split()
        if take is not None and take(group):
            leaves.append(group)
            continue
        for column in group.columns:
            leaves.extend(_region(column, gutter, take, depth + 1))
    return leaves


def bands(items: Sequence[T]) -> list[list[T]]:
    """Items cut at the horizontal white lines, from top to bottom."""
    ordered = sorted(items, key=lambda item: item.box.y0)
    found: list[list[T]] = []
    reach = float("-inf")
    for item in ordered:
        # Boxes of neighbouring lines may touch; ink does not.
        top = item.box.y0 + 0.2 * min(item.box.height, 20)
        if found and top < reach:
            found[-1].append(item)
        else:
            found.append([item])
        reach = max(reach, item.box.y1 - 0.1 * min(item.box.height, 20))
    return found


def _groups(items: list[T], gutter: float) -> list[Group[T]]:
    groups: list[Group[T]] = []
    for band in bands(items):
        used = merge_intervals([(item.box.x0, item.box.x1) for item in band], gutter)
        top, bottom = min(item.box.y0 for item in band), max(item.box.y1 for item in band)
        if groups:
            group = groups[-1]
            together = merge_intervals(group.used + used, gutter)
            if _belongs(group, used, together, top):
                group.items.extend(band)
                group.used, group.bottom = together, max(group.bottom, bottom)
                continue
        groups.append(Group(list(band), used, top, bottom))
    return groups


def _belongs(group: Group[T], used: list[Interval], together: list[Interval], top: float) -> bool:
    """Whether a band goes on with the columns of the group above it."""
    if len(together) == 1:
        return len(group.used) == 1 and len(used) == 1
    heights = sorted(item.box.height for item in group.items)
    line = heights[len(heights) // 2]
    gap = top - group.bottom
    if len(group.used) == 1 and len(used) == 1:
        return gap < 1.5 * min(line, 20)  # side by side only by chance: one above the other
    if len(group.used) == 1 or len(used) == 1:
        return gap < 3 * min(line, 20)
    # Columns may lose a narrow gutter to each other, not most of them.
    return 2 * len(together) > max(len(group.used), len(used)) or len(together) >= min(len(group.used), len(used))


def merge_intervals(intervals: list[Interval], gap: float) -> list[Interval]:
    """The union of intervals; those closer than ``gap`` become one."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start - merged[-1][1] < gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _distance(interval: Interval, x: float) -> float:
    return max(interval[0] - x, x - interval[1], 0.0)
