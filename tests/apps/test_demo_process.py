"""The demo's processes, addresses and outcomes: what ends when, and what is said when something cannot be done."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from apps.demo_desk import address_problem
from apps.demo_process import WorkProcess
from apps.demo_visits import Opened
from docvision.page import Document, Page


def test_ctrl_c_at_the_terminal_does_not_reach_the_work() -> None:
    """It printed the worker's traceback; the server ends the worker itself."""
    work = WorkProcess("docvision-tiny")
    try:
        assert os.getpgid(work._start().pid) != os.getpgid(0)
    finally:
        work.stop()


def test_the_work_ends_with_the_server_whatever_it_is_at() -> None:
    """The one that starts it is killed while its pipes stay open here; the work is asleep in a job."""
    work = (
        "import os, sys, threading, time; from apps.demo_worker import end_with_parent;"
        " threading.Thread(target=end_with_parent, args=(os.getppid(), 0.1), daemon=True).start();"
        " print('up', flush=True); time.sleep(600)"
    )
    server = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], start_new_session=True)"
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        process.kill()
        assert process.stdout.read() == b"", "ends when the work has closed it"


def test_pages_left_out_and_bad_pages_are_partial_with_the_reason(tmp_path: Path) -> None:
    good, bad = Page(1, 9, 9), Page(2, 9, 9, status="partial", warnings=["a table was not read"])
    failed = Page(3, 9, 9, status="failed", error="damaged")

    def outcome(*pages: Page, cut: str = "") -> tuple[str, str]:
        told = Opened("a", tmp_path, Document("a.pdf", list(pages)), cut=cut).outcome()
        return told["status"], told.get("error", "")

    assert outcome(good) == ("ok", "")
    assert outcome(good, cut="reads 1 of the 5 pages") == ("partial", "reads 1 of the 5 pages")
    assert outcome(good, bad) == ("partial", "page 2: a table was not read")
    assert outcome(bad, failed, cut="late") == ("partial", "late; page 2: a table was not read (and 1 more)")
    assert outcome(failed) == ("failed", "page 3: damaged")


def test_a_taken_port_is_said_in_our_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gradio")
    from apps.demo import serving

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"^port {port} is taken: give another --port, or --port 0$"),
            serving(port=port),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_another_machine_is_named() -> None:
    assert "taken, or 192.0.2.1 is no address of this machine: " in address_problem("192.0.2.1", 7860)
