"""Tables over a page end: what is joined, what is not, and that no word goes astray."""

from collections import Counter
from pathlib import Path

import pytest
import typst

from docvision.export import document_tables, table_to_csv, to_html, to_markdown, to_text
from docvision.page import Block, Box, Cell, Document, Page, Table
from docvision.parse import parse
from docvision.table_join import REPEATED, joined_tables, mark_continued

HEAD = ["Place", "Height", "Rain"]


def block(
    rows: list[list[str]], top: float, left: float = 60.0, widths: tuple[float, ...] = (150.0, 150.0, 150.0)
) -> Block:
    """A drawn table with one header row, 12 points a row."""
    cells = []
    for r, texts in enumerate(rows):
        x = left
        for c, text in enumerate(texts):
            box = Box(x, top + 12 * r, x + widths[c], top + 12 * r + 12)
            cells.append(Cell(r, c, text, header=r == 0, box=box, text_box=box.pad(-2) if text else None))
            x += widths[c]
    box = Box(left, top, left + sum(widths[: len(rows[0])]), top + 12 * len(rows))
    return Block("table", box, table=Table(len(rows), len(rows[0]), cells))


def text_block(text: str, top: float, kind: str = "text") -> Block:
    return Block(kind, Box(60, top, 500, top + 10), text)  # type: ignore[arg-type]


def body(count: int, first: int = 0) -> list[list[str]]:
    return [[f"place {i}", str(100 + i), f"{i}.5"] for i in range(first, first + count)]


def two_pages(second: list[list[str]], **options) -> list[Page]:
    pages = [Page(1, 600, 800), Page(2, 600, 800)]
    pages[0].blocks = [text_block("Before.", 100), block([HEAD, *body(3)], 740), text_block("1", 790, "footer")]
    pages[1].blocks = [text_block("A running head", 20, "header"), block(second, 50, **options)]
    pages[1].blocks.append(text_block("After.", 300))
    return pages


def words(pages: list[Page]) -> Counter[str]:
    seen: Counter[str] = Counter()
    for page in pages:
        for item in page.blocks:
            seen.update([item.text, *(cell.text for cell in item.table.cells)] if item.table else [item.text])
        seen.update(dropped.text for dropped in page.dropped)
    return seen


def test_a_repeated_header_goes_to_dropped_and_the_rows_follow_on():
    pages = two_pages([HEAD, *body(2, first=3)])
    before = words(pages)
    assert mark_continued(pages) == 1
    assert words(pages) == before
    assert [(item.text, item.reason) for item in pages[1].dropped] == [(text, REPEATED) for text in HEAD]
    document = Document("x.pdf", pages)
    tables = document_tables(document)
    assert [(page, number) for page, number, _ in tables] == [(1, 1)]
    assert table_to_csv(tables[0][2]).splitlines() == [",".join(row) for row in [HEAD, *body(5)]]
    # Boxes stay with their pages: the model holds two tables, only the exports write one.
    assert [len(page.blocks) for page in pages] == [3, 3]


def test_every_export_writes_the_whole_table_once_at_its_beginning():
    pages = two_pages([HEAD, *body(2, first=3)])
    mark_continued(pages)
    document = Document("x.pdf", pages)
    markdown, text, page = to_markdown(document), to_text(document), to_html(document)
    for written in (markdown, text, page):
        assert written.count("place 4") == 1 and written.count("Height") == 1
        assert written.index("place 2") < written.index("place 3") < written.index("After.")
    assert page.count("<table>") == 1 and markdown.count("| --- | --- | --- |") == 1


def test_a_first_row_that_was_taken_for_a_header_is_a_row():
    pages = two_pages(body(2, first=3))
    assert mark_continued(pages) == 1
    whole = document_tables(Document("x.pdf", pages))[0][2]
    assert whole.rows == 6 and whole.header_rows == 1 and pages[1].dropped == []


