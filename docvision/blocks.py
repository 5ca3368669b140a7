"""Line pieces of one column -> paragraphs, headings, list items, captions, code and formulas."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from docvision.lines import Piece, is_cjk
from docvision.page import Block, BlockKind, Word, bounding_box

CAPTION = re.compile(
    r"^(?:(?:supplementary|extended data|additional)\s+)?"
    r"(?:fig(?:ure|\.)?|table|tab\.|scheme|chart|box|plate|map|graph|algorithm|listing|exhibit|abb(?:ildung|\.)|tabelle|tableau|"
    r"tabla|tabela|tabella|figura|cuadro|gr[a\u00e1]fico|schema)\s*"
    r"(?:s?\d+(?:[.\-\u2013]\d+)*[a-z]?|[ivxlc]+|[a-z]\.?\d+)\b|^(?:[\u56fe\u5716\u56f3\u8868]\s*\d+)",
    re.IGNORECASE,
)
BULLET = re.compile(
    r"^[\u2022\u2023\u25aa\u25ab\u25cf\u25cb\u25e6\u25a0\u25a1\u2043\u2219\u00b7\u27a2\u2713\u2714\u2756\u2666*\ufffd]$"
)
DASH = re.compile(r"^(?:-{1,2}|[\u2013\u2014])$")
NUMBERED = re.compile(r"^(?:\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]|\(?[A-Z]\)|\[\d{1,3}\])$")
SECTION = re.compile(
    r"^(?:\d{1,2}(?:\.\d{1,2}){0,4}\.?|[A-Z]\.(?:\d{1,2}\.?)*|[IVX]{1,5}\.|[A-Z]\.\d{1,2}(?:\.\d{1,2})*)$"
)
MATH_FONT = re.compile(
    r"^(cm(mi|sy|ex|bsy)|msam|msbm|eufm|math|mt(mi|sy|ex)|stix.*math|cambria ?math|symbol)", re.IGNORECASE
)
MATH_SIGN = re.compile(r"[=+<>\u00b1\u00d7\u00f7\u2200-\u22ff\u2190-\u21ff\u0370-\u03ff\u2211\u222b^|/]")
SENTENCE_END = re.compile(r"[.!?:;\u3002\uff01\uff1f\uff1a\uff1b]['\"\u201d\u2019)\]]*$")
HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]$")


@dataclass(slots=True)
class Column:
    """What the lines of a column have in common."""

    left: float
    right: float
    leading: float
    """Usual distance of baselines in points."""
    justified: bool
    body: float
    """Font size of the page's running text."""


def rows_of(pieces: list[Piece]) -> list[Piece]:
    """Pieces of one column with those on the same baseline put together, from top to bottom."""
    rows: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: (piece.baseline, piece.box.x0)):
        last = rows[-1][-1] if rows else None
        if last is not None and abs(piece.baseline - last.baseline) <= 0.3 * min(piece.size, last.size):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    joined = []
    for row in rows:
        row.sort(key=lambda piece: piece.box.x0)
        joined.append(row[0] if len(row) == 1 else Piece.of([w for p in row for w in p.words], row[0].order))
    return joined


