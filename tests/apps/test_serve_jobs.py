"""The HTTP service over time and under attack: jobs, slow documents, crashes, keys, floods, nothing left behind.

The last tests start the program itself.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hostile_pdfs import endless
from service_checks import PATIENCE_S, finished, refused, settings

from apps import cli

pytest.importorskip("fastapi")
import httpx
from fastapi.testclient import TestClient

from apps.serve.app import build

ROOT = Path(__file__).resolve().parents[2]
KEY, OTHER_KEY = "first-key-of-the-tests", "second-key-of-the-tests"


# Jobs


def test_a_job_is_asked_for_until_it_is_done_then_forgotten(client: TestClient, pdf: bytes) -> None:
    response = client.post("/jobs?format=md", content=pdf)
    assert response.status_code == 202
    location = response.headers["location"]
    state = finished(client, location)
    assert state["state"] == "done" and state["pages_done"] == state["pages_total"] == 2 and state["expires_in"] > 0
    result = client.get(state["result"])
    assert result.headers["content-type"].startswith("text/markdown") and "sort the readings" in result.text
    assert client.delete(location).status_code == 204
    refused(client.get(location), 404, "no-job")
    refused(client.get(location + "/result"), 404, "no-job")
    refused(client.delete(location), 404, "no-job")


def test_a_job_that_fails_says_why(client: TestClient) -> None:
    location = client.post("/jobs", content=b"no document at all").headers["location"]
    state = finished(client, location)
    assert state["state"] == "failed" and state["error"]["code"] == "not-supported" and state["result"] is None
    refused(client.get(location + "/result"), 415, "not-supported")


def test_uploads_go_when_they_are_read_and_results_when_their_time_has_come(pdf: bytes) -> None:
    app = build(settings(keep_seconds=1))
    with TestClient(app) as client:
        folder = app.state.service.root
        location = client.post("/jobs", content=pdf).headers["location"]
        finished(client, location)
        assert [path.name for path in folder.rglob("*") if path.is_file()] == ["answer"]
        deadline = time.monotonic() + PATIENCE_S
        while any(folder.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(folder.iterdir())
        refused(client.get(location), 404, "no-job")
    assert not folder.exists()


def test_nothing_is_kept_after_an_answer(client: TestClient, pdf: bytes) -> None:
    folder = client.app.state.service.root  # type: ignore[attr-defined]
    before = set(folder.iterdir())
    assert client.post("/parse", files={"file": pdf}).status_code == 200
    assert client.post("/parse", content=b"broken").status_code == 415
    assert client.post("/parse?pages=9", content=pdf).status_code == 422
    assert set(folder.iterdir()) == before


# Time, crashes, cancelling


def test_what_takes_too_long_is_killed_and_the_next_one_is_read(pdf: bytes, tmp_path: Path) -> None:
    with TestClient(build(settings(max_seconds=4))) as client:
        refused(client.post("/parse", content=endless()), 504, "out-of-time")
        assert client.post("/parse", content=pdf).status_code == 200


def test_a_cancelled_job_stops_reading(pdf: bytes, tmp_path: Path) -> None:
    with TestClient(build(settings())) as client:
        location = client.post("/jobs", content=endless()).headers["location"]
        refused(client.get(location + "/result"), 409, "not-finished")
        assert client.delete(location).status_code == 204
        assert client.post("/parse", content=pdf).status_code == 200


def test_a_killed_reader_costs_one_document(pdf: bytes, tmp_path: Path) -> None:
    app = build(settings())
    with TestClient(app) as client:
        assert client.post("/parse", content=pdf).status_code == 200
        location = client.post("/jobs", content=endless()).headers["location"]
        while client.get(location).json()["state"] == "waiting":
            time.sleep(0.05)
        os.kill(app.state.service.pool._all[0]._process.pid, signal.SIGKILL)
        assert finished(client, location)["error"]["code"] == "reader-crashed"
        assert client.post("/parse", content=pdf).status_code == 200
        os.kill(app.state.service.pool._all[0]._process.pid, signal.SIGKILL)  # while it is idle
        time.sleep(0.2)
        assert client.post("/parse", content=pdf).status_code == 200


# Keys, hosts, floods


def test_keys() -> None:
    with TestClient(build(settings(keys=(KEY, OTHER_KEY)))) as client:
        for headers in ({}, {"X-API-Key": KEY[:-1]}, {"X-API-Key": KEY + "x"}, {"Authorization": f"Basic {KEY}"}):
            response = client.post("/parse", content=b"x", headers=headers)
            refused(response, 401, "no-key")
            assert response.headers["www-authenticate"].startswith("Bearer")
        for headers in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {OTHER_KEY}"}):
            refused(client.post("/parse", content=b"x", headers=headers), 415, "not-supported")
        for path in ("/health", "/openapi.json"):
            assert client.get(path).status_code == 200


def test_a_body_is_not_received_without_a_key() -> None:
    """FastAPI reads a body before anything that a route depends on, so the key is checked before the framework."""

    def stream() -> Iterator[bytes]:
        yield b"x" * 1000
        raise AssertionError("the body was read")

    with TestClient(build(settings(keys=(KEY,)))) as client:
        scope = {
            "type": "http", "method": "POST", "path": "/parse", "raw_path": b"/parse", "query_string": b"",
            "headers": [(b"content-type", b"application/pdf")], "http_version": "1.1", "scheme": "http",
            "server": ("test", 80), "client": ("test", 1), "root_path": "",
        }  # fmt: skip
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            raise AssertionError("the body was asked for")

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        assert client.portal is not None
        client.portal.call(client.app, scope, receive, send)
        assert sent[0]["status"] == 401


def test_a_job_belongs_to_its_key(pdf: bytes) -> None:
    mine, others = {"X-API-Key": KEY}, {"X-API-Key": OTHER_KEY}
    with TestClient(build(settings(keys=(KEY, OTHER_KEY)))) as client:
        location = client.post("/jobs", content=pdf, headers=mine).headers["location"]
        finished(client, location, headers=mine)
        for method, path in (("GET", location), ("GET", location + "/result"), ("DELETE", location)):
            refused(client.request(method, path, headers=others), 404, "no-job")
        assert client.get(location + "/result", headers=mine).status_code == 200


def test_an_open_service_answers_under_its_own_name_only(pdf: bytes) -> None:
    """Else a page in a browser could reach it under a name of its own that leads to this machine."""
    with TestClient(build(settings(hosts=("localhost", "127.0.0.1"))), base_url="http://localhost:8000") as client:
        assert client.get("/health").status_code == 200
        refused(client.get("/health", headers={"Host": "evil.example:8000"}), 403, "wrong-host")


def test_a_flood_is_turned_away_and_the_service_goes_on(pdf: bytes, tmp_path: Path) -> None:
    """Two places, one of them being read for long: of many requests all but one are refused, none is lost."""
    app = build(settings(queue=1))
    with TestClient(app) as client:
        location = client.post("/jobs", content=endless()).headers["location"]
        waiting = client.post("/jobs", content=pdf).headers["location"]
        with ThreadPoolExecutor(10) as threads:
            responses = list(threads.map(lambda _: client.post("/parse", content=pdf), range(40)))
        for response in responses:
            refused(response, 429, "busy")
            assert int(response.headers["retry-after"]) >= 1
        assert app.state.service.pool.busy == 2
        assert client.delete(location).status_code == 204
        assert finished(client, waiting)["state"] == "done"
        assert app.state.service.pool.busy == 0
        assert client.post("/parse", content=pdf).status_code == 200


def test_results_that_nobody_fetches_do_not_pile_up(pdf: bytes) -> None:
    with TestClient(build(settings(max_jobs=2))) as client:
        locations = [client.post("/jobs", content=pdf).headers["location"] for _ in range(2)]
        refused(client.post("/jobs", content=pdf), 429, "busy")
        finished(client, locations[0])
        client.delete(locations[0])
        assert client.post("/jobs", content=pdf).status_code == 202


def test_two_workers_read_at_the_same_time(pdf: bytes, tmp_path: Path) -> None:
    with TestClient(build(settings(workers=2))) as client:
        location = client.post("/jobs", content=endless()).headers["location"]
        assert client.post("/parse", content=pdf).status_code == 200
        assert client.get(location).json()["state"] in ("waiting", "reading")
        client.delete(location)


# The program


def start(folder: Path, *options: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """The service as a program on a free port, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "apps.cli", "serve", "--port", "0", "--layout", "rules", *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "TMPDIR": str(folder), **environment},
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("docvision listens at http://127.0.0.1:"), line
    return process, line.split()[3].rstrip(",")


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{number}/stat").read_text().split(") ")[1][0] != "Z"


