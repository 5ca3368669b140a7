"""Images for the demo: an order as the web server sees it, and what the working process does for it.

What an image becomes depends on the seed, its number, the class and the guidance alone, so the same order is the same
picture on every day, and images may be told one by one.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

import imagegen

GENERATOR = "fashion-mnist"
"""Packaged with imagegen."""
MOST = 16
"""Images of one order."""
AT_ONCE = 2
"""Images drawn together: few, so that the first ones are seen early."""
GUIDANCE = (1.0, 5.0)
MAX_SEED = 2**31 - 1
COLUMNS, SCALE = 4, 6
"""Of the picture that can be taken away: images in a row, pixels for each pixel."""


class OrderError(ValueError):
    """An order that cannot be drawn, said in one line."""


@dataclass(frozen=True)
class Order:
    """What is to be drawn; checked when it is made."""

    label: str
    seed: int = 0
    guidance: float = 1.5
    count: int = 8

    def __post_init__(self) -> None:
        if self.label not in classes():
            raise OrderError(f"no class {self.label!r}: one of {', '.join(classes())}")
        if not _whole(self.seed, 0, MAX_SEED):
            raise OrderError(f"seed {self.seed}: a whole number from 0 to {MAX_SEED}")
        low, high = GUIDANCE
        if isinstance(self.guidance, bool) or not isinstance(self.guidance, int | float):
            raise OrderError(f"guidance {self.guidance}: a number from {low:g} to {high:g}")
        if not low <= self.guidance <= high:
            raise OrderError(f"guidance {self.guidance:g}: from {low:g} to {high:g}")
        if not _whole(self.count, 1, MOST):
            raise OrderError(f"{self.count} images: from 1 to {MOST}, a whole number")
        for name in ("seed", "count"):  # JavaScript and JSON know 8.0 and 8 as one
            object.__setattr__(self, name, int(getattr(self, name)))


def _whole(value: object, low: int, high: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return low <= value <= high and value == int(value)


@cache
def classes() -> tuple[str, ...]:
    """Names of what the packaged generator draws, without loading it."""
    config = Path(imagegen.__file__).parent / "weights" / GENERATOR / "generator" / "config.json"
    return tuple(json.loads(config.read_text("utf-8"))["vocabulary"]["names"])


def draw_job(order: Order, generator: Any, tokenizer: Any, tell: Callable[..., None]) -> None:
    """In the working process: ``{"image": PNG}`` for each image, then ``{"sheet": PNG}`` with all, as base64."""
    import torch

    from imagegen.config import SampleConfig
    from imagegen.generate import class_number, grid_picture, sample_images

    settings = SampleConfig(guidance=order.guidance, batch=AT_ONCE)
    label = class_number(generator, order.label)
    made = []
    for first in range(0, order.count, AT_ONCE):
        labels = torch.full((min(AT_ONCE, order.count - first),), label)
        images = sample_images(generator, tokenizer, labels, settings, order.seed, first)
        made.append(images)
        for image in images:
            tell(image=_png(image.numpy()))
    tell(sheet=_png(grid_picture(torch.cat(made), min(COLUMNS, order.count), SCALE).numpy()))


def _png(pixels: Any) -> str:
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()
