"""``docvision bench table-streams``: readers against the truth of a made data set."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from PIL import Image, ImageDraw, ImageFont
from typer.testing import CliRunner

from apps import bench_table_streams as benchmarks
from apps.cli import app
from docvision.batches import DataError
from docvision.page import Block, Box, Cell, Page, Table, page_to_json
from docvision.table_readers import WrittenTable

FONT = ImageFont.load_default(14)


def table_row(rows: int, columns: int) -> dict:
    """A ruled table as the pipeline writes it; boxes in points at 144 dpi."""
    image = Image.new("L", (20 + 100 * columns, 20 + 30 * rows), 255)
    draw, cells = ImageDraw.Draw(image), []
    for place in range(rows * columns):
        row, column = divmod(place, columns)
        x, y, text = 10 + 100 * column, 10 + 30 * row, f"cell {row}{column}"
        draw.rectangle((x, y, x + 100, y + 30), outline=0)
        draw.text((x + 10, y + 8), text, font=FONT, fill=0)
        box = Box(*(float(v) / 2 for v in draw.textbbox((x + 10, y + 8), text, font=FONT)))
        cells.append(
            Cell(row, column, text, header=row == 0, box=Box(x / 2, y / 2, x / 2 + 50, y / 2 + 15), text_box=box)
        )
    blocks = [Block("table", Box(5, 5, 5 + 50 * columns, 5 + 15 * rows), table=Table(rows, columns, cells))]
    page = Page(1, image.width / 2, image.height / 2, blocks)
    file = io.BytesIO()
    image.save(file, "PNG")
    return {"image": {"bytes": file.getvalue()}, "document": page_to_json(page), "rows": rows, "columns": columns}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rows = [table_row(3, 3), table_row(4, 5), table_row(2, 3)]
    parquet.write_table(arrow.Table.from_pylist(rows), folder / "part-0.parquet")
    return folder


def test_a_writer_that_is_right_or_gives_up_is_told_by_size(folder) -> None:
    """The truth as the decoder's answer for two tables, an empty one for the largest."""

    def write(pictures, text):
        answers = []
        for picture in pictures:
            rows, columns = (picture.height - 20) // 30, (picture.width - 20) // 100
            cells = []
            for row in range(rows):
                for column in range(columns):
                    x, y = 20 + 100 * column, 18 + 30 * row
                    text_box = Box(*(float(v) for v in ImageDraw.Draw(picture).textbbox((x, y), "cell 00", FONT)))
                    cells.append(Cell(row, column, "", header=row == 0, text_box=text_box))
            large = rows * columns > 16
            table = Table(0, 0) if large else Table(rows, columns, cells)
            answers.append(WrittenTable(table, 1.0, "a loop" if large else ""))
        return answers

    reader = SimpleNamespace(write_tables=write)
    report = benchmarks.measure(reader, folder, benchmarks.load(folder, 10), ["decoder"], lambda text: None)
    small, large, every = report["rows"]
    assert (small["cells"], small["tables"], large["cells"], large["tables"]) == ("1 to 16", 2, "17 to 40", 1)
    assert small["s_teds"] == 1.0 and small["box_iou"] > 0.9 and small["given_up"] == 0.0
    assert large["s_teds"] == large["box_iou"] == 0.0 and large["given_up"] == 1.0
    assert every["tables"] == 3 and every["s_teds"] == pytest.approx(2 / 3, abs=0.001) and every["teds"] is None
    assert every["s_teds_interval"][0] < every["s_teds"] < every["s_teds_interval"][1]


def test_choice_of_tables(folder) -> None:
    assert [len(benchmarks.load(folder, limit)) for limit in (1, 2, 9)] == [1, 2, 3]
    assert benchmarks.load(folder, 9, largest=9) == [(0, 2), (0, 0)]  # small ones first
    with pytest.raises(DataError, match="no table of at most 2 cells"):
        benchmarks.load(folder, 9, largest=2)


def test_the_command_scores_a_reader_of_the_package(folder, tmp_path) -> None:
    out = tmp_path / "new" / "report.json"
    found = CliRunner().invoke(
        app, ["bench", "table-streams", str(folder), "--readers", "maps", "--cells", "9", "--json", str(out)]
    )
    assert found.exit_code == 0 and "maps" in found.output
    (row, every) = json.loads(out.read_text())["rows"]
    assert row["tables"] == every["tables"] == 2 and row["s_teds"] == 1.0 and row["teds"] > 0.8 and row["box_iou"] > 0.7


@pytest.mark.parametrize(
    ("given", "told"), [(["--readers", "best"], "--readers"), (["--cells", "1"], "no table of at most 1 cells")]
)
def test_wrong_use_is_told(folder, given: list[str], told: str) -> None:
    found = CliRunner().invoke(app, ["bench", "table-streams", str(folder), *given])
    assert found.exit_code == 2 and told in found.output + str(found.exception)


def test_lines_are_no_tables(tmp_path) -> None:
    parquet.write_table(arrow.Table.from_pylist([{"text": "a"}]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="no tables: make them"):
        benchmarks.load(tmp_path, 3)
