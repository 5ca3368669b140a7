"""Benchmarks: predictions of several parsers on one manifest, and their speeds side by side in one run.

    docvision bench predict MANIFEST -o OUT --engine docvision --engine pdftotext
    docvision bench speed FILE... --engine rules --engine pdftotext

``predict`` writes what the benchmark's scorer reads: OUT/ENGINE/<id>.md and <id>.status.  ``speed`` goes round the
engines in turn, several times, so that a busy machine is busy for all of them, and prints pages per second and
the ratio to the first engine.  Peers are run where they are installed; none of them is a dependency.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from docvision.page import Document
from docvision.parse import DEFAULT_MODEL, DocumentParser, ParseOptions

RENDER_DPI = 300
"""What Tesseract is given of a PDF, as its manual advises."""
TESSERACT_INSTALL = "apt-get install tesseract-ocr"
TESSERACT_LANGUAGES = {
    "en": "eng", "de": "deu", "fr": "fra", "es": "spa", "it": "ita", "pt": "por", "nl": "nld", "pl": "pol", "cs": "ces",
    "sv": "swe", "da": "dan", "fi": "fin", "hu": "hun", "ro": "ron", "la": "lat", "ja": "jpn", "zh": "chi_sim",
}  # fmt: skip
"""ISO 639-1 -> names of Tesseract's data."""


class EngineMissing(ValueError):
    """A peer that is not installed; the message says how to get it."""


@dataclass(frozen=True)
class Request:
    """One file to read."""

    path: Path
    kind: str = ""
    page: int = 0
    """1-based page wanted; 0 for all."""
    password: str = ""
    language: str = ""
    """ISO 639-1 code of the text, where it is known; Tesseract alone asks."""


@dataclass(frozen=True)
class Output:
    """What an engine made of it."""

    text: str
    pages: int


Engine = Callable[[Request], Output]


def run_docvision(request: Request, layout: str = "auto", text: str = "auto") -> Output:
    """The parser itself; a picture of a single line goes straight to the line reader."""
    if request.kind == "line":
        return Output(read_line(request.path)[0], 1)
    document = parser(layout, text).parse(request.path, pages=str(request.page or ""), password=request.password)
    return Output(_markdown(document), len(document.pages))


def _markdown(document: Document) -> str:
    from docvision.export import to_markdown

    failed = [page.error for page in document.pages if page.status == "failed"]
    if failed and len(failed) == len(document.pages):
        raise ValueError(failed[0])
    return to_markdown(document, tables="html")  # keeps header rows and spans apart, as the truth does


def read_line(path: Path, model: str = DEFAULT_MODEL) -> tuple[str, float]:
    """Text and confidence of a picture of one line; ("", 1.0) where there is no ink."""
    from PIL import Image

    from docvision.images import crop_line, deskew_angle, grey, rotate
    from docvision.layout_maps import line_on_strip

    image = grey(Image.open(path))
    image = rotate(image, deskew_angle(image, limit=2.0))
    box = line_on_strip(image)
    if box is None:
        return "", 1.0
    text, confidence = parser("auto", "auto", model).reader().read_lines([crop_line(image, box)])[0]
    return text, confidence


@cache
def parser(layout: str, text: str, model: str = DEFAULT_MODEL) -> DocumentParser:
    return DocumentParser(ParseOptions(text=text, layout=layout, model=model))


def run_pdftotext(request: Request) -> Output:
    """Poppler's pdftotext -raw."""
    command = ["pdftotext", "-raw", "-upw", request.password, *_page_flags(request), str(request.path), "-"]
    text = _call(command, "apt-get install poppler-utils")
    return Output(text, max(1, text.count("\f")))


def _page_flags(request: Request) -> list[str]:
    return ["-f", str(request.page), "-l", str(request.page)] if request.page else []


def run_pymupdf4llm(request: Request) -> Output:
    """pymupdf4llm.to_markdown with its defaults."""
    library = installed("pymupdf4llm")
    pages = [request.page - 1] if request.page else None
    chunks = library.to_markdown(str(request.path), pages=pages, page_chunks=True, show_progress=False)
    return Output("\n\n".join(chunk["text"] for chunk in chunks), len(chunks))


def run_pdfplumber(request: Request) -> Output:
    """pdfplumber's extract_text, page by page."""
    with installed("pdfplumber").open(request.path, password=request.password) as document:
        pages = [document.pages[request.page - 1]] if request.page else document.pages
        return Output("\n\n".join(page.extract_text() or "" for page in pages), len(pages))


def run_tesseract(request: Request) -> Output:
    """Tesseract with the data of the language where that is installed, else English; a process a page, one thread."""
    if request.path.suffix.lower() == ".pdf":
        from docvision.pdf import open_source

        with open_source(request.path, request.password) as source:
            numbers = [request.page] if request.page else range(1, source.page_count + 1)
            texts = [_tesseract(source.page(number).raster(RENDER_DPI), request) for number in numbers]
        return Output("\n\n".join(texts), len(texts))
    from PIL import Image

    return Output(_tesseract(Image.open(request.path), request), 1)


def _tesseract(image: Any, request: Request) -> str:
    import io

    buffer = io.BytesIO()
    image.convert("L").save(buffer, "PNG", compress_level=1)
    mode = "7" if request.kind == "line" else "1"
    command = ["tesseract", "-", "-", "--psm", mode, "-l", tesseract_language(request.language)]
    return _call(command, TESSERACT_INSTALL, buffer.getvalue())


