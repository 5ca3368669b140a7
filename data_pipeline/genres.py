"""What kinds of pages there are, and how each is composed: papers, reports, books, letters, forms, receipts and so on.

``plan_page(rng, families, corpus, kinds)`` draws a kind, a style that suits it, and its items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from data_pipeline import chance, fields, forms, office, text, typescripts
from data_pipeline.checks import check_plan
from data_pipeline.composer import Composer
from data_pipeline.extract import TruthError
from data_pipeline.layouts import Beside, Family, Group, Heads, Item, Look, Node, PageStyle, Plan, Writer, plain
from data_pipeline.page_styles import body_family, page_style
from data_pipeline.tables import fit_table, plan_invoice

Rng = np.random.Generator

KINDS = {
    "paper": 0.15, "report": 0.11, "book": 0.05, "manual": 0.07, "newspaper": 0.07, "letter": 0.04, "invoice": 0.04,
    "tables": 0.06, "typescript": 0.14, "oldprint": 0.07, "form": 0.05, "receipt": 0.02, "statement": 0.02,
    "contents": 0.03, "references": 0.02, "slide": 0.03, "specification": 0.03,
}  # fmt: skip
"""Kinds of pages, with shares."""


def plan_page(rng: Rng, families: dict[str, tuple[Family, ...]], corpus: text.Corpus, kinds: dict[str, float]) -> Plan:
    """A random page plan of a random kind.

    Raises:
        TruthError: a face lacks a character of the plan.
    """
    kind = chance.weighted(rng, kinds)
    body = body_family(rng, kind, families)
    languages = {"form": forms.LANGUAGES, "oldprint": ("de", "de", "fr", "en", "it")}.get(kind, ())
    writer = Writer(rng, corpus, body.characters, ("de",) if body.group == "blackletter" else languages)
    writer.old = body.group == "blackletter" and "\u017f" in body.characters
    style = page_style(rng, kind, families, body, writer.language)
    # A heading in another family must not ask for characters that family lacks.
    writer.characters = body.characters & style.heading.characters & style.mono.characters
    plan = _COMPOSERS[kind](rng, writer, style)
    kept, reason = check_plan(plan)
    if not kept:
        raise TruthError(reason)
    return plan


def _finish(
    rng: Rng, composer: Composer, title: Sequence[Item], flow: Sequence[Node], heads: tuple[Heads, Heads]
) -> Plan:
    # The second page begins in the middle of things; its end is often half empty, which first pages rarely are.
    page = int(composer.filled > 1.6 and rng.random() < 0.6)
    return Plan(composer.kind, composer.style, heads[0], heads[1], tuple(title), tuple(flow), page)


def _amount(rng: Rng) -> float:
    """Pages of content: one in four is a half-empty last page, the others are full."""
    low, high = chance.weighted(rng, {(0.15, 0.9): 0.25, (1.0, 1.4): 0.45, (1.7, 2.4): 0.3})
    return float(rng.uniform(low, high))


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
        return _finish(rng, make, title, office.references(rng, make)[1], make.heads(0.6, 0.6))
    return _finish(rng, make, title, make.flow(shares, _amount(rng)), make.heads(0.6, 0.6))


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
    title, flow = typescripts.typescript(rng, make)
    return _finish(rng, make, title, flow, typescripts.typed_heads(rng, make))


def _old_print(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, replace(style, header_rule=False), "oldprint")
    title, flow = typescripts.old_print(rng, make)
    return _finish(rng, make, title, flow, typescripts.old_heads(rng, make))


def _form(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
    make = Composer(rng, writer, forms.form_style(style), "form")
    title, flow = forms.form_flow(rng, make)
    return _finish(rng, make, title, flow, make.heads(0.3, 0.6))


def _listed(kind: str, compose: Callable[[Rng, Composer], office.Content], header: float, footer: float) -> Compose:
    """A kind whose pages :mod:`data_pipeline.office` composes, with the shares of running heads and feet."""

    def plan(rng: Rng, writer: Writer, style: PageStyle) -> Plan:
        make = Composer(rng, writer, style, kind)
        title, flow = compose(rng, make)
        return _finish(rng, make, title, flow, make.heads(header, footer))

    return plan


Compose = Callable[[Rng, Writer, PageStyle], Plan]

_COMPOSERS: dict[str, Compose] = {
    "paper": _paper, "report": _report, "book": _book, "manual": _manual, "newspaper": _newspaper, "letter": _letter,
    "invoice": _invoice, "tables": _tables, "typescript": _typescript, "oldprint": _old_print, "form": _form,
    "receipt": _listed("receipt", office.receipt, 0, 0), "statement": _listed("statement", office.statement, 0.3, 0.7),
    "contents": _listed("contents", office.contents, 0.4, 0.6),
    "references": _listed("references", office.references, 0.6, 0.6),
    "slide": _listed("slide", office.slide, 0, 0.6),
    "specification": _listed("specification", office.specification, 0.6, 0.7),
}  # fmt: skip
