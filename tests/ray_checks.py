"""What the tests of documents and data sets on a Ray cluster share: the cluster, and what is compared."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
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
ROOT = Path(__file__).resolve().parents[1]
CLUSTER = """
import ray, sys
ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False,
         logging_level="ERROR", _node_ip_address="127.0.0.1")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
STARTS = 3
"""Ray gives a cluster 30 seconds to start, which a busy machine may miss."""


@contextlib.contextmanager
def started() -> Iterator[str]:
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


def write_documents(folder: Path) -> None:
    """Four made documents of two pages."""
    folder.mkdir(parents=True)
    for number in range(4):
        pages = [
            MadePage([f"Document {number}, page {page}.", "A second line, so that it is no head."]) for page in (1, 2)
        ]
        write_pdf(folder / f"made-{number}.pdf", pages)


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


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
