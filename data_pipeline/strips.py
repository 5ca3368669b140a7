"""Putting one line of text on an empty strip: words, letter spacing, typescript, needle printing, rules around it.

The result is *coverage* (0 = paper, 255 = full ink) with the box of the line's ink; colours come later.  PIL spends
about 30 microseconds a glyph, which is most of a sample's time, so a line is drawn once: its neighbours above and
below, of which a crop shows only descenders and tops, are shifted copies of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw

from data_pipeline import fonts
from data_pipeline.fonts import Face

Rng = np.random.Generator
BoxTuple = tuple[float, float, float, float]

MARGIN = 1.9
"""Empty ems at both ends of the strip; crops reach 1.5 em beyond the ink."""
ABOVE, BELOW = 1.85, 1.2
"""Ems of strip above and below the baseline."""


@dataclass(slots=True)
class Strip:
    """A drawn line."""

    ink: np.ndarray
    """uint8 coverage."""
    box: BoxTuple
    """Bounds of the line's ink in pixels."""
    size: float
    """Em in pixels."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How the words are set; lengths in ems."""

    spacing: float = 0.0
    """Added between letters."""
    gap: float = 0.0
    """Added between words, as in justified lines."""
    tab: float = 0.0
    """Added at one of the gaps, as between columns."""
    uneven: float = 0.0
    """Jitter of single letters, as in typescript."""
    second: Face | None = None
    """Face of some of the words: bold or italic words inside a line."""
    small_caps: float = 0.0
    """Size of capitals that stand for small letters, over the em; 0 for none."""
    scale: int = 1
    """Drawn this many times larger and reduced by area: letters land between pixels, as in scans."""


