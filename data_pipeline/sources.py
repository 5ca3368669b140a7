"""Where running text comes from: manual pages, handbooks, fortunes and message catalogues installed on this machine.

The package list stands in ``recipes/lines.yaml``.  :func:`find_sources` lists the files in a fixed
order; their paragraphs come raw.  :mod:`data_pipeline.corpus` cleans them and keeps the result.
"""

from __future__ import annotations

import bz2
import gettext
import gzip
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from data_pipeline.characters import CHARACTERS

LANGUAGE_WEIGHTS = {
    "en": 20, "fr": 18, "de": 14, "es": 8, "it": 7, "pt": 6, "pl": 6, "cs": 5, "nl": 4, "sv": 3, "da": 3, "nb": 3,
    "fi": 2, "hu": 3, "tr": 4, "ro": 2, "hr": 1.5, "sl": 1.5, "sk": 2, "ca": 1, "lt": 1, "lv": 1, "et": 1, "is": 1,
}  # fmt: skip
"""Shares of the languages in running text; one without any source is left out."""

_DOC = "/usr/share/doc"
_WORDS = "/usr/share/dict"
_WORD_LISTS = {
    "french": "fr", "ngerman": "de", "spanish": "es", "polish": "pl", "portuguese": "pt", "italian": "it",
    "danish": "da", "swedish": "sv", "norwegian": "nb", "bokmaal": "nb", "dutch": "nl", "catalan": "ca",
}  # fmt: skip
_ROOT_FORTUNES = {"brasil": "pt", **dict.fromkeys(
    ("definizioni", "formiche", "italia", "itatrek", "leggi", "luttazzi", "paolotedeschi"), "it"
)}  # fmt: skip
"""Collections that lie beside the English ones."""


Reader = Callable[[Path], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """One file of paragraphs."""

    language: str
    path: Path
    reader: Reader

    def paragraphs(self) -> Iterator[str]:
        """The file's paragraphs, raw."""
        return self.reader(self.path)


def find_sources() -> list[Source]:
    """Every file of running text found here, books before messages before manuals."""
    found = list(_fortunes())
    for path in sorted(Path(_DOC).rglob("*.html")):
        language = _language_of(path)
        if language and path.stat().st_size > 4000:
            found.append(Source(language, path, _html_paragraphs))
    english = [*sorted(Path("/usr/share/common-licenses").glob("*")), *sorted(Path(_DOC).glob("RFC/**/*.txt.gz"))[:60]]
    found += [Source("en", path, _plain_paragraphs) for path in english]
    for path in sorted(Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo")):
        found.append(Source(path.parent.parent.name.split("_")[0].split("@")[0], path, _messages))
    for path in sorted(Path("/usr/share/man").glob("man[1578]/*.gz")):
        found.append(Source("en", path, _manual_paragraphs))
    for path in sorted(Path("/usr/share/man").glob("??*/man[1-8]/*.gz")):
        found.append(Source(path.parent.parent.name.split("_")[0], path, _manual_paragraphs))
    return found


def find_word_lists() -> dict[str, Path]:
    """Dictionaries by language."""
    paths = sorted(Path(_WORDS).glob("*"))
    return {_WORD_LISTS[path.name]: path for path in paths if path.name in _WORD_LISTS}


def read_words(path: Path) -> tuple[str, ...]:
    """A dictionary's words, thinned to 20,000."""
    words = [word for word in _read(path).split() if 1 < len(word) < 24 and CHARACTERS.issuperset(word)]
    return tuple(words[:: max(1, len(words) // 20_000)])


def is_rot13(content: str) -> bool:
    """Whether the letters are shifted by half the alphabet, as jokes are that should not be read by chance.

    The vowels a, e, i and o are a third of any Latin-script language's letters; shifted they are n, r, v and b.
    """
    lowered = content.lower()
    return sum(map(lowered.count, "nrvb")) > 1.25 * sum(map(lowered.count, "aeio"))


def _fortunes() -> Iterator[Source]:
    root = Path("/usr/share/games/fortunes")
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.suffix not in ("", ".fortunes") or ".u8" in path.name:
            continue
        if path.parent == root:
            yield Source(_ROOT_FORTUNES.get(path.name, "en"), path, _fortune_paragraphs)
            continue
        folder = path.relative_to(root).parts[0]
        language = folder[:2] if folder[:2] in LANGUAGE_WEIGHTS else {"br": "pt", "cz": "cs"}.get(folder, "en")
        yield Source(language, path, _fortune_paragraphs)


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
