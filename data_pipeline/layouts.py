"""Plans of whole pages: what stands on them, in which order and in which dress.

A :class:`Plan` is a tree of items (paragraphs, headings, tables, ...) in reading order under one :class:`PageStyle`.
It holds no positions: :mod:`data_pipeline.typeset` writes it as Typst source and :mod:`data_pipeline.render` reads
the positions back from the PDF.  This file has the types and the pieces; :mod:`data_pipeline.genres` composes pages
of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from data_pipeline import fields, text
from data_pipeline.tables import TablePlan
from docvision.page import BlockKind

Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Family:
    """A font family as Typst knows it."""

    name: str
    group: str
    weight: int
    """Weight of its regular face."""
    bold: int
    """Weight of its bold face; equal to ``weight`` where there is none."""
    italic: bool
    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Look:
    """How an item differs from running text; lengths in em of its own size."""

    scale: float = 1.0
    align: str = ""
    bold: bool = False
    italic: bool = False
    font: str = "body"
    """``body``, ``heading`` or ``mono``."""
    left: float = 0.0
    right: float = 0.0
    hanging: float = 0.0
    """Indent of the lines after the first, which is also the width of a list marker."""
    above: float = -1.0
    """Space above, -1 for the page's own paragraph spacing."""
    below: float = -1.0
    first: float = -1.0
    """Indent of the first line, -1 for the page's own."""
    ink: tuple[int, int, int] = (0, 0, 0)
    panel: tuple[int, int, int] = (255, 255, 255)
    """Background colour; white for none."""
    framed: bool = False
    rule: str = ""
    """``above``, ``below`` or ``under`` (underlined)."""
    tracking: float = 0.0


@dataclass(frozen=True, slots=True)
class FigurePlan:
    """A drawing; all of it follows from ``seed``."""

    style: str
    aspect: float
    """Height over width."""
    width: float
    """Share of the column."""
    seed: int


@dataclass(frozen=True, slots=True)
class Item:
    """One block of the page."""

    kind: BlockKind
    runs: tuple[tuple[str, str], ...] = ()
    """(text, style) with style ``""``, ``bold``, ``italic``, ``super`` or one of :mod:`data_pipeline.form_fields`."""
    level: int = 0
    marker: str = ""
    look: Look = Look()
    table: TablePlan | None = None
    figure: FigurePlan | None = None
    formula: str = ""
    """Typst mathematics."""

    @property
    def text(self) -> str:
        return "".join(part for part, _ in self.runs)


@dataclass(frozen=True, slots=True)
class Group:
    """Items that stay together, in the flow or floating."""

    items: tuple[Item, ...]
    place: str = "flow"
    """``flow``, ``top``, ``bottom`` or, over all columns, ``span-top`` and ``span-bottom``."""


Flowing = Item | Group
"""What takes a column's width."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Stacks of items next to each other."""

    widths: tuple[float, ...]
    stacks: tuple[tuple[Flowing, ...], ...]
    gutter: float = 12.0


Node = Flowing | Beside
Heads = tuple[Item | None, Item | None, Item | None]
"""A running head or foot: left, centre, right."""


@dataclass(frozen=True, slots=True)
class PageStyle:
    """Paper and type; lengths in points, or in em where a name says so."""

    width: float
    height: float
    margins: tuple[float, float, float, float]
    """Left, top, right, bottom."""
    columns: int
    gutter: float
    body: Family
    heading: Family
    mono: Family
    size: float
    leading_em: float
    spacing_em: float
    first_em: float
    justify: bool
    hyphenate: bool
    language: str
    column_rule: bool = False
    header_rule: bool = False
    footer_rule: bool = False
    filled: Family | None = None
    """Family of what is filled into forms; None for the page's own."""
    ticks: Family | None = None
    """Family of tick boxes."""

    @property
    def column_width(self) -> float:
        inner = self.width - self.margins[0] - self.margins[2]
        return (inner - self.gutter * (self.columns - 1)) / self.columns

    @property
    def capacity(self) -> float:
        """About how many characters of running text fill the page."""
        lines = (self.height - self.margins[1] - self.margins[3]) / (self.size * (0.72 + self.leading_em))
        return lines * self.columns * self.column_width / (0.48 * self.size)


