"""Paper and stamps from a folder of pictures: scans of one's own, or what ``imagegen sample --folder`` draws.

The folder holds sub-folders.  Pictures in those whose names begin with ``paper`` become the ground of pages, those in
``stamp...`` are printed on them.  Neither carries text for the truth, so none is added to it.  What cannot be used is
left out, counted, and named with its reason among the sources of the data set.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from data_pipeline import wear
from data_pipeline.chance import pick

Rng = np.random.Generator

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"}
_SMALLEST, _LARGEST = 8, 1024
"""Pixels a side; larger ones are reduced."""
_DARKEST = 110.0
"""Mean grey of paper that print can still be read on."""
_FAINTEST = 40.0
"""Grey levels between a stamp's ink and its paper."""


class PictureError(ValueError):
    """A folder of pictures that cannot be used."""


@dataclass(frozen=True)
class PictureOptions:
    """Which pictures, and on how many of the pages that are not left as rendered."""

    folder: str = ""
    """Empty for none."""
    papers: float = 0.5
    """Share of the pages that lie on one of the papers."""
    stamps: float = 0.2
    """Share of the pages with one of the stamps."""

    def __post_init__(self) -> None:
        for name in ("papers", "stamps"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"pictures.{name} is {getattr(self, name)}: use a share within 0 to 1")


@dataclass
class Pictures:
    """What a folder holds."""

    papers: list[list[np.ndarray]] = field(default_factory=list)
    """Grey, by sub-folder: one page's paper is of one kind."""
    stamps: list[np.ndarray] = field(default_factory=list)
    """255 is full ink."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reason by name."""
    digest: str = ""


