"""Is the reader as sure as it is right? Confidence of lines against their characters that are right.

    docvision bench confidence data/lines_val --plot docs/confidence.svg

A line's confidence is the geometric mean of the probabilities of its characters, so it is held against the share of its
characters that are right (1 - edits / length).  Lines are binned by confidence; the calibration error is the mean
distance of the two over the bins, weighted by lines (Guo et al. 2017, arXiv 1706.04599).  Lines without ink or text
have no characters to be right and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.card_scores import fold
from docvision.metrics import edit_distance

BINS = 10
SIDE, EDGE = 280, 40
"""Of the picture's square and its margin, in pixels."""
BATCH = 64


@dataclass(frozen=True)
class Judged:
    """A line that was read."""

    confidence: float
    edits: int
    """Against the truth, both folded; at most ``length``."""
    length: int
    """Characters of the truth."""

    @property
    def right(self) -> float:
        """Share of the characters that are right."""
        return 1.0 - self.edits / self.length


def read(source: Path, limit: int, model: str) -> list[Judged]:
    """Lines of shards or of a benchmark, read and judged.

    Args:
        source: folder of shards, or a manifest whose rows of kind ``line`` are used.
        limit: most lines.
        model: packaged name, folder or hub id.

    Raises:
        ValueError: there are no lines.
    """
    lines = list((_from_shards if source.is_dir() else _from_manifest)(source, limit, model))
    if not lines:
        raise ValueError(f"{source} has no lines with text: name a folder of shards of lines, or a manifest with some")
    return lines


def _from_shards(folder: Path, limit: int, model: str) -> Iterator[Judged]:
    from apps.decode_samples import Bounds, load
    from docvision.images import from_float
    from docvision.model import DocVisionModel

    samples = load("text", [folder], Bounds(limit, width=1_000_000))
    reader = DocVisionModel.from_pretrained(model)
    for start in range(0, len(samples), BATCH):
        group = samples[start : start + BATCH]
        readings = reader.read_lines([from_float(sample.image) for sample in group])
        yield from judge((reading, sample.truth) for reading, sample in zip(readings, group, strict=True))


def _from_manifest(manifest: Path, limit: int, model: str) -> Iterator[Judged]:
    from apps.bench import read_line

    rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines() if line.strip()]
    for row in [row for row in rows if row["kind"] == "line"][:limit]:
        truth = (manifest.parent / row["truth"][0]).read_text("utf-8")
        yield from judge([(read_line(manifest.parent / row["file"], model), truth)])


def judge(readings: Iterable[tuple[tuple[str, float], str]]) -> Iterator[Judged]:
    """((text, confidence), truth) of lines -> how right they are; a line without true or read text is left out."""
    for (text, confidence), truth in readings:
        text, truth = fold(text), fold(truth)
        if text and truth:
            yield Judged(confidence, min(edit_distance(text, truth), len(truth)), len(truth))


def bins(lines: Sequence[Judged]) -> list[dict[str, Any]]:
    """One row for each bin that has lines: their number, mean confidence, characters right, lines without an error."""
    rows = []
    for number, group in _binned(lines):
        rows.append({
            "confidence": f"{number / BINS:.1f} to {(number + 1) / BINS:.1f}",
            "lines": len(group),
            "mean": round(_mean([line.confidence for line in group]), 4),
            "right": round(_mean([line.right for line in group]), 4),
            "exact": round(_mean([line.edits == 0 for line in group]), 4),
        })  # fmt: skip
    return rows


def _binned(lines: Sequence[Judged]) -> Iterator[tuple[int, list[Judged]]]:
    for number in range(BINS):
        group = [line for line in lines if min(int(line.confidence * BINS), BINS - 1) == number]
        if group:
            yield number, group


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def calibration_error(lines: Sequence[Judged]) -> float:
    """Expected calibration error: mean distance of confidence and characters right, over the bins by lines."""
    apart = [abs(sum(line.confidence - line.right for line in group)) for _, group in _binned(lines)]
    return sum(apart) / len(lines)


def kept(lines: Sequence[Judged], risk: float) -> dict[str, Any]:
    """From which confidence on lines err less than ``risk`` in all: ``share`` of the lines, and their CER.

    The threshold that keeps most lines is taken; ``from`` is None where not even the surest line is good enough.
    """
    best: dict[str, Any] = {"risk": risk, "from": None, "share": 0.0, "cer": 0.0}
    ordered = sorted(lines, key=lambda line: -line.confidence)
    edits = length = 0
    for number, line in enumerate(ordered, 1):
        edits, length = edits + line.edits, length + line.length
        tied = number < len(ordered) and ordered[number].confidence == line.confidence
        if edits <= risk * length and not tied:
            best |= {"from": round(line.confidence, 4), "share": round(number / len(ordered), 4)}
            best["cer"] = round(edits / length, 4)
    return best


def plot(lines: Sequence[Judged]) -> str:
    """Characters right over confidence, a dot for each bin with an area by its lines, as SVG."""

    def place(confidence: float, right: float) -> tuple[float, float]:
        return EDGE + SIDE * confidence, EDGE / 2 + SIDE * (1 - right)

    width, height = SIDE + 2 * EDGE, SIDE + 1.5 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" font-family="sans-serif" '
        f'font-size="11" fill="#57606a"><rect width="{width}" height="{height:.0f}" fill="#fff"/>',
        f'<text x="{EDGE}" y="14">characters right</text>',
        f'<text x="{EDGE + SIDE}" y="{height - 6:.0f}" text-anchor="end">confidence of the line</text>',
    ]
    for mark in (0.0, 0.5, 1.0):
        (x, _), (_, y) = place(mark, 0), place(0, mark)
        parts.append(f'<path d="M{EDGE} {y:.1f}H{EDGE + SIDE}" stroke="#d0d7de"/>')
        parts.append(f'<text x="8" y="{y + 4:.1f}">{mark}</text><text x="{x:.1f}" y="{height - 22:.0f}">{mark}</text>')
    (x0, y0), (x1, y1) = place(0, 0), place(1, 1)
    parts.append(f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="#8c959f" stroke-dasharray="4 3"/>')
    for _, group in _binned(lines):
        x, y = place(_mean([line.confidence for line in group]), _mean([line.right for line in group]))
        radius = 3 + 14 * (len(group) / len(lines)) ** 0.5
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="#1f6feb" fill-opacity="0.6"/>')
    return "\n".join([*parts, "</svg>", ""])
