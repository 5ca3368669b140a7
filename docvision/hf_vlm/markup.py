"""What document models write, as blocks: Markdown with HTML, pipe or LaTeX tables, DocTags, OTSL.

Nothing here raises on bad markup: a model in trouble writes any, and what cannot be understood stays text.  Markdown
has no positions, so its blocks get the box that the caller gives; DocTags has them on a grid of 500 x 500.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docvision.page import Block, BlockKind, Box, Cell, Table
from docvision.table_html import html_to_table

GRID = 500
DOCTAGS: dict[str, BlockKind] = {
    "text": "text", "paragraph": "text", "reference": "text", "caption": "caption", "footnote": "footnote",
    "formula": "formula", "code": "code", "page_header": "header", "page_footer": "footer", "picture": "figure",
    "chart": "figure", "list_item": "list", "otsl": "table", "document_index": "table",
}  # fmt: skip
OTSL_CELLS = ("fcel", "ecel", "ched", "rhed", "srow")
_ELEMENT = re.compile(
    r"<(title|section_header_level_\d+|" + "|".join(DOCTAGS) + r")>(.*?)(?:</\1>|(?=<(?:title|section_header_level_\d+|"
    + "|".join(DOCTAGS) + r")>)|\Z)", re.DOTALL,
)  # fmt: skip
_LOCATION = re.compile(r"<loc_(\d+)>")
_OTSL = re.compile(r"<(fcel|ecel|ched|rhed|srow|lcel|ucel|xcel|nl)>([^<]*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"(\s*)([-*+\u2022]|\d{1,3}[.)])\s+(.*)")
_RULE = re.compile(r"\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$")
_OPENERS = re.compile(r"\s*(<table\b|\\begin\{(tabular|table|array)\w*\*?\}|```|\$\$|\\\[)", re.IGNORECASE)
_CLOSERS = {"<table": r"</table\s*>", "```": r"\n\s*```", "$$": r"\$\$", "\\[": r"\\\]"}


def to_blocks(text: str, box: Box) -> list[Block]:
    """Blocks in reading order, of whatever format the text is in.

    Args:
        text: answer of a model for one page.
        box: of the page; blocks without a position of their own get it whole.
    """
    if re.search(r"<(doctag|otsl|loc_\d+)>", text):
        return list(_from_doctags(text, box))
    return list(_from_markdown(text, box))


def _from_doctags(text: str, page: Box) -> Iterator[Block]:
    lists = 0
    for match in _ELEMENT.finditer(text):
        name, inner = match[1], match[2]
        places = [int(value) for value in _LOCATION.findall(inner)[:4]]
        box = page
        if len(places) == 4 and places[0] < places[2] and places[1] < places[3]:
            box = Box(*(value / GRID for value in places)).scale(page.width, page.height).shift(page.x0, page.y0)
        inner = _LOCATION.sub("", inner)
        kind = DOCTAGS.get(name, "heading")
        lists = lists + 1 if kind == "list" else 0
        if kind == "table":
            yield Block("table", box, table=otsl_table(inner), source="model")
            continue
        level = 0
        if kind == "heading":
            level = 1 if name == "title" else int(name.rsplit("_", 1)[1]) + 1
        plain = re.sub(r"<[^<>]{1,60}>", "", inner).strip()
        marker, plain = _marker(plain) if kind == "list" else ("", plain)
        if plain or kind == "figure":
            yield Block(kind, box, plain, level=level, marker=marker, source="model")


def _marker(text: str) -> tuple[str, str]:
    found = _ITEM.fullmatch(text)
    return (found[2], found[3]) if found else ("", text)


def otsl_table(text: str) -> Table:
    """A table of OTSL tokens with their texts; tokens that say nothing sensible are empty cells."""
    grid: list[list[tuple[str, str]]] = [[]]
    for name, inner in _OTSL.findall(text):
        if name == "nl":
            grid.append([])
        else:
            grid[-1].append((name, " ".join(inner.split())))
    grid = [row for row in grid if row]
    columns = max(map(len, grid), default=0)
    names = [[name for name, _ in row] + ["ecel"] * (columns - len(row)) for row in grid]
    cells = []
    for row, items in enumerate(grid):
        for column, (name, words) in enumerate(items):
            if name not in OTSL_CELLS:
                continue
            wide = 1
            while column + wide < columns and names[row][column + wide] == "lcel":
                wide += 1
            tall = 1
            while row + tall < len(names) and names[row + tall][column] in ("ucel", "xcel"):
                tall += 1
            cells.append(Cell(row, column, words, tall, wide, header=name == "ched", source="model"))
    return Table(len(grid), columns, cells)


def _from_markdown(text: str, box: Box) -> Iterator[Block]:
    lines = text.split("\n")
    place = 0
    paragraph: list[str] = []
    while place < len(lines):
        line = lines[place]
        opener = _OPENERS.match(line)
        pipes = "|" in line and place + 1 < len(lines) and _RULE.match(lines[place + 1]) is not None
        alone = opener or pipes or _HEADING.match(line) or _ITEM.match(line) or not line.strip()
        if alone and paragraph:
            yield Block("text", box, plain(" ".join(paragraph)), source="model")
            paragraph = []
        if opener:
            block, place = _enclosed(lines, place, opener, box)
            yield block
        elif pipes:
            stop = place + 2
            while stop < len(lines) and "|" in lines[stop]:
                stop += 1
            yield Block("table", box, table=_pipe_table([lines[place], *lines[place + 2 : stop]]), source="model")
            place = stop
        else:
            if alone and line.strip():
                yield _single(line, box)
            elif line.strip():
                paragraph.append(line.strip())
            place += 1
    if paragraph:
        yield Block("text", box, plain(" ".join(paragraph)), source="model")


def _single(line: str, box: Box) -> Block:
    heading = _HEADING.match(line)
    if heading:
        return Block("heading", box, plain(heading[2]), level=len(heading[1]), source="model")
    item = _ITEM.match(line)
    assert item is not None
    level = len(item[1].expandtabs(4)) // 2
    return Block("list", box, plain(item[3]), level=level, marker=item[2], source="model")


def _enclosed(lines: list[str], place: int, opener: re.Match[str], box: Box) -> tuple[Block, int]:
    """A block that begins with a sign and goes on to its counterpart, or to the end where there is none."""
    rest = "\n".join(lines[place:])
    sign = opener[1].lower()
    closer = _CLOSERS.get(sign, rf"\\end\{{{opener[2]}\w*\*?\}}")
    found = re.compile(closer, re.IGNORECASE).search(rest, opener.end())
    inner = rest[: found.end()] if found else rest
    after = place + inner.count("\n") + 1
    if found and "\n" not in rest[found.end() :][:1] and rest[found.end() :].split("\n", 1)[0].strip():
        lines[after - 1] = rest[found.end() :].split("\n", 1)[0]  # text goes on behind it on the same line
        after -= 1
    if sign == "<table":
        table = html_to_table(inner) or Table(0, 0)
        for cell in table.cells:
            cell.source = "model"
        return Block("table", box, table=table, source="model"), after
    if opener[2]:
        return Block("table", box, table=latex_table(inner), source="model"), after
    body = inner[len(opener[0]) :]
    body = body[: found.start() - opener.end()] if found else body
    if sign == "```":
        body = body.partition("\n")[2] if "\n" in body else body
        return Block("code", box, body.strip("\n"), source="model"), after
    return Block("formula", box, body.strip(), source="model"), after


def _pipe_table(lines: list[str]) -> Table:
    rows = [re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|")) for line in lines]
    cells = [
        Cell(row, column, plain(text.strip().replace("\\|", "|")), header=row == 0, source="model")
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    ]
    return Table(len(rows), max(map(len, rows)), cells)


def latex_table(text: str) -> Table:
    """The rows of a tabular; rules are skipped, multicolumn and multirow are spans."""
    body = re.sub(r"\\(begin|end)\{\w+\*?\}(\[[^\]]*\])?(\{[^{}]*(\{[^{}]*\}[^{}]*)*\})?", "", text)
    body = re.sub(r"\\(hline|toprule|midrule|bottomrule|centering|(c|cmid)(line|rule)(\([lr]+\))?\{[^{}]*\})", "", body)
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", body) if row.strip()]
    cells: list[Cell] = []
    taken: set[tuple[int, int]] = set()
    for number, row in enumerate(rows):
        column = 0
        for part in re.split(r"(?<!\\)&", row):
            wide = tall = 1
            found = re.search(r"\\multicolumn\{(\d{1,3})\}\{[^{}]*\}", part)
            if found:
                wide, part = max(int(found[1]), 1), part.replace(found[0], "")
            found = re.search(r"\\multirow\{(\d{1,3})\}\{[^{}]*\}", part)
            if found:
                tall, part = min(max(int(found[1]), 1), len(rows) - number), part.replace(found[0], "")
            words = plain_latex(part)
            if (number, column) in taken and not words:  # the place below a multirow is written empty
                column += wide
                continue
            cells.append(Cell(number, column, words, tall, wide, source="model"))
            taken |= {(number + i, column + j) for i in range(tall) for j in range(wide)}
            column += wide
    return Table(len(rows), max((cell.column + cell.column_span for cell in cells), default=0), cells)


def plain_latex(text: str) -> str:
    """A cell without its commands."""
    text = re.sub(r"\\(text\w*|mathrm|mathbf|emph)\s*", "", text)
    text = re.sub(r"\\([%&_#$])", r"\1", text)
    return " ".join(text.replace("{", "").replace("}", "").replace("~", " ").split())


def plain(text: str) -> str:
    """Running text without Markdown's signs for emphasis, links and pictures, and without its escapes."""
    text = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\((?:https?:|mailto:)[^)]*\)", r"\1", text)
    text = re.sub(r"(\*\*\*|\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    text = re.sub(r"(?<![\w*])\*(?=[^\s*])([^*]+?)(?<=\S)\*(?![\w*])", r"\1", text)
    text = re.sub(r"`([^`]+)`", r"\1", text)
    text = re.sub(r"<br\s*/?>", " ", text, flags=re.IGNORECASE)
    return re.sub(r"\\([\\`*_{}\[\]()#+.!|<>-])", r"\1", text).strip()
