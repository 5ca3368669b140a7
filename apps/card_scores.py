"""What a parser's output is worth against the truth of one row of a benchmark, by this project's own measures.

A figure is a pair (numerator, denominator): ``error rates`` sum edits over lengths, everything else counts one for
each document, so figures of many rows add up by adding the pairs.  Text is compared after NFKC with one form of
dashes and quotes, without zero-width characters and Markdown's marks, white space folded, words joined over a
line-end hyphen.  Nothing raises on odd output: what cannot be understood scores as what it is, plain text.
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from apps.marked_text import Marked, read_marked
from docvision.metrics import edit_distances, shared
from docvision.page import Cell, Table
from docvision.stretches import Stretches
from docvision.table_html import html_to_table, pubtabnet_html
from docvision.table_metrics import neighbour_score
from docvision.teds import teds

Pair = tuple[float, float]
Figures = dict[str, Pair]

FIGURES: dict[str, tuple[str, ...]] = {
    "pdf_text": ("word_recall", "word_precision", "cer", "blocks95", "order"),
    "pdf_table": ("teds", "s_teds", "neighbours", "found"),
    "table_image": ("teds", "s_teds", "neighbours"),
    "page_scan": ("cer", "word_recall", "word_precision"),
    "line": ("cer", "exact"),
    "robust": ("ok", "ended", "text_kept"),
}
"""Kind of a row -> its figures, the one to look at first in front."""
MATCHED = 0.25
"""F1 of the words from which a predicted table is taken for a true one."""
FOUND = 0.5
"""The same from which it counts as found."""
BLOCK_RIGHT, BLOCK_PLACED = 0.05, 0.3
"""Error rates of a block up to which it is right, and up to which its place in the output is known."""
MIN_BLOCK, MIN_PLACED = 4, 20
"""Characters of a block that is looked for, and of one whose place counts."""

_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u00ac"), "-")
_SINGLE = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u02bc\u0060\u00b4"), "'")
_DOUBLE = dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u00ab\u00bb"), '"')
_NOTHING = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"), "")
_SIGNS = {**_DASHES, **_SINGLE, **_DOUBLE, **_NOTHING}
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_LINE_END = re.compile(r"(?<=[^\W\d_])-[ \t]*\n\s*(?=[^\W\d_])")


def fold(text: str) -> str:
    """``text`` as it is compared."""
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    text = " ".join(_LINE_END.sub("", text).split())
    return re.sub(rf"(?<=[{_CJK}]) (?=[{_CJK}])", "", text)


def words(text: str) -> Counter[str]:
    """Words without case; a CJK character is a word."""
    return Counter(_WORD.findall(text.casefold()))


def score(row: Mapping[str, Any], root: Path, output: str, ended: bool = True, plain: bool = False) -> Figures:
    """The figures of one output.

    Args:
        row: of the manifest.
        root: folder of the manifest.
        output: Markdown or plain text; "" where the parser failed.
        ended: the parser came to an end by itself, in time.
        plain: the output is no Markdown, so its signs are text; that of a single line always is. Tables are HTML
            whoever wrote them.

    Raises:
        ValueError: the row's kind has no measure.
        OSError: its truth cannot be read.
    """
    kind = row["kind"]
    if kind not in FIGURES:
        raise ValueError(f"no measure for rows of kind {kind!r}: there are measures for {', '.join(FIGURES)}")
    tables = kind in ("pdf_table", "table_image")
    marked = Marked(output) if kind == "line" or (plain and not tables) else read_marked(output)
    if kind == "robust":
        return _robust(row, marked, ended)
    if tables:
        return _tables(row, root, marked.tables)
    if kind == "pdf_text":
        return _document(row, root, marked)
    return _transcript(row, fold(_truth(row, root, ".txt")), fold(marked.text))


def _truth(row: Mapping[str, Any], root: Path, ending: str) -> str:
    name = next((name for name in row["truth"] if name.endswith(ending)), None)
    return (root / name).read_text("utf-8", errors="replace") if name else ""


# Text


def _bags(found: Counter[str], true: Counter[str], known: Counter[str] | None = None) -> Figures:
    """Recall against ``true``; precision against ``known``, which may hold more."""
    recall = (found & true).total() / true.total() if true else 1.0
    precision = (found & (known or true)).total() / found.total() if found else 0.0
    return {"word_recall": (recall, 1), "word_precision": (precision, 1)}


def _edits(found: str, true: str) -> float:
    """Edits from one to the other, at most all of ``true``: a long output is no worse than none."""
    return min(float(edit_distances([found], [true])[0, 0]), float(len(true)))


def _transcript(row: Mapping[str, Any], true: str, found: str) -> Figures:
    if row.get("medium") == "typewritten":  # the transcribers' marks for insertions and corrections
        true, found = (" ".join(re.sub("[~_^]", "", text).split()) for text in (true, found))
    if row.get("ignore_case"):
        true, found = true.casefold(), found.casefold()
    edits = _edits(found, true)
    if row["kind"] == "line":
        return {"cer": (edits, max(1, len(true))), "exact": (float(found == true), 1)}
    return {"cer": (edits / max(1, len(true)), 1), **_bags(words(found), words(true))}


def _document(row: Mapping[str, Any], root: Path, marked: Marked) -> Figures:
    """Words of the whole document; each true block against the stretch of the output that fits it best."""
    plain = _truth(row, root, ".json")
    blocks = json.loads(plain)["blocks"] if plain else []
    true, found = _without_hyphens(_truth(row, root, ".txt")), _without_hyphens(marked.text)
    references = _without_hyphens("\n".join(block["text"] for block in blocks if block["type"] == "reference"))
    figures = _bags(words(found), words(true), words(true) + words(references))
    stretches = Stretches(found.replace(" ", ""))
    edits, length, right, looked_for, places = 0, 0, 0, 0, []
    expected = 0
    for block in blocks:
        if block["type"] in ("table", "reference") or block.get("has_math"):
            continue
        text = _without_hyphens(block["text"]).replace(" ", "")
        if len(text) < MIN_BLOCK:
            continue
        distance, place = stretches.best(text)
        edits, length, looked_for = edits + distance, length + len(text), looked_for + 1
        right += distance <= BLOCK_RIGHT * len(text)
        if len(text) >= MIN_PLACED and block["type"] not in ("caption", "footnote"):  # these stand where they fit
            expected += 1
            if distance <= BLOCK_PLACED * len(text):
                places.append(place)
    if length:
        figures |= {"cer": (edits / length, 1), "blocks95": (right / looked_for, 1)}
    if expected > 1:
        figures["order"] = (in_order(places), 1)
    return figures


def _without_hyphens(text: str) -> str:
    """Folded, with ``well-known`` as ``wellknown``: a hyphen at a line end cannot be told from one inside a word."""
    return re.sub(r"(?<=[^\W\d_])-(?=[^\W\d_])", "", fold(text))


def in_order(places: Sequence[int]) -> float:
    """Kendall's tau of a sequence of places against their rising order, negative as 0; 0 for fewer than two."""
    pairs = list(combinations(places, 2))
    agreement = sum((second > first) - (second < first) for first, second in pairs)
    return max(0.0, agreement / len(pairs)) if pairs else 0.0


