"""Shards and builds: same bytes for any number of workers, whole after a kill, clear errors."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data_pipeline import build, shards

COUNT = 20


@pytest.fixture(scope="module")
def recipe() -> build.Recipe:
    return build.load_recipe("tiny")


@pytest.fixture(scope="module")
def finished(recipe: build.Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    build.build(recipe, folder, COUNT, seed=1, workers=1)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_workers_do_not_change_the_bytes(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    build.build(recipe, tmp_path, COUNT, seed=1, workers=2)
    assert contents(tmp_path) == contents(finished)


def test_rows_are_complete_and_in_order(finished: Path) -> None:
    rows = list(shards.read_rows(finished))
    assert [row["index"] for row in rows] == list(range(COUNT))
    assert pq.read_schema(shards.shard_path(finished, 0)).equals(shards.LINE_SCHEMA)
    marker = json.loads((finished / shards.MARKER).read_text())
    assert marker["count"] == COUNT and [entry["rows"] for entry in marker["files"]] == [8, 8, 4]
    assert marker["recipe"]["seed"] == 1 and set(marker["recipe"]["sources"]) == {"fonts", "corpus"}


def test_a_sample_depends_on_seed_and_index_only(recipe: build.Recipe, finished: Path) -> None:
    rows = list(shards.read_rows(finished))
    (alone,) = build.make_rows(recipe, 1, range(13, 14))
    assert alone["image"] == rows[13]["image"] and alone["text"] == rows[13]["text"]
    (other,) = build.make_rows(recipe, 2, range(13, 14))
    assert other["image"] != rows[13]["image"]


def test_resume_makes_only_what_is_missing(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    for name in ("recipe.json", "part-00000.parquet", "part-00002.parquet"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    (tmp_path / ".part-00001.parquet.99.tmp").write_bytes(b"half a shard")
    stamp = (tmp_path / "part-00000.parquet").stat().st_mtime_ns
    build.build(recipe, tmp_path, COUNT, seed=1, workers=1)
    assert contents(tmp_path) == contents(finished)
    assert (tmp_path / "part-00000.parquet").stat().st_mtime_ns == stamp


def test_kill_and_resume(tmp_path: Path) -> None:
    """kill -9 in the middle of a build, then the same command: every row once, and the marker only at the end."""
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "data_pipeline.build", "tiny", "-o", str(folder), "--count", "80"]
    command += ["--seed", "4", "--workers", "2"]
    root = Path(build.__file__).parent.parent
    process = subprocess.Popen(command, cwd=root, start_new_session=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not list(folder.glob("part-*.parquet")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = len(list(folder.glob("part-*.parquet")))
    assert before >= 1
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert f"{10 - before} to make" in done.stdout
    assert [row["index"] for row in shards.read_rows(folder, ["index"])] == list(range(80))
    assert json.loads((folder / shards.MARKER).read_text())["count"] == 80
    assert not list(folder.glob(".*.tmp"))


def test_another_recipe_is_refused(recipe: build.Recipe, finished: Path) -> None:
    with pytest.raises(shards.ShardError, match="another seed: give -o a new folder"):
        build.build(recipe, finished, COUNT, seed=9)


def test_a_short_shard_is_not_finished(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    for path in finished.glob("*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "part-00002.parquet").write_bytes((finished / "part-00001.parquet").read_bytes())
    with pytest.raises(shards.ShardError, match="holds 8 rows instead of 4"):
        shards.finish(tmp_path)
    (tmp_path / "part-00002.parquet").unlink()
    with pytest.raises(shards.ShardError, match="part-00002.parquet is missing"):
        shards.finish(tmp_path)


def test_preview_writes_pictures_and_truth(recipe: build.Recipe, tmp_path: Path) -> None:
    assert build.main(["tiny", "-o", str(tmp_path), "--preview", "3", "--seed", "1"]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["000000.png", "000001.png", "000002.png"]
    assert len((tmp_path / "truth.tsv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("kind: lines\noptions: {clean: 0.5, kindz: {}}", "unknown key 'kindz' in options: did you mean kinds?"),
        ("kind: posters", "unknown kind 'posters'"),
        ("kind: lines\nrows: 0", "rows is 0"),
    ],
)
def test_recipe_errors_are_clear(body: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(body)
    assert build.main([str(path), "-o", str(tmp_path / "out"), "--count", "1"]) == 2
    assert message in capsys.readouterr().err


def test_unknown_recipe_lists_the_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert build.main(["liens", "-o", str(tmp_path)]) == 2
    assert "lines" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(build.RECIPES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_loads(path: Path) -> None:
    assert build.load_recipe(str(path)).sample_options()
