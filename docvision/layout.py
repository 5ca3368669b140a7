"""Words and drawings of a page -> blocks in reading order.

Steps: text along other directions is set aside; figures and tables are found and take their words; what is left becomes
line pieces, columns, paragraphs and kinds.  Every word of the layer ends in exactly one block or under ``dropped``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docvision.blocks import main_size, make_block, split_column
from docvision.cells import FoundTable
from docvision.columns import Group, reading_order
from docvision.figures import claim_labels, find_figures
from docvision.flow import finish_document
from docvision.lattice import Ruling, join_rules
from docvision.lines import Piece, build_pieces, words_text
from docvision.page import Block, Box, Dropped, Line, Word, bounding_box
from docvision.tables import aligned_table, find_tables, without
from docvision.textlayer import TextLayer

__all__ = ["finish_document", "layout_from_layer"]


WATERMARK_SIZE = 24.0
"""Slanted text of at least this size is a watermark."""
AXIS_REACH = 20.0
"""Points: turned text this near to a figure is its axis title."""


@dataclass(slots=True)
class _Fixed:
    """A block that is already made and only wants a place in the order."""

    box: Box
    block: Block


def layout_from_layer(layer: TextLayer, width: float, height: float) -> tuple[list[Block], list[Dropped]]:
    """Arrange a page.

    Args:
        layer: what was read from the PDF.
        width: of the page in points.
        height: of the page in points.

    Returns:
        Blocks in reading order, and the text that was left out with the reason why.
    """
    dropped = [Dropped(word.text, word.box, "hidden text") for word in layer.hidden]
    groups: dict[float, list[Word]] = {}
    for index, word in enumerate(layer.words):
        groups.setdefault(layer.angle(index), []).append(word)
    upright = {angle: words for angle, words in groups.items() if angle % 90 == 0}
    main = max(upright, key=lambda angle: sum(len(word.text) for word in upright[angle]), default=0.0)
    blocks = arrange_turned(upright.get(main, []), layer, main, width, height)
    for angle, words in groups.items():
        if angle == main:
            continue
        if angle in upright:
            for block in arrange_turned(words, TextLayer(), angle, width, height):
                if not _joins_figure(block, blocks):
                    block.kind = "text" if block.kind in ("heading", "caption") else block.kind
                    blocks.append(block)
        elif max(word.size for word in words) >= WATERMARK_SIZE:
            dropped += [Dropped(word.text, word.box, "watermark") for word in words]
        else:
            blocks.append(_slanted_block(words, angle))
    return blocks, dropped


def _joins_figure(block: Block, blocks: list[Block]) -> bool:
    """Give turned text beside a figure, such as the title of an axis, to the figure."""
    if not block.lines:
        return False
    for figure in blocks:
        if figure.kind == "figure" and figure.box.pad(AXIS_REACH).contains(*block.box.center):
            figure.lines += block.lines
            figure.text = f"{figure.text} {block.text}".strip()
            figure.box = figure.box.union(block.box)
            return True
    return False


def _slanted_block(words: list[Word], angle: float) -> Block:
    box = bounding_box(word.box for word in words)
    line = Line(words_text(words), box, words, angle=angle)
    return Block(kind="text", box=box, text=line.text, lines=[line])


def arrange_turned(words: list[Word], layer: TextLayer, angle: float, width: float, height: float) -> list[Block]:
    """Arrange words of one direction: turn the page until they are upright, arrange, turn back."""
    if not words:
        return _figure_blocks(layer, [], [], 10.0, width, height)[0]
    if angle == 0:
        return arrange(words, layer, width, height)
    there, back = _turns(angle, width, height)
    for word in words:
        word.box = there(word.box)
    turned = TextLayer(
        rules=[there(box) for box in layer.rules],
        fills=[there(box) for box in layer.fills],
        images=[there(box) for box in layer.images],
        drawings=[there(box) for box in layer.drawings],
    )
    size = (height, width) if angle in (90, 270) else (width, height)
    blocks = arrange(words, turned, *size)
    for word in words:
        word.box = back(word.box)
    for block in blocks:
        block.box = back(block.box)
        for line in block.lines:
            line.box, line.angle = back(line.box), angle
        for cell in block.table.cells if block.table else ():
            cell.box = back(cell.box) if cell.box else None
            cell.text_box = back(cell.text_box) if cell.text_box else None
    return blocks


def _turns(angle: float, width: float, height: float) -> tuple[Callable[[Box], Box], Callable[[Box], Box]]:
    """Maps from the page to a page on which text of this direction is upright, and back."""
    if angle == 90:
        return (
            lambda b: Box(height - b.y1, b.x0, height - b.y0, b.x1),
            lambda b: Box(b.y0, height - b.x1, b.y1, height - b.x0),
        )
    if angle == 270:
        return (
            lambda b: Box(b.y0, width - b.x1, b.y1, width - b.x0),
            lambda b: Box(width - b.y1, b.x0, width - b.y0, b.x1),
        )

    def half_turn(b: Box) -> Box:
        return Box(width - b.x1, height - b.y1, width - b.x0, height - b.y0)

    return half_turn, half_turn


def arrange(words: list[Word], layer: TextLayer, width: float, height: float) -> list[Block]:
    """Blocks of upright words in reading order."""
    body = main_size(words)
    ruling = join_rules(layer.rules)
    fixed: list[_Fixed] = []
    for table in find_tables(words, ruling):
        words = without(words, table.words)
        fixed.append(_Fixed(table.box, _table_block(table)))
    pieces = build_pieces(words, layer.rules, width, height)
    figures, pieces = _figure_blocks(layer, pieces, [item.box for item in fixed], body, width, height)
    items: list[Piece | _Fixed] = [*pieces, *fixed, *(_Fixed(block.box, block) for block in figures)]

    def is_table(group: Group[Piece | _Fixed]) -> bool:
        return _as_table(group, ruling) is not None

    blocks: list[Block] = []
    for leaf in reading_order(items, 0.7 * body, is_table):
        if isinstance(leaf, Group):
            found = _as_table(leaf, ruling)
            assert found is not None
            blocks.append(_table_block(found))
        else:
            blocks.extend(_leaf_blocks(leaf, body))
    return blocks


def _figure_blocks(
    layer: TextLayer, pieces: list[Piece], taken: list[Box], body: float, width: float, height: float
) -> tuple[list[Block], list[Piece]]:
    """Figures with their labels, and the pieces that are left."""
    blocks = []
    for box in find_figures(layer, taken, width, height):
        claim = claim_labels(box, pieces, body)
        if claim is None:
            continue
        area, labels = claim
        labels = sorted(labels, key=lambda piece: (piece.baseline, piece.box.x0))
        gone = {id(piece) for piece in labels}
        pieces = [piece for piece in pieces if id(piece) not in gone]
        text = " ".join(piece.text for piece in labels)
        blocks.append(Block(kind="figure", box=area, text=text, lines=[piece.line() for piece in labels]))
    return blocks, pieces


def _table_block(found: FoundTable) -> Block:
    return Block(kind="table", box=found.box, table=found.table)


def _as_table(group: Group[Piece | _Fixed], ruling: Ruling) -> FoundTable | None:
    """A group of columns as a table, where it looks like one."""
    pieces = [item for item in group.items if isinstance(item, Piece)]
    if len(pieces) < len(group.items):
        return None
    return aligned_table([word for piece in pieces for word in piece.words], ruling)


def _leaf_blocks(leaf: list[Piece | _Fixed], body: float) -> list[Block]:
    """Blocks of one column, tables and figures at their places."""
    blocks: list[Block] = []
    run: list[Piece] = []
    edges = (min(item.box.x0 for item in leaf), max(item.box.x1 for item in leaf))
    for item in leaf:
        if isinstance(item, _Fixed):
            blocks.extend(make_block(rows, edges, body) for rows in split_column(run, body))
            run = []
            blocks.append(item.block)
        else:
            run.append(item)
    blocks.extend(make_block(rows, edges, body) for rows in split_column(run, body))
    return blocks
