"""Formats of others: what a format can hold comes back the same, and bad input is named with its line."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_pipeline import coco, doctags, formats, otsl, page_rows, pubtabnet, render
from data_pipeline.table_html import read_html_table
from data_pipeline.tables import plan_table
from docvision.export import table_to_html
from docvision.page import Block, Box, Cell, Document, Page, Table, page_from_json, page_to_json

SEEDS = range(40)
ODD = [
    "",
    "a & b",
    "x < y",
    "1,234.5",
    "&lt;b&gt; &amp;lt;",
    "<fcel>",
    "</otsl>",
    "<loc_3>",
    "two\nlines",
    "Zürich – 5 %",
]


def planned_table(rng: np.random.Generator) -> Table:
    """A table as the renderer plans them: headings that span, groups of rows, section rows."""
    plan = plan_table(rng, lambda length: str(rng.choice(ODD)) or "x" * min(length, 9))
    cells = [
        Cell(cell.row, cell.column, cell.text, cell.row_span, cell.column_span, cell.header, source="truth")
        for cell in plan.cells
    ]
    return Table(plan.rows, plan.columns, cells)


def tiled_table(rng: np.random.Generator) -> Table:
    """Any tiling at all: each free place starts a cell of random reach, so spans meet in every way."""
    rows, columns = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    head = int(rng.integers(0, rows + 1))
    taken: set[tuple[int, int]] = set()
    cells = []
    for row in range(rows):
        for column in range(columns):
            if (row, column) in taken:
                continue
            bottom = head if row < head else rows
            tall = int(rng.integers(1, min(3, bottom - row) + 1))
            wide = 1
            while wide < 3 and column + wide < columns and (row, column + wide) not in taken and rng.random() < 0.3:
                wide += 1
            taken.update((row + down, column + right) for down in range(tall) for right in range(wide))
            cells.append(Cell(row, column, str(rng.choice(ODD)), tall, wide, row < head, source="truth"))
    return Table(rows, columns, cells)


def random_tables() -> list[Table]:
    return [make(np.random.default_rng(seed)) for seed in SEEDS for make in (planned_table, tiled_table)]


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    made = random_tables()
    assert sum(table.has_spans for table in made) > 30
    assert any(cell.row_span > 1 and cell.column_span > 1 for table in made for cell in table.cells)
    return made


def with_boxes(table: Table) -> Table:
    cells = [
        replace(cell, text_box=Box(cell.column * 9.5, cell.row * 7.0, cell.column * 9.5 + 8, cell.row * 7.0 + 6))
        if cell.text
        else cell
        for cell in table.cells
    ]
    return replace(table, cells=cells)


def as_read(table: Table) -> Table:
    """Readers of one table leave the source at its default; the data set's reader sets it."""
    return replace(table, cells=[replace(cell, source="text-layer") for cell in table.cells])


def test_html_comes_back(tables: list[Table]) -> None:
    for table in tables:
        shown = read_html_table(table_to_html(table))
        assert shown == as_read(table)


