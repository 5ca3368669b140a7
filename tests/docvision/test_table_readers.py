"""Tables by the decoder: the stream becomes the grid, all text falls into it, and a bad stream changes nothing.

Pictures hold rows of blocks, as many as the cell's number, and the reader counts them, so that a text in the wrong
cell shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import typst
from coded_pages import CodeReader
from PIL import Image, ImageDraw

from docvision import scan
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.images import to_float
from docvision.model import DocVisionModel, pad_images
from docvision.page import Block, Box, Cell, Document, Line, Table, bounding_box
from docvision.parse import DocumentParser, ParseOptions
from docvision.reader import ModelReader
from docvision.scan import Reading
from docvision.table_readers import Cut, NoTableDecoder, WrittenTable, cut_table
from docvision.tableseq import stream_form, table_to_ids

HIGH, WIDE, GAP = 14, 10, 4  # pixels of a block and between two of them
PITCH_X, PITCH_Y, LEFT, TOP = 170, 44, 40, 30
NAMES = {(row, column): 3 * row + column + 1 for row in range(4) for column in range(3)}
"""Cell -> how many blocks it holds."""


def place(row: int, column: int) -> Box:
    """The blocks of a cell."""
    x, y = LEFT + column * PITCH_X, TOP + row * PITCH_Y
    count = NAMES[row, column]
    return Box(x, y, x + count * (WIDE + GAP) - GAP, y + HIGH)


def draw() -> Image.Image:
    image = Image.new("L", (2 * LEFT + 3 * PITCH_X, 2 * TOP + 4 * PITCH_Y), 255)
    pen = ImageDraw.Draw(image)
    for (row, column), count in NAMES.items():
        x, y, *_ = place(row, column)
        for number in range(count):
            left = x + number * (WIDE + GAP)
            pen.rectangle((left, y, left + WIDE - 1, y + HIGH - 1), fill=0)
    return image


def truth(texts: bool = False) -> Table:
    """The table of :func:`draw` in pixels of the page, sure of itself to 0.8."""
    cells = [
        Cell(row, column, f"n{count}" if texts else "", header=row == 0, text_box=place(row, column), confidence=0.8)
        for (row, column), count in NAMES.items()
    ]
    return Table(4, 3, cells)


class Counter(CodeReader):
    """Finds one table with one wide cell a row, counts blocks, and writes the table that it was given."""

    def __init__(self, written: Callable[[Cut], WrittenTable] | None = None, sure: float = 0.9) -> None:
        super().__init__()
        self.written, self.sure = written, sure
        self.texts: list[bool] = []

    def find_blocks(self, image: Image.Image) -> list[Block]:
        by = image.width / draw().width
        rows = [bounding_box(place(row, column) for column in range(3)).scale(by) for row in range(4)]
        cells = [Cell(row, 0, box=box.pad(1), text_box=box, source="model") for row, box in enumerate(rows)]
        lines = [Line("", box, source="model") for box in rows]
        return [Block("table", bounding_box(rows), lines=lines, table=Table(4, 1, cells), source="model")]

    def read_lines(self, crops: Sequence[Image.Image]) -> list[Reading]:
        self.lines += len(crops)
        found = []
        for crop in crops:
            dark = np.asarray(crop)[12:20].mean(0) < 128
            found.append(Reading(f"n{int((np.diff(dark.astype(int), prepend=0) == 1).sum())}", self.sure))
        return found

    def write_tables(self, pictures: Sequence[Image.Image], text: bool) -> list[WrittenTable]:
        self.texts.append(text)
        (block,) = self.find_blocks(draw())
        cut = cut_table(draw(), block.box, HIGH)
        assert self.written is not None and [picture.size for picture in pictures] == [cut.picture.size]
        return [self.written(cut)]


def writes(table: Table, confidence: float = 0.8, stopped: str = "") -> Callable[[Cut], WrittenTable]:
    """A writer of a table given in pixels of the page."""

    def write(cut: Cut) -> WrittenTable:
        cells = [
            replace(
                cell, text_box=cell.text_box and cell.text_box.shift(-cut.origin[0], -cut.origin[1]).scale(cut.scale)
            )
            for cell in table.cells
        ]
        return WrittenTable(Table(table.rows, table.columns, cells), confidence, stopped)

    return write


def read(reader: Counter, how: str) -> scan.Scan:
    return scan.read_picture(draw(), reader, 110, table_reader=how)


def texts(table: Table | None) -> dict[tuple[int, int], str]:
    assert table is not None
    return {(cell.row, cell.column): cell.text for cell in table.cells}


NUMBERED = {spot: f"n{count}" for spot, count in NAMES.items()}


def test_crops_fall_into_the_cells_of_the_stream() -> None:
    reader = Counter(writes(truth()))
    found = read(reader, "crops")
    (block,) = found.blocks
    assert texts(block.table) == NUMBERED and found.notes == [] and reader.texts == [False]
    assert block.table is not None and block.table.header_rows == 1
    for cell in block.table.cells:
        assert cell.text_box is not None and cell.box is not None and cell.source == "model"
        assert cell.text_box.iou(place(cell.row, cell.column)) > 0.75
        assert cell.text_box.coverage(cell.box) == pytest.approx(1.0) and cell.box.width > 100
        assert cell.confidence == pytest.approx(0.8)  # of the grid: the line was read with 0.9
    assert min(cell.confidence for cell in read(Counter(writes(truth()), 0.6), "crops").blocks[0].table.cells) == 0.6


def test_boxes_of_the_stream_may_be_rough() -> None:
    rough = truth()
    for cell in rough.cells:
        cell.text_box = cell.text_box and Box(
            cell.text_box.x0 - 9, cell.text_box.y0 - 4, cell.text_box.x0 + 60, cell.text_box.y1 + 5
        )
    (block,) = read(Counter(writes(rough)), "crops").blocks
    assert texts(block.table) == NUMBERED
    assert block.table is not None and block.table.cells[-1].text_box is not None
    assert block.table.cells[-1].text_box.iou(place(3, 2)) > 0.75


def test_text_is_never_lost_whatever_the_grid() -> None:
    """A stream of cells that lie crosswise over the picture: every block is counted once."""
    cells = [
        Cell(0, 0, text_box=Box(LEFT, TOP, 400, TOP + 60)),
        Cell(0, 1, text_box=Box(250, TOP, 600, TOP + 150)),
        Cell(1, 0, text_box=Box(LEFT, TOP + 50, 300, TOP + 160)),
        Cell(1, 1),
    ]
    (block,) = read(Counter(writes(Table(2, 2, cells))), "crops").blocks
    found = " ".join(texts(block.table).values()).split()
    assert sum(int(text.strip("n")) for text in found) == sum(NAMES.values())
    assert block.table is not None and block.table.rows == 2


def test_the_stream_gives_its_own_text_and_the_line_head_what_it_left_out() -> None:
    told = truth(texts=True)
    told.cells[4].text = ""
    told.cells[5].text = "x5"
    reader = Counter(writes(told))
    (block,) = read(reader, "stream").blocks
    assert texts(block.table) == NUMBERED | {(1, 2): "x5"} and reader.texts == [True]
    assert block.table is not None and block.table.cells[5].confidence == pytest.approx(0.8)


def test_a_text_that_the_stream_doubts_is_dropped_and_said() -> None:
    told = truth(texts=True)
    told.cells[7].confidence = 0.1
    found = read(Counter(writes(told)), "stream")
    assert texts(found.blocks[0].table) == NUMBERED | {(2, 1): ""}
    assert [(item.text, item.reason) for item in found.dropped] == [("n8", "unreadable")]


class Unable(Counter):
    """A model without a decoder for tables."""

    def write_tables(self, pictures: Sequence[Image.Image], text: bool) -> list[WrittenTable]:
        raise NoTableDecoder("it has not learnt to")


AWAY = Table(1, 2, [Cell(0, 0, text_box=Box(600, 5, 640, 20)), Cell(0, 1, text_box=Box(650, 5, 660, 20))])


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        (Unable(), "it has not learnt to"),
        (Counter(writes(truth(), stopped="a loop")), r"its stream had to be ended \(a loop\)"),
        (Counter(writes(truth(), confidence=0.3)), r"its stream is a guess \(confidence 0.30\)"),
        (Counter(writes(AWAY)), "its boxes hold 0% of the text"),
        (Counter(writes(Table(1, 1, [Cell(0, 0)]))), "its stream has 0 cells with text"),
        (Counter(writes(Table(0, 0))), "its stream has 0 cells with text"),
    ],
)
@pytest.mark.parametrize("how", ["crops", "stream"])
def test_a_bad_stream_leaves_the_table_as_it_was(how: str, reader: Counter, reason: str) -> None:
    found = read(reader, how)
    assert [cell.box for cell in found.blocks[0].table.cells] == [
        cell.box for cell in read(reader, "maps").blocks[0].table.cells
    ]
    (note,) = found.notes
    assert re.fullmatch(f"table 1 read without the decoder: {reason}", note)


def test_a_reader_without_a_decoder_is_said() -> None:
    class Plain(CodeReader):
        find_blocks = Counter.find_blocks
        read_lines = Counter.read_lines
        sure = 0.9

    found = scan.read_picture(draw(), Plain(), 110, table_reader="crops")
    assert found.notes == ["table 1 read without the decoder: this reader has no decoder for tables"]
    assert scan.read_picture(draw(), Plain(), 110).notes == []


# Pages with a text layer

REPORT = """
#set page(width: 300pt, height: 200pt, margin: 30pt)
#set text(size: 10pt)
Rain and sun by place, in numbers.
#table(columns: 3, [Place], [Rain], [Sun], [Ulm], [12], [1,860], [Bonn], [7.5], [1,523])
The end of it.
"""


class Gridder(Counter):
    """Writes a grid of given columns over the picture."""

    def __init__(self, cuts: Sequence[float], rows: int = 3) -> None:
        super().__init__()
        self.cuts, self.rows = cuts, rows

    def write_tables(self, pictures: Sequence[Image.Image], text: bool) -> list[WrittenTable]:
        self.texts.append(text)
        tables = []
        for picture in pictures:
            high = picture.height / self.rows
            cells = [
                Cell(r, c, header=r == 0, confidence=0.7,
                     text_box=Box(a * picture.width, r * high + 1, b * picture.width, (r + 1) * high - 1))
                for r in range(self.rows)
                for c, (a, b) in enumerate(zip(self.cuts, self.cuts[1:], strict=False))
            ]  # fmt: skip
            tables.append(WrittenTable(Table(self.rows, len(self.cuts) - 1, cells), 0.9))
        return tables


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "report.pdf"
    path.write_bytes(typst.compile(REPORT.encode()))
    return path


def table_of(document: Document) -> Table:
    return next(block.table for block in document.pages[0].blocks if block.table is not None)


def parsed(path: Path, reader: Counter, how: str = "crops") -> Document:
    parser = DocumentParser(ParseOptions(table_reader=how))
    parser._load = lambda model, device: reader
    return parser.parse(path)


@pytest.mark.parametrize("how", ["crops", "stream"])
def test_the_words_of_a_pdf_fall_into_the_grid(report: Path, how: str) -> None:
    """The same cells as by rules, from the words of the layer, and never the picture's text."""
    by_rules = table_of(DocumentParser(ParseOptions()).parse(report))
    reader = Gridder((0.0, 0.36, 0.6, 1.0))
    document = parsed(report, reader, how)
    table = table_of(document)
    assert document.status == "ok" and document.pages[0].warnings == [] and reader.texts == [False] and not reader.lines
    assert texts(table) == texts(by_rules) and (table.rows, table.columns) == (3, 3)
    assert table.header_rows == 1 and {cell.source for cell in table.cells} == {"text-layer"}
    assert {cell.confidence for cell in table.cells} == {0.7}
    assert [cell.text_box for cell in table.cells] == [cell.text_box for cell in by_rules.cells]
    assert "tables" in document.pages[0].timings and document.settings["table_reader"] == how


