"""A Document as passages for search and retrieval: JSON Lines, a passage a line, with its headings, pages and boxes.

A passage stays under one heading and within a size; a table is one of its own, whatever its size.  Every word of the
Markdown export stands in exactly one passage.  A heading is part of the first passage under it, so that a heading
with nothing below it is found too; all passages name the headings above them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from docvision.export import block_code, split_marker, table_to_markdown
from docvision.markdown import clean
from docvision.page import Block, Box, Document, Page
from docvision.table_join import whole_tables

MAX_CHARACTERS = 1500
"""Of a passage's text; about 300 words."""
_FURNITURE = ("header", "footer")


@dataclass(frozen=True)
class Place:
    """Where a block of a passage stands."""

    page: int
    box: Box
    kind: str


@dataclass
class Passage:
    """Text that belongs together."""

    text: str
    headings: list[str] = field(default_factory=list)
    """From the highest to the one right above."""
    places: list[Place] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    """``text-layer``, ``model`` or both."""
    confidence: float = 1.0
    """Of its least certain block."""


def passages(document: Document, max_characters: int = MAX_CHARACTERS) -> Iterator[Passage]:
    """The document's passages in reading order.

    Args:
        document: what to cut.
        max_characters: a passage ends before the block that would make it longer; a longer block is cut between
            sentences, else between words.
    """
    path: list[tuple[int, str]] = []
    held: Passage | None = None
    whole = whole_tables(document)
    for page in document.pages:
        for _, block in whole(page):
            text = _text(block)
            if block.kind in _FURNITURE or not text.strip():
                continue
            if block.kind == "heading":
                if held and not _only_headings(held):
                    yield held
                    held = None
                level = max(block.level, 1)
                path = [item for item in path if item[0] < level] + [(level, text)]
            headings = [name for _, name in path]
            above = len(held.text) + 2 if held and _only_headings(held) else 0
            room = max(max_characters - above, max_characters // 2)
            for piece in [text] if block.kind in ("table", "heading") else _cut(text, room):
                alone = block.kind == "table" or (held is not None and held.places[-1].kind == "table")
                too_long = held is not None and len(held.text) + 2 + len(piece) > max_characters
                if held and (alone or too_long) and not _only_headings(held):
                    yield held
                    held = None
                held = _add(held or Passage(""), piece, headings, page, block)
    if held:
        yield held


def to_jsonl(document: Document, max_characters: int = MAX_CHARACTERS) -> Iterator[str]:
    """A line of JSON a passage: id, source, text, headings, pages, places, sources, confidence."""
    for number, passage in enumerate(passages(document, max_characters), start=1):
        pages = sorted({place.page for place in passage.places})
        entry = {"id": f"{document.source}#{number}", "source": document.source, **asdict(passage), "pages": pages}
        yield json.dumps(entry, ensure_ascii=False) + "\n"


def _add(held: Passage, text: str, headings: Sequence[str], page: Page, block: Block) -> Passage:
    held.text = f"{held.text}\n\n{text}" if held.text else text
    held.headings = list(headings)
    place = Place(page.number, block.box.rounded(), block.kind)
    if place not in held.places:
        held.places.append(place)
    if block.source not in held.sources:
        held.sources.append(block.source)
    held.confidence = round(min(held.confidence, block.confidence), 4)
    return held


def _only_headings(passage: Passage) -> bool:
    return all(place.kind == "heading" for place in passage.places)


def _text(block: Block) -> str:
    if block.kind == "table" and block.table is not None:
        return table_to_markdown(block.table)
    if block.kind == "code":
        return block_code(block)
    return " ".join(" ".join(split_marker(block)).split()) if block.kind != "table" else clean(block.text)


def _cut(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most ``limit`` characters, cut after sentences where there are any, else between words."""
    while len(text) > limit:
        window = text[: limit + 1]
        ends = [match.end() for match in re.finditer(r"[.!?\u3002\uff01\uff1f][)\"'\u201d\u2019]?\s", window)]
        spaces = [match.start() for match in re.finditer(r"\s", window)]
        end = next((place for place in (*ends[-1:], *spaces[-1:]) if place > limit // 3), limit)
        yield text[:end].rstrip()
        text = text[end:].lstrip()
    if text:
        yield text
