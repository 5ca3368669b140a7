"""The score card as Markdown: a table for each kind, in a page of its own or between two marks of another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from apps.card_scores import FIGURES
from apps.scorecard import Row, machine

BEGIN, END = "<!-- scorecard -->", "<!-- end of scorecard -->"
TITLES = {
    "pdf_text": "PDFs with a text layer",
    "pdf_table": "Tables in PDFs",
    "table_image": "Pictures of tables",
    "page_scan": "Page scans",
    "line": "Text lines",
    "robust": "Odd and broken files",
}
MEANINGS = {
    "cer": "CER (character error rate, less is better)",
    "word_recall": "word recall",
    "word_precision": "word precision",
    "blocks95": "blocks95 (blocks at least 95 % right)",
    "order": "order (Kendall's tau of the places of the blocks)",
    "teds": "TEDS",
    "s_teds": "S-TEDS (without texts)",
    "neighbours": "neighbours (F1 of neighbouring filled cells)",
    "found": "found (tables that share half of their words)",
    "exact": "exact (lines without an error)",
    "ok": "ok (ended by itself in time, text kept where some is expected)",
    "ended": "ended",
    "text_kept": "text kept",
}


def tables(card: Sequence[Row]) -> str:
    """All tables, with what the columns mean."""
    parts = [_table([row for row in card if row.kind == kind]) for kind in FIGURES]
    host = machine()
    bases = [row.hello.base_mb for row in card if row.hello.base_mb]
    notes = (
        f"95 % intervals (the same documents drawn again) stand behind the first figure. CPU s/page: processor time on "
        f"one thread, loading left out; x ours: the same relative to docvision on the documents that both have read. "
        f"Memory: peak of the process; of libraries, {min(bases):.0f} MB are Python and the runner."
        if bases
        else ""
    )
    notes += (
        f" Disk: the parser with its models, and with all that pip installs for it. {host['system']}, {host['cores']} "
        f"cores, Python {host['python']}."
    )
    return "\n".join([*(part for part in parts if part), notes.strip(), ""])


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    kind = rows[0].kind
    names = [name for name in FIGURES[kind] if any(name in row.figures for row in rows)]
    media = list(dict.fromkeys(medium for row in rows for medium in row.groups))
    count = max(row.documents for row in rows)
    first = FIGURES[kind][0]
    head = [f"{TITLES[kind]} ({count})", *(_short(name) for name in names), *(f"{_short(first)} {m}" for m in media)]
    head += ["unread", "CPU s/page", "x ours", "memory MB", "disk MB"]
    body = [_cells(row, names, media) for row in rows]
    lines = ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body]]
    meant = "; ".join(MEANINGS[name] for name in names)
    return "\n".join([*lines, "", f"{meant[0].upper()}{meant[1:]}.", ""])


def _short(name: str) -> str:
    return MEANINGS[name].partition(" (")[0]


def _cells(row: Row, names: Sequence[str], media: Sequence[str]) -> list[str]:
    empty = [""] * (len(names) + len(media) + 4)
    if not row.hello.installed:
        return [row.peer, *empty, "not installed"]
    figures = []
    for place, name in enumerate(names):
        found = row.figures.get(name)
        shown = f"{found['value']:.3f}" if found else ""
        figures.append(f"{shown} ({found['low']:.3f} to {found['high']:.3f})" if found and not place else shown)
    groups = [f"{row.groups[medium]:.3f}" if medium in row.groups else "" for medium in media]
    version = row.hello.version.partition("+")[0]
    cost = [_number(row.seconds_a_page, 3), _number(row.times_ours, 2), _number(row.peak_mb, 0)]
    own, everything = row.hello.own_mb, row.hello.all_mb
    disk = "" if own is None else f"{own:.0f}" if own == everything else f"{own:.0f}, {everything:.0f}"
    return [f"{row.peer} {version}", *figures, *groups, str(row.unread), *cost, disk]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def placed(page: str, path: Path) -> str:
    """The content of ``path`` with the tables: between its marks, else a page of its own.

    Raises:
        ValueError: the file is there and has no marks, so that it would be lost.
    """
    marked = f"{BEGIN}\n{page}{END}"
    if not path.exists():
        return f"# Score card\n\n{marked}\n"
    text = path.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no lines {BEGIN} and {END}, between which the tables go: add them")
    return before + marked + after
