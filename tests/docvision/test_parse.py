"""Parsing: where the text comes from, what happens to pages that cannot be read, and that nothing is lost.

Pictures are coded pages and the reader is one that reads them (coded_pages.py); PDFs are written by made_pdfs.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from coded_pages import CodeReader, draw_coded, line_box
from made_pdfs import MadePage, write_pdf
from PIL import Image

import docvision
from docvision import steps
from docvision.page import Block, Document, Page
from docvision.parse import DocumentParser, ParseOptions, parse
from docvision.pdf import SourceError
from docvision.scan import ModelUnavailable, Reading

LINES = ["the first line", "a second one", "and number 3", "then a fourth"]
SCAN_SIZE = (576, 396)
"""Points: 8 x 5.5 inches, the size of a coded page at 220 dpi."""
PROSE = ["Read the height at every full hour, 8,760 numbers a year.", "Then sort the readings in columns."]


class NoReader(CodeReader):
    """Must not be asked."""

    def find_blocks(self, image: Image.Image) -> list[Block]:
        raise AssertionError("the reader was asked although nothing needs it")


def lazy(reader: CodeReader, **options: str) -> DocumentParser:
    """A parser that would load ``reader`` when a page first needs it."""
    parser = DocumentParser(ParseOptions(**options))
    parser._load = lambda model, device: reader
    return parser


def scan_page(lines: Sequence[str] = LINES, layer: Sequence[str] = ()) -> MadePage:
    return MadePage(layer, draw_coded(lines), invisible=True, size=SCAN_SIZE, line_step=20)


def blank_scan() -> MadePage:
    return MadePage(picture=Image.new("L", (200, 150), 255), size=SCAN_SIZE)


def line_texts(page: Page) -> list[str]:
    return [line.text for block in page.blocks for line in block.lines]


def all_text(page: Page) -> str:
    return " ".join(block.text for block in page.blocks)


def test_a_born_digital_page_needs_no_reader(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [MadePage(PROSE)])
    for parser in (lazy(NoReader()), DocumentParser(ParseOptions(layout="rules"))):
        document = parser.parse(path)
        (page,) = document.pages
        assert document.status == "ok" and not page.warnings and page.pixels is None
        assert all_text(page) == " ".join(PROSE)
        assert {block.source for block in page.blocks} == {"text-layer"}
        assert {"layer", "layout"} <= set(page.timings)
    assert document.settings["layout"] == "rules" and document.settings["version"] == docvision.__version__


def test_a_scan_is_read_with_boxes_in_points(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan_page()])
    document = lazy(CodeReader()).parse(path)
    (page,) = document.pages
    assert page.status == "ok" and line_texts(page) == LINES and page.pixels == (1760, 1210)
    assert page.blocks[0].source == "model" and page.blocks[0].confidence == pytest.approx(0.9)
    for number, line in enumerate(page.blocks[0].lines):
        expected = line_box(LINES[number], number)
        assert all(abs(a - b) < 6 for a, b in zip(page.to_pixels(line.box), expected, strict=True))
    assert Document.from_json(document.to_json()) == document


def test_a_turned_scan_says_so(tmp_path: Path) -> None:
    picture = draw_coded(LINES).rotate(90, expand=True)
    path = write_pdf(tmp_path / "a.pdf", [MadePage(picture=picture, size=SCAN_SIZE[::-1])])
    (page,) = lazy(CodeReader()).parse(path).pages
    assert line_texts(page) == LINES
    assert page.warnings == ["the page lies on its side: read after a turn of 270 degrees"]


@pytest.mark.parametrize("suffix", ["png", "tiff", "jpg"])
def test_images_are_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    draw_coded(LINES).save(path, dpi=(220, 220))
    (page,) = lazy(CodeReader()).parse(path).pages
    assert line_texts(page) == LINES
    assert (round(page.width), round(page.height)) == SCAN_SIZE


def test_an_image_without_a_resolution_is_read_too(tmp_path: Path) -> None:
    draw_coded(LINES).save(tmp_path / "a.png")
    (page,) = lazy(CodeReader()).parse(tmp_path / "a.png").pages
    assert line_texts(page) == LINES and (page.width, page.height) == (1760, 1210)


# Text policy


class Scripted(CodeReader):
    """Answers with given texts first, then reads."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.answers = list(answers)

    def read_lines(self, crops: Sequence[Image.Image]) -> list[Reading]:
        given, self.answers = self.answers[: len(crops)], self.answers[len(crops) :]
        return [*(Reading(text, 0.9) for text in given), *super().read_lines(crops[len(given) :])]


