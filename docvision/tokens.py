"""The vocabulary: one set of token ids for text, HTML tags, coordinates, prompts and registers.

Layout of the ids, fixed for ever once weights exist (a checkpoint stores :func:`Vocabulary.fingerprint`):

    0                  padding, which is also the CTC blank
    1 .. C             characters, so the CTC head's classes 0..C are token ids as they stand
    C+1 .. C+256       bytes: any character outside the set is spelled in UTF-8
    then               special tokens, HTML tags, span attributes, x bins, y bins

A table tag is one token (``<td>``); a cell with spans opens with ``<td``, the attributes, and ``>``.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property

ASCII = "".join(chr(code) for code in range(0x20, 0x7F))
LATIN_1 = "".join(chr(code) for code in range(0xA1, 0x100) if code != 0xAD)
LATIN_EXTENDED = "".join(chr(code) for code in range(0x100, 0x180) if chr(code) not in "ŉſ") + "ſƒȘșȚțẞ"
GREEK = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρςστυφχψω"
PUNCTUATION = "‐‑‒–—―‖‘’‚‛“”„‟†‡•‣…‰′″‹›※⁄"
CURRENCY = "₣₤₦₩₪₫€₱₹₺₽₿"
MATH = "⁰⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉ℓ№℗™Ωℵ⅓⅔⅛⅜⅝⅞←↑→↓↔⇐⇒⇔∀∂∃∅∆∇∈∉∏∑−∓∗∘√∝∞∠∧∨∩∪∫∴∼≅≈≠≡≤≥≪≫⊂⊃⊆⊇⊕⊗⊥⋅"
SHAPES = "─│■□▪▫▲△▶▼◆◇○●◦★☆☐☑☒♀♂♠♣♥♦✓✔✗✘"

CHARACTERS = "".join(
    dict.fromkeys(ASCII + LATIN_1 + LATIN_EXTENDED + GREEK + PUNCTUATION + CURRENCY + MATH + SHAPES).keys()
)
"""Every character with a token of its own, in id order (id = index + 1)."""

SPECIALS = ("<bos>", "<eos>", "<unk>", "<register>")
PROMPTS = tuple(f"<prompt:{task}>" for task in ("text", "block", "table", "structure", "row", "column", "cell", "find"))
TAGS = (
    "<table>", "</table>", "<thead>", "</thead>", "<tbody>", "</tbody>", "<tr>", "</tr>", "<td>", "</td>", "<td", ">",
    "<b>", "</b>", "<i>", "</i>", "<sup>", "</sup>", "<sub>", "</sub>", "<br>",
)  # fmt: skip
MAX_SPAN = 30
SPANS = tuple(f'{name}="{value}"' for name in ("colspan", "rowspan") for value in range(2, MAX_SPAN + 1))
COORDINATE_BINS = 640

PAD = 0
BLANK = 0


def normalise_text(text: str) -> str:
    """Text as the models write it: NFC, every kind of white space one space, no control or zero-width characters.

    Soft hyphens vanish; ligature letters (U+FB00..FB06) are spelled out.
    """
    text = unicodedata.normalize("NFC", "".join(_LIGATURES.get(char, char) for char in text))
    kept = (" " if char.isspace() else char for char in text if char.isspace() or _is_visible(char))
    return " ".join("".join(kept).split())


_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}


def _is_visible(char: str) -> bool:
    return char != "\xad" and unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")


class Vocabulary:
    """Token strings to ids and back.

    Args:
        characters: the characters that have their own token.
        bins: number of coordinate tokens on each axis.
    """

    def __init__(self, characters: str = CHARACTERS, bins: int = COORDINATE_BINS) -> None:
        if len(set(characters)) != len(characters):
            raise ValueError("characters repeat in the vocabulary: give each of them once")
        self.characters = characters
        self.bins = bins
        self.first_byte = 1 + len(characters)
        names = [f"<0x{value:02X}>" for value in range(256)]
        names += [*SPECIALS, *PROMPTS, *TAGS, *SPANS]
        names += [f"<x_{value}>" for value in range(bins)] + [f"<y_{value}>" for value in range(bins)]
        self.names = ["<pad>", *characters, *names]
        self.ids = {name: index for index, name in enumerate(self.names) if index < self.first_byte}
        self.ids.update({name: self.first_byte + index for index, name in enumerate(names) if name != ">"})
        self.bos, self.eos, self.unk, self.register = (self.ids[name] for name in SPECIALS)
        self.first_x = self.ids["<x_0>"]
        self.first_y = self.ids["<y_0>"]
        self.close_bracket = self.first_byte + 256 + len(SPECIALS) + len(PROMPTS) + TAGS.index(">")
        """The ``>`` that ends ``<td colspan="2"``; the character ``>`` is another token."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def ctc_classes(self) -> int:
        """The blank and the characters: ids 0 .. ctc_classes - 1."""
        return self.first_byte

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of the id layout; weights made with another layout must not be read with this one."""
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; characters outside the set become their UTF-8 bytes."""
        ids: list[int] = []
        for char in text:
            index = self.ids.get(char)
            if index is not None:
                ids.append(index)
            else:
                ids.extend(self.first_byte + value for value in char.encode("utf-8", "replace"))
        return ids

    def encode_ctc(self, text: str) -> list[int]:
        """Ids for the CTC head, which has no bytes: characters outside the set are left out."""
        return [self.ids[char] for char in text if char in self.ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids up to ``<eos>``; padding and special tokens are skipped, tags are written as they are.

        Broken byte sequences come out as U+FFFD, never as an exception.
        """
        out: list[str] = []
        pending = bytearray()
        for index in ids:
            if index == self.eos:
                break
            if self.first_byte <= index < self.first_byte + 256:
                pending.append(index - self.first_byte)
                continue
            if pending:
                out.append(pending.decode("utf-8", "replace"))
                pending.clear()
            if 0 < index < self.first_byte or index > self.register:
                out.append(self.names[index])
        if pending:
            out.append(pending.decode("utf-8", "replace"))
        return "".join(out)

    def decode_ctc(self, path: Sequence[int]) -> str:
        """Best-path CTC decoding: repeats collapsed, blanks removed."""
        previous = BLANK
        out = []
        for index in path:
            if index not in (previous, BLANK):
                out.append(self.names[index])
            previous = index
        return "".join(out)

    def x(self, value: int) -> int:
        """Token id of x bin ``value``, clamped to the range that exists."""
        return self.first_x + min(max(value, 0), self.bins - 1)

    def y(self, value: int) -> int:
        return self.first_y + min(max(value, 0), self.bins - 1)
