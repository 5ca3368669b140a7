"""The measures of the score card: truth scores perfectly, each kind of damage lowers its own figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.card_scores import FIGURES, fold, in_order, score
from apps.marked_text import read_marked

PARAGRAPHS = [
    "The first paragraph speaks of well-known things, and of \u201cquoted\u201d ones as well.",
    "A second one follows it at once, with numbers such as 1,204.50 and 17 % inside.",
    "The third ends the document, and nothing stands behind it but white paper.",
]
TABLE = (
    "<table><tr><th>Name</th><th>Value</th></tr><tr><td rowspan='2'>alpha</td><td>1</td></tr>"
    "<tr><td>2</td></tr></table>"
)
OTHER = "<table><tr><td>quite</td><td>different</td></tr><tr><td>words</td><td>here</td></tr></table>"


def rated(kind: str, folder: Path, output: str, truth: str = "", plain: bool = False, **more: Any) -> dict[str, float]:
    """Figures of one row whose truth is written for it."""
    name = "truth.html" if truth.startswith("<") else "truth.csv" if kind == "pdf_table" else "truth.txt"
    (folder / name).write_text(truth)
    names = [name]
    if kind == "pdf_text":
        blocks = [{"type": "paragraph", "text": text} for text in truth.split("\n")]
        (folder / "truth.json").write_text(json.dumps({"blocks": blocks}))
        names.append("truth.json")
    figures = score({"kind": kind, "truth": names, **more}, folder, output, plain=plain)
    return {name: above / below for name, (above, below) in figures.items()}


def test_a_document_is_measured_by_words_blocks_and_order(tmp_path: Path) -> None:
    truth = "\n".join(PARAGRAPHS)
    perfect = rated("pdf_text", tmp_path, "# " + "\n\n".join(f"**{text}**" for text in PARAGRAPHS), truth)
    assert perfect == {"word_recall": 1.0, "word_precision": 1.0, "cer": 0.0, "blocks95": 1.0, "order": 1.0}
    shuffled = rated("pdf_text", tmp_path, "\n\n".join(reversed(PARAGRAPHS)), truth)
    assert shuffled == perfect | {"order": 0.0}
    lost = rated("pdf_text", tmp_path, "\n\n".join(PARAGRAPHS[:2]), truth)
    assert lost["word_precision"] == 1.0 and lost["word_recall"] < 0.75 and lost["blocks95"] == pytest.approx(2 / 3)
    assert 0.15 < lost["cer"] < 0.35  # some letters of the lost third always match somewhere
    more = rated("pdf_text", tmp_path, truth + "\n\ninvented " * 5, truth)
    assert more["word_recall"] == 1.0 and more["word_precision"] < 0.95


def test_tables_are_matched_by_their_words(tmp_path: Path) -> None:
    perfect = rated("pdf_table", tmp_path, f"{OTHER}\n\ntext\n\n{TABLE}", TABLE)
    assert perfect == {"teds": 1.0, "s_teds": 1.0, "neighbours": 1.0, "found": 1.0}
    texts = rated("pdf_table", tmp_path, TABLE.replace("alpha", "alpxx"), TABLE)
    assert texts["s_teds"] == 1.0 and texts["teds"] < 1.0
    spans = rated("pdf_table", tmp_path, TABLE.replace(" rowspan='2'", ""), TABLE)
    assert spans["s_teds"] < 1.0 and spans["found"] == 1.0
    assert rated("pdf_table", tmp_path, OTHER, TABLE) == dict.fromkeys(FIGURES["pdf_table"], 0.0)
    assert rated("table_image", tmp_path, OTHER, TABLE)["s_teds"] > 0.0  # the picture is one table, whatever it says


def test_pipes_and_csv_are_tables_without_spans(tmp_path: Path) -> None:
    pipes = "| Name | Value |\n|---|---|\n| alpha | 1 |\n| | 2 |"
    figures = rated("pdf_table", tmp_path, pipes, "Name,Value\nalpha,1\n,2\n")
    assert figures == {"teds": 1.0, "s_teds": 1.0, "neighbours": 1.0, "found": 1.0}
    assert rated("pdf_table", tmp_path, TABLE, "Name,Value\nalpha,1\n,2\n")["teds"] == 1.0
    assert rated("pdf_table", tmp_path, TABLE, TABLE, plain=True)["teds"] == 1.0  # of a parser whose text is plain


def test_a_transcript_knows_its_marks_and_its_case(tmp_path: Path) -> None:
    assert rated("line", tmp_path, "a_b*c", "a_b*c") == {"cer": 0.0, "exact": 1.0}
    assert rated("line", tmp_path, "ab", "a_b", medium="typewritten")["cer"] == 0.0
    assert rated("page_scan", tmp_path, "HELLO there", "hello THERE", ignore_case=True)["cer"] == 0.0
    page = rated("page_scan", tmp_path, "one two", "one two three four", plain=True)
    assert page["word_recall"] == 0.5 and page["word_precision"] == 1.0 and page["cer"] == pytest.approx(11 / 18)
    assert rated("page_scan", tmp_path, "x" * 500, "short")["cer"] == 1.0


def test_odd_files_need_an_end_and_their_text(tmp_path: Path) -> None:
    row = {"kind": "robust", "truth": [], "expect_text": "Hello, world!"}
    assert score(row, tmp_path, "# Hello,\nworld!")["ok"] == (1.0, 1)
    assert score(row, tmp_path, "Hello")["text_kept"] == (0.0, 1)
    assert score(row, tmp_path, "Hello, world!", ended=False)["ok"] == (0.0, 1)
    assert score({"kind": "robust", "truth": []}, tmp_path, "") == {"ended": (1.0, 1), "ok": (1.0, 1)}
    with pytest.raises(ValueError, match="no measure for rows of kind 'formula'"):
        score({"kind": "formula", "truth": []}, tmp_path, "")


def test_what_looks_the_same_is_the_same() -> None:
    assert fold("\u201eein-\nfach\u201c \u2013 \ufb01x\u00ad\u200b  it\u2019s") == '"einfach" - fix it\'s'
    assert fold("\u4e2d \u6587 a b") == "\u4e2d\u6587 a b"
    assert in_order([1, 5, 9]) == 1.0 and in_order([9, 5, 1]) == 0.0 and in_order([4]) == 0.0
    assert in_order([1, 9, 5]) == pytest.approx(1 / 3)


def test_markdown_becomes_its_text_with_tables_in_their_place() -> None:
    marked = read_marked(
        "# Head *one*\n\n- item [link](https://x.org) `code`\n1. two\\* ![alt](x.png)\n\n"
        "| a \\| b | c |\n|---|:-:|\n| 1 | **2** |\n\n<p>tag &amp; a < b</p>\n<table><tr><td>last"
    )
    assert marked.text.split("\n") == [
        "Head one", "", "item link code", "1. two* ", "", "a | b c 1 2", "", "tag & a < b", "", "", "last"
    ]  # fmt: skip
    assert [(table.rows, table.columns) for table in marked.tables] == [(2, 2), (1, 1)]