def tesseract_language(code: str) -> str:
    """The name of Tesseract's data for a language; English where it has none here."""
    name = TESSERACT_LANGUAGES.get(code, code)
    return name if name in _tesseract_has() else "eng"


@cache
def _tesseract_has() -> frozenset[str]:
    return frozenset(_call(["tesseract", "--list-langs"], TESSERACT_INSTALL).split())


def run_rapidocr(request: Request) -> Output:
    """RapidOCR with the model in its wheel; lines from top to bottom, a picture of one line without looking for it."""
    engine = rapidocr_engine()
    found = engine(str(request.path), use_det=request.kind != "line")
    return Output("\n".join(found.txts or ()), 1)


@cache
def rapidocr_engine() -> Any:
    """RapidOCR, loaded once, on one thread as all engines here; its own default is to spin on every core."""
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    return installed("rapidocr").RapidOCR(params=threads)


def installed(module: str, package: str = "") -> Any:
    """A peer's module.

    Raises:
        EngineMissing: it is not there; ``package`` is what to install where that has another name.
    """
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EngineMissing(f"engine {module} is not installed: pip install {package or module}") from error


def _call(command: Sequence[str], install: str, data: bytes = b"") -> str:
    if shutil.which(command[0]) is None:
        raise EngineMissing(f"engine {command[0]} is not installed: {install}")
    environment = {"OMP_THREAD_LIMIT": "1", "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, input=data, capture_output=True, env=environment, timeout=300)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(said[-1] if said else f"{command[0]} ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


ENGINES: dict[str, Engine] = {
    "docvision": run_docvision,
    "rules": lambda request: run_docvision(request, layout="rules"),
    "model": lambda request: run_docvision(request, text="model"),
    "pdftotext": run_pdftotext,
    "pymupdf4llm": run_pymupdf4llm,
    "pdfplumber": run_pdfplumber,
    "tesseract": run_tesseract,
    "rapidocr": run_rapidocr,
}
"""Name -> function; ``rules`` and ``model`` are docvision held to one way of reading."""


def predict(
    manifest: Path,
    out: Path,
    engines: Sequence[str],
    kinds: Sequence[str] = (),
    registry: Mapping[str, Engine] | None = None,
) -> dict[str, int]:
    """Write predictions and status files for every row of a manifest.

    Args:
        manifest: JSON lines; paths in it are relative to it.
        out: gets a folder for each engine.
        engines: names in ``registry``.
        kinds: only rows of these kinds; empty for all.
        registry: name -> engine; None for :data:`ENGINES`.

    Returns:
        Engine -> number of files that it could not read (their status holds exit code 1).

    Raises:
        EngineMissing: an engine is not installed.
        ValueError: the manifest has no row of one of ``kinds``.
    """
    rows = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines() if line.strip()]
    known = sorted({row["kind"] for row in rows})
    if unknown := sorted(set(kinds) - set(known)):
        raise ValueError(f"{manifest} has no kind {unknown[0]!r}: use some of {', '.join(known)}")
    rows = [row for row in rows if not kinds or row["kind"] in kinds]
    failures: dict[str, int] = {}
    for name in engines:
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        failures[name] = 0
        for row in rows:
            request = request_of(row, manifest.parent)
            code, seconds, output = _timed((registry or ENGINES)[name], request)
            failures[name] += code != 0
            (folder / f"{row['id']}.md").write_text(output.text, encoding="utf-8")
            (folder / f"{row['id']}.status").write_text(f"{code} {seconds:.3f} {output.pages}\n")
    return failures


def request_of(row: Mapping[str, Any], root: Path) -> Request:
    """What a row of a manifest in the folder ``root`` asks to read."""
    page, password, language = row.get("page") or 0, row.get("password") or "", row.get("lang") or ""
    return Request(root / row["file"], row["kind"], page, password, language)


def _timed(engine: Engine, request: Request) -> tuple[int, float, Output]:
    began = time.perf_counter()
    try:
        output = engine(request)
    except EngineMissing:
        raise
    except Exception:  # a peer may raise anything on a broken file; that is a result, not our failure
        return 1, time.perf_counter() - began, Output("", 1)
    return 0, time.perf_counter() - began, output


def speed(files: Sequence[Path], engines: Sequence[str], rounds: int = 3) -> list[dict[str, Any]]:
    """Pages per second of each engine: medians over interleaved rounds, after one round to warm up.

    Returns:
        One row an engine: ``engine``, ``pages``, ``unread`` (files that it could not read, which makes it look fast),
        ``pages_per_s``, ``ratio`` to the first engine.

    Raises:
        EngineMissing: an engine is not installed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    pages: dict[str, int] = {}
    unread: dict[str, int] = {}
    for turn in range(rounds + 1):
        for name in engines:
            results = [_timed(ENGINES[name], Request(path)) for path in files]
            if turn:
                seconds[name].append(sum(result[1] for result in results))
            pages[name] = sum(result[2].pages for result in results)
            unread[name] = sum(result[0] != 0 for result in results)
    # Every engine is charged the same number of pages, however it counts those that it could not read.
    count = pages[engines[0]]
    rates = {name: count / statistics.median(times) for name, times in seconds.items()}
    first = rates[engines[0]]
    return [
        {
            "engine": name,
            "pages": count,
            "unread": unread[name],
            "pages_per_s": round(rate, 3),
            "ratio": round(rate / first, 3),
        }
        for name, rate in rates.items()
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal keys as lines of text: names to the left, numbers to the right."""
    cells = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells]
    return "\n".join("  ".join(line) for line in lines)
