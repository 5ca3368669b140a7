"""Looks of printed lines: size and weight measured, headings told and cut from their paragraphs, levels by size."""

import pytest
from PIL import Image, ImageDraw, ImageFont

from docvision.flow import finish_document
from docvision.page import Block, Line, Page, bounding_box
from docvision.print_looks import BOLD, measure, sort_by_look

BODY = "The ferry crosses the narrow strait twice a day when the wind allows it,"


def typed(lines: list[tuple[str, int, int]], groups: list[int]) -> tuple[Image.Image, list[Block]]:
    """A page of lines (text, font size, thickness) and its blocks of so many lines each, all of them text."""
    image = Image.new("L", (1000, 60 * len(lines) + 60), 255)
    draw, made = ImageDraw.Draw(image), []
    for row, (text, size, thick) in enumerate(lines):
        font, place = ImageFont.load_default(size), (60, 40 + 60 * row)
        draw.text(place, text, fill=0, font=font, stroke_width=thick)
        box = bounding_box([draw.textbbox(place, text, font=font, stroke_width=thick)])
        made.append(Line(text, box, confidence=0.9, source="model"))
    blocks = []
    for count in groups:
        part, made = made[:count], made[count:]
        blocks.append(Block("text", bounding_box(line.box for line in part), lines=part, source="model"))
    return image, blocks


def kinds(blocks: list[Block]) -> list[tuple[str, int]]:
    return [(block.kind, len(block.lines)) for block in blocks]


def crop_of(text: str, size: int, thick: int) -> Image.Image:
    image, (block,) = typed([(text, size, thick)], [1])
    return image.crop(block.box)


@pytest.mark.parametrize("text", ["Results and discussion", "Abstract of the study", BODY])
def test_weight_and_height_are_those_of_the_letters(text: str) -> None:
    regular, bold, large = (measure(crop_of(text, size, thick)) for size, thick in ((28, 0), (28, 1), (42, 0)))
    assert bold.stroke > BOLD * regular.stroke
    assert large.height / regular.height == pytest.approx(1.5, abs=0.15)
    inverse = crop_of(text, 28, 0).point(lambda level: 255 - level)
    assert measure(inverse).stroke == pytest.approx(regular.stroke, rel=0.1)


def test_a_bold_line_on_top_of_its_paragraph_becomes_a_heading() -> None:
    body = [(BODY, 28, 0)] * 3
    image, blocks = typed([("Materials and methods", 28, 1), *body, *body], [4, 3])
    assert kinds(sort_by_look(image, blocks)) == [("heading", 1), ("text", 3), ("text", 3)]


def test_a_bold_line_inside_a_sentence_stays_and_after_one_begins_a_part() -> None:
    body = (BODY, 28, 0)
    end = ("and the harbour master is told of every crossing.", 28, 0)
    image, blocks = typed([body, ("not before the bell has been rung", 28, 1), body, body], [4])
    assert kinds(sort_by_look(image, blocks)) == [("text", 4)]
    image, blocks = typed([body, end, ("Crossings in winter", 28, 1), body, body], [5])
    assert kinds(sort_by_look(image, blocks)) == [("text", 2), ("heading", 1), ("text", 2)]


def test_large_lines_are_titles_and_rank_above_bold_ones() -> None:
    body = [(BODY, 28, 0)] * 5
    image, blocks = typed([("Crossing the strait", 48, 0), *body, ("Winter", 28, 1), *body], [1, 5, 1, 5])
    page = Page(1, 1000.0, 900.0, blocks=sort_by_look(image, blocks))
    for block in page.blocks:
        block.text = " ".join(line.text for line in block.lines)
    finish_document([page])
    assert [(block.text, block.level) for block in page.blocks if block.kind == "heading"] == [
        ("Crossing the strait", 1),
        ("Winter", 2),
    ]


def test_captions_are_told_by_their_first_words() -> None:
    image, blocks = typed([*[(BODY, 28, 0)] * 4, ("Figure 2. The ferry at noon", 24, 0)], [4, 1])
    assert kinds(sort_by_look(image, blocks)) == [("text", 4), ("caption", 1)]


def test_a_page_in_bold_has_no_headings_and_few_lines_say_nothing() -> None:
    image, blocks = typed([(BODY, 28, 1)] * 6, [3, 3])
    assert kinds(sort_by_look(image, blocks)) == [("text", 3), ("text", 3)]
    image, blocks = typed([("Results", 28, 1), (BODY, 28, 0)], [1, 1])
    assert sort_by_look(image, blocks) == blocks
