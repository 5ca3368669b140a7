"""Pictures of pages and lines: scaling, cropping, straightening, and telling ink from paper.

Numbers first, torch never: everything here is numpy and PIL, so the data pipeline, the parser and the model's
input share one definition.  Model input is ``to_float``: white paper is 0 and black ink is 1, so padding with
zeros adds paper.  Angles are degrees, counter-clockwise as one looks at the page.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

from docvision.page import Box

LINE_HEIGHT = 32
MAX_LINE_WIDTH = 8192
"""Pixels: 256 line heights, more than any page has in a line. It bounds what a rule taken for a line costs."""
LINE_PAD_Y = 0.12
"""Share of a line box's height added above and below, for accents and descenders that the box cuts."""
LINE_PAD_X = 0.3
PAPER = 255
_DESKEW_SIDE = 1000
"""Longer side in pixels at which the angle is searched: text is then about 5 px high, enough for 0.05 degrees."""

_DESKEW_POINTS = 40_000
DARK = 96
"""Median level below which a page is light print on dark ground."""
HALFTONE = 0.02
"""Share of pixels that differ from all their neighbours from which a picture of two levels is a halftone."""


def grey(image: Image.Image) -> Image.Image:
    """One channel of 8 bits; transparency shows white paper."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        paper = Image.new("RGBA", rgba.size, (PAPER, PAPER, PAPER, 255))
        image = Image.alpha_composite(paper, rgba)
    return image if image.mode == "L" else image.convert("L")


def eight_bits(image: Image.Image) -> Image.Image:
    """A grey picture of integers or floats as 8 bits: white is the most that 8, 10, 12, 14 or 16 bits hold, or 1.0."""
    levels = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0)
    most = float(levels.max(initial=0.0))
    white = next((float(2**bits - 1) for bits in (8, 10, 12, 14, 16) if most < 2**bits), most)
    white = 1.0 if image.mode == "F" and most <= 1.0 else white
    return Image.fromarray((levels.clip(0, white) * (PAPER / white)).astype(np.uint8))


def positive(image: Image.Image) -> Image.Image:
    """A grey page with dark print: one that is mostly dark (a negative, a screen in dark mode) turned over."""
    return ImageOps.invert(image) if float(np.median(np.asarray(image))) < DARK else image


def smooth_halftone(image: Image.Image) -> Image.Image:
    """A picture of two levels with the dots of a halftone smoothed to grey; another as it is.

    In a halftone many pixels differ from all four neighbours; in line art and scans less than one in a thousand do.
    """
    dark = np.asarray(image) < 128
    inner = dark[1:-1, 1:-1]
    sides = dark[:-2, 1:-1], dark[2:, 1:-1], dark[1:-1, :-2], dark[1:-1, 2:]
    lone = np.logical_and.reduce([inner != side for side in sides])
    return image.filter(ImageFilter.GaussianBlur(1.5)) if lone.size and lone.mean() > HALFTONE else image


def to_float(image: Image.Image) -> NDArray[np.float32]:
    """``(255 - grey) / 255`` as (height, width): white paper is 0, black ink is 1."""
    return ((PAPER - np.asarray(grey(image), dtype=np.float32)) / PAPER).astype(np.float32, copy=False)


def from_float(pixels: NDArray[np.float32]) -> Image.Image:
    """The inverse of :func:`to_float`, values clipped to [0, 1] first."""
    levels = PAPER - np.rint(np.clip(pixels, 0.0, 1.0) * PAPER)
    return Image.fromarray(levels.astype(np.uint8))


def fit(image: Image.Image, width: int, height: int) -> tuple[Image.Image, float]:
    """Shrink to at most ``width`` x ``height`` pixels, keeping the aspect; a smaller image is left alone.

    Returns:
        The image and the factor by which its sides were multiplied.
    """
    scale = min(1.0, width / image.width, height / image.height)
    if scale == 1.0:
        return image, 1.0
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0), scale


def pad(image: Image.Image, width: int, height: int) -> Image.Image:
    """Add white paper at the right and bottom up to ``width`` x ``height``.

    Raises:
        ValueError: the image is larger than that.
    """
    if image.width > width or image.height > height:
        raise ValueError(f"cannot pad {image.width} x {image.height} px to {width} x {height}: fit() it first")
    if image.size == (width, height):
        return image
    padded = Image.new("L", (width, height), PAPER)
    padded.paste(grey(image), (0, 0))
    return padded


def crop_line(image: Image.Image, box: Box, height: int = LINE_HEIGHT) -> Image.Image:
    """A text line cut out and scaled to the height that the line reader takes.

    Args:
        image: page raster.
        box: the line in pixels of ``image``; it may reach over the edges, where paper is added.
        height: pixels of the result.

    Returns:
        Grey image, ``height`` high, at most ``MAX_LINE_WIDTH`` wide (a longer line is squeezed).
    """
    side = max(box.height, 1.0)
    padded = box.pad(LINE_PAD_X * side, LINE_PAD_Y * side)
    x0, y0, x1, y1 = (
        int(np.floor(padded.x0)),
        int(np.floor(padded.y0)),
        int(np.ceil(padded.x1)),
        int(np.ceil(padded.y1)),
    )
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)
    inside = (max(x0, 0), max(y0, 0), min(x1, image.width), min(y1, image.height))
    crop = Image.new("L", (x1 - x0, y1 - y0), PAPER)
    if inside[0] < inside[2] and inside[1] < inside[3]:
        held = grey(image.crop(inside))
        # Beyond the picture goes on what its paper looks like; a white frame around grey paper would read as strokes.
        crop.paste(int(np.percentile(np.asarray(held), 75)), (0, 0, *crop.size))
        crop.paste(held, (inside[0] - x0, inside[1] - y0))
    width = min(max(round(crop.width * height / crop.height), 1), MAX_LINE_WIDTH)
    return crop.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0)


def rotate(image: Image.Image, angle: float) -> Image.Image:
    """Turn counter-clockwise about the centre; the size stays, corners fill with white paper."""
    if angle == 0:
        return image
    paper = PAPER if image.mode in ("L", "1") else tuple([PAPER] * len(image.getbands()))
    return image.rotate(angle, resample=Image.Resampling.BICUBIC, fillcolor=paper)


def rotate_box(box: Box, angle: float, width: float, height: float) -> Box:
    """The upright box around ``box`` after :func:`rotate` of a ``width`` x ``height`` image by ``angle``."""
    turn = np.deg2rad(angle)
    cos, sin = float(np.cos(turn)), float(np.sin(turn))
    corners = [(x - width / 2, y - height / 2) for x in (box.x0, box.x1) for y in (box.y0, box.y1)]
    xs = [x * cos + y * sin + width / 2 for x, y in corners]
    ys = [-x * sin + y * cos + height / 2 for x, y in corners]
    return Box(min(xs), min(ys), max(xs), max(ys))


def ink_mask(image: Image.Image, window: int = 31, contrast: float = 0.12) -> NDArray[np.bool_]:
    """Where ink is: pixels darker than their surroundings.

    A threshold for each pixel follows shadows and yellowed paper, which one for the page does not.  The inside
    of a dark area wider than ``window`` counts as paper: its middle is no darker than what is around it.

    Args:
        image: any mode.
        window: side in pixels of the surroundings; about three times the height of the text.
        contrast: share of the grey scale by which ink must be darker.
    """
    small = grey(image)
    mean = np.asarray(small.filter(ImageFilter.BoxBlur(window // 2)), dtype=np.int16)
    return np.asarray(small, dtype=np.int16) < mean - round(contrast * PAPER)


def is_blank(image: Image.Image, share: float = 2e-5) -> bool:
    """Whether there is nothing to read: all paper, all black, or specks below ``share`` of the area.

    One full stop in 10 points on A4 is 3e-6 of the page and a word of five letters about 1e-4.
    """
    small, _ = fit(grey(image), 2000, 2000)
    mask = ink_mask(small)
    return int(mask.sum()) <= max(2, share * mask.size)


def deskew_angle(image: Image.Image, limit: float = 5.0) -> float:
    """The turn that makes the text lines level, by the sharpest projection profile.

    Args:
        image: page raster.
        limit: largest angle that is looked for, in degrees.

    Returns:
        Angle for :func:`rotate`; 0 where no angle stands out (blank pages, pictures, fewer than two lines).
    """
    small, _ = fit(grey(image), _DESKEW_SIDE, _DESKEW_SIDE)
    ys, xs = np.nonzero(ink_mask(small))
    if len(xs) < 200:
        return 0.0
    if len(xs) > _DESKEW_POINTS:
        # Drawn at random, from a fixed seed: every n-th point would be a lattice with angles of its own.
        chosen = np.random.default_rng(0).integers(0, len(xs), _DESKEW_POINTS)
        ys, xs = ys[chosen], xs[chosen]
    x, y = xs - np.float64(small.width / 2), ys - np.float64(small.height / 2)
    coarse = np.arange(-limit, limit + 1e-6, 0.5)
    scores = np.array([_sharpness(x, y, angle, small.size) for angle in coarse])
    best = float(coarse[int(scores.argmax())])
    if scores.max() < 1.2 * np.median(scores):
        return 0.0
    for stride in (0.1, 0.02):
        near = best + stride * np.arange(-5, 6)
        best = float(near[int(np.argmax([_sharpness(x, y, angle, small.size) for angle in near]))])
    return round(best, 2) if abs(best) <= limit else 0.0


def _sharpness(x: NDArray[np.float64], y: NDArray[np.float64], angle: float, size: tuple[int, int]) -> float:
    """How much neighbouring rows differ in ink when the page is turned by ``angle``."""
    turn = np.deg2rad(angle)
    rows = y * np.cos(turn) - x * np.sin(turn)
    reach = int(np.hypot(*size) / 2) + 2
    profile = np.bincount((rows + reach).astype(np.int64), minlength=2 * reach + 1).astype(np.float64)
    return float(np.square(np.diff(profile)).sum())
