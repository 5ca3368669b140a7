"""What every test runs under: one thread a process, no network, no downloads."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before torch and numpy are imported: two test processes on two cores must not start a thread pool each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ("127.", "::1", "localhost")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's top folder."""
    return ROOT


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of example documents."""
    return ROOT / "examples"


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Ray cluster with two processors, which ends with the tests, however they end."""
    from ray_checks import started

    with started() as address:
        yield address


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leaves the machine: a connection to another host is an error in the code under test."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(LOCAL):  # type: ignore[index]
            raise AssertionError(f"a test connects to {address}: code here must not use the network")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)
