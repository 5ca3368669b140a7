"""Characters -> words, by geometry and not by the spaces PDFium invents.

A real space character, a jump of the baseline or a gap that is wide for this stretch of text ends a word.  What is wide
is measured along the stretch itself, so letter-spaced headings stay whole.  Text in a script without spaces comes as
one word per stretch.  Accents printed as separate glyphs join their letter (NFC), overprinted letters count once.

Boxes are ``baseline - ASCENT * size`` to ``baseline + DESCENT * size``: all words of a line agree on them.
"""

from __future__ import annotations

import itertools
import unicodedata

from docvision.glyphs import SUPERSCRIPTS, Glyph, Style
from docvision.page import Box, Word

ASCENT, DESCENT = 0.8, 0.22
"""Share of the font size above and below the baseline that a word's box covers."""
WORD_GAP, SEEN_GAP = 0.14, 0.07
"""A gap of this share of the font size ends a word, on top of the usual distance of its letters; the smaller one where
PDFium, which knows the shapes of the glyphs, sees a space too."""
CJK_GAP = 0.55
MAX_ACCENTS = 400
"""Accents per page that are looked up one by one."""

# Spacing accents and the combining ones they stand for where they overlap a letter.
_ACCENTS = {
    "\u00b4": "\u0301", "\u02ca": "\u0301", "\u0060": "\u0300", "\u02cb": "\u0300", "\u02c6": "\u0302", "^": "\u0302",
    "\u02dc": "\u0303", "~": "\u0303", "\u00a8": "\u0308", "\u02c7": "\u030c", "\u02d8": "\u0306", "\u00af": "\u0304",
    "\u02c9": "\u0304", "\u02da": "\u030a", "\u02dd": "\u030b", "\u00b8": "\u0327", "\u02db": "\u0328",
    "\u02d9": "\u0307",
}  # fmt: skip
_ASCII_ACCENTS = {"`", "^", "~"}
_RAISED_LOOK, _RAISED_SIZE = 0.15, 0.87
"""A glyph set higher than this share of the font size, in type smaller than this share of it, is a superscript."""
_DOTLESS = {"\u0131": "i", "\u0237": "j"}


def _is_cjk(char: str) -> bool:
    code = ord(char)
    return 0x2E80 <= code <= 0x9FFF or 0xAC00 <= code <= 0xD7AF or 0xF900 <= code <= 0xFAFF or 0xFF00 <= code <= 0xFFEF


def _is_rtl(char: str) -> bool:
    return "\u0590" <= char <= "\u08ff" or "\ufb1d" <= char <= "\ufefc"


def cut_words(glyphs: list[Glyph | None]) -> list[list[Glyph]]:
    """Glyphs cut into words."""
    gaps = _letter_spacing(glyphs)
    words: list[list[Glyph]] = []
    current: list[Glyph] = []
    for index, glyph in enumerate(glyphs):
        if glyph is None:
            if current:
                words.append(current)
            current = []
            continue
        if current:
            last = current[-1]
            if last.style is glyph.style and -0.5 < glyph.start - last.end < 0.3:
                current.append(glyph)  # the usual case, told fast; no font is set so small that this is a space
                continue
            if _is_copy(last, glyph):
                continue
            if _is_break(last, glyph, gaps[index] if gaps else 0.0):
                words.append(current)
                current = []
        current.append(glyph)
    if current:
        words.append(current)
    return words


