"""The running text of this machine, cleaned, by language; kept on disk once it has been read.

Reading and cleaning all sources takes a quarter of a minute and a gigabyte of memory; the result is some 20 MB.  It is
kept in the user's cache folder under a name made of the sources' paths, sizes and times and of the code that reads
them, so it is made anew when either changes.  A machine without any source falls back to a few built-in sentences.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from data_pipeline import characters, kept, sources
from data_pipeline.characters import hash_text, normalise
from data_pipeline.sources import LANGUAGE_WEIGHTS, is_rot13

_MAX_PER_SOURCE = 30_000
_MAX_PER_LANGUAGE = 800_000
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
    digest: str
    """A short name of the content, equal on machines with the same sources."""


@lru_cache(maxsize=2)
def load_corpus(name: str = "system") -> Corpus:
    """The corpus, from disk if it was read before; the order and the cuts are fixed, so equal machines have equal ones.

    Args:
        name: ``system`` for everything installed here, ``builtin`` for a few sentences that need nothing installed.
    """
    if name not in ("system", "builtin"):
        raise ValueError(f"unknown corpus {name!r}: use system or builtin")
    if name == "builtin":
        return _corpus(dict(_FALLBACK), {})
    found, lists = sources.find_sources(), sources.find_word_lists()
    paths = [*(source.path for source in found), *lists.values()]
    key = kept.key_of([*paths, *(Path(file) for file in (characters.__file__, sources.__file__, __file__))])
    data = kept.load("corpus", key)
    if data is None:
        words = {language: "\n".join(sources.read_words(path)) for language, path in lists.items()}
        data = json.dumps({"texts": _gather(found), "words": words}, ensure_ascii=False).encode()
        kept.store("corpus", key, data)
    read = json.loads(data)
    return _corpus(read["texts"], {language: tuple(joined.split("\n")) for language, joined in read["words"].items()})


def _gather(found: list[sources.Source]) -> dict[str, str]:
    """Clean paragraphs of each language, none of them twice, no source with more than its share."""
    parts: dict[str, list[str]] = {language: [text] for language, text in _FALLBACK.items()}
    sizes = dict.fromkeys(LANGUAGE_WEIGHTS, 0)
    seen: set[int] = set()
    for source in found:
        language = source.language
        if language not in sizes or sizes[language] > _MAX_PER_LANGUAGE:
            continue
        taken = 0
        for raw in source.paragraphs():
            if taken > _MAX_PER_SOURCE:
                break
            paragraph = _clean(raw)
            key = hash_text(paragraph)
            if not paragraph or key in seen:
                continue
            seen.add(key)
            taken += len(paragraph)
            parts.setdefault(language, []).append(paragraph)
        sizes[language] += taken
    return {language: "\n".join(parts[language]) for language in LANGUAGE_WEIGHTS if language in parts}


def _corpus(texts: dict[str, str], words: dict[str, tuple[str, ...]]) -> Corpus:
    texts = {language: texts[language] for language in LANGUAGE_WEIGHTS if language in texts}
    if not words:
        joined = " ".join(_FALLBACK.values())
        words = {"en": tuple(sorted({word for word in re.findall(r"\w+", joined) if len(word) > 2}))}
    weights = np.array([LANGUAGE_WEIGHTS[language] for language in texts], dtype=float)
    content = hashlib.sha256()
    for language, text in sorted(texts.items()):
        content.update(f"{language}\0{text}\0".encode())
    return Corpus(texts, tuple(texts), weights / weights.sum(), words, content.hexdigest()[:16])


def _clean(paragraph: str) -> str:
    """The paragraph normalised; empty when characters got lost on the way, and for most of the code-like ones."""
    whole = " ".join(unicodedata.normalize("NFC", paragraph).replace("\xad", "").split())
    clean = normalise(whole)
    if len(clean) != len(whole):
        return ""
    if len(clean) < 30 or is_rot13(clean):
        return ""
    letters = sum(character.isalpha() or character == " " for character in clean)
    if letters < 0.88 * len(clean) and hash_text(clean) % 5:
        return ""
    return clean
