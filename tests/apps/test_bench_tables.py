"""The comparison of table extractors: what is written, scored, skipped and printed."""

import io
import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
import typst
from PIL import Image, ImageColor

from apps import bench, bench_table_boxes, bench_table_speed, bench_tables
from apps.bench import EngineMissing, Output, Request
from apps.bench_tables import TableEngine
from apps.cli import main
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.model import DocVisionModel
from docvision.page import Block, Box, Cell, Document, Page, Table
from docvision.parse import DocumentParser, ParseOptions, parse
from docvision.table_html import html_to_table
from docvision.table_readers import BESIDE

SCORER = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
for name in ("--manifest", "--pred", "--kinds", "--json"):
    parser.add_argument(name, required=True)
given = parser.parse_args()
rows = [json.loads(line) for line in open(given.manifest)]
summary, items = {}, []
for kind in given.kinds.split(","):
    mine = [row for row in rows if row["kind"] == kind]
    texts = [pathlib.Path(given.pred, row["id"] + ".md").read_text() for row in mine]
    right = sum("<td>right</td>" in text for text in texts)
    summary[kind] = {"all": {"n": len(mine), "teds": right / len(mine), "s_teds": 0.5, "adj_f1": None}}
    for row in mine:
        code = pathlib.Path(given.pred, row["id"] + ".status").read_text().split()[0]
        items.append({"kind": kind, "status": [int(code), 0.1, 1]})
json.dump({"summary": summary, "items": items}, open(given.json, "w"))
"""


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two PDFs and a picture with a scorer beside them, and three engines."""
    rows = [
        {"id": "one", "kind": "pdf_table", "file": "one.pdf", "page": 2},
        {"id": "two", "kind": "pdf_table", "file": "two.pdf"},
        {"id": "picture", "kind": "table_image", "file": "picture.png"},
        {"id": "line", "kind": "line", "file": "never-opened.png"},
    ]
    path = tmp_path / "manifest.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "score.py").write_text(SCORER)

    def good(request: Request) -> Output:
        return Output(bench_tables.rows_html([["right", None]]), 1)

    def fails(request: Request) -> Output:
        if request.path.name == "two.pdf":
            raise RuntimeError("a peer's own trouble")
        return Output("", 1)

    def absent(request: Request) -> Output:
        raise EngineMissing("engine x is not installed: pip install x")

    engines = {
        "fails": TableEngine(fails, ("pdf_table",)),
        "absent": TableEngine(absent),
        "good": TableEngine(good),
    }
    monkeypatch.setattr(bench_tables, "TABLE_ENGINES", engines)
    return path


def test_every_engine_is_scored_by_the_scorer_on_the_kinds_that_it_reads(manifest: Path, tmp_path: Path):
    said: list[str] = []
    found = bench_tables.compare(manifest, tmp_path / "out", say=said.append)
    assert said == ["fails: pdf_table", "absent: pdf_table, table_image", "good: pdf_table, table_image"]
    assert found.missing == {"absent": "engine x is not installed: pip install x"}
    rows = {(row["engine"], row["kind"]): row for row in found.rows}
    assert set(rows) == {("fails", "pdf_table"), ("good", "pdf_table"), ("good", "table_image")}
    assert rows["fails", "pdf_table"]["unread"] == 1 and rows["fails", "pdf_table"]["teds"] == 0.0
    assert rows["good", "pdf_table"]["items"] == 2 and rows["good", "pdf_table"]["teds"] == 1.0
    written = sorted(path.name for path in (tmp_path / "out/good").glob("*.md"))
    assert written == ["one.md", "picture.md", "two.md"]


def test_chosen_engines_and_kinds_only(manifest: Path, tmp_path: Path):
    found = bench_tables.compare(manifest, tmp_path / "out", ["good"], ["table_image"])
    assert [(row["engine"], row["kind"]) for row in found.rows] == [("good", "table_image")]
    assert not (tmp_path / "out/good/one.md").exists()


def test_the_printed_table_has_the_best_first_and_no_column_without_figures(manifest: Path, tmp_path: Path):
    printed = bench_tables.markdown(bench_tables.compare(manifest, tmp_path / "out").rows)
    first, second = printed.split("\n\n")
    assert first.splitlines() == [
        "| pdf_table | items | unread | teds | s_teds |",
        "| --- | --- | --- | --- | --- |",
        "| good | 2 | 0 | 1.000 | 0.500 |",
        "| fails | 2 | 1 | 0.000 | 0.500 |",
    ]
    assert second.startswith("| table_image |")


def test_what_cannot_be_scored_is_said(manifest: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="has no rows of kind table_pages"):
        bench_tables.compare(manifest, tmp_path / "out", ["good"], ["table_pages"])
    with pytest.raises(ValueError, match="no scorer at .*: name the benchmark's score.py"):
        bench_tables.compare(manifest, tmp_path / "out", ["good"], scorer=tmp_path / "none.py")
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no truth found')")
    with pytest.raises(ValueError, match="broken.py failed: no truth found"):
        bench_tables.compare(manifest, tmp_path / "out", ["good"], scorer=broken)