@dataclass(frozen=True, slots=True)
class Plan:
    """A document of one or two pages, of which one becomes the sample."""

    kind: str
    style: PageStyle
    header: Heads
    footer: Heads
    title: tuple[Item, ...]
    """Items over all columns, before the flow."""
    flow: tuple[Node, ...]
    page: int = 0
    """Which of its pages to take, from 0; the last one where there are fewer."""


# text


class Writer:
    """Texts of one language in the characters of one family, taken from the corpus."""

    def __init__(
        self, rng: Rng, corpus: text.Corpus, characters: frozenset[str], languages: tuple[str, ...] = ()
    ) -> None:
        self.rng = rng
        self.old = False
        """Whether German is set with long s."""
        # A language with a handful of sentences would repeat itself on one page.
        usable = [i for i, name in enumerate(corpus.languages) if len(corpus.texts[name]) > 5000] or [0]
        usable = [i for i in usable if corpus.languages[i] in languages] or usable
        weights = corpus.weights[usable] / corpus.weights[usable].sum()
        self.language = corpus.languages[usable[int(rng.choice(len(usable), p=weights))]]
        self.source = corpus.texts[self.language]
        self.characters = characters

    def paragraph(self, length: int) -> str:
        """Whole paragraphs of about ``length`` characters, cut at a sentence where one ends in time."""
        start = int(self.rng.integers(max(1, len(self.source) - length - 800)))
        start = self.source.find("\n", start, start + 600) + 1 or self.source.find(" ", start) + 1
        stretch = self.source[start : start + length].replace("\n", " ")
        end = max(stretch.rfind(mark) for mark in (". ", "! ", "? "))
        end = end + 1 if end > 0.5 * length else stretch.rfind(" ")
        return self._fit(stretch[: end if end > 0 else None]) or "Lorem ipsum dolor sit amet."

    def words(self, length: int) -> str:
        """A few words of at most ``length`` characters (one word may be longer)."""
        start = int(self.rng.integers(max(1, len(self.source) - 400)))
        found: list[str] = []
        for word in self.source[start : start + 300 + length].replace("\n", " ").split(" ")[1:]:
            word = word.strip(".,;:!?()[]\"'«»“”-=_*")
            if not word or len(word) > 18 or not word[0].isalnum():
                continue
            if found and sum(map(len, found)) + len(found) + len(word) > length:
                break
            found.append(word)
        return self._fit(" ".join(found)) or "item"

    def title(self, length: int) -> str:
        words = self.words(length)
        words = words[:1].upper() + words[1:]
        draw = self.rng.random()
        return words.upper() if draw < 0.12 else words.title() if draw < 0.2 else words

    def _fit(self, content: str) -> str:
        # Two hyphens in a row stand for a dash, and PDFium loses the second one at the end of a line.
        content = re.sub(r"-{2,}", "\u2013" if "\u2013" in self.characters else "-", " ".join(content.split()))
        return self.fit(text.old_print(content) if self.old and self.language == "de" else content)

    def fit(self, content: str) -> str:
        """``content`` in characters that all faces of the page have."""
        return text.fit(content, self.characters)


def emphasised(rng: Rng, content: str) -> tuple[tuple[str, str], ...]:
    """``content`` as runs, a few of its words bold or italic."""
    words = content.split(" ")
    if len(words) < 12 or rng.random() < 0.6:
        return ((content, ""),)
    runs, at = [], 0
    for _ in range(int(rng.integers(1, 4))):
        start = int(rng.integers(at, len(words)))
        stop = min(len(words), start + int(rng.integers(1, 5)))
        if start > at:
            runs.append((" ".join(words[at:start]) + " ", ""))
        tail = " " if stop < len(words) else ""
        runs.append((" ".join(words[start:stop]) + tail, "bold" if rng.random() < 0.4 else "italic"))
        at = stop
        if at == len(words):
            break
    if at < len(words):
        runs.append((" ".join(words[at:]), ""))
    return tuple(runs)


# pieces


def plain(kind: BlockKind, content: str, look: Look = Look(), level: int = 0) -> Item:
    return Item(kind, ((content, ""),), level=level, look=look)


_BULLETS = "•–-*▪■○→·◦‣—"


