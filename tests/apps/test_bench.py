"""Benchmarks: what is written for the scorer, and what is printed about speed."""

import json
from pathlib import Path

import pytest

from apps import bench, cli

PDF = "two-columns.pdf"


def write_manifest(folder: Path, examples: Path) -> Path:
    rows = [
        {"id": "good", "kind": "pdf_text", "file": str(examples / PDF)},
        {"id": "broken", "kind": "robust", "file": "broken.pdf"},
        {"id": "other", "kind": "line", "file": "never-opened.png"},
    ]
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing else")
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return manifest


def test_predictions_and_status_files_are_written_for_good_and_broken_inputs(tmp_path: Path, examples: Path) -> None:
    failures = bench.predict(write_manifest(tmp_path, examples), tmp_path / "out", ["rules"], ["pdf_text", "robust"])
    assert failures == {"rules": 1}
    out = tmp_path / "out/rules"
    assert sorted(path.name for path in out.iterdir()) == ["broken.md", "broken.status", "good.md", "good.status"]
    assert len((out / "good.md").read_text()) > 500 and (out / "broken.md").read_text() == ""
    code, seconds, pages = (out / "good.status").read_text().split()
    assert code == "0" and float(seconds) > 0 and int(pages) >= 1
    assert (out / "broken.status").read_text().split()[0] == "1"


def test_speed_counts_the_same_pages_for_every_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, examples: Path
) -> None:
    """An engine that counts its pages otherwise, or skips some, must not look faster for it."""
    calls = []

    def slow(request: bench.Request) -> bench.Output:
        calls.append("slow")
        return bench.Output("x", 10)

    def fast(request: bench.Request) -> bench.Output:
        calls.append("fast")
        return bench.Output("x", 1)

    monkeypatch.setitem(bench.ENGINES, "slow", slow)
    monkeypatch.setitem(bench.ENGINES, "fast", fast)
    rows = bench.speed([examples / PDF], ["slow", "fast"], rounds=2)
    assert calls == ["slow", "fast"] * 3
    assert [row["pages"] for row in rows] == [10, 10] and rows[0]["ratio"] == 1.0


def test_speed_says_what_an_engine_could_not_read(monkeypatch: pytest.MonkeyPatch, examples: Path) -> None:
    """Giving up takes no time, so the speed of an engine that fails must stand beside its failures."""

    def broken(request: bench.Request) -> bench.Output:
        raise RuntimeError("no")

    monkeypatch.setitem(bench.ENGINES, "broken", broken)
    assert bench.speed([examples / PDF] * 3, ["broken"], rounds=1)[0]["unread"] == 3


def test_an_unknown_kind_is_told_instead_of_scoring_nothing(tmp_path: Path, examples: Path) -> None:
    with pytest.raises(ValueError, match="no kind 'lines': use some of line, pdf_text, robust"):
        bench.predict(write_manifest(tmp_path, examples), tmp_path / "out", ["rules"], ["lines"])


def test_a_missing_peer_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch, examples: Path) -> None:
    monkeypatch.setattr(bench.shutil, "which", lambda name: None)
    with pytest.raises(bench.EngineMissing, match="apt-get install poppler-utils"):
        bench.speed([examples / PDF], ["pdftotext"])
    with pytest.raises(bench.EngineMissing, match="pip install nothing_of_this_name"):
        bench.installed("nothing_of_this_name")


def test_command_line_predicts_and_prints_what_was_not_read(
    tmp_path: Path, examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = write_manifest(tmp_path, examples)
    code = cli.main(
        ["bench", "predict", str(manifest), "-o", str(tmp_path), "--engine", "rules", "--kinds", "pdf_text,robust"]
    )
    assert code == 0
    assert capsys.readouterr().out == "engine  unread\nrules        1\n"
    assert (tmp_path / "rules/good.status").is_file() and not (tmp_path / "rules/other.status").exists()


def test_command_line_prints_speeds_side_by_side(
    monkeypatch: pytest.MonkeyPatch, examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(bench.ENGINES, "pdfplumber", lambda request: bench.Output("x", 1))
    engines = ["--engine", "rules", "--engine", "pdfplumber"]
    assert cli.main(["bench", "speed", str(examples / PDF), *engines, "--rounds", "1"]) == 0
    header, first, second = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header == ["engine", "pages", "unread", "pages_per_s", "ratio"]
    assert first[0] == "rules" and float(first[3]) > 0 and first[4] == "1.0"
    assert second[0] == "pdfplumber" and second[1] == first[1]


def test_command_line_says_in_one_line_what_is_missing_or_unknown(
    monkeypatch: pytest.MonkeyPatch, examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.shutil, "which", lambda name: None)
    speed = ["bench", "speed", str(examples / PDF), "--engine"]
    assert cli.main([*speed, "pdftotext"]) == 1
    out, error = capsys.readouterr()
    assert out == "" and error == "docvision: engine pdftotext is not installed: apt-get install poppler-utils\n"
    assert cli.main([*speed, "pdftotxt"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Did you mean 'pdftotext'?" in error
