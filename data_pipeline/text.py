"""What a line says: running text of many languages from the documentation that packages ship, and generated strings.

Running text comes from manual pages, handbooks, FAQs, word lists, fortunes and message catalogues found on this
machine (the package list stands in ``recipes/lines.yaml``).  A machine without them falls back to a few built-in
sentences and to Python's own docstrings.  Generated strings are what documents hold besides sentences: names,
addresses, amounts, dates, references, telephone numbers, codes, units, e-mail and web addresses, receipt rows.

Every string leaves this module normalised: NFC, one kind of space, only characters of :data:`CHARACTERS`.
"""

from __future__ import annotations

import bz2
import gettext
import gzip
import hashlib
import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from docvision.tokens import CHARACTERS as VOCABULARY

CHARACTERS = frozenset(VOCABULARY)

# Characters that a picture cannot tell apart are written in one way, or the truth would contradict itself.
_LOOKALIKES = str.maketrans({
    "‐": "-", "‑": "-", "‒": "–", "―": "—", "─": "—", "μ": "µ", "∆": "Δ", "∘": "°", "∙": "·", "⋅": "·", "∗": "*", "∼": "~", "│": "|",
    "‛": "‘", "‟": "“", "⁄": "/", "ĳ": "ij", "Ĳ": "IJ", "ŀ": "l·", "Ŀ": "L·", "ﬁ": "fi", "ﬂ": "fl", "ﬀ": "ff", "ﬃ": "ffi", "ﬄ": "ffl",
    "\xad": None, "◦": "○", "▪": "■", "▫": "□", "✔": "✓", "✘": "✗", "ĸ": "κ", "‣": "▶",
})  # fmt: skip
_UNLIKE = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧουικ" + "Ð¨¯¸´"
"""Letters that look like Latin ones, and spacing accents: they come from real text only, never by chance."""

LANGUAGE_WEIGHTS = {
    "en": 20, "fr": 18, "de": 14, "es": 8, "it": 7, "pt": 6, "pl": 6, "cs": 5, "nl": 4, "sv": 3, "da": 3, "nb": 3,
    "fi": 2, "hu": 3, "tr": 4, "ro": 2, "hr": 1.5, "sl": 1.5, "sk": 2, "ca": 1, "lt": 1, "lv": 1, "et": 1, "is": 1,
}  # fmt: skip
"""Shares of the languages in running text; one without any source is left out."""

