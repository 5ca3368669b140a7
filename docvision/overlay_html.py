"""Pages with their blocks drawn over them, for people who check: one HTML file, or one picture a page.

A box's colour is how sure its text is, a dashed edge says that the model read it, the number is its place in the
reading order, and what was left out has a dotted grey edge.  Clicking a box marks its entry in the list beside the
page, and the other way round.  The file loads nothing, and its policy lets only this module's own script run, so
nothing that stands in a document can.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
from collections.abc import Mapping

from PIL import Image, ImageColor, ImageDraw, ImageFont

from docvision.export import block_code, table_to_html
from docvision.markdown import clean
from docvision.page import Block, Box, Document, Page

SURE, LIKELY = 0.9, 0.7
"""At least so sure is green, or amber; less is red."""
COLOURS = {"sure": "#1a7f37", "likely": "#9a6700", "doubtful": "#cf222e", "dropped": "#57606a"}
SOURCES = {"text-layer": "PDF text", "model": "read by the model", "truth": "truth"}
PARTS = ("page", "list", "key")
"""Of the display: the picture, the list, the key."""
JPEG_QUALITY = 80
BADGE = 5.0
"""Points; radius of the disc with a block's number, beside its box."""
MAX_LABEL = 120
"""Characters of a block's text in its label; the list has all of it."""

SCRIPT = """
(() => {
  const choose = (chosen) => {
    const key = chosen.dataset.block;
    for (const item of document.querySelectorAll("[data-block]")) {
      const same = item.dataset.block === key;
      item.classList.toggle("chosen", same);
      if (same && item !== chosen && item.offsetParent !== null) {
        item.scrollIntoView({block: "nearest", behavior: "smooth"});
      }
    }
    for (const told of document.querySelectorAll(".audit-told")) {
      told.textContent = chosen.dataset.told || "";
    }
  };
  document.addEventListener("click", (event) => {
    const item = event.target.closest("[data-block]");
    if (item) choose(item);
  });
  document.addEventListener("keydown", (event) => {
    const item = event.target.closest("g[data-block]");
    if (item && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      choose(item);
    }
  });
})();
"""
STYLE = "".join(f".audit-{part} .{name}{{--edge:{colour}}}" for name, colour in COLOURS.items() for part in PARTS) + (
    ".audit-page svg{display:block;width:100%;height:auto;background:#fff;border:1px solid #d0d7de;border-radius:6px}"
    ".audit-page g{cursor:pointer;outline:none}"
    ".audit-page rect{fill:var(--edge);fill-opacity:.06;stroke:var(--edge);stroke-width:1.2;"
    "vector-effect:non-scaling-stroke}"
    ".audit-page .model rect{stroke-dasharray:5 3}.audit-page .dropped rect{stroke-dasharray:1 3;cursor:help}"
    ".audit-page g:hover rect,.audit-page g:focus rect{fill-opacity:.18}"
    ".audit-page g.chosen rect{fill-opacity:.25;stroke-width:3}"
    ".audit-page circle{fill:var(--edge)}.audit-page text{fill:#fff;font:700 6.5px sans-serif;text-anchor:middle}"
    ".audit-list{list-style:none;margin:0;padding:0}"
    ".audit-list button{all:unset;box-sizing:border-box;display:block;width:100%;cursor:pointer;padding:.35rem .6rem;"
    "margin:.2rem 0;border-left:4px solid var(--edge);border-radius:4px;overflow-wrap:anywhere}"
    ".audit-list button:hover{background:#8c959f26}.audit-list button:focus-visible{outline:2px solid #0969da}"
    ".audit-list button.chosen{background:#54aeff40}.audit-list .about{font-size:.8rem;opacity:.8;display:block}"
    ".audit-list .body{white-space:pre-wrap}.audit-list table{border-collapse:collapse;white-space:normal}"
    ".audit-list td,.audit-list th{border:1px solid #8c959f;padding:.1rem .35rem;text-align:left}"
    ".audit-list .scroll{display:block;overflow-x:auto}"
)  # fmt: skip
_SHEET = (
    "body{margin:0;font:1rem/1.45 system-ui,sans-serif;color:#1f2328;background:#f6f8fa}"
    "header,main{max-width:90rem;margin:auto;padding:1rem}.pages a{display:inline-block;padding:.25rem .5rem}"
    ".audit{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:1rem;margin-bottom:2rem}"
    ".audit>h2,.audit>p{grid-column:1/-1;margin:0}.audit-list{max-height:90vh;overflow-y:auto}"
    ".audit-key span{display:inline-block;margin-right:1rem}.audit-key i{display:inline-block;width:.8rem;height:.8rem;"
    "margin-right:.3rem;background:var(--edge)}@media(max-width:50rem){.audit{grid-template-columns:minmax(0,1fr)}}"
)