def test_rows_of_texts_become_html_that_reads_back():
    found = html_to_table(bench_tables.rows_html([["a < b", None], ["two\nlines", "&amp;"]]))
    assert found is not None
    assert [cell.text for cell in found.cells] == ["a < b", "", "two lines", "&amp;"]


def test_camelot_is_asked_for_the_page_and_the_way(monkeypatch: pytest.MonkeyPatch):
    """Its default is page 1 alone, which would silently lose the tables of all others."""
    asked = {}

    def read_pdf(path: str, **options: object) -> list[SimpleNamespace]:
        asked.update(options)
        return [SimpleNamespace(data=[["a", "b"]])]

    monkeypatch.setitem(sys.modules, "camelot", SimpleNamespace(read_pdf=read_pdf))
    output = bench_tables._camelot("stream")(Request(Path("x.pdf"), page=3))
    assert asked["pages"] == "3" and asked["flavor"] == "stream" and asked["password"] is None
    assert output == Output("<table>\n<tr><td>a</td><td>b</td></tr>\n</table>\n", 1)
    monkeypatch.setattr(bench_tables, "_page_count", lambda request: 7)
    assert bench_tables._camelot("lattice")(Request(Path("x.pdf"))).pages == 7
    assert asked["pages"] == "all"


def test_rapid_table_is_given_the_lines_that_were_read(monkeypatch: pytest.MonkeyPatch):
    class Boxes:
        def tolist(self) -> list[list[list[float]]]:
            return [[[0.0, 0.0], [4.0, 0.0], [4.0, 2.0], [0.0, 2.0]]]

    lines = SimpleNamespace(boxes=Boxes(), txts=("cell",), scores=(0.9,))
    monkeypatch.setattr(bench_tables, "rapidocr_engine", lambda: lambda path: lines)
    monkeypatch.setattr(bench_tables, "_rapid_table", lambda: lambda path, given: (f"<table>{given[0][1]}</table>", 0))
    assert bench_tables.run_rapid_table(Request(Path("x.png"))).text == "<table>cell</table>"
    lines.boxes = None
    assert bench_tables.run_rapid_table(Request(Path("x.png"))) == Output("", 1)


def test_a_missing_peer_is_named_with_the_package_to_install():
    with pytest.raises(EngineMissing, match="engine no_such_module is not installed: pip install its-package"):
        bench.installed("no_such_module", "its-package")


TWO_TABLES = """
#set page(width: 300pt, height: 300pt, margin: 40pt)
#table(columns: 2, [Place], [Rain], [Ulm], [12], [Bonn], [7])
Some text that parts them.
#v(60pt)
#table(columns: 2, [Name], [Age], [Ada], [36], [Max], [54])
"""


def test_own_tables_are_compared_with_the_true_one_at_their_place(tmp_path: Path):
    """The second true table is given first and a third is nowhere on the page."""
    (tmp_path / "two.pdf").write_bytes(typst.compile(TWO_TABLES.encode()))
    found = [block.table for block in parse(tmp_path / "two.pdf", layout="rules").pages[0].blocks if block.table]
    assert len(found) == 2

    def truth(table: Table, shift: float = 0.0) -> dict:
        cells = [
            {"r0": c.row + 1, "r1": c.row + 1, "c0": c.column, "c1": c.column, "text": c.text,
             "bbox": c.text_box.shift(shift, 0)}
            for c in table.cells if c.text_box
        ]  # fmt: skip
        return {"page": 1, "cells": cells}

    tables = [truth(found[1]), truth(found[0]), truth(found[0], shift=500)]
    truths = {"coords": {"rotate": [0]}, "tables": tables}
    (tmp_path / "two.json").write_text(json.dumps(truths))
    row = {"id": "two", "kind": "pdf_table", "file": "two.pdf", "truth": ["two.json"]}
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text(json.dumps(row))
    report = bench_tables.own_report(manifest)
    assert [sample["teds"] for sample in report.samples] == [1.0, 1.0, 0.0]
    assert [sample["box_iou"] for sample in report.samples] == pytest.approx([1.0, 1.0, 0.0])
    assert report["grits_con"] == pytest.approx(2 / 3)
    (tmp_path / "two.json").write_text(json.dumps(truths | {"coords": {"rotate": [90]}}))
    with pytest.raises(ValueError, match="has no pdf_table row whose truth has boxes"):
        bench_tables.own_report(manifest)


# docvision's own readers, speed and boxes


class Empty:
    """A reader that finds no table and says that its decoder could not write one."""

    made: ClassVar[list[ParseOptions]] = []

    def __init__(self, options: ParseOptions) -> None:
        self.options = options
        self.made.append(options)

    def parse(self, path: Path, pages: str, password: str) -> Document:
        made = Page(1, 10.0, 10.0, warnings=[f"table 1 {BESIDE}: {self.options.table_reader} of {self.options.model}"])
        return Document(str(path), [made])