@pytest.mark.parametrize("cuts", [(0.0, 0.6, 1.0), (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)])
def test_no_word_is_lost_in_a_wrong_grid(report: Path, cuts: tuple[float, ...]) -> None:
    document = parsed(report, Gridder(cuts))
    assert document.status == "ok" and document.pages[0].warnings == []  # the ledger and the digits add up
    assert table_of(document).columns == len(cuts) - 1
    assert sorted(" ".join(texts(table_of(document)).values()).split()) == sorted(
        "Place Rain Sun Ulm 12 1,860 Bonn 7.5 1,523".split()
    )


def test_a_pdf_without_a_usable_decoder_keeps_its_tables(report: Path) -> None:
    plain = table_of(DocumentParser(ParseOptions()).parse(report))
    document = parsed(report, Unable())
    assert document.pages[0].warnings == ["table 1 read without the decoder: it has not learnt to"]
    assert table_of(document) == plain
    gone = DocumentParser(ParseOptions(table_reader="crops", model="no-such-model")).parse(report)
    (warning,) = gone.pages[0].warnings
    assert warning.startswith("tables read without the decoder: the model cannot be loaded: no model 'no-such-model'")
    assert table_of(gone) == plain


def test_options_that_cannot_work_together() -> None:
    with pytest.raises(ValueError, match="table_reader 'crop' is not one of maps, crops, stream; did you mean 'crops'"):
        ParseOptions(table_reader="crop")
    for never in ({"layout": "rules"}, {"text": "layer"}):
        with pytest.raises(ValueError, match="table_reader 'crops' needs the model"):
            ParseOptions(table_reader="crops", **never)


