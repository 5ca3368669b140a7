"""One text line as a page's line finder would cut it: drawn at its natural size, degraded, cropped, 32 pixels high.

The crop imitates what the reader gets in use: the ink's extent, padded by about an eighth of its height above and
below and a third of an em at the sides, with jitter.  Sources are often only 10-14 pixels high, as on pages of
72-110 dpi, so many samples look enlarged.  A line of dots and dashes alone gets at least an x-height.

Truth is what stands in the picture: text is filtered by the face's own characters first, and a line too wide for
:data:`MAX_WIDTH` loses words before it is drawn.  Some crops hold nothing to read and have the truth "".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from data_pipeline import chance, fields, fonts, strips, text
from data_pipeline.degrade import degrade, noise
from data_pipeline.fonts import Face

HEIGHT = 32
MAX_WIDTH = 2048
MAX_EMS = 58
"""Widest line in ems: with capitals and descenders it fills MAX_WIDTH when the crop is tight."""

Rng = np.random.Generator

LENGTHS = ((1, 4, 0.10), (5, 20, 0.25), (20, 70, 0.45), (70, 100, 0.15), (100, 160, 0.05))
"""(shortest, longest, share) in characters."""

KIND_SHARES = {
    "print": 0.68, "typewriter": 0.12, "receipt": 0.06, "dotmatrix": 0.04, "script": 0.03,
    "blackletter": 0.05, "empty": 0.02,
}  # fmt: skip
_KIND_GROUPS = {
    "print": {"serif": 0.44, "sans": 0.38, "display": 0.11, "mono": 0.05, "ocr": 0.02},
    "typewriter": {"typewriter": 0.92, "mono": 0.08},
    "receipt": {"mono": 0.5, "sans": 0.2, "dotmatrix": 0.15, "typewriter": 0.1, "ocr": 0.05},
    "dotmatrix": {"mono": 0.4, "dotmatrix": 0.3, "typewriter": 0.3},
    "script": {"script": 1.0},
    "blackletter": {"blackletter": 1.0},
}
_KIND_HISTORIES = {
    "print": {"": 1.0},
    "typewriter": {"old": 0.45, "scan": 0.3, "copy": 0.15, "camera": 0.1},
    "receipt": {"thermal": 0.55, "camera": 0.25, "scan": 0.1, "digital": 0.1},
    "dotmatrix": {"scan": 0.5, "copy": 0.2, "fax": 0.15, "camera": 0.15},
    "script": {"": 1.0},
    "blackletter": {"old": 0.5, "scan": 0.35, "copy": 0.15},
}


@dataclass(frozen=True, slots=True)
class LineOptions:
    """What lines to draw; the recipe's ``options``."""

    corpus: str = "system"
    """``system`` or ``builtin``, see :func:`data_pipeline.text.load_corpus`."""
    faces: int = 0
    """Use no more than this many faces; 0 for all."""
    kinds: dict[str, float] = field(default_factory=lambda: dict(KIND_SHARES))
    """Shares of the kinds; one without a face on this machine is drawn as print."""
    clean: float = 0.3
    """Share of nearly clean lines."""
    difficulty: tuple[float, float] = (0.1, 1.0)
    """Range of difficulty of the others."""
    sizes: tuple[tuple[float, float, float], ...] = ((9.5, 15, 0.42), (15, 28, 0.38), (28, 50, 0.2))
    """(smallest, largest, share) of em sizes in pixels."""

    def __post_init__(self) -> None:
        unknown = set(self.kinds) - set(_KIND_GROUPS) - {"empty"}
        if unknown:
            raise ValueError(f"unknown line kind {min(unknown)!r}: use some of {', '.join([*_KIND_GROUPS, 'empty'])}")
        if not self.kinds or min(self.kinds.values()) < 0 or sum(self.kinds.values()) <= 0:
            raise ValueError("shares of line kinds must not be negative and must not all be zero")