def test_engines_of_docvision_differ_by_their_table_reader_and_share_the_model(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bench_tables, "DocumentParser", Empty)
    engines = {name: TableEngine(bench_tables.ReaderEngine(name)) for name in ("crops", "stream")}
    monkeypatch.setattr(bench_tables, "TABLE_ENGINES", engines)
    Empty.made.clear()
    said: list[str] = []
    bench_tables.compare(manifest, tmp_path / "out", kinds=["pdf_table"], say=said.append, model="some/model")
    assert said == [
        "crops: pdf_table", f"crops: 2 tables {BESIDE}", "stream: pdf_table", f"stream: 2 tables {BESIDE}",
    ]  # fmt: skip
    assert [(options.table_reader, options.model) for options in Empty.made] == [
        ("crops", "some/model"), ("stream", "some/model"),
    ]  # fmt: skip


def small_model() -> DocVisionModel:
    torch.manual_seed(0)
    encoder = EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 0, 0, 0))
    return DocVisionModel(ModelConfig(32, encoder=encoder, decoder=DecoderConfig(1, 2, 48))).eval()


def test_the_speed_of_writing_is_that_of_the_true_stream(monkeypatch: pytest.MonkeyPatch):
    """Whatever the model would write; each token that the grammar leaves open costs a forward."""
    # The texts of this machine take longer to gather than all that is measured here.
    monkeypatch.setattr(bench_table_speed, "TableOptions", partial(bench_table_speed.TableOptions, corpus="builtin"))
    report = bench_table_speed.measure(small_model(), [(2, 2), (4, 3)], rounds=1)
    first, second = report["rows"]
    assert [row["table"] for row in report["rows"]] == ["2x2", "4x3"] and [first["cells"], second["cells"]] == [4, 12]
    for row in report["rows"]:
        assert row["cells"] < row["forwards"] < row["tokens"] and row["written_s"] > 0
        assert row["crops_fell_back"] in (True, False) and not row["maps_fell_back"]
    assert first["tokens"] < second["tokens"] and set(report["growth"]) == {
        "written_s",
        "maps_s",
        "crops_s",
        "stream_s",
    }


def test_growth_is_the_exponent():
    rows = [{"cells": cells, "x_s": 0.1 * cells**1.5} for cells in (10, 100, 1000)]
    assert bench_table_speed.growth(rows, "x_s") == 1.5


def test_boxes_are_drawn_where_they_are_and_say_how_sure_they_are(tmp_path: Path):
    path = tmp_path / "two.pdf"
    path.write_bytes(typst.compile(TWO_TABLES.encode()))
    (drawn,) = bench_table_boxes.draw_tables(DocumentParser(ParseOptions(layout="rules")), [(path, 1)])
    colours = {colour for _, colour in drawn.getcolors(1 << 20)}
    assert {ImageColor.getrgb(bench_table_boxes.BODY), ImageColor.getrgb(bench_table_boxes.GRID)} <= colours
    cells = [Cell(0, 0, header=True, text_box=Box(0, 0, 1, 1)), Cell(0, 1, text_box=Box(2, 0, 3, 1), confidence=0.2)]
    block = Block("table", Box(0, 0, 3, 1), table=Table(1, 2, cells))
    assert bench_table_boxes.cell_boxes(block) == [
        (Box(0, 0, 1, 1), bench_table_boxes.HEADER), (Box(2, 0, 3, 1), bench_table_boxes.DOUBT),
    ]  # fmt: skip
    sheet = Image.open(io.BytesIO(bench_table_boxes.contact_picture([drawn] * 3)))
    assert sheet.format == "JPEG" and sheet.width > 2 * drawn.width and sheet.height < 3 * drawn.height
    assert len(bench_table_boxes.contact_picture([drawn] * 3, limit=1)) < len(
        bench_table_boxes.contact_picture([drawn] * 3)
    )
    (tmp_path / "none.pdf").write_bytes(typst.compile(b"Nothing to see."))
    with pytest.raises(ValueError, match="page 1: no table was found there"):
        bench_table_boxes.draw_tables(DocumentParser(ParseOptions(layout="rules")), [(tmp_path / "none.pdf", 1)])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["parse", "{pdf}", "--table-reader", "crop"],
            "'crop' is not one of maps, crops, stream. Did you mean 'crops'?",
        ),
        (["parse", "{pdf}", "--table-reader", "crops", "--layout", "rules"], "table_reader 'crops' needs the model"),
        (["bench", "table-speed", "--sizes", "5by5"], "--sizes '5by5': rows x columns, each from 1 to 60"),
        (["bench", "table-speed", "--sizes", "5x99"], "--sizes '5x99': rows x columns, each from 1 to 60"),
        (["bench", "table-boxes", "{pdf}", "-o", "x.jpg", "--table-reader", "map"], "'map' is not one of maps, crops"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "two.pdf"
    path.write_bytes(typst.compile(TWO_TABLES.encode()))
    assert main([word.format(pdf=path) for word in words]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
