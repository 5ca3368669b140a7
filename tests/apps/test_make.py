"""``docvision make`` and ``bench data``: exit codes, progress, previews, inspection."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apps import bench_data, cli
from data_pipeline import build, progress, shards

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    assert run("make", "tiny", "-o", folder, "--count", 12, "--seed", 3) == 0
    return folder


def test_make_reports_and_goes_on(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("recipe.json", "part-00001.parquet"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    assert run("make", "tiny", "-o", tmp_path, "--count", 12, "--seed", 3) == 0
    out, err = capsys.readouterr()
    first, *_, progressed, last = err.splitlines()
    assert first.startswith("lines: 12 samples in 2 shards, 1 to make, seed 3, 1 worker; fonts ")
    assert progressed.startswith("8 of 8 (100 %), ") and progressed.endswith(" in all") and out == ""
    assert last.startswith(f"{tmp_path}: 12 samples, 0.1 MB, 0 drawn and not kept")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {p.name: p.read_bytes() for p in finished.iterdir()}


def test_webdataset_on_request(finished: Path, tmp_path: Path) -> None:
    assert run("make", "tiny", "-o", tmp_path, "--count", 12, "--seed", 3, "--format", "webdataset") == 0
    assert sorted(path.suffix for path in tmp_path.glob("part-*")) == [".tar", ".tar"]
    assert list(shards.read_rows(tmp_path)) == list(shards.read_rows(finished))


def test_inspect(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make", "--inspect", finished) == 0
    out = capsys.readouterr().out
    assert "12 of 12 samples" in out and ": complete" in out and "difficulty" in out
    for path in finished.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "part-00000.parquet").write_bytes(b"PAR1")
    assert run("make", "--inspect", tmp_path) == 3
    assert "damaged: part-00000.parquet: it cannot be read" in capsys.readouterr().out
    assert run("make", "--inspect", tmp_path / "nowhere") == 2
    assert "holds no data set" in capsys.readouterr().err


def test_preview(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make", "tiny", "-o", tmp_path, "--preview", 2) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000.png", "000001.png"]
    assert capsys.readouterr().err == f"{tmp_path}: 2 pictures, 000000.png to 000001.png\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["make"], 2, "Missing argument 'RECIPE'"),
        (["make", "tiny"], 2, "Missing option '--out'"),
        (["make", "tinny", "-o", "{out}"], 2, "no recipe 'tinny'"),
        (["make", "tiny", "-o", "{out}", "--count", "0"], 2, "--count"),
        (["make", "tiny", "-o", "{out}", "--format", "parket"], 2, "Did you mean 'parquet'?"),
        (["make", "tiny", "-o", "{file}"], 2, "is a file or lies below one: give -o a folder"),
        (["make", "tiny", "-o", "{made}", "--count", "12"], 2, "another seed (seed 3 there, 0 here): give -o a new"),
        (["make", "tiny", "-o", "/proc/nothing"], 1, "/proc/nothing was not written"),
        (["make", "tiny", "--inspect", "{made}"], 2, "--inspect DIR stands alone"),
        (["bench", "data", "tinny"], 2, "no recipe 'tinny'"),
    ],
)
def test_failures_are_one_line(
    arguments: list[str], code: int, message: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    names = {"out": tmp_path / "out", "file": tmp_path / "file", "made": finished}
    assert run(*(argument.format(**names) for argument in arguments)) == code
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1 and not (tmp_path / "out").exists()


def test_a_sample_that_cannot_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(rng: object, options: object) -> dict[str, object]:
        raise RuntimeError("no usable table in 40 tries: {'text outside its cell': 40}")

    kind = build.Kind(impossible, build.KINDS["lines"].options, shards.LINE_SCHEMA, lambda options: {})
    monkeypatch.setitem(build.KINDS, "lines", kind)
    assert run("make", "tiny", "-o", tmp_path, "--count", 2) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("docvision: sample 0 of seed 0 cannot be made: no usable table in 40 tries")


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_with_rate_and_time_left() -> None:
    clock = [0.0]
    shown = progress.Progress(Terminal(), lambda: clock[0])
    shown.start(200)
    for seconds, made in ((2.0, 50), (2.01, 51), (8.0, 200)):
        clock[0] = seconds
        shown.update(made)
    shown.close()
    first, last = [part for part in shown.stream.getvalue().split("\r\x1b[K") if part]  # type: ignore[attr-defined]
    assert first == "[######..................] 50 of 200 (25 %), 25/s, 0:06 left"
    assert last == "[########################] 200 of 200 (100 %), 25/s, 0:08 in all\n"


def test_a_log_gets_few_lines_and_no_control_codes() -> None:
    clock = [0.0]
    stream = io.StringIO()
    shown = progress.Progress(stream, lambda: clock[0])
    shown.start(100)
    for second in range(1, 26):
        clock[0] = float(second)
        shown.update(4 * second)
    shown.close()
    assert stream.getvalue().splitlines() == [
        "40 of 100 (40 %), 4/s, 0:15 left", "80 of 100 (80 %), 4/s, 0:05 left", "100 of 100 (100 %), 4/s, 0:25 in all"
    ]  # fmt: skip


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (61, "1:01"), (3_725, "1:02:05")])
def test_spans(seconds: float, text: str) -> None:
    assert progress.span(seconds) == text


# Speed


def test_bench_data_measures_real_builds(capsys: pytest.CaptureFixture[str]) -> None:
    rows = bench_data.speed(bench_data.load(["tiny"]), count=16, workers=2)
    assert [(row["recipe"], row["workers"], row["samples"]) for row in rows] == [("tiny", 1, 16), ("tiny", 2, 16)]
    assert all(row["per_s"] > 0 and row["cpu_ms"] > 0 and row["kb"] > 1 for row in rows)
    assert rows[0]["scaling"] == rows[0]["scaling_cpu"] == 1.0 and rows[0]["kb"] == rows[1]["kb"]
    assert run("bench", "data", "tiny", "--count", 4, "--workers", 1) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["tiny", "1", "4"]


# The program


def test_an_interrupt_while_packages_are_imported() -> None:
    """The packages take a good part of a second; a meta path finder stands in for the user's quick hand."""
    code = (
        "import os, signal, sys\n"
        "class Hand:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        f"            os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "sys.meta_path.insert(0, Hand())\n"
        "from apps import start\n"
        "sys.exit(start.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "docvision: interrupted\n")


def test_the_program_hands_over_to_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "apps.start", "schema"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "properties" in json.loads(done.stdout)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["schema"], ["--version"], ["--help"], ["make", "--inspect", "{made}"]])
def test_standard_output_on_a_full_disk(arguments: list[str], finished: Path) -> None:
    words = [word.format(made=finished) for word in arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "apps.cli", *words],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == "docvision: standard output was not written (No space left on device)\n"