def sample_line(rng: Rng, options: LineOptions) -> dict[str, Any]:
    """One row of the line shards: image, text, width, font, kind, difficulty."""
    kind = chance.weighted(rng, options.kinds)
    difficulty = float(rng.uniform(0, 0.08) if rng.random() < options.clean else rng.uniform(*options.difficulty))
    if kind == "empty":
        image, content, face_name = _empty(rng, difficulty), "", ""
    else:
        face = pick_face(rng, kind, options.faces)
        content = line_text(rng, face, kind, options.corpus)
        image, content = _printed_line(rng, face, kind, content, difficulty, options)
        face_name = face.name
    return {
        "image": {"bytes": encode_png(image), "path": None},
        "text": content,
        "width": image.shape[1],
        "font": face_name,
        "kind": kind,
        "difficulty": difficulty,
    }


def encode_png(image: np.ndarray) -> bytes:
    # Run lengths alone code noisy print as small as the best matches do, in two thirds of the time.
    options = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]
    return cv2.imencode(".png", image, options)[1].tobytes()


# face and text


def pick_face(rng: Rng, kind: str, limit: int = 0) -> Face:
    """A face for this kind of line: a group, then a family, then one of its faces, regular ones twice as often."""
    grouped = _families(limit)
    groups = {group: share for group, share in _KIND_GROUPS[kind].items() if group in grouped}
    families = grouped[chance.weighted(rng, groups or dict.fromkeys(grouped, 1.0))]
    slanted = 0.15 if kind in ("typewriter", "receipt", "dotmatrix") else 0.7
    faces = chance.pick(rng, families)
    weights = [(2.0 if face.weight in (400, 500) else 1.0) * (slanted if face.italic else 1.0) for face in faces]
    return faces[chance.weighted(rng, dict(enumerate(weights)))]


@lru_cache(maxsize=2)
def _families(limit: int) -> dict[str, list[list[Face]]]:
    """Group -> families -> faces."""
    grouped = {}
    for group, faces in fonts.by_group(fonts.find_faces(limit)).items():
        families: dict[str, list[Face]] = {}
        for face in faces:
            families.setdefault(face.family, []).append(face)
        grouped[group] = list(families.values())
    return grouped


def line_text(rng: Rng, face: Face, kind: str, corpus_name: str = "system") -> str:
    """What the line says, in characters that the face has; never empty."""
    corpus = text.load_corpus(corpus_name)
    for _ in range(4):
        content = text.normalise(_raw_text(rng, kind, corpus))
        if rng.random() < 0.09:
            content = text.sprinkle(rng, content, face.characters)
        fitted = text.fit(content, face.characters)
        if fitted and len(fitted) >= 0.97 * len(content):
            return fitted
    return fitted or str(rng.integers(1000))


def _raw_text(rng: Rng, kind: str, corpus: text.Corpus) -> str:
    low, high, _ = chance.weighted(rng, {entry: entry[2] for entry in LENGTHS})
    length = int(rng.integers(low, high + 1))
    if kind == "blackletter" and rng.random() < 0.75:
        return text.old_print(text.running(rng, corpus, length, "de"), spelling=rng.random() < 0.5)
    if length <= 4 and rng.random() < 0.6:
        return fields.mark(rng)
    if kind == "receipt" and length > 4:
        return fields.receipt(rng) if rng.random() < 0.7 else fields.code(rng)
    if rng.random() >= (0.5 if length <= 20 else 0.16):
        content = text.restyle(rng, text.running(rng, corpus, length))
        # Many typewriters have no 1: a capital I or a small l stands for it, and is what there is to read.
        return content.replace("1", chance.pick(rng, "Il")) if kind == "typewriter" and rng.random() < 0.15 else content
    parts: list[str] = []
    while not parts or (sum(map(len, parts)) < 0.6 * length and len(parts) < 8):
        parts.append(fields.make(rng))
    return chance.pick(rng, (" ", " ", ", ", " – ", " | ", "; ")).join(parts)


# drawing