def test_html_is_read_as_browsers_do() -> None:
    table = read_html_table(
        "<p>Here:</p><table><thead><tr><th>a<th colspan=9>b &amp; <b>c</b></thead>"
        "<tr><td rowspan='0'>1<br>2<td>in <table><tr><td>ner</td></tr></table></td><td></table>"
        "<table><tr><td>no</table>"
    )
    assert (table.rows, table.columns) == (2, 10)
    assert [(cell.row, cell.column, cell.column_span, cell.text) for cell in table.cells] == [
        (0, 0, 1, "a"), (0, 1, 9, "b & c"), (1, 0, 1, "1\n2"), (1, 1, 1, "in ner"), (1, 2, 1, ""),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no <table>"):
        read_html_table("plain text")


def test_pubtabnet_comes_back(tables: list[Table]) -> None:
    for table in map(with_boxes, tables):
        record = json.loads(json.dumps(pubtabnet.to_record(table, "a.png")))
        assert pubtabnet.from_record(record) == as_read(table)


def test_pubtabnet_as_published_is_read() -> None:
    """The shape of a line of the real set: bold characters, an empty cell without a box, split td tokens."""
    tokens = ["<thead>", "<tr>", "<td", ' rowspan="2"', ' colspan="2"', ">", "</td>", "<td>", "</td>", "</tr>"]
    tokens += ["<tr>", "<td>", "</td>", "</tr>", "</thead>"]
    tokens += ["<tbody>", "<tr>", *["<td>", "</td>"] * 3, "</tr>", "</tbody>"]
    cells = [{"tokens": ["<b>", "A", " ", "<sup>", "2", "</sup>", "</b>"], "bbox": [1, 2, 9, 8]}, {"tokens": []}]
    cells += [{"tokens": [char], "bbox": [0, 0, 1, 1]} for char in "x<&>"]
    table = pubtabnet.from_record({"html": {"structure": {"tokens": tokens}, "cells": cells}})
    assert (table.rows, table.columns, table.header_rows) == (3, 3, 2)
    assert [cell.text for cell in table.cells] == ["A 2", "", "x", "<", "&", ">"]
    assert table.cells[0].text_box == Box(1, 2, 9, 8) and table.cells[1].text_box is None


def test_otsl_comes_back(tables: list[Table]) -> None:
    for table in tables:
        tokens, texts = otsl.to_otsl(table)
        found = otsl.from_otsl(tokens, texts)
        assert found == replace(as_read(table), cells=[replace(c, header=False) for c in as_read(table).cells])
        assert tokens.count("NL") == table.rows and len(tokens) == table.rows * (table.columns + 1)


def test_otsl_is_the_papers() -> None:
    """A 2 x 2 cell beside a column: the inside of the span is X, its edges L and U."""
    table = Table(2, 3, [Cell(0, 0, "a", 2, 2), Cell(0, 2, "b"), Cell(1, 2, "c")])
    assert " ".join(otsl.to_otsl(table)[0]) == "C L C NL U X C NL"
    assert otsl.from_otsl("ched lcel fcel nl ucel xcel ecel nl".split()).cells[0].header


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        ("C C NL C NL", "row 2 has 1 places"),
        ("L C NL", "row 1, column 1 cannot follow the edge on its left"),
        ("C U NL", "row 1, column 2"),
        ("C L NL U C NL", "overlap"),
        ("C L NL C X NL", "row 2, column 2 cannot follow C on its left"),
        ("C L NL U U NL", "L above"),
        ("C C", "ends inside a row"),
        ("C Q NL", "unknown OTSL token 'Q'"),
    ],
)
def test_otsl_rules_are_checked(tokens: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        otsl.from_otsl(tokens.split())


def test_tables_that_cannot_be_are_refused() -> None:
    crossing = Table(2, 2, [Cell(0, 0, "a", 2, 2), Cell(1, 1, "b")])
    outside = Table(1, 1, [Cell(0, 0, "a", 1, 2)])
    for write in (otsl.to_otsl, doctags.table_to_doctags, lambda table: pubtabnet.to_record(table, "a.png")):
        with pytest.raises(ValueError, match="overlap"):
            write(crossing)
        with pytest.raises(ValueError, match="reaches out"):
            write(outside)


def random_document(rng: np.random.Generator) -> Document:
    """Pages on the grid of DocTags with every kind of block."""
    pages = []
    for number in range(1, int(rng.integers(1, 4)) + 1):
        blocks = []
        for _ in range(int(rng.integers(0, 14))):
            x0, y0, wide, high = (float(value) for value in rng.integers(0, 200, 4))
            kind = coco.KINDS[int(rng.integers(len(coco.KINDS)))]
            block = Block(kind, Box(x0, y0, x0 + wide, y0 + high), str(rng.choice(ODD)), source="truth")
            if kind == "heading":
                block.level = int(rng.integers(1, 5))
            elif kind == "list":
                block.level, block.marker = int(rng.integers(0, 4)), str(rng.choice(["", "7.", "12)"]))
            elif kind == "table":
                block.text, block.table = "", tiled_table(rng)
            blocks.append(block)
        pages.append(Page(number, 500.0, 500.0, blocks))
    return Document("", pages)


def test_doctags_come_back() -> None:
    for seed in SEEDS:
        document = random_document(np.random.default_rng(seed))
        for page in document.pages:
            for block in page.blocks:
                if block.table:
                    block.table = as_read(block.table)
        text = doctags.to_doctags(document)
        assert doctags.from_doctags(text) == document
        assert doctags.to_doctags(doctags.from_doctags(text, 612, 792)) == text, "boxes move on another page size"


def test_doctags_as_docling_writes_them() -> None:
    document = doctags.from_doctags(
        "<doctag><page_header><loc_1><loc_2><loc_3><loc_4>head</page_header>\n<title>T</title>\n"
        "<picture><loc_0><loc_0><loc_9><loc_9><bar_chart><caption><loc_0><loc_9><loc_9><loc_12>Fig. 1"
        "</caption></picture>"
        "<unordered_list><list_item>one</list_item>\n<ordered_list><list_item>1. two</list_item></ordered_list>"
        "</unordered_list><code><_Python_>if a<b: print('<div>')</code>"
        "<otsl><caption>Table 1</caption><ched>a<lcel><nl><rhed>b<ecel><nl></otsl><page_break><text>end</text></doctag>"
    )
    first, second = document.pages
    shown = [(block.kind, block.level, block.marker, block.text) for block in first.blocks]
    assert shown == [
        ("header", 0, "", "head"), ("heading", 1, "", "T"), ("caption", 0, "", "Fig. 1"), ("figure", 0, "", ""),
        ("list", 0, "", "one"), ("list", 1, "1.", "two"), ("code", 0, "", "if a<b: print('<div>')"),
        ("caption", 0, "", "Table 1"), ("table", 0, "", ""),
    ]  # fmt: skip
    table = first.blocks[-1].table
    assert table is not None and [cell.text for cell in table.cells] == ["a", "b", ""]
    assert first.blocks[0].box == Box(1, 2, 3, 4) and second.blocks[0].text == "end"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<doctag>\n<text>a", "line 2: <text> is not closed"),
        ("<text>a</text>\n</text>", "line 2: </text> closes nothing"),
        ("<text>a</text>\n\nlost words", "line 3: 'lost' stands outside"),
        ("<sidebar>a</sidebar>", "line 1: '<sidebar>a</sidebar>' stands outside"),
        ("\n<text><loc_1><loc_2>a</text>", "line 2: <text> has 2 positions"),
        ("<otsl><fcel>a<nl>\n<fcel>b<fcel>c<nl></otsl>", "line 1: OTSL row 2 has 2 places"),
        ("<unordered_list>\n<list_item>a</list_item>", "line 2: <unordered_list> is not closed"),
        ("<text>a<title>b</title></text>", "line 1: <title> inside <text>"),
        ("<text>a<fcel>b</text>", "stands outside a table"),
        ("<loc_5>", "is no element"),
    ],
)
def test_broken_doctags_are_named(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as caught:
        doctags.from_doctags(text)
    assert "\n" not in str(caught.value)


def pixel_pages() -> list[tuple[str, Page]]:
    rng = np.random.default_rng(3)
    pages = []
    for number in range(5):
        boxes = np.sort(np.round(rng.uniform(0, 300, (6, 2, 2)), 2), axis=1).reshape(6, 4)
        blocks = [
            Block(coco.KINDS[int(rng.integers(len(coco.KINDS)))], Box(*map(float, box)), source="truth")
            for box in boxes
        ]
        pages.append((f"{number}.png", Page(1, 640.0, 480.0, blocks, pixels=(640, 480))))
    return pages


def test_coco_comes_back() -> None:
    pages = pixel_pages()
    assert coco.from_coco(json.loads(json.dumps(coco.to_coco(pages)))) == pages


def test_coco_of_others_is_read() -> None:
    data = {
        "images": [{"id": 7, "file_name": "a.png", "width": 9, "height": 9}],
        "annotations": [
            {"id": 2, "image_id": 7, "category_id": 0, "bbox": [1, 1, 2, 2]},
            {"id": 1, "image_id": 7, "category_id": 3, "bbox": [0, 0, 1, 1]},
        ],
        "categories": [{"id": 0, "name": "Section-header"}, {"id": 3, "name": "Picture"}],
    }
    ((_, page),) = coco.from_coco(data)
    assert [block.kind for block in page.blocks] == ["figure", "heading"]
    data["categories"][1]["name"] = "stamp"
    with pytest.raises(ValueError, match="unknown name 'stamp'"):
        coco.from_coco(data)
    data["categories"].pop()
    with pytest.raises(ValueError, match="annotations: id 1 names an image or a category that the file lacks"):
        coco.from_coco(data)


def rendered_rows() -> list[dict]:
    """Two pages at 144 dpi, one of them with a table, as the renderer stores them."""
    stream = io.BytesIO()
    Image.fromarray(np.arange(400 * 600, dtype=np.uint32).reshape(600, 400).astype(np.uint8)).save(stream, "PNG")
    table = Table(1, 2, [Cell(0, 0, "a", text_box=Box(22, 31, 40, 38)), Cell(0, 1, "b", text_box=Box(60, 31, 70, 38))])
    blocks = [Block("heading", Box(10, 10, 90, 20), "Sums", level=1), Block("table", Box(20, 30, 120, 40), table=table)]
    pages = [Page(1, 200, 300, blocks, pixels=(400, 600)), Page(1, 200, 300, [], pixels=(400, 600))]
    image = {"bytes": stream.getvalue(), "path": None}
    return [
        {"image": image, "document": page_to_json(page), "width": 400, "height": 600, "kind": "report",
         "difficulty": 0.0, "index": index}
        for index, page in enumerate(pages)
    ]  # fmt: skip


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    page_rows.write_parts(folder, rendered_rows(), page_rows.PAGE_SCHEMA, {})
    return folder


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_a_data_set_goes_out_and_comes_back(name: str, data_set: Path, tmp_path: Path) -> None:
    """Export, import, export: the two files are the same, pictures included."""
    first, second = tmp_path / "first", tmp_path / "second"
    images = ["--images", str(tmp_path / "images")]
    found = [] if name == "doctags" else images  # its pages have no names
    assert formats.main(["export", str(data_set), "--to", name, "-o", str(first), *images]) == 0
    assert formats.main(["import", str(first), "--from", name, "-o", str(tmp_path / "back"), *found]) == 0
    assert formats.main(["export", str(tmp_path / "back"), "--to", name, "-o", str(second)]) == 0
    renamed = json.loads((tmp_path / "back" / "_SUCCESS").read_text())
    assert renamed["count"] == (1 if formats.FORMATS[name].of_tables else 2)
    if name in ("coco", "doctags"):
        assert second.read_text() == first.read_text()
    else:
        one, two = (json.loads(path.read_text()) for path in (first, second))
        assert one.pop("filename") == "00000000-1.png" and two.pop("filename") and one == two


def test_tables_are_cut_out_in_pixels(data_set: Path, tmp_path: Path) -> None:
    formats.export_folder(data_set, "pubtabnet", tmp_path / "t.jsonl", tmp_path / "images")
    record = json.loads((tmp_path / "t.jsonl").read_text())
    assert [cell["bbox"] for cell in record["html"]["cells"]] == [[4, 2, 40, 16], [80, 2, 100, 16]]
    with Image.open(tmp_path / "images" / record["filename"]) as cut:
        assert cut.size == (200, 20)
    formats.import_file(tmp_path / "t.jsonl", "pubtabnet", tmp_path / "back", tmp_path / "images")
    (row,) = page_rows.read_parts(tmp_path / "back")
    page = page_from_json(row["document"])
    assert page.pixels == (200, 20) and page.blocks[0].box == Box(0, 0, 200, 20)
    assert row["image"]["bytes"] == (tmp_path / "images" / record["filename"]).read_bytes()


def test_imported_rows_have_the_columns_of_rendered_ones() -> None:
    assert page_rows.PAGE_SCHEMA.equals(render.PAGE_SCHEMA)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("pubtabnet", '{"html": {"structure": {"tokens": []}, "cells": []}}\n{', "line 2: not JSON"),
        ("pubtabnet", "[1]", "line 1: not a JSON object"),
        ("pubtabnet", '\n{"html": {}}', "line 2: no html.structure.tokens"),
        ("pubtabnet", '{"html": {"structure": {"tokens": ["<tr>", "<td>"]}, "cells": []}}', "line 1: .* has 1 cells"),
        ("pubtabnet", '{"html": {"structure": {"tokens": ["<td>"]}, "cells": [{}]}}', "line 1: a cell stands before"),
        ("otsl", '{"otsl": ["C", "NL"], "texts": []}', "line 1: OTSL has 1 cells but 0 texts"),
        ("otsl", '{"texts": []}', "line 1: otsl must be a list"),
        ("coco", "{\n\n!", "line 3: not JSON"),
        ("coco", "[]", "no list of images"),
        ("coco", '{"images": [{"id": 1}], "annotations": [], "categories": []}', "images: entry 1 has no file_name"),
        ("doctags", "<doctag>\n<text>", "line 2: <text> is not closed"),
    ],
)
def test_bad_input_is_one_line(
    name: str, text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text(text)
    with pytest.raises(ValueError, match=fault):
        formats.import_file(tmp_path / "in", name, tmp_path / "out")
    assert formats.main(["import", str(tmp_path / "in"), "--from", name, "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "out").exists()


def test_data_sets_are_not_overwritten_or_guessed(data_set: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("<doctag></doctag>")
    with pytest.raises(ValueError, match="holds a data set already"):
        formats.import_file(tmp_path / "in", "doctags", data_set)
    with pytest.raises(ValueError, match="holds no part"):
        formats.export_folder(tmp_path, "coco", tmp_path / "out.json")
    (data_set / "part-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="no whole Parquet file"):
        formats.export_folder(data_set, "coco", tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()
