"""What docvision finds on this machine, and whether it works: engines, models, fonts, threads, a document read.

A check that is needed and broken makes the examination fail; what is only missing is told with the line that would
install it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

from apps import models
from docvision.metrics import edit_distance
from docvision.page import Document
from docvision.parse import DocumentParser
from docvision.pdf import open_source
from docvision.steps import one_line

State = Literal["ok", "missing", "broken"]
SENTENCE = "docvision reads this line of 2468 words"
MAX_WRONG = 0.25
"""Share of the sentence's characters that may be read wrong off a picture."""
PROGRAM_SECONDS = 20
NEEDED = ("numpy", "pillow", "pypdfium2", "pdf2image", "pydantic", "pyyaml", "safetensors", "typer", "torch")
OPTIONAL = {
    "huggingface_hub": "hub", "openpyxl": "sheets", "pandas": "sheets", "gradio": "app", "fastapi": "serve",
    "uvicorn": "serve", "typst": "data", "pyarrow": "train", "accelerate": "train", "timm": "train",
    "transformers": "vlm", "ray": "scale",
}  # fmt: skip
"""Distribution -> the extra that brings it."""
MODULES = {"pillow": "PIL", "pyyaml": "yaml"}
"""Distribution -> what is imported, where that differs."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    group: str
    name: str
    state: State
    detail: str = ""
    needed: bool = False
    hint: str = ""
    seconds: float | None = None

    @property
    def fatal(self) -> bool:
        return self.needed and self.state != "ok"


def examine(model: str = "docvision-tiny", device: str = "cpu") -> Iterator[Check]:
    """All checks, one after another; the self-test comes last and takes seconds."""
    yield Check("system", "Python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)}")
    yield _threads()
    yield _temporary_folder()
    yield _graphics()
    yield _fonts()
    for name in NEEDED:
        yield _package(name, "", needed=True)
    for name, extra in OPTIONAL.items():
        yield _package(name, extra)
    yield _package("onnxruntime", "", hint="pip install onnxruntime; only for engines that are compared with")
    yield _program("pdftoppm", ["-v"], "draws pages faster; else pypdfium2 does", "apt-get install poppler-utils")
    yield _program(
        "tesseract", ["--version"], "only compared with, by docvision bench", "apt-get install tesseract-ocr"
    )
    yield from _models()
    yield from _self_test(model, device)


def _threads() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "")
    return Check("system", "threads", "ok", f"{cores} cores" + (f", OMP_NUM_THREADS={told}" if told else ""))


def _temporary_folder() -> Check:
    try:
        with tempfile.TemporaryFile(prefix="docvision-") as file:
            file.write(b"x")
        free = shutil.disk_usage(tempfile.gettempdir()).free
    except OSError as error:
        hint = "set TMPDIR to a folder that can be written"
        return Check("system", "temporary files", "broken", one_line(error), needed=True, hint=hint)
    return Check("system", "temporary files", "ok", f"{tempfile.gettempdir()}, {free / 1e9:.1f} GB free", needed=True)


def _package(name: str, extra: str, needed: bool = False, hint: str = "") -> Check:
    hint = hint or (f"pip install 'docvision[{extra}]'" if extra else "pip install --force-reinstall docvision")
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check("packages", name, "missing", "", needed, hint)
    if importlib.util.find_spec(MODULES.get(name, name)) is None:
        return Check("packages", name, "broken", f"{version} is listed, but its files are gone", needed, hint)
    return Check("packages", name, "ok", version, needed)


def _program(name: str, arguments: list[str], use: str, hint: str) -> Check:
    place = shutil.which(name)
    if place is None:
        return Check("programs", name, "missing", use, hint=hint)
    try:
        run = subprocess.run([place, *arguments], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("programs", name, "broken", one_line(error), hint=hint)
    found = re.search(r"\d+\.\d+[\w.]*", run.stdout + run.stderr)
    if run.returncode or not found:
        return Check("programs", name, "broken", f"{place} ends with {run.returncode}", hint=hint)
    return Check("programs", name, "ok", f"{found[0]}, {place}")


def _graphics() -> Check:
    if importlib.util.find_spec("torch") is None:
        return Check("system", "graphics card", "missing", "torch is not there")
    import torch

    if not torch.cuda.is_available():
        return Check("system", "graphics card", "missing", "none that torch can use; the processor does")
    return Check("system", "graphics card", "ok", torch.cuda.get_device_name(0))


def _fonts() -> Check:
    """Training data is drawn with the faces of this machine; parsing needs none."""
    from data_pipeline.fonts import FONT_FOLDERS

    files = {
        path
        for folder in FONT_FOLDERS
        for path in Path(folder).expanduser().rglob("*")
        if path.suffix.lower() in (".ttf", ".otf", ".ttc", ".pfb")
    }
    hint = "" if files else "apt-get install fonts-dejavu fonts-liberation; only for docvision make"
    return Check("system", "fonts", "ok" if files else "missing", f"{len(files)} files", hint=hint)


def _models() -> Iterator[Check]:
    for model in (*models.packaged(), *models.cached()):
        start = time.perf_counter()
        faults = models.faults(model)
        needed = model.name == "docvision-tiny"
        seconds = time.perf_counter() - start
        if faults:
            yield Check("models", model.name, "broken", faults[0], needed, "install or fetch it again", seconds)
        else:
            detail = f"{model.parameters() / 1e6:.1f} M parameters, hash verified"
            yield Check("models", model.name, "ok", detail, needed, seconds=seconds)


# The self-test


def _self_test(model: str, device: str) -> Iterator[Check]:
    """Read one line out of a PDF and off a picture of it, which also draws the page with each engine."""
    with tempfile.TemporaryDirectory(prefix="docvision-doctor-") as folder:
        pdf, picture = Path(folder, "line.pdf"), Path(folder, "line.png")
        pdf.write_bytes(one_line_pdf(SENTENCE))
        sheet = Image.new("L", (1240, 500), 255)
        draw = ImageDraw.Draw(sheet)
        draw.text((120, 200), SENTENCE, fill=0, font=ImageFont.load_default(size=46))
        sheet.save(picture, dpi=(200, 200))
        with DocumentParser(model=model, device=device) as parser:
            layer = parser.with_options(layout="rules", text="layer")
            yield _timed("text of a PDF", lambda: _compared(layer.parse(pdf), 0.0))
            yield _timed("page drawn by pypdfium2", lambda: _drawn(pdf, "pdfium"))
            if shutil.which("pdftoppm"):
                yield _timed("page drawn by poppler", lambda: _drawn(pdf, "poppler"))
            yield _timed("model loaded", lambda: f"{type(parser.reader()).__name__} on {device}")
            yield _timed("text of a picture", lambda: _compared(parser.parse(picture), MAX_WRONG))


def _timed(name: str, work: Callable[[], str]) -> Check:
    start = time.perf_counter()
    try:
        detail, state, hint = work(), "ok", ""
    except Exception as error:  # whatever it is, it is what the doctor was asked for
        detail, state, hint = f"{type(error).__name__}: {one_line(error)}", "broken", "see the lines above"
    seconds = round(time.perf_counter() - start, 3)
    return Check("self-test", name, "ok" if state == "ok" else "broken", detail, True, hint, seconds)


def _compared(document: Document, tolerance: float) -> str:
    """What was read, if it is the sentence."""
    page = document.pages[0]
    read = " ".join(block.text for block in page.blocks)
    wrong = edit_distance(read, SENTENCE) / len(SENTENCE)
    if wrong > tolerance:
        raise ValueError(f"read {read!r} for {SENTENCE!r}; {page.error or '; '.join(page.warnings)}".rstrip("; "))
    return f"{1 - wrong:.0%} of the characters right"


def _drawn(path: Path, engine: Literal["pdfium", "poppler"]) -> str:
    with open_source(path) as source:
        image = source.page(1).raster(100, engine).convert("L")
    ink = sum(image.histogram()[:128])
    if not ink:
        raise ValueError(f"the page came out blank, {image.width} x {image.height} pixels")
    return f"{image.width} x {image.height} pixels"


def assemble(objects: Sequence[bytes]) -> bytes:
    """A PDF of these objects, the first of which is the catalog."""
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def one_line_pdf(text: str) -> bytes:
    """A PDF of one page with one line of text in Helvetica."""
    content = f"BT /F 14 Tf 72 700 Td ({text}) Tj ET".encode("ascii")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
        b" /Resources << /Font << /F 3 0 R >> >> /Contents 5 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    ]
    return assemble(objects)
