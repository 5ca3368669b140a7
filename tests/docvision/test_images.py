"""Pictures: every angle and box against what was drawn, on pages drawn here."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont, ImageOps

from docvision import images
from docvision.images import eight_bits, positive, smooth_halftone
from docvision.page import Box

ANGLE_TOLERANCE = 0.06
"""Degrees: a line of 800 px drifts by less than a pixel."""


def draw_page(width: int = 850, height: int = 1100, lines: int = 30, ink: int = 0, paper: int = 255) -> Image.Image:
    page = Image.new("L", (width, height), paper)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(18)
    for line in range(lines):
        text = " ".join("word" * (1 + (line + k) % 3) for k in range(9))[: 70 - 20 * (line % 5 == 4)]
        draw.text((70, 70 + 32 * line), text, fill=ink, font=font)
    return page


def test_white_is_zero_and_black_is_one() -> None:
    page = Image.fromarray(np.array([[255, 0, 51]], np.uint8))
    pixels = images.to_float(page)
    assert pixels.dtype == np.float32 and np.allclose(pixels, [[0.0, 1.0, 0.8]])
    assert list(images.from_float(pixels).tobytes()) == [255, 0, 51]
    assert images.to_float(Image.new("RGBA", (2, 1), (0, 0, 0, 0))).max() == 0.0  # transparent is paper


@pytest.mark.parametrize("angle", [-4.3, -1.0, -0.3, 0.0, 0.45, 2.0, 4.8])
def test_deskew_finds_the_angle(angle: float) -> None:
    crooked = images.rotate(draw_page(), -angle)
    assert images.deskew_angle(crooked) == pytest.approx(angle, abs=ANGLE_TOLERANCE)


def test_deskew_leaves_pages_without_lines_alone() -> None:
    noise = np.random.default_rng(3).integers(0, 256, (600, 500)).astype(np.uint8)
    for page in (
        Image.new("L", (600, 800), 255),
        Image.new("L", (600, 800), 0),
        Image.fromarray(noise),
        draw_page(8, 8),
    ):
        assert images.deskew_angle(page) == 0.0


def test_boxes_turn_with_the_picture() -> None:
    page = Image.new("L", (300, 200), 255)
    page.paste(0, (200, 40, 240, 60))
    turned = images.rotate(page, 7.0)
    rows, columns = np.nonzero(np.asarray(turned) < 128)
    found = Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    expected = images.rotate_box(Box(200, 40, 240, 60), 7.0, 300, 200)
    assert all(abs(a - b) <= 1.5 for a, b in zip(found, expected, strict=True))


def test_crop_line_pads_scales_and_caps() -> None:
    page = Image.new("L", (400, 100), 255)
    page.paste(0, (100, 40, 300, 60))
    crop = images.crop_line(page, Box(100, 40, 300, 60))
    assert crop.mode == "L" and crop.height == 32
    # 20 px high and 12 % above and below are 26 whole pixels; 0.3 of the height stands left and right.
    assert crop.width == round((200 + 2 * 6) * 32 / 26)
    dark = np.asarray(crop) < 128
    assert np.flatnonzero(dark.any(1)).size == pytest.approx(20 * 32 / 26, abs=1.5)
    assert images.crop_line(page, Box(0, 40, 400, 41), height=48).width == round(402 * 48 / 3)
    rule = Image.new("L", (900, 100), 255)
    assert images.crop_line(rule, Box(0, 40, 800, 41), height=48).size == (images.MAX_LINE_WIDTH, 48)


@pytest.mark.parametrize("box", [Box(-30, -30, -10, -10), Box(390, 90, 500, 120), Box(5, 5, 5, 5), Box(9, 9, 3, 3)])
def test_crop_line_adds_paper_outside_the_picture(box: Box) -> None:
    crop = images.crop_line(Image.new("L", (400, 100), 255), box)
    assert crop.height == 32 and crop.width >= 1 and np.asarray(crop).min() == 255


def test_ink_follows_shadows() -> None:
    """Under a shadow from white to dark grey the mask stays that of the evenly lit page."""
    page = draw_page()
    light = np.linspace(1.0, 0.45, page.width)
    shaded = Image.fromarray((np.asarray(page) * light).astype(np.uint8))
    even, uneven = images.ink_mask(page), images.ink_mask(shaded)
    assert (even & uneven).sum() / (even | uneven).sum() > 0.85


def test_blank_pages() -> None:
    assert images.is_blank(Image.new("L", (1000, 1400), 255))
    assert images.is_blank(Image.new("RGB", (1000, 1400), 0))
    assert images.is_blank(Image.new("1", (1, 1), 1))
    speck = Image.new("L", (1000, 1400), 255)
    speck.putpixel((500, 700), 0)
    assert images.is_blank(speck)
    word = Image.new("L", (1240, 1754), 255)  # A4 at 150 dpi
    ImageDraw.Draw(word).text((300, 400), "seven", fill=0, font=ImageFont.load_default(20))
    assert not images.is_blank(word)
    assert not images.is_blank(draw_page(ink=120, paper=200))


def test_fit_and_pad() -> None:
    page = Image.new("L", (400, 100), 7)
    small, scale = images.fit(page, 200, 200)
    assert small.size == (200, 50) and scale == 0.5
    assert images.fit(page, 500, 500) == (page, 1.0)
    padded = images.pad(small, 208, 64)
    assert padded.size == (208, 64) and padded.getpixel((207, 63)) == 255 and padded.getpixel((199, 49)) == 7
    with pytest.raises(ValueError, match="cannot pad 400 x 100 px to 10 x 10"):
        images.pad(page, 10, 10)


def letters() -> Image.Image:
    image = Image.new("L", (600, 200), 255)
    for row in range(4):
        ImageDraw.Draw(image).text(
            (20, 20 + 45 * row), "Tide tables of the year", fill=20, font=ImageFont.load_default(30)
        )
    return image


@pytest.mark.parametrize(
    ("kind", "most"), [(np.uint16, 1023), (np.uint16, 4095), (np.uint16, 65535), (np.float32, 1.0)]
)
def test_pictures_of_more_than_eight_bits_keep_their_greys(kind: type, most: float) -> None:
    image = letters()
    deep = Image.fromarray((np.asarray(image, dtype=np.float64) * (most / 255)).astype(kind))
    assert np.abs(np.asarray(eight_bits(deep), dtype=int) - np.asarray(image)).max() <= 1
    assert eight_bits(Image.fromarray(np.full((4, 4), np.nan, dtype=np.float32))).getextrema() == (0, 0)


def test_a_halftone_is_smoothed_and_line_art_is_not() -> None:
    image = letters().point(lambda level: 90 + level // 2)
    dots = image.convert("1").convert("L")
    near = np.abs(np.asarray(smooth_halftone(dots), dtype=float) - np.asarray(image)).mean()
    assert near < 0.25 * np.abs(np.asarray(dots, dtype=float) - np.asarray(image)).mean()
    sharp = letters().point(lambda level: 255 * (level > 127))
    assert smooth_halftone(sharp) is sharp


def test_light_print_on_dark_ground_is_turned_over() -> None:
    image = letters()
    assert positive(image) is image
    assert np.array_equal(np.asarray(positive(ImageOps.invert(image))), np.asarray(image))
