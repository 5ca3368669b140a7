"""Running text: what is read, what is left out, and that it is kept on disk until its sources change."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from data_pipeline import corpus, kept, sources, text

PROVERB = "A stitch in time saves nine, and a penny saved is a penny earned, as the old people used to say."


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[sources.Source]]:
    """A machine with two files of text, and a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(PROVERB + "\n%\n" + codecs.encode(PROVERB.replace("A stitch", "One stitch"), "rot13"))
    second.write_text("Wer zuletzt lacht, lacht am besten, und wer im Glashaus sitzt, soll nicht mit Steinen werfen.")
    found = [sources.Source(name, path, sources._fortune_paragraphs) for name, path in (("en", first), ("de", second))]
    monkeypatch.setattr(sources, "find_sources", lambda: found)
    monkeypatch.setattr(sources, "find_word_lists", dict)
    corpus.load_corpus.cache_clear()
    yield found
    corpus.load_corpus.cache_clear()


@pytest.mark.parametrize("language", ["en", "fr", "de", "es", "pl", "cs", "tr", "sv"])
def test_rot13_is_told_from_text(language: str) -> None:
    """In every language of the built-in sentences; shifted text must not be learnt as words."""
    sentence = corpus._FALLBACK[language]
    assert not sources.is_rot13(sentence)
    assert sources.is_rot13(codecs.encode(sentence, "rot13"))


def test_shifted_paragraphs_are_left_out(machine: list[sources.Source]) -> None:
    loaded = corpus.load_corpus("system")
    assert PROVERB in loaded.texts["en"] and "Wer zuletzt lacht" in loaded.texts["de"]
    assert "stitch" not in loaded.texts["en"].replace(PROVERB, "") and "fgvgpu" not in loaded.texts["en"]


def test_the_corpus_is_kept_until_a_source_changes(machine: list[sources.Source]) -> None:
    first = corpus.load_corpus("system")
    (entry,) = kept.folder().iterdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "_gather", lambda found: pytest.fail("read again"))
        corpus.load_corpus.cache_clear()
        again = corpus.load_corpus("system")
    assert again.texts == first.texts and again.digest == first.digest and again.words == first.words
    machine[1].path.write_text("Morgenstund hat Gold im Mund, sagt man, doch wer lange schläft, den hungert nicht.")
    corpus.load_corpus.cache_clear()
    changed = corpus.load_corpus("system")
    assert "Morgenstund" in changed.texts["de"] and changed.digest != first.digest
    assert [path != entry for path in kept.folder().iterdir()] == [True], "the old entry must not stay for ever"


def test_a_damaged_entry_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept.store("thing", "key", b"content")
    assert kept.load("thing", "key") == b"content" and kept.load("thing", "other") is None
    path = kept.folder() / "thing-key"
    path.write_bytes(path.read_bytes()[:-1])
    assert kept.load("thing", "key") is None


def test_a_disk_that_cannot_be_written_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    kept.store("thing", "key", b"content")
    assert kept.load("thing", "key") is None


def test_running_text_keeps_to_its_language() -> None:
    loaded = text.load_corpus("builtin")
    for index in range(20):
        stretch = text.running(np.random.default_rng(index), loaded, 40, "pl")
        assert stretch.rstrip("-") in loaded.texts["pl"]