def _printed_line(
    rng: Rng, face: Face, kind: str, content: str, difficulty: float, options: LineOptions
) -> tuple[np.ndarray, str]:
    low, high, _ = chance.weighted(rng, {entry: entry[2] for entry in options.sizes})
    size = round(2 * float(np.exp(rng.uniform(np.log(low), np.log(high))))) / 2
    scale = 2 if size < 26 and rng.random() < (0.6 if kind == "typewriter" else 0.2) else 1
    font = fonts.load_font(face, size * scale)
    length = font.getlength(content)
    while length > MAX_EMS * font.size and len(content) > 1:
        # Words off the end until the line fits; by letters where it has no spaces.
        shorter = content[: max(1, int(len(content) * MAX_EMS * font.size / length) - 1)]
        content = shorter[: shorter.rfind(" ")].rstrip() if " " in shorter.strip() else shorter
        length = font.getlength(content)
    if kind == "dotmatrix":
        strip = strips.draw_dots(rng, face, content, size)
    else:
        setting = _setting(rng, face, kind, content, length / font.size, options.faces)
        strip = strips.draw_line(rng, face, content, size, replace(setting, scale=scale), length)
    image = _colour(rng, strip.ink, kind)
    # Small sources have little to lose: what blurs a 30-pixel line erases a 10-pixel one.
    strength = difficulty * float(np.clip((strip.size - 5) / 16, 0.3, 1.0))
    # A page is deskewed before its lines are cut; what remains drifts by up to a third of a line.
    angle = min(1.5, float(np.rad2deg(np.arctan(0.35 * strip.size / max(1.0, strip.box[2] - strip.box[0])))))
    image, boxes = degrade(
        image, np.array([strip.box]), rng, strength, chance.weighted(rng, _KIND_HISTORIES[kind]), angle
    )
    return to_reader_height(_crop(rng, image, boxes[0], strip.size), rng), content


def _setting(rng: Rng, face: Face, kind: str, content: str, ems: float, limit: int) -> strips.Setting:
    """Spacing, gaps and second faces, as far as the width allows."""
    room = max(0.0, MAX_EMS - ems)
    spaces = content.count(" ")
    draw = rng.random()
    if kind == "typewriter":
        return strips.Setting(uneven=float(rng.uniform(0.004, 0.035))) if draw < 0.8 else strips.Setting()
    setting = strips.Setting()
    if draw < 0.09:
        setting = replace(setting, spacing=min(float(rng.uniform(-0.03, 0.22)), room / len(content)))
    elif draw < 0.27 and spaces > 2:
        setting = replace(setting, gap=min(float(rng.uniform(-0.08, 0.7)), room / spaces))
    elif draw < 0.30 and kind == "print" and _has_small_caps(face, content):
        setting = replace(setting, small_caps=float(rng.uniform(0.7, 0.85))) if room > 0.3 * ems else setting
    elif draw < 0.38 and spaces:
        siblings = [other for other in _siblings(face, limit) if other.characters.issuperset(content.replace(" ", ""))]
        setting = replace(setting, second=chance.pick(rng, siblings)) if siblings and room > 0.3 * ems else setting
    if spaces and (kind == "receipt" or rng.random() < 0.05) and rng.random() < 0.7:
        setting = replace(setting, tab=min(float(rng.uniform(0.5, 8)), room))
    return setting


def _has_small_caps(face: Face, content: str) -> bool:
    """Whether the line can be set in capitals and small capitals, and shows which is which."""
    large = content.upper()
    return (
        len(large) == len(content)
        and large not in (content, content.swapcase())
        and face.characters.issuperset(large.replace(" ", ""))
    )


def _siblings(face: Face, limit: int) -> list[Face]:
    return [
        other
        for family in _families(limit).get(face.group, [])
        if family[0].family == face.family
        for other in family
        if other != face
    ]


