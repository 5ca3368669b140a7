"""Typed pages and old books: letters and minutes, prints of the 19th century in Antiqua and Fraktur."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data_pipeline import fields
from data_pipeline.chance import pick, weighted
from data_pipeline.composer import Composer
from data_pipeline.layouts import Group, Heads, Item, Look, Node, plain

Rng = np.random.Generator
Content = tuple[list[Item], list[Node]]

_OPENINGS = (
    "Monsieur,", "Cher ami,", "Madame,", "Sehr geehrter Herr!", "Lieber Freund!", "Dear Sir,", "Gentlemen:",
    "Mon cher ami,", "Egregio Signore,", "Szanowny Panie,", "Muy señor mío:",
)  # fmt: skip
_CLOSINGS = (
    "Yours faithfully,", "Veuillez agréer, Monsieur, l'expression de mes sentiments distingués.", "Hochachtungsvoll",
    "Mit freundlichen Grüßen", "Sincerely yours,", "Bien à vous,", "Atentamente,",
)  # fmt: skip
_SUBJECTS = ("Objet : ", "Betr.: ", "Re: ", "Subject: ", "Ref.: ", "Concerne : ")


def typescript(rng: Rng, make: Composer) -> Content:
    """A typed page: a letter, minutes with speakers, a catalogue of terms, or plain pages of a manuscript."""
    make.capitals = rng.random() < 0.5
    rule = "under" if rng.random() < 0.5 else ""
    make.looks = [
        replace(look, scale=1.0, bold=False, italic=False, rule=rule, align=pick(rng, (look.align, "center")))
        for look in make.looks
    ]
    shape = weighted(rng, {"plain": 0.4, "letter": 0.25, "minutes": 0.2, "terms": 0.15})
    if shape == "letter":
        return _letter(rng, make)
    if shape == "minutes":
        return _title(rng, make), _minutes(rng, make)
    if shape == "terms":
        return _title(rng, make), _terms(rng, make)
    shares = {"paragraph": 0.8, "heading": 0.07, "list": 0.08, "table": 0.04, "note": 0.02}
    nodes: list[Node] = list(make.flow(shares, amount(rng)))
    return _title(rng, make), [_underlined(rng, node) if isinstance(node, Item) else node for node in nodes]


def amount(rng: Rng) -> float:
    """Pages of content: full ones, and half-empty last ones."""
    return float(rng.uniform(0.12, 0.9)) if rng.random() < 0.5 else float(rng.uniform(1.0, 1.8))


def _title(rng: Rng, make: Composer) -> list[Item]:
    title: list[Item] = []
    if rng.random() < 0.35:
        look = Look(
            align=pick(rng, ("center", "center", "left")), first=0, below=2, tracking=float(pick(rng, (0, 0, 0.3)))
        )
        rule = pick(rng, ("", "under"))
        title.append(plain("heading", make.writer.title(40).upper(), replace(look, rule=rule), 1))
    if rng.random() < 0.25:
        title.append(plain("text", make.writer.fit(fields.date(rng)), Look(align="right", first=0, below=1.5)))
    return title


def _underlined(rng: Rng, item: Item) -> Item:
    """A paragraph with a few words underlined, as a typist emphasises."""
    words = item.text.split(" ")
    if item.kind != "text" or len(words) < 8 or rng.random() < 0.6:
        return Item(item.kind, ((item.text, ""),), item.level, item.marker, item.look) if item.runs else item
    start = int(rng.integers(len(words) - 3))
    stop = start + int(rng.integers(1, 5))
    parts = ((" ".join(words[:start]), ""), (" ".join(words[start:stop]), "under"), (" ".join(words[stop:]), ""))
    kept = [(part, style) for part, style in parts if part]
    runs = [
        (part + " ", style) if index < len(kept) - 1 and not style else (part, style)
        for index, (part, style) in enumerate(kept)
    ]
    # The space after the underlined words is not underlined.
    spaced = [(" " + part if index and runs[index - 1][1] else part, style) for index, (part, style) in enumerate(runs)]
    return replace(item, runs=tuple(spaced))


def _letter(rng: Rng, make: Composer) -> Content:
    writer, fit = make.writer, make.writer.fit
    title = []
    if rng.random() < 0.6:
        head = "\n".join(map(fit, (fields.name(rng).upper(), fields.address(rng), fields.phone(rng))))
        title.append(plain("text", head, Look(first=0, align=pick(rng, ("left", "center")), below=2.0)))
    title.append(plain("text", fit(fields.date(rng)), Look(first=0, align="right", below=1.5)))
    half = float(rng.uniform(14, 22))
    nodes: list[Node] = []
    if rng.random() < 0.7:
        to = "\n".join(map(fit, (fields.name(rng), fields.address(rng), fields.address(rng))))
        nodes.append(plain("text", to, Look(first=0, align="left", left=pick(rng, (0.0, half)), below=2.0)))
    if rng.random() < 0.6:
        subject = (fit(pick(rng, _SUBJECTS)), ""), (writer.title(44), "under")
        nodes.append(Item("text", subject, look=Look(first=0, align="left", below=1.6)))
    nodes.append(plain("text", fit(pick(rng, _OPENINGS)), Look(first=float(rng.uniform(0, 6)), below=1.2)))
    for _ in range(int(rng.integers(2, 7))):
        nodes.append(_underlined(rng, make.paragraph(150, 600)))
    nodes.append(plain("text", fit(pick(rng, _CLOSINGS)), Look(first=float(rng.uniform(0, 6)), above=1.2)))
    nodes.append(
        plain("text", fit(fields.name(rng)), Look(first=0, align="left", left=half, above=float(rng.uniform(2, 5))))
    )
    if rng.random() < 0.3:
        nodes.append(plain("text", "P.J. : " + writer.words(30), Look(first=0, align="left", above=2.0)))
    return title, nodes


def _minutes(rng: Rng, make: Composer) -> list[Node]:
    """Who said what: underlined names before the paragraphs, stars between the parts."""
    names = [make.writer.fit(fields.name(rng)) for _ in range(4)]
    nodes: list[Node] = []
    filled, goal = 0.0, make.style.capacity * amount(rng)
    while filled < goal:
        speech = make.writer.paragraph(int(rng.integers(40, 420)))
        runs = ((pick(rng, names), "under"), (" : " + speech, ""))
        nodes.append(Item("text", runs) if rng.random() < 0.7 else _underlined(rng, make.paragraph(60, 300)))
        filled += len(speech) + make.style.column_width / make.style.size
        if rng.random() < 0.12:
            nodes.append(
                plain(
                    "text",
                    pick(rng, ("*", "* *", "*   *   *", "o")),
                    Look(first=0, align="center", above=1.2, below=1.2),
                )
            )
    return nodes


def _terms(rng: Rng, make: Composer) -> list[Node]:
    """Abbreviations with their meanings, far from the left edge, under underlined headings."""
    nodes: list[Node] = []
    for _ in range(int(rng.integers(2, 6))):
        nodes.append(
            plain(
                "heading",
                make.writer.title(26) + " :",
                Look(first=0, align="left", rule="under", above=1.8, below=1.0),
                2,
            )
        )
        left, hanging = float(rng.uniform(4, 12)), float(rng.uniform(3, 6))
        for _ in range(int(rng.integers(2, 9))):
            short = make.writer.words(4).split(" ")[0][:4]
            look = Look(first=0, align="left", left=left, hanging=hanging, above=0.35, below=0.35)
            nodes.append(Item("list", ((f"{short} = {make.writer.words(int(rng.integers(10, 44)))}", ""),), look=look))
        if rng.random() < 0.4:
            nodes.append(make.paragraph(60, 300))
    return nodes


def typed_heads(rng: Rng, make: Composer) -> tuple[Heads, Heads]:
    """A typed page number, with strokes or brackets, at the head or the foot; or nothing."""
    number = pick(rng, ("- {} -", "-{}-", "{}", "{}.", "( {} )", "/ {} /")).format(make.number % 60 + 1)
    draw = rng.random()
    kind = "header" if draw < 0.55 else "footer"
    item = plain("header" if kind == "header" else "footer", number, Look(first=0))
    place: Heads = (None, item, None) if rng.random() < 0.75 else (None, None, item)
    empty: Heads = (None, None, None)
    if draw > 0.8:
        return empty, empty
    return (place, empty) if kind == "header" else (empty, place)


def old_print(rng: Rng, make: Composer) -> Content:
    """A page of a book of the 19th century: solid paragraphs, spaced words for emphasis, notes under a short rule."""
    make.numbered = False
    # Where paragraphs stand close, a rule above a note would touch its letters.
    rule = "above" if make.style.spacing_em > 0.8 else ""
    title: list[Item] = []
    if rng.random() < 0.2:
        look = Look(scale=1.5, align="center", first=0, above=3, below=0.8)
        title = [plain("heading", make.writer.title(26) + ".", look, 1)]
        title.append(plain("heading", make.writer.title(44) + ".", replace(look, scale=1.0, above=0.8, below=1.6), 2))
    nodes: list[Node] = []
    filled, goal, number = 0.0, make.style.capacity * amount(rng), 0
    while filled < goal:
        item, draw = make.paragraph(250, 1500), rng.random()
        if draw < 0.1:
            number += 1
            look = Look(first=0, left=3.0, hanging=2.0, above=0.3, below=0.3)
            item = Item(
                "list", ((make.writer.paragraph(int(rng.integers(120, 420))), ""),), marker=f"{number}.", look=look
            )
        else:
            item = _spaced(rng, item)
        nodes.append(item)
        filled += len(item.text) + make.style.column_width / make.style.size
        if draw > 0.9:
            mark, look = pick(rng, ("*)", "1)", "**)")), Look(scale=0.82, above=0.5, below=0.2, first=1.5, rule=rule)
            note = Item("footnote", ((f"{mark} {make.writer.paragraph(int(rng.integers(80, 600)))}", ""),), look=look)
            nodes.append(Group((note,), "bottom"))
            filled += 0.7 * len(note.text)
    return title, nodes


def _spaced(rng: Rng, item: Item) -> Item:
    """The paragraph with a phrase letterspaced, as German printers did for emphasis."""
    words = item.text.split(" ")
    if len(words) < 12 or rng.random() < 0.55:
        return Item("text", ((item.text, ""),))
    start = int(rng.integers(1, len(words) - 8))
    stop = start + int(rng.integers(1, 8))
    spaced = " ".join(words[start:stop])
    runs = ((" ".join(words[:start]) + " ", ""), (spaced, "spaced"), (" " + " ".join(words[stop:]), ""))
    return Item("text", runs)


def old_heads(rng: Rng, make: Composer) -> tuple[Heads, Heads]:
    """The page number between dashes, or a running title with the number outside."""
    empty: Heads = (None, None, None)
    number = str(make.number)
    dash = "\u2014" if "\u2014" in make.writer.characters else "-"
    if rng.random() < 0.7:
        return (None, plain("header", f"{dash} {number} {dash}", Look(first=0)), None), empty
    title = plain("header", make.writer.title(36) + ".", Look(first=0, italic=bool(rng.random() < 0.4)))
    page = plain("header", number, Look(first=0))
    return ((page, title, None) if rng.random() < 0.5 else (None, title, page)), empty
