"""Workers that share one model: it is loaded once, before they are forked, and reads what one process alone reads."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
import odd_readers
from pathlib import Path
from apps.batch import shared_model
from apps.jobs import Task, WorkList
from apps.outputs import Outputs
from apps.read_task import Settings, TaskReader
from apps.workers import Limits, Workers
from docvision.parse import ParseOptions

if __name__ == "__main__":
    paths = [str(path) for path in sorted(Path({folder!r}).glob("*.png"))]
    options = ParseOptions()
    settings = Settings(options, Outputs(("md",), Path({folder!r})))
    work = WorkList([Task(path, "worker-" + Path(path).stem) for path in paths])
    crew = Workers(2, settings, Limits(), shared_model(options, paths), reader=odd_readers.Sharing)
    assert sorted(outcome.status for _, outcome in crew.run(work)) == ["ok", "ok"]
    assert "torch" not in sys.modules, "the master has no use for it"
    assert TaskReader(settings).read(Task(paths[0], "alone")).status == "ok"
"""


@pytest.mark.slow
def test_a_model_that_is_forked_reads_the_same(examples: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copy(examples / "scanned-letter.png", tmp_path / f"{name}.png")
    code = CODE.format(root=str(ROOT), tests=str(ROOT / "tests"), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"{name}.seen").read_text() for name in "ab"] == ["True False", "True False"]
    texts = {(tmp_path / f"{name}.md").read_bytes() for name in ("worker-a", "worker-b", "alone")}
    assert len(texts) == 1 and len(texts.pop()) > 200