def children(number: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_the_program_serves_and_leaves_nothing(number: signal.Signals, pdf: bytes, tmp_path: Path) -> None:
    """However it ends, in the middle of a document too: no process and no file stays."""
    process, address = start(tmp_path, DOCVISION_API_KEY=KEY)
    try:
        with httpx.Client(base_url=address, headers={"X-API-Key": KEY}, timeout=PATIENCE_S, trust_env=False) as client:
            refused(client.post("/parse", content=pdf, headers={"X-API-Key": "wrong"}), 401, "no-key")
            response = client.post("/parse", files={"file": ("a.pdf", pdf)}, params={"format": "md"})
            assert response.status_code == 200 and "sort the readings" in response.text
            assert "server" not in response.headers
            location = client.post("/jobs", content=endless()).headers["location"]
            while client.get(location).json()["state"] == "waiting":
                time.sleep(0.05)
        readers = children(process.pid)
        assert readers and any(tmp_path.iterdir())
        process.send_signal(number)
        code = process.wait(PATIENCE_S)
        assert code == (-9 if number == signal.SIGKILL else 130)
        deadline = time.monotonic() + PATIENCE_S
        while (any(map(alive, readers)) or any(tmp_path.iterdir())) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(alive, readers)) and not any(tmp_path.iterdir())
    finally:
        process.kill()
        process.communicate()


def test_an_address_that_is_taken_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("DOCVISION_API_KEY", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--port", str(port), "--layout", "rules"]) == 1
    assert f"127.0.0.1:{port} cannot be listened at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["--host", "0.0.0.0"], "", "put a key into DOCVISION_API_KEY, or say --open"),
        ([], "short", "needs 16 ASCII characters"),
        (["--key-file", "/no/such/file"], "", "cannot be read"),
        (["--layout", "ruels"], "", "Did you mean 'rules'?"),
        (["--model", "docvision-tinny"], "", "did you mean docvision-tiny?"),
    ],
)
def test_wrong_use_is_told_before_anything_starts(
    arguments: list[str], environment: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("DOCVISION_API_KEY", environment)
    assert cli.main(["serve", *arguments]) == 2
    assert told in capsys.readouterr().err