LAYER = [f"these are the real words of line {n}" for n in range(6)]


def test_an_ocr_layer_that_agrees_with_the_picture_stands(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan_page(layer=LAYER)])
    reader = Scripted(*(line.replace("real", "reel") for line in LAYER))
    (page,) = lazy(reader).parse(path).pages
    assert page.status == "ok" and not page.warnings and not reader.answers and reader.pages == 0
    assert line_texts(page) == LAYER and {block.source for block in page.blocks} == {"text-layer"}


def test_an_ocr_layer_without_a_reader_is_used_with_a_warning(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan_page(layer=LAYER)])
    (page,) = without_model().parse(path).pages
    assert page.status == "ok" and line_texts(page) == LAYER
    assert "OCR layer under a scan, not checked: no weights" in page.warnings[0]


def without_model(**options: str) -> DocumentParser:
    parser = DocumentParser(ParseOptions(**options))

    def fail(model: str, device: str) -> CodeReader:
        raise ModelUnavailable("no weights")

    parser._load = fail
    return parser


def test_an_ocr_layer_that_disagrees_is_replaced_and_listed(tmp_path: Path) -> None:
    layer = [f"wholly different words stand here {n}" for n in range(10)]
    path = write_pdf(tmp_path / "a.pdf", [scan_page(layer=layer)])
    (page,) = lazy(Scripted(*["what the picture shows"] * 6)).parse(path).pages
    assert line_texts(page) == LINES and page.status == "ok"  # the ledger balances: the layer is under dropped
    assert {item.reason for item in page.dropped} == {"text layer not trusted"}
    assert " ".join(item.text for item in page.dropped).split() == " ".join(layer).split()
    assert page.warnings[0].startswith("text layer not used: ") and "of its characters are not what" in page.warnings[0]


def test_a_scan_with_a_stamp_keeps_the_stamp_and_reads_the_rest(tmp_path: Path) -> None:
    stamp = MadePage(["Scanned by the office of records"], draw_coded(["", "", "", *LINES]), size=SCAN_SIZE)
    path = write_pdf(tmp_path / "a.pdf", [stamp])
    (page,) = lazy(Scripted("Scanned by the office of records")).parse(path).pages
    assert page.status == "ok"
    assert "Scanned by the office of records" in all_text(page) and all(line in all_text(page) for line in LINES)


def test_a_layer_of_garbage_is_read_off_the_picture(tmp_path: Path) -> None:
    """The letters of a font whose map to Unicode is missing; no picture covers the page, so words alone tell."""
    lines = ["7KH VHD ULVHV DQG IDOOV EHFDXVH WKH 0RRQ DQG WKH 6XQ SXOO DW LW"] * 6
    path = write_pdf(tmp_path / "a.pdf", [MadePage(lines)])
    (page,) = lazy(Scripted(*["The sea rises and falls because"] * 6)).parse(path).pages
    assert page.warnings[0].startswith("text layer not used: only 15% of its letters are vowels, ")
    assert page.status == "ok" and {item.reason for item in page.dropped} >= {"text layer not trusted"}
    (page,) = lazy(Scripted(*lines)).parse(path).pages  # odd text, but it is what the page shows
    assert page.status == "ok" and not page.warnings and line_texts(page) == lines
    (page,) = without_model().parse(path).pages
    assert page.warnings == ["the text looks wrong (only 15% of its letters are vowels), not checked: no weights"]
    (page,) = DocumentParser(ParseOptions(text="layer")).parse(path).pages
    assert page.status == "ok" and "try --text model" in page.warnings[0]


