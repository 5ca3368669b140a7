"""COCO detection files: the blocks of pages as boxes with categories.

One JSON object with ``images``, ``annotations`` and ``categories``; ``bbox`` is (x, y, width, height) in pixels of the
picture.  Kept both ways: picture names and sizes, kind and box of every block, and the reading order, which is the
order of annotation ids.  Not held: text, lines, tables' cells, heading levels, markers, sources, ``dropped``.

Pages are in pixels here: a page has the size of its picture and the boxes are rounded to 1/100 px.  Category names of
PubLayNet and DocLayNet are understood as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, get_args

from docvision.page import Block, BlockKind, Box, Page

KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
"""Category n + 1 is kind n."""
ALIASES: dict[str, BlockKind] = {
    "title": "heading", "section-header": "heading", "list-item": "list", "picture": "figure", "image": "figure",
    "page-header": "header", "page-footer": "footer", "equation": "formula", "paragraph": "text",
}  # fmt: skip


def to_coco(pages: Iterable[tuple[str, Page]]) -> dict[str, Any]:
    """The whole file as a dictionary, from (picture name, page) pairs; ids count from 1."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for name, page in pages:
        page = in_pixels(page)
        images.append({"id": len(images) + 1, "file_name": name, "width": int(page.width), "height": int(page.height)})
        for block in page.blocks:
            x0, y0, x1, y1 = block.box
            bbox = [x0, y0, round(x1 - x0, 2), round(y1 - y0, 2)]
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": len(images), "category_id": KINDS.index(block.kind) + 1,
                    "bbox": bbox, "area": round(bbox[2] * bbox[3], 2), "iscrowd": 0,
                    "segmentation": [[x0, y0, x1, y0, x1, y1, x0, y1]],
                }
            )  # fmt: skip
    categories = [{"id": number, "name": kind, "supercategory": "block"} for number, kind in enumerate(KINDS, 1)]
    return {"images": images, "annotations": annotations, "categories": categories}


def in_pixels(page: Page) -> Page:
    """Block boxes in pixels of the page's raster, else in points, rounded to 1/100; whole sides."""
    width, height = page.pixels or (max(1, round(page.width)), max(1, round(page.height)))
    scale = width / page.width if page.width else 1.0, height / page.height if page.height else 1.0
    blocks = [replace(block, box=block.box.scale(*scale).rounded(2)) for block in page.blocks]
    return replace(page, width=float(width), height=float(height), pixels=(width, height), blocks=blocks)


def from_coco(data: Any) -> list[tuple[str, Page]]:
    """(picture name, page) in the order of ``images``, blocks in the order of annotation ids.

    Raises:
        ValueError: something is missing, of another kind, or points to nothing; the message names the entry.
    """
    images, annotations, categories = (_entries(data, name) for name in ("images", "annotations", "categories"))
    kinds = {entry["id"]: _kind(entry) for entry in _checked(categories, "categories", ("id", "name"))}
    pages: dict[Any, tuple[str, Page]] = {}
    for entry in _checked(images, "images", ("id", "file_name", "width", "height")):
        if not all(isinstance(entry[side], int) and entry[side] > 0 for side in ("width", "height")):
            raise ValueError(f"images: id {entry['id']} must have width and height in whole pixels")
        size = entry["width"], entry["height"]
        pages[entry["id"]] = str(entry["file_name"]), Page(1, float(size[0]), float(size[1]), pixels=size)
    needed = ("id", "image_id", "category_id", "bbox")
    for entry in sorted(_checked(annotations, "annotations", needed), key=lambda entry: entry["id"]):
        if entry["image_id"] not in pages or entry["category_id"] not in kinds:
            raise ValueError(f"annotations: id {entry['id']} names an image or a category that the file lacks")
        box = entry["bbox"]
        if not isinstance(box, list) or len(box) != 4 or not all(isinstance(value, int | float) for value in box):
            raise ValueError(f"annotations: bbox of id {entry['id']} must be four numbers")
        x, y, width, height = box
        page = pages[entry["image_id"]][1]
        place = Box(x, y, x + width, y + height).rounded(2)
        page.blocks.append(Block(kinds[entry["category_id"]], Box(*map(float, place)), source="truth"))
    return list(pages.values())


def _entries(data: Any, name: str) -> list[Any]:
    entries = data.get(name) if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise ValueError(f"no list of {name}: a COCO file is an object with images, annotations and categories")
    return entries


def _checked(entries: list[Any], name: str, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """The entries, each an object with these fields and an id of its own."""
    seen: set[int] = set()
    for number, entry in enumerate(entries, 1):
        missing = [key for key in fields if key not in entry] if isinstance(entry, dict) else list(fields)
        if missing:
            raise ValueError(f"{name}: entry {number} has no {', '.join(missing)}")
        if not isinstance(entry["id"], int) or entry["id"] in seen:
            raise ValueError(f"{name}: id {entry['id']!r} of entry {number} is not a whole number of its own")
        seen.add(entry["id"])
    return entries


def _kind(category: dict[str, Any]) -> BlockKind:
    name = str(category["name"]).lower().replace("_", "-")
    for kind in KINDS:
        if name == kind:
            return kind
    if name in ALIASES:
        return ALIASES[name]
    raise ValueError(f"categories: unknown name {category['name']!r}: use {', '.join((*KINDS, *ALIASES))}")
