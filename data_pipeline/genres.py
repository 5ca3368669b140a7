"""What kinds of pages there are, and how each is composed: papers, reports, books, letters, invoices and so on.

``plan_page(rng, families, corpus, kinds)`` draws a kind, a style that suits it, and its items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from data_pipeline import fields, text
from data_pipeline.composer import Composer
from data_pipeline.layouts import Beside, Family, Group, Heads, Item, Look, Node, PageStyle, Plan, Writer, plain
from data_pipeline.tables import fit_table, plan_invoice

Rng = np.random.Generator

KINDS = {
    "paper": 0.22, "report": 0.16, "book": 0.08, "manual": 0.10, "newspaper": 0.09, "letter": 0.06, "invoice": 0.06,
    "tables": 0.08, "typescript": 0.15,
}  # fmt: skip
"""Kinds of pages, with shares."""

_SIZES = {
    "a4": (595.28, 841.89),
    "letter": (612.0, 792.0),
    "a5": (419.5, 595.3),
    "legal": (612.0, 1008.0),
    "b5": (498.9, 708.7),
}


def plan_page(rng: Rng, families: dict[str, tuple[Family, ...]], corpus: text.Corpus, kinds: dict[str, float]) -> Plan:
    """A random page plan of a random kind."""
    shares = np.array(list(kinds.values()), dtype=float)
    kind = list(kinds)[int(rng.choice(len(kinds), p=shares / shares.sum()))]
    body = _family(
        rng,
        families,
        {"typescript": ("typewriter", "typewriter", "typewriter", "mono", "dotmatrix")}.get(
            kind, ("serif", "serif", "sans")
        ),
    )
    writer = Writer(rng, corpus, body.characters)
    style = _style(rng, kind, families, body, writer.language)
    # A heading in another family must not ask for characters that family lacks.
    writer.characters = body.characters & style.heading.characters & style.mono.characters
    return _COMPOSERS[kind](rng, writer, style)


def _family(rng: Rng, families: dict[str, tuple[Family, ...]], groups: tuple[str, ...]) -> Family:
    available = [group for group in groups if families.get(group)] or list(families)
    members = families[available[int(rng.integers(len(available)))]]
    return members[int(rng.integers(len(members)))]


def _style(rng: Rng, kind: str, families: dict[str, tuple[Family, ...]], body: Family, language: str) -> PageStyle:
    paper = {"book": ("a5", "b5", "a4", "letter"), "newspaper": ("a4", "legal", "letter")}.get(
        kind, ("a4", "a4", "a4", "letter", "legal")
    )
    width, height = _SIZES[paper[int(rng.integers(len(paper)))]]
    if kind == "tables" and rng.random() < 0.35:
        width, height = height, width
    columns = {
        "paper": (1, 2, 2, 2, 2, 3), "report": (1, 1, 1, 2), "manual": (1, 1, 2), "newspaper": (3, 4, 4, 5),
        "tables": (1, 1, 1, 2),
    }.get(kind, (1,))  # fmt: skip
    count = int(columns[int(rng.integers(len(columns)))])
    size = float(
        rng.uniform(
            *{
                "newspaper": (7.0, 9.5),
                "paper": (8.0, 11.0),
                "letter": (10, 12),
                "tables": (7.5, 11),
                "typescript": (9.5, 12.5),
            }.get(kind, (8.5, 12.0))
        )
    )
    side = float(rng.uniform(28, 60) if count > 1 else rng.uniform(40, 105)) * width / 595
    margins = (side, float(rng.uniform(45, 95)), side * float(rng.uniform(0.8, 1.2)), float(rng.uniform(45, 95)))
    heading = (
        body
        if rng.random() < 0.5 or kind == "typescript"
        else _family(rng, families, ("serif", "sans", "sans", "display"))
    )
    mono = body if kind == "typescript" else _family(rng, families, ("mono", "typewriter"))
    justify = bool(rng.random() < (0.75 if kind in ("paper", "book", "newspaper", "report") else 0.3))
    leading = float(rng.uniform(0.42, 0.85))
    if kind == "typescript":
        justify, leading = (
            bool(rng.random() < 0.06),
            float(rng.choice([0.45, 0.62, 0.9, 1.35, 1.6]) * rng.uniform(0.92, 1.1)),
        )
    indented = rng.random() < 0.45
    return PageStyle(
        width, height, margins, count, float(rng.uniform(10, 26)), body, heading, mono, size, leading,
        spacing_em=leading if indented and rng.random() < 0.7 else leading + float(rng.uniform(0.3, 1.1)),
        first_em=float(rng.uniform(1.0, 3.0)) if indented else 0.0, justify=justify,
        hyphenate=justify or bool(rng.random() < 0.15), language=language,
        column_rule=count > 1 and bool(rng.random() < (0.5 if kind == "newspaper" else 0.12)),
        header_rule=bool(rng.random() < 0.3), footer_rule=bool(rng.random() < 0.15),
    )  # fmt: skip


def _finish(
    rng: Rng, composer: Composer, title: Sequence[Item], flow: Sequence[Node], heads: tuple[Heads, Heads]
) -> Plan:
    # The second page begins in the middle of things; its end is often half empty, which first pages rarely are.
    page = int(composer.filled > 1.6 and rng.random() < 0.6)
    return Plan(composer.kind, composer.style, heads[0], heads[1], tuple(title), tuple(flow), page)


def _amount(rng: Rng) -> float:
    """Pages of content: mostly more than one, so that the page is full."""
    draw = rng.random()
    return (
        float(rng.uniform(0.2, 0.9))
        if draw < 0.12
        else float(rng.uniform(1.0, 1.4))
        if draw < 0.66
        else float(rng.uniform(1.7, 2.4))
    )


# kinds


def _paper(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "paper")
    title: list[Item] = []
    if rng.random() < 0.45:
        centre = str(rng.choice(["center", "left"], p=[0.75, 0.25]))
        title.append(
            plain(
                "heading",
                writer.title(int(rng.integers(30, 110))),
                Look(
                    scale=float(rng.uniform(1.5, 2.3)),
                    align=centre,
                    bold=bool(rng.random() < 0.7),
                    font="heading",
                    first=0,
                    below=0.8,
                ),
                1,
            )
        )
        names = ", ".join(fields.name(rng) for _ in range(int(rng.integers(1, 6))))
        title.append(plain("text", text.fit(names, writer.characters), Look(align=centre, scale=1.1, first=0)))
        title.append(
            plain(
                "text",
                text.fit(fields.address(rng), writer.characters),
                Look(align=centre, scale=0.9, italic=True, first=0, below=1.2),
            )
        )
        if rng.random() < 0.6:
            inset = float(rng.choice([0, 0, 3]))
            title.append(
                Item(
                    "text",
                    (("Abstract. ", "bold"), (writer.paragraph(int(rng.integers(400, 1100))), "")),
                    look=Look(scale=0.92, left=inset, right=inset, first=0, below=1.5),
                )
            )
    shares = {
        "paragraph": 0.6,
        "heading": 0.13,
        "note": 0.04,
        "list": 0.05,
        "table": 0.06,
        "figure": 0.07,
        "formula": 0.09,
    }
    if rng.random() < 0.12:
        return _finish(rng, make, title, _references(rng, writer, make), make.heads(0.6, 0.6))
    return _finish(rng, make, title, make.flow(shares, _amount(rng)), make.heads(0.6, 0.6))


def _references(rng: Rng, writer: Writer, make: Composer) -> list[Node]:
    nodes: list[Node] = [make.paragraph(), make.heading(1)]
    for number in range(1, int(rng.integers(12, 60))):
        runs = (
            (text.fit(fields.reference(rng), writer.characters) + " ", ""),
            (writer.words(70) + ". ", "italic"),
            (f"{rng.integers(1950, 2026)}.", ""),
        )
        nodes.append(
            Item("list", runs, marker=f"[{number}]", look=Look(scale=0.88, hanging=2.4, above=0.5, below=0.5, first=0))
        )
    return nodes


def _report(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "report")
    title = [make.heading(1)] if rng.random() < 0.3 else []
    shares = {"paragraph": 0.45, "heading": 0.15, "list": 0.12, "table": 0.13, "figure": 0.1, "note": 0.04}
    column = make.flow(shares, _amount(rng))
    flow: Sequence[Node] = column
    if style.columns == 1 and rng.random() < 0.15:
        side = [
            plain("text", writer.paragraph(int(rng.integers(60, 250))), Look(scale=0.85, first=0, align="left"))
            for _ in range(int(rng.integers(2, 6)))
        ]
        narrow = float(rng.uniform(0.22, 0.35))
        stacks = (tuple(side), tuple(node for node in column if isinstance(node, Item) or node.place == "flow"))
        order = 1 if rng.random() < 0.5 else -1
        flow = [Beside((narrow, 1 - narrow)[::order], stacks[::order], float(rng.uniform(12, 24)))]
    return _finish(rng, make, title, flow, make.heads(0.6, 0.75))


def _book(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "book")
    title = []
    if rng.random() < 0.2:
        title = [
            plain(
                "heading",
                writer.title(40),
                Look(scale=2.0, align="center", font="heading", first=0, above=4, below=3),
                1,
            )
        ]
    shares = {"paragraph": 0.85, "heading": 0.04, "note": 0.08, "list": 0.02, "figure": 0.02}
    return _finish(rng, make, title, make.flow(shares, _amount(rng)), make.heads(0.75, 0.5))


def _manual(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "manual")
    shares = {"paragraph": 0.35, "heading": 0.2, "list": 0.2, "code": 0.16, "table": 0.08, "figure": 0.07}
    return _finish(rng, make, [], make.flow(shares, _amount(rng)), make.heads(0.6, 0.7))


def _newspaper(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "newspaper")
    title = []
    if rng.random() < 0.7:
        title.append(
            plain(
                "heading",
                writer.title(int(rng.integers(15, 50))),
                Look(
                    scale=float(rng.uniform(2.4, 4.5)),
                    align="center",
                    bold=True,
                    font="heading",
                    first=0,
                    rule=str(rng.choice(["", "below"])),
                    below=1.0,
                ),
                1,
            )
        )
    if rng.random() < 0.5:
        title.append(plain("text", writer.paragraph(150), Look(scale=1.3, italic=True, first=0, below=1.2)))
    shares = {"paragraph": 0.72, "heading": 0.14, "figure": 0.1, "table": 0.03, "list": 0.02}
    return _finish(rng, make, title, make.flow(shares, float(rng.uniform(1.0, 1.6))), make.heads(0.8, 0.3))


def _letter(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, replace(style, first_em=0.0), "letter")
    fit = lambda content: text.fit(content, writer.characters)  # noqa: E731
    title: list[Item] = []
    flow: list[Node] = []
    sender = [fit(fields.name(rng)), fit(fields.address(rng)), fit(fields.phone(rng)), fit(fields.web(rng))]
    left = float(rng.choice([0, 0, 22, 26]))
    title.append(
        plain(
            "heading",
            writer.title(24),
            Look(
                scale=float(rng.uniform(1.3, 2.2)),
                bold=True,
                font="heading",
                first=0,
                align=str(rng.choice(["left", "center", "right"])),
            ),
            1,
        )
    )
    title.append(
        plain(
            "text",
            "\n".join(sender[: int(rng.integers(2, 5))]),
            Look(scale=0.85, align=str(rng.choice(["left", "right", "center"])), first=0, below=2.5),
        )
    )
    flow.append(
        plain(
            "text",
            "\n".join([fit(fields.name(rng)), fit(fields.address(rng)), fit(fields.address(rng))]),
            Look(left=left, align="left", first=0, below=2),
        )
    )
    flow.append(
        plain("text", fit(fields.date(rng)), Look(align=str(rng.choice(["left", "right"])), first=0, below=1.5))
    )
    flow.append(plain("heading", writer.title(50), Look(bold=True, first=0, below=1.2), 2))
    flow.append(plain("text", writer.words(20) + ",", Look(first=0)))
    flow.extend(make.flow({"paragraph": 0.9, "list": 0.1, "table": 0.04}, float(rng.uniform(0.2, 0.65))))
    flow.append(plain("text", fit(fields.name(rng)), Look(above=float(rng.uniform(2, 5)), left=left, first=0)))
    return _finish(rng, make, title, flow, make.heads(0.2, 0.7))


def _invoice(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "invoice")
    fit = lambda content: text.fit(content, writer.characters)  # noqa: E731
    block = lambda lines, look: plain("text", "\n".join(fit(line) for line in lines), look)  # noqa: E731
    left = block(
        [fields.name(rng), fields.address(rng), fields.address(rng), fields.phone(rng)][: int(rng.integers(2, 5))],
        Look(first=0, align="left"),
    )
    names = ("Invoice no.", "Date", "Customer", "Due", "Order", "Ref.")
    pairs = [
        f"{names[i]}: {fields.date(rng) if names[i] in ('Date', 'Due') else rng.integers(1000, 999999)}"
        for i in range(int(rng.integers(2, 7)))
    ]
    right = block(pairs, Look(first=0, align=str(rng.choice(["left", "right"]))))
    title = [
        plain(
            "heading",
            writer.title(26),
            Look(scale=float(rng.uniform(1.4, 2.4)), bold=True, font="heading", first=0, below=1.2),
            1,
        )
    ]
    flow: list[Node] = [
        Beside((0.55, 0.45), ((left,), (right,))),
        plain(
            "heading",
            str(rng.choice(["Invoice", "Rechnung", "Facture", "INVOICE", "Order", "Quotation"])),
            Look(scale=1.5, bold=True, font="heading", first=0, above=2, below=1),
            2,
        ),
    ]
    if rng.random() < 0.5:
        flow.append(make.paragraph(40, 200))
    flow.append(Group((Item("table", table=fit_table(plan_invoice(rng, writer.words), writer.fit)),)))
    for _ in range(int(rng.integers(0, 3))):
        flow.append(make.paragraph(40, 300))
    return _finish(rng, make, title, flow, make.heads(0.2, 0.85))


def _tables(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "tables")
    shares = {"paragraph": 0.16, "heading": 0.14, "table": 0.7}
    return _finish(rng, make, [], make.flow(shares, _amount(rng)), make.heads(0.6, 0.6))


def _typescript(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, style, "typescript")
    make.capitals = rng.random() < 0.5
    rule = "under" if rng.random() < 0.5 else ""
    make.looks = [
        replace(
            look, scale=1.0, bold=False, italic=False, rule=rule, align=look.align if rng.random() < 0.6 else "center"
        )
        for look in make.looks
    ]
    title: list[Item] = []
    if rng.random() < 0.35:
        title.append(
            plain(
                "heading",
                writer.title(40).upper(),
                Look(align="center", first=0, below=2, tracking=float(rng.choice([0, 0, 0.3]))),
                1,
            )
        )
    if rng.random() < 0.25:
        title.append(
            plain("text", text.fit(fields.date(rng), writer.characters), Look(align="right", first=0, below=1.5))
        )
    shares = {"paragraph": 0.8, "heading": 0.07, "list": 0.08, "table": 0.06, "note": 0.02}
    return _finish(rng, make, title, make.flow(shares, _amount(rng)), make.heads(0.45, 0.3))


_COMPOSERS: dict[str, Callable[[Rng, Writer, PageStyle], Plan]] = {
    "paper": _paper, "report": _report, "book": _book, "manual": _manual, "newspaper": _newspaper, "letter": _letter,
    "invoice": _invoice, "tables": _tables, "typescript": _typescript,
}  # fmt: skip