def draw_line(rng: Rng, face: Face, content: str, size: float, setting: Setting, length: float = 0.0) -> Strip:
    """The line at ``size`` pixels per em; ``length`` is its plain width at that size and scale, if it is known."""
    scale = setting.scale
    size = size * scale
    font = fonts.load_font(face, size)
    length = length or font.getlength(content)
    natural = length * (1.35 if setting.second or setting.small_caps else 1.0)
    extra = size * (max(0.0, setting.spacing) * len(content) + setting.tab + max(0.0, setting.gap) * content.count(" "))
    width = int(natural + extra + 2 * MARGIN * size + 4)
    height, baseline = int((ABOVE + BELOW) * size + 2), ABOVE * size + float(rng.random())
    start = MARGIN * size + float(rng.random())
    ink: np.ndarray = np.zeros((height, width), np.uint8)
    if setting.uneven:
        ink, end = _strike(rng, font, content, ink, (start, baseline), setting.uneven * size)
    elif setting.spacing or setting.gap or setting.tab or setting.second or setting.small_caps:
        end = _set_words(ink, rng, font, content, (start, baseline), setting)
    else:
        _put(ink, font, content, start, baseline)
        end = start + length
    box = ink_box(ink, baseline, size, start)
    # Room was reserved for the widest case; what no crop can reach only costs time.
    reach = 0.33 * (box[3] - box[1]) + 0.3 * size
    top, bottom = max(0, int(box[1] - reach)), min(height, int(box[3] + reach) + 2)
    ink = np.ascontiguousarray(ink[top:bottom, : int(max(end, box[2]) + MARGIN * size) + 2])
    box, baseline = (box[0], box[1] - top, box[2], box[3] - top), baseline - top
    if rng.random() < 0.6:
        _add_neighbours(rng, ink, box, size)
    _add_rules(rng, ink, box, (start, baseline, end), size)
    if scale > 1:
        # A whole number of blocks, so that the ink box scales exactly.
        ink = ink[: ink.shape[0] // scale * scale, : ink.shape[1] // scale * scale]
        ink = cv2.resize(ink, (ink.shape[1] // scale, ink.shape[0] // scale), interpolation=cv2.INTER_AREA)
        (x0, y0, x1, y1), size = box, size / scale
        box = x0 / scale, y0 / scale, x1 / scale, y1 / scale
    return Strip(ink, box, size)


def _put(ink: np.ndarray, font: Any, content: str, x: float, y: float) -> None:
    """Draw ``content`` from the pen position ``(x, y)`` on the baseline; what leaves the strip is cut."""
    column, row = int(x), int(y)
    mask, (left, top) = font.getmask2(content, mode="L", anchor="ls", start=(x - column, y - row))
    width, height = mask.size
    if not width or not height:
        return
    glyphs = np.frombuffer(bytes(mask), np.uint8).reshape(height, width)
    x0, y0 = column + left, row + top
    glyphs = glyphs[max(0, -y0) :, max(0, -x0) :]
    target = ink[max(0, y0) : max(0, y0) + glyphs.shape[0], max(0, x0) : max(0, x0) + glyphs.shape[1]]
    if target.size:
        np.maximum(target, glyphs[: target.shape[0], : target.shape[1]], out=target)


def _set_words(
    ink: np.ndarray, rng: Rng, font: Any, content: str, origin: tuple[float, float], setting: Setting
) -> float:
    """Draw the words one by one and return where they end."""
    x, y = origin
    words = content.split(" ")
    tab_after = int(rng.integers(len(words))) if setting.tab else -1
    first, last = sorted(rng.integers(0, len(words) + 1, 2)) if setting.second else (0, 0)
    second = fonts.load_font(setting.second, font.size) if setting.second else font
    space = max(font.getlength(" ") + setting.gap * font.size, 0.12 * font.size)
    small = font.font_variant(size=font.size * setting.small_caps) if setting.small_caps else font
    for number, word in enumerate(words):
        current = second if first <= number < last else font
        for piece, capitals in _pieces(word, setting):
            face = small if capitals else current
            _put(ink, face, piece, x, y)
            x += face.getlength(piece) + setting.spacing * font.size
        x += space + font.size * (setting.spacing + setting.tab * (number == tab_after))
    return x - space


def _pieces(word: str, setting: Setting) -> list[tuple[str, bool]]:
    """A word in the pieces that are drawn at once, and whether a piece is set in small capitals."""
    if setting.small_caps:
        runs = [(lower, "".join(letters)) for lower, letters in groupby(word, str.islower)]
        return [(piece.upper() if lower else piece, lower) for lower, piece in runs]
    return [(piece, False) for piece in (word if setting.spacing else (word,)) if piece]


def _strike(
    rng: Rng, font: Any, content: str, ink: np.ndarray, origin: tuple[float, float], jitter: float
) -> tuple[np.ndarray, float]:
    """Types struck one by one: off the line, off the column, with more or less force, through an inked ribbon."""
    x, y = origin
    letters = sorted(set(content) - {" "})
    # A worn or loose type sits wrong each time that it is struck.
    worn = dict(zip(letters, rng.normal(0, 0.8 * jitter, len(letters)), strict=True))
    # One advance for all is what makes a typewriter; asking for each letter's would take as long as drawing it.
    pitch = font.getlength("m") if font.getlength("i") == font.getlength("m") else 0.0
    types = {letter: (*_glyph(font, letter), pitch or font.getlength(letter)) for letter in letters}
    shifts = rng.normal(0, jitter, (len(content), 2))
    force = np.clip(rng.normal(rng.uniform(0.8, 1.0), rng.uniform(0.02, 0.13), len(content)), 0.45, 1.0)
    space = font.getlength(" ")
    for letter, (dx, dy), strength in zip(content, shifts, force, strict=True):
        if letter == " ":
            x += space
            continue
        mask, (left, top), advance = types[letter]
        column, row = max(0, round(x + dx + left)), max(0, round(y + 0.5 * dy + worn[letter] + top))
        target = ink[row : row + mask.shape[0], column : column + mask.shape[1]]
        if target.size:
            struck = (mask[: target.shape[0], : target.shape[1]] * np.float32(strength)).astype(np.uint8)
            np.maximum(target, struck, out=target)
        x += advance
    if rng.random() < 0.7:
        # The ribbon rounds and thickens the strokes.
        soft = cv2.GaussianBlur(ink, (0, 0), float(rng.uniform(0.015, 0.045)) * font.size)
        ink = cv2.convertScaleAbs(soft, alpha=float(rng.uniform(1.0, 1.8)))
    return ink, x


def _glyph(font: Any, letter: str) -> tuple[np.ndarray, tuple[int, int]]:
    """A letter's coverage and its offset from the pen."""
    mask, offset = font.getmask2(letter, mode="L", anchor="ls")
    width, height = mask.size
    if not width or not height:
        return np.zeros((1, 1), np.uint8), offset
    return np.frombuffer(bytes(mask), np.uint8).reshape(height, width), offset


def draw_dots(rng: Rng, face: Face, content: str, size: float) -> Strip:
    """A needle printer: letters on a coarse grid, each of its points a round dot."""
    grid = round(float(rng.uniform(11, 16)))
    pitch = max(1.3, size / grid)
    font = fonts.load_font(face, grid)
    margin, baseline = int(MARGIN * grid), int(ABOVE * grid)
    width, height = int(font.getlength(content) + 2 * margin), int((ABOVE + BELOW) * grid)
    sheet = Image.new("L", (width, height), 0)
    pen = ImageDraw.Draw(sheet)
    pen.fontmode = "1"
    pen.text((margin, baseline), content, fill=255, font=font, anchor="ls")
    coarse = np.array(sheet)
    box = ink_box(coarse, baseline, grid, margin)
    scale = 4
    rows, columns = np.nonzero(coarse)
    fine: np.ndarray = np.zeros((height * scale, width * scale), np.uint8)
    fine[rows * scale + scale // 2, columns * scale + scale // 2] = rng.integers(170, 256, len(rows))
    radius = int(rng.integers(1, 4))
    fine = cv2.dilate(fine, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1)))
    ink = cv2.resize(fine, (int(width * pitch), int(height * pitch)), interpolation=cv2.INTER_AREA)
    x0, y0, x1, y1 = box
    return Strip(ink, (x0 * pitch, y0 * pitch, x1 * pitch, y1 * pitch), grid * pitch)


def ink_box(ink: np.ndarray, baseline: float, size: float, start: float) -> BoxTuple:
    """Bounds of the ink, at least about an x-height tall."""
    inked = ink > 48
    rows, columns = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
    if not len(rows):
        return (start, baseline - 0.5 * size, start + 0.5 * size, baseline)
    top, bottom = float(rows[0]), float(rows[-1] + 1)
    lacking = 0.45 * size - (bottom - top)
    if lacking > 0:
        top, bottom = top - lacking / 2, bottom + lacking / 2
    return (float(columns[0]), top, float(columns[-1] + 1), bottom)


def _add_neighbours(rng: Rng, ink: np.ndarray, box: BoxTuple, size: float) -> None:
    """Copies of the line above and below, shifted sideways."""
    top, bottom = max(0, int(box[1]) - 1), int(box[3]) + 1
    line = ink[top:bottom].copy()
    # Never so tight that the neighbour's ink runs into the line's own letters.
    leading = round(max(float(rng.uniform(1.05, 1.5)) * size, 0.97 * (bottom - top)))
    for direction in (-1, 1):
        first = top + direction * leading
        low, high = max(0, first), min(ink.shape[0], first + len(line))
        if low >= high or rng.random() < 0.15:
            continue
        copied = line[low - first : high - first]
        shift = int(rng.integers(1, max(2, line.shape[1])))
        np.maximum(ink[low:high, shift:], copied[:, :-shift], out=ink[low:high, shift:])
        np.maximum(ink[low:high, :shift], copied[:, -shift:], out=ink[low:high, :shift])


def _add_rules(rng: Rng, ink: np.ndarray, box: BoxTuple, run: tuple[float, float, float], size: float) -> None:
    """Underlines, strikes, ruled paper and cell borders, drawn into ``ink`` for one line in six."""
    draw = rng.random()
    if draw > 0.17:
        return
    start, baseline, end = run
    thick = max(1, round(size * float(rng.uniform(0.03, 0.09))))
    level = int(rng.integers(90, 256))

    def rule(x0: float, y0: float, x1: float, y1: float) -> None:
        # Whole pixels keep a thin rule sharp, as a renderer does.
        layer = np.zeros_like(ink)
        cv2.line(layer, (int(x0), int(y0)), (int(x1), int(y1)), level, thick)
        np.maximum(ink, layer, out=ink)

    if draw < 0.05:
        from_x = start if rng.random() < 0.6 else rng.uniform(start, end)
        to_x = end if rng.random() < 0.6 else rng.uniform(from_x, end)
        y = baseline + size * rng.uniform(0.08, 0.2)
        rule(from_x, y, to_x, y)
    elif draw < 0.062:
        y = baseline - size * rng.uniform(0.22, 0.3)
        rule(start, y, end if rng.random() < 0.7 else (start + end) / 2, y)
    elif draw < 0.10:
        y = baseline + size * rng.uniform(0.05, 0.45)
        rule(0, y, ink.shape[1], y + rng.normal(0, 1))
    else:
        left, right = box[0] - size * rng.uniform(0.15, 1.2), box[2] + size * rng.uniform(0.15, 1.2)
        top, bottom = box[1] - size * rng.uniform(0.1, 0.5), box[3] + size * rng.uniform(0.1, 0.5)
        borders = (
            (left, top, left, bottom),
            (right, top, right, bottom),
            (left, top, right, top),
            (left, bottom, right, bottom),
        )
        for drawn, ends in zip(rng.random(4) < 0.5, borders, strict=True):
            if drawn:
                rule(*ends)