def _robust(row: Mapping[str, Any], marked: Marked, ended: bool) -> Figures:
    figures: Figures = {"ended": (float(ended), 1)}
    ok = ended
    if row.get("expect_text"):
        wanted, there = ("".join(fold(text).casefold().split()) for text in (row["expect_text"], marked.text))
        kept = ended and wanted in there
        figures["text_kept"] = (float(kept), 1)
        ok = ok and kept
    return {"ok": (float(ok), 1), **figures}


# Tables


def _true_tables(row: Mapping[str, Any], root: Path) -> list[Table]:
    page = _truth(row, root, ".html")
    if page:
        found = [html_to_table(part) for part in re.findall(r"<table\b.*?</table>", page, flags=re.DOTALL)]
        return [table for table in found if table is not None]
    tables = []
    for name in row["truth"]:
        with (root / name).open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        cells = [Cell(r, c, text) for r, line in enumerate(rows) for c, text in enumerate(line)]
        tables.append(Table(len(rows), max(map(len, rows), default=0), cells))
    return tables


def _tables(row: Mapping[str, Any], root: Path, found: Sequence[Table]) -> Figures:
    """Means over the true tables; one that was not found counts 0."""
    spans = any(name.endswith(".html") for name in row["truth"])  # a CSV knows of none
    whole = row["kind"] == "table_image"
    true = [_bare(table, spans) for table in _true_tables(row, root)]
    mine = [_bare(table, spans) for table in found if table.cells]
    sums = dict.fromkeys(("teds", "s_teds", "neighbours", "found"), 0.0)
    for index, (partner, overlap) in match_tables(mine, true, 0.0 if whole else MATCHED).items():
        left, right = pubtabnet_html(mine[partner]), pubtabnet_html(true[index])
        sums["teds"] += teds(left, right)
        sums["s_teds"] += teds(left, right, structure_only=True)
        sums["neighbours"] += neighbour_score(mine[partner], true[index], blanks=False).f1
        sums["found"] += overlap >= FOUND
    return {name: (value, len(true)) for name, value in sums.items() if name in FIGURES[row["kind"]]}


def _bare(table: Table, spans: bool) -> Table:
    """Folded texts, no header cells: few parsers and truths know them; without ``spans`` one place for each cell."""
    cells = [replace(cell, text=fold(cell.text), header=False) for cell in table.cells]
    if not spans:
        cells = [replace(cell, row_span=1, column_span=1) for cell in cells]
    return Table(table.rows, table.columns, cells)


def match_tables(found: Sequence[Table], true: Sequence[Table], least: float) -> dict[int, tuple[int, float]]:
    """True table -> (found table, F1 of their words), the most alike first, each at most once."""
    mine, theirs = ([words(" ".join(cell.text for cell in table.cells)) for table in side] for side in (found, true))
    pairs = [
        (shared((left & right).total(), left.total(), right.total()).f1, index, partner)
        for index, right in enumerate(theirs)
        for partner, left in enumerate(mine)
    ]
    matched: dict[int, tuple[int, float]] = {}
    for overlap, index, partner in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if overlap >= least and index not in matched and partner not in {place for place, _ in matched.values()}:
            matched[index] = partner, overlap
    return matched
