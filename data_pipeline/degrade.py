"""What paper, printers, scanners, faxes and cameras do to a page; boxes follow.

``degrade(image, boxes, rng, difficulty)`` works on a text line as on a whole page.  It picks a *history* (how this
image came about: born digital, scan, photocopy, fax, thermal printer, camera, old typescript) and applies that
history's steps in physical order: ink, paper, optics and geometry, sensor, coding.  Strengths grow with ``difficulty``.

Only :class:`~data_pipeline.warp.Warp` moves pixels; its forward map moves the boxes.  All chance comes from the
generator that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from data_pipeline import wear
from data_pipeline.chance import weighted
from data_pipeline.noise import noise, smooth_field
from data_pipeline.oddities import oddity
from data_pipeline.warp import MAX_ANGLE, Warp, random_warp

Rng = np.random.Generator
__all__ = ["HISTORIES", "MAX_ANGLE", "History", "Warp", "degrade", "noise", "random_warp"]

Step = Callable[[np.ndarray, Rng, float], np.ndarray]


def _to_uint8(image: np.ndarray) -> np.ndarray:
    # convertScaleAbs would fold negatives up; a clip keeps them black.
    return np.clip(image, 0, 255).astype(np.uint8)


def _add(image: np.ndarray, field: np.ndarray, strength: float, gain: float = 1.0) -> np.ndarray:
    """``gain * image + strength * field``, rounded and kept within 0 to 255 in one pass."""
    return cv2.addWeighted(image.astype(np.float32), gain, field, strength, 0, dtype=cv2.CV_8U)


def _level(image: np.ndarray, percent: float) -> float:
    """A percentile of the grey levels, from a sample of the rows: exact ones take longer than all else here."""
    return float(np.percentile(image[:: max(1, image.shape[0] // 24), ::2], percent))


# ink


def ink_spread(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """Thicker or thinner strokes with a soft threshold: blur, then shift and steepen the edge."""
    sigma = rng.uniform(0.4, 0.6 + 0.6 * d)
    shift = rng.uniform(-0.22, 0.22) * (0.3 + d)
    gain = rng.uniform(1.2, 2.2)
    blurred = cv2.GaussianBlur(image, (0, 0), sigma)
    low, high, _, _ = cv2.minMaxLoc(blurred)
    level = (np.arange(256, dtype=np.float32) - low) / max(1.0, high - low)
    return cv2.LUT(blurred, _to_uint8(low + (high - low) * np.clip((level - 0.5 + shift) * gain + 0.5, 0, 1)))


def ink_uneven(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """Ink that fades in patches, as from a worn ribbon or a cold thermal head."""
    paper = _level(image, 90)
    field = 1 - rng.uniform(0.1, 0.25 + 0.5 * d) * smooth_field(image.shape, rng, 4)
    field -= rng.uniform(0, 0.05 + 0.16 * d) * np.abs(noise("grain", image.shape, rng))
    # paper + (image - paper) * field, with the part that has no pixel in it apart.
    faded = cv2.multiply(image.astype(np.float32), field)
    return _add(faded, 1 - field, paper)


def ink_holes(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """White pin-holes in strokes and specks of ink beside them."""
    field = noise("grain", image.shape, rng)
    paper, ink = int(_level(image, 90)), int(image.min())
    out = image.copy()
    out[field > 3.6 - 1.2 * d * rng.random()] = paper
    out[field < -(4.1 - 0.9 * d * rng.random())] = ink
    return out


def ribbon(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """A typewriter's strokes: letter by letter a little stronger or weaker, higher or lower, by less than a pixel."""
    height, width = image.shape
    cells = max(2, height // 18), max(2, width // 9)
    size = width, height
    hop = rng.normal(0, 0.25 + 0.3 * d, cells).astype(np.float32).clip(-0.9, 0.9)
    rows = cv2.resize(hop, size, interpolation=cv2.INTER_LINEAR) + np.arange(height, dtype=np.float32)[:, None]
    columns = np.broadcast_to(np.arange(width, dtype=np.float32), image.shape)
    moved = cv2.remap(image, np.ascontiguousarray(columns), rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    force = 1 - np.float32(0.15 + 0.35 * d) * rng.random(cells, dtype=np.float32)
    field = cv2.resize(force, size, interpolation=cv2.INTER_LINEAR)
    return _add(cv2.multiply(moved.astype(np.float32), field), 1 - field, _level(image, 90))


def erode_or_dilate(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """One pixel more or less of ink, mixed in by strength."""
    kernel = np.ones((2, 2) if rng.random() < 0.7 else (3, 3), np.uint8)
    moved = cv2.erode(image, kernel) if rng.random() < 0.6 else cv2.dilate(image, kernel)
    share = rng.uniform(0.2, 0.4 + 0.4 * d)
    return cv2.addWeighted(moved, share, image, 1 - share, 0)


# paper and light


def paper_texture(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """Grain and mottle of the paper, and a darker tone."""
    tone = rng.uniform(0, 0.12 + 0.3 * d * rng.random())
    grain, mottle = noise("grain", image.shape, rng), noise("mottle", image.shape, rng)
    field = cv2.addWeighted(grain, rng.uniform(0.5, 2 + 5 * d), mottle, rng.uniform(0.5, 1 + 4 * d), 0)
    return _add(image, field, 1.0, 1 - tone)


def bleed_through(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """The other side's print: the image itself mirrored, shifted, blurred and faint."""
    height, width = image.shape
    back = np.roll(image[:, ::-1], (int(rng.integers(-height // 2, height // 2 + 1)), int(rng.integers(width))), (0, 1))
    back = cv2.GaussianBlur(back, (0, 0), rng.uniform(0.8, 2.5)).astype(np.float32)
    paper = _level(back, 90)
    return _add(image, np.maximum(0, np.float32(paper) - back), -rng.uniform(0.05, 0.12 + 0.25 * d))


def shadow(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """Light that falls off across the page."""
    height, width = image.shape
    if rng.random() < 0.5:
        field = smooth_field(image.shape, rng, 2)
    else:
        direction = rng.uniform(0, 2 * np.pi)
        xs = np.linspace(-0.5, 0.5, width, dtype=np.float32)[None] * np.float32(np.cos(direction))
        ys = np.linspace(-0.5, 0.5, height, dtype=np.float32)[:, None] * np.float32(np.sin(direction))
        field = np.clip((xs + ys) * np.float32(rng.uniform(0.7, 6)) + np.float32(0.5 + rng.uniform(-0.4, 0.4)), 0, 1)
    return cv2.multiply(
        image.astype(np.float32), 1 - np.float32(rng.uniform(0.1, 0.2 + 0.45 * d)) * field, dtype=cv2.CV_8U
    )


def creases(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """A few dark or light folds, scratches and scanner streaks."""
    height, width = image.shape
    out = image.copy()
    for _ in range(int(rng.integers(1, 3))):
        color = int(rng.integers(60, 256))
        if rng.random() < 0.5:
            x = int(rng.integers(width))
            ends = (x, 0), (x + int(rng.normal(0, 3)), height)
        else:
            ends = (
                (int(rng.integers(width)), int(rng.integers(height))),
                (int(rng.integers(width)), int(rng.integers(height))),
            )
        layer = out.copy()
        cv2.line(layer, *ends, color, 1, cv2.LINE_AA)
        share = rng.uniform(0.1, 0.25 + 0.4 * d)
        out = cv2.addWeighted(layer, share, out, 1 - share, 0)
    return out


def thermal(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """Grey thermal print: rows and columns of the head that heat less, pale ink, grey paper."""
    height, width = image.shape
    ink, paper = rng.uniform(20, 70 + 70 * d), rng.uniform(190, 250)
    value = cv2.LUT(image, (ink + (paper - ink) * np.arange(256) / 255).astype(np.float32))
    rows = 1 - rng.uniform(0, 0.1 + 0.3 * d) * rng.random((height, 1), dtype=np.float32)
    columns = np.ones((1, width), np.float32)
    if rng.random() < 0.3:
        columns[0, rng.integers(0, width, int(rng.integers(1, 4)))] = rng.uniform(0, 0.5)
    return _to_uint8(np.float32(paper) + (value - np.float32(paper)) * (rows * columns).astype(np.float32))


# optics, sensor, coding


def low_resolution(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """Down to a smaller raster and back to the old size."""
    height, width = image.shape
    factor = 1 - rng.uniform(0.05, 0.15 + 0.4 * d)
    small_size = max(1, round(width * factor)), max(1, round(height * factor))
    down = (cv2.INTER_AREA, cv2.INTER_LINEAR, cv2.INTER_NEAREST)[int(rng.choice(3, p=[0.6, 0.3, 0.1]))]
    up = (cv2.INTER_LINEAR, cv2.INTER_CUBIC, cv2.INTER_NEAREST)[int(rng.choice(3, p=[0.5, 0.4, 0.1]))]
    return cv2.resize(cv2.resize(image, small_size, interpolation=down), (width, height), interpolation=up)


def blur(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """A lens or scanner slightly out of focus, unequal along x and y."""
    sigma = rng.uniform(0.3, 0.5 + 0.9 * d)
    return cv2.GaussianBlur(image, (0, 0), sigma, sigmaY=sigma * rng.uniform(0.7, 1.4))


def sensor_noise(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    return _add(image, noise("white", image.shape, rng), rng.uniform(1, 3 + 14 * d))


def levels(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """Brightness, contrast and gamma by one table."""
    x = np.arange(256, dtype=np.float32) / 255
    low, high = rng.uniform(0, 0.1 + 0.3 * d * rng.random()), rng.uniform(1 - 0.25 * d, 1.05)
    table = low + (high - low) * x ** np.exp(rng.normal(0, 0.15 + 0.2 * d))
    return cv2.LUT(image, _to_uint8(table * 255))


def threshold(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """One bit a pixel: fixed, local or dithered threshold, after noise."""
    noisy: np.ndarray = image + noise("grain", image.shape, rng) * np.float32(rng.uniform(0, 4 + 14 * d))
    low, high = _level(noisy, 1), _level(noisy, 95)
    style = rng.random()
    if style < 0.2:
        size = 2 * int(rng.integers(7, 18)) + 1
        return cv2.adaptiveThreshold(
            _to_uint8(noisy), 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, size, float(rng.uniform(8, 20))
        )
    cut = low + (high - low) * rng.uniform(0.5 - 0.15 * d - 0.05, 0.6 + 0.15 * d)
    if style < 0.28:
        tile = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.float32) / 16 - 0.5
        repeat = -(-image.shape[0] // 4), -(-image.shape[1] // 4)
        noisy = noisy + np.tile(tile, repeat)[: image.shape[0], : image.shape[1]] * (high - low) * 0.6
    return (noisy > np.float32(cut)).view(np.uint8) * np.uint8(255)


def jpeg(image: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    quality = int(rng.uniform(85 - 60 * d, 95 - 25 * d))
    coded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    decoded = cv2.imdecode(coded, cv2.IMREAD_GRAYSCALE)
    assert decoded is not None, "OpenCV cannot read its own JPEG"
    return decoded


# histories


@dataclass(frozen=True, slots=True)
class History:
    """Steps with their probabilities, before and after the geometry, and how much geometry."""

    share: float
    before: tuple[tuple[Step, float], ...]
    after: tuple[tuple[Step, float], ...]
    warp: float = 0.0
    """Probability of a warp."""
    bend: float = 0.0
    """Curvature in thousandths of the width."""


HISTORIES: dict[str, History] = {
    "digital": History(0.22, ((levels, 0.3),), ((low_resolution, 0.35), (blur, 0.2), (oddity, 0.12), (jpeg, 0.6))),
    "scan": History(
        0.30,
        ((ink_spread, 0.5), (ink_uneven, 0.3), (erode_or_dilate, 0.2), (paper_texture, 0.5), (bleed_through, 0.2)),
        ((blur, 0.6), (shadow, 0.15), (levels, 0.5), (low_resolution, 0.25), (sensor_noise, 0.5), (oddity, 0.12),
         (jpeg, 0.6)),
        0.6,
    ),
    "copy": History(
        0.12,
        ((ink_spread, 0.8), (ink_holes, 0.7), (erode_or_dilate, 0.5), (creases, 0.3)),
        ((blur, 0.4), (threshold, 0.45), (levels, 0.4), (low_resolution, 0.3), (jpeg, 0.4)),
        0.7,
    ),
    "fax": History(
        0.07,
        ((ink_spread, 0.5), (low_resolution, 0.8)),
        ((threshold, 1.0), (ink_holes, 0.5), (blur, 0.3), (jpeg, 0.3)),
        0.6,
    ),
    "thermal": History(
        0.07,
        ((ink_spread, 0.5), (thermal, 1.0), (ink_uneven, 0.5)),
        ((blur, 0.6), (shadow, 0.4), (creases, 0.3), (sensor_noise, 0.6), (jpeg, 0.7)),
        0.6,
        2,
    ),
    "camera": History(
        0.12,
        ((ink_spread, 0.3), (paper_texture, 0.6)),
        ((low_resolution, 0.3), (blur, 0.7), (shadow, 0.9), (levels, 0.6), (sensor_noise, 0.8), (oddity, 0.35),
         (jpeg, 0.9)),
        0.9,
        4,
    ),
    "old": History(
        0.10,
        ((ribbon, 0.4), (ink_uneven, 0.6), (ink_spread, 0.6), (ink_holes, 0.4), (bleed_through, 0.4),
         (paper_texture, 1.0)),
        ((blur, 0.7), (creases, 0.2), (shadow, 0.3), (sensor_noise, 0.5), (jpeg, 0.6)),
        0.7,
        1,
    ),
}  # fmt: skip
"""How an image came about, with shares."""

_SHARES = {name: history.share for name, history in HISTORIES.items()}


def degrade(
    image: np.ndarray, boxes: np.ndarray, rng: Rng, difficulty: float, history: str = "", max_angle: float = MAX_ANGLE
) -> tuple[np.ndarray, np.ndarray]:
    """The image after one history, and where the boxes went.

    Args:
        image: uint8 grey, ``(height, width)``.
        boxes: float ``(N, 4)``, x0 y0 x1 y1 in pixels.
        rng: the only source of chance.
        difficulty: 0 (almost nothing happens) to 1.
        history: a key of :data:`HISTORIES`; empty for a random one.
        max_angle: largest rotation in degrees.

    Returns:
        An image of the same size and the moved boxes, not clipped to the image.
    """
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    name = history or weighted(rng, _SHARES)
    if name not in HISTORIES:
        raise ValueError(f"unknown history {name!r}: use one of {', '.join(HISTORIES)}")
    steps = HISTORIES[name]
    # A clean sample goes through fewer steps, each of them weak.
    chance = min(1.0, 0.15 + 1.1 * difficulty)
    whole = wear.is_page(image, boxes)
    if whole and name != "digital":
        image = wear.mark_page(image, boxes, rng, difficulty)
    for step, share in steps.before:
        if rng.random() < share * chance:
            image = step(image, rng, difficulty)
    if rng.random() < steps.warp * chance:
        bend = image.shape[1] * steps.bend / 1000 * difficulty
        warp = random_warp(image.shape, rng, 0.3 + 0.7 * difficulty, max_angle, bend if rng.random() < 0.5 else 0.0)
        image, boxes = warp.image(image), warp.boxes(boxes)
    for step, share in steps.after:
        if rng.random() < share * chance:
            image = step(image, rng, difficulty)
    if whole and name != "digital":
        image = wear.edge_page(image, boxes, rng, difficulty)
    return image, boxes
