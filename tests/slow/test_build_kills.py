"""A build killed again and again: three times kill -9, workers included, and then the same bytes as without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_pipeline import shards

ROOT = Path(__file__).resolve().parents[2]
RECIPES = {
    "lines": "kind: lines\nrows: 4\noptions: {corpus: builtin, faces: 24}\n",
    "pages": "kind: pages\nrows: 2\noptions: {corpus: builtin}\n",
}
pytestmark = pytest.mark.slow


def command(recipe: Path, out: Path, count: int, form: str) -> list[str]:
    words = [
        sys.executable,
        "-m",
        "apps.start",
        "make",
        recipe,
        "-o",
        out,
        "--count",
        count,
        "--seed",
        5,
        "--workers",
        2,
    ]
    return [*map(str, words), "--format", form]


def start(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    """Until so many shards are there."""
    deadline = time.monotonic() + 600
    while len(list(folder.glob("part-*"))) < count:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("kind", "count", "form"), [("lines", 60, "parquet"), ("lines", 60, "webdataset"), ("pages", 20, "parquet")]
)
def test_three_kills_change_no_byte(kind: str, count: int, form: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPES[kind])
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    for kill in range(3):
        process = start(command(recipe, cut, count, form))
        wait_for(process, cut, 2 + 2 * kill)
        if kill == 1:
            process.kill()  # the parent alone: its workers must follow by themselves and not finish later
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not (cut / shards.MARKER).exists()
    assert subprocess.run(command(recipe, cut, count, form), cwd=ROOT, timeout=600).returncode == 0
    assert subprocess.run(command(recipe, whole, count, form), cwd=ROOT, timeout=600).returncode == 0
    assert {p.name: p.read_bytes() for p in cut.iterdir()} == {p.name: p.read_bytes() for p in whole.iterdir()}
    assert [row["index"] for row in shards.read_rows(cut)] == list(range(count))


def test_workers_of_a_process_that_has_typeset(tmp_path: Path) -> None:
    """Typst's threads do not survive a fork: workers forked then would wait for them for ever."""
    from data_pipeline import build

    recipe = build.Recipe("tables", 1, {"corpus": "builtin"})
    rows = build.make_rows(recipe, 0, range(2))
    build.build(recipe, tmp_path, 2, seed=0, workers=2)
    assert [row["html"] for row in shards.read_rows(tmp_path, ["html"])] == [row["html"] for row in rows]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_workers_and_sweeps_up(number: signal.Signals, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPES["lines"])
    process = start(command(recipe, tmp_path / "out", 4000, "parquet"))
    wait_for(process, tmp_path / "out", 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.splitlines()[-1] == "docvision: interrupted" and "Traceback" not in err
    with pytest.raises(ProcessLookupError):  # nobody of its group is left
        os.killpg(process.pid, 0)
    assert not list((tmp_path / "out").glob(".*")) and not (tmp_path / "out" / shards.MARKER).exists()
