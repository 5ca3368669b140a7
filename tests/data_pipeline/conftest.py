"""What the tests of annotation share."""

import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
from PIL import Image
mode, paths = sys.argv[1], sys.argv[3:]
for path in paths:
    width, height = Image.open(path).size
    if width == 13:
        sys.exit("thirteen is too narrow")
    text = f"{width} by {height} of {sys.argv[2]}"
    print(text) if mode == "-" else Path(mode, Path(path).stem + ".txt").write_text(text)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "reader.py").write_text(PROGRAM)
    return f"{sys.executable} {tmp_path / 'reader.py'}"
