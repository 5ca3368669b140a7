"""What samples are like, counted: kinds, difficulty, lengths of text, blocks, sizes of tables.

Counts add up, so each shard carries its own and a data set's are their sum, whoever made which shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from docvision.page import Page, page_from_json

CATEGORIES = ("kind", "label", "genre", "language", "script", "history")
"""Columns that hold one of a few names."""
_LENGTHS = (0, 4, 20, 70, 160, 500, 2000, 8000)
_SIDES = (1, 4, 9, 19, 49)


class Tally:
    """Counters by name; each counts samples, blocks or tables by a label."""

    def __init__(self, plain: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.counts: dict[str, Counter[str]] = {}
        if plain:
            self.merge(plain)

    def merge(self, plain: Mapping[str, Mapping[str, int]]) -> None:
        """Add what :meth:`plain` of another tally gave."""
        for name, counts in plain.items():
            self.counts.setdefault(name, Counter()).update(counts)

    def plain(self) -> dict[str, dict[str, int]]:
        """For JSON, in a fixed order."""
        return {name: dict(sorted(counts.items())) for name, counts in sorted(self.counts.items())}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one sample."""
        self._count("samples", ["all"])
        self._count("image", ["JPEG" if row["image"]["bytes"][:2] == b"\xff\xd8" else "PNG"] if "image" in row else [])
        for name in CATEGORIES:
            if isinstance(row.get(name), str):
                self._count(name, [row[name] or "none"])
        if row.get("difficulty") is not None:
            low = min(9, int(10 * float(row["difficulty"]) + 1e-6))
            self._count("difficulty", [f"{low / 10:.1f}-{(low + 1) / 10:.1f}"])
        if row.get("document"):
            self._add_page(page_from_json(row["document"]))
        elif isinstance(row.get("text"), str):
            self._count("characters", [_bin(len(row["text"]), _LENGTHS)])

    def _add_page(self, page: Page) -> None:
        self._count("blocks", [block.kind for block in page.blocks])
        tables = [block.table for block in page.blocks if block.table is not None]
        self._count("tables (rows x columns)", [f"{_bin(t.rows, _SIDES)} x {_bin(t.columns, _SIDES)}" for t in tables])
        self._count("spans in tables", ["some" if table.has_spans else "none" for table in tables])
        length = sum(len(line.text) for block in page.blocks for line in block.lines)
        length += sum(len(cell.text) for table in tables for cell in table.cells)
        self._count("characters", [_bin(length, _LENGTHS)])

    def _count(self, name: str, labels: Iterable[str]) -> None:
        for label in labels:
            self.counts.setdefault(name, Counter())[label] += 1


def _bin(value: int, tops: tuple[int, ...]) -> str:
    """``5-20``, ``161-500`` or ``2001+``."""
    low = 0
    for top in tops:
        if value <= top:
            return f"{low}-{top}" if low < top else str(top)
        low = top + 1
    return f"{low}+"


def ordered(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Ranges by their numbers, names by their counts."""
    if all(label[:1].isdigit() for label in counts):
        return sorted(counts.items(), key=lambda item: [float(part) for part in _numbers(item[0])])
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _numbers(label: str) -> list[str]:
    return label.replace("+", "").replace(" x ", "-").split("-")
