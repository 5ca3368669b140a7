"""What the packaged reader does at the edges of what a line is: nothing to read, and more than fits a picture."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from docvision.images import crop_line
from docvision.metrics import error_rate
from docvision.model import DocVisionModel
from docvision.page import Box

WIDTH, HEIGHT = 400, 32
SPOKEN = "The quick brown fox jumps over the lazy dog and reads the measured values of the first series "


@pytest.fixture(scope="module")
def model() -> DocVisionModel:
    return DocVisionModel.from_pretrained("docvision-tiny")


def nothing(kind: str, seed: int) -> Image.Image:
    """A crop without a character, of one of the kinds that pages have."""
    rng = np.random.default_rng(seed)
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    draw = ImageDraw.Draw(image)
    if kind == "rule":
        draw.line((0, 12 + seed, WIDTH, 12 + seed), fill=0, width=1 + seed % 3)
    elif kind == "box":
        draw.rectangle((5, 4, WIDTH - 5, 28), outline=0, width=1 + seed % 2)
    elif kind == "bars":
        for x in range(20 + seed, WIDTH, 60):
            draw.line((x, 0, x, HEIGHT), fill=0)
    elif kind == "leader":
        for x in range(0, WIDTH, 6 + seed):
            draw.ellipse((x, 20, x + 2, 22), fill=0)
    elif kind == "shadow":
        image = Image.fromarray(np.tile(np.linspace(40 + 10 * seed, 250, WIDTH), (HEIGHT, 1)).astype(np.uint8))
    elif kind == "grain":
        image = Image.fromarray(rng.normal(200, 20 + 10 * seed, (HEIGHT, WIDTH)).clip(0, 255).astype(np.uint8))
    elif kind == "photograph":
        clouds = Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8))
        levels = np.asarray(clouds.filter(ImageFilter.GaussianBlur(2 + seed)), dtype=np.float64)
        levels = (levels - levels.min()) / (levels.max() - levels.min())
        image = Image.fromarray((255 * levels).astype(np.uint8))
    return image


@pytest.mark.parametrize("kind", ["paper", "rule", "box", "bars", "leader", "shadow", "grain", "photograph"])
def test_where_no_character_is_none_is_read(model: DocVisionModel, kind: str) -> None:
    """A reader that makes up text where there is none breaks promise 2; the crops are fixed, so this cannot flicker."""
    assert [reading.text for reading in model.read_lines([nothing(kind, seed) for seed in range(4)])] == [""] * 4


@pytest.mark.parametrize("width", [2000, 4000])
def test_a_long_line_reads_like_its_halves(model: DocVisionModel, width: int) -> None:
    """Cut at a space between two words, whatever its width: a crop that is squeezed into a limit cannot be read."""
    face = ImageFont.load_default(22.0)
    text = SPOKEN
    while face.getlength(text + SPOKEN) < width:
        text += SPOKEN
    text = text.strip()
    middle = text.index(" ", len(text) // 2)

    def read(part: str) -> str:
        image = Image.new("L", (int(face.getlength(part)) + 20, HEIGHT), 255)
        ImageDraw.Draw(image).text((10, 2), part, font=face, fill=0)
        box = Box(10, 5, image.width - 10, 29)
        return model.read_lines([crop_line(image, box)])[0].text

    halves = error_rate([read(text[:middle]), read(text[middle + 1 :])], [text[:middle], text[middle + 1 :]])
    assert error_rate([read(text)], [text]) <= halves + 0.02
