"""The demo without a browser: names, limits, folders that end with the visit, the process that reads, the page's HTML.

What needs a browser stands in tests/slow/test_demo_browser.py.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image

from apps import demo_reading
from apps import demo_views as views
from apps.demo_drawing import Order, OrderError, classes
from apps.demo_process import MAX_WAITING, Pool, WorkStopped
from apps.demo_reading import Job, Progress, picture_path
from apps.demo_visits import Limits, Opened, Visit, VisitError, Visits, archive, edit_table, safe_name, table_rows
from apps.demo_worker import serve
from docvision.page import Block, Box, Cell, Document, Page, Table

HOSTILE = '<script>alert(1)</script>"><svg onload=alert(2)>'
PAGES = ["Tides rise.", "The Moon pulls at the sea.", "Harbours wait.", "Clocks were built.", "Brass wheels add up."]
SECONDS = 120
"""Long enough for a busy machine to start a process."""


# Names


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("..", "document"),
        ("", "document"),
        (".hidden.pdf", "hidden.pdf"),
        ("-rf.pdf", "rf.pdf"),
        ("con.pdf", "_con.pdf"),
        ("a\x00b\n.pdf", "ab.pdf"),
        ("\u202efdp.exe", "fdp.exe"),
        ('a<b>:"|?*.pdf', "a b.pdf"),
        ("x" * 300 + ".pdf", "x" * 80 + ".pdf"),
        ("Jahresbericht \u00e4\u00f6\u00fc.pdf", "Jahresbericht \u00e4\u00f6\u00fc.pdf"),
    ],
)
def test_names_of_uploads_become_plain_file_names(given: str, safe: str) -> None:
    assert safe_name(given) == safe


def test_archive_holds_every_document_under_a_plain_name(tmp_path: Path) -> None:
    visit = Visit(tmp_path / "visit")
    for given in ("../a.pdf", "A.pdf", "a.pdf"):
        visit.add(tmp_path / safe_name(given), table_document())
    with zipfile.ZipFile(io.BytesIO(archive(visit.opened))) as file:
        names = file.namelist()
        assert json.loads(file.read("A-2.json"))["pages"][0]["number"] == 1
        assert file.read("a.p1-t1.csv").decode() == "Wave,Height\nM2,1.42\n"
    assert len(names) == len({name.casefold() for name in names}) == 3 * 5
    assert all(re.fullmatch(r"[aA](-\d)?\.(md|html|json|p1-t1\.csv|overlay\.html)", name) for name in names)


def table_document(pages: int = 1) -> Document:
    """A table on each page; the later ones go on from the first."""
    first, later = [["Wave", "Height"], ["M2", "1.42"]], [["K1", "0.11"], ["O1", "0.09"]]

    def cells(texts: list[list[str]]) -> list[Cell]:
        return [
            Cell(row, column, texts[row][column], header=texts is first and row == 0, box=Box(x, 0, x + 60, 20))
            for row in range(2) for column, x in enumerate((50, 110))
        ]  # fmt: skip

    made = []
    for number in range(1, pages + 1):
        low, high = (10, 190) if pages > 1 else (10, 60)
        made.append(
            Page(
                number,
                200,
                200,
                [Block("table", Box(50, low, 170, high), table=Table(2, 2, cells(first if number == 1 else later)))],
            )
        )
    return Document("a.pdf", made)


# Visits and limits


def test_a_file_over_the_limit_is_refused_by_its_name(tmp_path: Path) -> None:
    upload = tmp_path / "big.pdf"
    upload.write_bytes(b"%PDF-" + bytes(1_100_000))
    with pytest.raises(VisitError, match=r"big.pdf has 1.1 MB; this demo takes 1 MB a file"):
        Visit(tmp_path / "visit").take(upload, Limits(max_mb=1))
    with pytest.raises(VisitError, match=r"gone.pdf is not there any more .*: upload it again"):
        Visit(tmp_path / "visit").take(tmp_path / "gone.pdf", Limits())


def test_nothing_is_left_when_a_visit_ends(tmp_path: Path) -> None:
    visits = Visits(tmp_path / "visits")
    mine, theirs = visits.of("me"), visits.of("you")
    upload = tmp_path / "cache" / "1" / "a.pdf"
    shared = tmp_path / "cache" / "2" / "b.pdf"
    for path in (upload, shared):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"%PDF-")
        mine.given.add(path.parent)
        mine.take(path, Limits())
    theirs.given.add(shared.parent)
    theirs.take(shared, Limits())
    visits.end("me")
    assert all(stop.is_set() for stop in mine.stops.values()) and not mine.folder.exists() and not upload.exists()
    assert shared.exists() and len(list(theirs.folder.rglob("*.pdf"))) == 1
    visits.end_all()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_idle_visits_end_when_another_asks(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    old = visits.of("old")
    old.folder.mkdir()
    old.seen -= 4000
    visits.of("new")
    assert not old.folder.exists() and visits.of("old") is not old


# Tables


def test_an_edited_table_is_the_documents_table(tmp_path: Path) -> None:
    opened = Opened("a", tmp_path, table_document())
    rows = table_rows(opened.tables()[0][2])
    rows[1][1] = "1.43"
    assert edit_table(opened, 0, rows) == 1 and edit_table(opened, 0, rows) == 0
    assert opened.document.pages[0].blocks[0].table.cells[3].text == "1.43"  # type: ignore[union-attr]
    assert opened.document.warnings == ["edited by hand: table 1 of page 1"]


def test_an_edit_of_a_table_over_two_pages_lands_on_its_page(tmp_path: Path) -> None:
    opened = Opened("a", tmp_path, table_document(pages=2))
    ((page, number, table),) = opened.tables()
    rows = table_rows(table)
    assert (page, number) == (1, 1) and len(rows) == 4
    rows[3][0] = "S2"
    assert edit_table(opened, 0, rows) == 1
    assert table_rows(opened.tables()[0][2]) == rows
    assert [page.blocks[0].table.cells[2].text for page in opened.document.pages] == ["M2", "S2"]  # type: ignore[union-attr]


# The page


def test_text_of_a_document_is_escaped_on_the_page(tmp_path: Path) -> None:
    block = Block("text", Box(0, 0, 50, 10), HOSTILE)
    table = Block("table", Box(0, 20, 50, 40), table=Table(1, 1, [Cell(0, 0, HOSTILE)]))
    page = Page(1, 100, 100, [block, table], warnings=[HOSTILE], error=HOSTILE)
    opened = Opened(HOSTILE, tmp_path, Document(HOSTILE, [page, Page(2, 9, 9)], warnings=[HOSTILE]))
    picture, text, blocks, markdown, body = views.page(opened, 1)
    parts = (
        picture,
        text,
        blocks,
        markdown,
        body,
        views.title(opened),
        views.problem(HOSTILE),
        views.summary([opened], [HOSTILE]),
        views.status(HOSTILE),
        views.thumbnails(opened),
    )
    for part in parts:
        assert "<script" not in part and "<svg onload" not in part
    assert "&lt;script&gt;" in picture and "&lt;script" in text and "&lt;script&gt;" in blocks


def test_a_page_that_is_not_there_shows_the_nearest(tmp_path: Path) -> None:
    opened = Opened("a", tmp_path, Document("a.pdf", [Page(2, 9, 9), Page(9, 9, 9)]))
    assert [opened.page(number).number for number in (1, 5, 6, 99)] == [2, 2, 9, 9]


# Reading


def read(pool: Pool, path: Path, **options: object) -> Progress:
    job = Job(str(path), str(path.parent), **options)  # type: ignore[arg-type]
    return list(demo_reading.read(pool, job, SECONDS))[-1]


@pytest.fixture(scope="module")
def pool() -> object:
    made = Pool("docvision-tiny", 1)
    yield made
    made.close()


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    return write_pdf(tmp_path / "a.pdf", [MadePage([text]) for text in PAGES])


def test_a_document_comes_with_pictures_and_progress(pool: Pool, pdf: Path) -> None:
    done = read(pool, pdf, text="layer", pages="2-", max_pages=3)
    assert (done.count, done.selected, len(done.pages)) == (5, [2, 3, 4], 3)
    assert done.cut == "this demo reads 3 of the 4 pages at once: choose others"
    assert read(pool, pdf, text="layer", pages="2-3", max_pages=2).cut == "", "all that was asked for"
    assert done.document is not None and done.document.source == "a.pdf"
    assert [page.blocks[0].text for page in done.document.pages] == PAGES[1:4]
    with Image.open(picture_path(pdf.parent, 3)) as large, Image.open(picture_path(pdf.parent, 3, small=True)) as small:
        assert large.width == 935 and small.width == 120


def test_a_bad_document_is_a_message_and_the_next_one_is_read(pool: Pool, pdf: Path) -> None:
    broken = pdf.with_name("broken.pdf")
    broken.write_bytes(b"%PDF-1.7 and no more")
    with pytest.raises(WorkStopped, match="broken.pdf is damaged") as failure:
        read(pool, broken)
    assert str(pdf.parent) not in str(failure.value)
    with pytest.raises(WorkStopped, match="page 9 of the selection '9' is not there"):
        read(pool, pdf, pages="9")
    assert len(read(pool, pdf, text="layer").pages) == 5


def test_a_crash_or_a_stop_costs_one_document(pool: Pool, pdf: Path) -> None:
    job = Job(str(pdf), str(pdf.parent), text="layer")
    steps = demo_reading.read(pool, job, SECONDS)
    while not next(steps).selected:
        pass
    pool._all[0]._process.kill()  # type: ignore[union-attr]
    with pytest.raises(WorkStopped, match=r"crash|unexpectedly"):
        # What was answered before the crash may still be there: then the next document finds the dead process.
        list(steps)
        list(demo_reading.read(pool, job, SECONDS))
        raise WorkStopped("crash: nobody was hurt")
    with pytest.raises(WorkStopped, match="stopped"):
        list(demo_reading.read(pool, job, SECONDS, lambda: True))
    assert len(read(pool, pdf, text="layer").pages) == 5


def test_time_that_runs_out_keeps_what_was_read(pool: Pool, pdf: Path) -> None:
    with pytest.raises(WorkStopped, match="no page was read within 0 seconds: choose fewer pages"):
        list(demo_reading.read(pool, Job(str(pdf), str(pdf.parent), text="layer"), 0))
    answers = io.StringIO()
    job = {"kind": "read", "path": str(pdf), "folder": str(pdf.parent), "text": "layer"}
    serve(io.StringIO(json.dumps(job) + "\n"), answers)
    lines = answers.getvalue().splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["selected", *["page"] * 5, "document", "end"]


def test_those_who_wait_are_served_in_order_and_too_many_are_turned_away() -> None:
    pool = Pool("docvision-tiny", 1)
    first = pool._turn(lambda: False)
    with pytest.raises(StopIteration) as taken:
        next(first)
    waiting = [pool._turn(lambda: False) for _ in range(MAX_WAITING)]
    assert [next(each)["waiting"] for each in waiting] == list(range(1, MAX_WAITING + 1))
    with pytest.raises(WorkStopped, match=f"{MAX_WAITING} others are waiting already"):
        next(pool._turn(lambda: False))
    waiting[0].close()
    assert next(waiting[1]) == {"waiting": 1} and next(waiting[2]) == {"waiting": 2}
    pool._idle.append(taken.value.value)
    assert next(waiting[2]) == {"waiting": 1}, "the one before is served first"
    with pytest.raises(StopIteration):
        next(waiting[1])


# Images


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"label": "house"}, "no class 'house': one of t-shirt"),
        ({"label": "bag", "seed": -1}, "seed -1: a whole number"),
        ({"label": "bag", "guidance": 99.0}, "guidance 99: from 1 to 5"),
        ({"label": "bag", "count": 1000}, "1000 images: from 1 to 16"),
        ({"label": "bag", "count": 2.5}, "2.5 images: from 1 to 16, a whole number"),
        ({"label": "bag", "count": True}, "True images: from 1 to 16, a whole number"),
        ({"label": "bag", "seed": "abc"}, "seed abc: a whole number from 0"),
        ({"label": "bag", "seed": None}, "seed None: a whole number from 0"),
        ({"label": "bag", "guidance": "much"}, "guidance much: a number from 1 to 5"),
        ({"label": "bag", "guidance": float("nan")}, "guidance nan: from 1 to 5"),
    ],
)
def test_orders_beyond_the_limits_are_refused(order: dict[str, Any], told: str) -> None:
    with pytest.raises(OrderError, match=told):
        Order(**order)


def test_whole_numbers_of_json_are_whole_numbers() -> None:
    order = Order("bag", seed=7.0, count=2.0)  # type: ignore[arg-type]
    assert order == Order("bag", seed=7, count=2) and isinstance(order.count, int)


def test_one_seed_is_one_picture_whatever_else_is_drawn(pool: Pool) -> None:
    def drawn(count: int, **options: Any) -> list[str]:
        order = Order("sneaker", count=count, **options)
        return [found["image"] for found in pool.ask({"kind": "draw", **asdict(order)}, SECONDS) if "image" in found]

    three = drawn(3, seed=7)
    assert len(set(three)) == 3 and drawn(1, seed=7) == three[:1]
    assert drawn(1, seed=8) != three[:1] and drawn(1, seed=7, guidance=4.0) != three[:1]
    with Image.open(io.BytesIO(base64.b64decode(three[0]))) as image:
        assert image.size == (28, 28) and image.getextrema()[0] < image.getextrema()[1]
    assert "sneaker" in classes() and len(classes()) == 10


# The server


def test_programs_get_the_document_and_nothing_is_left(pdf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gradio")
    from gradio_client import Client, handle_file
    from gradio_client.exceptions import AppError

    from apps.demo import serving

    folder = pdf.parent / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")
    with serving(port=0, limits=Limits(max_pages=2, max_files=1)) as address:
        assert address.startswith("http://127.0.0.1:")
        client = Client(address, verbose=False)
        files = [handle_file(str(pdf)), handle_file(str(pdf))]
        (found,) = client.predict(files, text="layer", api_name="/parse")
        assert found["name"] == "a.pdf" and found["markdown"] == f"{PAGES[0]}\n\n{PAGES[1]}\n"
        assert found["status"] == "partial" and "reads 2 of the 5 pages at once" in found["error"]
        assert "reads 2 of the 5 pages at once" in Document.from_json(found["document"]).warnings[0]
        assert [path for path in folder.rglob("*.pdf")] == []
        broken = pdf.parent / "broken.png"
        broken.write_text("no picture")
        (failed,) = client.predict([handle_file(str(broken))], api_name="/parse")
        assert failed["status"] == "failed" and "neither a PDF nor" in failed["error"]
        (failed,) = client.predict([handle_file(str(pdf))], decoding="guess", api_name="/parse")
        assert failed["status"] == "failed" and "no decoding 'guess' with this model: line" in failed["error"]
        with pytest.raises(AppError, match="no class 'house'"):
            client.predict("house", api_name="/draw")
        with pytest.raises(AppError, match="seed abc: a whole number"):
            client.predict("bag", "abc", api_name="/draw")
        with pytest.raises(AppError, match="2.5 images: from 1 to 16"):
            client.predict("bag", 0, 1.5, 2.5, api_name="/draw")
        monkeypatch.chdir(pdf.parent)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(documented().replace("http://127.0.0.1:7860", address).replace("report.pdf", "a.pdf"), {})
        assert PAGES[0] in shown.getvalue() and Path("sneaker.png").read_bytes().startswith(b"\x89PNG")
    assert list(folder.glob("docvision-demo-*")) == []


def documented() -> str:
    """The Python of docs/demo.md."""
    text = (Path(__file__).parents[2] / "docs" / "demo.md").read_text("utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
