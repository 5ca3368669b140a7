"""The document model: JSON round trips for random documents, geometry against brute force, messages."""

from __future__ import annotations

import json
import random

import pytest

from docvision.page import (
    Block,
    Box,
    Cell,
    Document,
    Dropped,
    Line,
    Page,
    Table,
    Word,
    bounding_box,
    page_from_json,
    page_to_json,
)

KINDS = ["text", "heading", "list", "caption", "figure", "header", "footer", "footnote", "code", "formula"]
TEXTS = ["", "plain", "two\nlines", 'quote " and \\', "\u00e9\u4e2d\U0001f600\u2028", "\x01\t", "</script>"]


def random_box(draw: random.Random) -> Box:
    return Box(*(round(draw.uniform(-50, 900), draw.randint(0, 6)) for _ in range(4)))


def random_table(draw: random.Random) -> Table:
    rows, columns = draw.randint(1, 4), draw.randint(1, 4)
    cells = [
        Cell(
            r, c, draw.choice(TEXTS), header=r == 0, box=draw.choice([None, random_box(draw)]), confidence=draw.random()
        )
        for r in range(rows)
        for c in range(columns)
    ]
    return Table(rows, columns, cells)


def random_block(draw: random.Random) -> Block:
    if draw.random() < 0.2:
        return Block("table", random_box(draw), table=random_table(draw), source="model")
    words = [Word(draw.choice(TEXTS), random_box(draw), draw.random(), "truth", "F", 9.5, True) for _ in range(2)]
    lines = [Line(draw.choice(TEXTS), random_box(draw), words, draw.random(), "model", 0.25)]
    return Block(
        draw.choice(KINDS), random_box(draw), draw.choice(TEXTS), lines, draw.randint(0, 6), draw.choice(TEXTS)
    )  # type: ignore[arg-type]


def random_document(draw: random.Random) -> Document:
    pages = [
        Page(
            number,
            draw.uniform(1, 900),
            draw.uniform(1, 900),
            [random_block(draw) for _ in range(draw.randint(0, 5))],
            rotation=draw.choice([0, 90, 180, 270]),
            pixels=draw.choice([None, (draw.randint(1, 9000), 7)]),
            dropped=[Dropped(draw.choice(TEXTS), random_box(draw), "hidden text")],
            status=draw.choice(["ok", "partial", "failed"]),
            error=draw.choice(TEXTS),
            warnings=[draw.choice(TEXTS)],
            timings={"layer": draw.random()},
        )
        for number in range(1, draw.randint(1, 4))
    ]
    return Document(draw.choice(TEXTS), pages, {"title": draw.choice(TEXTS)}, {"text": "auto"}, [draw.choice(TEXTS)])


def test_json_round_trip_of_random_documents() -> None:
    draw = random.Random(11)
    for _ in range(100):
        document = random_document(draw)
        again = Document.from_json(document.to_json(indent=draw.choice([None, 2])))
        assert again == document
        assert all(isinstance(block.box, Box) for page in again.pages for block in page.blocks)


def test_one_page_round_trip_leaves_the_page_alone() -> None:
    page = Page(3, 10, 20, [random_block(random.Random(1))])
    assert page_from_json(page_to_json(page)) == page


def test_wrong_json_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match=r"^not a docvision document: pages.0.width: .*schema 1"):
        Document.from_json('{"source": "x", "pages": [{"number": 1, "width": "wide", "height": 2}]}')
    with pytest.raises(ValueError, match="schema_version"):
        Document.from_json('{"source": "x", "schema_version": "99"}')
    with pytest.raises(ValueError, match="not a docvision document"):
        Document.from_json("no json")


def test_the_schema_names_every_field() -> None:
    schema = Document.json_schema()
    assert schema["$schema"].endswith("2020-12/schema")
    assert set(schema["properties"]) == set(json.loads(Document("x").to_json()))
    assert {"Page", "Block", "Line", "Word", "Table", "Cell", "Dropped"} <= set(schema["$defs"])


def test_status_of_a_document_follows_its_pages() -> None:
    def status(*states: str) -> str:
        return Document("x", [Page(1, 1, 1, status=state) for state in states]).status  # type: ignore[arg-type]

    assert status("ok", "ok") == "ok"
    assert status("ok", "failed") == status("partial", "failed") == status("partial") == "partial"
    assert status("failed", "failed") == status() == "failed"


def test_boxes_against_counting_unit_squares() -> None:
    """Intersection, IoU and coverage of whole-number boxes equal counts of the squares they cover."""
    draw = random.Random(12)

    def squares(box: Box) -> set[tuple[int, int]]:
        return {(x, y) for x in range(int(box.x0), int(box.x1)) for y in range(int(box.y0), int(box.y1))}

    for _ in range(200):
        one, two = (
            Box(x, y, x + draw.randint(1, 6), y + draw.randint(1, 6)) for x, y in [(draw.randint(0, 5), 2), (3, 3)]
        )
        common = len(squares(one) & squares(two))
        assert one.intersection(two).area == common
        assert one.iou(two) == pytest.approx(common / len(squares(one) | squares(two)))
        assert one.coverage(two) == pytest.approx(common / len(squares(one)))
        assert squares(one) | squares(two) <= squares(one.union(two))


def test_clip_puts_corners_in_order_and_inside() -> None:
    assert Box(-5, 90, 20, 70).clip(10, 80) == Box(0, 70, 10, 80)
    assert Box(1, 1, 2, 2).scale(2, 3).shift(1, 1).pad(1, 0) == Box(2, 4, 6, 7)
    assert bounding_box([Box(0, 5, 1, 6), Box(3, 1, 4, 2)]) == Box(0, 1, 4, 6)
    with pytest.raises(ValueError, match="no boxes"):
        bounding_box([])


def test_pixels_need_a_raster() -> None:
    assert Page(1, 72, 144, pixels=(100, 100)).to_pixels(Box(0, 0, 36, 36)) == Box(0, 0, 50, 25)
    with pytest.raises(ValueError, match="page 4 has no raster"):
        Page(4, 72, 144).to_pixels(Box(0, 0, 1, 1))


def test_grids_and_header_rows() -> None:
    cells = [
        Cell(0, 0, "a", row_span=2, header=True),
        Cell(0, 1, "b", header=True),
        Cell(1, 1, "c", header=True),
        Cell(2, 0),
    ]
    table = Table(3, 2, cells)
    assert table.grid() == [[cells[0], cells[1]], [cells[0], cells[2]], [cells[3], None]]
    assert table.header_rows == 2 and table.has_spans
    assert Table(1, 1, [Cell(0, 0)]).header_rows == 0


def test_a_document_is_shown_in_one_line() -> None:
    assert repr(Document("a.pdf", [Page(1, 10, 10), Page(2, 10, 10)])) == "Document('a.pdf', 2 pages, ok)"