_MAX_PER_SOURCE = 30_000
_MAX_PER_LANGUAGE = 800_000
_DOC = "/usr/share/doc"
_FALLBACK = {
    "en": "The quick brown fox jumps over the lazy dog. Payment is due within 30 days; see section 4.2 for details.",
    "fr": "Dès Noël, où un zéphyr haï me vêt de glaçons würmiens, je dîne d’exquis rôtis de bœuf à l’aÿ d’âge mûr.",
    "de": "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Fügen Sie das ausgefüllte Formular bei.",
    "es": "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío; añoraba a su querido cachorro. ¿Qué?",
    "pl": "Pchnąć w tę łódź jeża lub ośm skrzyń fig. Zażółć gęślą jaźń; opłata wynosi 12 zł za każdą usługę.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy. Smlouva nabývá účinnosti dnem podpisu oběma stranami.",
    "tr": "Pijamalı hasta yağız şoföre çabucak güvendi. Ödeme süresi otuz gündür; ayrıntılar için bölüme bakınız.",
    "sv": "Flygande bäckasiner söka hwila på mjuka tuvor. Betalning sker inom trettio dagar efter leverans.",
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """Paragraphs by language, one string a language with ``\\n`` between paragraphs."""

    texts: dict[str, str]
    languages: tuple[str, ...]
    weights: np.ndarray
    words: dict[str, tuple[str, ...]]

    @property
    def digest(self) -> str:
        """A short name of the content, equal on machines with the same sources."""
        joined = "\0".join(f"{language}{len(text)}{text[:2000]}" for language, text in sorted(self.texts.items()))
        return hashlib.sha256(joined.encode()).hexdigest()[:16]


def normalise(text: str) -> str:
    """NFC, look-alikes folded, single spaces, without anything outside :data:`CHARACTERS`."""
    text = " ".join(unicodedata.normalize("NFC", text).translate(_LOOKALIKES).split())
    if not CHARACTERS.issuperset(text):
        text = "".join(character for character in text if character in CHARACTERS or character == " ")
        text = " ".join(text.split())
    return text


@lru_cache(maxsize=2)
def load_corpus(name: str = "system") -> Corpus:
    """Read all sources once; the order and the cuts are fixed, so that equal machines give equal corpora.

    Args:
        name: ``system`` for everything installed here, ``builtin`` for a few sentences that need nothing installed.
    """
    if name not in ("system", "builtin"):
        raise ValueError(f"unknown corpus {name!r}: use system or builtin")
    parts: dict[str, list[str]] = {language: [text] for language, text in _FALLBACK.items()}
    sizes = dict.fromkeys(LANGUAGE_WEIGHTS, 0)
    seen: set[int] = set()
    for language, paragraphs in _sources() if name == "system" else ():
        if language not in sizes or sizes[language] > _MAX_PER_LANGUAGE:
            continue
        taken = 0
        for paragraph in paragraphs:
            if taken > _MAX_PER_SOURCE:
                break
            paragraph = _clean(paragraph)
            key = hash_text(paragraph)
            if len(paragraph) < 30 or key in seen:
                continue
            seen.add(key)
            taken += len(paragraph)
            parts.setdefault(language, []).append(paragraph)
        sizes[language] += taken
    texts = {language: "\n".join(parts[language]) for language in LANGUAGE_WEIGHTS if language in parts}
    languages = tuple(texts)
    weights = np.array([LANGUAGE_WEIGHTS[language] for language in languages], dtype=float)
    return Corpus(texts, languages, weights / weights.sum(), _word_lists(name == "system"))


def _clean(paragraph: str) -> str:
    """The paragraph normalised; empty when characters got lost on the way, and for most of the code-like ones."""
    whole = " ".join(unicodedata.normalize("NFC", paragraph).replace("\xad", "").split())
    clean = normalise(whole)
    if len(clean) != len(whole):
        return ""
    letters = sum(character.isalpha() or character == " " for character in clean)
    if letters < 0.88 * len(clean) and hash_text(clean) % 5:
        return ""
    return clean


def hash_text(text: str) -> int:
    """A hash that does not change from process to process, unlike ``hash``."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


# sources


def _sources() -> Iterator[tuple[str, Iterator[str]]]:
    """(language, paragraphs) for each file found, books before messages before manuals."""
    yield from _fortunes()
    for path in sorted(Path(_DOC).rglob("*.html")):
        language = _language_of(path)
        if language and path.stat().st_size > 4000:
            yield language, _html_paragraphs(path)
    for path in sorted(Path("/usr/share/common-licenses").glob("*")):
        yield "en", _plain_paragraphs(path)
    for path in sorted(Path(_DOC).glob("RFC/**/*.txt.gz"))[:60]:
        yield "en", _plain_paragraphs(path)
    for path in sorted(Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo")):
        yield path.parent.parent.name.split("_")[0].split("@")[0], _messages(path)
    for path in sorted(Path("/usr/share/man").glob("man[1578]/*.gz")):
        yield "en", _manual_paragraphs(path)
    for path in sorted(Path("/usr/share/man").glob("??*/man[1-8]/*.gz")):
        yield path.parent.parent.name.split("_")[0], _manual_paragraphs(path)


def _fortunes() -> Iterator[tuple[str, Iterator[str]]]:
    root = Path("/usr/share/games/fortunes")
    for path in sorted(root.rglob("*")):
        # The "off" folders are in rot13.
        if path.is_file() and "off" not in path.parts and path.suffix in ("", ".fortunes") and ".u8" not in path.name:
            folder = path.relative_to(root).parts[0] if path.parent != root else path.name
            language = folder[:2] if folder[:2] in LANGUAGE_WEIGHTS and path.parent != root else "en"
            yield {"br": "pt"}.get(folder, language), _fortune_paragraphs(path)


def _fortune_paragraphs(path: Path) -> Iterator[str]:
    yield from _read(path).replace("\n%\n", "\n\n").split("\n\n")


def _language_of(path: Path) -> str:
    """The language of a document, by its name (``guide.fr.html``), its folder or its package; English for none."""
    for part in (*path.name.split("."), *reversed(path.parts[4:-1]), *path.parts[4].split("-")):
        short = part.split("_")[0].split("-")[0].lower()
        if short in LANGUAGE_WEIGHTS:
            return short
        if short in ("ja", "ru", "zh", "ko", "el", "uk", "bg", "ar", "he", "vi", "id", "fa", "sr"):
            return ""
    return "en"


def _read(path: Path) -> str:
    """A text file, gzipped or not, in UTF-8 or Latin-1; empty when it cannot be read."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        elif path.suffix == ".bz2":
            data = bz2.decompress(data)
    except (OSError, EOFError, ValueError):
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _html_paragraphs(path: Path) -> Iterator[str]:
    text = _read(path)
    for match in re.finditer(r"<(p|li|dd|td|h[1-6])\b[^>]*>(.*?)</\1>", text, re.DOTALL | re.IGNORECASE):
        yield html.unescape(re.sub(r"<[^>]+>", "", match.group(2)))


def _plain_paragraphs(path: Path) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", _read(path)):
        letters = sum(character.isalpha() for character in paragraph)
        if letters > 0.6 * len(paragraph.replace(" ", "")):
            yield paragraph


def _messages(path: Path) -> Iterator[str]:
    """Translations of a message catalogue, without the ones full of placeholders."""
    try:
        with path.open("rb") as stream:
            # gettext looks messages up but has no public way to list them.
            catalogue = vars(gettext.GNUTranslations(stream))["_catalog"]
    except (OSError, ValueError, UnicodeDecodeError, LookupError):
        return
    for value in catalogue.values():
        if isinstance(value, str) and 30 <= len(value) <= 2000 and "%" not in value and "\n" not in value.strip():
            yield re.sub(r"[_&](?=\w)|<[^>]+>", "", value)


_ROFF = (
    (re.compile(r"\\f(\[[^]]*\]|\(..|.)|\\[/,&%:|^)]|\\s[-+]?\d"), ""),
    (re.compile(r"\\-"), "-"),
    (re.compile(r"\\[ ~]"), " "),
    (re.compile(r"\\(?:\(en|\[en\])"), "\u2013"),
    (re.compile(r"\\(?:\(em|\[em\])"), "\u2014"),
    (re.compile(r"\\(?:\(bu|\[bu\])"), "\u2022"),
    (re.compile(r"\\(?:\(aq|\[aq\])"), "'"),
    (re.compile(r"\\(?:\(oq|\[oq\])"), "\u2018"),
    (re.compile(r"\\(?:\(cq|\[cq\])"), "\u2019"),
    (re.compile(r"\\(?:\(lq|\[lq\])"), "\u201c"),
    (re.compile(r"\\(?:\(rq|\[rq\])"), "\u201d"),
    (re.compile(r"\\(?:\(dq|\[dq\])"), '"'),
    (re.compile(r"\\(?:\(co|\[co\])"), "\u00a9"),
    (re.compile(r"\\\[u([0-9A-F]{4})\]"), None),
    (re.compile(r"\\e"), r"\\"),
    (re.compile(r"\\(\*?\(..|\*?\[[^]]*\]|.)"), ""),
)


def _manual_paragraphs(path: Path) -> Iterator[str]:
    """Running text of a manual page: troff requests end a paragraph, escapes are resolved or taken off."""
    paragraph: list[str] = []
    for line in _read(path).splitlines():
        request = re.match(r"[.']\s*(\w+)(.*)", line)
        if line.startswith((".", "'")):
            if request and request.group(1) in ("B", "I", "BR", "IR", "RB", "RI", "BI", "IB"):
                line = request.group(2).strip().replace('"', "")
            else:
                yield " ".join(paragraph)
                paragraph = []
                continue
        for pattern, replacement in _ROFF:
            if "\\" not in line:
                break
            line = pattern.sub(replacement if replacement is not None else lambda m: chr(int(m.group(1), 16)), line)
        paragraph.append(line.strip())
    yield " ".join(paragraph)


def _word_lists(installed: bool) -> dict[str, tuple[str, ...]]:
    """Words of /usr/share/dict by language, thinned to 20,000 each."""
    names = {
        "french": "fr", "ngerman": "de", "spanish": "es", "polish": "pl", "portuguese": "pt", "italian": "it",
        "danish": "da", "swedish": "sv", "norwegian": "nb", "bokmaal": "nb", "dutch": "nl", "catalan": "ca",
    }  # fmt: skip
    lists = {}
    for path in sorted(Path("/usr/share/dict").glob("*")) if installed else ():
        if path.name in names:
            words = [word for word in _read(path).split() if 1 < len(word) < 24 and CHARACTERS.issuperset(word)]
            lists[names[path.name]] = tuple(words[:: max(1, len(words) // 20_000)])
    if not lists:
        joined = " ".join(_FALLBACK.values())
        lists["en"] = tuple(sorted({word for word in re.findall(r"\w+", joined) if len(word) > 2}))
    return lists


# sampling

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


def running(rng: np.random.Generator, corpus: Corpus, length: int) -> str:
    """A stretch of about ``length`` characters of one language, cut at words, sometimes with a line-end hyphen."""
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


@lru_cache(maxsize=2048)
def _rare(characters: frozenset[str]) -> tuple[str, ...]:
    """What a face has of the vocabulary beyond ASCII letters and digits, look-alikes left out."""
    folded = {chr(code) for code in _LOOKALIKES}
    return tuple(
        sorted(
            c
            for c in characters & CHARACTERS
            if not (c.isascii() and c.isalnum()) and c != " " and c not in folded and c not in _UNLIKE
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
