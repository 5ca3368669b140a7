"""What inputs name: lists, patterns, folders with links in circles, and what cannot be looked into."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from apps import cli, inputs


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("in/a/x.pdf", "in/a/y.PNG", "in/b/x.pdf", "in/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"%PDF-")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "in"


def names(*words: str, skip: str | None = None) -> list[str]:
    return [name for _, name in inputs.find(words, Path(skip) if skip else None).documents]


def test_files_have_their_own_name_and_folders_are_mirrored(tree: Path) -> None:
    assert names("in/a/x.pdf", "in") == ["x", "a/y", "b/x"]
    assert names("in", "in/a") == ["a/x", "a/y", "b/x"]
    assert names("in/notes.txt") == ["notes"]  # what is named itself may be called anything


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("in/**/*.pdf", ["a/x", "b/x"]),
        ("in/*/x.*", ["a/x", "b/x"]),
        ("in/[a]/*", ["a/x", "a/y"]),
        ("i*", ["in/a/x", "in/a/y", "in/b/x"]),
    ],
)
def test_patterns_in_quotes(pattern: str, expected: list[str], tree: Path) -> None:
    assert names(pattern) == expected


def test_a_file_that_looks_like_a_pattern_is_itself(tree: Path) -> None:
    (tree / "x[1].pdf").write_bytes(b"%PDF-")
    assert names("in/x[1].pdf") == ["x[1]"]
    with pytest.raises(ValueError, match="nothing matches 'in/z\\*.pdf'"):
        names("in/z*.pdf")


def test_lists(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"in/a/x.pdf\r\n\n  in/b\nin/\xff.pdf\n"
    Path("list.txt").write_bytes(lines)
    assert names("@list.txt") == ["x", "x", "\udcff"]
    assert inputs.find(["@list.txt"]).documents[-1][0] == Path(os.fsdecode(b"in/\xff.pdf"))
    for data in (b"in/a/x.pdf\0in/b\0in/\xff.pdf", lines):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert names("-") == ["x", "x", "\udcff"]
    with pytest.raises(ValueError, match="the list none.txt cannot be read \\(No such file"):
        names("@none.txt")
    Path("list.txt").write_text("\n")
    with pytest.raises(ValueError, match="the list of inputs is empty"):
        names("@list.txt")


def test_links_in_circles_and_to_elsewhere(tree: Path, tmp_path: Path) -> None:
    (tree / "a" / "up").symlink_to(tree)
    (tree / "self").symlink_to(tree / "self")
    (tree / "twin").symlink_to(tree / "b")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "z.pdf").write_bytes(b"%PDF-")
    (tmp_path / "far" / "back").symlink_to(tree)
    (tree / "away").symlink_to(tmp_path / "far")
    found = inputs.find(["in"])
    assert [name for _, name in found.documents] == ["a/x", "a/y", "away/z", "b/x"] and not found.problems
    assert found.notes == ["in/a/up is a link to a folder above it: not followed"]


def test_a_folder_that_cannot_be_read_is_a_failure_and_not_silence(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root may read everything, so the system's refusal is played."""
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = inputs.find(["in"])
    assert [name for _, name in found.documents] == ["a/x", "a/y"]
    assert [problem.code for problem in found.problems] == ["unreadable-folder"]
    assert cli.main(["parse", "in", "--layout", "rules", "-o", "out", "-q"]) == 1  # and the two others are no PDFs
    assert "failed: in/b cannot be searched (Permission denied)" in capsys.readouterr().err.splitlines()
    assert "unreadable-folder" in Path("out/failures.jsonl").read_text()


def test_the_output_folder_is_no_input(tree: Path) -> None:
    for name in ("in/out/old.pdf", "in/out/x.images/p1-f1.png", "in/out/x.images/p1-f1.jpg"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"%PDF-")
    found = inputs.find(["in"], Path("in/out"))
    assert [name for _, name in found.documents] == ["a/x", "a/y", "b/x"]
    assert found.notes == ["in/out is the output folder: what lies in it is no input"]
    # Named itself it is one, but for figures that were cut out into it.
    assert names("in/out", skip="in/out") == ["old", "x.images/p1-f1"]
    assert names("in/out") == ["old", "x.images/p1-f1", "x.images/p1-f1"]


def test_nothing_to_read(tree: Path) -> None:
    Path("empty").mkdir()
    with pytest.raises(ValueError, match="empty holds no document"):
        names("empty")
    assert [problem.code for problem in inputs.find(["empty", "in"]).problems] == ["empty"]


def test_comments_of_a_list_are_no_paths(tree: Path) -> None:
    (tree / "#1.pdf").touch()
    (tree / "list.txt").write_text(f"# two papers\n{tree / 'a.pdf'}\n#b.pdf\n{tree / '#1.pdf'}\n")
    found = inputs.find([f"@{tree / 'list.txt'}"])
    assert [path.name for path, _ in found.documents] == ["a.pdf", "#1.pdf"] and not found.problems


def test_a_document_is_no_list(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n")))
    with pytest.raises(ValueError, match="a document was given where a list of paths is read"):
        names("-")
