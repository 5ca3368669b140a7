"""Plans as Typst source, with a mark on everything that is drawn.

Truth must come from the rendered PDF, so every element carries its number *in its colours*: the low four bits of red,
green and blue hold the twelve bits of the number.  Text of element 5 is ``#000005``, which prints as black; a table
cell or a figure has a rectangle of its own behind it, in such a colour and fully transparent.  PDFium tells the fill
colour of each character and each path, so every one of them names its element, exactly and without any searching.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from data_pipeline.figures import draw_figure
from data_pipeline.form_fields import draw_marker, draw_run
from data_pipeline.layouts import Beside, Family, FigurePlan, Group, Item, Node, PageStyle, Plan
from data_pipeline.table_plans import CellPlan, TablePlan

MAX_ELEMENTS = 4095


@dataclass(frozen=True, slots=True)
class Element:
    """Something with a number: a block, or a cell of a table block."""

    number: int
    item: Item
    cell: CellPlan | None = None
    repeated: bool = False
    """Whether it stands on every page (running heads)."""

    @property
    def text(self) -> str:
        if self.cell is not None:
            return self.cell.printed
        marker = f"{self.item.marker} " if self.item.marker else ""
        return marker + self.item.text


def mark_color(number: int, red: int = 0, green: int = 0, blue: int = 0) -> tuple[int, int, int]:
    """The colour nearest below the given one that carries ``number``."""
    return (red & 0xF0) | (number >> 8 & 15), (green & 0xF0) | (number >> 4 & 15), (blue & 0xF0) | (number & 15)


def number_of(red: int, green: int, blue: int) -> int:
    """The number in a colour."""
    return (red & 15) << 8 | (green & 15) << 4 | blue & 15


def write_source(plan: Plan) -> tuple[str, list[Element]]:
    """Typst source of a plan, and its elements; element ``n`` has number ``n + 1``.

    Raises:
        ValueError: the plan has more elements than numbers.
    """
    writer = _Source(plan)
    source = writer.write()
    if len(writer.elements) > MAX_ELEMENTS:
        raise ValueError(f"a page plan has {len(writer.elements)} elements: keep it below {MAX_ELEMENTS + 1}")
    return source, writer.elements


def write_table(table: TablePlan, style: PageStyle, width: str) -> tuple[str, list[Element]]:
    """Typst source of one page that a table fills, and its elements; ``width`` is the page's, or ``auto``."""
    writer = _Source(Plan("table", style, (None,) * 3, (None,) * 3, (), ()))
    item = Item("table", table=table)
    body = writer._table(item, table, writer._number(item))
    margin = f"{style.margins[0]:.1f}pt"
    page = f"#set page(width: {width}, height: auto, margin: {margin})"
    return "\n".join([page, writer._type(), body]), writer.elements


def _string(content: str) -> str:
    escaped = content.replace("\\", "\\\\").replace('"', '\\"')
    return f'#"{escaped}"'


def _hex(color: tuple[int, int, int], alpha: str = "") -> str:
    red, green, blue = color
    return f'rgb("#{red:02x}{green:02x}{blue:02x}{alpha}")'


def draw_icon(name: str, ink: str) -> str:
    """A drawing of about a letter's size."""
    stroke = f"stroke: 0.09em + {ink}"
    drawings = {
        "check": f"#curve({stroke}, curve.move((0em, 0.35em)), curve.line((0.25em, 0.6em)), curve.line((0.7em, 0em)))",
        "cross": f"#curve({stroke}, curve.move((0em, 0em)), curve.line((0.6em, 0.6em)), curve.move((0.6em, 0em)), curve.line((0em, 0.6em)))",
        "dot": f"#circle(radius: 0.3em, fill: {ink})",
        "ring": f"#circle(radius: 0.3em, {stroke})",
        "square": f"#rect(width: 0.6em, height: 0.6em, {stroke})",
        "bar": f"#rect(width: 1.6em, height: 0.5em, fill: {ink})",
        "up": f"#polygon(fill: {ink}, (0em, 0.6em), (0.6em, 0.6em), (0.3em, 0em))",
        "down": f"#polygon(fill: {ink}, (0em, 0em), (0.6em, 0em), (0.3em, 0.6em))",
    }
    return f"#box[{drawings[name]}]"


