"""The ledger and the trust checks: a lost or doubled word is seen, a cut or glued one is not mistaken for it.

Random tests draw from seeded generators: they fail always or never.
"""

from __future__ import annotations

import random

import pytest

from docvision import trust
from docvision.ledger import UNREADABLE, Imbalance, check_ledger, describe, tokens
from docvision.page import Block, Box, Cell, Dropped, Line, Page, Table, Word

BOX = Box(0, 0, 100, 10)
VOCABULARY = [
    "the",
    "the",
    "tide",
    "table",
    "of",
    "harbour",
    "man",
    "agement",
    "1911,",
    "(see",
    "\u00e9t\u00e9",
    "x",
    "-",
    "C++",
    "a-b",
]


def page_of(words: list[str], draw: random.Random) -> Page:
    """The words, shuffled over paragraphs, list items, a table and what was dropped."""
    page = Page(1, 600, 800)
    rest = list(words)
    draw.shuffle(rest)
    while rest:
        count = draw.randint(1, 6)
        part, rest = rest[:count], rest[count:]
        kind = draw.choice(["text", "list", "table", "dropped"])
        if kind == "dropped":
            page.dropped.append(Dropped(" ".join(part), BOX, "hidden text"))
        elif kind == "table":
            cells = [Cell(0, column, word) for column, word in enumerate(part)]
            page.blocks.append(Block("table", BOX, table=Table(1, len(part), cells)))
        elif kind == "list":
            page.blocks.append(Block("list", BOX, " ".join(part[1:]), marker=part[0]))
        else:
            page.blocks.append(Block("text", BOX, "  ".join(part)))
    return page


def test_balanced_pages_pass_and_one_lost_or_doubled_word_is_named() -> None:
    draw = random.Random(21)
    for _ in range(300):
        words = [draw.choice(VOCABULARY) for _ in range(draw.randint(1, 40))]
        assert check_ledger(words, page_of(words, draw)) == []
        victim = draw.choice(words)
        without = list(words)
        without.remove(victim)
        assert check_ledger(words, page_of(without, draw)) == [Imbalance(victim, -1)]
        assert check_ledger(words, page_of([*words, victim], draw)) == [Imbalance(victim, 1)]


def text_page(text: str) -> Page:
    return Page(1, 600, 800, [Block("text", BOX, text)])


def test_cut_and_glued_words_balance() -> None:
    assert check_ledger(["an", "exam-", "ple"], text_page("an example")) == []
    assert check_ledger(["well-", "known"], text_page("well-known")) == []
    assert check_ledger(["A", "B", "S", "T", "R", "A", "C", "T"], text_page("ABSTRACT")) == []
    assert check_ledger(["km/h"], text_page("km / h")) == []
    # "man" and "agement" also make "management", but then "hu-" and "man-" would be left over.
    words = ["man-", "agement", "hu-", "man", "man-"]
    assert check_ledger([*words, "kind"], text_page("management human mankind")) == []
    assert check_ledger(["exam-", "ple"], text_page("exam")) == [
        Imbalance("exam-", -1),
        Imbalance("ple", -1),
        Imbalance("exam", 1),
    ]


def test_scripts_without_spaces_count_by_character() -> None:
    assert check_ledger(["\u65e5\u672c\u8a9e", "\u306e\u6587"], text_page("\u65e5\u672c\u8a9e\u306e\u6587")) == []
    assert check_ledger(["\u65e5\u672c"], text_page("\u65e5")) == [Imbalance("\u672c", -1)]
    assert tokens("PDF\u6587\u66f8 2\u7ae0") == ["PDF", "\u6587", "\u66f8", "2", "\u7ae0"]
    assert tokens("\ufb01ne so\u00adft") == ["fine", "soft"]


def test_what_a_model_read_is_outside_the_ledger() -> None:
    page = text_page("from the layer")
    page.blocks.append(Block("text", BOX, "from the picture", source="model"))
    page.dropped.append(Dropped("xx", BOX, UNREADABLE))
    assert check_ledger(["from", "the", "layer"], page) == []


def test_the_description_names_the_first_words() -> None:
    found = [Imbalance(f"w{number}", -2) for number in range(7)] + [Imbalance("twice", 1)]
    assert describe(found) == (
        "words of the text layer do not add up: 14 lost ('w0', 'w1', 'w2', 'w3', 'w4', ...); 1 surplus ('twice')"
    )


