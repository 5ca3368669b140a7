"""Paper, margins, columns and faces that suit each kind of page."""

from __future__ import annotations

import numpy as np

from data_pipeline import chance
from data_pipeline.form_fields import TICKS
from data_pipeline.layouts import Family, PageStyle

Rng = np.random.Generator

_SIZES = {
    "a4": (595.28, 841.89),
    "letter": (612.0, 792.0),
    "a5": (419.5, 595.3),
    "legal": (612.0, 1008.0),
    "b5": (498.9, 708.7),
    "octavo": (360.0, 560.0),
    "roll": (204.0, 430.0),
    "longroll": (226.0, 640.0),
    "wide": (720.0, 405.0),
    "screen": (720.0, 540.0),
}


_GROUPS = {
    "typescript": (*("typewriter",) * 8, "mono", "dotmatrix"),
    "oldprint": ("serif", "serif", "serif", "blackletter"),
    "receipt": ("mono", "mono", "dotmatrix", "typewriter", "sans"),
    "slide": ("sans", "sans", "serif"), "form": ("sans", "sans", "serif", "typewriter"),
}  # fmt: skip
"""Groups of body families, all equally likely; serif twice as often as sans for the other kinds."""
_OLD_FAMILIES = (
    "Old Standard", "GFS Didot", "CMU Serif", "Latin Modern Roman", "GFS Artemisia", "Goudy Bookletter 1911",
    "Linux Libertine O", "EB Garamond", "ADF Baskervald", "Baskervald ADF Std", "Libre Baskerville", "Cardo",
)  # fmt: skip
_PAPERS = {
    "book": ("a5", "b5", "a4", "letter"), "newspaper": ("a4", "legal", "letter"), "oldprint": ("a5", "b5", "octavo"),
    "receipt": ("roll", "roll", "longroll"), "slide": ("wide", "wide", "screen"),
}  # fmt: skip
_COLUMNS = {
    "paper": (1, 2, 2, 2, 2, 3), "report": (1, 1, 1, 2), "manual": (1, 1, 2), "newspaper": (3, 4, 4, 5),
    "tables": (1, 1, 1, 2), "references": (1, 2, 2), "contents": (1, 1, 1, 2),
}  # fmt: skip
_POINTS = {
    "newspaper": (7.0, 9.5), "paper": (8.0, 11.0), "letter": (10.0, 12.0), "tables": (7.5, 11.0),
    "typescript": (9.5, 12.5), "oldprint": (8.5, 11.0), "receipt": (7.5, 10.0), "slide": (15.0, 24.0),
}  # fmt: skip
_JUSTIFIED = {"paper", "book", "newspaper", "report", "oldprint"}
_ONE_FACE = {"typescript", "receipt", "oldprint"}
"""Kinds whose headings are in the body's family."""


def body_family(rng: Rng, kind: str, families: dict[str, tuple[Family, ...]]) -> Family:
    """The family of a page's running text."""
    body = _family(rng, families, _GROUPS.get(kind, ("serif", "serif", "sans")))
    if kind == "oldprint" and body.group == "serif":
        old = [family for family in families["serif"] if family.name in _OLD_FAMILIES]
        return chance.pick(rng, old) if old else body
    return body


def _family(rng: Rng, families: dict[str, tuple[Family, ...]], groups: tuple[str, ...]) -> Family:
    available = [group for group in groups if families.get(group)] or list(families)
    return chance.pick(rng, families[chance.pick(rng, available)])


def page_style(rng: Rng, kind: str, families: dict[str, tuple[Family, ...]], body: Family, language: str) -> PageStyle:
    """Paper, margins, columns and type for a page of this kind, whose text is set in ``body``."""
    width, height = _SIZES[chance.pick(rng, _PAPERS.get(kind, ("a4", "a4", "a4", "letter", "legal")))]
    if kind == "tables" and rng.random() < 0.35:
        width, height = height, width
    count = int(chance.pick(rng, _COLUMNS.get(kind, (1,))))
    size = float(rng.uniform(*_POINTS.get(kind, (8.5, 12.0))))
    side = float(rng.uniform(28, 60) if count > 1 else rng.uniform(40, 105)) * width / 595
    top, bottom = (float(value) for value in rng.uniform(45, 95, 2))
    if kind in ("receipt", "slide"):
        side, top, bottom = side * 0.6, top * 0.4, bottom * 0.4
    heading = mono = body
    if kind not in _ONE_FACE:
        heading = body if rng.random() < 0.5 else _family(rng, families, ("serif", "sans", "sans", "display"))
        mono = _family(rng, families, ("mono", "typewriter"))
    justify = bool(rng.random() < (0.75 if kind in _JUSTIFIED else 0.3))
    leading = float(rng.uniform(0.42, 0.85))
    if kind == "typescript":
        # Typewriters advance by one line, one and a half or two.
        justify, leading = bool(rng.random() < 0.04), float(chance.pick(rng, (0.45, 0.62, 0.9, 1.35, 1.6)))
        leading *= float(rng.uniform(0.92, 1.1))
    indented = kind == "oldprint" or rng.random() < 0.45
    everyone = [family for members in families.values() for family in members]
    return PageStyle(
        width, height, (side, top, side * float(rng.uniform(0.8, 1.2)), bottom), count, float(rng.uniform(10, 26)),
        body, heading, mono, size, leading,
        spacing_em=leading if indented and rng.random() < 0.7 else leading + float(rng.uniform(0.3, 1.1)),
        first_em=float(rng.uniform(1.0, 3.0)) if indented else 0.0, justify=justify,
        hyphenate=justify or bool(rng.random() < 0.15), language=language,
        column_rule=count > 1 and bool(rng.random() < (0.5 if kind == "newspaper" else 0.12)),
        header_rule=bool(rng.random() < 0.3), footer_rule=bool(rng.random() < 0.15),
        filled=_family(rng, families, ("script", "script", "typewriter", body.group)) if kind == "form" else None,
        ticks=next((family for family in everyone if family.characters.issuperset(TICKS)), None),
    )  # fmt: skip