def list_items(rng: Rng, writer: Writer, size: float, count: int, short: bool = False) -> list[Item]:
    """A list, sometimes with a second level."""
    style = int(rng.integers(6))
    mark = _BULLETS[int(rng.integers(len(_BULLETS)))]
    mark = mark if mark in writer.characters else "-"
    inner = "-" if mark != "-" else "*"
    form = ("{}.", "{})", "({})", "[{}]", "{}.")[int(rng.integers(5))]
    letters = style == 5
    nested = rng.random() < 0.3
    left = float(rng.choice([0.0, 1.0, 2.0]))
    tight = float(rng.uniform(0.2, 0.9))
    items, number = [], 0
    for index in range(count):
        deep = nested and index > 0 and rng.random() < 0.4
        number += not deep
        label = chr(96 + min(number, 26)) if letters else str(number)
        marker = mark if style < 3 else form.format(label)
        marker = inner if deep else marker
        length = int(rng.integers(12, 60) if short else rng.integers(20, 220))
        hanging = 1.2 if len(marker) == 1 else 1.9 if len(marker) < 4 else 2.6
        look = Look(left=left + 2.0 * deep, hanging=hanging, above=tight, below=tight, first=0, align="left")
        items.append(Item("list", ((writer.paragraph(length), ""),), level=int(deep), marker=marker, look=look))
    return items


FIGURE_STYLES = {"bars": 0.18, "lines": 0.2, "scatter": 0.12, "diagram": 0.16, "photo": 0.26, "frame": 0.08}


def figure_plan(rng: Rng) -> FigurePlan:
    style = list(FIGURE_STYLES)[int(rng.choice(len(FIGURE_STYLES), p=list(FIGURE_STYLES.values())))]
    width = 1.0 if rng.random() < 0.5 else float(rng.uniform(0.45, 1.0))
    return FigurePlan(style, float(rng.uniform(0.35, 0.95)), width, int(rng.integers(2**31)))


def captioned(rng: Rng, writer: Writer, item: Item, number: int, place: str) -> Group:
    """A table or figure with its caption above or below, or without one."""
    if rng.random() < 0.12:
        return Group((item,), place)
    is_table = item.kind == "table"
    word = ("Table", "Tab.", "Tableau", "TABLE") if is_table else ("Figure", "Fig.", "FIG.", "Abb.")
    label = f"{word[int(rng.integers(4))]} {number}{('.', ':', ' -', '')[int(rng.integers(4))]} "
    content = writer.paragraph(int(rng.integers(15, 220)))
    look = Look(
        scale=float(rng.uniform(0.8, 1.0)), align=("left", "center")[int(rng.random() < 0.45)], first=0,
        italic=bool(rng.random() < 0.15), above=float(rng.uniform(0.4, 0.9)), below=float(rng.uniform(0.4, 0.9)),
    )  # fmt: skip
    caption = Item("caption", ((label, "bold" if rng.random() < 0.5 else ""), (content, "")), look=look)
    first = rng.random() < (0.7 if is_table else 0.08)
    return Group((caption, item) if first else (item, caption), place)


def running_head(rng: Rng, writer: Writer, kind: BlockKind, number: int) -> Heads:
    """A running head or foot: a title, a page number, a date, in up to three places."""
    texts: list[str | None] = [None, None, None]
    draw = rng.random()
    page = (
        str(number),
        f"- {number} -",
        f"Page {number}",
        f"{number} / {number + int(rng.integers(40))}",
        f"{number}",
    )[int(rng.integers(5))]
    if draw < 0.3:
        texts[int(rng.choice([0, 1, 2], p=[0.2, 0.5, 0.3]))] = page
    elif draw < 0.6:
        texts[0], texts[2] = writer.title(40), page
    elif draw < 0.75:
        texts[0], texts[2] = page, writer.title(45)
    elif draw < 0.85:
        texts[1] = writer.title(60)
    else:
        texts = [writer.title(24), writer.title(20), fields.date(rng)]
    look = Look(
        scale=float(rng.uniform(0.72, 1.0)), italic=bool(rng.random() < 0.25), bold=bool(rng.random() < 0.1), first=0,
        ink=(0, 0, 0) if rng.random() < 0.8 else (96, 96, 96),
    )  # fmt: skip

    def placed(content: str | None) -> Item | None:
        fitted = text.fit(content, writer.characters) if content else ""
        return plain(kind, fitted, look) if fitted else None

    return placed(texts[0]), placed(texts[1]), placed(texts[2])
