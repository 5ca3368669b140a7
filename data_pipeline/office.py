"""Pages that are lists of things: receipts, statements, contents, references, slides, specifications."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data_pipeline import fields, text
from data_pipeline.chance import pick
from data_pipeline.composer import Composer
from data_pipeline.layouts import Group, Item, Look, Node, Writer, list_items, plain
from data_pipeline.tables import CellPlan, TablePlan, fit_table

Rng = np.random.Generator
Content = tuple[list[Item], list[Node]]
"""Items over all columns, and the flow."""


def receipt(rng: Rng, make: Composer) -> Content:
    """A till's roll: the shop, goods with prices at the right edge, sums, thanks."""
    fit, size = make.writer.fit, float(rng.uniform(1.2, 1.8))
    tight = Look(first=0, above=0.45, below=0.45, align="left")
    middle = replace(tight, align="center")
    shop = fit(fields.name(rng).upper())
    title = [plain("heading", shop, replace(middle, scale=size, bold=bool(rng.random() < 0.6), below=0.8), 1)]
    head = [fit(fields.address(rng)) for _ in range(2)] + [fit(fields.phone(rng)), fit(fields.code(rng))]
    title.append(plain("text", "\n".join(head[: int(rng.integers(2, 5))]), replace(middle, below=1.0)))
    stars = plain("text", pick(rng, "-=*") * int(make.style.column_width / (0.72 * make.style.size)), tight)
    nodes: list[Node] = [plain("text", fit(fields.date(rng) + "  " + fields.code(rng)), tight)]
    rule = rng.random() < 0.7
    nodes += [stars] if rule else []
    most = int(make.style.column_width / (0.62 * make.style.size)) - 10
    for _ in range(int(rng.integers(3, 16))):
        name, price = _price_row(rng, fields.receipt(rng))
        nodes.append(_ends(fit(name)[: max(6, most)].strip(), fit(price), tight))
        if rng.random() < 0.15:
            nodes.append(plain("text", f"  {rng.integers(2, 9)} x {rng.uniform(0, 20):.2f}", replace(tight, left=1.5)))
    nodes += [stars] if rule else []
    for label in ("Subtotal", "TVA 20 %", "TOTAL", "VISA")[int(rng.integers(0, 3)) :]:
        large = label == "TOTAL" and rng.random() < 0.5
        look = replace(tight, bold=label == "TOTAL", scale=1.3 if large else 1.0)
        nodes.append(_ends(label, f"{rng.uniform(1, 300):.2f}", look))
    nodes.append(plain("text", fit(make.writer.title(26)) + "\n" + fit(fields.web(rng)), replace(middle, above=1.6)))
    return title, nodes


def _price_row(rng: Rng, row: str) -> tuple[str, str]:
    name, _, price = row.rpartition(" ")
    return (name, price) if any(map(str.isdigit, price)) and name else (row, f"{rng.uniform(0, 90):.2f}")


def _ends(left: str, right: str, look: Look, between: str = "gap", kind: str = "text") -> Item:
    """``left`` and ``right`` at the two edges of the column."""
    return Item("list" if kind == "list" else "text", ((left + " ", ""), ("", between), (right, "")), look=look)


def statement(rng: Rng, make: Composer) -> Content:
    """A bank's statement of account: who, which account, and the running balance as a table."""
    writer, fit = make.writer, make.writer.fit
    bold = Look(first=0, bold=True, scale=float(rng.uniform(1.3, 2.0)), font="heading", below=1.0)
    title = [
        plain(
            "heading", fit(pick(rng, ("Statement of account", "Kontoauszug", "Relevé de compte", "Extracto"))), bold, 1
        )
    ]
    owner = "\n".join(map(fit, (fields.name(rng), fields.address(rng), fields.address(rng))))
    account = "\n".join(
        f"{label} {fit(fields.code(rng))}" for label in ("IBAN", "BIC", "Ref.")[: int(rng.integers(1, 4))]
    )
    title += [
        plain("text", owner, Look(first=0, align="left", below=1.0)),
        plain("text", account, Look(first=0, align="left")),
    ]
    heads = ["Date", "Description", "Debit", "Credit", "Balance"]
    rows, balance = int(rng.integers(6, 24)), float(rng.uniform(100, 9000))
    cells = [
        CellPlan(0, i, head, header=True, bold=True, align="right" if i > 1 else "left") for i, head in enumerate(heads)
    ]
    day = 1.0
    for row in range(1, rows + 1):
        day = min(31.0, day + float(rng.exponential(1.2)))
        change = float(rng.uniform(-400, 300))
        balance += change
        sums = ("", f"{change:,.2f}", f"{balance:,.2f}") if change > 0 else (f"{-change:,.2f}", "", f"{balance:,.2f}")
        values = (f"{int(day):02d}.{1 + int(make.number) % 12:02d}.", writer.words(int(rng.integers(10, 40))), *sums)
        cells += [CellPlan(row, i, value, align="right" if i > 1 else "left") for i, value in enumerate(values)]
    table = TablePlan(
        rows + 1, 5, 1, tuple(cells), pick(rng, ("rows", "header", "none", "full", "booktabs")), 0.5,
        (0.4, float(rng.uniform(0.2, 0.5))), (0.7, 2.6, 1.0, 1.0, 1.1), zebra=bool(rng.random() < 0.3),
        header_fill=pick(rng, (255, 224, 96)), scale=0.9,
    )  # fmt: skip
    nodes: list[Node] = [Group((Item("table", table=fit_table(table, fit)),))]
    nodes += [make.paragraph(60, 300) for _ in range(int(rng.integers(0, 3)))]
    return title, nodes


