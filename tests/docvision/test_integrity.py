"""Figures of tables against the words of the page: a wrong digit is said, other ways of writing are not."""

from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf

from docvision import steps
from docvision.integrity import describe, digit_faults
from docvision.page import Block, Box, Cell, Table, Word
from docvision.parse import parse


def word(text: str, column: int, row: int = 0, part: int = 0) -> Word:
    """Columns are 50 points wide, rows 10 high, a word half a column."""
    left = column * 50 + part * 25
    return Word(text, Box(left, row * 10, left + 20, row * 10 + 8))


def table(*rows: list[str]) -> Table:
    cells = [
        Cell(r, c, text, box=Box(c * 50, r * 10, c * 50 + 50, r * 10 + 10))
        for r, texts in enumerate(rows)
        for c, text in enumerate(texts)
    ]
    return Table(len(rows), len(rows[0]), cells)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("50,000", ["50,000"]),
        ("50000", ["50,000"]),
        ("10 000", ["10", "000"]),
        ("10000", ["10", "000"]),
        ("-3.5 (2)", ["\u22123.5", "(2)"]),
        ("10\u00b2", ["102"]),
        ("\uff11\uff12", ["12"]),
        ("2, 1", ["1", "2"]),
        ("no figures", ["7"]),
    ],
)
def test_other_ways_of_writing_a_number_are_no_fault(text: str, words: list[str]):
    assert digit_faults(table([text]), [word(w, 0, part=i) for i, w in enumerate(words)]) == []


@pytest.mark.parametrize(
    ("text", "words", "missing"),
    [
        ("1.23", ["1.24"], ("23",)),
        ("12", ["21"], ("12",)),
        ("100", ["10"], ("100",)),
        ("7 and 7", ["7"], ("7",)),
        ("7", ["none"], ("7",)),
        ("7", [], ("7",)),
    ],
)
def test_a_digit_that_is_not_there_is_found(text: str, words: list[str], missing: tuple[str, ...]):
    faults = digit_faults(table(["x", text]), [word(w, 1, part=i) for i, w in enumerate(words)])
    assert [(fault.row, fault.column, fault.missing) for fault in faults] == [(0, 1, missing)]


def test_only_words_under_the_cell_count():
    """Two figures swapped between neighbours are all on the page, and both wrong."""
    words = [word("11", 0), word("22", 1), word("33", 0, row=1)]
    assert digit_faults(table(["11", "22"], ["33", ""]), words) == []
    faults = digit_faults(table(["22", "11"], ["33", ""]), words)
    assert [fault.text for fault in faults] == ["22", "11"]


def test_the_text_box_goes_before_the_cell_box_and_a_cell_without_both_is_not_judged():
    cell = Cell(0, 0, "11", box=Box(0, 0, 100, 10), text_box=Box(50, 0, 70, 8))
    assert digit_faults(Table(1, 1, [cell]), [word("11", 1)]) == []
    assert digit_faults(Table(1, 1, [cell]), [word("11", 0)]) != []
    assert digit_faults(Table(1, 1, [Cell(0, 0, "11")]), []) == []


def test_the_warning_names_the_first_few_places():
    faults = digit_faults(table(["1", "2"], ["3", "4"]), [])
    said = describe(faults)
    assert "1 in '1' (row 1, column 1); 2 in '2' (row 1, column 2)" in said and said.endswith("; ...")


def test_a_page_with_a_wrong_figure_is_partial_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The layout is made to misread one cell, as a broken rule or a model could."""
    path = write_pdf(tmp_path / "page.pdf", [MadePage(["Total 1234 5678"])])
    honest = steps.layout_from_layer

    def lay_out(wrong: str):
        def layout(layer, width, height):
            blocks, dropped = honest(layer, width, height)
            box = blocks[0].box
            cells = [Cell(0, 0, "Total"), Cell(0, 1, "1234"), Cell(0, 2, wrong)]
            for cell, item in zip(cells, layer.words, strict=True):
                cell.text_box = item.box
            return [Block("table", box, table=Table(1, 3, cells))], dropped

        return layout

    monkeypatch.setattr(steps, "layout_from_layer", lay_out("5678"))
    page = parse(path, layout="rules").pages[0]
    assert page.status == "ok" and page.warnings == []
    monkeypatch.setattr(steps, "layout_from_layer", lay_out("5673"))
    page = parse(path, layout="rules").pages[0]
    assert page.status == "partial"
    assert "figures of a table that the page does not show there: 5673" in page.warnings[0]
