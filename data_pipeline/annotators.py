"""Those who read regions: Tesseract, RapidOCR, a vision language model, or any program.

An annotator is a name and a call from pictures to texts, HTML tables for pictures of kind ``table``.  A plain OCR
engine answers "" there, and has no say.  A call that fails raises; the pipeline then asks again picture by picture.

    tesseract            the binary on the path, English; tesseract:deu+fra for other languages
    rapidocr             the Python package
    hf:ID_OR_FOLDER      a model for pictures and text of the transformers library (vlm.py)
    command:PROGRAM ...  any program, with places to be filled in: {image} is one picture, whose text is printed; or
                         {images} are several, with a file of the same stem for each written to the folder {out};
                         {kind} is text or table, {format} txt or html accordingly

``docvision parse {images} --out {out} --format {format} --text model --quiet`` makes our own model an annotator.
``NAME=`` before any of them gives it another name.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from data_pipeline.consensus import AnnotatorError

__all__ = ["BUILT_IN", "Annotator", "AnnotatorError", "make_annotator", "split_specs"]

TIMEOUT_S = 300
"""For one call of a program; a batch has as many times this."""
_KINDS = "tesseract|rapidocr|hf|command"
_RESULTS = (".txt", ".html", ".htm", ".md")


@runtime_checkable
class Annotator(Protocol):
    """Reads pictures of one kind; one text for each, in order."""

    name: str

    def __call__(self, images: list[Image.Image], kind: str) -> list[str]: ...


class Tesseract:
    """The ``tesseract`` binary, one process a picture, one thread."""

    def __init__(self, languages: str = "eng", name: str = "tesseract") -> None:
        self.name = name
        self.languages = languages
        _need_program("tesseract", "apt-get install tesseract-ocr")
        known = _run(["tesseract", "--list-langs"], timeout=60).split()[1:]
        missing = [part for part in languages.split("+") if part not in known]
        if missing:
            raise AnnotatorError(f"tesseract has no data for {', '.join(missing)}: apt-get install tesseract-ocr-...")

    def __call__(self, images: list[Image.Image], kind: str) -> list[str]:
        if kind == "table":
            return [""] * len(images)
        command = ["tesseract", "{image}", "stdout", "-l", self.languages, "--psm", "6"]
        return [_one(command, image) for image in images]


class RapidOCR:
    """The ``rapidocr`` package; its boxes are put into lines from top to bottom."""

    def __init__(self, name: str = "rapidocr") -> None:
        self.name = name
        try:
            library = importlib.import_module("rapidocr")
        except ImportError as error:
            raise AnnotatorError("rapidocr is not installed: pip install rapidocr onnxruntime") from error
        self._engine = library.RapidOCR()

    def __call__(self, images: list[Image.Image], kind: str) -> list[str]:
        return [""] * len(images) if kind == "table" else [self._read(image) for image in images]

    def _read(self, image: Image.Image) -> str:
        found: Any = self._engine(np.asarray(image.convert("RGB"))[:, :, ::-1])
        if found is None or found.boxes is None or not len(found.boxes):
            return ""
        return in_lines([(np.asarray(box), str(text)) for box, text in zip(found.boxes, found.txts, strict=True)])


def in_lines(pieces: Sequence[tuple[np.ndarray, str]]) -> str:
    """Pieces of text with their corners (4, 2): those side by side on one line, lines from top to bottom."""
    lines: list[list[tuple[float, float, float, str]]] = []
    for corners, text in sorted(pieces, key=lambda piece: float(piece[0][:, 1].mean())):
        top, bottom, left = float(corners[:, 1].min()), float(corners[:, 1].max()), float(corners[:, 0].min())
        middle = (top + bottom) / 2
        if lines and lines[-1][0][0] <= middle <= lines[-1][0][1]:
            lines[-1].append((top, bottom, left, text))
        else:
            lines.append([(top, bottom, left, text)])
    return "\n".join(" ".join(piece[3] for piece in sorted(line, key=lambda piece: piece[2])) for line in lines)


class Command:
    """Any program; see the top of the file for the places in its command line."""

    def __init__(self, command: str, name: str = "") -> None:
        try:
            self.parts = shlex.split(command)
        except ValueError as error:
            raise AnnotatorError(f"command {command!r} cannot be split into words: {error}") from error
        places = set(re.findall(r"\{(\w+)\}", command))
        unknown = places - {"image", "images", "out", "kind", "format"}
        if unknown or not self.parts:
            raise AnnotatorError(f"command {command!r}: use {{image}}, or {{images}} and {{out}}; {{kind}}, {{format}}")
        if places & {"image", "images", "out"} not in ({"image"}, {"images", "out"}):
            raise AnnotatorError(f"command {command!r} needs {{image}}, or both {{images}} and {{out}}")
        self.batched = "images" in places
        if self.batched and "{images}" not in self.parts:
            raise AnnotatorError(f"command {command!r}: {{images}} stands for several words, so keep it apart")
        _need_program(self.parts[0], "check the path")
        self.name = name or Path(self.parts[0]).name

    def __call__(self, images: list[Image.Image], kind: str) -> list[str]:
        if not self.batched:
            return [_one(self._filled(kind), image) for image in images]
        with tempfile.TemporaryDirectory(prefix="annotate-") as folder:
            out = Path(folder, "out")
            out.mkdir()
            paths = [Path(folder, f"region{number:04d}.png") for number in range(len(images))]
            for path, image in zip(paths, images, strict=True):
                image.save(path)
            command: list[str] = []
            for part in self._filled(kind):
                command += map(str, paths) if part == "{images}" else [part.replace("{out}", str(out))]
            problem = ""
            try:
                _run(command, TIMEOUT_S * len(images))
            except AnnotatorError as error:
                problem = str(error)  # some pictures may have been read all the same
            return [_result(out, path.stem, problem) for path in paths]

    def _filled(self, kind: str) -> list[str]:
        form = "html" if kind == "table" else "txt"
        return [part.replace("{kind}", kind).replace("{format}", form) for part in self.parts]


def _result(folder: Path, stem: str, problem: str) -> str:
    for suffix in _RESULTS:
        path = folder / f"{stem}{suffix}"
        if path.is_file():
            return path.read_text("utf-8", errors="replace")
    raise AnnotatorError(problem or f"the program wrote no {stem}{_RESULTS[0]} to its {{out}}")


def _one(command: list[str], image: Image.Image) -> str:
    """What a program prints for one picture."""
    with tempfile.TemporaryDirectory(prefix="annotate-") as folder:
        path = Path(folder, "region.png")
        image.save(path)
        return _run([part.replace("{image}", str(path)) for part in command], TIMEOUT_S)


def _run(command: list[str], timeout: float) -> str:
    environment = os.environ | {"OMP_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, env=environment)
    except subprocess.TimeoutExpired as error:
        raise AnnotatorError(f"{name} took more than {timeout:.0f} s") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise AnnotatorError(f"{name} ended with code {done.returncode}: {said[:200]}")
    return done.stdout.decode("utf-8", "replace")


def _need_program(name: str, remedy: str) -> None:
    if shutil.which(name) is None:
        raise AnnotatorError(f"the program {name!r} is not on this machine: {remedy}")


def _vlm(model: str, name: str) -> Annotator:
    from data_pipeline.vlm import VisionLanguageModel

    return VisionLanguageModel.from_pretrained(model, name)


BUILT_IN: dict[str, Callable[[str, str], Annotator]] = {
    "tesseract": lambda rest, name: Tesseract(rest or "eng", name or "tesseract"),
    "rapidocr": lambda rest, name: RapidOCR(name or "rapidocr"),
    "hf": _vlm,
    "command": Command,
}
"""Register an annotator with one line here: (what follows the colon, name) -> annotator."""


def split_specs(text: str) -> list[str]:
    """The parts of ``tesseract,ours=command:prog {image}``; commas inside a command stay."""
    return [part.strip() for part in re.split(rf",(?=\s*(?:[\w.-]+=)?(?:{_KINDS})(?:[:,]|\s*$))", text) if part.strip()]


def make_annotator(spec: str) -> Annotator:
    """The annotator that a spec such as ``tesseract:deu`` names.

    Raises:
        AnnotatorError: unknown, not installed, or not spelt right.
    """
    match = re.fullmatch(rf"(?:([\w.-]+)=)?({_KINDS})(?::(.*))?", spec, re.DOTALL)
    if match is None:
        raise AnnotatorError(f"unknown annotator {spec!r}: use {', '.join(BUILT_IN)}, with :... and NAME= as needed")
    name, kind, rest = match[1] or "", match[2], (match[3] or "").strip()
    if (kind in ("hf", "command")) != bool(rest) and kind != "tesseract":
        raise AnnotatorError(f"annotator {spec!r}: " + ("nothing may follow it" if rest else f"write {kind}:..."))
    return BUILT_IN[kind](rest, name)