def _colour(rng: Rng, ink: np.ndarray, kind: str) -> np.ndarray:
    """Ink and paper in grey: mostly black on white, sometimes coloured, pale or light on dark."""
    draw = rng.random()
    if draw < 0.45:
        dark, light = 0.0, 255.0
    elif draw < 0.80 or kind in ("typewriter", "receipt", "dotmatrix"):
        dark, light = rng.uniform(0, 80), rng.uniform(210, 255)
    elif draw < 0.88:
        dark, light = rng.uniform(80, 150), rng.uniform(225, 255)
    elif draw < 0.93:
        dark, light = rng.uniform(0, 60), rng.uniform(140, 220)
    else:
        dark, light = rng.uniform(180, 255), rng.uniform(0, 110)
    table = light + (dark - light) * np.arange(256, dtype=np.float32) / 255
    image = cv2.LUT(ink, np.clip(table, 0, 255).astype(np.uint8))
    if rng.random() < 0.015:
        ground = noise("cloud", image.shape, rng) * rng.uniform(5, 22)
        image = np.clip(image + ground, 0, 255).astype(np.uint8)
    return image


# cropping


def _crop(rng: Rng, image: np.ndarray, box: np.ndarray, size: float) -> np.ndarray:
    """The line as a line finder cuts it; what lies outside the image repeats the border."""
    height = box[3] - box[1]
    above, below = np.clip(rng.normal(0.12, 0.07, 2), -0.03, 0.30) * height
    wide = rng.random(2) < 0.3
    left, right = np.where(wide, rng.uniform(0, 1.5, 2), np.clip(rng.normal(0.3, 0.15, 2), 0, 1.5)) * size
    x0, x1 = int(np.floor(box[0] - left)), int(np.ceil(box[2] + right))
    y0, y1 = int(np.floor(box[1] - above)), int(np.ceil(box[3] + below))
    y1, x1 = max(y1, y0 + 4), max(x1, x0 + 4)
    pads = max(0, -y0), max(0, y1 - image.shape[0]), max(0, -x0), max(0, x1 - image.shape[1])
    cut = image[max(0, y0) : max(1, y1), max(0, x0) : max(1, x1)]
    return cv2.copyMakeBorder(cut, *pads, cv2.BORDER_REPLICATE) if any(pads) else cut


def to_reader_height(image: np.ndarray, rng: Rng | None = None) -> np.ndarray:
    """Resized to HEIGHT, keeping the aspect up to MAX_WIDTH; ``rng`` varies the interpolation."""
    height, width = image.shape
    target = min(MAX_WIDTH, max(4, round(width * HEIGHT / height)))
    if height > HEIGHT:
        method = cv2.INTER_AREA if rng is None or rng.random() < 0.8 else cv2.INTER_LINEAR
    else:
        method = cv2.INTER_LINEAR if rng is None or rng.random() < 0.7 else cv2.INTER_CUBIC
    return cv2.resize(image, (target, HEIGHT), interpolation=method)


def _empty(rng: Rng, difficulty: float) -> np.ndarray:
    """A crop with nothing to read: blank paper, rules, noise, a piece of a picture."""
    height, width = int(rng.integers(14, 60)), int(np.exp(rng.uniform(np.log(16), np.log(900))))
    paper = float(rng.uniform(170, 255)) if rng.random() < 0.85 else float(rng.uniform(0, 120))
    image: np.ndarray = np.full((height, width), paper, np.float32)
    style = rng.random()
    if style < 0.25:
        y = int(rng.integers(height))
        cv2.line(image, (0, y), (width, y + int(rng.normal(0, 1))), float(rng.uniform(0, 120)), int(rng.integers(1, 5)))
    elif style < 0.40:
        x = int(rng.integers(width))
        cv2.line(image, (x, 0), (x, height), float(rng.uniform(0, 120)), int(rng.integers(1, 4)))
    elif style < 0.60:
        image = (
            128
            + noise("cloud", image.shape, rng) * rng.uniform(15, 60)
            + noise("mottle", image.shape, rng) * rng.uniform(0, 30)
        )
    elif style < 0.70:
        image += noise("white", image.shape, rng) * rng.uniform(5, 60)
    image, _ = degrade(np.clip(image, 0, 255).astype(np.uint8), np.zeros((0, 4)), rng, difficulty)
    return to_reader_height(image, rng)