def test_a_reader_at_hand_checks_each_font_once(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [MadePage(PROSE), MadePage(PROSE)])
    reader = Scripted(*PROSE)
    document = DocumentParser(reader=reader).parse(path)
    assert document.status == "ok" and reader.lines == 0 and not reader.answers
    assert [page.pixels is None for page in document.pages] == [False, True]
    liar = Scripted("nothing like", "the layer")
    document = DocumentParser(reader=liar).parse(path)
    assert document.pages[0].warnings[0].startswith("text layer not used: ")


def test_text_layer_only_and_rules_read_no_pictures(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan_page(), MadePage(PROSE), blank_scan(), MadePage()])
    for options, asked in (({"text": "layer"}, "--text layer"), ({"layout": "rules"}, "--layout rules")):
        document = lazy(NoReader(), **options).parse(path)
        scanned, digital, white, empty = document.pages
        assert scanned.status == document.status == "partial" and not scanned.blocks
        assert scanned.warnings == [f"no text layer, and {asked} reads no pictures: leave it out to read this page"]
        assert digital.status == white.status == empty.status == "ok" and not white.warnings


def test_text_model_reads_the_picture_only(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan_page(layer=LAYER)])
    reader = CodeReader()
    (page,) = lazy(reader, text="model").parse(path).pages
    assert line_texts(page) == LINES and page.status == "ok" and not page.dropped and reader.pages == 1


def test_blank_pages_are_fine_and_never_read(tmp_path: Path) -> None:
    black = MadePage(picture=Image.new("L", (200, 150), 0), size=SCAN_SIZE)
    path = write_pdf(tmp_path / "a.pdf", [blank_scan(), black, MadePage(), MadePage(size=(3, 3))])
    document = lazy(NoReader()).parse(path)
    assert document.status == "ok" and not any(page.blocks or page.warnings for page in document.pages)
    for size, level in (((1, 1), 0), ((1, 1), 255), ((3000, 2), 0)):
        Image.new("L", size, level).save(tmp_path / "b.png")
        assert lazy(NoReader()).parse(tmp_path / "b.png").status == "ok"


# Failures


def test_one_bad_page_never_costs_the_document(tmp_path: Path) -> None:
    class Bad(CodeReader):
        """Breaks on the second picture."""

        def find_blocks(self, image: Image.Image) -> list[Block]:
            blocks = super().find_blocks(image)
            if self.pages == 2:
                raise RuntimeError("out of\ncudas")
            return blocks

    path = write_pdf(tmp_path / "a.pdf", [scan_page(), scan_page(), scan_page(), MadePage(PROSE)])
    document = lazy(Bad(), text="auto").parse(path)
    assert [page.status for page in document.pages] == ["ok", "failed", "ok", "ok"] and document.status == "partial"
    assert document.pages[1].error == "internal error, please report it: RuntimeError: out of cudas"
    assert line_texts(document.pages[2]) == LINES


def test_a_missing_model_fails_the_pages_that_need_it_and_is_looked_for_once(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan_page(), MadePage(PROSE), scan_page(), blank_scan()])
    parser = DocumentParser()
    asked: list[str] = []

    def fail(model: str, device: str) -> CodeReader:
        asked.append(model)
        raise ModelUnavailable("the model cannot be loaded: no weights")

    parser._load = fail
    document = parser.parse(path)
    assert [page.status for page in document.pages] == ["failed", "ok", "failed", "ok"]
    assert document.pages[0].error == "the page has no usable text layer and the model cannot be loaded: no weights"
    assert asked == ["docvision-tiny"]


def test_the_name_of_a_missing_model_is_in_the_reason(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan_page()])
    (page,) = DocumentParser(ParseOptions(model="nothing-like-it")).parse(path).pages
    assert page.status == "failed" and "the model cannot be loaded: no model 'nothing-like-it'" in page.error
    with pytest.raises(ModelUnavailable, match="no model 'nothing-like-it'"):
        DocumentParser.from_pretrained("nothing-like-it")


def test_a_lost_word_makes_the_page_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(*arguments: object) -> object:
        blocks, dropped = layout(*arguments)  # type: ignore[arg-type]
        blocks[0].text = blocks[0].text.replace("height", "")
        return blocks, dropped

    layout = steps.layout_from_layer
    monkeypatch.setattr(steps, "layout_from_layer", lossy)
    path = write_pdf(tmp_path / "a.pdf", [MadePage(PROSE)])
    (page,) = parse(path, layout="rules").pages
    assert page.status == "partial"
    assert page.warnings == ["words of the text layer do not add up: 1 lost ('height')"]


