"""Large documents read in parts: the same bytes as read at once, whatever happens to a part."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image

from apps import parts
from apps.jobs import Loss, Outcome, Task, failed
from apps.outputs import Outputs
from apps.parts import PartReader, Parts
from apps.read_task import Settings, TaskReader
from docvision import parse
from docvision.parse import ParseOptions

PAGES = 25


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_PAGES", 10)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A running head, a paragraph and numbers that stand like a table on each page."""
    rows = ["Item        Count      Price", "Apples      12         3.40", "Pears       7          2.10"]
    pages = [
        MadePage(["The Book of Fruit", f"This is what page {number} says about it.", *rows]) for number in range(PAGES)
    ]
    return write_pdf(tmp_path / "book.pdf", pages)


def settings(folder: Path, **changes: Any) -> Settings:
    folder.mkdir(parents=True)
    return Settings(ParseOptions(layout="rules"), Outputs(("md", "html", "json"), folder), **changes)


def read(reader: TaskReader, task: Task) -> tuple[Outcome, list[str]]:
    """What comes of a task as an engine would do it, and the parts in which it was read."""
    waiting, done = deque([task]), []
    follow = Parts(waiting.appendleft)
    while waiting:
        task = waiting.popleft()
        done.append(task.part)
        for _, outcome in follow.finished(task, reader.read(task, lambda what, page: None)):
            return outcome, [part for part in done if part]
    raise AssertionError("nothing came of it")


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {path.name: path.read_text() for path in folder.glob("book.*")}
    found["book.json"] = json.loads(found["book.json"])
    for page in found["book.json"]["pages"]:
        page["timings"] = {}
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["1-10", "11-20", "21-25"]),
        ({"pages": "r1,2-20", "max_pages": 15}, ["25-25,2-10", "11-15"]),
        ({"pages": "1-5"}, []),
    ],
)
def test_parts_make_the_document(changes: dict[str, Any], expected: list[str], book: Path, tmp_path: Path) -> None:
    one, task = settings(tmp_path / "one", **changes), Task(str(book), "book")
    whole = TaskReader(one).read(task)
    outcome, read_in = read(PartReader(settings(tmp_path / "parts", **changes)), replace(task, split=8))
    assert read_in == expected and content(tmp_path / "one") == content(tmp_path / "parts")
    assert (outcome.status, outcome.pages, outcome.sha256) == (whole.status, whole.pages, whole.sha256)
    assert (
        outcome.failures == whole.failures
        and outcome.notes == whole.notes
        and sorted(outcome.files) == sorted(whole.files)
    )


def test_a_bad_page_of_a_part_is_left_out_of_the_document(book: Path, tmp_path: Path) -> None:
    loss = Loss("timeout", 13, "took longer than 9 seconds")
    whole = TaskReader(settings(tmp_path / "one")).read(Task(str(book), "book", (loss,)))

    class Slow(PartReader):
        def read_here(self, task: Task, tell: Any = None) -> Outcome:
            return super().read_here(replace(task, skip=(loss,)) if task.part == "11-20" else task, tell)

    outcome, _ = read(Slow(settings(tmp_path / "parts")), Task(str(book), "book", split=8))
    assert outcome.status == "partial" and outcome.failures == whole.failures
    assert content(tmp_path / "one") == content(tmp_path / "parts")


def test_a_part_that_fails_costs_the_document(book: Path, tmp_path: Path) -> None:
    class Broken(PartReader):
        def read_here(self, task: Task, tell: Any = None) -> Outcome:
            return failed(task, "crash", "the reader died") if task.part else super().read_here(task, tell)

    outcome, read_in = read(Broken(settings(tmp_path / "parts")), Task(str(book), "book", split=8))
    assert outcome.status == "failed" and outcome.failures[0].code == "crash" and read_in == ["1-10"]


def test_too_many_bad_pages_are_too_many_in_all_parts_together(book: Path, tmp_path: Path) -> None:
    class Bad(PartReader):
        def read_here(self, task: Task, tell: Any = None) -> Outcome:
            first = int(task.part.partition("-")[0]) if task.part else 0
            skip = tuple(Loss("crash", first + more, "it died") for more in (0, 1))
            return super().read_here(replace(task, skip=skip) if task.part else task, tell)

    outcome, _ = read(Bad(settings(tmp_path / "parts")), Task(str(book), "book", split=8))
    assert outcome.status == "failed" and "given up after 6 pages that cost a reader" in outcome.failures[0].message


class Lines:
    """A reader of pictures that reads the same everywhere."""

    def read_lines(self, crops: list[Any]) -> list[tuple[str, float]]:
        return [("Something else is written here.", 0.99)] * len(crops)


@pytest.mark.parametrize(("scan_at", "again"), [(None, False), (24, False), (3, True)])
def test_what_a_page_teaches_later_ones_is_not_lost(
    scan_at: int | None, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the model is in use, pages with a layer are compared with their picture: parts would not know."""
    picture = Image.new("L", (306, 396), 255)
    picture.paste(0, (40, 60, 260, 70))
    lines = [[f"This is what page {number} says.", "And a second line of it."] for number in range(PAGES)]
    pages = [MadePage(each, size=(306, 198)) for each in lines]
    if scan_at is not None:
        pages[scan_at] = MadePage(picture=picture)
    book = write_pdf(tmp_path / "book.pdf", pages)
    asked: list[int] = []

    def from_picture(run: Any, page: Any, sheet: Any) -> None:
        asked.append(page.number)
        run.model_used = True

    monkeypatch.setattr(parse.Run, "_from_picture", from_picture)
    monkeypatch.setattr(parse, "load_reader", lambda model, device: Lines())
    read_in = []
    for folder, kind, split in (("one", TaskReader, 0), ("parts", PartReader, 8)):
        made = replace(settings(tmp_path / folder), options=ParseOptions())
        reader = kind(made)
        reader.parser._load = lambda model, device: Lines()
        read_in.append(read(reader, Task(str(book), "book", split=split))[1])
        asked.clear()
    assert read_in == [[], ["1-10", "11-20", "21-25"]] and content(tmp_path / "one") == content(tmp_path / "parts")
    warned = [page for page in content(tmp_path / "one")["book.json"]["pages"] if page["warnings"]]
    assert bool(warned) == again  # else the test says nothing
