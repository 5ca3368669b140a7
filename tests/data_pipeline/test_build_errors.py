"""What can be wrong with a recipe, a folder or a machine: one clear line, the right exit code, nothing half-written."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from data_pipeline import build, fonts, overlay, render, shards, text

ROOT = Path(build.__file__).parent.parent


def make(*arguments: object) -> int:
    return build.main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("kind: lines\noptions: {clean: 0.5, kindz: {}}", "unknown key 'kindz' in options: did you mean kinds?"),
        ("kind: lines\nrow: 5", "unknown key 'row' in bad.yaml: did you mean rows?"),
        ("kind: posters", "unknown kind 'posters'"),
        ("rows: 5", "key 'kind' is missing in bad.yaml"),
        ("kind: lines\nrows: 0", "rows is 0"),
        ("kind: lines\nrows: many", "rows in bad.yaml is 'many': expected a whole number"),
        ("kind: lines\noptions: {clean: [1]}", "clean in options is [1]: expected a number"),
        ("kind: lines\noptions: {difficulty: [0.1]}", "difficulty in options has 1 values: give 2"),
        ("kind: lines\noptions: {kinds: {poster: 1}}", "unknown line kind 'poster'"),
        ("kind: lines\noptions: {kinds: {print: much}}", "print in kinds in options is 'much': expected a number"),
        ("kind: lines\noptions: {corpus: nowhere}", "unknown corpus 'nowhere': use system or builtin"),
        ("kind: [lines", "is not YAML"),
        ("just words", "a recipe is a mapping of keys"),
        ("", "a recipe is a mapping of keys"),
    ],
)
def test_recipe_errors_are_one_clear_line(
    body: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(body)
    assert make(path, "-o", tmp_path / "out", "--count", 1) == 2
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_unknown_recipes_list_the_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert make("liens", "-o", tmp_path) == 2
    assert "use one of" in capsys.readouterr().err
    (tmp_path / "folder.yaml").mkdir()
    assert make(tmp_path / "folder.yaml", "-o", tmp_path / "out") == 2
    assert "folder.yaml cannot be read (Is a directory)" in capsys.readouterr().err


def test_a_sample_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a plan has more columns than a page takes, or a source of text cannot be read."""

    def impossible(rng: object, options: object) -> dict[str, object]:
        raise RuntimeError("no usable page in 40 tries: {'text outside\nits cell': 40}")

    kind = build.Kind(impossible, build.KINDS["lines"].options, shards.LINE_SCHEMA, lambda options: {})
    monkeypatch.setitem(build.KINDS, "lines", kind)
    monkeypatch.setattr(build, "typst_ran", lambda: False)  # workers must see this kind
    for workers in (1, 2):
        out = tmp_path / str(workers)
        assert make("tiny", "-o", out, "--count", 20, "--seed", 3, "--workers", workers) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.endswith("of seed 3 cannot be made: no usable page in 40 tries: {'text outside its cell': 40}")
        assert [path.name for path in out.iterdir()] == ["recipe.json"]


def test_a_source_of_text_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(name: str) -> text.Corpus:
        raise PermissionError(errno.EACCES, "Permission denied", "/usr/share/doc/faq.html")

    monkeypatch.setattr(text, "load_corpus", unreadable)
    assert make("tiny", "-o", tmp_path / "out", "--count", 1) == 1
    err = capsys.readouterr().err
    assert "/usr/share/doc/faq.html" in err and len(err.splitlines()) == 1 and not (tmp_path / "out").exists()


def test_missing_fonts_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "script.yaml"
    recipe.write_text("kind: lines\noptions: {corpus: builtin, kinds: {script: 1, blackletter: 1}}")
    bundled = (fonts._bundled_face(),)
    monkeypatch.setattr(fonts, "find_faces", lambda limit=0: bundled)
    assert make(recipe, "-o", tmp_path / "out", "--count", 1) == 2
    assert "no face on this machine for lines of kind blackletter, script: install some" in capsys.readouterr().err
    monkeypatch.setattr(render, "families", dict)
    recipe.write_text("kind: pages\noptions: {corpus: builtin}")
    assert make(recipe, "-o", tmp_path / "out", "--count", 1) == 2
    assert "no font family with accents" in capsys.readouterr().err and not (tmp_path / "out").exists()


# Folders


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")
    assert make("tiny", "-o", tmp_path, "--count", 1) == 2
    assert "holds README.md but no recipe.json: give -o a new or an empty folder" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("README.md", "mine")]


def test_a_file_in_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        for extra in ((), ("--preview", 1)):
            assert make("tiny", "-o", place, "--count", 1, *extra) == 2
            assert "is a file or lies below one: give -o a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert make("tiny", "-o", "/proc/nothing", "--count", 1) == 1
    err = capsys.readouterr().err
    assert "/proc/nothing was not written" in err and len(err.splitlines()) == 1


def test_another_data_set_is_refused_with_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make("tiny", "-o", tmp_path, "--count", 2, "--workers", 1) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for extra, what in (
        (("--seed", 9), "another seed (seed 0 there, 9 here)"),
        (("--count", 3), "another count (count 2 there, 3 here)"),
        (("--format", "webdataset"), "another format (format parquet there, webdataset here)"),
    ):
        capsys.readouterr()
        assert make("tiny", "-o", tmp_path, "--count", 2, "--workers", 1, *extra) == 2
        assert what in capsys.readouterr().err
    assert make("tiny", "-o", tmp_path, "--preview", 1) == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "recipe.json").write_text("{}")
    assert make("tiny", "-o", tmp_path, "--count", 2) == 2
    assert "recipe.json is damaged" in capsys.readouterr().err


def test_a_disk_that_fills_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def fsync(descriptor: int) -> None:
        nonlocal written
        written += 1
        if written > 2:  # the recipe and one shard fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(shards.os, "fsync", fsync)
        assert make("tiny", "-o", tmp_path, "--count", 20, "--workers", 1) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == (
        f"error: {tmp_path / 'part-00001.parquet'} was not written: the disk is full; free some space and run the same "
        "command again: it goes on"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part-00000.parquet", "recipe.json"]
    assert make("tiny", "-o", tmp_path, "--count", 20, "--workers", 1) == 0
    assert [row["index"] for row in shards.read_rows(tmp_path, ["index"])] == list(range(20))


def test_a_limit_on_files_in_the_workers(tmp_path: Path) -> None:
    """The operating system itself refuses the write, in a worker process."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [sys.executable, "-m", "data_pipeline.build", "tiny", "-o", str(tmp_path / "out"), "--count", "16"]
    done = subprocess.run(
        [*command, "--workers", "2"], cwd=ROOT, capture_output=True, text=True, preexec_fn=limited, timeout=240
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith("was not written (File too large)")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["recipe.json"]


def test_a_preview_that_cannot_be_written_leaves_nothing_half(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shards.os, "replace", full)
    monkeypatch.setattr(overlay, "draw", lambda row: b"picture")
    assert make("tiny", "-o", tmp_path / "out", "--preview", 2) == 1
    assert "the disk is full" in capsys.readouterr().err and not list((tmp_path / "out").iterdir())