# The model itself

TINY = ModelConfig(
    width=32,
    bins=400,
    encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 1, 1, 1)),
    decoder=DecoderConfig(layers=2, heads=2, ffn=48),
)


def small() -> DocVisionModel:
    torch.manual_seed(0)
    return DocVisionModel(TINY).eval()


@pytest.fixture(scope="module")
def learnt() -> DocVisionModel:
    """A decoder that knows the table of :func:`draw` by heart, with and without its text."""
    model = small()
    v = model.vocabulary
    (block,) = Counter().find_blocks(draw())
    cut = cut_table(draw(), block.box, HIGH)
    table = stream_form(writes(truth(texts=True))(cut).table)
    pixels, size = pad_images([to_float(cut.picture)])
    with torch.inference_mode():
        memory = model.encoder(pixels, size)
    rows = [
        [v.bos, v.ids[f"<prompt:{prompt}>"], *table_to_ids(table, v, (1.0, 1.0), text=text), v.eos]
        for prompt, text in (("structure", False), ("table", True))
    ]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    memory = memory._replace(
        states_BMD=memory.states_BMD.clone().expand(2, -1, -1), mask_BM=memory.mask_BM.clone().expand(2, -1)
    )
    optimiser = torch.optim.AdamW(model.decoder.parameters(), lr=1e-2)
    for _ in range(80):
        hidden = model.decoder(tokens[:, :-1], torch.arange(longest - 1), memory)
        targets = tokens[:, 1:].clone()
        targets[:, 0] = 0
        loss = torch.nn.functional.cross_entropy(
            model.decoder.logits(hidden).flatten(0, 1), targets.flatten(), ignore_index=0
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


class Whole(Counter):
    """Finds and reads as :class:`Counter` does; writes tables with a model."""

    def __init__(self, model: DocVisionModel) -> None:
        super().__init__()
        self.write_tables = ModelReader(model).write_tables  # type: ignore[method-assign]


@pytest.mark.parametrize("how", ["crops", "stream"])
def test_a_model_that_has_learnt_tables_reads_them(learnt: DocVisionModel, how: str) -> None:
    found = read(Whole(learnt), how)
    assert found.notes == [] and texts(found.blocks[0].table) == NUMBERED


def test_a_model_that_has_not_says_so(report: Path) -> None:
    with pytest.raises(NoTableDecoder, match="the model's decoder has not learnt the prompt 'structure'"):
        ModelReader(small()).write_tables([draw()], False)
    found = read(Whole(small()), "stream")
    assert found.notes == ["table 1 read without the decoder: the model's decoder has not learnt the prompt 'table'"]
    assert found.blocks[0].table is not None and found.blocks[0].table.rows == 4


def test_pictures_come_back_in_their_order(learnt: DocVisionModel) -> None:
    (block,) = Counter().find_blocks(draw())
    picture = cut_table(draw(), block.box, HIGH).picture
    other = picture.crop((0, 0, picture.width, picture.height // 2))
    reader = ModelReader(learnt)
    alone = [reader.write_tables([one], False)[0] for one in (picture, other)]
    both = reader.write_tables([picture, other], False)
    for mine, other in zip(both, alone, strict=True):
        assert [(c.row, c.column, c.text_box) for c in mine.table.cells] == [
            (c.row, c.column, c.text_box) for c in other.table.cells
        ]
    assert [found.confidence for found in both] == pytest.approx([found.confidence for found in alone], abs=1e-4)
    assert reader.write_tables([], False) == []
