"""What speaks for the separators of a table: the model's map, with a weight, and the lines that are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from docvision.page import Box

CELL = 8
Interval = tuple[float, float]
Map = NDArray[np.float32]

QUIET, LOUD = 0.2, 0.6
"""A map whose strongest places in a table are below the first has no say there, above the second its full say."""


class SeparatorMaps(Protocol):
    """The part of the model's structure maps that tables are made of."""

    @property
    def rows(self) -> Map:
        """(h,w) probability of a separator between rows."""
        ...

    @property
    def columns(self) -> Map:
        """The same between columns."""
        ...


@dataclass(slots=True)
class Evidence:
    """What speaks for separators in one direction; for columns everything is given turned, x and y exchanged."""

    strength: Map
    """Map of the separators between what lies above and below, in cells of 8 pixels."""
    rules: list[Box]
    say: float = 0.0
    """Weight of the map in [0, 1]."""

    def listen(self, area: Box) -> None:
        """Set ``say`` by the strongest separator in ``area`` that is not drawn, since drawn ones are easy to see."""
        r0, r1, c0, c1 = (int(v) // CELL for v in (area.y0, area.y1, area.x0, area.x1))
        profile = self.strength[r0 : r1 + 1, c0 : c1 + 1].mean(1)
        for rule in self.rules:
            if rule.width > 0.4 * area.width:
                first = int(rule.y0) // CELL - r0
                profile[max(0, first - 1) : max(0, int(rule.y1) // CELL - r0 + 2)] = 0.0
        peak = float(profile.max(initial=0.0))
        self.say = min(1.0, max(0.0, (peak - QUIET) / (LOUD - QUIET)))

    def at(self, first: float, last: float, start: float, end: float) -> float:
        """The map's strongest row between two heights, averaged from ``start`` to ``end`` along it."""
        rows, columns = self.strength.shape
        r0, r1 = max(0, int(first // CELL)), min(rows, int(last // CELL) + 1)
        c0, c1 = max(0, round(start / CELL)), min(columns, max(round(end / CELL), round(start / CELL) + 1))
        if r0 >= r1 or c0 >= c1:
            return 0.0
        window = self.strength[r0:r1, c0:c1]
        # A separator that lies a little askew crosses from one row of cells to the next.
        pairs = np.maximum(window[:-1], window[1:]).mean(1) if len(window) > 1 else window.mean(1)
        return float(pairs.max())

    def ruled(self, first: float, last: float, start: float, end: float) -> float:
        """Share of the way from ``start`` to ``end`` along which a line is drawn between the two heights."""
        length = sum(
            max(0.0, min(end, rule.x1) - max(start, rule.x0)) for rule in self.rules if first <= rule.center[1] <= last
        )
        return min(1.0, length / max(end - start, 1.0))


def turn(box: Box) -> Box:
    """The box with x and y exchanged."""
    return Box(box.y0, box.x0, box.y1, box.x1)