def describe(rows: list[Piece], body: float) -> Column:
    """Measure a column."""
    left = min(row.box.x0 for row in rows)
    right = max(row.box.x1 for row in rows)
    same = [
        below.baseline - above.baseline
        for above, below in itertools.pairwise(rows)
        if abs(above.size - below.size) < 0.08 * above.size
        and 0.7 * above.size < below.baseline - above.baseline < 2.6 * above.size
    ]
    leading = sorted(same)[len(same) // 3] if same else 1.2 * body
    reaching = sum(row.box.x1 > right - 0.25 * body for row in rows)
    return Column(left, right, leading, len(rows) >= 4 and reaching >= 0.45 * len(rows), body)


def split_column(pieces: list[Piece], body: float) -> list[list[Piece]]:
    """Lines of a column, cut into paragraphs.

    Args:
        pieces: the column's line pieces.
        body: font size of the page's running text.
    """
    rows = rows_of(pieces)
    if not rows:
        return []
    column = describe(rows, body)
    paragraphs = [[rows[0]]]
    for index in range(1, len(rows)):
        following = rows[index + 1] if index + 1 < len(rows) else None
        if _starts_paragraph(paragraphs[-1], rows[index], following, column):
            paragraphs.append([rows[index]])
        else:
            paragraphs[-1].append(rows[index])
    return paragraphs


def _starts_paragraph(paragraph: list[Piece], row: Piece, following: Piece | None, column: Column) -> bool:
    last = paragraph[-1]
    size = max(last.size, row.size)
    distance = row.baseline - last.baseline
    if last.mono and row.mono:
        return distance > 2.6 * size
    if (
        last.mono != row.mono
        and len(row.text) > 12
        and len(last.text) > 12
        and abs(row.box.x0 - last.box.x0) > 0.5 * size
    ):
        return True
    usual = _leading(paragraph, column, size)
    if distance > usual + 0.35 * size or distance < -0.5 * size:
        return True
    if abs(last.size - row.size) > 0.09 * size and not _small_change(last, row):
        return True
    if last.bold != row.bold and _is_bold_break(paragraph, row, column):
        return True
    if starts_item(row) and (row.box.x0 <= paragraph[0].box.x0 + 0.6 * size or starts_item(paragraph[0])):
        return not (SENTENCE_END.search(last.text) is None and DASH.match(row.words[0].text) is not None)
    if starts_item(row) and SENTENCE_END.search(last.text):
        return True
    if CAPTION.match(row.text) and row.words[0].bold and not last.words[-1].bold:
        return True
    return _is_indent_break(paragraph, row, following, column, size)


def _leading(paragraph: list[Piece], column: Column, size: float) -> float:
    """Distance of baselines inside this paragraph, or in the column while the paragraph has one line."""
    if len(paragraph) >= 2:
        return max(paragraph[-1].baseline - paragraph[-2].baseline, 0.9 * size)
    return min(max(column.leading, 1.0 * size), 1.45 * size) if abs(size - column.body) < 1 else 1.3 * size


def _small_change(last: Piece, row: Piece) -> bool:
    """A line whose main size only seems to differ: most of it is small print or symbols inside a paragraph."""
    sizes = {word.size for word in row.words} & {word.size for word in last.words}
    return max(last.size, row.size) in sizes and (len(row.words) < 4 or len(last.words) < 4)


def _is_bold_break(paragraph: list[Piece], row: Piece, column: Column) -> bool:
    """A change between a bold line and one that is not, at a line end: a heading or a label above its text."""
    last = paragraph[-1]
    if last.bold:
        # A bold line that fills the column runs on into a paragraph that starts bold.
        return all(piece.bold for piece in paragraph) and (
            last.box.x1 < column.right - 2 * last.size or not row.words[0].bold
        )
    return last.box.x1 < column.right - 1.5 * last.size or bool(SENTENCE_END.search(last.text))


def _goes_on_centred(paragraph: list[Piece], row: Piece, column: Column, size: float) -> bool:
    """Whether a line goes on with a caption that is set centred, line under line."""
    first, last = paragraph[0], paragraph[-1]
    if not _is_caption(first) or CAPTION.match(row.text) or abs(row.size - last.size) > 0.3 or starts_item(row):
        return False
    if abs(row.box.center[0] - last.box.center[0]) > 0.4 * size or row.box.width > last.box.width + size:
        return False
    full = last.box.width > 0.8 * (column.right - column.left)
    return full or SENTENCE_END.search(last.text) is None


def _is_indent_break(paragraph: list[Piece], row: Piece, following: Piece | None, column: Column, size: float) -> bool:
    last = paragraph[-1]
    if _goes_on_centred(paragraph, row, column, size):
        return False
    step = row.box.x0 - last.box.x0
    hanging = len(paragraph) >= 2 and paragraph[1].box.x0 > paragraph[0].box.x0 + 0.5 * size
    short = last.box.x1 < column.right - (1.2 if column.justified else 4.0) * size
    ended = SENTENCE_END.search(last.text) is not None
    if step < -0.6 * size:
        if len(paragraph) == 1:
            # The first line was indented; this one is at the margin. A label far to the right is another matter.
            return step < -6 * size and short
        return hanging or ended or step < -3 * size
    if step > 0.6 * size:
        if starts_item(paragraph[0]) or step > 6 * size:
            return step > 6 * size
        if following is not None and following.box.x0 < row.box.x0 - 0.5 * size:
            return True  # an indented first line
        if len(paragraph) >= 2 and (ended or short):
            return True
        return ended and short
    if column.justified and short and (ended or _first_is_upper(row)):
        return ended
    return False


def _first_is_upper(row: Piece) -> bool:
    return row.text[:1].isupper() or row.text[:1].isdigit()


def starts_item(row: Piece) -> bool:
    """Whether a line starts a list item."""
    first = row.words[0].text
    if len(row.words) < 2:
        return bool(BULLET.match(first))
    if BULLET.match(first) or DASH.match(first):
        return True
    return bool(NUMBERED.match(first)) and row.words[1].box.x0 - row.words[0].box.x1 > 0.1 * row.size


def join_lines(lines: list[str]) -> str:
    """Running text of lines: line-end hyphens resolved, no spaces inside scripts that have none."""
    text = ""
    for line in lines:
        if not line:
            continue
        if not text:
            text = line
        elif HYPHEN.search(text) and line[0].islower():
            text = text[:-1] + line
        elif HYPHEN.search(text) or _is_cut_address(text) or (is_cjk(text[-1]) and is_cjk(line[0])):
            text += line
        else:
            text += " " + line
    return text


def _is_cut_address(text: str) -> bool:
    """Whether a line ends inside a web address, or with a dash or slash that takes no space after it."""
    last = text.rsplit(None, 1)[-1]
    if "://" in last or last.startswith("www."):
        return last[-1] in "./-_=&?#~%:"
    return len(last) > 1 and last[-1] in "/\u2014"


def make_block(rows: list[Piece], column_box: tuple[float, float], body: float) -> Block:
    """A paragraph's lines as a block of the kind they look like."""
    lines = [row.line() for row in rows]
    box = bounding_box(row.box for row in rows)
    kind = classify(rows, column_box, body)
    block = Block(kind=kind, box=box, lines=lines)
    if kind == "code":
        block.text = _code_text(rows)
    else:
        block.text = join_lines([line.text for line in lines])
    if kind == "list":
        block.marker = rows[0].words[0].text
        if block.text.startswith(block.marker):
            block.text = block.text[len(block.marker) :].strip()
    return block


def classify(rows: list[Piece], column_box: tuple[float, float], body: float) -> BlockKind:
    """The kind of a paragraph by its own looks; what needs the whole document is decided later."""
    first = rows[0]
    letters = sum(len(word.text) for row in rows for word in row.words)
    if sum(row.mono for row in rows) > 0.7 * len(rows) and (len(rows) > 1 or letters > 6):
        return "code"
    if first.size <= 1.25 * body and _is_caption(first):
        return "caption"
    if starts_item(first) and not _is_heading(rows, body):
        return "list"
    if _is_heading(rows, body):
        return "heading"
    if _is_formula(rows, column_box, letters):
        return "formula"
    return "text"


def _is_caption(first: Piece) -> bool:
    """A line that starts like a caption, told from a sentence that starts with "Figure 2 shows"."""
    match = CAPTION.match(first.text)
    if match is None:
        return False
    rest = first.text[match.end() :].lstrip()
    label_bold = first.words[0].bold and not first.words[-1].bold
    return not rest or rest[0] in ".:|-\u2013\u2014(" or label_bold or rest[0].isupper() or not rest[0].isascii()


def _is_heading(rows: list[Piece], body: float) -> bool:
    if len(rows) > 4:
        return False
    text = " ".join(row.text for row in rows)
    letters = sum(char.isalpha() for char in text)
    if letters < 2 or letters < 0.4 * len(text.replace(" ", "")):
        return False
    size = max(row.size for row in rows)
    if min(row.size for row in rows) > 1.12 * body:
        return len(text) < 300
    numbered = bool(SECTION.match(rows[0].words[0].text)) and len(rows[0].words) > 1
    bold = all(word.bold for row in rows for word in row.words if any(c.isalpha() for c in word.text))
    limit = 140 if numbered else 110
    if bold and size > 0.93 * body and len(text) < limit and not re.search(r"[,;]$|[^.]\.$", text):
        return True
    if numbered and len(rows) == 1 and len(text) < 70 and text.upper() == text and letters > 3:
        return True
    if numbered and len(rows) == 1 and _is_title(rows[0]) and size > 0.93 * body:
        return True
    italic = all(word.italic for row in rows for word in row.words if any(c.isalpha() for c in word.text))
    return (
        italic
        and len(rows) <= 2
        and len(text) < 100
        and text[0].isupper() | numbered
        and not re.search(r"[.,;:]$", text)
    )


def _is_title(row: Piece) -> bool:
    """A numbered line set alone that reads like a title: "2 Results and Discussion"."""
    rest = row.text.partition(" ")[2]
    return len(rest) < 60 and rest[:1].isupper() and bool(re.search(r"[^\W\d_]{4}", rest)) and rest[-1].isalpha()


def _is_formula(rows: list[Piece], column_box: tuple[float, float], letters: int) -> bool:
    if len(rows) > 6 or not letters:
        return False
    text = "".join(row.text for row in rows)
    math = sum(len(word.text) for row in rows for word in row.words if MATH_FONT.match(word.font))
    signs = len(MATH_SIGN.findall(text))
    words = len(re.findall(r"[^\W\d_]{4,}", text))
    left, right = column_box
    centred = min(row.box.x0 for row in rows) > left + 0.06 * (right - left)
    return signs >= 1 and words <= 2 + letters // 25 and (math > 0.35 * letters or (centred and signs > 0.12 * letters))


def _code_text(rows: list[Piece]) -> str:
    """Program text with its indents and inner columns kept."""
    left = min(row.box.x0 for row in rows)
    out = []
    for row in rows:
        line = ""
        for word in row.words:
            advance = (word.box.width / max(len(word.text), 1)) or 0.6 * row.size
            place = round((word.box.x0 - left) / advance)
            line += " " * max(place - len(line), 1 if line else 0) + word.text
        out.append(line)
    return "\n".join(out)


def main_size(words: list[Word]) -> float:
    """The font size that most characters have."""
    weights: dict[float, int] = {}
    for word in words:
        weights[word.size] = weights.get(word.size, 0) + len(word.text)
    halves: dict[float, int] = {}
    for size, count in weights.items():
        key = round(size * 2) / 2
        halves[key] = halves.get(key, 0) + count
    return max(halves, key=halves.__getitem__) if halves else 10.0
