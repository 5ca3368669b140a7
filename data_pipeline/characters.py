"""The characters that truth may hold, and text brought into one form.

Every string of a truth is normalised: NFC, one kind of space, look-alikes written in one way, only characters of
:data:`CHARACTERS`.
"""

from __future__ import annotations

import hashlib
import unicodedata

from docvision.tokens import CHARACTERS as VOCABULARY

CHARACTERS = frozenset(VOCABULARY)

# Characters that a picture cannot tell apart are written in one way, or the truth would contradict itself.
LOOKALIKES = str.maketrans({
    "‐": "-", "‑": "-", "‒": "–", "―": "—", "─": "—", "μ": "µ", "∆": "Δ", "∘": "°", "∙": "·", "⋅": "·", "∗": "*",
    "∼": "~", "│": "|", "‛": "‘", "‟": "“", "⁄": "/", "ĳ": "ij", "Ĳ": "IJ", "ŀ": "l·", "Ŀ": "L·", "ﬁ": "fi", "ﬂ": "fl",
    "ﬀ": "ff", "ﬃ": "ffi", "ﬄ": "ffl", "\xad": None, "◦": "○", "▪": "■", "▫": "□", "✔": "✓", "✘": "✗",
    "ĸ": "κ", "‣": "▶",
})  # fmt: skip
UNLIKE = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧουικ" + "Ð¨¯¸´"
"""Letters that look like Latin ones, and spacing accents: they come from real text only, never by chance."""


def normalise(text: str) -> str:
    """NFC, look-alikes folded, single spaces, without anything outside :data:`CHARACTERS`."""
    text = " ".join(unicodedata.normalize("NFC", text).translate(LOOKALIKES).split())
    if not CHARACTERS.issuperset(text):
        text = "".join(character for character in text if character in CHARACTERS or character == " ")
        text = " ".join(text.split())
    return text


def hash_text(text: str) -> int:
    """A hash that does not change from process to process, unlike ``hash``."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