def to_overlay_html(document: Document, pictures: Mapping[int, bytes]) -> str:
    """One self-contained HTML file to check a document with.

    Args:
        document: whose pages are shown.
        pictures: page number -> JPEG or PNG of the page; a page without one is shown as boxes on white.
    """
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = _safe(document.metadata.get("title") or document.source) or "document"
    lines = [
        '<!doctype html>\n<html lang="und">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>{_SHEET}{STYLE}</style>\n</head>\n<body>",
        f"<header><h1>{title}</h1>{colour_key()}",
    ]
    links = " ".join(f'<a href="#page-{page.number}">{page.number}</a>' for page in document.pages)
    lines.append(f'<nav class="pages" aria-label="Pages">{links}</nav></header>\n<main>')
    for page in document.pages:
        lines.append(f'<section class="audit" id="page-{page.number}"><h2>Page {page.number}</h2>{page_notes(page)}')
        lines.append(f'<div class="audit-page">{page_svg(page, pictures.get(page.number, b""))}</div>')
        lines.append(f"{block_list(page)}</section>")
    lines.append(f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>")
    return "\n".join(lines) + "\n"


def page_svg(page: Page, picture: bytes = b"") -> str:
    """A page's picture with its blocks over it, as SVG with the page's points as its unit."""
    width, height = max(page.width, 1.0), max(page.height, 1.0)
    label = f"Page {page.number} with {len(page.blocks)} blocks"
    lines = [f'<svg viewBox="0 0 {width:g} {height:g}" role="group" aria-label="{label}">']
    if picture:
        lines.append(f'<image href="{data_uri(picture)}" width="{width:g}" height="{height:g}"/>')
    for dropped in page.dropped:
        told = _safe(f"left out ({dropped.reason}): {dropped.text}")
        lines.append(f'<g class="dropped"><title>{told}</title>{_rect(dropped.box)}</g>')
    for index, block in enumerate(page.blocks):
        told = _safe(_told(index, block), MAX_LABEL)
        box = block.box.clip(width, height)
        x, y = max(box.x0 - BADGE, BADGE), max(box.y0 + BADGE, BADGE)
        lines.append(
            f'<g class="{_classes(block)}" data-block="{page.number}-{index}" data-told="{told}" tabindex="0"'
            f' role="button" aria-label="{told}"><title>{told}</title>{_rect(block.box)}'
            f'<circle cx="{x:g}" cy="{y:g}" r="{BADGE:g}"/><text x="{x:g}" y="{y + 2.3:g}">{index + 1}</text></g>'
        )
    return "".join([*lines, "</svg>"])


def block_list(page: Page) -> str:
    """A page's blocks in reading order, each a button that marks its place."""
    items = []
    for index, block in enumerate(page.blocks):
        told = _safe(_told(index, block), MAX_LABEL)
        items.append(
            f'<li><button type="button" class="{_classes(block)}" data-block="{page.number}-{index}"'
            f' data-told="{told}"><span class="about">{_safe(_about(index, block))}</span>{_body(block)}</button></li>'
        )
    return f'<ol class="audit-list" tabindex="0" aria-label="Blocks in reading order">{"".join(items)}</ol>'


def page_notes(page: Page) -> str:
    """What a page's reader should know: why it failed, warnings, what was left out."""
    notes = [f"Failed: {page.error}"] if page.status == "failed" else []
    notes += page.warnings
    notes += [f"Left out ({dropped.reason}): {dropped.text}" for dropped in page.dropped]
    return "".join(f'<p class="note">{_safe(note)}</p>' for note in notes)


def colour_key() -> str:
    """What the colours say."""
    meanings = {
        "sure": f"sure ({SURE:.0%} or more)", "likely": f"likely ({LIKELY:.0%} or more)", "doubtful": "doubtful",
        "dropped": "left out",
    }  # fmt: skip
    entries = "".join(f'<span class="{name}"><i></i>{meaning}</span>' for name, meaning in meanings.items())
    return f'<p class="audit-key">{entries}<span>dashed: read by the model</span></p>'


def draw_overlay(page: Page, image: Image.Image) -> Image.Image:
    """The page's picture with its blocks, their order and the colours of their confidence."""
    picture = image.convert("RGB")
    x, y = picture.width / max(page.width, 1.0), picture.height / max(page.height, 1.0)
    tint = Image.new("RGBA", picture.size)
    draw = ImageDraw.Draw(tint)
    font = ImageFont.load_default(size=max(10, round(11 * x)))
    for box in (dropped.box.scale(x, y) for dropped in page.dropped):
        draw.rectangle(_corners(box), outline=ImageColor.getrgb(COLOURS["dropped"]))
    for index, block in enumerate(page.blocks):
        colour = ImageColor.getrgb(COLOURS[certainty(block.confidence)])
        corners = _corners(block.box.scale(x, y))
        width = max(2, round(1.5 * x))
        draw.rectangle(corners, fill=(*colour[:3], 28), outline=colour, width=width if block.source != "model" else 1)
        number = str(index + 1)
        left, top, right, bottom = draw.textbbox((corners[0], corners[1]), number, font=font)
        draw.rectangle((left - 3, top - 2, right + 3, bottom + 2), fill=colour)
        draw.text((corners[0], corners[1]), number, font=font, fill="white")
    return Image.alpha_composite(picture.convert("RGBA"), tint).convert("RGB")


def certainty(confidence: float) -> str:
    """``sure``, ``likely`` or ``doubtful``."""
    return "sure" if confidence >= SURE else "likely" if confidence >= LIKELY else "doubtful"


def jpeg(image: Image.Image, width: int) -> bytes:
    """A picture as JPEG, no wider than ``width``."""
    if image.width > width:
        image = image.resize((width, max(1, round(image.height * width / image.width))), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.convert("RGB").save(out, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return out.getvalue()


def data_uri(picture: bytes) -> str:
    kind = "png" if picture.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def _classes(block: Block) -> str:
    return f"{certainty(block.confidence)} {'model' if block.source == 'model' else 'layer'}"


def _about(index: int, block: Block) -> str:
    level = f" {block.level}" if block.kind == "heading" and block.level else ""
    return f"{index + 1} \u00b7 {block.kind}{level} \u00b7 {SOURCES[block.source]} \u00b7 {block.confidence:.0%}"


def _told(index: int, block: Block) -> str:
    text = block.text
    if block.table is not None:
        text = f"{block.table.rows} rows, {block.table.columns} columns"
    return f"{_about(index, block)}: {text}".removesuffix(": ")


def _body(block: Block) -> str:
    if block.table is not None:
        return f'<span class="scroll">{table_to_html(block.table)}</span>'
    text = block_code(block) if block.kind == "code" else f"{block.marker} {block.text}".strip()
    return f'<span class="body">{html.escape(clean(text))}</span>'


def _safe(text: str, limit: int = 0) -> str:
    """One line, escaped for text and for attributes alike."""
    text = " ".join(clean(text).split())
    if limit and len(text) > limit:
        text = text[: limit - 1] + "\u2026"
    return html.escape(text)


def _rect(box: Box) -> str:
    return f'<rect x="{box.x0:g}" y="{box.y0:g}" width="{max(box.width, 0):g}" height="{max(box.height, 0):g}"/>'


def _corners(box: Box) -> tuple[float, float, float, float]:
    return min(box.x0, box.x1), min(box.y0, box.y1), max(box.x0, box.x1), max(box.y0, box.y1)
