"""What is shown of samples: overlays with boxes where the truth says, and counts that add up."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageColor

from data_pipeline import overlay
from data_pipeline.tally import Tally, ordered
from docvision.page import Block, Box, Cell, Line, Page, Table, page_to_json


def picture(width: int, height: int) -> bytes:
    data = io.BytesIO()
    Image.new("L", (width, height), 255).save(data, "JPEG")
    return data.getvalue()


@pytest.fixture
def row() -> dict[str, object]:
    table = Table(2, 3, [Cell(0, 0, "ab", column_span=3, header=True, box=Box(100, 300, 400, 320))])
    blocks = [
        Block("heading", Box(100, 100, 300, 120), "Title", [Line("Title", Box(100, 100, 180, 120))], level=1),
        Block("table", Box(100, 300, 400, 340), table=table),
    ]
    page = Page(1, 500, 400, blocks, pixels=(1000, 800))
    return {
        "image": {"bytes": picture(1000, 800), "path": None}, "document": page_to_json(page), "kind": "report",
        "difficulty": 0.3,
    }  # fmt: skip


def test_boxes_are_drawn_where_the_truth_has_them(row: dict[str, object]) -> None:
    """Boxes are in points, the picture has two pixels a point; outlines stand three pixels outside the box."""
    pixels = np.asarray(Image.open(io.BytesIO(overlay.draw(row))).convert("RGB")).astype(int)
    assert pixels.shape == (800, 1000, 3)
    colours = {"heading": "#c02020", "table": "#8a2be2"}
    for kind, (x0, y0, x1, y1) in (("heading", (200, 200, 600, 240)), ("table", (200, 600, 800, 680))):
        wanted = ImageColor.getrgb(colours[kind])
        for x, y in ((x0 - 3, y1 - 2), (x1 + 3, y0 + 9), (x1 - 9, y1 + 3)):
            assert abs(pixels[y, x] - wanted).max() < 12, (kind, x, y)
    assert (pixels[400:560, 200:900] > 240).all()  # nothing between the blocks


def test_small_pictures_are_enlarged() -> None:
    page = Page(1, 100, 50, [Block("table", Box(0, 0, 100, 50), table=Table(1, 1))], pixels=(100, 50))
    data = overlay.draw({"image": {"bytes": picture(100, 50), "path": None}, "document": page_to_json(page)})
    assert Image.open(io.BytesIO(data)).size == (700, 350)


def test_counts_add_up_in_any_order(row: dict[str, object]) -> None:
    line = {"image": {"bytes": b"\x89PNG", "path": None}, "text": "a" * 30, "kind": "print", "difficulty": 1.0}
    one, two, both = Tally(), Tally(), Tally()
    one.add(row)
    two.add(line)
    both.add(line)
    both.add(row)
    joined = Tally(one.plain())
    joined.merge(two.plain())
    assert joined.plain() == both.plain()
    assert both.plain() == {
        "blocks": {"heading": 1, "table": 1},
        "characters": {"21-70": 1, "5-20": 1},
        "difficulty": {"0.3-0.4": 1, "0.9-1.0": 1},
        "image": {"JPEG": 1, "PNG": 1},
        "kind": {"print": 1, "report": 1},
        "samples": {"all": 2},
        "spans in tables": {"some": 1},
        "tables (rows x columns)": {"2-4 x 2-4": 1},
    }


def test_ranges_stand_by_number_and_names_by_count() -> None:
    assert [label for label, _ in ordered({"161-500": 9, "5-20": 1, "0": 3, "8001+": 2})] == [
        "0",
        "5-20",
        "161-500",
        "8001+",
    ]
    assert [label for label, _ in ordered({"10-19 x 2-4": 1, "2-4 x 5-9": 1})] == ["2-4 x 5-9", "10-19 x 2-4"]
    assert [label for label, _ in ordered({"a": 1, "b": 2, "c": 2})] == ["b", "c", "a"]
