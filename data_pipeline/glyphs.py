"""Small square pictures with a class: characters, rubber stamps, kinds of paper.

They are what ``imagegen train glyphs_mtar`` learns from; what it draws comes back as paper and stamps of pages through
:mod:`data_pipeline.pictures`.  A character keeps its place on the baseline and its size beside the em, or o, O and 0
would be one picture.  Class names are safe as names of folders, also where case does not count.
"""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from data_pipeline import degrade, fonts, lines, shards, wear
from data_pipeline.chance import pick, weighted
from data_pipeline.noise import noise

Rng = np.random.Generator

GLYPH_SCHEMA = pa.schema(
    [
        ("image", shards.IMAGE_TYPE), ("label", pa.string()), ("text", pa.string()), ("font", pa.string()),
        ("kind", pa.string()), ("difficulty", pa.float32()), ("index", pa.int64()),
    ]
)  # fmt: skip
KINDS = ("character", "stamp", "paper")
STAMPS = ("stamp-round", "stamp-square")
PAPERS = ("paper-plain", "paper-laid", "paper-flecked", "paper-creased")
_BASELINE, _EM = 0.74, 0.78
"""Of the side."""
_TRIES = 24


@dataclass(frozen=True)
class GlyphOptions:
    """What to draw; the recipe's ``options``."""

    size: int = 32
    """Pixels a side."""
    shares: dict[str, float] = field(default_factory=lambda: {"character": 0.8, "stamp": 0.08, "paper": 0.12})
    """Of the kinds."""
    characters: str = string.digits + string.ascii_letters
    """Each of them is a class."""
    faces: int = 0
    """Use no more than this many faces; 0 for all."""
    difficulty: tuple[float, float] = (0.0, 0.5)
    """Range; 0 is clean."""

    def __post_init__(self) -> None:
        if unknown := set(self.shares) - set(KINDS):
            raise ValueError(f"unknown kind of glyph {min(unknown)!r}: use some of {', '.join(KINDS)}")
        if not self.shares or min(self.shares.values()) < 0 or sum(self.shares.values()) <= 0:
            raise ValueError("shares of kinds of glyphs must not be negative and must not all be zero")
        if not 16 <= self.size <= 512:
            raise ValueError(f"size is {self.size}: use 16 to 512 pixels")
        blank = [character for character in self.characters if not character.isprintable() or character.isspace()]
        if not self.characters or blank:
            raise ValueError(f"characters is {self.characters!r}: name at least one, and none that leaves no ink")
        if not 0 <= self.difficulty[0] <= self.difficulty[1] <= 1:
            raise ValueError(f"difficulty is {self.difficulty}: use a range within 0 to 1")


def class_of(character: str) -> str:
    """``A`` -> ``latin-capital-a``, by the character's name in Unicode."""
    name = unicodedata.name(character, f"character {ord(character):04x}").lower()
    return "-".join(word for word in name.replace("-", " ").split() if word != "letter")


def classes(options: GlyphOptions) -> list[str]:
    """Names of all classes that the options allow."""
    named = {"character": [class_of(one) for one in options.characters], "stamp": STAMPS, "paper": PAPERS}
    return sorted({name for kind, share in options.shares.items() if share > 0 for name in named[kind]})


def sample_glyph(rng: Rng, options: GlyphOptions) -> dict[str, Any]:
    """One row: image (PNG), label (the class), text (the character, or nothing), font, kind, difficulty.

    Raises:
        RuntimeError: no face here has a character that the options ask for.
    """
    kind = weighted(rng, options.shares)
    difficulty = float(rng.uniform(*options.difficulty))
    text = face = ""
    if kind == "character":
        text = pick(rng, options.characters)
        label, (image, face) = class_of(text), _character(rng, text, options)
        image = degrade.degrade(image, np.zeros((0, 4)), rng, difficulty)[0]
    elif kind == "stamp":
        label = pick(rng, STAMPS)
        image = _stamp(rng, label, options.size, difficulty)
    else:
        label = pick(rng, PAPERS)
        image = _paper(rng, label, options.size, difficulty)
    return {
        "image": {"bytes": lines.encode_png(image), "path": None}, "label": label, "text": text, "font": face,
        "kind": kind, "difficulty": difficulty,
    }  # fmt: skip


