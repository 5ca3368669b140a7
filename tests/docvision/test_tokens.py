"""The vocabulary: every text comes back, and ids that look alike stay apart."""

import random

import pytest

from docvision.tokens import BLANK, CHARACTERS, MAX_SPAN, Vocabulary, normalise_text

VOCABULARY = Vocabulary()


def test_ids_are_unique_and_dense() -> None:
    ids = [*VOCABULARY.ids.values(), VOCABULARY.close_bracket]
    assert sorted(ids) == list(range(len(VOCABULARY)))


def test_text_round_trips_whatever_the_characters() -> None:
    rng = random.Random(0)
    pool = CHARACTERS + "漢字кирिд\U0001f600"
    for _ in range(200):
        text = "".join(rng.choice(pool) for _ in range(rng.randint(0, 40)))
        assert VOCABULARY.decode([*VOCABULARY.encode(text), VOCABULARY.eos, 5]) == text


def test_a_tag_in_the_text_is_not_the_tag_token() -> None:
    assert VOCABULARY.ids["<td>"] not in VOCABULARY.encode("<td>")
    assert VOCABULARY.close_bracket != VOCABULARY.ids[">"]
    assert (
        VOCABULARY.decode([VOCABULARY.ids["<td"], VOCABULARY.ids[f'colspan="{MAX_SPAN}"']])
        == f'<tdcolspan="{MAX_SPAN}"'
    )


def test_broken_bytes_are_shown_not_raised() -> None:
    assert VOCABULARY.decode([VOCABULARY.first_byte + 0xE6, 1 + CHARACTERS.index("a")]) == "�a"


def test_ctc_collapses_repeats_but_not_across_blanks() -> None:
    a, b = VOCABULARY.encode("ab")
    assert VOCABULARY.decode_ctc([BLANK, a, a, BLANK, a, b, b, BLANK]) == "aab"
    assert max(VOCABULARY.encode(CHARACTERS)) == VOCABULARY.ctc_classes - 1


@pytest.mark.parametrize("axis", ["x", "y"])
def test_coordinates_are_clamped(axis: str) -> None:
    token = getattr(VOCABULARY, axis)
    assert VOCABULARY.names[token(-3)] == f"<{axis}_0>"
    assert VOCABULARY.names[token(10**6)] == f"<{axis}_{VOCABULARY.bins - 1}>"


def test_normalised_text() -> None:
    assert normalise_text(" ﬁ\xa0x\xady\u200b\te\u0301\ue000 ") == "fi xy é"


def test_two_layouts_have_two_fingerprints() -> None:
    assert VOCABULARY.fingerprint == Vocabulary().fingerprint != Vocabulary(bins=8).fingerprint
    with pytest.raises(ValueError, match="repeat"):
        Vocabulary("aa")
