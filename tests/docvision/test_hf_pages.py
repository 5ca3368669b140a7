"""What document models write becomes blocks, and a model of Hugging Face can be the engine of parsing.

The engine's model is a stub with the real reader's interface: it answers fixed texts, so that what is tested is what
parsing makes of them.  That a real tiny model runs end to end is the last test.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import tiny_vlms
from made_pdfs import MadePage, write_pdf
from PIL import Image, ImageDraw

from docvision.hf_kind import is_vlm
from docvision.hf_vlm import Accelerated, VlmError
from docvision.hf_vlm.loading import load
from docvision.hf_vlm.markup import latex_table, otsl_table, to_blocks
from docvision.hf_vlm.pages import (
    NOT_WRITTEN,
    LoopGuard,
    PageText,
    VlmReader,
    loop_period,
    without_loop,
)
from docvision.hf_vlm.parser import VlmParser
from docvision.page import Box, Table
from docvision.parse import ParseOptions
from docvision.scan import ModelUnavailable

PAGE = Box(0, 0, 500, 1000)
MARKDOWN = """# A **title**

Some text that
goes on, with \\* an escape and $x^2$.

| a | b |
|---|--:|
| 1 | 2 \\| 3 |

- first
  - second
3. third

<table><tr><th colspan="2">head</th></tr>
<tr><td>x</td><td>y</td></tr></table> and then

```python
a = 1
```

