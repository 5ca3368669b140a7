"""Workbooks and data frames, read back with the libraries that wrote them."""

import importlib
import io

import pytest

from docvision.page import Block, Box, Cell, Document, Page, Table
from docvision.sheets import SheetsError, document_dataframes, table_to_dataframe, to_xlsx

NUMBERS = {"12": 12, "-3": -3, "0": 0, "1.50": 1.5, "0.25": 0.25}
TEXTS = ["007", "1,234", "12%", "1e5", "1.", ".5", "+4", "-0", "1234567890123456", "=1+1", "=HYPERLINK()", "2001-02"]


def document(*tables: Table) -> Document:
    box = Box(0, 0, 100, 100)
    return Document("x.pdf", [Page(4, 200, 200, [Block("table", box, table=table) for table in tables])])


def column(texts: list[str]) -> Table:
    return Table(len(texts), 1, [Cell(row, 0, text) for row, text in enumerate(texts)])


SPANNING = Table(
    4, 3,
    [Cell(0, 0, "Place", 2, 1, header=True), Cell(0, 1, "Rain", 1, 2, header=True), Cell(1, 1, "May", header=True),
     Cell(1, 2, "June", header=True), Cell(2, 0, "Ulm", 2, 1), Cell(2, 1, "12"), Cell(2, 2, "7"), Cell(3, 2, "8")],
)  # fmt: skip


def read(data: bytes):
    return pytest.importorskip("openpyxl").load_workbook(io.BytesIO(data))


def test_numbers_are_numbers_only_where_they_show_the_same_text():
    pytest.importorskip("openpyxl")
    sheet = read(to_xlsx(document(column([*NUMBERS, *TEXTS]))))["page 4 table 1"]
    values = [row[0] for row in sheet.iter_rows()]
    for cell, (text, number) in zip(values, NUMBERS.items(), strict=False):
        assert cell.data_type == "n" and cell.value == number
        assert cell.number_format == ("0." + "0" * len(text.split(".")[1]) if "." in text else "0")
    assert [cell.value for cell in values[len(NUMBERS) :]] == TEXTS
    assert {cell.data_type for cell in values[len(NUMBERS) :]} == {"s"}  # a formula would be "f"


def test_spans_are_merged_and_headers_frozen():
    pytest.importorskip("openpyxl")
    sheet = read(to_xlsx(document(SPANNING))).worksheets[0]
    assert sorted(map(str, sheet.merged_cells.ranges)) == ["A1:A2", "A3:A4", "B1:C1"]
    assert sheet.freeze_panes == "A3" and sheet["B1"].font.bold and not sheet["B3"].font.bold
    assert [sheet[place].value for place in ("A1", "C2", "A3", "B3", "B4", "C4")] == [
        "Place",
        "June",
        "Ulm",
        12,
        None,
        8,
    ]


def test_each_table_has_a_sheet_and_a_document_without_one_still_opens():
    pytest.importorskip("openpyxl")
    assert read(to_xlsx(document(SPANNING, SPANNING))).sheetnames == ["page 4 table 1", "page 4 table 2"]
    assert read(to_xlsx(document())).sheetnames == ["no tables"]


def test_what_a_sheet_cannot_hold_is_said_or_left_out():
    pytest.importorskip("openpyxl")
    assert read(to_xlsx(document(column(["a\x00b\x0bc"])))).worksheets[0]["A1"].value == "abc"
    with pytest.raises(SheetsError, match="a cell has 40000 characters and Excel holds 32767: write csv instead"):
        to_xlsx(document(column(["x" * 40_000])))


def test_data_frames_have_the_header_as_names_and_spans_at_every_place():
    pytest.importorskip("pandas")
    frame = table_to_dataframe(SPANNING)
    assert list(frame.columns) == [("Place", "Place"), ("Rain", "May"), ("Rain", "June")]
    assert frame.to_numpy().tolist() == [["Ulm", "12", "7"], ["Ulm", "", "8"]]
    assert table_to_dataframe(column(["a", "b"])).columns.tolist() == [0]
    single = Table(2, 1, [Cell(0, 0, "n", header=True), Cell(1, 0, "007")])
    assert table_to_dataframe(single).to_dict("list") == {"n": ["007"]}


def test_every_table_of_a_document_becomes_a_frame_that_knows_its_place():
    pytest.importorskip("pandas")
    frames = document_dataframes(document(SPANNING, column(["a"])))
    assert [frame.attrs for frame in frames] == [{"page": 4, "table": 1}, {"page": 4, "table": 2}]
    assert table_to_dataframe(Table(0, 0)).empty


def test_a_missing_library_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SheetsError, match=r"openpyxl is not installed: pip install 'docvision\[sheets\]'"):
        to_xlsx(document(SPANNING))
    with pytest.raises(SheetsError, match="pandas is not installed"):
        table_to_dataframe(SPANNING)
