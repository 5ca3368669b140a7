"""What a line says: stretches of running text, restyled and fitted to the characters of a face.

Running text comes from :mod:`data_pipeline.corpus`; generated strings (names, amounts, dates) from
:mod:`data_pipeline.fields`.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import numpy as np

from data_pipeline.characters import CHARACTERS, LOOKALIKES, UNLIKE, hash_text, normalise
from data_pipeline.corpus import Corpus, load_corpus

__all__ = [
    "CHARACTERS",
    "Corpus",
    "fit",
    "hash_text",
    "load_corpus",
    "normalise",
    "old_print",
    "restyle",
    "running",
    "sprinkle",
]

_PLAINER = {
    "’": "'", "‘": "'", "‚": ",", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "–": "-", "—": "-", "‐": "-", "‑": "-", "‒": "-", "―": "-",
    "−": "-", "…": "...", "•": "-", "×": "x", "′": "'", "″": '"', "‹": "<", "›": ">", "«": '"', "»": '"', "⁄": "/", "™": "TM", "ș": "ş",
    "ț": "ţ", "Ș": "Ş", "Ț": "Ţ", "ş": "ș", "ţ": "ț", "µ": "μ", "∙": "·", "∘": "°",
}  # fmt: skip
_ACCENTED = {
    "a": "àáâãäåāăą", "c": "çćč", "d": "ďđ", "e": "èéêëēęě", "g": "ğģ", "i": "ìíîïīıį", "l": "łľĺ", "n": "ñńňņ", "o": "òóôõöøőō", "r": "řŕ",
    "s": "śšşșß", "t": "ťţțþ", "u": "ùúûüůűū", "y": "ýÿ", "z": "źżž", "A": "ÀÁÂÃÄÅĄ", "C": "ÇĆČ", "E": "ÈÉÊËĘ", "I": "ÍÎÏİ", "L": "Ł",
    "N": "ÑŃŇ", "O": "ÒÓÔÕÖØŐ", "S": "ŚŠŞ", "U": "ÙÚÛÜŮ", "Z": "ŹŻŽ",
}  # fmt: skip


_BULLETS = "• – - * ■ ○ → ✓ ▶ 1. 2. a) (i) b. 12. 3.1 § ☐ — A. IV.".split()


def fit(content: str, characters: frozenset[str]) -> str:
    """``content`` in the given characters: plainer forms where they exist, else without the character."""
    if characters.issuperset(content.replace(" ", "")):
        return content
    out = []
    for character in content:
        if character == " " or character in characters:
            out.append(character)
        elif (base := unicodedata.normalize("NFD", character)[0]) != character and base in characters:
            out.append(base)
        elif character in _PLAINER and characters.issuperset(_PLAINER[character]):
            out.append(_PLAINER[character])
    return " ".join("".join(out).split())


def running(rng: np.random.Generator, corpus: Corpus, length: int, language: str = "") -> str:
    """A stretch of about ``length`` characters of one language, cut at words, sometimes with a line-end hyphen."""
    if language not in corpus.texts:
        language = corpus.languages[int(rng.choice(len(corpus.languages), p=corpus.weights))]
    if language in corpus.words and rng.random() < (0.3 if length <= 20 else 0.06):
        words = corpus.words[language]
        picked = [words[int(rng.integers(len(words)))]]
        while sum(map(len, picked)) + len(picked) < 0.8 * length:
            picked.append(words[int(rng.integers(len(words)))])
        return " ".join(picked)
    source = corpus.texts[language]
    start = int(rng.integers(max(1, len(source) - length - 60)))
    if start:
        # On to the next paragraph's start for one line in five, else to the next word's.
        mark = "\n" if rng.random() < 0.2 else " "
        start = max(start, source.find(mark, start, start + 600) + 1)
    stretch = source[start : start + length + 25].replace("\n", " ").lstrip()
    if len(stretch) <= length:
        return stretch.rstrip()
    end = stretch.rfind(" ", 0, length + 1)
    word_end = stretch.find(" ", length)
    if (
        end > 0
        and word_end - length > 2
        and length - end > 3
        and length > 25
        and rng.random() < 0.2
        and stretch[end + 1 : word_end].isalpha()
    ):
        return stretch[:length] + "-"
    return stretch[: end if end > 0 else max(1, min(length, word_end) if word_end > 0 else length)].rstrip()


# Old print: a long s inside words, and the spelling of the 19th century.
_OLD_SPELLINGS = (
    ("Teil", "Theil"), ("teil", "theil"), ("Tat", "That"), ("tun ", "thun "), ("Tür", "Thür"), ("Tal", "Thal"),
    ("ieren", "iren"), ("gibt", "giebt"), ("Kultur", "Cultur"), ("Zentr", "Centr"), ("nis ", "niß "), ("dass", "daß"),
)  # fmt: skip
_ROUND_BEFORE = frozenset("bkf")


def old_print(content: str, spelling: bool = True) -> str:
    """``content`` with long s, as Fraktur and old Antiqua are set: round at the end of a word and before b, k and f."""
    for new, old in _OLD_SPELLINGS if spelling else ():
        content = content.replace(new, old)
    letters = list(content)
    for index, letter in enumerate(letters[:-1]):
        following = letters[index + 1]
        if letter == "s" and following.isalpha() and following not in _ROUND_BEFORE:
            letters[index] = "ſ"
    return "".join(letters)


@lru_cache(maxsize=2048)
def _rare(characters: frozenset[str]) -> tuple[str, ...]:
    """What a face has of the vocabulary beyond ASCII letters and digits, look-alikes left out."""
    folded = {chr(code) for code in LOOKALIKES}
    return tuple(
        sorted(
            c
            for c in characters & CHARACTERS
            if not (c.isascii() and c.isalnum()) and c != " " and c not in folded and c not in UNLIKE
        )
    )


def sprinkle(rng: np.random.Generator, content: str, characters: frozenset[str]) -> str:
    """``content`` with one to four of the face's rarer characters put in, alone or inside words."""
    rare = _rare(characters)
    if not rare:
        return content
    letters = list(content)
    for _ in range(int(rng.integers(1, 5))):
        character = rare[int(rng.integers(len(rare)))]
        alone = not character.isalpha() and rng.random() < 0.6
        letters.insert(int(rng.integers(len(letters) + 1)), f" {character} " if alone else character)
    return " ".join("".join(letters).split())