def _letter_spacing(glyphs: list[Glyph | None]) -> list[float]:
    """For each glyph the usual gap between letters in its stretch, which is 0 but for letter-spaced text.

    Returns:
        Nothing where no stretch is letter-spaced.
    """
    spacing: list[float] = []
    start = 0
    for index in range(1, len(glyphs) + 1):
        if index < len(glyphs):
            last, glyph = glyphs[index - 1], glyphs[index]
            if last is None or glyph is None or last.style is glyph.style or _same_stretch(last, glyph):
                continue
        stretch = [glyph for glyph in glyphs[start:index] if glyph is not None]
        if len(stretch) >= 5:
            size = stretch[0].style.size
            distances = sorted([after.start - before.end for before, after in itertools.pairwise(stretch)])
            usual = distances[len(distances) // 3]
            if 0.03 * size < usual < 0.3 * size:
                spacing = spacing or [0.0] * len(glyphs)
                spacing[start:index] = [usual] * (index - start)
        start = index
    return spacing


def _same_stretch(last: Glyph, glyph: Glyph) -> bool:
    one, two = last.style, glyph.style
    return one.angle == two.angle and one.size == two.size and abs(one.across - two.across) < 0.1


def _is_copy(last: Glyph, glyph: Glyph) -> bool:
    """The same character printed twice in one place, as false bold does."""
    return (
        last.text == glyph.text
        and last.style is not glyph.style  # the letters of a ligature share object and place
        and abs(last.start - glyph.start) < 0.15 * (glyph.end - glyph.start)
        and abs(last.style.across - glyph.style.across) < 0.1 * glyph.style.size
        and last.style.angle == glyph.style.angle
        and not _is_rtl(glyph.text[0])
    )


def _is_break(last: Glyph, glyph: Glyph, spacing: float) -> bool:
    """Whether a new word starts at ``glyph``."""
    one, two = last.style, glyph.style
    size = max(one.size, two.size)
    if one is not two:
        if one.angle != two.angle or one.hidden != two.hidden:
            return True
        shift = abs(one.across - two.across)
        # A raised or lowered character of a smaller size stays with its word: H2O, m2, note marks.
        if shift > (0.55 * size if one.size != two.size else 0.2 * size):
            return True
    if _is_rtl(glyph.text[0]) or _is_rtl(last.text[0]):
        distance = max(glyph.start - last.end, last.start - glyph.end)
        return distance > WORD_GAP * size
    distance = glyph.start - last.end
    if one is two and glyph.start == last.start:
        return False  # letters of a ligature
    if _is_cjk(last.text[-1]) and _is_cjk(glyph.text[0]):
        return distance > CJK_GAP * size or distance < -1.2 * size
    return distance > (SEEN_GAP if glyph.spaced else WORD_GAP) * size + spacing or distance < -0.8 * size


def build_word(glyphs: list[Glyph]) -> tuple[Word, Style]:
    """One word of its glyphs; the largest type in it decides size and baseline."""
    text = "".join([glyph.text for glyph in glyphs])
    if not text.isascii() or not _ASCII_ACCENTS.isdisjoint(text):
        glyphs = _join_accents(glyphs)
        text = unicodedata.normalize("NFC", "".join([glyph.text for glyph in glyphs]))
    style = glyphs[0].style
    bold, italic = style.bold, style.italic
    if any([glyph.style is not style for glyph in glyphs]):
        style = max((glyph.style for glyph in glyphs), key=lambda style: style.size)
        text = unicodedata.normalize("NFC", "".join([_raised(glyph, style) for glyph in glyphs]))
        bold = 2 * sum(glyph.style.bold for glyph in glyphs) > len(glyphs)
        italic = 2 * sum(glyph.style.italic for glyph in glyphs) > len(glyphs)
    start, end = min([glyph.start for glyph in glyphs]), max([glyph.end for glyph in glyphs])
    top, bottom = style.across - ASCENT * style.size, style.across + DESCENT * style.size
    if style.angle == 0.0:
        box = Box(start, top, end, bottom)
    else:
        corners = [
            (along * style.cos + across * style.sin, -along * style.sin + across * style.cos)
            for along in (start, end)
            for across in (top, bottom)
        ]
        xs, ys = [x for x, _ in corners], [y for _, y in corners]
        box = Box(min(xs), min(ys), max(xs), max(ys))
    return Word(text, box, font=style.font, size=round(style.size, 2), bold=bold, italic=italic), style


def _raised(glyph: Glyph, main: Style) -> str:
    """A glyph's text; a raised figure as the superscript that it is: "measured" and a note mark is no "measured.1"."""
    style = glyph.style
    if style is main or not glyph.text.isascii() or style.size > _RAISED_SIZE * main.size:
        return glyph.text
    high = main.across - style.across
    return glyph.text.translate(SUPERSCRIPTS) if high > _RAISED_LOOK * main.size else glyph.text


def place_accents(glyphs: list[Glyph | None]) -> list[Glyph | None]:
    """Join accents to their letters where they stand elsewhere in the content, as some typesetters leave them."""
    accents = [(index, glyph) for index, glyph in enumerate(glyphs) if glyph is not None and glyph.text in _ACCENTS][
        :MAX_ACCENTS
    ]
    gone: set[int] = set()
    for index, accent in accents:
        near = [glyph for glyph in glyphs[max(0, index - 1) : index + 2] if glyph not in (None, accent)]
        if any(_carries(glyph, accent) for glyph in near):
            continue  # _join_accents() sees to it
        for letter in glyphs:
            if letter is not None and _carries(letter, accent):
                letter.text = _compose(letter.text, accent.text)
                gone.add(index)
                break
    return [glyph for index, glyph in enumerate(glyphs) if index not in gone] if gone else glyphs


def _carries(letter: Glyph | None, accent: Glyph) -> bool:
    """Whether an accent is printed over this letter."""
    return (
        letter is not None
        and letter is not accent
        and letter.start < accent.end
        and accent.start < letter.end
        and letter.style.angle == accent.style.angle
        and abs(letter.style.across - accent.style.across) < 0.4 * letter.style.size
        and letter.text.isalpha()
        and _overlap(accent, letter)
        and bool(_compose(letter.text, accent.text))
    )


def _join_accents(glyphs: list[Glyph]) -> list[Glyph]:
    """Put accents that were printed over or under a letter after it, as combining characters."""
    if not any(glyph.text in _ACCENTS for glyph in glyphs):
        return glyphs
    joined: list[Glyph] = []
    waiting: Glyph | None = None
    for glyph in glyphs:
        if waiting is not None:
            if _overlap(waiting, glyph) and _compose(glyph.text, waiting.text):
                glyph.text = _compose(glyph.text, waiting.text)
            else:
                joined.append(waiting)
            waiting = None
        elif glyph.text in _ACCENTS:
            if joined and _overlap(glyph, joined[-1]) and _compose(joined[-1].text, glyph.text):
                joined[-1].text = _compose(joined[-1].text, glyph.text)
            else:
                waiting = glyph
            continue
        joined.append(glyph)
    if waiting is not None:
        joined.append(waiting)
    return joined


def _overlap(accent: Glyph, letter: Glyph) -> bool:
    common = min(accent.end, letter.end) - max(accent.start, letter.start)
    return common > 0.5 * min(accent.end - accent.start, letter.end - letter.start)


def _compose(letter: str, accent: str) -> str:
    """The accented letter, or an empty text where there is none."""
    composed = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + _ACCENTS[accent])
    return composed if len(composed) == 1 and letter.isalpha() else ""
