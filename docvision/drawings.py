"""Lines, painted rectangles, pictures and other vector graphics of a PDF page, as boxes.

Only geometry is read, in content order and through nested form XObjects.  A line or a thin filled rectangle is a
*rule*, an upright filled rectangle a *fill*; a raster image is an *image*; anything curved or slanted is a *drawing*.
Objects without paint (clip paths) and white fills on white paper are left out.
"""

from __future__ import annotations

import itertools
from ctypes import byref, c_float, c_int, c_uint
from dataclasses import dataclass, field

import pypdfium2.raw as raw

from docvision import pdfium
from docvision.page import Box
from docvision.pdfium import IDENTITY, Frame, Matrix, multiply, object_matrix

MAX_RULE_WIDTH = 3.0
"""Points: a thicker bar is a fill."""
MAX_OBJECTS = 40_000
"""Objects read per page; the rest of a drawing that large adds nothing to its outline."""
MAX_SEGMENTS, MAX_SLANTED = 8000, 8
"""Segments of a path that are looked at one by one, and slanted ones among them; beyond either it is a drawing."""
MAX_DEPTH = 8
WHITE = 250


@dataclass(slots=True)
class Drawings:
    """What is painted on a page besides text."""

    rules: list[Box] = field(default_factory=list)
    fills: list[Box] = field(default_factory=list)
    images: list[Box] = field(default_factory=list)
    drawings: list[Box] = field(default_factory=list)


def read_drawings(page: int, frame: Frame) -> Drawings:
    """All painted objects of a page.

    Args:
        page: address of the PDFium page.
        frame: the page's geometry.
    """
    found = Drawings()
    budget = [MAX_OBJECTS]
    for index in range(pdfium.count_objects(page)):
        _read_object(pdfium.get_object(page, index), IDENTITY, frame, found, budget, 0)
        if budget[0] <= 0:
            break
    return found


def _read_object(item: int, outer: Matrix, frame: Frame, found: Drawings, budget: list[int], depth: int) -> None:
    kind = pdfium.get_object_type(item)
    if kind == raw.FPDF_PAGEOBJ_TEXT:
        return
    budget[0] -= 1
    if kind == raw.FPDF_PAGEOBJ_PATH:
        _read_path(item, outer, frame, found)
    elif kind == raw.FPDF_PAGEOBJ_IMAGE:
        box = _bounds(item, outer, frame)
        if box is not None:
            thin = min(box.width, box.height) <= MAX_RULE_WIDTH and max(box.width, box.height) >= 12
            (found.rules if thin else found.images).append(box)
    elif kind == raw.FPDF_PAGEOBJ_SHADING:
        box = _bounds(item, outer, frame)
        if box is not None:
            found.drawings.append(box)
    elif kind == raw.FPDF_PAGEOBJ_FORM and depth < MAX_DEPTH:
        matrix = multiply(object_matrix(item), outer)
        for index in range(max(0, pdfium.count_form_objects(item))):
            if budget[0] <= 0:
                break
            _read_object(pdfium.get_form_object(item, index), matrix, frame, found, budget, depth + 1)