def sources(options: GlyphOptions) -> dict[str, str]:
    """What the pictures depend on besides recipe and seed, and how many classes there are."""
    return {"fonts": fonts.digest(fonts.find_faces(options.faces)), "classes": str(len(classes(options)))}


def _character(rng: Rng, text: str, options: GlyphOptions) -> tuple[np.ndarray, str]:
    printed = {kind: share for kind, share in lines.KIND_SHARES.items() if kind != "empty"}
    for _ in range(_TRIES):
        face = lines.pick_face(rng, weighted(rng, printed), options.faces)
        if text in face.characters:
            break
    else:
        able = [face for face in fonts.find_faces(options.faces) if text in face.characters]
        if not able:
            raise RuntimeError(f"no face on this machine has the character {text!r}: take it out of characters")
        face = pick(rng, able)
    side = options.size
    font = fonts.load_font(face, round(_EM * side * rng.uniform(0.88, 1.1)))
    sheet = Image.new("L", (side, side), 0)
    at = (side * (0.5 + rng.normal(0, 0.03)), side * (_BASELINE + rng.normal(0, 0.02)))
    ImageDraw.Draw(sheet).text(at, text, fill=255, font=font, anchor="ms")
    paper, ink = rng.uniform(205, 255), rng.uniform(0, 95)
    cover = np.asarray(sheet, np.float32) / 255
    return (paper - (paper - ink) * cover).astype(np.uint8), face.name


def _stamp(rng: Rng, label: str, size: int, difficulty: float) -> np.ndarray:
    """A stamp on light paper, drawn larger and reduced, so that its lines land between pixels."""
    scale = max(2, round(160 / size))
    room = scale * size - 12
    side = int(room * rng.uniform(0.8, 0.98))
    wide, high = (side, side) if label == "stamp-round" else (side, int(side * rng.uniform(0.4, 0.8)))
    drawn = wear.rubber_stamp(rng, side, (wide, high), label == "stamp-round")
    layer = np.zeros((scale * size, scale * size), np.uint8)
    top, left = (layer.shape[0] - drawn.shape[0]) // 2, (layer.shape[1] - drawn.shape[1]) // 2
    layer[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn
    small = cv2.resize(layer, (size, size), interpolation=cv2.INTER_AREA)
    paper = np.full((size, size), int(rng.uniform(225, 255)), np.uint8)
    return degrade.paper_texture(wear.ink_over(paper, small, rng.uniform(0.55, 0.95)), rng, 0.3 * difficulty)


def _paper(rng: Rng, label: str, size: int, difficulty: float) -> np.ndarray:
    """Paper alone: its grain, and what tells the kinds apart."""
    image = np.full((size, size), int(rng.uniform(205, 250)), np.uint8)
    if label == "paper-laid":
        # Fine lines of the mould, and wires across them some way apart.
        rows, start = np.arange(size), rng.uniform(0, 9)
        fine = np.sin((rows + start) * (2 * np.pi / rng.uniform(3.0, 4.5)))
        wires = np.exp(-((((rows + start) % (size * 0.6)) - 4) ** 2) / 2)
        field = rng.uniform(3, 8) * fine[:, None] - rng.uniform(6, 14) * wires[None, :]
        image = np.clip(image + field, 0, 255).astype(np.uint8)
    elif label == "paper-flecked":
        for _ in range(int(rng.integers(size // 3, size))):
            x, y = rng.uniform(0, size, 2)
            turn, length = rng.uniform(0, 2 * np.pi), rng.uniform(1, size / 8)
            end = int(x + length * np.cos(turn)), int(y + length * np.sin(turn))
            cv2.line(image, (int(x), int(y)), end, int(rng.uniform(110, 215)), 1, cv2.LINE_AA)
    elif label == "paper-creased":
        # Three calls, for a call may leave nearly nothing at this size.
        for _ in range(3):
            image = degrade.creases(image, rng, 0.6)
    grain = noise("grain", image.shape, rng) * np.float32(rng.uniform(1.0, 2.5))
    image = np.clip(image + grain, 0, 255).astype(np.uint8)
    return degrade.paper_texture(image, rng, 0.5 * difficulty)
