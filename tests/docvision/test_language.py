"""The character model gives probabilities, and the search with it finds what the best path alone misses."""

import math

import numpy as np
import pytest

from docvision import language
from docvision.config import load_recipe
from docvision.language import CharacterModel, LanguageError, fit, likeliest
from docvision.model import DocVisionModel

TEXTS = ["the cat sat on the mat and the dog sat on the log"] * 3
LETTERS = ["", *"abcdeghlmnost ", "q"]


def frames(*rows: dict[str, float]) -> np.ndarray:
    """Logarithms of what each frame holds; the rest is shared out."""
    table = np.full((len(rows), len(LETTERS)), 1e-5)
    for row, given in zip(table, rows, strict=True):
        for letter, probability in given.items():
            row[LETTERS.index(letter)] = probability
    return np.log(table / table.sum(1, keepdims=True))


def spelt(text: str, **doubt: float) -> np.ndarray:
    """One sure frame a letter, a blank between; ``q`` stands for a doubtful one."""
    rows: list[dict[str, float]] = []
    for letter in text:
        rows += [doubt if letter == "q" else {letter: 1.0}, {"": 1.0}]
    return frames(*rows)


def test_probabilities_of_all_characters_sum_to_one() -> None:
    model = fit(TEXTS, least=(1, 1, 1))
    seen = sorted(set(TEXTS[0]))
    for before in ("", "t", "th", " th", "sat on", "xyz"):
        total = sum(math.exp(model.log_probability(before, letter)) for letter in seen)
        assert total == pytest.approx(1, abs=0.05), before  # a byte holds a logarithm to a thirty-second
    assert model.log_probability("th", "e") > math.log(0.7) > math.log(0.1) > model.log_probability("th", "a")
    assert model.log_probability("th", "\u00e9") == language.UNSEEN


def test_witten_bell_by_hand() -> None:
    """After 'a' in ' ab ab ac': b twice, c once, two kinds: (2 + 2 p(b)) / 5."""
    model = fit(["ab ab ac"], least=(1, 1))
    b = (2 + 4 / 4) / (10 + 4)  # ten characters with the outer spaces, four kinds
    assert model.log_probability("a", "b") == pytest.approx(math.log((2 + 2 * b) / 5), abs=1 / 32)


def test_pruned_contexts_back_off() -> None:
    whole, pruned = fit(TEXTS, least=(1, 1, 1)), fit(TEXTS, least=(1, 1, 10**6))
    assert len(pruned.keys_N) < len(whole.keys_N)
    assert whole.log_probability("th", "e") > pruned.log_probability("th", "e") > -5


def test_the_language_settles_what_the_line_head_cannot() -> None:
    model = fit(TEXTS, least=(1, 1, 1, 1))
    doubt = spelt("thq cat", c=0.5, e=0.45, s=0.04)
    assert likeliest(doubt, LETTERS, model) == "the cat"
    sure = spelt("thq cat", c=0.999)
    assert likeliest(sure, LETTERS, model) == "thc cat"
    nearly = spelt("thq cat", c=0.98, e=1e-4)
    assert likeliest(nearly, LETTERS, model) == "thc cat"


def test_where_the_line_head_sees_nothing_nothing_is_read() -> None:
    model = fit(TEXTS)
    assert likeliest(frames({"": 0.55, "t": 0.45}, {"": 0.55, "h": 0.45}, {"": 0.55, "e": 0.45}), LETTERS, model) == ""


def test_search_without_a_say_of_the_language_sums_over_paths(monkeypatch) -> None:
    """Three paths of .64 in all for an 'a' beat the one of .36 without; doubled letters need a blank between them."""
    monkeypatch.setattr(language, "WEIGHT", 0.0)
    monkeypatch.setattr(language, "BONUS", 0.0)
    model = fit(TEXTS)
    assert likeliest(frames({"t": 1.0}, {"": 0.6, "a": 0.4}, {"": 0.6, "a": 0.4}), LETTERS, model) == "ta"
    assert likeliest(frames({"o": 0.6, "": 0.4}, {"o": 0.9, "": 0.1}, {"o": 0.6, "": 0.4}), LETTERS, model) == "o"
    assert likeliest(frames({"o": 0.9, "": 0.1}, {"o": 0.1, "": 0.9}, {"o": 0.9, "": 0.1}), LETTERS, model) == "oo"
    assert likeliest(np.zeros((0, len(LETTERS))), LETTERS, model) == ""


def test_model_comes_back_from_disk_and_travels_with_the_weights(tmp_path) -> None:
    model = fit(TEXTS)
    core = DocVisionModel(load_recipe("tiny").model)
    core.language = model
    core.save_pretrained(tmp_path / "model")
    back = DocVisionModel.from_pretrained(tmp_path / "model").language
    assert back is not None and back.order == model.order
    assert [back.log_probability("the ", letter) for letter in "cdmlx"] == [
        model.log_probability("the ", letter) for letter in "cdmlx"
    ]


def test_errors_are_one_line(tmp_path) -> None:
    with pytest.raises(LanguageError, match="no text to learn a language from"):
        fit(["", " "])
    (tmp_path / "language.safetensors").write_bytes(b"not tensors")
    with pytest.raises(LanguageError, match="not a language model"):
        CharacterModel.load(tmp_path / "language.safetensors")