# Trust

ENGLISH = (
    "The sea rises and falls because the Moon and the Sun pull at it, and because the Earth turns beneath them. "
    "See Fig. 2, p < 0.05 (Table 1); NaCl, HTTP/2, x = 3.5 mm, don't, U.S.A., 3rd, CO2, e-mail, II."
)
CZECH = (
    "Strc prst skrz krk; vlk zmrzl, hrst zrn. "
    "P\u0159\u00edli\u0161 "
    "\u017elu\u0165ou\u010dk\u00fd k\u016f\u0148 \u00fap\u011bl \u010f\u00e1belsk\u00e9 \u00f3dy, "
    "jak to bylo zvykem od nepam\u011bti na tomto dvo\u0159e."
)
JAPANESE = " ".join(["\u6f6e\u306e\u6e80\u3061\u5e72\u304d"] * 30)


def layer(text: str) -> list[Word]:
    return [Word(word, BOX) for word in text.split()]


@pytest.mark.parametrize("text", [ENGLISH, CZECH, JAPANESE, "", "12 34.5 6,7 % 8 " * 20, "Short."])
def test_sound_layers_are_not_suspected(text: str) -> None:
    assert trust.suspect(layer(text)) is None


def reason(text: str) -> str:
    found = trust.suspect(layer(text))
    assert found is not None
    return found.reason


def test_broken_layers_are_suspected_with_the_reason() -> None:
    shifted = "".join(chr(ord(char) - 29) if char > "=" else char for char in 2 * ENGLISH)
    assert "of its letters are vowels" in reason(shifted)
    assert "wrong table" in reason(("caf\u00e9 \u2019twas na\u00efve and so on " * 9).encode().decode("cp1252"))
    assert "are no words" in reason("strngth wrdlss mthds 7pl&e " * 9)
    assert reason("\ue012\ue034\ufffd\ue000 ab " * 5) == "67% of its characters have no meaning"


def test_only_characters_without_a_meaning_are_proof() -> None:
    assert trust.suspect(layer("\ue012\ue034 ab " * 5)) == trust.Suspicion(
        "50% of its characters have no meaning", True
    )
    assert trust.suspect(layer("\ue012 abcdef " * 5)) == trust.Suspicion("14% of its characters have no meaning")


def test_disagreement_ignores_case_spaces_and_accents() -> None:
    assert trust.disagreement(["\u00c9tude No 5", "two"], [("etude no5", 1.0), ("Two", 1.0)]) == 0.0
    assert trust.disagreement(["abcd", "efgh"], [("abcd", 0.9), ("xxxx", 0.9)]) == 0.5
    assert trust.disagreement(["abcd", "efgh"], [("something much longer", 0.9)] * 2) == 1.0


def test_one_line_or_a_reading_that_is_not_sure_proves_nothing() -> None:
    assert trust.disagreement([], []) is None
    assert trust.disagreement(["abcd"], [("xxxx", 1.0)]) is None
    assert trust.disagreement(["abcd", "efgh", "ijkl"], [("abcd", 0.9), ("xxxx", 0.3), ("ijkl", 0.9)]) == 0.0
    assert trust.disagreement(["abcd", "efgh"], [("abcd", 0.9), ("xxxx", 0.3)]) is None


def lines_in(fonts: list[str], text: str = "a line of text") -> list[Line]:
    return [Line(text, BOX, [Word(word, BOX, font=font) for word in text.split()]) for font in fonts]


def test_sampled_lines_cover_the_page_and_skip_what_is_known_or_foreign() -> None:
    many = Block("text", BOX, lines=lines_in([f"F{number}" for number in range(60)]))
    sampled = [line.words[0].font for line in trust.sample_lines([many])]
    assert sampled == ["F5", "F15", "F25", "F35", "F45", "F55"]
    assert trust.sample_lines([Block("text", BOX, lines=lines_in(["A"]))], frozenset("A")) == []
    assert trust.sample_lines([Block("text", BOX, lines=lines_in(["A"], JAPANESE))]) == []
    assert trust.sample_lines([Block("text", BOX, lines=lines_in(["A"], "short"))]) == []
