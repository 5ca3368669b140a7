"""Documents on a small Ray cluster of this machine: the same bytes; what cannot go there is told in one line.

Data sets, and workers and drivers that are killed meanwhile, stand in tests/slow/test_ray_faults.py.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf
from ray_checks import content, journal, run, write_documents

from apps import ray_engine
from apps.outputs import Outputs
from apps.read_task import Settings
from data_pipeline import scale
from docvision.parse import ParseOptions

pytest.importorskip("ray", reason="ray is not installed")
FORMATS = "md,html,json,csv,txt"


@pytest.fixture(autouse=True)
def no_network() -> None:
    """In place of the guard of all tests: Ray asks the system for this machine's address by way of a public one."""


@pytest.fixture
def inputs(tmp_path: Path, examples: Path) -> Path:
    """Examples, made documents in a folder, one name twice, a broken and an encrypted file."""
    folder = tmp_path / "in"
    write_documents(folder / "deep")
    for name in ("two-columns.pdf", "scanned-letter.png"):
        shutil.copy(examples / name, folder)
    write_pdf(folder / "locked.pdf", [MadePage(["Secret."])], password="secret")
    (folder / "broken.pdf").write_text("no PDF")
    return folder


def parse(*arguments: object) -> int:
    return run("parse", "--layout", "rules", "-q", "-f", FORMATS, *arguments)


# Documents


def test_outputs_and_records_are_those_of_one_machine(cluster: str, inputs: Path, tmp_path: Path) -> None:
    assert parse(inputs, "-o", tmp_path / "one", "--workers", 2) == 3
    assert parse(inputs, "-o", tmp_path / "ray", "--ray", cluster, "--workers", 2) == 3
    one, ray = content(tmp_path / "one"), content(tmp_path / "ray")
    assert one == ray and {"two-columns.md", "deep/made-3.csv", "failures.jsonl"} - one.keys() == {"deep/made-3.csv"}
    assert journal(tmp_path / "one") == journal(tmp_path / "ray")
    assert sorted(path.name for path in (tmp_path / "ray" / ".docvision").iterdir()) == ["journal.jsonl", "lock"]


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


def test_workers_of_another_version_or_model_are_refused(tmp_path: Path) -> None:
    settings = Settings(ParseOptions(), Outputs(("md",), tmp_path))
    here = {"version": "2", "weights": "a", "token": "t"}
    for there, told in (
        (here | {"version": "1"}, "has docvision 1, this machine has 2"),
        (here | {"weights": "b"}, "is another one"),
    ):
        with pytest.raises(scale.ClusterError, match=told):
            ray_engine._check(here, there | {"node": "far"}, settings)
