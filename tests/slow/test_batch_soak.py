"""A batch that is killed again and again, its workers too, comes out as one that nobody touched.

``DOCVISION_SOAK_DOCUMENTS`` and ``DOCVISION_SOAK_SOURCE`` (a folder of PDFs) make it larger: with 300 documents of real
PDFs this is the soak of docs/batch.md.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf

from apps import manifest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = int(os.environ.get("DOCVISION_SOAK_DOCUMENTS", "60"))
SOURCE = os.environ.get("DOCVISION_SOAK_SOURCE", "")
KILLS, WORKER_KILLS = 5, 10
BROKEN_SHARE = 40 / 300
SEED = 20
"""Of what is broken and what is killed when; any other would do."""
pytestmark = pytest.mark.slow


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Documents in folders, many of one name, some of them broken in different ways."""
    folder = tmp_path / "in"
    found = sorted(Path(SOURCE).rglob("*.pdf")) if SOURCE else made(tmp_path / "made")
    broken = round(DOCUMENTS * BROKEN_SHARE)
    for number in range(DOCUMENTS):
        source = found[number % len(found)]
        target = folder / f"batch-{number % 7}" / f"{source.stem}-{number // len(found)}.pdf"
        target.parent.mkdir(parents=True, exist_ok=True)
        if number < broken:
            target.with_name(f"broken-{number}.pdf").write_bytes(damaged(source.read_bytes(), number))
        else:
            shutil.copyfile(source, target)
    return folder


def made(folder: Path) -> list[Path]:
    folder.mkdir()
    lines = [f"Line {line} says that the gauge at the bridge stood at {line * 7} cm." for line in range(40)]
    return [
        write_pdf(folder / f"report-{count}.pdf", [MadePage([f"Day {page}.", *lines]) for page in range(count)])
        for count in (1, 2, 3, 5, 8, 13)
    ]


def damaged(data: bytes, number: int) -> bytes:
    """No byte, a cut, noise, or no PDF at all."""
    noise = random.Random(number).randbytes(400)
    return (b"", data[: len(data) // 9], noise, b"%PDF-1.7\n" + noise, b"Dear Sir or Madam,")[number % 5]


def start(inputs: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "apps.start", "parse", inputs, "-o", out, "-f", "md,jsonl", "--layout", "rules"]
    command += ["--workers", 2, "--timeout", 120]
    return subprocess.Popen(
        [str(word) for word in command], cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True
    )


def finished(out: Path) -> list[str]:
    """Names in the journal, a line each."""
    try:
        lines = (out / manifest.PLACE / manifest.JOURNAL).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line)["name"] for line in lines if line.endswith(b"}") and line.startswith(b'{"name"')]


def workers_of(out: Path) -> list[int]:
    """Processes forked for this run: they say apps.workers' server's command line and their group is their own."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            mine = str(out) in (place / "environ").read_bytes().decode("utf-8", "replace")
            group = os.getpgid(int(place.name))
        except (OSError, ProcessLookupError):
            continue
        if mine and group == int(place.name) and b"forkserver" in (place / "cmdline").read_bytes():
            found.append(int(place.name))
    return found


def outputs(out: Path) -> dict[str, bytes]:
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and manifest.PLACE not in path.parts and path.name != manifest.FAILURES
    }


def failures(out: Path) -> list[str]:
    return sorted((out / manifest.FAILURES).read_text("utf-8").splitlines())


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="workers are looked for in /proc")
def test_kills_lose_nothing_and_double_nothing(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    monkeypatch.setenv("SOAK_FOLDER", str(cut))  # by which workers are known
    chance = random.Random(SEED)
    moments = sorted(chance.sample(range(1, DOCUMENTS - 5), KILLS))
    worker_kills = set(chance.sample(range(1, moments[-1]), WORKER_KILLS))
    killed_workers = 0
    for kill, moment in enumerate(moments):
        process = start(inputs, cut)
        deadline = time.monotonic() + 1800
        while (done := len(finished(cut))) < moment:
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()[1]
            time.sleep(chance.uniform(0.02, 0.2))
            due = {number for number in worker_kills if number <= done}
            if due and (pids := workers_of(cut)):
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed_workers += 1
                worker_kills -= due
        before = finished(cut)
        if kill % 2:
            process.kill()  # the master alone: its workers must end by themselves
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert set(before) <= set(finished(cut))
    process = start(inputs, cut)
    _, told = process.communicate(timeout=3000)
    assert process.returncode == 3, told
    summary = told.splitlines()[-1]
    print(summary, f"({killed_workers} workers killed)")
    names = finished(cut)
    assert killed_workers, "no worker was met"
    assert len(names) == len(set(names)) == DOCUMENTS
    monkeypatch.delenv("SOAK_FOLDER")
    process = start(inputs, whole)
    _, told = process.communicate(timeout=3000)
    print(told.splitlines()[-1])
    assert process.returncode == 3, told
    assert outputs(cut) == outputs(whole) and len(failures(cut)) >= round(DOCUMENTS * BROKEN_SHARE)
    assert failures(cut) == failures(whole)
    assert not list(cut.rglob("*.tmp")) and not list((cut / manifest.PLACE / "partial").glob("*"))