@lru_cache(maxsize=2)
def load(folder: str) -> Pictures:
    """All pictures of a folder.

    Raises:
        PictureError: there is no such folder, or nothing in it can be used.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise PictureError(f"pictures.folder is {folder!r}: no such folder")
    found, digest = Pictures(), hashlib.sha256()
    for part in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        kind = next((kind for kind in ("paper", "stamp") if part.name.lower().startswith(kind)), "")
        papers = []
        for path in sorted(part.rglob("*")) if kind else []:
            if path.suffix.lower() not in SUFFIXES or not path.is_file():
                continue
            data = path.read_bytes()
            try:
                picture = _read(data)
                if kind == "paper":
                    papers.append(_as_paper(picture))
                else:
                    found.stamps.append(_as_ink(picture))
            except ValueError as error:
                found.skipped[path.relative_to(root).as_posix()] = str(error)
                continue
            digest.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
        if papers:
            found.papers.append(papers)
    if not found.papers and not found.stamps:
        first = next(
            (f"; the first of {len(found.skipped)} left out: {n}: {why}" for n, why in found.skipped.items()), ""
        )
        raise PictureError(
            f"{folder}: no paper and no stamp that can be used: sub-folders paper... and stamp... with pictures are"
            f" expected{first}"
        )
    found.digest = digest.hexdigest()[:16]
    return found


def _read(data: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE) if data else None
    if picture is None:
        raise ValueError("no picture that OpenCV can read")
    height, width = picture.shape
    if min(height, width) < _SMALLEST:
        raise ValueError(f"{width} x {height} pixels: at least {_SMALLEST} x {_SMALLEST} are needed")
    if max(height, width) > _LARGEST:
        scale = _LARGEST / max(height, width)
        size = max(_SMALLEST, round(width * scale)), max(_SMALLEST, round(height * scale))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return picture


def _as_paper(picture: np.ndarray) -> np.ndarray:
    if picture.mean() < _DARKEST:
        raise ValueError(f"too dark for paper: mean grey {picture.mean():.0f}, at least {_DARKEST:.0f} is needed")
    return picture


def _as_ink(picture: np.ndarray) -> np.ndarray:
    """Dark on light -> ink, its paper taken away."""
    low, paper = np.percentile(picture, (2, 85))
    if paper - low < _FAINTEST:
        raise ValueError(f"no dark ink on light paper: grey {low:.0f} on {paper:.0f}")
    return np.clip((paper - 6 - picture.astype(np.float32)) * (255 / (paper - 6 - low)), 0, 255).astype(np.uint8)


def sources(options: PictureOptions) -> dict[str, str]:
    """Digest of the folder, with what was left out; nothing where no folder is named."""
    if not options.folder:
        return {}
    found = load(options.folder)
    told = f"{found.digest} ({sum(map(len, found.papers))} papers, {len(found.stamps)} stamps"
    if found.skipped:
        name, why = next(iter(found.skipped.items()))
        told += f"; {len(found.skipped)} left out, the first: {name}: {why}"
    return {"pictures": f"{told})"}


def lay(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng, options: PictureOptions) -> np.ndarray:
    """The page on paper and under stamps of the folder, where chance has it so.

    Args:
        image: uint8 grey.
        boxes_N4: of the print, which a stamp keeps clear of as a rule.
        rng: the only source of chance.
        options: the folder and the shares.
    """
    if not options.folder:
        return image
    found = load(options.folder)
    paper, stamp = rng.random(2)
    if found.papers and paper < options.papers:
        ground = quilt(image.shape, pick(rng, found.papers), rng)
        image = cv2.multiply(image.astype(np.float32), ground / 255, dtype=cv2.CV_8U)
    if found.stamps and stamp < options.stamps:
        image = _print_stamp(image, boxes_N4, rng, pick(rng, found.stamps))
    return image


def quilt(shape: tuple[int, int], papers: list[np.ndarray], rng: Rng) -> np.ndarray:
    """Paper of any size out of small pieces, without seams.

    Pieces, turned and mirrored by chance, overlap by half under windows that fade to their edges.  A mean of several
    pieces would be smoother than paper is, so what differs from the mean is divided by the root of the squared
    weights: its spread stays that of one piece.
    """
    height, width = shape
    side = max(16, min(min(picture.shape) for picture in papers))
    step = side // 2
    mean = float(np.mean([picture.mean() for picture in papers]))
    edge = np.sin(np.pi * (np.arange(side, dtype=np.float32) + 0.5) / side) ** 2
    window = np.outer(edge, edge)
    total: np.ndarray = np.zeros((height + 2 * side, width + 2 * side), np.float32)
    power = np.full_like(total, 1e-6)
    for top in range(0, height + side, step):
        for left in range(0, width + side, step):
            piece = _piece(pick(rng, papers), side, rng)
            total[top : top + side, left : left + side] += window * (piece - mean)
            power[top : top + side, left : left + side] += window**2
    ground = mean + total / np.sqrt(power)
    return np.clip(ground[step : step + height, step : step + width], 0, 255)


def _piece(picture: np.ndarray, side: int, rng: Rng) -> np.ndarray:
    """A square of a picture, in one of eight postures."""
    if min(picture.shape) < side:
        scale = side / min(picture.shape)
        size = max(side, round(picture.shape[1] * scale)), max(side, round(picture.shape[0] * scale))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_CUBIC)
    height, width = picture.shape
    top, left = int(rng.integers(height - side + 1)), int(rng.integers(width - side + 1))
    piece = np.rot90(picture[top : top + side, left : left + side], int(rng.integers(4)))
    return piece[:, ::-1] if rng.random() < 0.5 else piece


def _print_stamp(image: np.ndarray, boxes_N4: np.ndarray, rng: Rng, ink: np.ndarray) -> np.ndarray:
    """One stamp at a twentieth to an eighth of the page's width, mostly where there is no print."""
    wide = max(8, int(image.shape[1] * rng.uniform(0.06, 0.14)))
    high = max(8, round(wide * ink.shape[0] / ink.shape[1]))
    spot = wear.free_spot(image, boxes_N4, rng, (wide, high), bool(rng.random() < 0.2))
    turn, strength = float(rng.normal(0, 10)), rng.uniform(0.4, 0.9)
    if spot is None:
        return image
    drawn = cv2.resize(ink, (wide, high), interpolation=cv2.INTER_CUBIC)
    drawn = cv2.warpAffine(drawn, cv2.getRotationMatrix2D((wide / 2, high / 2), turn, 1.0), (wide, high))
    layer = np.zeros_like(image)
    layer[spot[1] : spot[1] + high, spot[0] : spot[0] + wide] = drawn
    return wear.ink_over(image, layer, strength)
