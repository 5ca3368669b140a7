"""Headings, paragraphs, lists, floats and notes of one page plan, in one dress, for :mod:`data_pipeline.genres`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data_pipeline.layouts import (
    Flowing,
    Group,
    Heads,
    Item,
    Look,
    PageStyle,
    Writer,
    captioned,
    emphasised,
    figure_plan,
    list_items,
    plain,
    running_head,
)  # fmt: skip
from data_pipeline.listings import code_lines, formula
from data_pipeline.tables import fit_table, plan_table
from docvision.page import BlockKind

Rng = np.random.Generator


class Composer:
    """Headings, paragraphs and floats of one document, in one consistent dress."""

    def __init__(self, rng: Rng, writer: Writer, style: PageStyle, kind: str) -> None:
        self.rng, self.writer, self.style, self.kind = rng, writer, style, kind
        self.numbered = rng.random() < 0.5
        self.counts = [int(rng.integers(0, 6)), int(rng.integers(0, 4)), 0]
        top = float(rng.uniform(1.15, 1.9))
        first_align = str(rng.choice(["left", "center"], p=[0.75, 0.25]))
        rank = ((1.0, first_align), (0.85, "left"), (0.72, "left"))
        self.looks = [self._heading_look(max(1.0, top * shrink), align) for shrink, align in rank]
        self.capitals = rng.random() < 0.15
        self.filled = 0.0
        """Pages of content."""
        self.notes = 0
        self.floats = int(rng.integers(0, 9))
        self.number = int(rng.integers(1, 400))

    def _heading_look(self, scale: float, align: str) -> Look:
        rng = self.rng
        return Look(
            scale=scale, align=align, bold=bool(rng.random() < 0.8), italic=bool(rng.random() < 0.12), font="heading",
            above=float(rng.uniform(0.9, 1.8)), below=float(rng.uniform(0.5, 1.0)), first=0,
            rule=str(rng.choice(["", "below", "under"], p=[0.86, 0.09, 0.05])),
        )  # fmt: skip

    def heading(self, level: int) -> Item:
        self.counts[level - 1] += 1
        self.counts[level:] = [0] * (3 - level)
        content = self.writer.title(int(self.rng.integers(8, 60)))
        if self.numbered:
            content = (
                ".".join(str(max(1, n)) for n in self.counts[:level]) + ("." if self.capitals else "") + " " + content
            )
        if self.capitals and level == 1:
            content = content.upper()
        return plain("heading", content, self.looks[level - 1], level)

    def paragraph(self, low: int = 120, high: int = 900) -> Item:
        return Item("text", emphasised(self.rng, self.writer.paragraph(int(self.rng.integers(low, high)))))

    def noted(self) -> tuple[Item, Group]:
        """A paragraph with a note mark, and the note at the foot of the column."""
        self.notes += 1
        item = self.paragraph()
        words = item.text.split(" ")
        cut = int(self.rng.integers(1, len(words) + 1))
        runs = (
            (" ".join(words[:cut]), ""),
            (str(self.notes), "super"),
            (" " * (cut < len(words)) + " ".join(words[cut:]), ""),
        )
        look = Look(
            scale=0.8, above=0.5, below=0.2, first=0, rule="above" if self.notes == 1 or self.rng.random() < 0.5 else ""
        )
        note = Item(
            "footnote",
            ((str(self.notes), "super"), (" " + self.writer.paragraph(int(self.rng.integers(20, 200))), "")),
            look=look,
        )
        return replace(item, runs=runs), Group((note,), "bottom")

    def table(self, place: str = "flow", wide: bool = False) -> Group:
        across = 1 if wide else self.style.columns
        most = max(2, {1: 8, 2: 5, 3: 4}.get(across, 3))
        self.floats += 1
        item = Item("table", table=fit_table(plan_table(self.rng, self.writer.words, most, 20), self.writer.fit))
        return captioned(self.rng, self.writer, item, self.floats, place)

    def figure(self, place: str = "flow") -> Group:
        self.floats += 1
        return captioned(self.rng, self.writer, Item("figure", figure=figure_plan(self.rng)), self.floats, place)

    def listing(self) -> Item:
        panel = (255, 255, 255) if self.rng.random() < 0.5 else (240, 240, 240)
        look = Look(
            scale=float(self.rng.uniform(0.75, 0.95)), font="mono", align="left", first=0, panel=panel, above=1.0,
            below=1.0, left=float(self.rng.choice([0, 1.5])), framed=bool(self.rng.random() < 0.25),
        )  # fmt: skip
        return plain("code", code_lines(self.rng, self.style.mono.characters), look)

    def bullets(self, short: bool = False) -> list[Item]:
        return list_items(self.rng, self.writer, self.style.size, int(self.rng.integers(2, 9)), short)

    def heads(self, header: float, footer: float) -> tuple[Heads, Heads]:
        """Running head and foot, each with its probability."""
        return self._head("header", header), self._head("footer", footer)

    def _head(self, kind: BlockKind, share: float) -> Heads:
        if self.rng.random() < share:
            return running_head(self.rng, self.writer, kind, self.number)
        return None, None, None

    def flow(self, shares: dict[str, float], amount: float) -> list[Flowing]:
        """Nodes for ``amount`` pages, drawn by ``shares``.

        Names are paragraph, heading, list, table, figure, code, formula and note.
        """
        names, weights = list(shares), np.array(list(shares.values()), dtype=float)
        nodes: list[Flowing] = []
        filled, level, last = 0.0, 1, ""
        self.filled = amount
        goal = self.style.capacity * amount
        while filled < goal:
            name = names[int(self.rng.choice(len(names), p=weights / weights.sum()))]
            if name == last and name in ("heading", "formula", "code"):
                continue
            last = name
            if name == "heading":
                level = int(np.clip(level + self.rng.integers(-1, 2), 1, 3))
            found = self._nodes(name, level)
            nodes.extend(found)
            filled += sum(self._cost(node) for node in found)
        return nodes

    def _nodes(self, name: str, level: int) -> list[Flowing]:
        if name == "heading":
            return [self.heading(level)]
        if name == "list":
            return list(self.bullets(self.rng.random() < 0.4))
        if name in ("table", "figure"):
            make = self.table if name == "table" else self.figure
            floating = self.rng.random()
            if self.style.columns > 1 and floating < 0.3:
                place = "span-top" if self.rng.random() < 0.6 else "span-bottom"
                return [make(place, *((True,) if name == "table" else ()))]
            return [make("top" if floating < 0.5 else "flow")]
        if name == "code":
            return [self.listing()]
        if name == "formula":
            return [Item("formula", formula=formula(self.rng))]
        return list(self.noted()) if name == "note" else [self.paragraph()]

    def _cost(self, node: Flowing) -> float:
        """About how many characters of running text take the same room."""
        if isinstance(node, Group):
            return sum(self._cost(item) for item in node.items)
        per_line = self.style.column_width / (0.48 * self.style.size)
        if node.table is not None:
            return 1.6 * per_line * node.table.rows
        if node.figure is not None:
            return per_line * node.figure.width * node.figure.aspect * self.style.column_width / (1.4 * self.style.size)
        return len(node.text) + per_line * (1.0 if node.kind == "text" else 1.5)