def _bounds(item: int, outer: Matrix, frame: Frame) -> Box | None:
    """The visible part of an object's box, or None where there is none."""
    left, bottom, right, top = (c_float() for _ in range(4))
    if not pdfium.get_bounds(item, left, bottom, right, top):
        return None
    corners = [_apply(outer, x, y, frame) for x in (left.value, right.value) for y in (bottom.value, top.value)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    box = Box(min(xs), min(ys), max(xs), max(ys))
    return box.clip(frame.width, frame.height) if frame.visible(box) else None


def _apply(matrix: Matrix, x: float, y: float, frame: Frame) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return frame.point(a * x + c * y + e, b * x + d * y + f)


def _paint(item: int) -> tuple[bool, bool]:
    """Whether a path is filled and whether it is stroked, each in a colour that shows."""
    fill_mode, stroke = c_int(), c_int()
    if not pdfium.get_draw_mode(item, byref(fill_mode), byref(stroke)):
        return False, False
    filled, stroked = fill_mode.value != 0, stroke.value != 0
    red, green, blue, alpha = c_uint(), c_uint(), c_uint(), c_uint()
    if filled and pdfium.get_fill_color(item, red, green, blue, alpha):
        filled = alpha.value > 8 and min(red.value, green.value, blue.value) < WHITE
    if stroked and pdfium.get_stroke_color(item, red, green, blue, alpha):
        stroked = alpha.value > 8
    return filled, stroked


def _read_path(item: int, outer: Matrix, frame: Frame, found: Drawings) -> None:
    filled, stroked = _paint(item)
    if not (filled or stroked):
        return
    count = pdfium.count_segments(item)
    if count > MAX_SEGMENTS:
        box = _bounds(item, outer, frame)
        if box is not None:
            found.drawings.append(box)
        return
    subpaths = _subpaths(item, count, multiply(object_matrix(item), outer), frame)
    if subpaths is None:
        box = _bounds(item, outer, frame)
        if box is not None:
            found.drawings.append(box)
        return
    width = c_float(0.5)
    pdfium.get_stroke_width(item, width)
    thickness = min(max(width.value, 0.1), MAX_RULE_WIDTH)
    for points, closed in subpaths:
        _sort_subpath(points, closed, (filled, stroked), thickness, frame, found)


def _subpaths(
    item: int, count: int, matrix: Matrix, frame: Frame
) -> list[tuple[list[tuple[float, float]], bool]] | None:
    """Points of each subpath in visible coordinates, or None where the path is no set of upright lines."""
    subpaths: list[tuple[list[tuple[float, float]], bool]] = []
    points: list[tuple[float, float]] = []
    x, y = c_float(), c_float()
    slanted = 0
    for index in range(count):
        segment = pdfium.get_segment(item, index)
        kind = pdfium.get_segment_type(segment)
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            return None
        pdfium.get_segment_point(segment, x, y)
        point = _apply(matrix, x.value, y.value, frame)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            if len(points) > 1:
                subpaths.append((points, False))
            points = []
        elif points and abs(points[-1][0] - point[0]) >= 0.6 and abs(points[-1][1] - point[1]) >= 0.6:
            slanted += 1
            if slanted > MAX_SLANTED:
                return None
        points.append(point)
        if pdfium.get_segment_close(segment):
            if len(points) > 1:
                subpaths.append((points, True))
            points = [points[0]]
    if len(points) > 1:
        subpaths.append((points, False))
    return subpaths


def _sort_subpath(
    points: list[tuple[float, float]],
    closed: bool,
    paint: tuple[bool, bool],
    thickness: float,
    frame: Frame,
    found: Drawings,
) -> None:
    """File one straight-edged subpath under rules, fills or drawings."""
    filled, stroked = paint
    xs, ys = [x for x, _ in points], [y for _, y in points]
    box = Box(min(xs), min(ys), max(xs), max(ys))
    half = thickness / 2
    if not frame.visible(box.pad(half)):
        return
    edges = list(itertools.pairwise(points))
    if (closed or filled) and points[0] != points[-1]:
        edges.append((points[-1], points[0]))
    if not all(abs(x0 - x1) < 0.6 or abs(y0 - y1) < 0.6 for (x0, y0), (x1, y1) in edges):
        found.drawings.append(box.clip(frame.width, frame.height))
        return
    if filled and min(box.width, box.height) <= MAX_RULE_WIDTH:
        found.rules.append(box.clip(frame.width, frame.height))
        return
    if filled:
        found.fills.append(box.clip(frame.width, frame.height))
    if stroked:
        for (x0, y0), (x1, y1) in edges:
            edge = Box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
            edge = edge.pad(half, 0) if edge.height >= edge.width else edge.pad(0, half)
            if frame.visible(edge):
                found.rules.append(edge.clip(frame.width, frame.height))
