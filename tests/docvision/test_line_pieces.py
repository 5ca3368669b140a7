"""Pieces of lines become whole lines, by other lines and by the ink beside them."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docvision.line_pieces import Item, absorb, extend, join_pieces
from docvision.page import Box

FONT = ImageFont.load_default(20)


def drawn(*texts: tuple[int, int, str]) -> tuple[np.ndarray, list[Box]]:
    image = Image.new("L", (500, 160), 255)
    draw = ImageDraw.Draw(image)
    for x, y, text in texts:
        draw.text((x, y), text, font=FONT, fill=0)
    boxes = [Box(*(float(v) for v in draw.textbbox((x, y), text, font=FONT))) for x, y, text in texts]
    return np.asarray(image) < 128, boxes


def lines(*boxes: tuple[float, float, float, float]) -> list[Item]:
    return [Item(Box(*box), "text") for box in boxes]


def spans(items: list[Item]) -> list[tuple[float, float]]:
    return sorted((item.box.x0, item.box.x1) for item in items)


def test_a_piece_inside_a_line_is_part_of_it_and_a_line_that_overlaps_another_is_not() -> None:
    whole, inside, below = (10, 10, 400, 30), (100, 14, 140, 32), (10, 18, 380, 38)
    assert [item.box for item in absorb(lines(whole, inside))] == [Box(10, 10, 400, 32)]
    assert len(absorb(lines(whole, below))) == 2


def test_a_wide_space_that_a_neighbour_crosses_is_no_gutter() -> None:
    crossing, left, right = (10, 10, 400, 30), (10, 40, 190, 60), (220, 40, 400, 60)
    assert spans(join_pieces(lines(crossing, left, right))) == [(10, 400), (10, 400)]
    assert len(join_pieces(lines(left, right))) == 2, "nothing speaks against a gutter"
    column = [(10, 70, 190, 90), (220, 70, 400, 90)]
    assert len(join_pieces(lines(crossing, left, right, *column))) == 5, "the gutter goes on below"


def test_pieces_close_together_are_one_line_of_the_wider_ones_class() -> None:
    wide, short = Item(Box(40, 10, 300, 30), "text"), Item(Box(10, 10, 32, 30), "heading")
    (joined,) = join_pieces([wide, short])
    assert joined.kind == "text" and joined.box == Box(10, 10, 300, 30)


@pytest.mark.parametrize(("before", "after"), [("2.", ""), ("A", ""), ("", ":"), ("*)", ")")])
def test_what_stands_at_the_ends_of_a_line_is_part_of_it(before: str, after: str) -> None:
    ink, (start, middle, end) = drawn((68, 40, before), (90, 40, "the middle of a line"), (272, 40, after))
    (line,) = extend([Item(middle, "text")], ink)
    assert line.box.x0 == pytest.approx(start.x0 if before else middle.x0, abs=2.5)
    assert line.box.x1 == pytest.approx(end.x1 if after else middle.x1, abs=2.5)
    assert line.box.y0 == pytest.approx(middle.y0, abs=3) and line.box.y1 == pytest.approx(middle.y1, abs=3)


@pytest.mark.parametrize("mark", [(66, 49, 80, 51), (70, 47, 76, 53)], ids=["dash", "bullet"])
def test_the_marker_of_a_list_item_is_part_of_its_line(mark: tuple[int, int, int, int]) -> None:
    ink, (middle,) = drawn((90, 40, "the middle of a line"))
    ink[mark[1] : mark[3], mark[0] : mark[2]] = True
    (line,) = extend([Item(middle, "text")], ink)
    assert line.box.x0 == mark[0] and line.box.x1 == middle.x1
    (mirrored,) = extend([Item(Box(500 - middle.x1, middle.y0, 500 - middle.x0, middle.y1), "text")], ink[:, ::-1])
    assert mirrored.box.x1 == 500 - middle.x0, "a dash behind a line is none"
    low = np.roll(ink, 9, axis=0)
    low[:, 90:] = ink[:, 90:]
    (line,) = extend([Item(middle, "text")], low)
    assert line.box == middle, "nor is a spot at the foot of the line"


def test_far_print_specks_and_strokes_are_left_alone() -> None:
    ink, (_, middle) = drawn((10, 40, "far"), (90, 40, "the middle of a line"))
    ink[10:150, 283] = True  # an upright rule close by
    ink[50, 78] = True
    (line,) = extend([Item(middle, "text")], ink)
    assert line.box == middle


def test_ink_of_another_line_is_not_taken() -> None:
    ink, boxes = drawn((40, 40, "left"), (90, 40, "right"))
    assert [item.box for item in extend([Item(box, "text") for box in boxes], ink)] == boxes
