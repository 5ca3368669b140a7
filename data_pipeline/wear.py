"""What hands, binders and scanner lids leave on a page: stamps, notes in the margin, holes, dark edges, watermarks.

Nothing here is text for the truth: stamps and notes are drawn as strokes that look like writing and say nothing, and a
watermark is what a parser has to leave out.  They keep to the free parts of the page, except that a stamp may lie over
text now and then, as they do.
"""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from data_pipeline.chance import pick
from data_pipeline.noise import noise

Rng = np.random.Generator

LEAST_BOXES, LEAST_SIDE = 12, 420
"""A picture with fewer boxes or a shorter side is no page."""
_WATERMARKS = ("DRAFT", "COPY", "CONFIDENTIAL", "ENTWURF", "KOPIE", "SPECIMEN", "DUPLICATA", "VERTRAULICH", "MUSTER")


def is_page(image: np.ndarray, boxes_N4: np.ndarray) -> bool:
    return len(boxes_N4) >= LEAST_BOXES and min(image.shape) >= LEAST_SIDE


def mark_page(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """The paper as it came to the scanner: stamped, annotated, punched."""
    likely = min(1.0, 0.3 + d)
    draws = rng.random(5)
    if draws[0] < 0.03 * likely:
        image = _watermark(image, rng)
    if draws[1] < 0.16 * likely:
        image = _stamp(image, boxes_N4, rng)
    if draws[2] < 0.14 * likely:
        image = _notes(image, boxes_N4, rng)
    if draws[3] < 0.10 * likely:
        image = _strokes(image, boxes_N4, rng)
    if draws[4] < 0.08 * likely:
        image = _holes(image, boxes_N4, rng)
    return image


def edge_page(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """What the scanner sees around the paper: the dark lid, the fold of a book, the paper's own edge."""
    draw, likely = rng.random(), min(1.0, 0.25 + d)
    if draw < 0.22 * likely:
        return _dark_edges(image, boxes_N4, rng)
    return _fold(image, boxes_N4, rng, d) if draw < 0.36 * likely else image


def _margins(image: np.ndarray, boxes_N4: np.ndarray) -> tuple[float, float, float, float]:
    """Free pixels at the left, top, right and bottom."""
    height, width = image.shape
    x0, y0 = boxes_N4[:, :2].min(axis=0)
    x1, y1 = boxes_N4[:, 2:].max(axis=0)
    return max(0.0, x0), max(0.0, y0), max(0.0, width - x1), max(0.0, height - y1)


def ink_over(image: np.ndarray, layer: np.ndarray, strength: float) -> np.ndarray:
    """Print ``layer`` (255 is full ink) over the page; dark stays dark."""
    return cv2.multiply(
        image.astype(np.float32), 1 - layer.astype(np.float32) * np.float32(strength / 255), dtype=cv2.CV_8U
    )


def _watermark(image: np.ndarray, rng: Rng) -> np.ndarray:
    height, width = image.shape
    sheet = Image.new("L", (width, height), 0)
    word = pick(rng, _WATERMARKS)
    font = ImageFont.load_default(width * rng.uniform(1.0, 1.5) / len(word))
    ImageDraw.Draw(sheet).text((width / 2, height / 2), word, fill=255, font=font, anchor="mm")
    turned = sheet.rotate(float(pick(rng, (0, 35, 45, 55))), resample=Image.Resampling.BILINEAR)
    return ink_over(image, np.asarray(turned), rng.uniform(0.06, 0.18))


def free_spot(
    image: np.ndarray, boxes_N4: np.ndarray, rng: Rng, size: tuple[int, int], touch: bool
) -> tuple[int, int] | None:
    """Top left corner of a free rectangle of this (width, height), or of any with ``touch``."""
    height, width = image.shape
    if size[0] >= width - 8 or size[1] >= height - 8:
        return None
    for _ in range(24):
        x, y = int(rng.integers(4, width - size[0] - 3)), int(rng.integers(4, height - size[1] - 3))
        apart = (
            (boxes_N4[:, 2] < x)
            | (boxes_N4[:, 0] > x + size[0])
            | (boxes_N4[:, 3] < y)
            | (boxes_N4[:, 1] > y + size[1])
        )
        if touch or apart.all():
            return x, y
    return None


def _stamp(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng) -> np.ndarray:
    """A round or square rubber stamp with small, worn lettering."""
    side = int(image.shape[1] * rng.uniform(0.05, 0.13))
    round_one = rng.random() < 0.7
    wide, high = (side, side) if round_one else (int(side * rng.uniform(1.3, 2.4)), int(side * rng.uniform(0.4, 0.8)))
    spot = free_spot(image, boxes_N4, rng, (wide + 8, high + 8), bool(rng.random() < 0.2))
    if spot is None:
        return image
    stamp = rubber_stamp(rng, side, (wide, high), round_one)
    layer = np.zeros_like(image)
    layer[spot[1] : spot[1] + stamp.shape[0], spot[0] : spot[0] + stamp.shape[1]] = stamp
    return ink_over(image, cv2.GaussianBlur(layer, (0, 0), 0.6), rng.uniform(0.35, 0.85))


def rubber_stamp(rng: Rng, side: int, size: tuple[int, int], round_one: bool) -> np.ndarray:
    """Its ink (255 is full) with 4 pixels of air around ``size``, turned a little and worn."""
    wide, high = size
    stamp: np.ndarray = np.zeros((high + 8, wide + 8), np.uint8)
    centre, thick = ((wide + 8) // 2, (high + 8) // 2), max(1, side // 40)
    if round_one:
        for share in (1.0, 0.66):
            cv2.circle(stamp, centre, int(side / 2 * share), 255, thick, cv2.LINE_AA)
        for angle in np.arange(0, 2 * np.pi, 0.33 + 6 / side):
            x, y = centre[0] + 0.415 * side * np.cos(angle), centre[1] + 0.415 * side * np.sin(angle)
            _letter(stamp, (x, y), side * 0.055, rng, thick)
    else:
        cv2.rectangle(stamp, (2, 2), (wide + 5, high + 5), 255, thick, cv2.LINE_AA)
    for row in range(1 if round_one else 2):
        y = centre[1] + (row - 0.5 * (not round_one)) * 0.4 * high
        room = 0.5 * side if round_one else 0.8 * wide
        for x in np.arange(centre[0] - room / 2, centre[0] + room / 2, 0.08 * side):
            _letter(stamp, (x, y), side * 0.045, rng, thick)
    turn = cv2.getRotationMatrix2D(centre, float(rng.normal(0, 12)), 1.0)
    stamp = cv2.warpAffine(stamp, turn, stamp.shape[::-1])
    worn = np.clip(0.75 + 0.35 * noise("mottle", stamp.shape, rng), 0, 1)
    return (stamp * worn).astype(np.uint8)


def _letter(layer: np.ndarray, at: tuple[float, float], size: float, rng: Rng, thick: int) -> None:
    """Two or three strokes of a letter's size."""
    points = np.array(at) + rng.uniform(-size, size, (int(rng.integers(3, 5)), 2))
    cv2.polylines(layer, [points.round().astype(np.int32)], False, 255, thick, cv2.LINE_AA)


def _notes(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng) -> np.ndarray:
    """Pencil or ink in the margin: a few words that nobody can read."""
    layer = np.zeros_like(image)
    size = image.shape[1] * float(rng.uniform(0.006, 0.012))
    for _ in range(int(rng.integers(1, 4))):
        letters = int(rng.integers(2, 9))
        spot = free_spot(image, boxes_N4, rng, (int(2.2 * letters * size), int(4 * size)), False)
        if spot is not None:
            t = np.arange(0, letters, 0.06)
            swing = np.interp(t, np.arange(letters + 1), rng.uniform(0.4, 1.7, letters + 1))
            slope = float(rng.uniform(-0.15, 0.1))
            x = spot[0] + 2 * t * size + 0.7 * size * np.cos(2 * np.pi * t)
            y = spot[1] + 2 * size + swing * size * np.sin(2 * np.pi * t + rng.uniform(0, 6)) + slope * size * t
            path = np.stack([x, y], axis=1).round().astype(np.int32)
            cv2.polylines(layer, [path], False, 255, max(1, round(size / 7)), cv2.LINE_AA)
    return ink_over(image, layer, rng.uniform(0.35, 0.9))


def _strokes(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng) -> np.ndarray:
    """Bars beside paragraphs, drawn by hand."""
    left, _, right, _ = _margins(image, boxes_N4)
    if max(left, right) < 14:
        return image
    layer, height, width = np.zeros_like(image), *image.shape
    for _ in range(int(rng.integers(1, 4))):
        x = left * rng.uniform(0.5, 0.9) if left > right else width - right * rng.uniform(0.5, 0.9)
        top, tall = rng.uniform(0.1, 0.8) * height, rng.uniform(0.03, 0.15) * height
        ys = np.linspace(top, top + tall, 6)
        path = np.stack([x + rng.normal(0, 1.2, 6), ys], axis=1).round().astype(np.int32)
        cv2.polylines(layer, [path], False, 255, int(rng.integers(1, 4)), cv2.LINE_AA)
    return ink_over(image, layer, rng.uniform(0.3, 0.8))


def _holes(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng) -> np.ndarray:
    """Two or four punched holes near the left edge, dark or shaded."""
    left, height = _margins(image, boxes_N4)[0], image.shape[0]
    radius = round(image.shape[1] * 0.014)
    if left < 3 * radius:
        return image
    out, grey, x = image.copy(), int(rng.integers(10, 200)), int(rng.uniform(1.3 * radius, left - 1.3 * radius))
    places = (0.36, 0.64) if rng.random() < 0.6 else (0.1, 0.36, 0.64, 0.9)
    for place in places:
        cv2.circle(out, (x, round(place * height)), radius, grey, -1, cv2.LINE_AA)
        cv2.circle(out, (x, round(place * height)), radius, max(0, grey - 60), 1, cv2.LINE_AA)
    return out


def _dark_edges(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng) -> np.ndarray:
    """The lid or the table beyond the paper's edges, on one to four sides."""
    height, width = image.shape
    free = _margins(image, boxes_N4)
    mask = np.zeros((height, width), np.uint8)
    for side, chosen in enumerate(rng.random(4) < 0.55):
        deep = min(float(rng.exponential(0.03)) * width, 0.7 * free[side])
        if not chosen or deep < 2:
            continue
        length = height if side in (0, 2) else width
        # The paper lies askew, and its edge is not quite straight.
        steps = np.linspace(-1, 1, length)
        edge = deep * (1 + rng.uniform(-0.4, 0.4) * steps) + rng.normal(0, 0.4) * np.sin(steps * rng.uniform(2, 9))
        edge = np.clip(edge, 0, 0.8 * free[side])
        across = np.arange(width if side in (0, 2) else height)
        if side in (0, 2):
            band = across[None, :] < edge[:, None]
            mask |= (band[:, ::-1] if side == 2 else band).astype(np.uint8)
        else:
            band = across[:, None] < edge[None, :]
            mask |= (band[::-1] if side == 3 else band).astype(np.uint8)
    dark = rng.uniform(0, 70) if rng.random() < 0.7 else rng.uniform(90, 200)
    field = dark + rng.uniform(0, 8) * noise("grain", (height, width), rng)
    soft = cv2.GaussianBlur(mask * np.float32(1), (0, 0), float(rng.uniform(0.6, 2.5)))
    # Beside the edge lies the paper's shadow.
    shade = 1 - np.float32(rng.uniform(0, 0.35)) * cv2.GaussianBlur(soft, (0, 0), 6.0)
    return np.clip(image * shade * (1 - soft) + field * soft, 0, 255).astype(np.uint8)


def _fold(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng, d: float) -> np.ndarray:
    """The shadow of a book's fold along one side."""
    width = image.shape[1]
    reach = width * float(rng.uniform(0.03, 0.14))
    distance = np.arange(width, dtype=np.float32)
    distance = distance if rng.random() < 0.5 else distance[::-1]
    shade = 1 - np.float32(rng.uniform(0.3, 0.5 + 0.4 * d)) * np.exp(-distance / np.float32(reach))
    return cv2.multiply(
        image.astype(np.float32), np.ascontiguousarray(np.broadcast_to(shade, image.shape)), dtype=cv2.CV_8U
    )
