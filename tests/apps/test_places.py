"""Inputs and outputs at addresses: what they name, the same bytes as with paths, going on, and what is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_pdfs import MadePage, write_pdf

from apps import cli, places, staged_manifest

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
TEXTS = {"a": "Apples fell early.", "deep/b": "Most pears hung on.", "deep/c": "No plum was left."}


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What was listed for one test, and what lies in memory."""
    places._listed.clear()
    yield
    fsspec.filesystem("memory").rm("/", recursive=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    for name, text in TEXTS.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        write_pdf(made / f"{name}.pdf", [MadePage([text, "And so it went on until autumn."])])
    (made / "notes.txt").write_text("no document")
    (made / "broken.pdf").write_text("no PDF")
    return made


def run(*arguments: object) -> int:
    return cli.main(["parse", "--layout", "rules", *map(str, arguments)])


def content(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and ".docvision" not in path.parts]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_an_address_names_documents_as_a_path_does(folder: Path) -> None:
    def names(address: str) -> list[str]:
        return [name for _, name in places.find(address, (".pdf",))]

    here = f"local://{folder}"
    assert names(here) == names(f"{here}/") == ["a", "broken", "deep/b", "deep/c"]
    assert names(f"{here}/deep/*.pdf") == ["b", "c"] and names(f"{here}/**/c.pdf") == ["deep/c"]
    assert names(f"{here}/deep/b.pdf") == ["b"] and names(f"{here}/notes.txt") == ["notes"]
    with pytest.raises(places.PlaceError, match="holds no document: name a place with .pdf files"):
        names(f"{here}/*.gif")
    assert places.plain("file:///a/b") == "/a/b" and places.plain("s3://a") == "s3://a"


def test_outputs_at_an_address_are_those_of_a_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"local://{tmp_path}/out"
    assert run(folder, "-o", tmp_path / "plain", "-q", "-f", "md,html") == 3
    assert run(f"local://{folder}", "-o", out, "-q", "-f", "md,html") == 3
    plain, there = content(tmp_path / "plain"), content(tmp_path / "out")
    (failed,) = map(json.loads, there.pop("failures.jsonl").splitlines())
    assert failed["input"] == f"file://{folder}/broken.pdf" and failed["message"].startswith(failed["input"])
    plain.pop("failures.jsonl")
    title = f"<title>{folder}".encode()  # a document says where it is from
    plain = {name: data.replace(title, title.replace(b">", b">file://")) for name, data in plain.items()}
    assert plain == there and len(there) == 2 * len(TEXTS)
    capsys.readouterr()
    assert run(f"local://{folder}", "-o", out, "-f", "md,html") == 3
    assert "2 failed" not in (err := capsys.readouterr().err) and "(4 finished before)" in err
    write_pdf(folder / "a.pdf", [MadePage(["Quinces came last of all."])])
    (tmp_path / "out" / "deep" / "b.md").unlink()
    places._listed.clear()
    assert (
        run(f"local://{folder}", "-o", out, "-f", "md,html") == 3 and "(2 finished before)" in capsys.readouterr().err
    )
    assert "Quinces" in (tmp_path / "out" / "a.md").read_text() and (tmp_path / "out" / "deep" / "b.md").exists()
    assert run(folder / "a.pdf", "-o", f"file://{tmp_path}/named", "-q") == 0
    assert sorted(content(tmp_path / "named")) == ["a.md"]


def test_a_document_in_memory_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/store/a.pdf", (folder / "a.pdf").read_bytes())
    for before in (0, 1):
        assert run("memory://store/a.pdf", "-o", "memory://store/out") == 0
        assert f"({before} finished before)" in (err := capsys.readouterr().err) or not before, err
    assert memory.cat_file("/store/out/a.md").decode().startswith(TEXTS["a"])
    assert run("memory://store/a.pdf") == 0 and TEXTS["a"] in capsys.readouterr().out
    assert run("memory://store/none.pdf", "-o", "memory://store/out") == 1
    assert "failed: memory://store/none.pdf is not there: check the address" in capsys.readouterr().err


def test_a_driver_that_was_killed_has_sent_its_journal(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(staged_manifest, "SYNC_S", 0.0)
    record = staged_manifest.StagedManifest.record
    seen: list[Any] = []

    def killed(self: Any, item: Any, outcome: Any) -> None:
        record(self, item, outcome)
        seen.append(item)
        if len(seen) == 2:
            self._send = lambda name: None  # nothing more leaves this machine
            raise KeyboardInterrupt

    monkeypatch.setattr(staged_manifest.StagedManifest, "record", killed)
    assert run(folder, "-o", f"local://{tmp_path}/out", "-q") == 130
    monkeypatch.setattr(staged_manifest.StagedManifest, "record", record)
    capsys.readouterr()
    assert run(folder, "-o", f"local://{tmp_path}/out") == 3 and "(2 finished before)" in capsys.readouterr().err


class Locked(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A store that lets nobody in."""

    protocol = "locked"

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        raise PermissionError("403 Forbidden")

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        raise PermissionError("403 Forbidden")

    exists = isdir = info


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("locked://bucket/in", "-o", "{out}"),
            "locked://bucket/in cannot be listed (PermissionError: 403 Forbidden): check the",
        ),
        (
            ("{in}", "-o", "locked://bucket/out"),
            "cannot be written (PermissionError: 403 Forbidden): check the address and",
        ),
        (
            ("nosuch://bucket/in", "-o", "{out}"),
            "nosuch://bucket/in: Protocol not known: nosuch: use a path, or an address",
        ),
        (("s3://bucket/in", "-o", "{out}"), "s3://bucket/in needs a package that is not installed: pip install s3fs"),
    ],
)
def test_addresses_that_cannot_be_used(
    words: tuple[str, ...], told: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    fsspec.register_implementation("locked", Locked, clobber=True)
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    assert run(*(word.format(**{"in": folder, "out": tmp_path / "out"}) for word in words)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line and not content(tmp_path / "out")
