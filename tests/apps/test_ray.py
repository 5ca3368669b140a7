"""Documents and data sets on a small Ray cluster of this machine: the same bytes, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_pdfs import MadePage, write_pdf

from apps import batch, cli, ray_engine
from apps.inputs import find
from apps.outputs import Outputs
from apps.read_task import Settings
from data_pipeline import scale
from docvision.parse import ParseOptions

# Before ray is imported: what is started here asks for a token that nobody else has.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
pytest.importorskip("ray", reason="ray is not installed")
ROOT = Path(__file__).resolve().parents[2]
CLUSTER = """
import ray, sys
ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False,
         logging_level="ERROR", _node_ip_address="127.0.0.1")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
STARTS = 3
"""Ray gives a cluster 30 seconds to start, which a busy machine may miss."""
FORMATS = "md,html,json,csv,txt"


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a cluster with two processors, which ends with the tests, however they end."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"}
    for _ in range(STARTS):
        with subprocess.Popen(
            [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=environment,
        ) as process:  # fmt: skip
            assert process.stdin is not None and process.stdout is not None
            if address := process.stdout.readline().strip():
                yield address
                process.stdin.close()
                process.wait(60)
                return
    pytest.fail("Ray does not start on this machine")


@pytest.fixture(autouse=True)
def no_network() -> None:
    """In place of the guard of all tests: Ray asks the system for this machine's address by way of a public one."""


@pytest.fixture
def inputs(tmp_path: Path, examples: Path) -> Path:
    """Examples, made documents in a folder, one name twice, a broken and an encrypted file."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    for name in ("two-columns.pdf", "scanned-letter.png"):
        shutil.copy(examples / name, folder)
    for number in range(4):
        pages = [
            MadePage([f"Document {number}, page {page}.", "A second line, so that it is no head."]) for page in (1, 2)
        ]
        write_pdf(folder / "deep" / f"made-{number}.pdf", pages)
    write_pdf(folder / "locked.pdf", [MadePage(["Secret."])], password="secret")
    (folder / "broken.pdf").write_text("no PDF")
    return folder


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def parse(*arguments: object) -> int:
    return run("parse", "--layout", "rules", "-q", "-f", FORMATS, *arguments)


def content(folder: Path) -> dict[str, Any]:
    """Path -> bytes of all outputs; of JSON without the seconds that each page took."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith("."):
            found[name] = path.read_bytes()
        if path.suffix == ".json":
            found[name] = json.loads(found[name])
            for page in found[name].get("pages", []):
                page["timings"] = {}
    return found


def journal(folder: Path) -> dict[str, Any]:
    """Name -> what the journal says of each document."""
    text = (folder / ".docvision" / "journal.jsonl").read_text()
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # the last one may be half there
    entries = {line["name"]: line for line in lines if "name" in line}
    for entry in entries.values():
        entry["outcome"]["files"] = sorted(entry["outcome"]["files"])  # the seconds in JSON change its size
    return entries


def read(cluster: str, found: Path, out: Path, on_outcome: Any = lambda: None, workers: int = 2) -> int:
    """Read a folder by the engine itself, with a look in after each outcome."""
    out.mkdir()
    settings = Settings(ParseOptions(layout="rules"), Outputs(("md",), out))

    def engine(*arguments: Any) -> batch.Outcomes:
        for each in ray_engine.RayEngine(workers)(*arguments):
            yield each
            on_outcome()

    with scale.connected(cluster):
        return batch.run(find([str(found)]), settings, batch.How(quiet=True), engine).exit_code


# Documents


def test_outputs_and_records_are_those_of_one_machine(cluster: str, inputs: Path, tmp_path: Path) -> None:
    assert parse(inputs, "-o", tmp_path / "one", "--workers", 2) == 3
    assert parse(inputs, "-o", tmp_path / "ray", "--ray", cluster, "--workers", 2) == 3
    one, ray = content(tmp_path / "one"), content(tmp_path / "ray")
    assert one == ray and {"two-columns.md", "deep/made-3.csv", "failures.jsonl"} - one.keys() == {"deep/made-3.csv"}
    assert journal(tmp_path / "one") == journal(tmp_path / "ray")
    assert sorted(path.name for path in (tmp_path / "ray" / ".docvision").iterdir()) == ["journal.jsonl", "lock"]


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


def test_a_driver_that_was_killed_goes_on(cluster: str, inputs: Path, tmp_path: Path) -> None:
    many, out = tmp_path / "many", tmp_path / "out"
    for number in range(30):
        shutil.copytree(inputs / "deep", many / str(number))
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


# What is wrong is told in one line


@pytest.mark.parametrize(
    ("address", "code", "told"),
    [
        ("nonsense", 2, "'nonsense' is no address of a Ray cluster: use auto, or HOST:PORT such as"),
        ("ray://head:10001", 2, "is the address of a Ray client: run docvision on a machine of the cluster with"),
        ("127.0.0.1:1", 1, "nothing answers at 127.0.0.1:1: check the address, or start a cluster with 'ray start"),
        ("127.0.0.1:99999", 2, "is no address of a Ray cluster"),
    ],
)
def test_bad_addresses(
    address: str, code: int, told: str, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse(inputs, "-o", tmp_path / "out", "--ray", address) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert run("make", "tiny", "-o", tmp_path / "set", "--count", 8, "--ray", address) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line and not list(tmp_path.glob("set/part-*"))


def test_data_sets_are_made_in_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make", "tiny", "-o", "s3://bucket/set", "--count", 8) == 2
    assert "is an address: data sets are made in a folder" in capsys.readouterr().err


def test_ray_is_for_outputs_in_a_folder(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("parse", inputs / "two-columns.pdf", "--ray", "auto") == 2
    assert "--ray is for outputs in a folder: name one with -o" in capsys.readouterr().err


def test_without_ray_the_line_to_install_it_is_told(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert parse(inputs, "-o", tmp_path / "out", "--ray", "auto") == 1
    assert run("make", "tiny", "-o", tmp_path / "set", "--count", 8, "--ray", "auto") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.endswith("run: pip install 'docvision[ray]'") for line in lines)


def test_workers_that_would_write_something_else_stop_the_run(
    cluster: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host, told in (
        ("odd_hosts:Elsewhere", r"the worker on far does not see .*first: give -o a folder on a disk that all"),
        ("docvisiom:Host", r"cannot run docvision \(No module named 'docvisiom'\): pip install docvision=="),
    ):
        monkeypatch.setattr(ray_engine, "HOST", host)
        with pytest.raises(scale.ClusterError, match=told):
            read(cluster, inputs, tmp_path / ("first" if "Elsewhere" in host else "second"), workers=1)
    settings = Settings(ParseOptions(), Outputs(("md",), tmp_path))
    here = {"version": "2", "weights": "a", "token": "t"}
    for there, told in (
        (here | {"version": "1"}, "has docvision 1, this machine has 2"),
        (here | {"weights": "b"}, "is another one"),
    ):
        with pytest.raises(scale.ClusterError, match=told):
            ray_engine._check(here, there | {"node": "far"}, settings)
