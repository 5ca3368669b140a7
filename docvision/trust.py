"""Is a PDF's text layer what the page shows?

Two checks.  The cheap one looks at the words alone: characters without a meaning, text decoded with the wrong
table, letters that form no words (a font whose map to Unicode is missing gives "7KLV LV" for "This is").  It runs
on every page.  The other reads a few lines off the picture and compares; it costs a raster and a forward pass, so
it runs where the cheap check is not enough (an OCR layer under a scan) or where the reader is in use anyway.

Only scripts that the reader knows are compared: it must not talk a Japanese layer down.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docvision.metrics import edit_distance
from docvision.page import Block, Line, Word

MAX_MEANINGLESS = 0.08
"""Share of characters without a meaning that a layer may have: symbol fonts of bullets and formulas need some."""
PROOF_MEANINGLESS = 0.3
MIN_VOWELS, MIN_LETTERS = 0.25, 200
"""Share of vowels among so many letters; Latin-script languages have a third and more."""
MAX_MOJIBAKE = 0.02
"""Share of words with traces of UTF-8 read as Latin-1."""
MIN_PLAUSIBLE = 0.5
"""Share of Latin words that must look like words; codes, formulas and abbreviations stay well above it."""
MIN_WORDS = 20
"""With fewer words no share means anything."""
JUDGED_WORDS = 250
"""Words of a page that are looked at one by one, spread over it: enough for every share above."""
MAX_DISAGREEMENT = 0.7
"""Character error rate between layer and reader above which the layer is wrong. The reader alone errs by less
even where the line boxes of an OCR layer sit badly; another text than the one shown gives 0.8 and more."""
MIN_SURE, MIN_WITNESSES = 0.8, 2
"""Confidence that makes a reading a witness against the layer, and how many it takes."""
SAMPLE_LINES = 6
MIN_SAMPLE_LETTERS = 8

_MOJIBAKE = re.compile(
    "[\u00c2\u00c3][\u0080-\u00bf]|\u00e2(\u20ac|\u0080)|\u00c3[\u2018-\u2030\u0152\u0153\u0160\u0161]"
)
_LATIN_WORD = re.compile(r"[^\W\d_]+(?:['\u2019.-][^\W\d_]+)*")
_NUMBER = re.compile(r"[\W_]*\d[\d.,:/%+\-\u2013\u2212]*[\W_]*")
_VOWELS = frozenset("aeiouyAEIOUY")
_EDGES = "".join(chr(code) for code in range(0x21, 0x7F) if not chr(code).isalnum()) + (
    "\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2013\u2014\u2026\u2022\u00b7\u2020\u00a7\u00b0\u2032"
)


@dataclass(frozen=True)
class Suspicion:
    """What speaks against a text layer."""

    reason: str
    proof: bool = False
    """It cannot be right, whatever the picture shows."""


def suspect(words: Sequence[Word]) -> Suspicion | None:
    """Why the words may not be what the page shows, or None when nothing speaks against them."""
    text = "".join(word.text for word in words)
    if not text:
        return None
    meaningless = sum(unicodedata.category(char) in ("Co", "Cn", "Cc", "Cs") or char == "\ufffd" for char in text)
    if meaningless > MAX_MEANINGLESS * len(text):
        proof = meaningless > PROOF_MEANINGLESS * len(text)
        return Suspicion(f"{meaningless / len(text):.0%} of its characters have no meaning", proof)
    if len(words) < MIN_WORDS:
        return None
    words = words[:: -(-len(words) // JUDGED_WORDS)]
    broken = sum(bool(_MOJIBAKE.search(word.text)) for word in words)
    if broken > MAX_MOJIBAKE * len(words):
        return Suspicion(f"{broken / len(words):.0%} of its words are text decoded with the wrong table")
    judged = [verdict for verdict in (_plausible(word.text) for word in words) if verdict is not None]
    if len(judged) >= MIN_WORDS and sum(judged) < MIN_PLAUSIBLE * len(judged):
        return Suspicion(f"{1 - sum(judged) / len(judged):.0%} of its words are no words")
    text = unicodedata.normalize("NFD", "".join(word.text for word in words))
    letters = [char for char in text if char.isalpha() and is_latin(char)]
    vowels = sum(char in _VOWELS for char in letters)
    if len(letters) >= MIN_LETTERS and vowels < MIN_VOWELS * len(letters):
        return Suspicion(f"only {vowels / len(letters):.0%} of its letters are vowels")
    return None


def _plausible(token: str) -> bool | None:
    """Whether a token looks like a Latin word; None for numbers, single signs and other scripts."""
    token = token.strip(_EDGES)
    if not token or _NUMBER.fullmatch(token) or not any(char.isalpha() for char in token):
        # Punctuation alone says nothing, but several signs in a row are what a broken map makes.
        return None
    if any(char.isalpha() and not is_latin(char) for char in token):
        return None
    if len(token) == 1:
        return None
    if not _LATIN_WORD.fullmatch(token):
        return False
    plain = unicodedata.normalize("NFD", token)
    return len(token) <= 3 or any(char in _VOWELS for char in plain)


def is_latin(char: str) -> bool:
    return char < "\u0250" or "\u1e00" <= char < "\u1f00" or "\ufb00" <= char < "\ufb07"


def sample_lines(blocks: Iterable[Block], fonts: frozenset[str] = frozenset()) -> list[Line]:
    """Lines to read for the comparison, spread over the page; none where the reader knows too little of the script.

    Args:
        blocks: the page's layout.
        fonts: fonts that were found good before; lines set in them alone are left out.
    """
    lines = [line for block in blocks for line in block.lines if line.words and abs(line.angle) < 1]
    usable = [line for line in lines if _comparable(line.text) and not line_fonts(line) <= fonts]
    if len(usable) <= SAMPLE_LINES:
        return usable
    step = len(usable) / SAMPLE_LINES
    return [usable[int((number + 0.5) * step)] for number in range(SAMPLE_LINES)]


def line_fonts(line: Line) -> set[str]:
    """Fonts that set more than a word or two of a line."""
    counts = Counter[str]()
    for word in line.words:
        counts[word.font] += len(word.text)
    total = sum(counts.values())
    return {font for font, count in counts.items() if count * 4 >= total}


def _comparable(text: str) -> bool:
    letters = [char for char in text if char.isalnum()]
    return len(letters) >= MIN_SAMPLE_LETTERS and sum(map(is_latin, letters)) > 0.9 * len(letters)


def disagreement(layer: Sequence[str], read: Sequence[tuple[str, float]]) -> float | None:
    """Character error rate between the layer's lines and the reader's, in [0, 1]; case and spaces do not count.

    A line that the reader is not sure of proves nothing and is left out; None when fewer than two are left.

    Args:
        layer: lines of the text layer.
        read: text and confidence of the same lines, read off the picture.
    """
    sure = [
        (expected, text) for expected, (text, confidence) in zip(layer, read, strict=True) if confidence >= MIN_SURE
    ]
    if len(sure) < MIN_WITNESSES:
        return None
    errors = total = 0
    for expected, text in sure:
        left, right = _fold(expected), _fold(text)
        errors += min(edit_distance(left, right), len(left))
        total += len(left)
    return errors / total if total else None


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(char for char in plain if not char.isspace() and not unicodedata.combining(char))