class _Source:
    """Writes one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.style = plan, plan.style
        self.elements: list[Element] = []

    def write(self) -> str:
        header = self._running(self.plan.header, "below" if self.style.header_rule else "")
        title = "\n".join(self._node(node) for node in self.plan.title)
        if title and self.style.columns > 1:
            title = f'#place(top, scope: "parent", float: true, clearance: 1.2em)[#block(width: 100%)[{title}]]'
        flow = "\n".join(self._node(node) for node in self.plan.flow)
        # The foot is read last, so its numbers come last.
        footer = self._running(self.plan.footer, "above" if self.style.footer_rule else "")
        return "\n".join([*self._settings(header, footer), title, flow])

    def _settings(self, header: str, footer: str) -> Iterator[str]:
        s = self.style
        left, top, right, bottom = s.margins
        yield (
            f"#set page(width: {s.width}pt, height: {s.height}pt, columns: {s.columns}, header-ascent: 30%, footer-descent: 30%,"
            f" margin: (left: {left:.1f}pt, top: {top:.1f}pt, right: {right:.1f}pt, bottom: {bottom:.1f}pt),"
            f" header: [{header}], footer: [{footer}], background: [{self._column_rules()}])"
        )
        yield f"#set columns(gutter: {s.gutter:.1f}pt)"
        yield self._type()
        yield (
            f"#set par(justify: {str(s.justify).lower()}, leading: {s.leading_em:.3f}em, spacing: {s.spacing_em:.3f}em,"
            f" first-line-indent: (amount: {s.first_em:.2f}em, all: true))"
        )
        yield f"#set block(spacing: {s.spacing_em:.3f}em)"

    def _type(self) -> str:
        s = self.style
        return (
            f'#set text(font: "{s.body.name}", weight: {s.body.weight}, size: {s.size:.2f}pt, lang: "{s.language}", ligatures: false,'
            f" fallback: false, hyphenate: {str(s.hyphenate).lower()}, overhang: false)\n#set smartquote(enabled: false)"
        )

    def _column_rules(self) -> str:
        s = self.style
        if not s.column_rule:
            return ""
        left, top, _, bottom = s.margins
        length = s.height - top - bottom
        xs = [left + (i + 1) * (s.column_width + s.gutter) - s.gutter / 2 for i in range(s.columns - 1)]
        return "".join(
            f"#place(top + left, dx: {x:.1f}pt, dy: {top:.1f}pt, line(angle: 90deg, length: {length:.1f}pt, stroke: 0.5pt))"
            for x in xs
        )

    def _running(self, items: tuple[Item | None, ...], rule: str) -> str:
        if not any(items):
            return ""
        cells = [f"[{self._text(item, self._number(item, repeated=True))}]" if item else "[]" for item in items]
        line = "#line(length: 100%, stroke: 0.5pt)"
        grid = (
            f"#grid(columns: (auto, 1fr, auto), column-gutter: 1em, align: (left, center, right), {', '.join(cells)})"
        )
        return f"#set par(first-line-indent: 0pt, spacing: 0.5em)\n{line if rule == 'above' else ''}{grid}{line if rule == 'below' else ''}"

    def _number(self, item: Item, cell: CellPlan | None = None, repeated: bool = False) -> int:
        self.elements.append(Element(len(self.elements) + 1, item, cell, repeated))
        return len(self.elements)

    # nodes

    def _node(self, node: Node) -> str:
        if isinstance(node, Item):
            return self._item(node)
        if isinstance(node, Beside):
            stacks = ["[" + "\n".join(self._node(inner) for inner in stack) + "]" for stack in node.stacks]
            widths = ", ".join(f"{share:.3f}fr" for share in node.widths)
            return f"#grid(columns: ({widths}), column-gutter: {node.gutter:.1f}pt, {', '.join(stacks)})"
        wide = node.place.startswith("span-")
        inner = "\n".join(self._item(item, wide) for item in node.items)
        if node.place == "flow":
            breakable = "true" if self._long(node) else "false"
            return f"#block(breakable: {breakable}, width: 100%, above: 1.3em, below: 1.3em)[{inner}]"
        scope = 'scope: "parent", ' if wide else ""
        side = node.place.removeprefix("span-")
        return f"#place({side}, {scope}float: true, clearance: 1.2em)[#block(width: 100%)[{inner}]]"

    def _long(self, group: Group) -> bool:
        return any(item.table is not None and item.table.rows > 8 for item in group.items)

    def _item(self, item: Item, wide: bool = False) -> str:
        number = self._number(item)
        if item.figure is not None:
            return self._figure(item.figure, number, wide)
        if item.table is not None:
            return f"#block(width: 100%, above: 0.6em, below: 0.6em)[#set align(center)\n{self._table(item, item.table, number)}]"
        if item.formula:
            fill = _hex(mark_color(number), "00")
            ink = _hex(mark_color(number))
            return f"#block(width: 100%)[#set align(center)\n#box(fill: {fill})[#set text(fill: {ink}, fallback: true);$ {item.formula} $]]"
        look, s = item.look, self.style
        spaces = "".join(
            f", {side}: {value:.2f}em" for side, value in (("above", look.above), ("below", look.below)) if value >= 0
        )
        sticky = ", sticky: true" if item.kind == "heading" else ""
        panel = ""
        if look.panel != (255, 255, 255):
            panel = f", fill: {_hex(mark_color(number, *look.panel))}"
        if look.framed:
            panel += ", stroke: 0.5pt"
        pad = "4pt" if panel else "0pt"
        inset = f"inset: (left: {look.left:.2f}em + {pad}, right: {look.right:.2f}em + {pad}, y: {pad})"
        line = "#line(length: 100%, stroke: 0.5pt)"
        if look.rule == "above":
            line = "#line(length: 30%, stroke: 0.4pt)"
        inner = self._text(item, number)
        inner = f"{line}#v(-0.5em)\n{inner}" if look.rule == "above" else inner
        inner = f"{inner}\n#v(-0.4em){line}" if look.rule == "below" else inner
        align = f"#set align({look.align})\n" if look.align else ""
        ragged = "#set par(justify: false)\n" if look.align and item.kind != "list" else ""
        first = look.first if look.first >= 0 else (s.first_em if item.kind == "text" else 0)
        par = f"#set par(hanging-indent: {look.hanging:.2f}em, first-line-indent: (amount: {first:.2f}em, all: true))\n"
        return f"#block(width: 100%, {inset}{spaces}{panel}{sticky})[{align}{ragged}{par}{inner}]"

    # text

    def _text(self, item: Item, number: int) -> str:
        look = item.look
        family = {"body": self.style.body, "heading": self.style.heading, "mono": self.style.mono}[look.font]
        ink = _hex(mark_color(number, *look.ink))
        settings = [
            f"fill: {ink}",
            f'font: "{family.name}"',
            f"weight: {family.bold if look.bold else family.weight}",
            f"size: {look.scale:.3f}em",
        ]
        if look.italic and family.italic:
            settings.append('style: "italic"')
        if look.tracking:
            settings.append(f"tracking: {look.tracking:.2f}em")
        if item.kind in ("heading", "code", "header", "footer"):
            settings.append("hyphenate: false")
        marker = f"#box(width: {look.hanging:.2f}em)[{draw_marker(item.marker, self.style)}]" if item.marker else ""
        body = "".join(self._run(part, style, family) for part, style in item.runs)
        if item.kind == "code":
            body = "#linebreak()".join(_string(line.replace(" ", "\u00a0")) for line in item.text.split("\n"))
        if look.rule == "under":
            body = f"#underline[{body}]"
        return f"#text({', '.join(settings)})[{marker}{body}]"

    def _run(self, content: str, style: str, family: Family) -> str:
        if (drawn := draw_run(content, style, self.style)) is not None:
            return drawn
        body = "#linebreak()".join(_string(line) for line in content.split("\n"))
        if style == "bold":
            return f"#text(weight: {family.bold})[{body}]"
        if style == "italic" and family.italic:
            return f'#text(style: "italic")[{body}]'
        return f"#super(typographic: false, size: 0.65em)[{body}]" if style == "super" else body

    # tables and figures

    def _table(self, item: Item, table: TablePlan, number: int) -> str:
        stroke = f"{table.stroke}pt + {_hex(mark_color(number))}"
        sides = {"full": stroke, "rows": f"(x: none, y: {stroke})", "columns": f"(x: {stroke}, y: none)"}.get(
            table.ruling, "none"
        )
        lines = []
        if table.ruling in ("booktabs", "header"):
            places = {table.header_rows} if table.header_rows else set()
            places |= {0, table.rows} if table.ruling == "booktabs" else set()
            lines = [f"table.hline(y: {y}, stroke: {stroke})" for y in sorted(places)]
        lines += [f"table.hline(y: {y}, start: {x}, end: {end}, stroke: {stroke})" for y, x, end in table.rules]
        widths = ", ".join(f"{share:.2f}{table.unit}" if share else "auto" for share in table.widths)
        # What is printed again keeps its number, which only one column of text can tell apart.
        again = table.repeats and self.style.columns == 1 and 0 < table.header_rows < table.rows
        cells = [self._cell(item, table, cell, stroke, again) for cell in table.cells]
        if again:
            count = sum(cell.row < table.header_rows for cell in table.cells)
            cells = [f"table.header({', '.join(cells[:count])})", *cells[count:]]
        x, y = table.inset
        source = (
            f"#table(columns: ({widths},), stroke: {sides}, inset: (x: {x:.2f}em, y: {y:.2f}em), align: {table.vertical},\n"
            + ",\n".join([*cells, *lines]) + ")"
        )  # fmt: skip
        if table.ruling == "outer":
            source = f"#block(stroke: {stroke})[{source}]"
        settings = f"#set text(size: {table.scale:.3f}em, hyphenate: false)\n#set par(justify: false, first-line-indent: 0pt, leading: {table.leading:.2f}em)\n"
        return settings + source

    def _cell(self, item: Item, table: TablePlan, cell: CellPlan, stroke: str, again: bool) -> str:
        number = self._number(item, cell, again and cell.row < table.header_rows)
        grey = table.header_fill if cell.header else 240 if table.zebra and cell.row % 2 else 255
        fill = _hex(mark_color(number, grey, grey, grey), "" if grey != 255 else "00")
        ink = _hex(mark_color(number, *(240 if grey < 128 else 0,) * 3))
        spans = f", colspan: {cell.column_span}" * (cell.column_span > 1)
        spans += f", rowspan: {cell.row_span}" * (cell.row_span > 1)
        body = self._cell_text(cell, ink) if cell.text else draw_icon(cell.icon, ink) if cell.icon else ""
        if table.span_rules and cell.header and cell.column_span > 1 and cell.text:
            # As wide as the cell without its insets, on its lower border.
            body += f"#place(bottom + left, dy: {table.inset[1]:.2f}em, line(length: 100%, stroke: {stroke}))"
        return f"table.cell(x: {cell.column}, y: {cell.row}{spans}, breakable: false, align: {cell.align} + {table.vertical}, fill: {fill})[{body}]"

    def _cell_text(self, cell: CellPlan, ink: str) -> str:
        family = self.style.body
        style = ', style: "italic"' if cell.italic and family.italic else ""
        weight = family.bold if cell.bold else family.weight
        body = self._run(cell.text, "", family) + (self._run(cell.note, "super", family) if cell.note else "")
        body = f"#text(fill: {ink}, weight: {weight}{style})[{body}]"
        if cell.indent:
            body = f"#pad(left: {cell.indent:.2f}em)[{body}]"
        return f"#rotate(-90deg, reflow: true)[{body}]" if cell.turned else body

    def _figure(self, figure: FigurePlan, number: int, wide: bool) -> str:
        s = self.style
        room = s.width - s.margins[0] - s.margins[2] if wide else s.column_width
        width = figure.width * room
        height = min(width * figure.aspect, 0.4 * (s.height - s.margins[1] - s.margins[3]))
        drawing = draw_figure(figure, width, height, lambda grey: _hex(mark_color(number, grey, grey, grey)))
        fill = _hex(mark_color(number), "00")
        return f"#block(width: 100%, above: 0.6em, below: 0.6em)[#set align(center)\n#block(width: {width:.1f}pt, height: {height:.1f}pt, fill: {fill}, breakable: false)[#set align(left)\n{drawing}]]"
