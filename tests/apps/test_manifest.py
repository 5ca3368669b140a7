"""What an output folder remembers: names, finished documents, failures; and who may write into it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from apps import manifest
from apps.jobs import Outcome, failure
from apps.manifest import FolderBusy, Manifest
from apps.outputs import Item
from apps.read_task import digest

MD = ("md",)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def document(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str, content: str = "") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content or name)
        return path

    return make


def finish(held: Manifest, item: Item, text: str = "text", **changes: object) -> None:
    """Write an output and record it."""
    (held.folder / f"{item.name}.md").write_text(text)
    fields = {"status": "ok", "pages": 1, "sha256": digest(item.path), "files": {f"{item.name}.md": len(text)}}
    held.record(item, Outcome(**{**fields, **changes}))  # type: ignore[arg-type]


def fail(held: Manifest, item: Item, code: str) -> None:
    message = failure(str(item.path), code, "why")
    held.record(item, Outcome("failed", sha256=digest(item.path), failures=(message,)))


def test_what_is_finished_stands_until_something_changes(out: Path, document: Callable[..., Path]) -> None:
    path = document("a.pdf")
    with Manifest(out, {"n": 1}) as held:
        (item,) = held.names([(path, "a")], MD)
        assert held.finished(item) is None
        finish(held, item)
    with Manifest(out, {"n": 1}) as held:
        assert held.finished(item) is not None
    with Manifest(out, {"n": 1}, resume=False) as held:
        assert held.finished(item) is None
    with Manifest(out, {"n": 2}) as held:
        assert held.finished(item) is None
    (out / "a.md").write_text("a person's own words")
    with Manifest(out, {"n": 1}) as held:
        assert held.finished(item) is None
    (out / "a.md").write_text("text")
    path.write_text("other content")
    with Manifest(out, {"n": 1}) as held:
        assert held.finished(item) is None


def test_the_device_changes_no_output(out: Path) -> None:
    key = manifest.settings_key
    assert key({"options": {"device": "cpu", "text": "auto"}}) == key({"options": {"device": "cuda", "text": "auto"}})
    assert key({"options": {"text": "auto"}}) != key({"options": {"text": "layer"}})


def test_overwritten_outputs_void_what_was_finished_with_other_settings(
    out: Path, document: Callable[..., Path]
) -> None:
    item = Item(document("a.pdf"), "a")
    with Manifest(out, {"tables": "html"}) as held:
        finish(held, item, "same size 1")
    with Manifest(out, {"tables": "markdown"}) as held:
        finish(held, item, "same size 2")
    with Manifest(out, {"tables": "html"}) as held:
        assert held.finished(item) is None


@pytest.mark.parametrize("cut", [2, 20, 200])
def test_a_line_that_was_cut_off_counts_as_not_written(cut: int, out: Path, document: Callable[..., Path]) -> None:
    first, second = Item(document("a.pdf"), "a"), Item(document("b.pdf"), "b")
    with Manifest(out, {}) as held:
        finish(held, first)
        finish(held, second)
    journal = out / manifest.PLACE / manifest.JOURNAL
    journal.write_bytes(journal.read_bytes()[:-cut])
    with Manifest(out, {}) as held:
        assert held.finished(first) is not None and held.finished(second) is None
        finish(held, second)
    with Manifest(out, {}) as held:
        assert held.finished(second) is not None
    journal.write_bytes(b'\xff\xfe no journal\n[]\n{"name": 1}\n')
    with Manifest(out, {}) as held:
        assert held.finished(first) is None


def test_names_stay_with_their_documents(out: Path, document: Callable[..., Path]) -> None:
    a, b, c = document("a/report.pdf"), document("b/report.pdf"), document("c/Report.pdf")
    with Manifest(out, {}) as held:
        items = held.names([(a, "report"), (b, "report"), (c, "Report")], MD)
        assert [item.name for item in items] == ["report", "report-2", "Report-3"]
        finish(held, items[0])
        finish(held, items[1])
    with Manifest(out, {}) as held:
        # Alone, and with a newcomer that sorts before it: nobody gets the name of another.
        assert [item.name for item in held.names([(b, "report")], MD)] == ["report-2"]
        new = document("0/report.pdf")
        assert [item.name for item in held.names([(new, "report"), (b, "report")], MD)] == ["report-3", "report-2"]
    moved = document("elsewhere/report.pdf", a.read_text())
    a.unlink()
    with Manifest(out, {}) as held:
        (item,) = held.names([(moved, "report")], MD)
        assert item.name == "report" and held.finished(item) is not None


def test_names_that_would_collide_under_another_ending(out: Path, document: Callable[..., Path]) -> None:
    given = [(document("x.pdf"), "x"), (document("x.overlay.pdf"), "x.overlay"), (document("failures.pdf"), "failures")]
    with Manifest(out, {}) as held:
        assert [item.name for item in held.names(given, ("html", "overlay"))] == ["x", "x.overlay-2", "failures"]
        assert [item.name for item in held.names(given, ("jsonl",))] == ["x", "x.overlay", "failures-2"]


def test_long_names_leave_room_for_their_endings(out: Path, tmp_path: Path) -> None:
    tail = "\u00e4" * 99 + "\u20ac" * 9
    given = [(tmp_path / f"{number}.pdf", f"deep/{tail}{number}") for number in (1, 2)]
    with Manifest(out, {}) as held:
        names = [item.name for item in held.names(given, MD)]
    assert names == ["deep/" + "\u00e4" * 99, "deep/" + "\u00e4" * 99 + "-2"]


def test_failures_stand_unless_their_reason_lies_outside(out: Path, document: Callable[..., Path]) -> None:
    codes = ("corrupt", "timeout", "disk-full", "no-model", "password-required", "partial")
    items = {code: Item(document(f"{code}.pdf"), code) for code in codes}
    with Manifest(out, {}) as held:
        for code, item in items.items():
            fail(held, item, code)

    def again(**options: bool) -> list[str]:
        with Manifest(out, {}) as held:
            return [code for code, item in items.items() if held.finished(item, **options) is None]

    assert again() == ["disk-full", "no-model"]
    assert again(password=True) == ["disk-full", "no-model", "password-required"]
    assert again(retry_failed=True) == ["corrupt", "timeout", "disk-full", "no-model", "password-required"]


def test_failures_are_listed_while_it_runs_and_anew_at_its_end(out: Path, document: Callable[..., Path]) -> None:
    first, second = Item(document("a\n\u00e4.pdf"), "a"), Item(document("b.pdf"), "b")

    def listed() -> list[str]:
        return [json.loads(line)["input"] for line in (out / manifest.FAILURES).read_text().splitlines()]

    with Manifest(out, {}) as held:
        fail(held, second, "corrupt")
        fail(held, first, "corrupt")
        assert listed() == [str(second.path), str(first.path)]
        assert held.write_failures() == 2 and listed() == [str(first.path), str(second.path)]
    with Manifest(out, {}) as held:
        held.write_failures(without={"a"})
        assert listed() == [str(second.path)]
        finish(held, first)
        assert held.write_failures() == 1
    second.path.unlink()
    with Manifest(out, {}) as held:
        assert held.write_failures() == 0 and not (out / manifest.FAILURES).exists()


def test_a_path_that_is_no_utf8_is_listed_as_valid_json(out: Path, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.pdf")
    path.write_text("x")
    with Manifest(out, {}) as held:
        fail(held, Item(path, "\udcff"), "corrupt")
    assert json.loads((out / manifest.FAILURES).read_text("utf-8"))["input"] == str(path)
    with Manifest(out, {}) as held:
        assert held.finished(Item(path, "\udcff")) is not None


def test_two_runs_never_share_a_folder(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_PATIENCE_S", 0.0)
    with Manifest(out, {}), pytest.raises(FolderBusy, match=f"process {os.getpid()}.*wait for its end"):
        Manifest(out, {})
    Manifest(out, {}).close()


def test_settings_of_failures_can_be_found_again(out: Path, document: Callable[..., Path]) -> None:
    with Manifest(out, {"text": "layer"}) as held:
        fail(held, Item(document("a.pdf"), "a"), "timeout")
        fail(held, Item(document("b.pdf"), "b"), "partial")
    with Manifest(out, {"text": "model"}) as held:
        fail(held, Item(document("c.pdf"), "c"), "crash")
    found = [(settings, [entry.name for entry in entries]) for settings, entries in manifest.read_settings(out)]
    assert found == [({"text": "layer"}, ["a"]), ({"text": "model"}, ["c"])]
    with pytest.raises(ValueError, match="holds no journal"):
        list(manifest.read_settings(out.parent))
