"""Documents and data sets on a small Ray cluster of this machine: the same bytes, whoever is killed meanwhile.

What a cluster writes in peace stands in tests/apps/test_ray.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf
from ray_checks import ROOT, content, journal, read, run, write_documents

from apps import ray_engine
from data_pipeline import scale

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_network() -> None:
    """In place of the guard of all tests: Ray asks the system for this machine's address by way of a public one."""


# Documents


def test_a_worker_killed_in_the_middle_costs_nothing(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(12):
        write_pdf(many / f"{number}.pdf", [MadePage([f"Number {number}.", "More."])])
    pids: list[int] = []
    check = ray_engine._check
    monkeypatch.setattr(
        ray_engine,
        "_check",
        lambda here, there, settings: (pids.append(int(there["pid"])), check(here, there, settings)),
    )
    killed: list[int] = []

    def kill_one() -> None:
        if not killed and pids:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    assert read(cluster, many, tmp_path / "out", kill_one) == 0
    assert killed and len(set(pids)) > 1 and not (tmp_path / "out" / "failures.jsonl").exists()
    assert [(tmp_path / "out" / f"{n}.md").read_text() for n in range(12)] == [
        f"Number {n}.\n\nMore.\n" for n in range(12)
    ]


def test_a_document_that_workers_die_over_is_read_three_times_and_listed(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "HOST", "odd_hosts:Dying")
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("good", "poison", "well"):
        write_pdf(folder / f"{name}.pdf", [MadePage([f"All is {name}.", "More."])])
    assert read(cluster, folder, tmp_path / "out", workers=1) == 3
    assert (folder / "poison.times").read_text() == "..."
    (line,) = map(json.loads, (tmp_path / "out" / "failures.jsonl").read_text().splitlines())
    assert (Path(line["input"]).name, line["code"], line["page"]) == ("poison.pdf", "crash", None)
    assert line["message"] == "the worker died, or its machine is gone" and line["retryable"]
    assert sorted(path.name for path in (tmp_path / "out").glob("*.md")) == ["good.md", "well.md"]


def test_a_driver_that_was_killed_goes_on(cluster: str, tmp_path: Path) -> None:
    many, out = tmp_path / "many", tmp_path / "out"
    for number in range(30):
        write_documents(many / str(number))
    words = ["parse", many, "-o", out, "--ray", cluster, "--layout", "rules", "-q"]
    with subprocess.Popen([sys.executable, "-m", "apps.start", *map(str, words)], cwd=ROOT) as process:
        deadline = time.monotonic() + 300
        while not (out / ".docvision" / "journal.jsonl").exists() or len(journal(out)) < 3:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    before = journal(out)
    assert 3 <= len(before) < 120
    stamps = {name: (out / f"{name}.md").stat().st_mtime_ns for name in before}
    assert run(*words) == 0
    assert {name: (out / f"{name}.md").stat().st_mtime_ns for name in before} == stamps
    assert run("parse", many, "-o", tmp_path / "one", "--layout", "rules", "-q") == 0
    assert content(out) == content(tmp_path / "one")


# Data sets


def test_shards_are_those_of_one_machine_and_only_missing_ones_are_made(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("make", "tiny", "--count", 28, "--seed", 3)
    assert run(*words, "-o", tmp_path / "one") == 0
    (tmp_path / "ray").mkdir()
    for name in ("recipe.json", "part-00001.parquet"):
        shutil.copy(tmp_path / "one" / name, tmp_path / "ray")
    capsys.readouterr()
    assert run(*words, "-o", tmp_path / "ray", "--ray", cluster, "--workers", 2) == 0
    out, err = capsys.readouterr()
    assert "in 4 shards, 3 to make, seed 3, on a Ray cluster" in err and "20 of 20 (100 %)" in err and out == ""
    assert content(tmp_path / "one") == content(tmp_path / "ray")


def test_bench_ray_reads_the_same_pages_by_turns(
    cluster: str, examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("bench", "ray", examples / "two-columns.pdf", "--pages", 3, "--rounds", 1, "--workers", 1)
    assert run(*words, "--ray", cluster) == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert [(row["engine"], row["pages"]) for row in found] == [("local", "3"), ("ray", "3")]
    assert float(found[0]["ratio"]) == 1.0 and float(found[1]["ratio"]) > 0 and float(found[1]["driver_ms"]) > 0


# What is wrong stops the run


def test_workers_that_would_write_something_else_stop_the_run(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_documents(tmp_path / "in")
    for host, told in (
        ("odd_hosts:Elsewhere", r"the worker on far does not see .*first: give -o a folder on a disk that all"),
        ("docvisiom:Host", r"cannot run docvision \(No module named 'docvisiom'\): pip install docvision=="),
    ):
        monkeypatch.setattr(ray_engine, "HOST", host)
        with pytest.raises(scale.ClusterError, match=told):
            read(cluster, tmp_path / "in", tmp_path / ("first" if "Elsewhere" in host else "second"), workers=1)
