"""Tables drawn as nets of lines come back mesh by mesh, whatever the maps say of them."""

import numpy as np
import pytest
from PIL import Image, ImageDraw
from test_map_tables import FONT, PITCH, TEXT_HEIGHT, WIDE, Drawn, draw_table, plain, spans

from docvision.chunks import find_chunks, find_rules, ground_ink, text_height
from docvision.layout_maps import layout_from_maps
from docvision.map_tables import read_net
from docvision.maps import CLASSES
from docvision.model import StructureMaps
from docvision.net_tables import find_net_boxes, net_grid
from docvision.page import Box


def net(drawn: Drawn) -> set | None:
    found = read_net(Box(0, 0, *drawn.image.size), ground_ink(drawn.image), TEXT_HEIGHT)
    return spans(found) if found is not None else None


def wrapped() -> dict:
    """Cells of one to three lines, one over two rows, one over two columns, an empty column and an empty cell."""
    texts = plain(4, 4)
    texts |= {(0, 1, 1, 1): "two lines\nin here", (2, 1, 1, 1): "three\nlines\nhere", (3, 3, 1, 1): ""}
    texts |= {(row, 2, 1, 1): "" for row in range(4)}
    del texts[1, 0, 1, 1], texts[2, 0, 1, 1], texts[3, 1, 1, 1], texts[3, 2, 1, 1]
    return texts | {(1, 0, 2, 1): "over both", (3, 1, 1, 2): "over two of them"}


def test_meshes_are_cells() -> None:
    drawn = draw_table(wrapped(), 4, 4, "full", pitch=70)
    assert net(drawn) == set(wrapped())
    found = read_net(Box(0, 0, *drawn.image.size), ground_ink(drawn.image), TEXT_HEIGHT)
    for cell in drawn.cells:
        twin = next(c for c in found.table.cells if (c.row, c.column) == (cell.row, cell.column))
        assert twin.box.iou(cell.box) > 0.95
        assert (twin.text_box is None) is not bool(cell.text)
        assert sum(twin.box.contains(*line.box.center) for line in found.lines) == len(cell.text.splitlines())


def test_unruled_rows_of_a_net_are_told_by_their_lines() -> None:
    """A header and one band that holds six rows; a band where one cell alone has six lines is a row."""
    rows = "\n".join(f"value {n}" for n in range(6))
    table = {(0, c, 1, 1): f"head {c}" for c in range(3)} | {(1, c, 1, 1): rows for c in range(3)}
    assert net(draw_table(table, 2, 3, "full", pitch=140)) == {(r, c, 1, 1) for r in range(7) for c in range(3)}
    table |= {(1, c, 1, 1): "a value" for c in range(2)}
    assert net(draw_table(table, 2, 3, "full", pitch=140)) == set(table)


def test_a_net_that_parts_the_text_only_here_and_there_is_not_believed() -> None:
    """Columns that nothing parts stand in its meshes; the maps and the white between them have to tell."""
    drawn = draw_table(plain(4, 4), 4, 4, "none")
    draw = ImageDraw.Draw(drawn.image)
    for row in range(5):
        draw.line((20, 20 + row * PITCH, 20 + 4 * WIDE, 20 + row * PITCH), fill=0)
    for column in (0, 1, 4):
        draw.line((20 + column * WIDE, 20, 20 + column * WIDE, 20 + 4 * PITCH), fill=0)
    assert net(drawn) is None
    assert net(draw_table(plain(4, 4), 4, 4, "booktabs")) is None


def test_empty_meshes_are_a_chart() -> None:
    drawn = draw_table(
        {place: "" for place in plain(6, 5)} | {(0, 0, 1, 1): "axis", (5, 4, 1, 1): "zero"}, 6, 5, "full"
    )
    assert find_net_boxes(ground_ink(drawn.image), TEXT_HEIGHT)
    assert net(drawn) is None


