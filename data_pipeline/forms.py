"""Forms: labels with something to write on, tick boxes, combs, framed fields, filled in by print, typewriter or hand.

Labels come in the language of the page.  A field is one block of the truth with label and value in one line, or in two
where the value stands in a frame under its label; a tick box is the marker of a list item.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from data_pipeline import fields, text
from data_pipeline.chance import pick, weighted
from data_pipeline.composer import Composer
from data_pipeline.layouts import Beside, Flowing, Item, Look, Node, PageStyle, plain

Rng = np.random.Generator

_LABELS = {
    "en": "Surname|First name|Date of birth|Place of birth|Nationality|Address|Postcode|Town|Telephone|"
          "E-mail|Occupation|Employer|"
          "Account number|Tax number|Insurance no.|Date|Signature|Reason|Amount|Reference|Passport no.|"
          "Number of children",
    "de": "Name|Vorname|Geburtsdatum|Geburtsort|Staatsangehörigkeit|Straße, Hausnummer|PLZ|Ort|Telefon|"
          "E-Mail|Beruf|Arbeitgeber|"
          "Kontonummer|Steuernummer|Versicherungsnr.|Datum|Unterschrift|Grund|Betrag|Aktenzeichen|"
          "Ausweisnr.|Anzahl der Kinder",
    "fr": "Nom|Prénom|Date de naissance|Lieu de naissance|Nationalité|Adresse|Code postal|Ville|Téléphone|"
          "Courriel|Profession|Employeur|"
          "N° de compte|N° fiscal|N° de sécurité sociale|Date|Signature|Motif|Montant|Référence|"
          "N° de passeport|Nombre d’enfants",
    "es": "Apellidos|Nombre|Fecha de nacimiento|Lugar de nacimiento|Nacionalidad|Domicilio|Código postal|"
          "Localidad|Teléfono|"
          "Correo electrónico|Profesión|Empresa|N.º de cuenta|NIF|N.º de afiliación|Fecha|Firma|Motivo|"
          "Importe|Referencia|Pasaporte|Hijos",
}  # fmt: skip
_CHOICES = {
    "en": "Yes|No|Male|Female|Single|Married|Divorced|Widowed|Other|By post|By e-mail|I agree|"
    "New application|Renewal|Not applicable",
    "de": "ja|nein|männlich|weiblich|ledig|verheiratet|geschieden|verwitwet|Sonstiges|per Post|per E-Mail|"
    "Neuantrag|Verlängerung|entfällt",
    "fr": "Oui|Non|Masculin|Féminin|Célibataire|Marié(e)|Divorcé(e)|Veuf / veuve|Autre|Par courrier|"
    "J’accepte|Renouvellement|Sans objet",
    "es": "Sí|No|Hombre|Mujer|Soltero/a|Casado/a|Divorciado/a|Viudo/a|Otro|Por correo|Acepto|"
    "Nueva solicitud|Renovación|No procede",
}
LANGUAGES = tuple(_LABELS)

_STYLES = {"line": 0.34, "dots": 0.16, "frame": 0.16, "comb": 0.2, "under": 0.14}
"""What the values stand on; ``under`` is a frame around label and value."""


class _Form:
    """One form in one dress."""

    def __init__(self, rng: Rng, make: Composer, filled: float) -> None:
        self.rng, self.make, self.writer, self.style = rng, make, make.writer, make.style
        self.filled = filled
        """Share of the fields that are filled in."""
        self.field_style = weighted(rng, _STYLES)
        language = self.writer.language if self.writer.language in _LABELS else "en"
        self.labels, self.choices = _LABELS[language].split("|"), _CHOICES[language].split("|")
        self.colon = pick(rng, (":", ":", "", " :"))
        self.first = int(rng.integers(len(self.labels)))

    def label(self) -> tuple[int, str]:
        """The next label and its place in the list, which tells what belongs there."""
        self.first = (self.first + int(self.rng.integers(1, 4))) % len(self.labels)
        return self.first, self.writer.fit(self.labels[self.first]) + self.colon

    def value(self, place: int) -> str:
        makers: dict[int, Callable[[Rng], str]] = {
            0: fields.name, 1: fields.name, 2: fields.date, 5: fields.address, 8: fields.phone, 9: fields.web,
            15: fields.date, 16: fields.name, 18: fields.amount, 12: fields.code, 13: fields.code, 14: fields.code,
        }  # fmt: skip
        if self.rng.random() > self.filled:
            return ""
        content = makers[place](self.rng) if place in makers else self.writer.words(int(self.rng.integers(4, 22)))
        return self.fit_value(content)

    def fit_value(self, content: str) -> str:
        """``content`` in the characters of the face that fills the form."""
        return text.fit(content, self.style.filled.characters if self.style.filled else self.writer.characters)

    def field(self, room: float) -> Item:
        """A field that takes ``room`` of the page's width."""
        place, label = self.label()
        value = self.value(place)
        # What does not fit on its line would be set beside it.
        letters = int(room * self.style.column_width / (0.62 * self.style.size)) - len(label)
        value = value[: max(0, letters)].strip()
        look = Look(first=0, align="left", above=0.95, below=0.95)
        if self.field_style == "under":
            framed = Look(first=0, align="left", framed=True, above=0.2, below=0.2)
            return Item("text", ((label + "\n", ""), (value or " ", "value")), look=framed)
        if self.field_style != "comb":
            return Item("text", ((label + " ", ""), (value, self.field_style)), look=look)
        cells = int(np.clip(letters * 0.4, 4, 22))
        return Item(
            "text",
            ((label + "  ", ""), (self.fit_value(value.replace(" ", "").upper())[:cells], f"comb:{cells}")),
            look=look,
        )

    def row(self) -> Node:
        count = int(self.rng.choice([1, 2, 2, 3]))
        if count == 1:
            return self.field(1.0)
        shares = self.rng.uniform(0.7, 1.3, count)
        shares = shares / shares.sum()
        return Beside(tuple(map(float, shares)), tuple((self.field(share * 0.92),) for share in shares), 14.0)

    def tick_row(self) -> list[Node]:
        """A question with boxes behind it or under it."""
        count = int(self.rng.integers(2, 5))
        first = int(self.rng.integers(len(self.choices)))
        names = [self.writer.fit(self.choices[(first + i) % len(self.choices)]) for i in range(count)]
        marked = int(self.rng.integers(count)) if self.rng.random() < self.filled else -1
        cross = pick(self.rng, "☒☒☑")
        look = Look(first=0, align="left", hanging=1.5, above=0.55, below=0.55)
        ticks = [
            Item("list", ((name, ""),), marker=cross if i == marked else "☐", look=look) for i, name in enumerate(names)
        ]
        question = plain(
            "text", self.writer.words(int(self.rng.integers(12, 50))) + self.colon, Look(first=0, above=1.0)
        )
        if self.rng.random() < 0.6:
            stacks: tuple[tuple[Flowing, ...], ...] = tuple((tick,) for tick in ticks)
            return [question, Beside((1.0,) * count, stacks, 10.0)]
        return [question, *ticks]

    def section(self, number: int) -> list[Node]:
        title = f"{number}. {self.writer.title(30)}" if self.rng.random() < 0.6 else self.writer.title(34)
        dark = self.rng.random() < 0.25
        panel = (48, 48, 48) if dark else (224, 224, 224) if self.rng.random() < 0.5 else (255, 255, 255)
        ink = (240, 240, 240) if dark else (0, 0, 0)
        look = Look(bold=True, first=0, panel=panel, ink=ink, above=1.4, below=0.9, font="heading", scale=1.08)
        nodes: list[Node] = [plain("heading", title, look, 2)]
        for _ in range(int(self.rng.integers(2, 6))):
            if self.style.ticks is not None and self.rng.random() < 0.3:
                nodes += self.tick_row()
            elif self.rng.random() < 0.1:
                nodes.append(plain("text", self.writer.paragraph(140), Look(scale=0.85, first=0)))
            else:
                nodes.append(self.row())
        return nodes


def form_flow(rng: Rng, make: Composer) -> tuple[list[Item], list[Node]]:
    """Title items and nodes of a form that fills about a page."""
    form = _Form(rng, make, 0.15 if rng.random() < 0.2 else float(rng.uniform(0.6, 1.0)))
    writer = make.writer
    align = pick(rng, ("left", "center", "left"))
    title = [
        plain(
            "heading", writer.title(44), Look(scale=1.7, bold=True, font="heading", first=0, align=align, below=0.9), 1
        )
    ]
    if rng.random() < 0.6:
        title.append(
            plain("text", writer.paragraph(160), Look(scale=0.85, first=0, italic=bool(rng.random() < 0.4), below=1.0))
        )
    nodes: list[Node] = []
    goal = float(rng.uniform(20, 36)) * make.style.height / 842 * 10 / make.style.size
    number = 0
    while len(nodes) < goal:
        number += 1
        nodes += form.section(number)
    return title, nodes


def form_style(style: PageStyle) -> PageStyle:
    """The page's style, with room for combs and frames around the letters."""
    return replace(style, first_em=0.0, justify=False, columns=1, leading_em=max(style.leading_em, 0.7))
