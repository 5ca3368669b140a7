"""Workers that crash, hang, take too much or cannot start; the documents beside them come out all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import odd_readers
import pytest
from made_pdfs import MadePage, write_pdf

from apps import workers
from apps.jobs import Outcome, Task, WorkList
from apps.outputs import Outputs
from apps.read_task import Settings
from apps.workers import Limits, Workers, WorkersUnavailable
from docvision.page import Document
from docvision.parse import ParseOptions

ROOT = Path(__file__).resolve().parents[2]
SHORT_S = 3.0
"""A limit that a page with a line of text keeps on a busy machine, as the rest of a test's time hangs on it."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "out" / "partial").mkdir(parents=True)
    outputs = Outputs(("json",), tmp_path / "out", scratch=tmp_path / "out" / "partial")
    return Settings(ParseOptions(layout="rules"), outputs)


def read(settings: Settings, tmp_path: Path, names: list[str], limits: Limits, count: int = 1) -> dict[str, Outcome]:
    """Outcomes of documents of three pages with these names, each once."""
    pages = [MadePage([f"Page {number}."]) for number in (1, 2, 3)]
    tasks = [Task(str(write_pdf(tmp_path / f"{name}.pdf", pages)), name) for name in names]
    outcomes = list(Workers(count, settings, limits, reader=odd_readers.OddReader).run(WorkList(tasks)))
    assert sorted(task.name for task, _ in outcomes) == sorted(names)
    assert not list((tmp_path / "out" / "partial").iterdir())
    return {task.name: outcome for task, outcome in outcomes}


def test_crashes_cost_their_own_page_or_document_alone(settings: Settings, tmp_path: Path) -> None:
    found = read(settings, tmp_path, ["crash", "good", "crash-2", "once", "once-3"], Limits(), count=2)
    assert {name: outcome.status for name, outcome in found.items()} == {
        "crash": "failed", "good": "ok", "crash-2": "partial", "once": "ok", "once-3": "ok",
    }  # fmt: skip
    (failure,) = found["crash"].failures
    assert (failure.code, failure.page, failure.retryable) == ("crash", None, True) and "SIGSEGV" in failure.message
    (failure,) = found["crash-2"].failures
    assert (failure.code, failure.page) == ("crash", 2)
    document = Document.from_json((tmp_path / "out" / "crash-2.json").read_bytes())
    assert [(page.number, page.status) for page in document.pages] == [(1, "ok"), (2, "failed"), (3, "ok")]
    assert document.pages[1].error == failure.message


def test_a_page_that_takes_too_long_is_left_out(settings: Settings, tmp_path: Path) -> None:
    found = read(settings, tmp_path, ["hang-2", "good"], Limits(timeout=SHORT_S))
    assert found["good"].status == "ok" and found["hang-2"].status == "partial"
    (failure,) = found["hang-2"].failures
    assert (failure.code, failure.page, failure.message) == ("timeout", 2, f"took longer than {SHORT_S:g} seconds")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured where /proc tells it")
def test_a_page_that_takes_too_much_memory_is_left_out(settings: Settings, tmp_path: Path) -> None:
    found = read(settings, tmp_path, ["greedy-3", "good"], Limits(memory=350))
    assert found["good"].status == "ok"
    (failure,) = found["greedy-3"].failures
    assert (failure.code, failure.page, failure.message) == ("memory", 3, "took more than 350 MB of memory")
    with pytest.raises(WorkersUnavailable, match="MB before it reads anything: give more --memory"):
        read(settings, tmp_path, ["good"], Limits(memory=1))


def test_workers_that_do_not_start_are_no_documents_fault(settings: Settings, tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [MadePage(["A."])])
    with pytest.raises(WorkersUnavailable, match="workers do not start .*exit code 7"):
        list(Workers(1, settings, Limits(), reader=odd_readers.Unborn).run(WorkList([Task(str(path), "a")])))


def test_leaving_early_ends_all_workers(settings: Settings, tmp_path: Path) -> None:
    tasks = [Task(str(write_pdf(tmp_path / f"{name}.pdf", [MadePage(["A."])])), name) for name in ("good", "hang")]
    crew = Workers(2, settings, Limits(), reader=odd_readers.OddReader)
    outcomes = crew.run(WorkList(tasks))
    assert next(outcomes)[0].name == "good"
    pids = crew.pids()
    outcomes.close()
    assert pids and not [pid for pid in pids if alive(pid)] and crew.pids() == []


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet taken leave of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
def test_workers_end_with_the_process_that_they_work_for(tmp_path: Path) -> None:
    """kill -9 leaves no reader behind that goes on writing; one that hangs is ended too."""
    path = write_pdf(tmp_path / "hang.pdf", [MadePage(["A."])])
    code = f"""
import sys, threading, time
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
import odd_readers
from apps.jobs import Task, WorkList
from apps.outputs import Outputs
from apps.read_task import Settings
from apps.workers import Limits, Workers
from docvision.parse import ParseOptions
if __name__ == "__main__":
    settings = Settings(ParseOptions(layout="rules"), Outputs())
    crew = None
    def look():
        print(*crew.pids(), flush=True)
    crew = Workers(1, settings, Limits(), on_look=look, reader=odd_readers.OddReader)
    list(crew.run(WorkList([Task({str(path)!r}, "hang")])))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        (pid,) = map(int, process.stdout.readline().split())
        assert alive(pid)
        process.send_signal(signal.SIGKILL)
    for _ in range(400):
        if not alive(pid):
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the worker outlived its master by 20 seconds")


def test_threads_are_shared_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [workers.threads_of(count) for count in (1, 2, 5, 16, 40)] == [16, 8, 3, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert [workers.threads_of(count) for count in (1, 2, 5, 16, 40)] == [4, 4, 3, 1, 1]
