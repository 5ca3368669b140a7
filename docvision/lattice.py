"""Tables drawn as a net of lines.

The cells are the meshes of the net, joined where a line is missing.  Rules of thumb repair what is drawn carelessly:
sides left open, double lines, lines under words, rows and columns that only a part of the table rules.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

from docvision.blocks import CAPTION
from docvision.cells import FoundTable, is_numeric, make_cell, text_lines, tidy
from docvision.lines import words_text
from docvision.page import Box, Table, Word, bounding_box

SNAP = 3.0
"""Lines closer than this are one, and ends this near to a line touch it (points)."""
MAX_LINES = 1200
"""A page with more lines is a drawing: no lattice is looked for."""


@dataclass(slots=True)
class Ruling:
    """Straight lines of a page, joined and sorted."""

    across: list[Box] = field(default_factory=list)
    upright: list[Box] = field(default_factory=list)


def join_rules(rules: list[Box]) -> Ruling:
    """Sort lines into horizontal and upright ones and join those that lie on each other."""
    across = [rule for rule in rules if rule.width > 3 * rule.height and rule.width > 4]
    upright = [rule for rule in rules if rule.height > 3 * rule.width and rule.height > 4]
    flipped = [Box(rule.y0, rule.x0, rule.y1, rule.x1) for rule in upright]
    return Ruling(_join_across(across), [Box(b.y0, b.x0, b.y1, b.x1) for b in _join_across(flipped)])


def _join_across(rules: list[Box]) -> list[Box]:
    """Join horizontal lines: the same height within a point, overlapping or nearly touching."""
    joined: list[Box] = []
    rows: list[list[Box]] = []
    for rule in sorted(rules, key=lambda rule: rule.y0 + rule.y1):
        if rows and (rule.y0 + rule.y1) / 2 - (rows[-1][-1].y0 + rows[-1][-1].y1) / 2 < 1.2:
            rows[-1].append(rule)
        else:
            rows.append([rule])
    for row in rows:
        row.sort(key=lambda rule: rule.x0)
        current = row[0]
        for rule in row[1:]:
            if rule.x0 <= current.x1 + SNAP:
                current = current.union(rule)
            else:
                joined.append(current)
                current = rule
        joined.append(current)
    return joined


def find_lattices(words: list[Word], ruling: Ruling) -> list[FoundTable]:
    """Tables drawn as a net of lines.

    Args:
        words: horizontal words of the page.
        ruling: the page's joined lines.
    """
    if len(ruling.across) + len(ruling.upright) > MAX_LINES:
        return []
    found = []
    for across, upright in find_nets(ruling):
        table = _lattice_table(words, across, upright)
        if table is not None:
            found.append(table)
    return found


def find_nets(ruling: Ruling, snap: float = SNAP) -> list[tuple[list[Box], list[Box]]]:
    """Connected sets of crossing lines, level and upright ones; ends within ``snap`` of a line touch it."""
    count = len(ruling.across)
    parent = list(range(count + len(ruling.upright)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for i, line in enumerate(ruling.across):
        reach = line.pad(snap)
        for j, other in enumerate(ruling.upright):
            if reach.x0 <= other.x1 and other.x0 <= reach.x1 and reach.y0 <= other.y1 and other.y0 <= reach.y1:
                parent[root(i)] = root(count + j)
    nets: dict[int, tuple[list[Box], list[Box]]] = {}
    for i, line in enumerate(ruling.across):
        nets.setdefault(root(i), ([], []))[0].append(line)
    for j, line in enumerate(ruling.upright):
        nets.setdefault(root(count + j), ([], []))[1].append(line)
    return [net for net in nets.values() if len(net[0]) >= 2 and len(net[1]) >= 1]


def _cluster(values: list[float], reach: float = SNAP) -> list[float]:
    """Sorted values with near ones replaced by their mean."""
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= reach:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]


def _lattice_table(words: list[Word], across: list[Box], upright: list[Box]) -> FoundTable | None:
    outer = bounding_box(across + upright)
    inside = [word for word in words if outer.contains(*word.box.center)]
    if not inside:
        return None
    edges = net_edges([word.box.center for word in inside], across, upright)
    if edges is None:
        return None
    xs, ys = edges
    grid = LatticeGrid(xs, ys, across, upright)
    cells = grid.cells()
    if len(cells) < 3 or len(cells) > 20_000:
        return None
    if _is_title_row(cells, xs, ys, inside):
        # A caption set into the frame above the table is no row of it.
        return _lattice_table(
            words,
            [line for line in across if line.center[1] > ys[0] + SNAP],
            [Box(line.x0, max(line.y0, ys[1]), line.x1, line.y1) for line in upright],
        )
    box = Box(xs[0], ys[0], xs[-1], ys[-1])
    inside = [word for word in words if box.contains(*word.box.center)]
    refined = _refine(grid, cells, inside)
    return None if refined is None else FoundTable(box, refined, inside)


def net_edges(
    middles: list[tuple[float, float]], across: list[Box], upright: list[Box], snap: float = SNAP
) -> tuple[list[float], list[float]] | None:
    """Borders of the columns and rows of a net, its open sides closed where text stands beyond the last line.

    Args:
        middles: of the text.
        across: level lines.
        upright: upright lines.
        snap: how near lines are one.

    Returns:
        x and y in order; None where there are not two columns.
    """
    xs = _cluster([line.center[0] for line in upright], snap)
    ys = _cluster([line.center[1] for line in across], snap)
    # A table may be open at its sides: the horizontal lines then end where the outer columns end.
    left, right = min(line.x0 for line in across), max(line.x1 for line in across)
    if xs[0] - left > 8 and any(x < xs[0] for x, _ in middles):
        xs.insert(0, left)
    if right - xs[-1] > 8 and any(x > xs[-1] for x, _ in middles):
        xs.append(right)
    top, bottom = min(line.y0 for line in upright), max(line.y1 for line in upright)
    if ys[0] - top > 6 and any(y < ys[0] for _, y in middles):
        ys.insert(0, top)
    if bottom - ys[-1] > 6 and any(y > ys[-1] for _, y in middles):
        ys.append(bottom)
    return (xs, ys) if len(xs) > 2 and len(ys) > 1 else None


def _is_title_row(cells: list[tuple[int, int, int, int]], xs: list[float], ys: list[float], words: list[Word]) -> bool:
    """Whether the first row is one mesh over all columns that holds a caption."""
    if cells[0] != (0, 0, 1, len(xs) - 1) or len(ys) < 4:
        return False
    lines = text_lines([word for word in words if ys[0] <= word.box.center[1] < ys[1]])
    return bool(lines) and CAPTION.match(words_text(lines[0])) is not None


@dataclass(slots=True)
class LatticeGrid:
    """Meshes of a net."""

    xs: list[float]
    ys: list[float]
    across: list[Box]
    upright: list[Box]
    snap: float = SNAP

    def cells(self) -> list[tuple[int, int, int, int]]:
        """(row, column, row span, column span) of each mesh, row by row."""
        rows, columns = len(self.ys) - 1, len(self.xs) - 1
        walls = [[self._wall(row, column + 1) for column in range(columns - 1)] for row in range(rows)]
        floors = [[self._floor(row + 1, column) for column in range(columns)] for row in range(rows - 1)]
        taken = [[False] * columns for _ in range(rows)]
        found = []
        for row in range(rows):
            for column in range(columns):
                if taken[row][column]:
                    continue
                wide = 1
                while column + wide < columns and not walls[row][column + wide - 1] and not taken[row][column + wide]:
                    wide += 1
                tall = 1
                while row + tall < rows and self._goes_down(row + tall, column, wide, walls, floors, taken):
                    tall += 1
                for r in range(row, row + tall):
                    for c in range(column, column + wide):
                        taken[r][c] = True
                found.append((row, column, tall, wide))
        return found

    @staticmethod
    def _goes_down(
        row: int, column: int, wide: int, walls: list[list[bool]], floors: list[list[bool]], taken: list[list[bool]]
    ) -> bool:
        span = range(column, column + wide)
        return not any(floors[row - 1][c] or taken[row][c] for c in span) and not any(
            walls[row][c] for c in range(column, column + wide - 1)
        )

    def _wall(self, row: int, x_index: int) -> bool:
        """Whether an upright line stands between two meshes of a row."""
        x, top, bottom = self.xs[x_index], self.ys[row], self.ys[row + 1]
        covered = sum(
            max(0.0, min(bottom, line.y1) - max(top, line.y0))
            for line in self.upright
            if abs(line.center[0] - x) <= self.snap
        )
        return covered >= 0.55 * (bottom - top)

    def _floor(self, y_index: int, column: int) -> bool:
        y, left, right = self.ys[y_index], self.xs[column], self.xs[column + 1]
        covered = sum(
            max(0.0, min(right, line.x1) - max(left, line.x0))
            for line in self.across
            if abs(line.center[1] - y) <= self.snap
        )
        return covered >= 0.55 * (right - left)


Mesh = tuple[int, int, int, int]
"""Row, column, row span, column span."""


def _refine(grid: LatticeGrid, cells: list[Mesh], words: list[Word]) -> Table | None:
    """Fill the meshes with words, cutting those that hold several cells although no line parts them."""
    texts = _sort_words(grid, cells, words)
    pairs: list[tuple[Mesh, list[Word]]] = []
    for mesh, text in zip(cells, texts, strict=True):
        pairs.extend(_cut_wide(grid, mesh, text))
    pairs = _cut_bands(grid, pairs)
    filled = [mesh for mesh, text in pairs if text]
    if len(filled) < 2 or len({mesh[1] for mesh in filled}) < 2:
        return None
    made = []
    for (row, column, tall, wide), text in pairs:
        box = Box(grid.xs[column], grid.ys[row], grid.xs[column + wide], grid.ys[row + tall])
        made.append(make_cell(row, column, tall, wide, text, box))
    return tidy(Table(len(grid.ys) - 1, len(grid.xs) - 1, made))


def _sort_words(grid: LatticeGrid, cells: list[Mesh], words: list[Word]) -> list[list[Word]]:
    texts: list[list[Word]] = [[] for _ in cells]
    owner = {}
    for index, (row, column, tall, wide) in enumerate(cells):
        for r in range(row, row + tall):
            for c in range(column, column + wide):
                owner[r, c] = index
    for word in words:
        x, y = word.box.center
        row, column = bisect_right(grid.ys, y) - 1, bisect_right(grid.xs, x) - 1
        row, column = min(max(row, 0), len(grid.ys) - 2), min(max(column, 0), len(grid.xs) - 2)
        texts[owner[row, column]].append(word)
    return texts


def _cut_wide(grid: LatticeGrid, mesh: Mesh, words: list[Word]) -> list[tuple[Mesh, list[Word]]]:
    """Cut a mesh at the column lines of other rows, where its words leave them clear on both sides."""
    row, column, tall, wide = mesh
    if wide == 1 or len(words) < 2:
        return [(mesh, words)]
    lines = text_lines(words)
    clear = [k for k in range(column + 1, column + wide) if _is_clear(grid.xs[k], lines)]
    bounds = [column, *clear, column + wide]
    parts = []
    for first, last in pairwise(bounds):
        inside = [word for word in words if grid.xs[first] <= word.box.center[0] < grid.xs[last]]
        parts.append(((row, first, tall, last - first), inside))
    full = [part for part in parts if part[1]]
    if len(full) < 2 or sum(len(inside) for _, inside in parts) != len(words):
        return [(mesh, words)]
    return parts


def _is_clear(x: float, lines: list[list[Word]]) -> bool:
    """Whether no line of text runs over an edge, as a cell across several columns would."""
    for line in lines:
        before = [word for word in line if word.box.center[0] < x]
        after = [word for word in line if word.box.center[0] >= x]
        if any(word.box.x0 < x - 1 < x + 1 < word.box.x1 for word in line):
            return False
        if before and after and after[0].box.x0 - before[-1].box.x1 < 0.55 * after[0].size:
            return False
    return True


def _cut_bands(grid: LatticeGrid, pairs: list[tuple[Mesh, list[Word]]]) -> list[tuple[Mesh, list[Word]]]:
    """Cut rows of the net that hold several lines of figures: rows of a table ruled only around them."""
    for row in range(len(grid.ys) - 2, -1, -1):
        band = [(mesh, words) for mesh, words in pairs if mesh[0] <= row < mesh[0] + mesh[2]]
        if any(mesh[2] > 1 for mesh, _ in band):
            continue
        lines = text_lines([word for _, words in band for word in words])
        if len(lines) < 2 or not _is_block_of_rows(band, lines):
            continue
        edges = [(max(w.box.y1 for w in one) + min(w.box.y0 for w in two)) / 2 for one, two in pairwise(lines)]
        grid.ys[row + 1 : row + 1] = edges
        added = len(edges)
        moved: list[tuple[Mesh, list[Word]]] = []
        for mesh, words in pairs:
            if mesh[0] > row:
                moved.append(((mesh[0] + added, *mesh[1:]), words))
            elif mesh[0] < row:
                moved.append((mesh, words))
            else:
                for step in range(added + 1):
                    top, bottom = grid.ys[row + step], grid.ys[row + step + 1]
                    inside = [w for w in words if _falls(w.box.center[1], top, bottom, step, added)]
                    moved.append(((row + step, mesh[1], 1, mesh[3]), inside))
        pairs = moved
    return pairs


def _falls(y: float, top: float, bottom: float, step: int, last: int) -> bool:
    return (step == 0 or top <= y) and (step == last or y < bottom)


def _is_block_of_rows(band: list[tuple[Mesh, list[Word]]], lines: list[list[Word]]) -> bool:
    """Whether the lines of a band are rows: most of them reach over most cells, and hold figures."""
    filled = [words for _, words in band if words]
    if len(filled) < 2:
        return False
    counts = [len(text_lines(words)) for words in filled]
    figures = [is_numeric("".join(word.text for word in line)) for words in filled[1:] for line in text_lines(words)]
    return sum(count >= 0.7 * len(lines) for count in counts) >= 0.7 * len(filled) and (
        sum(figures) >= 0.6 * len(figures)
    )
