"""Degradations: boxes follow the pixels, same generator same bytes, every history works on every shape."""

import cv2
import numpy as np
import pytest

from data_pipeline import wear
from data_pipeline.degrade import HISTORIES, MAX_ANGLE, degrade, random_warp

BLUR_TOLERANCE = 2.0
"""Pixels by which a box may miss its blurred, re-sampled square; a wrong sign of a shift misses by 5 and more."""


def page_with_squares(height: int = 420, width: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """A white page with black squares and their boxes."""
    image = np.full((height, width), 255, np.uint8)
    boxes = [(x, y, x + 24, y + 16) for y in (40, 200, 350) for x in (30, 140, 240)]
    for x0, y0, x1, y1 in boxes:
        image[y0:y1, x0:x1] = 0
    return image, np.array(boxes, float)


@pytest.mark.parametrize("bend", [0.0, 6.0])
@pytest.mark.parametrize("seed", range(6))
def test_boxes_follow_the_pixels(seed: int, bend: float) -> None:
    """The ink inside each moved box, found again in the moved image, has the box's bounds."""
    image, boxes = page_with_squares()
    warp = random_warp(image.shape, np.random.default_rng(seed), 1.0, MAX_ANGLE, bend)
    moved, moved_boxes = warp.image(image), warp.boxes(boxes)
    assert np.abs(moved_boxes - boxes).max() > 0.5
    count, _, stats, _ = cv2.connectedComponentsWithStats((moved < 128).astype(np.uint8))
    assert count == len(boxes) + 1
    found = np.array([(x, y, x + w, y + h) for x, y, w, h, _ in stats[1:]], float)
    for box in moved_boxes:
        assert np.abs(found - box).max(axis=1).min() <= BLUR_TOLERANCE


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("shape", [(12, 9), (40, 500), (1400, 1100)])
def test_every_history_keeps_shape_and_type(history: str, shape: tuple[int, int]) -> None:
    """(1400, 1100) is larger than the noise banks; (12, 9) is smaller than most kernels."""
    image = np.full(shape, 250, np.uint8)
    image[shape[0] // 3 : shape[0] // 2, 2:-2] = 20
    for seed in range(1 if image.size > 1_000_000 else 3):
        out, boxes = degrade(image, np.zeros((0, 4)), np.random.default_rng(seed), 1.0, history)
        assert out.shape == shape and out.dtype == np.uint8 and boxes.shape == (0, 4)


@pytest.mark.parametrize("history", HISTORIES)
def test_same_generator_same_bytes(history: str) -> None:
    """Global random state must play no part."""
    image, boxes = page_with_squares()
    before = image.copy()
    first = [degrade(image, boxes, np.random.default_rng(seed), 0.8, history) for seed in range(5)]
    np.random.seed(1)
    cv2.setRNGSeed(7)
    second = [degrade(image, boxes, np.random.default_rng(seed), 0.8, history) for seed in range(5)]
    for (a, boxes_a), (b, boxes_b) in zip(first, second, strict=True):
        assert np.array_equal(a, b) and np.array_equal(boxes_a, boxes_b)
    assert np.array_equal(image, before)


def test_difficulty_orders_the_damage() -> None:
    """Mean change of pixels over 40 samples grows with difficulty; a false alarm is out of reach (factor > 2)."""
    image, boxes = page_with_squares()
    change = []
    for difficulty in (0.0, 0.5, 1.0):
        outs = [degrade(image, boxes, np.random.default_rng(seed), difficulty)[0] for seed in range(40)]
        change.append(np.mean([np.abs(out.astype(int) - image).mean() for out in outs]))
    assert 2 * change[0] < change[1] < change[2]


def test_rotation_limit_is_kept() -> None:
    """A line 2000 pixels long may drift only as far as the caller allows."""
    boxes = np.array([[50.0, 30, 1950, 50]])
    for seed in range(40):
        image = np.full((80, 2000), 255, np.uint8)
        _, moved = degrade(image, boxes, np.random.default_rng(seed), 1.0, "copy", max_angle=0.1)
        # 0.1 degrees over 1000 pixels to either side is 1.7; shear and perspective add a little.
        assert moved[0, 3] - moved[0, 1] < 20 + 2 * 1.75 + 4


def test_unknown_history_is_named() -> None:
    with pytest.raises(ValueError, match="unknown history 'xerox'.*fax"):
        degrade(np.zeros((8, 8), np.uint8), np.zeros((0, 4)), np.random.default_rng(0), 0.5, "xerox")


def page_of_words() -> tuple[np.ndarray, np.ndarray]:
    """A page of 900 x 1200 with text in its middle."""
    boxes = np.array([(x, y, x + 60, y + 14) for y in range(200, 1000, 30) for x in range(150, 750, 80)], float)
    image = np.full((1200, 900), 245, np.uint8)
    for x0, y0, x1, y1 in boxes.astype(int):
        image[y0:y1:3, x0:x1] = 30
    return image, boxes


def changed(image: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.abs(out.astype(int) - image) > 40


def test_wear_keeps_off_the_text() -> None:
    """Notes, holes and bars touch no word; edges leave every word readable; stamps lie on text one time in five."""
    image, boxes = page_of_words()
    inside = np.zeros(image.shape, bool)
    for x0, y0, x1, y1 in boxes.astype(int):
        inside[y0:y1, x0:x1] = True
    for step in (wear._notes, wear._holes, wear._strokes, wear._dark_edges):
        drawn = 0
        for seed in range(6):
            marked = changed(image, step(image, boxes, np.random.default_rng(seed)))
            drawn += marked.any()
            assert not (marked & inside).any(), step.__name__
        assert drawn >= 3, f"{step.__name__} must leave something to see"
    touched = [(changed(image, wear._stamp(image, boxes, np.random.default_rng(s))) & inside).any() for s in range(24)]
    assert 0 < np.mean(touched) < 0.5


def test_wear_is_for_pages() -> None:
    """A line or a small table gets no stamp and no dark edge."""
    image, boxes = page_of_words()
    assert wear.is_page(image, boxes)
    assert not wear.is_page(image[:60], boxes) and not wear.is_page(image, boxes[:4])
    seen = sum(
        changed(image, wear.mark_page(image, boxes, np.random.default_rng(seed), 0.7)).any() for seed in range(24)
    )
    assert 3 <= seen <= 21
