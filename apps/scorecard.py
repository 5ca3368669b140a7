"""The score card: docvision and its peers on every kind of a benchmark, quality, time, memory and size.

    docvision bench scorecard --bench DIR --json card.json --markdown docs/scorecard.md

DIR holds ``manifest.jsonl`` and what it names.  Each peer reads in a process of its own (peer_process.py) with its
defaults on one thread; one that is not installed is shown as such.  What a peer made of a file is kept in the cache
folder by the peer's version and the file's content, so an interrupted card goes on, and one made after a change to
the parser reads again with the parser alone.  Figures are those of card_scores.py with 95 % bootstrap intervals.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from apps import card_scores, marked_text
from apps.bench import request_of
from apps.card_scores import FIGURES, Figures, Pair, score
from apps.outputs import write_atomic
from apps.peer_process import Hello, PeerProcess, Reading
from apps.peers import OURS, PEERS, Peer
from docvision import metrics, stretches, table_html, table_metrics, teds

RESAMPLES = 1000
RULERS = (card_scores, marked_text, metrics, stretches, table_html, table_metrics, teds)
"""What figures depend on; a change to any of them scores kept outputs again."""


@dataclass(frozen=True)
class Wish:
    """What is to be measured, and how."""

    bench: Path
    kinds: Sequence[str] = ()
    """Empty for all that the manifest has."""
    peers: Sequence[str] = ()
    """Empty for all; docvision is always there."""
    limit: int = 0
    """Documents of each kind, spread over the manifest; 0 for all."""
    cache: Path = Path("build/scorecard")
    time_limit: float = 300.0
    """Seconds for one document."""
    peers_python: str = sys.executable
    """Interpreter of the environment that has the peers; docvision runs in this one."""


@dataclass
class Row:
    """One parser on one kind."""

    kind: str
    peer: str
    hello: Hello
    install: str
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """Name -> ``value``, ``low``, ``high`` (95 %) and ``documents``."""
    groups: dict[str, float] = field(default_factory=dict)
    """Medium -> the first figure, where the kind has several media."""
    documents: int = 0
    unread: int = 0
    pages: int = 0
    seconds_a_page: float | None = None
    """Processor time, over all documents."""
    times_ours: float | None = None
    """That, relative to docvision on the same documents."""
    peak_mb: float | None = None


def make_card(wish: Wish, peers: Mapping[str, Peer] = PEERS, say: Callable[[str], None] = lambda m: None) -> list[Row]:
    """Read what has not been read, score, sum up.

    Args:
        wish: what to measure.
        peers: name -> peer, in the order of the rows.
        say: told what is being read.

    Raises:
        ValueError: no manifest, or nothing in it that was asked for.
    """
    rows = _chosen(wish)
    names = [name for name in peers if not wish.peers or name in wish.peers or name == OURS]
    card: list[Row] = []
    for kind in FIGURES:
        documents = [row for row in rows if row["kind"] == kind]
        first: dict[str, Reading] = {}
        for name in names if documents else ():
            peer = peers[name]
            if kind not in peer.engines:
                continue
            row, readings = _measure(wish, peer, kind, documents, say)
            card.append(row)
            first = first or readings
            row.times_ours = _ratio(readings, first)
    return card


def _chosen(wish: Wish) -> list[dict[str, Any]]:
    manifest = wish.bench / "manifest.jsonl"
    if not manifest.is_file():
        raise ValueError(f"no {manifest}: --bench names the folder of a benchmark with its manifest.jsonl")
    rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines() if line.strip()]
    rows = [row for row in rows if row["kind"] in FIGURES]
    there = sorted({row["kind"] for row in rows})
    if unknown := [kind for kind in wish.kinds if kind not in there]:
        raise ValueError(f"{manifest} has no rows of kind {unknown[0]!r} to score: use some of {', '.join(there)}")
    chosen = []
    for kind in wish.kinds or there:
        mine = [row for row in rows if row["kind"] == kind]
        count = min(wish.limit or len(mine), len(mine))
        chosen += [mine[int((number + 0.5) * len(mine) / count)] for number in range(count)]
    return chosen


def _measure(
    wish: Wish, peer: Peer, kind: str, documents: Sequence[Mapping[str, Any]], say: Callable[[str], None]
) -> tuple[Row, dict[str, Reading]]:
    python = sys.executable if peer.name == OURS else wish.peers_python
    readings: dict[str, Reading] = {}
    figures: dict[str, Figures] = {}
    with PeerProcess(peer.name, kind, python) as process:
        hello = process.hello()
        row = Row(kind, peer.name, hello, peer.install)
        if not hello.installed:
            say(f"{kind}: {peer.name} is not installed: {peer.install}")
            return row, readings
        store = Store(wish.cache, peer.name, hello.version)
        warm = False
        for document in documents:
            request = request_of(document, wish.bench)
            kept = store.find(document, request.path)
            if kept is None:
                if not warm:  # loading a model is not reading a page
                    warm = process.read(request, wish.time_limit).status == "ok"
                say(f"{kind}: {peer.name} reads {document['id']}")
                kept = process.read(request, wish.time_limit)
                store.keep(document, request.path, kept)
            readings[document["id"]] = kept
            figures[document["id"]] = store.score(document, wish.bench, kept, peer.plain)
    _sum_up(row, documents, readings, figures)
    return row, readings


@dataclass(frozen=True)
class Store:
    """Readings of one peer and their figures, kept on disk."""

    cache: Path
    peer: str
    version: str

    def _path(self, document: Mapping[str, Any], file: Path) -> Path:
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        asked = [self.version, content, document["kind"]]
        asked += [str(document.get(name) or "") for name in ("page", "password", "lang")]
        key = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:16]
        return self.cache / self.peer / f"{document['id']}-{key}.json"

    def find(self, document: Mapping[str, Any], file: Path) -> Reading | None:
        """What was kept of this very file and version; None where there is none."""
        try:
            return Reading(**json.loads(self._path(document, file).read_text("utf-8"))["reading"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, document: Mapping[str, Any], file: Path, reading: Reading) -> None:
        path = self._path(document, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, [json.dumps({"reading": asdict(reading)}, indent=1).encode()])

    def score(self, document: Mapping[str, Any], root: Path, reading: Reading, plain: bool) -> Figures:
        """Figures, kept as long as neither the output nor the measures change."""
        path = self._path(document, root / document["file"])
        ruler = ruler_fingerprint()
        held = json.loads(path.read_text("utf-8"))
        if held.get("ruler") != ruler:
            found = score(document, root, reading.text, reading.status in ("ok", "failed"), plain)
            held |= {"ruler": ruler, "figures": {name: list(pair) for name, pair in found.items()}}
            write_atomic(path, [json.dumps(held, indent=1).encode()])
        return {name: (pair[0], pair[1]) for name, pair in held["figures"].items()}


def ruler_fingerprint() -> str:
    """Changes with any line of the measures."""
    sources = (Path(str(module.__file__)).read_bytes() for module in RULERS)
    return hashlib.sha256(b"".join(sources)).hexdigest()[:8]


def _sum_up(
    row: Row, documents: Sequence[Mapping[str, Any]], readings: Mapping[str, Reading], figures: Mapping[str, Figures]
) -> None:
    for name in FIGURES[row.kind]:
        pairs = [found[name] for found in figures.values() if name in found]
        if pairs:
            row.figures[name] = estimate(pairs)
    media = sorted({document.get("medium") or "" for document in documents})
    for medium in media if len(media) > 1 else ():
        ids = [document["id"] for document in documents if (document.get("medium") or "") == medium]
        pairs = [figures[id_][FIGURES[row.kind][0]] for id_ in ids if FIGURES[row.kind][0] in figures[id_]]
        if pairs:
            row.groups[medium or "other"] = _value(pairs)
    row.documents = len(readings)
    row.unread = sum(reading.status != "ok" for reading in readings.values())
    read = [reading for reading in readings.values() if reading.status == "ok"]
    row.pages = sum(reading.pages for reading in read)
    if row.pages:
        row.seconds_a_page = sum(reading.seconds for reading in read) / row.pages
    row.peak_mb = max((reading.peak_mb for reading in read if reading.peak_mb), default=None)


def _value(pairs: Sequence[Pair]) -> float:
    return sum(pair[0] for pair in pairs) / max(sum(pair[1] for pair in pairs), 1e-9)


def estimate(pairs: Sequence[Pair], seed: int = 0) -> dict[str, float]:
    """A figure over documents with the 95 % interval of the documents being drawn again."""
    above, below = np.array(pairs, dtype=np.float64).T
    drawn = np.random.default_rng(seed).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), size=RESAMPLES)
    low, high = np.quantile((drawn @ above) / np.maximum(drawn @ below, 1e-9), [0.025, 0.975])
    return {"value": _value(pairs), "low": float(low), "high": float(high), "documents": len(pairs)}


def _ratio(readings: Mapping[str, Reading], ours: Mapping[str, Reading]) -> float | None:
    """Processor time over that of ``ours`` on the documents that both have read."""
    both = [name for name, reading in readings.items() if reading.status == "ok" and name in ours]
    both = [name for name in both if ours[name].status == "ok"]
    mine, theirs = (sum(side[name].seconds for name in both) for side in (readings, ours))
    return mine / theirs if theirs else None


def machine() -> dict[str, Any]:
    """Where the times were taken."""
    return {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()}


def to_json(card: Sequence[Row], wish: Wish) -> str:
    """The whole card; figures as they are, unrounded."""
    said = {"limit": wish.limit, "time_limit": wish.time_limit, "machine": machine()}
    return json.dumps({**said, "rows": [asdict(row) for row in card]}, indent=1) + "\n"
