"""The vote of annotators: what is equal, how alike, who wins."""

import numpy as np
import pytest

from data_pipeline import consensus
from data_pipeline.consensus import Candidate, vote
from docvision import metrics


def candidates(*texts: str) -> list[Candidate]:
    return [Candidate(f"a{number}", text) for number, text in enumerate(texts)]


def test_edit_distance_is_the_plain_one() -> None:
    rng = np.random.default_rng(0)
    for length in (0, 1, 3, 40, 70, 200):
        for _ in range(8):
            left, right = ("".join(rng.choice(list("abcd "), int(rng.integers(0, length + 1)))) for _ in range(2))
            assert consensus.edit_distance(left, right) == metrics.edit_distance(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("\u201cfine\u201d \u2013 it\u2019s", '"fine" - it\'s'),
        ("of\ufb01ce \u00a0 hours", "office hours"),
        ("the read-\n  ings of May", "the readings of May"),
        ("```text\nplain\n```", "plain"),
        ("soft\u00adware", "software"),
    ],
)
def test_spellings_of_one_print_are_equal(left: str, right: str) -> None:
    assert consensus.normalise(left) == consensus.normalise(right)


def test_what_differs_in_print_stays_different() -> None:
    """Case, digits, and a range of numbers that a line end cuts."""
    assert len({consensus.normalise(text) for text in ("May 3", "may 3", "May 8", "1912-\n14", "191214")}) == 5


def test_table_similarity_counts_what_differs() -> None:
    """Nodes are rows and cells: 2 + 4 here."""
    whole = consensus.normal_table("<table><tr><td>a<td>b<tr><td>c<td>dddd</table>")
    assert whole is not None

    def against(markup: str) -> float:
        other = consensus.normal_table(markup)
        assert other is not None
        value = consensus.table_similarity(whole, other)
        assert value == pytest.approx(consensus.table_similarity(other, whole))
        return 6 * (1 - value)

    assert against("<table><tr><th>a</th><th>b</th></tr><tr><td>c</td><td>dddd</td></tr></table>") == 0
    assert against("| a | b |\n|---|---|\n| c | dddd |") == 0
    assert against("<table><tr><td>a<td>b<tr><td>c<td>ddxd</table>") == pytest.approx(0.25)
    assert against("<table><tr><td>a<td>b<tr><td>c</table>") == pytest.approx(1)
    assert against("<table><tr><td>a<td>b</table>") == pytest.approx(3)
    assert against("<table><tr><td colspan=2>a<tr><td>c<td>dddd</table>") == pytest.approx(2)


def test_majority_wins_and_the_medoid_is_its_label() -> None:
    """The winner is nearest to all others, so it is not the one with a slip of its own."""
    verdict = vote(
        candidates("the tides of Apri1 1912", "the  tides of\nApril 1912", "the tides of April 1912"), "text", 0.9
    )
    assert (verdict.decision, verdict.text) == ("keep", "the tides of\nApril 1912")
    assert verdict.reason == "3 of 3 agree with a1" and verdict.similarities[0] == pytest.approx(1 - 1 / 23, abs=1e-4)
    verdict = vote(candidates("noise %%", "April 1912", "April 1912"), "text", 0.95)
    assert (verdict.decision, verdict.text, verdict.reason) == ("keep", "April 1912", "2 of 3 agree with a1")


def test_no_majority_is_hard() -> None:
    for texts in (("one", "two", "six"), ("one", "one", "two", "two"), ("one", "")):
        verdict = vote(candidates(*texts), "text", 0.95)
        assert verdict.decision == "hard" and not verdict.text, texts
    alone = vote([Candidate("a", "one"), Candidate("b", error="gone")], "text", 0.95)
    assert (alone.decision, alone.reason) == ("hard", "1 of 2 annotators answered")
    assert vote([*candidates("one", "one"), Candidate("b", error="gone")], "text", 0.95).decision == "keep"
    assert vote(candidates("", "", "x"), "text", 0.95).decision == "drop"


def test_only_tables_vote_on_tables() -> None:
    one, other = "<table><tr><td>1<td>2</table>", "Here it is:\n| 1 | 2 |\n|---|---|"
    verdict = vote(candidates("1 2", "1 2", one, other), "table", 0.9)
    assert (verdict.decision, verdict.reason) == ("keep", "2 of 2 agree with a2")
    assert verdict.text.startswith("<table>") and verdict.similarities[:2] == (None, None)
    assert vote(candidates("1 2", "1 2", one), "table", 0.9).reason == "1 of 3 annotators gave a table"