def restyle(rng: np.random.Generator, content: str) -> str:
    """Capitals, title case, quotes, brackets, bullets and foreign accents for a share of the lines."""
    draw = rng.random()
    if draw < 0.07:
        content = content.upper()
    elif draw < 0.10:
        content = content.title()
    elif draw < 0.16:
        content = "".join(
            _ACCENTED[c][int(rng.integers(len(_ACCENTED[c])))] if c in _ACCENTED and chance < 0.2 else c
            for c, chance in zip(content, rng.random(len(content)), strict=True)
        )
        content = content.upper() if rng.random() < 0.2 else content
    draw = rng.random()
    if draw < 0.05:
        opening, closing = ("“”", "„“", "«»", "‘’", "‹›", '""', "()", "[]", "„”", "»«")[int(rng.integers(10))]
        words = content.split(" ")
        first = int(rng.integers(len(words)))
        last = int(rng.integers(first, len(words)))
        words[first], words[last] = opening + words[first], words[last] + closing
        content = " ".join(words)
    elif draw < 0.09:
        content = f"{_BULLETS[int(rng.integers(len(_BULLETS)))]} {content}"
    elif draw < 0.14:
        marks = (",", ".", ";", ":", "!", "?", "…", " :", " ;", " !", " ?", "...", "†", "*", " –", "—")
        content = content.rstrip(".,;:!?") + marks[int(rng.integers(len(marks)))]
    elif draw < 0.22:
        content = content.replace("'", "’").replace(" - ", " – ").replace("...", "…")
    return content
