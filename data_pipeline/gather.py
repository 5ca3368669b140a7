"""Answers to rows: the vote on every region, duplicates out, Parquet files, the counts.

Takes the files that :mod:`annotate` wrote for single pages, in order, and costs no reading: another threshold is
another gathering.  A region is a duplicate of an earlier one if their perceptual hashes are close, their shapes alike
and their texts agree; a region with a label is compared with labelled ones only, so a label is never lost to a region
without one.  Kept texts stay in memory for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_pipeline.consensus import Candidate, Verdict, normalise, text_similarity, vote
from data_pipeline.page_rows import IMAGE, write_parts
from data_pipeline.phash import HashIndex

ROW_SCHEMA = pa.schema(
    [
        ("image", IMAGE), ("text", pa.string()), ("kind", pa.string()),
        ("source", pa.string()), ("page", pa.int32()), ("region", pa.int32()),
        ("box", pa.struct([(side, pa.float32()) for side in ("x0", "y0", "x1", "y1")])),
        ("angle", pa.float32()), ("width", pa.int32()), ("height", pa.int32()),
        ("candidates", pa.list_(pa.struct([
            ("annotator", pa.string()), ("text", pa.string()), ("error", pa.string()), ("similarity", pa.float32()),
        ]))),
        ("decision", pa.string()), ("reason", pa.string()), ("hash", pa.string()), ("index", pa.int64()),
    ]
)  # fmt: skip
"""``box`` is in pixels of the page picture after it was straightened by ``angle``; ``text`` is null unless kept."""
SAME_SHAPE = 0.1
"""Largest relative difference of width to height of two duplicates."""


@dataclass(frozen=True)
class Votes:
    """What counts as agreement and as a duplicate."""

    threshold: float = 0.95
    """Least edit similarity of texts that agree."""
    table_threshold: float = 0.9
    """Least similarity of tables that agree."""
    hamming: int = 4
    """Most bits of 64 in which the hashes of duplicates differ."""

    def __post_init__(self) -> None:
        for name in ("threshold", "table_threshold"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}: use a similarity above 0 and at most 1")
        HashIndex(self.hamming)

    def least(self, kind: str) -> float:
        return self.table_threshold if kind == "table" else self.threshold


MAJORITY = Votes()


def gather(files: Iterable[Path], out: Path, votes: Votes, summary: dict[str, Any]) -> dict[str, Any]:
    """Decide on all regions and write them.

    Args:
        files: page files in order.
        out: folder for ``part-*.parquet`` and the marker.
        votes: thresholds.
        summary: more for the marker.

    Returns:
        The marker's counts: rows by decision and by kind, reasons, answers and errors by annotator.
    """
    decisions: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    counts: dict[str, Any] = {}

    def decided() -> Iterator[dict[str, Any]]:
        duplicates = Duplicates(votes)
        for index, row in enumerate(_rows(files)):
            _decide(row, votes)
            duplicates.check(row, index)
            row["index"] = index
            decisions[row["decision"]] += 1
            reasons[f"{row['decision']}: {row['reason'].split(' of region')[0].split(', the closest')[0]}"] += 1
            kinds[row["kind"]] += row["decision"] == "keep"
            errors.update(one["annotator"] for one in row["candidates"] if one["error"])
            yield row
        # The marker is written after the last row, so it sees the whole counts.
        counts.update(decisions=dict(decisions), reasons=dict(reasons), kept=dict(kinds), errors=dict(errors))

    counts.update(summary)
    write_parts(out, decided(), ROW_SCHEMA, counts)
    return counts


def _rows(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        yield from pq.read_table(path, schema=ROW_SCHEMA).to_pylist()


def _decide(row: dict[str, Any], votes: Votes) -> None:
    """Fill in decision, reason, text and similarities, unless the row was dropped before anyone read it."""
    if row["decision"]:
        return
    given = [Candidate(one["annotator"], one["text"], one["error"]) for one in row["candidates"]]
    verdict: Verdict = vote(given, row["kind"], votes.least(row["kind"]))
    row.update(decision=verdict.decision, reason=verdict.reason, text=verdict.text or None)
    for one, similarity in zip(row["candidates"], verdict.similarities, strict=True):
        one["similarity"] = similarity


@dataclass(frozen=True)
class _Seen:
    index: int
    text: str
    shape: float
    kept: bool


class Duplicates:
    """Regions seen so far; turns later ones that look and say the same into dropped rows."""

    def __init__(self, votes: Votes) -> None:
        self.votes = votes
        self._index = HashIndex(votes.hamming)
        self._seen: list[_Seen] = []

    def check(self, row: dict[str, Any], index: int) -> None:
        """Drop ``row`` if it is a duplicate, else remember it."""
        if row["decision"] not in ("keep", "hard"):
            return
        value, shape = int(row["hash"], 16), row["width"] / row["height"]
        kept = row["decision"] == "keep"
        said = row["text"] or next((one["text"] for one in row["candidates"] if one["text"]), "")
        text = normalise(said)
        for gap, item in self._index.near(value):
            other = self._seen[item]
            alike = abs(shape - other.shape) <= SAME_SHAPE * max(shape, other.shape)
            if not alike or (kept and not other.kept):
                continue
            if text_similarity(text, other.text) >= self.votes.threshold:
                row.update(
                    decision="drop", text=None, reason=f"duplicate of region {other.index}, {gap} bits of 64 apart"
                )
                return
        self._index.add(value, len(self._seen))
        self._seen.append(_Seen(index, text, shape, kept))
