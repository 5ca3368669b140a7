"""Plain text to Markdown that reads back as the same plain text.

The dialect is CommonMark with pipe tables, ``~~`` and ``$``.  A character is escaped only where a reader would
take it for syntax: "3 * 4" and "a_b_c" stay as they are, "*x*" does not.
"""

from __future__ import annotations

import re
from urllib.parse import quote

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_IN_ADDRESSES = "/:?#&=%~,;+@!$*-._"
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def clean(text: str) -> str:
    """Without control characters, which no export can carry; line ends as line feeds."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def paragraph(text: str) -> str:
    """Plain text as one Markdown paragraph; a line feed inside it becomes a hard break."""
    lines = [line.strip(" \t") for line in clean(text).split("\n")]
    lines = escape_inline("\n".join(line for line in lines if line)).split("\n")
    return "  \n".join(escape_line_start(line, first=not number) for number, line in enumerate(lines))


def heading(text: str, level: int) -> str:
    """An ATX heading; levels outside 1-6 are brought inside."""
    text = escape_inline(" ".join(clean(text).split()))
    if not text:
        return ""
    text = re.sub(r"(^|(?<= ))(#+)$", r"\\\2", text)  # a closing run of # would be swallowed
    return "#" * min(max(level, 1), 6) + " " + text


def escape_inline(text: str) -> str:
    """``text`` with a backslash or an entity wherever CommonMark (with tables, ~~, $) would see inline syntax."""
    text = re.sub(rf"\\(?=[{re.escape(_PUNCTUATION)}\n])", r"\\\\", text)
    text = re.sub(r"&(?=#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z][A-Za-z0-9]{1,31};)", "&amp;", text)
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
    if text.count("`") > 1:
        text = text.replace("`", "\\`")
    if re.search(r"\][(\[:]", text):
        text = re.sub(r"(?=[\[\]])", r"\\", text)
    for mark in "*_~":
        if _pairs(text, mark):
            text = text.replace(mark, "\\" + mark)
    if re.search(r"\$\$|(?<![\w$])\$(?=\S)[^$]*(?<=\S)\$(?!\d)", text):
        text = text.replace("$", "\\$")
    return text


def _pairs(text: str, mark: str) -> bool:
    """Whether some run of ``mark`` could open emphasis and a later one close it."""
    opened = False
    for run in re.finditer(re.escape(mark) + "+", text):
        before = text[run.start() - 1] if run.start() else " "
        after = text[run.end()] if run.end() < len(text) else " "
        inside_word = mark == "_" and before.isalnum() and after.isalnum()
        if inside_word:
            continue
        if opened and not before.isspace():
            return True
        opened = opened or not after.isspace()
    return False


def escape_line_start(line: str, first: bool) -> str:
    """Escapes what would start another kind of block at the beginning of ``line``."""
    if re.match(r"#{1,6}(\s|$)|>|```|~~~|[-+*](\s|$)", line) or re.fullmatch(r"([-_*])[ \t]*(\1[ \t]*){2,}", line):
        return "\\" + line
    if not first and re.fullmatch(r"=+|-+|[|:\- \t]+", line):  # would turn the line above into a heading or table
        return "\\" + line
    return re.sub(r"^(\d{1,9})([.)])(?=\s|$)", r"\1\\\2", line)


def fenced(code: str) -> str:
    if not code.strip():
        return ""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{code}\n{fence}"


def formula(tex: str) -> str:
    """TeX as displayed mathematics; a space keeps readers without mathematics from seeing a tag in ``a<b``."""
    return f"$$\n{re.sub(r'<(?=[A-Za-z/!?])', '< ', clean(tex).strip())}\n$$"


def image(name: str, address: str) -> str:
    """A picture; whatever its address holds stays inside the address."""
    return f"![{name}]({quote(address, safe=_IN_ADDRESSES)})"


def is_tex(text: str) -> bool:
    """Whether a formula's text is TeX rather than characters taken off the page."""
    return bool(re.search(r"\\[A-Za-z]+|[_^]\{", text))
