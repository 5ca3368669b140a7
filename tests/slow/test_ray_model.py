"""Scans read on a Ray cluster: the model of each worker reads what one process reads, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = os.environ.get("DOCVISION_RAY_DOCUMENTS", "")
"""A folder to read instead of the examples: any number of documents of any kind."""
pytestmark = pytest.mark.slow


def content(folder: Path) -> dict[str, Any]:
    """Path -> bytes of all outputs; of JSON without the seconds that each page took."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and ".docvision" not in path.parts):
        found[path.relative_to(folder).as_posix()] = path.read_bytes()
        if path.suffix == ".json":
            data = json.loads(path.read_bytes())
            found[path.relative_to(folder).as_posix()] = {
                **data, "pages": [{**page, "timings": {}} for page in data["pages"]]
            }  # fmt: skip
    return found


def test_a_cluster_reads_scans_and_long_documents_as_one_machine_does(examples: Path, tmp_path: Path) -> None:
    """A document of 70 pages with a scan among them goes through parts and comes back to one worker."""
    pytest.importorskip("ray", reason="ray is not installed")
    folder = Path(DOCUMENTS) if DOCUMENTS else tmp_path / "in"
    if not DOCUMENTS:
        folder.mkdir()
        for name in ("two-columns.pdf", "scanned-letter.png"):
            shutil.copy(examples / name, folder)
        letter = Image.open(examples / "scanned-letter.png").convert("L").resize((620, 877))
        pages = [MadePage([f"Page {number} of a long report.", "It goes on here."]) for number in range(70)]
        write_pdf(folder / "long.pdf", [*pages[:40], MadePage(picture=letter), *pages[40:]])
    code = []
    for name, more in (("one", []), ("ray", ["--ray", "auto"])):
        words = [
            "parse",
            str(folder),
            "-o",
            str(tmp_path / name),
            "-f",
            "md,html,json,csv,txt",
            "--workers",
            "2",
            *more,
        ]
        done = subprocess.run([sys.executable, "-m", "apps.start", *words], cwd=ROOT, capture_output=True, text=True)
        code.append(done.returncode)
        assert done.returncode in (0, 3), done.stderr
    assert code[0] == code[1] and content(tmp_path / "one") == content(tmp_path / "ray")
    assert DOCUMENTS or {"long.json", "scanned-letter.md"} <= content(tmp_path / "ray").keys()
