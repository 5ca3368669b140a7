"""What docvision is measured beside: which peer reads which kind, how to get it, its version and its size on disk.

None of the peers is a dependency; ``pip install 'docvision[peers]'`` and ``apt-get install tesseract-ocr
poppler-utils`` get them.  The engines themselves are those of ``docvision bench predict`` and ``bench tables``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from apps.bench import ENGINES, Engine
from apps.bench_tables import TABLE_ENGINES

MB = 1_000_000
OURS = "docvision"


@dataclass(frozen=True)
class Peer:
    """A parser on the score card."""

    name: str
    engines: Mapping[str, Engine]
    """Kind of document -> how it is read."""
    package: str
    """Distribution on PyPI, or the program where ``command``."""
    install: str
    module: str = ""
    """To import, where it has another name than the distribution."""
    command: bool = False
    """A program of its own, so that the memory of the Python that starts it is not its memory."""
    plain: bool = False
    """It writes plain text, whose signs are no Markdown."""
    debian: tuple[str, ...] = ()
    """Packages whose installed sizes are its size."""

    def is_installed(self) -> bool:
        """Whether this environment has it."""
        if self.command:
            return shutil.which(self.package) is not None
        module = self.module or self.package.replace("-", "_")
        return self.name == OURS or importlib.util.find_spec(module) is not None

    def version(self) -> str:
        """As it says itself; docvision's names the code and weights that ran, too."""
        if self.name == OURS:
            return f"{_metadata_version(OURS)}+{code_fingerprint()}"
        if not self.command:
            return _metadata_version(self.package)
        option = "--version" if self.package == "tesseract" else "-v"
        said = subprocess.run([self.package, option], capture_output=True, text=True, timeout=30)
        found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
        return found[0] if found else "unknown"


def _engine(name: str, *kinds: str) -> dict[str, Engine]:
    return {kind: ENGINES[name] for kind in kinds}


def _table_engine(name: str) -> dict[str, Engine]:
    found = TABLE_ENGINES[name]
    return {kind: found.run for kind in found.kinds}


_PIP = "pip install {}"
_APT = "apt-get install {}"
_READ = ("pdf_text", "pdf_table", "table_image", "page_scan", "line", "robust")
PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(OURS, _engine(OURS, *_READ), OURS, _PIP.format(OURS)),
        Peer(
            "pdftotext", _engine("pdftotext", "pdf_text", "robust"), "pdftotext", _APT.format("poppler-utils"),
            command=True, plain=True, debian=("poppler-utils", "libpoppler*"),
        ),
        Peer(
            "pymupdf4llm", _engine("pymupdf4llm", "pdf_text", "pdf_table", "robust"), "pymupdf4llm",
            _PIP.format("pymupdf4llm"),
        ),
        Peer(
            "pdfplumber", {**_engine("pdfplumber", "pdf_text", "robust"), **_table_engine("pdfplumber")}, "pdfplumber",
            _PIP.format("pdfplumber"), plain=True,
        ),
        Peer(
            "tesseract", _engine("tesseract", "page_scan", "line"), "tesseract", _APT.format("tesseract-ocr"),
            command=True, plain=True, debian=("tesseract-ocr", "tesseract-ocr-*", "libtesseract*", "liblept*"),
        ),
        Peer(
            "rapidocr", _engine("rapidocr", "page_scan", "line"), "rapidocr", _PIP.format("rapidocr onnxruntime"),
            plain=True,
        ),
        Peer(
            "camelot-lattice", _table_engine("camelot-lattice"), "camelot-py", _PIP.format("camelot-py"),
            module="camelot",
        ),
        Peer(
            "camelot-stream", _table_engine("camelot-stream"), "camelot-py", _PIP.format("camelot-py"),
            module="camelot",
        ),
        Peer("img2table", _table_engine("img2table"), "img2table", _PIP.format("img2table")),
        Peer("rapid_table", _table_engine("rapid_table"), "rapid-table", _PIP.format("rapid-table==0.3.0")),
    )
}  # fmt: skip
"""Name -> peer, docvision first; the order of the rows."""


def _metadata_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return str(_project().get("version", "unknown"))


def _project() -> dict[str, Any]:
    """What pyproject.toml says, in a checkout that is not installed."""
    path = _home().parent / "pyproject.toml"
    return tomllib.loads(path.read_text("utf-8"))["project"] if path.is_file() else {}


@cache
def code_fingerprint() -> str:
    """Eight digits that change with any line of the parser and with its weights."""
    digest = hashlib.sha256()
    home = _home()
    for path in sorted([*home.rglob("*.py"), *home.glob("weights/docvision-tiny/*.safetensors")]):
        digest.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def _home() -> Path:
    import docvision

    return Path(docvision.__file__).parent


# Size on disk


def sizes_mb(peer: Peer) -> tuple[float, float] | None:
    """MB of the peer itself, models in it included, and of it with all that it needs; None where nobody can tell.

    Python, the C library and, for programs, shared libraries that other programs use are not counted.
    """
    if peer.command:
        found = _debian_mb(peer.debian)
        return (found, found) if found else None
    own = _folder_mb(_home()) if peer.name == OURS else _distribution_mb(peer.package)
    if own is None:
        return None
    needed = _needed(peer.package) - {_plain_name(peer.package)}
    return own, own + sum(_distribution_mb(name) or 0.0 for name in needed)


def _folder_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc") / MB


def _distribution_mb(name: str) -> float | None:
    try:
        files = importlib.metadata.files(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    if not files:
        return None
    paths = (Path(str(file.locate())) for file in files if not file.name.endswith(".pyc"))
    return sum(path.stat().st_size for path in paths if path.is_file()) / MB


def _needed(name: str) -> set[str]:
    """A distribution and all that it requires and that is installed here."""
    found: set[str] = set()
    todo = [_plain_name(name)]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _requirements(name)
    return found


def _requirements(name: str) -> Iterator[str]:
    try:
        lines = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        lines = _project().get("dependencies", []) if name == OURS else []
    for line in lines:
        if not re.search(r";.*\bextra\b", line):
            yield _plain_name(re.split(r"[\s\[(<>=!~;]", line, maxsplit=1)[0])


def _plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _debian_mb(packages: tuple[str, ...]) -> float:
    if shutil.which("dpkg-query") is None:
        return 0.0
    command = ["dpkg-query", "-W", "-f=${db:Status-Status} ${Installed-Size}\n", *packages]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    sizes = (line.split() for line in said.splitlines())
    return sum(int(words[1]) for words in sizes if len(words) == 2 and words[0] == "installed") * 1024 / MB
