"""Parts of a line that are more than letters, as Typst source: rules to write on, boxes, combs, leaders, underlines.

A run of an item names one of these in its style; the run's text is what stands in it, in the face of the person who
filled the form, and may be empty.  Rules and dots carry no element's mark, so the truth holds the text alone.
"""

from __future__ import annotations

from data_pipeline.layouts import Family, PageStyle

TICKS = "☐☑☒"
"""Markers that are drawn in the family of tick boxes."""
FILLED = ("value", "line", "dots", "frame", "comb")
"""Styles of what is filled in, in a family of its own."""


def draw_marker(marker: str, style: PageStyle) -> str:
    """A list's marker."""
    content = _quoted(marker)
    if marker and marker in TICKS and style.ticks is not None:
        return _in_family(content, style.ticks, 1.15)
    return content


def draw_run(content: str, style: str, page: PageStyle) -> str | None:
    """The run's source, or None for the ordinary styles.

    Args:
        content: text of the run.
        style: ``leader`` (dots to the right edge), ``gap`` (empty space up to the right edge), ``under`` (underlined),
            ``spaced``, ``value`` (filled in), ``line`` and ``dots`` (filled in, on a rule), ``frame`` (filled in, in a
            frame), or ``comb:N`` (filled in, one letter in each of N cells).
        page: families.
    """
    if style == "leader":
        dots = 'text(fill: rgb("#000000"), repeat[.#h(0.22em)])'
        return f"#h(0.4em)#box(width: 1fr, {dots})#h(0.4em)"
    if style == "gap":
        return "#h(1fr)"
    if style == "under":
        return f"#underline[{_quoted(content)}]"
    if style == "spaced":
        return f"#text(tracking: 0.16em)[{_quoted(content)}]"
    value = _in_family(_quoted(content), page.filled, 1.1) if page.filled and content else _quoted(content)
    if style == "value":
        return value
    if style in ("line", "dots"):
        stroke = '(thickness: 0.7pt, dash: "dotted")' if style == "dots" else "0.5pt"
        return f"#box(width: 1fr, stroke: (bottom: {stroke}), outset: (bottom: 0.25em))[#h(0.4em){value}]"
    if style == "frame":
        return f"#box(width: 1fr, stroke: 0.5pt, inset: (x: 0.4em), outset: (y: 0.4em))[{value}#h(1fr)]"
    if style.startswith("comb:"):
        return _comb(content, int(style.removeprefix("comb:")), page)
    return None


def _comb(content: str, cells: int, page: PageStyle) -> str:
    letters = [*content, *[""] * (cells - len(content))]
    parts = []
    for letter in letters:
        shown = _in_family(_quoted(letter), page.filled, 1.0) if page.filled and letter.strip() else _quoted(letter)
        parts.append(
            f"#box(width: 1.3em, height: 1.5em, baseline: 0.4em, stroke: 0.5pt)[#set align(center + horizon)\n{shown}]"
        )
    return "".join(parts)


def _in_family(source: str, family: Family, scale: float) -> str:
    return f'#text(font: "{family.name}", weight: {family.weight}, size: {scale}em)[{source}]'


def _quoted(content: str) -> str:
    escaped = content.replace("\\", "\\\\").replace('"', '\\"')
    return f'#"{escaped}"' if content else ""