def test_three_pages_make_one_table():
    pages = two_pages([HEAD, *body(60, first=3)])
    del pages[1].blocks[2:]
    pages.append(Page(3, 600, 800, [block([HEAD, *body(1, first=63)], 50)]))
    assert mark_continued(pages) == 2
    whole = document_tables(Document("x.pdf", pages))
    assert len(whole) == 1 and whole[0][2].rows == 65 and len(pages[2].dropped) == 3


@pytest.mark.parametrize(
    ("second", "options"),
    [
        ([["Name", "Age", "Town"], *body(2)], {}),  # another header over figures
        ([HEAD[:2], *(row[:2] for row in body(2))], {}),  # fewer columns
        ([HEAD, *body(2)], {"widths": (20.0, 20.0, 410.0)}),  # columns elsewhere
        ([HEAD, *body(2)], {"left": 420.0, "widths": (50.0, 50.0, 50.0)}),  # the next column of the page
    ],
    ids=["other header", "fewer columns", "other columns", "elsewhere"],
)
def test_another_table_stays_another_table(second: list[list[str]], options: dict):
    pages = two_pages(second, **options)
    assert mark_continued(pages) == 0 and joined_tables(pages) == {}
    assert pages[1].blocks[1].table.header_rows == 1 and pages[1].dropped == []


def test_text_between_the_parts_keeps_them_apart_unless_it_says_continued():
    pages = two_pages([HEAD, *body(2)])
    pages[1].blocks.insert(1, text_block("Table 2: Something else.", 30, "caption"))
    assert mark_continued(pages) == 0
    pages[1].blocks[1].text = "Table 1 (continued)"
    assert mark_continued(pages) == 1
    pages = two_pages([HEAD, *body(2)])
    pages[0].blocks.insert(2, text_block("And then some text.", 780))
    assert mark_continued(pages) == 0


def test_tables_of_words_are_joined_only_where_their_lines_fit():
    """Without figures a header cannot be told from a row, so only drawn columns at the same places are proof."""
    rows = [["Rhine", "runs north", "wide"], ["Po", "runs east", "slow"]]
    for shift, expected in ((0.0, 1), (8.0, 0)):
        pages = [Page(1, 600, 800, [block([HEAD, *rows], 740)]), Page(2, 600, 800, [block(rows, 50, left=60 + shift)])]
        assert mark_continued(pages) == expected


def test_a_page_that_is_missing_between_them_keeps_tables_apart():
    pages = two_pages([HEAD, *body(2)])
    pages[1].number = 3
    assert mark_continued(pages) == 0


LONG_TABLE = """
#set page(width: 400pt, height: 300pt, margin: 40pt)
Rainfall by place.

#table(columns: 3, table.header([Place], [Height], [Rain]),
  ..for i in range(20) {{ ([place #i], [#(100 + i)], [#i.5]) }})

The end.
"""


def test_a_typeset_table_over_two_pages_comes_whole_and_keeps_the_ledger(tmp_path: Path):
    path = tmp_path / "long.pdf"
    path.write_bytes(typst.compile(LONG_TABLE.replace("{{", "{").replace("}}", "}").encode()))
    document = parse(path, layout="rules")
    assert document.status == "ok" and document.settings["join_tables"] == "on"
    assert len(document.pages) > 1
    tables = document_tables(document)
    assert len(tables) == 1 and (tables[0][2].rows, tables[0][2].header_rows) == (21, 1)
    again = Document.from_json(document.to_json())
    assert to_markdown(again) == to_markdown(document)


def test_joining_can_be_switched_off(tmp_path: Path):
    path = tmp_path / "long.pdf"
    path.write_bytes(typst.compile(LONG_TABLE.replace("{{", "{").replace("}}", "}").encode()))
    document = parse(path, layout="rules", join_tables=False)
    assert document.settings["join_tables"] == "off"
    tables = document_tables(document)
    assert len(tables) == len(document.pages) > 1
    assert all(table.header_rows == 1 for _, _, table in tables)
    assert to_markdown(document).count("Height") == len(tables)