def test_double_lines_are_one() -> None:
    drawn = draw_table(plain(3, 3), 3, 3, "full")
    ImageDraw.Draw(drawn.image).rectangle((16, 16, 24 + 3 * WIDE, 24 + 3 * PITCH), outline=0)
    ink = ground_ink(drawn.image)
    rules = find_rules(ink, TEXT_HEIGHT)
    chunks = find_chunks(ink & ~rules.mask, TEXT_HEIGHT, lambda gap: False, rules.upright)
    grid, cells = net_grid(chunks, rules, TEXT_HEIGHT)
    assert (len(grid.rows), len(grid.columns), len(cells)) == (3, 3, 9)


def seen(image: Image.Image, lines: list[tuple[Box, str]]) -> StructureMaps:
    """Maps of a page with lines of some classes and no separators."""
    h, w = -(-image.height // 8), -(-image.width // 8)
    line, block = np.zeros((h, w), np.float32), np.zeros((len(CLASSES), h, w), np.float32)
    for box, kind in lines:
        inside = slice(int(box.center[1]) // 8, int(box.center[1]) // 8 + 1), slice(int(box.x0) // 8, int(box.x1) // 8)
        line[inside] = 1.0
        block[CLASSES.index(kind)][inside] = 1.0
    block[0] = 1 - block.sum(0)
    return StructureMaps(line, block, *(np.zeros((h, w), np.float32) for _ in range(3)), image.size)


@pytest.mark.parametrize("kind", ["text", "table"])
def test_a_net_on_a_page_is_a_table_whatever_the_maps_see(kind: str) -> None:
    drawn = draw_table(wrapped(), 4, 4, "full", pitch=70)
    page = Image.new("L", (drawn.image.width + 80, drawn.image.height + 220), 255)
    page.paste(drawn.image, (40, 100))
    ImageDraw.Draw(page).text((60, 30), "A paragraph above the table, as long as it is wide", font=FONT, fill=0)
    cells = [(cell.text_box.shift(40, 100), kind) for cell in drawn.cells if cell.text_box]
    blocks = layout_from_maps(seen(page, [(Box(60, 30, 420, 45), "text"), *cells]), page)
    assert [item.kind for item in blocks] == ["text", "table"]
    assert spans(blocks[1]) == set(wrapped())


@pytest.mark.parametrize("rows", [1, 2])
def test_a_table_has_two_rows_of_two_cells(rows: int) -> None:
    """One line of typing with wide gaps below a line that runs over them is no table, two such lines are."""
    page = Image.new("L", (620, 500), 255)
    draw = ImageDraw.Draw(page)
    texts = [(40, 100, "A line that somebody typed from the left to the right of all there is below")]
    texts += [(x, 130 + 30 * row, "a few words") for row in range(rows) for x in (40, 240, 440)]
    for x, y, text in texts:
        draw.text((x, y), text, font=FONT, fill=0)
    boxes = [Box(*(float(v) for v in draw.textbbox((x, y), text, font=FONT))) for x, y, text in texts]
    maps = seen(page, [(box, "table") for box in boxes])
    maps.block[CLASSES.index("table"), 11:23, 4:68] = 1.0
    maps.block[0, 11:23, 4:68] = 0.0
    below = seen(page, [(Box(40, 300, 560, 480), "text")])
    maps.block[:, 37:61] = below.block[:, 37:61]
    maps.block[CLASSES.index("text"), 37:61, 4:70] = 1.0
    maps.columns[15:23, [22, 47]] = 1.0
    maps.rows[14, 4:68] = 1.0
    kinds = [item.kind for item in layout_from_maps(maps, page)]
    assert ("table" in kinds) is (rows == 2)


def test_the_height_of_text_is_not_that_of_a_frame() -> None:
    """The lines of a net touch, so they are one piece of ink, which weighs as much as all letters in it."""
    bare, ruled = (draw_table(plain(12, 3), 12, 3, ruling).image for ruling in ("none", "full"))
    assert text_height(ground_ink(ruled)) == pytest.approx(text_height(ground_ink(bare)), rel=0.05)
