"""Drawings for page figures, as Typst source: charts, diagrams, frames; photographs are painted on the raster.

Every shape carries the figure's mark in its colours (see :mod:`data_pipeline.typeset`), so no drawing can be mistaken
for another element's.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import cv2
import numpy as np

from data_pipeline.layouts import FigurePlan

Rng = np.random.Generator
Color = Callable[[int], str]
"""Grey level -> Typst colour with the figure's mark."""


def draw_figure(plan: FigurePlan, width: float, height: float, color: Color) -> str:
    """The figure's content for a box of this size in points; the box itself is the caller's."""
    rng = np.random.default_rng(plan.seed)
    if plan.style == "photo":
        return ""
    if plan.style == "frame" or min(width, height) < 48:
        return _place(0, 0, f"rect(width: {width:.1f}pt, height: {height:.1f}pt, stroke: 0.7pt + {color(0)})") + _label(
            width * 0.4, height * 0.45, "Fig.", 9, color(0)
        )
    if plan.style == "diagram":
        return _diagram(rng, width, height, color)
    return _chart(rng, plan.style, width, height, color)


def _place(x: float, y: float, content: str) -> str:
    return f"#place(top + left, dx: {x:.1f}pt, dy: {y:.1f}pt, {content})"


def _label(x: float, y: float, content: str, size: float, fill: str) -> str:
    return _place(x, y, f'text(size: {size:.1f}pt, fill: {fill}, hyphenate: false)[#"{content}"]')


def _line(x0: float, y0: float, x1: float, y1: float, stroke: str) -> str:
    return _place(0, 0, f"line(start: ({x0:.1f}pt, {y0:.1f}pt), end: ({x1:.1f}pt, {y1:.1f}pt), stroke: {stroke})")


def _chart(rng: Rng, style: str, width: float, height: float, color: Color) -> str:
    left, bottom, size = 26.0, height - 16.0, float(rng.uniform(5.5, 8))
    parts = []
    if rng.random() < 0.5:
        parts.append(
            _place(
                left,
                4,
                f"rect(width: {width - left - 4:.1f}pt, height: {bottom - 4:.1f}pt, stroke: 0.5pt + {color(0)})",
            )
        )
    parts.append(_line(left, 4, left, bottom, f"0.7pt + {color(0)}"))
    parts.append(_line(left, bottom, width - 4, bottom, f"0.7pt + {color(0)}"))
    ticks = int(rng.integers(3, 7))
    step = int(rng.choice([1, 2, 5, 10, 20, 50]))
    grid = rng.random() < 0.4
    for tick in range(ticks):
        y = bottom - (bottom - 10) * tick / ticks
        parts.append(_label(4, y - size / 2, str(tick * step), size, color(0)))
        if grid and tick:
            parts.append(_line(left, y, width - 4, y, f"0.3pt + {color(160)}"))
    count = int(rng.integers(4, 11))
    room = (width - left - 10) / count
    for place in range(0, count, 2):
        parts.append(
            _label(
                left + 2 + room * place,
                bottom + 4,
                str(int(2000 + place) if rng.random() < 0.3 else place + 1),
                size,
                color(0),
            )
        )
    for series in range(int(rng.integers(1, 4))):
        values = np.clip(np.cumsum(rng.normal(0.02, 0.2, count)) + rng.uniform(0.2, 0.7), 0.03, 0.97)
        xs, ys = left + 4 + room * np.arange(count), bottom - (bottom - 10) * values
        grey = color(int(rng.choice([0, 64, 112, 160])))
        if style == "bars":
            if series == 0:
                parts += [
                    _place(x, y, f"rect(width: {room * 0.65:.1f}pt, height: {bottom - y:.1f}pt, fill: {grey})")
                    for x, y in zip(xs, ys, strict=True)
                ]
        elif style == "lines":
            dash = str(rng.choice(["solid", "dashed", "dotted"]))
            parts += [
                _line(a, b, c, d, f'(paint: {grey}, thickness: 0.9pt, dash: "{dash}")')
                for a, b, c, d in zip(xs, ys, xs[1:], ys[1:], strict=False)
            ]
        else:
            for _ in range(count * 3):
                x, y = rng.uniform(left + 4, width - 8), rng.uniform(8, bottom - 6)
                parts.append(_place(x, y, f"circle(radius: 1.4pt, fill: {grey})"))
    return "\n".join(parts)


def _diagram(rng: Rng, width: float, height: float, color: Color) -> str:
    across, down = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    parts = []
    box_w, box_h = width / across * 0.68, min(height / down * 0.55, 40)
    names = ["Input", "Start", "A", "B", "Model", "Stop", "Data", "Test", "x = 1", "Node 2", "Queue", "OK?"]
    centres = [(width * (i + 0.5) / across, height * (j + 0.5) / down) for j in range(down) for i in range(across)]
    for start, end in pairwise(centres):
        parts.append(_line(*start, *end, f"0.7pt + {color(0)}"))
    for x, y in centres:
        fill = color(int(rng.choice([240, 224, 240])))
        radius = float(rng.choice([0, 0, 4]))
        parts.append(
            _place(
                x - box_w / 2,
                y - box_h / 2,
                f"rect(width: {box_w:.1f}pt, height: {box_h:.1f}pt, radius: {radius}pt, fill: {fill},"
                f" stroke: 0.7pt + {color(0)})",
            )
        )
        parts.append(
            _label(x - box_w / 2 + 5, y - 4, names[int(rng.integers(len(names)))], float(min(8.0, box_w / 5)), color(0))
        )
    return "\n".join(parts)


def paint_photo(image: np.ndarray, box: tuple[int, int, int, int], seed: int) -> None:
    """A photograph-like texture in ``box`` (pixels) of a grey page image, in place."""
    x0, y0, x1, y1 = box
    height, width = y1 - y0, x1 - x0
    if height < 4 or width < 4:
        return
    rng = np.random.default_rng(seed)
    picture = np.zeros((height, width), np.float32)
    for cells, strength in ((2, 1.0), (5, 0.6), (14, 0.3), (40, 0.15)):
        coarse = rng.random((cells, max(2, cells * width // height)), dtype=np.float32)
        picture += strength * cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    low, high = np.percentile(picture, (2, 98))
    picture = (picture - low) / max(1e-3, high - low)
    for _ in range(int(rng.integers(0, 6))):
        centre = int(rng.integers(width)), int(rng.integers(height))
        axes = int(rng.integers(2, 3 + width // 3)), int(rng.integers(2, 3 + height // 3))
        cv2.ellipse(picture, centre, axes, float(rng.uniform(0, 180)), 0, 360, float(rng.random()), -1, cv2.LINE_AA)
    dark, light = rng.uniform(0, 90), rng.uniform(150, 245)
    picture = dark + (light - dark) * np.clip(picture, 0, 1) + rng.normal(0, rng.uniform(0, 8), picture.shape)
    image[y0:y1, x0:x1] = np.clip(picture, 0, 255).astype(np.uint8)