$$
e = mc^2
$$
"""


def grid(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text if cell else "" for cell in row] for row in table.grid()]


def test_markdown():
    blocks = to_blocks(MARKDOWN, PAGE)
    kinds = [(block.kind, block.text) for block in blocks if block.kind != "table"]
    assert kinds == [
        ("heading", "A title"), ("text", "Some text that goes on, with * an escape and $x^2$."), ("list", "first"),
        ("list", "second"), ("list", "third"), ("text", "and then"), ("code", "a = 1"), ("formula", "e = mc^2"),
    ]  # fmt: skip
    assert [(block.level, block.marker) for block in blocks if block.kind == "list"] == [(0, "-"), (1, "-"), (0, "3.")]
    pipes, html = (block.table for block in blocks if block.kind == "table")
    assert grid(pipes) == [["a", "b"], ["1", "2 | 3"]] and pipes.header_rows == 1
    assert grid(html) == [["head", "head"], ["x", "y"]] and html.cells[0].column_span == 2
    assert all(block.box == PAGE and block.source == "model" for block in blocks)


def test_doctags_and_otsl():
    text = (
        "<doctag><title><loc_50><loc_40><loc_450><loc_60>Results</title><text>plain</text>"
        "<otsl><loc_0><loc_0><loc_500><loc_250><ched>Year<lcel><nl><fcel>2024<fcel>7<nl><ucel><ecel><nl></otsl>"
        "<section_header_level_1>Part</section_header_level_1><list_item>1. one</list_item></doctag>"
    )
    blocks = to_blocks(text, PAGE)
    assert [block.kind for block in blocks] == ["heading", "text", "table", "heading", "list"]
    assert blocks[0].box == Box(50, 80, 450, 120) and blocks[1].box == PAGE
    assert [block.level for block in blocks if block.kind == "heading"] == [1, 2]
    assert (blocks[4].marker, blocks[4].text) == ("1.", "one")
    table = blocks[2].table
    assert grid(table) == [["Year", "Year"], ["2024", "7"], ["2024", ""]]
    assert table.cells[0].header and table.cells[1].row_span == 2


def test_latex_tables():
    text = r"""\begin{tabular}{l|cc} \hline
    \multirow{2}{*}{Item} & \multicolumn{2}{c}{\textbf{Price \%}} \\ \cline{2-3}
     & old & new \\ \hline
    paper \& ink & 1.5 & 2 \\ \end{tabular}"""
    (block,) = to_blocks(text, PAGE)
    table = block.table
    assert grid(table) == [["Item", "Price %", "Price %"], ["Item", "old", "new"], ["paper & ink", "1.5", "2"]]
    assert grid(latex_table(r"a & b \\ c")) == [["a", "b"], ["c", ""]]


@pytest.mark.parametrize(
    "text",
    ["", "<table><tr><td>a", "```", "\\begin{tabular}{c", "<otsl><lcel><nl>", "<doctag><text>open", "|a|\n|-|", "$$"],
)
def test_broken_markup_is_no_error(text):
    for block in to_blocks(text, PAGE):
        assert block.kind != "text" or block.text
    assert otsl_table("").rows == 0


def test_loops_are_found_and_cut():
    assert loop_period(list(range(300))) == 0
    ids = [*range(50), *[7, 8, 9] * 60]
    assert loop_period(ids) == 3
    assert without_loop(ids) == [*range(50), 7, 8, 9]
    assert loop_period([5] * 60) == 0, "a row of dots in a table of contents is no loop"
    guard = LoopGuard()
    import torch

    assert not guard(torch.arange(320)[None], None).any() and not guard.stopped
    assert guard(torch.tensor([[*range(140), *[7, 8, 9] * 60]]), None).all() and guard.stopped


class Fixed:
    """A reader that answers with what it is given."""

    page_dpi = 144

    def __init__(self, answer: str, warning: str = "") -> None:
        self.answer, self.warning = answer, warning
        self.words: list[list[str]] = []

    def read_page(self, image: Image.Image, words: Any = ()) -> PageText:
        self.words.append(list(words))
        return PageText(self.answer, 0.9, self.warning)


@pytest.fixture
def report(tmp_path) -> Any:
    path = tmp_path / "report.pdf"
    write_pdf(path, [MadePage(["Revenue grew by 12.5 percent", "Costs stayed flat"])])
    return path


def test_words_the_model_left_out_are_dropped_and_what_it_added_is_counted(report):
    reader = Fixed("# Revenue grew by 13.5 percent\n\nCosts stayed flat today")
    document = VlmParser(ParseOptions(text="model"), reader).parse(report)
    (page,) = document.pages
    assert [
        word for words in reader.words for word in words
    ] == "Revenue grew by 12.5 percent Costs stayed flat".split()
    assert [block.kind for block in page.blocks] == ["heading", "text"]
    assert {block.source for block in page.blocks} == {"model"} and page.blocks[0].confidence == 0.9
    assert [(dropped.text, dropped.reason) for dropped in page.dropped] == [("12.5", NOT_WRITTEN)]
    assert any("2 words" in warning for warning in page.warnings)
    assert page.status == "ok"


def test_a_stopped_page_is_partial(report):
    document = VlmParser(ParseOptions(text="model"), Fixed("Revenue", "the model repeated itself")).parse(report)
    assert document.pages[0].status == "partial" and "the model repeated itself" in document.pages[0].warnings


def test_a_good_text_layer_needs_no_model(report):
    reader = Fixed("never")
    document = VlmParser(ParseOptions(text="layer"), reader).parse(report)
    assert "Revenue grew" in document.pages[0].blocks[0].text and not reader.words


def test_scans_are_read_by_the_model(tmp_path):
    image = Image.new("L", (600, 800), 255)
    ImageDraw.Draw(image).text((50, 50), "a scanned page", fill=0)
    image.save(tmp_path / "scan.png")
    document = VlmParser(reader=Fixed("a scanned page\n\n| a | b |\n|---|---|\n| 1 | 2 |")).parse(tmp_path / "scan.png")
    assert [block.kind for block in document.pages[0].blocks] == ["text", "table"]


def test_models_are_told_apart(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "idefics3"}))
    assert is_vlm(str(tmp_path)) and not is_vlm("docvision-tiny") and not is_vlm("nobody/nothing")
    (tmp_path / "config.json").write_text("{")
    assert not is_vlm(str(tmp_path))


@pytest.fixture
def vlm_folder(tmp_path) -> Any:
    model, processor = tiny_vlms.reader()
    model.save_pretrained(tmp_path / "vlm")
    processor.save_pretrained(tmp_path / "vlm")
    return tmp_path / "vlm"


def test_a_model_folder_is_loaded_and_reads(vlm_folder):
    """A real model and processor through disk: the text is noise, but the way to it is whole."""
    reader = VlmReader.from_pretrained(str(vlm_folder))
    reader.max_new_tokens = 20
    read = reader.read_page(Image.new("RGB", (30, 40), "white"), ["Quarterly", "report"])
    assert "stopped after 20 tokens" in read.warning and 0 < read.confidence <= 1
    plain = VlmReader(Accelerated(reader.accelerated.model, "ntp", reader.accelerated.processor), max_new_tokens=20)
    assert plain.read_page(Image.new("RGB", (30, 40), "white")).text == read.text


def test_folders_that_lack_something_are_told_in_one_line(vlm_folder):
    """Another kind of model; no processor of pictures."""
    config = json.loads((vlm_folder / "config.json").read_text())
    (vlm_folder / "config.json").write_text(json.dumps(config | {"model_type": "bert", "architectures": []}))
    with pytest.raises(VlmError, match="no image-text-to-text model") as told:
        load(str(vlm_folder))
    assert "\n" not in str(told.value) and str(vlm_folder) in str(told.value)
    (vlm_folder / "config.json").write_text(json.dumps(config))
    for name in ("processor_config.json", "preprocessor_config.json"):
        (vlm_folder / name).unlink(missing_ok=True)
    with pytest.raises(ModelUnavailable, match="cannot be loaded: .*processor") as unusable:
        VlmReader.from_pretrained(str(vlm_folder))
    assert "\n" not in str(unusable.value)
