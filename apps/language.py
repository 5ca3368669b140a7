"""Makes the character model that helps a line reader: from text files, or from the corpus of the training data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from docvision.language import FILE, CharacterModel, fit

OVERLAP = 20
"""Characters that a paragraph may share with a held-out line."""
STRIDE = 4


def make_language(folder: Path, files: Sequence[Path] = (), held_out: Path | None = None) -> CharacterModel:
    """Write ``language.safetensors`` into a model's folder.

    Args:
        folder: of the model.
        files: plain text in UTF-8, a paragraph a line; none for the texts and word lists of the training data.
        held_out: folder of rendered lines (``docvision make lines``); what shares text with them is left out, so that
            they stay a fair test.

    Raises:
        OSError: a file cannot be read or written.
        LanguageError: there is no text.
        UnicodeDecodeError: a file is no UTF-8.
    """
    paragraphs = _paragraphs(files) if files else _corpus()
    if held_out is not None:
        paragraphs = _apart(paragraphs, _texts(held_out))
    model = fit(paragraphs)
    # Beside its place first, so that a reader never sees half of it.
    handle, partial = tempfile.mkstemp(dir=folder, suffix=".partial")
    os.close(handle)
    try:
        model.save(partial)
        os.chmod(partial, 0o644)
        os.replace(partial, folder / FILE)
    finally:
        Path(partial).unlink(missing_ok=True)
    return model


def _paragraphs(files: Sequence[Path]) -> Iterator[str]:
    for path in files:
        yield from path.read_text(encoding="utf-8").splitlines()


def _corpus() -> Iterator[str]:
    """All texts, and the word lists once: many languages have more words than text here."""
    from data_pipeline.corpus import load_corpus

    corpus = load_corpus()
    for text in corpus.texts.values():
        yield from text.split("\n")
    for words in corpus.words.values():
        yield " ".join(words)


def _texts(folder: Path) -> Iterator[str]:
    import pyarrow.parquet as parquet

    shards = sorted(folder.glob("*.parquet"))
    if not shards:
        raise FileNotFoundError(f"{folder}: no *.parquet: make some with docvision make lines")
    for shard in shards:
        yield from parquet.read_table(shard, columns=["text"])["text"].to_pylist()


def _apart(paragraphs: Iterable[str], held_out: Iterable[str]) -> Iterator[str]:
    """The paragraphs that share no stretch of :data:`OVERLAP` characters with the held-out texts."""
    stretches = {
        text[start : start + OVERLAP] for text in held_out for start in range(0, len(text) - OVERLAP + 1, STRIDE)
    }
    for paragraph in paragraphs:
        starts = range(len(paragraph) - OVERLAP + 1)
        if not any(paragraph[start : start + OVERLAP] in stretches for start in starts):
            yield paragraph