def test_random_prose_keeps_every_word(tmp_path: Path) -> None:
    draw = random.Random(31)
    words = ["tide", "gauge", "M2,", "(see", "12.42", "hours.", "well-", "known", "Caf\u00e9", "1)", "-", "a", "I."]
    pages = [
        MadePage([" ".join(draw.choice(words) for _ in range(draw.randint(1, 12))) for _ in range(draw.randint(1, 25))])
        for _ in range(12)
    ]
    document = parse(write_pdf(tmp_path / "a.pdf", pages), layout="rules")
    assert [page.warnings for page in document.pages] == [[]] * 12


def test_sources_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "text.pdf").write_text("just text")
    (tmp_path / "text.bin").write_text("just text")
    (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n cut off")
    write_pdf(tmp_path / "none.pdf", [])
    write_pdf(tmp_path / "locked.pdf", [MadePage(PROSE)], password="secret")
    expected = {
        "missing.pdf": "missing", "empty.pdf": "empty", "text.pdf": "corrupt", "text.bin": "not-supported",
        "cut.png": "corrupt", "none.pdf": "no-pages, corrupt", "locked.pdf": "password-required",
    }  # fmt: skip
    for name, code in expected.items():
        with pytest.raises(SourceError) as caught:
            parse(tmp_path / name, layout="rules")
        assert caught.value.code in code and str(tmp_path / name) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(SourceError, match="does not open with this password"):
        parse(tmp_path / "locked.pdf", password="wrong")
    assert parse(tmp_path / "locked.pdf", password="secret", layout="rules").status == "ok"


def test_a_truncated_pdf_is_recovered_or_refused(tmp_path: Path) -> None:
    """Cut anywhere, a file gives a document or a SourceError, nothing else (24 cuts)."""
    good = write_pdf(tmp_path / "good.pdf", [MadePage(PROSE)] * 2).read_bytes()
    path = tmp_path / "cut.pdf"
    for cut in range(9, len(good), len(good) // 24):
        path.write_bytes(good[:cut])
        try:
            document = parse(path, layout="rules")
        except SourceError as error:
            assert error.code in ("corrupt", "no-pages", "not-supported")
        else:
            assert all(page.error or page.status != "failed" for page in document.pages)


# The interface


def test_options_are_checked_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match="text 'modle' is not one of auto, layer, model; did you mean 'model'"):
        ParseOptions(text="modle")
    with pytest.raises(ValueError, match="layout 'rule' is not one of auto, rules; did you mean 'rules'"):
        ParseOptions(layout="rule")
    with pytest.raises(ValueError, match="device 'gpu' is none: use cpu"):
        ParseOptions(device="gpu")
    with pytest.raises(ValueError, match="text 'model' needs the model"):
        ParseOptions(text="model", layout="rules")


def test_pages_are_selected_and_streamed_in_the_order_asked_for(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [MadePage([f"This is page {number}."]) for number in range(1, 7)])
    seen: list[int] = []
    document = parse(path, pages="5-4,r1,1", layout="rules", on_page=lambda page: seen.append(page.number))
    assert seen == [page.number for page in document.pages] == [5, 4, 6, 1]
    stream = DocumentParser(ParseOptions(layout="rules")).pages(path, pages="2-3")
    assert next(stream).number == 2 and all_text(next(stream)) == "This is page 3."
    with pytest.raises(StopIteration):
        next(stream)
    with pytest.raises(SourceError, match="page 7 of the selection"):
        parse(path, pages="7")


def test_the_function_and_the_module_of_the_same_name(tmp_path: Path) -> None:
    """``docvision.parse`` is bound to the module on import and must still be the function people call."""
    path = write_pdf(tmp_path / "a.pdf", [MadePage(PROSE)])
    from docvision import parse as first

    assert first(path, layout="rules").status == docvision.parse(path, layout="rules").status == "ok"
    assert docvision.DocumentParser is DocumentParser and docvision.Document is Document
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        docvision.nothing  # noqa: B018