def contents(rng: Rng, make: Composer) -> Content:
    """A table of contents: chapters and sections, leaders of dots, page numbers at the right edge."""
    names = ("Contents", "Inhalt", "Table des matières", "Sommaire", "Índice", "Spis treści", "CONTENTS")
    heading = Look(scale=float(rng.uniform(1.3, 2.2)), bold=True, first=0, font="heading", below=1.5)
    title = [plain("heading", make.writer.fit(pick(rng, names)), heading, 1)]
    between = "leader" if rng.random() < 0.75 else "gap"
    tight, most = float(rng.uniform(0.3, 0.8)), make.style.column_width / (0.55 * make.style.size)
    nodes: list[Node] = []
    page, counts = int(rng.integers(1, 9)), [0, 0]
    while len(nodes) < make.style.capacity / most * float(rng.uniform(0.35, 0.6)):
        level = 0 if not nodes or rng.random() < 0.28 else 1
        counts = [counts[0] + 1, 0] if level == 0 else [counts[0], counts[1] + 1]
        number = f"{counts[0]}" if level == 0 else f"{counts[0]}.{counts[1]}"
        words = make.writer.title(int(rng.integers(8, max(12, int(most * 0.6)))))
        look = Look(
            first=0, align="left", left=1.6 * level, bold=level == 0 and bool(make.numbered),
            above=tight * (2.0 if level == 0 else 1.0), below=tight,
        )  # fmt: skip
        label = f"{number} {words}" if make.numbered else words
        nodes.append(_ends(label, str(page), look, between, "list"))
        page += int(rng.integers(0, 9))
    return title, nodes


def references(rng: Rng, make: Composer) -> Content:
    """A list of references, numbered in brackets, numbered plainly or by author with hanging lines."""
    writer = make.writer
    nodes: list[Node] = [make.paragraph(), make.heading(1)]
    style = int(rng.integers(3))
    for number in range(1, int(rng.integers(12, 60))):
        runs = (
            (text.fit(fields.reference(rng), writer.characters) + " ", ""),
            (writer.words(70) + ". ", "italic"),
            (f"{rng.integers(1950, 2026)}.", ""),
        )
        marker = (f"[{number}]", f"{number}.", "")[style]
        look = Look(scale=0.88, hanging=2.4 if marker else 1.5, above=0.5, below=0.5, first=0)
        nodes.append(Item("list", runs, marker=marker, look=look))
    return [], nodes


def slide(rng: Rng, make: Composer) -> Content:
    """One projected page: a title, a few short points, perhaps a figure."""
    writer = make.writer
    look = Look(
        scale=float(rng.uniform(1.4, 1.9)),
        bold=bool(rng.random() < 0.7),
        font="heading",
        first=0,
        below=1.2,
        align="left",
    )
    if rng.random() < 0.2:
        title = [plain("heading", writer.title(46), replace(look, align="center", above=5.0, scale=1.9), 1)]
        who = "\n".join(map(writer.fit, (fields.name(rng), fields.date(rng))))
        return title, [plain("text", who, Look(first=0, align="center", above=2.0))]
    title = [plain("heading", writer.title(int(rng.integers(12, 44))), look, 1)]
    nodes: list[Node] = []
    if rng.random() < 0.7:
        nodes += [
            replace_length(rng, writer, item) for item in list_items(rng, writer, 0, int(rng.integers(3, 7)), True)
        ]
    if not nodes or rng.random() < 0.4:
        nodes.append(make.figure())
    return title, nodes


def replace_length(rng: Rng, writer: Writer, item: Item) -> Item:
    """The same point in a few words."""
    words = writer.title(int(rng.integers(12, 46)))
    return replace(item, runs=((words, ""),), look=replace(item.look, above=0.7, below=0.7))


def specification(rng: Rng, make: Composer) -> Content:
    """Numbered clauses to the third level, with tables of properties: contracts, standards, tenders."""
    make.numbered = True
    nodes: list[Node] = []
    filled, chapter, goal = 0.0, int(rng.integers(1, 9)), make.style.capacity * float(rng.uniform(0.9, 1.4))
    while filled < goal:
        chapter += 1
        heading = Look(scale=1.15, bold=True, first=0, above=1.4, below=0.7, font="heading")
        nodes.append(plain("heading", f"{chapter} {make.writer.title(40)}", heading, 1))
        for section in range(1, int(rng.integers(2, 6))):
            clause = make.writer.paragraph(int(rng.integers(60, 420)))
            marker, look = f"{chapter}.{section}", Look(first=0, hanging=2.8, above=0.6, below=0.6)
            nodes.append(Item("list", ((clause, ""),), marker=marker, look=look))
            filled += len(clause) + 60
            for letter in "abcde"[: int(rng.integers(0, 5))] if rng.random() < 0.3 else "":
                part = make.writer.paragraph(int(rng.integers(30, 140)))
                inner = Look(first=0, left=2.8, hanging=1.8, above=0.4, below=0.4)
                nodes.append(Item("list", ((part, ""),), level=1, marker=f"{letter})", look=inner))
                filled += len(part) + 50
        if rng.random() < 0.35:
            nodes.append(make.table())
            filled += make.style.capacity * 0.12
    return [], nodes
