"""What the demo shows: HTML, CSS and the little script that joins a page's picture, its list and its thumbnails.

Everything that comes from a document is escaped here or in docvision/overlay_html.py; Markdown is sanitised once
more by the browser.  Pictures are written into the page itself, so the web server keeps no copy of them.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace

from apps import demo_race
from apps.demo_drawing import Order
from apps.demo_visits import Limits, Opened
from docvision import export
from docvision.markdown import clean
from docvision.overlay_html import SCRIPT, STYLE, block_list, colour_key, data_uri, page_notes, page_svg
from docvision.page import Document

HEADER = (
    '<header class="dv-header"><h1>docvision</h1><p>PDFs, scans and photographed pages to Markdown, HTML, tables and'
    " JSON. Your files stay on the machine that runs this page and are deleted when you leave it.</p></header>"
)
MAX_NOTES = 8
IMAGES_WELCOME = (
    '<div class="dv-welcome"><h2>Images, token by token</h2><p>A small generator that comes with the package draws'
    " pieces of Fashion-MNIST, 28 pixels a side: choose a class and press <b>Draw</b>. The same class, seed, guidance"
    " and place always give the same picture. Its decoder is the one that reads documents.</p></div>"
)
COLOURS = {
    name: value
    for names, value in (
        (("body_background_fill",), "*neutral_50"),
        (("block_title_text_color", "block_label_text_color"), "*neutral_800"),
        (("block_title_text_color_dark", "block_label_text_color_dark"), "*neutral_200"),
        (("block_title_background_fill", "block_title_background_fill_dark"), "none"),
        (("block_label_background_fill", "block_label_background_fill_dark"), "none"),
        (("block_title_padding",), "0"),
        (("block_shadow", "input_shadow", "checkbox_label_shadow", "button_secondary_shadow"), "none"),
        (("input_border_width", "checkbox_label_border_width", "button_border_width"), "1px"),
        (("input_border_color", "checkbox_border_color", "checkbox_label_border_color"), "*neutral_400"),
        (("button_secondary_border_color", "button_secondary_border_color_dark"), "*neutral_400"),
        (("input_placeholder_color",), "*neutral_500"),
        (("body_text_color_subdued",), "*neutral_600"),
        (("body_text_color_subdued_dark",), "*neutral_300"),
        (("button_primary_background_fill", "checkbox_label_background_fill_selected"), "*primary_700"),
        (("slider_color", "link_text_color"), "*primary_700"),
        (("button_primary_background_fill_hover", "link_text_color_hover"), "*primary_800"),
    )
    for name in names
}
"""For gradio's theme: its own blues are too pale to be read by everybody, its fields have hardly an edge."""
CSS = (
    STYLE
    + demo_race.STYLE
    + """
.gradio-container{max-width:1500px!important;padding:0 1rem!important}
.gradio-container [role=tab].selected{color:#1d4ed8}.dark .gradio-container [role=tab].selected{color:#bfdbfe}
.gradio-container button[aria-label="common.upload"]{display:none}
.dv-header h1{font-size:1.5rem;margin:.2rem 0 0}.dv-header p{margin:0}
.settings{background:var(--block-background-fill);border:1px solid var(--border-color-primary);border-radius:8px;
  padding:.4rem .4rem .8rem;gap:.3rem!important;align-self:flex-start}
.settings>button{margin:.2rem .6rem 0;width:auto}.settings .block{border:0}
.dv-status{overflow-wrap:anywhere}.dv-status progress{width:100%;height:.5rem;accent-color:#2563eb}
.dv-status ul{margin:.3rem 0;padding-left:1.1rem;list-style:disc}.dv-bad{color:#b42318}.dark .dv-bad{color:#ff9b8e}
.dv-title{margin:0;font-size:.95rem;overflow-wrap:anywhere}.dv-title b{font-weight:600}
.dv-title span{opacity:.85;margin-left:.5rem}
.dv-notice{margin:0;font-size:.9rem}.dv-warn{padding:.5rem .8rem;border-left:3px solid #9a6700;
  background:var(--background-fill-secondary);border-radius:4px}.dv-empty{margin:1rem 0;opacity:.85}
.dv-thumbs{display:flex;gap:.5rem;overflow-x:auto;padding:.25rem .2rem .6rem}
.dv-thumbs button{flex:none;border:1px solid #94a3b8;border-radius:6px;padding:3px;background:#fff;color:#1f2328;
  font-size:.75rem;cursor:pointer;line-height:1.2}
.dv-thumbs button:focus-visible{outline:3px solid #2563eb}
.dv-thumbs button.chosen{border-color:#2563eb;box-shadow:0 0 0 2px #2563eb}
.dv-thumbs img,.dv-thumbs i{display:block;width:62px;height:84px;object-fit:contain;background:#fff}
.dv-copy{margin:.2rem 0 .5rem;text-align:right}.dv-code{max-height:74vh;overflow:auto;margin:0;padding:.7rem .9rem;
  white-space:pre-wrap;overflow-wrap:anywhere;font:.82rem/1.5 var(--font-mono);background:var(--block-background-fill);
  border:1px solid var(--border-color-primary);border-radius:6px}
#thumbnails:not(:has(.dv-thumbs)){display:none}
.audit-told{min-height:2.6em;margin:.4rem 0;font-size:.85rem;overflow-wrap:anywhere}
.audit-key{font-size:.75rem;margin:.4rem 0 .2rem}.audit-key span{display:inline-block;margin-right:.8rem}
.audit-key i{display:inline-block;width:.75rem;height:.75rem;margin-right:.3rem;background:var(--edge)}
.note{font-size:.85rem;margin:.3rem 0;padding:.3rem .6rem;border-left:3px solid #9a6700;overflow-wrap:anywhere}
#results{gap:.6rem}#sheet{gap:1.2rem}#sheet [class*=tab-container] button{padding:.4rem .65rem}
#text,#blocks{max-height:78vh;overflow-y:auto}#text{padding:.2rem .6rem}#text table{display:block;overflow-x:auto}
#text td,#text th{overflow-wrap:normal;word-break:normal;padding:.25rem .45rem;font-size:.88rem}
#text h1{font-size:1.4rem}#text h2{font-size:1.2rem}#text h3{font-size:1.05rem}
#bar{align-items:center;gap:.5rem;flex-wrap:wrap}#bar>*{min-height:0}#bar .block{padding:0;border:0;background:none}
#bar button{height:2.3rem}#zip{max-width:14rem;margin-left:auto}
#page-number label{display:flex;align-items:center;gap:.5rem;white-space:nowrap}#page-number label>span{margin:0}
#page-number input{width:4.5rem;height:2.3rem}
#watching,#watch-row,#tokens .form{gap:.6rem}#tokens .block{padding:.1rem 0;border:0;background:none}
#tokens .form{background:none;border:0}#tokens>div{gap:.5rem}#tokens .html-container{padding:0}
.dv-images p{margin:.2rem 0 .6rem}.dv-images>div{display:grid;gap:.5rem;max-width:38rem;margin-bottom:.9rem;
  grid-template-columns:repeat(4,minmax(0,1fr))}.dv-images img,.dv-images i{display:block;width:100%;aspect-ratio:1;
  margin:0;border-radius:4px;background:#cbd5e1;image-rendering:pixelated}
.dv-welcome{padding:1rem 1.4rem;border:1px dashed #94a3b8;border-radius:8px;background:var(--block-background-fill)}
.dv-welcome h2{margin:.2rem 0 .5rem}.dv-welcome li{margin:.5rem 0}.dv-welcome ol{padding-left:1.2rem;list-style:decimal}
@media(max-width:640px){.gradio-container{padding:0!important}
  .gradio-container .app{padding:.4rem!important}#text,#blocks{max-height:none}
  #sheet,#desk,.desk{flex-direction:column}.settings{align-self:stretch}.dv-header p{font-size:.85rem}
  #zip{max-width:none}}
"""
)
_PAGES = """
const enter = (input, value) => {
  if (!input) return;
  input.value = value;
  input.dispatchEvent(new Event("input", {bubbles: true}));
};
document.addEventListener("click", (event) => {
  const thumb = event.target.closest("[data-page]");
  if (thumb) enter(document.querySelector("#page-number input"), thumb.dataset.page);
  const block = event.target.closest("#picture [data-block]");
  if (block) enter(document.querySelector("#from-block input"), Number(block.dataset.block.split("-")[1]) + 1);
});
const follow = () => {
  const text = document.querySelector("#text");
  if (text && !text.hasAttribute("tabindex")) {
    text.tabIndex = 0;
    text.setAttribute("role", "region");
    text.setAttribute("aria-label", "Text of the page");
  }
  const results = document.querySelector("#results");
  if (results && !results.dataset.seen) {
    results.dataset.seen = "yes";
    if (innerWidth < 700) results.scrollIntoView({behavior: "smooth"});
  }
  const input = document.querySelector("#page-number input");
  const picture = document.querySelector("#picture [data-shown]");
  const shown = picture ? picture.dataset.shown : input ? input.value : "";
  for (const thumb of document.querySelectorAll("[data-page]")) {
    const same = thumb.dataset.page === shown;
    if (same !== thumb.classList.contains("chosen")) {
      thumb.classList.toggle("chosen", same);
      thumb.setAttribute("aria-pressed", String(same));
    }
  }
};
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button || !navigator.clipboard) return;
  const text = button.parentElement.nextElementSibling.textContent;
  navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; });
});
new MutationObserver(follow).observe(document.documentElement, {childList: true, subtree: true});
"""
HEAD = (
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    f"<script>{SCRIPT}{_PAGES}{demo_race.REPLAY}</script>"
)


def welcome(limits: Limits) -> str:
    """What to do, in the place where the results will stand."""
    return (
        '<div class="dv-welcome"><h2>Three steps</h2><ol><li>Choose PDFs, scans or photographs of pages: up to'
        f" {limits.max_files} files of {limits.max_mb} MB. The first {limits.max_pages} pages of each are read, or the"
        " ones you name.</li><li>Press <b>Read</b>. Text comes from the PDF itself where that holds up, and is read"
        " off the picture elsewhere.</li><li>Check each page beside its picture, correct tables, and download"
        " everything as Markdown, HTML, JSON and CSV.</li></ol></div>"
    )


def status(line: str, done: float | None = None) -> str:
    """A line for the visitor, read out by screen readers, with a bar where the share done is known."""
    bar = f'<progress max="1" value="{done:.3f}" aria-label="Progress"></progress>' if done is not None else ""
    return f'<div class="dv-status" role="status">{_safe(line)}{bar}</div>'


def problem(line: str) -> str:
    """Why something was not done."""
    return f'<div class="dv-status dv-bad" role="alert">{_safe(line)}</div>'


def notice(line: str, good: bool) -> str:
    """What is to be known of the model."""
    return f'<p class="dv-notice{"" if good else " dv-warn"}">{_safe(line)}</p>'


def empty(line: str) -> str:
    """What stands where there is nothing to show."""
    return f'<p class="dv-empty">{_safe(line)}</p>'


def summary(opened: Sequence[Opened], failures: Sequence[str]) -> str:
    """What came of a reading: pages, warnings, and files that could not be read."""
    pages = sum(len(document.document.pages) for document in opened)
    line = f"{pages} page{'s' if pages != 1 else ''} read." if opened else ""
    notes = [f"{each.name}: {note}" for each in opened for note in each.document.warnings]
    for each in opened:
        for page in each.document.pages:
            notes += [f"{each.name}, page {page.number}: {note}" for note in filter(None, (page.error, *page.warnings))]
    more = [f"and {len(notes) - MAX_NOTES} more notes"] if len(notes) > MAX_NOTES else []
    items = [f'<li class="dv-bad" role="alert">{_safe(failure)}</li>' for failure in failures]
    items += [f"<li>{_safe(note)}</li>" for note in (*notes[:MAX_NOTES], *more)]
    listed = f"<ul>{''.join(items)}</ul>" if items else ""
    return f'<div class="dv-status" role="status">{_safe(line)}{listed}</div>'


def title(opened: Opened) -> str:
    """What is shown: the file's name, its pages, how long it took."""
    document = opened.document
    count = len(document.pages)
    seconds = sum(sum(page.timings.values()) for page in document.pages)
    told = f"{count} page{'s' if count != 1 else ''}, {seconds:.1f} s"
    return f'<p class="dv-title"><b>{_safe(document.source)}</b> <span>{told}</span></p>'


def thumbnails(opened: Opened) -> str:
    """A strip of small pages; clicking one goes to it."""
    if len(opened.document.pages) < 2:
        return ""
    items = []
    for page in opened.document.pages:
        picture = opened.picture(page.number, small=True)
        image = f'<img src="{data_uri(picture)}" alt="">' if picture else "<i></i>"
        name = f"Page {page.number}" + ("" if page.status == "ok" else f" ({page.status})")
        items.append(
            f'<button type="button" data-page="{page.number}" aria-label="{name}" aria-pressed="false">'
            f"{image}{page.number}</button>"
        )
    return f'<div class="dv-thumbs" role="group" aria-label="Pages">{"".join(items)}</div>'


def page(opened: Opened, number: int) -> tuple[str, str, str, str, str]:
    """(picture, text, blocks, Markdown, JSON) of a page."""
    chosen = opened.page(number)
    alone = Document(opened.document.source, [chosen], settings=opened.document.settings)
    markdown = export.to_markdown(alone, headers=True)
    picture = (
        f'<div class="audit-page" data-shown="{chosen.number}">{page_svg(chosen, opened.picture(chosen.number))}</div>'
        f'{colour_key()}<p class="audit-told" aria-live="polite">Click a block to see what was read there.</p>'
    )
    blocks = page_notes(chosen) + (block_list(chosen) if chosen.blocks else "<p>Nothing was found on this page.</p>")
    shown = replace(chosen, timings=dict(chosen.timings))
    body = Document(opened.document.source, [shown]).to_json(indent=1)
    text = markdown or "Nothing was found on this page."
    return picture, text, blocks, _source("Markdown", markdown), _source("JSON", body)


def _source(name: str, text: str) -> str:
    """Text as it stands in the file, with a button that copies it."""
    return (
        '<p class="dv-copy"><button type="button" class="dv-button" data-copy>Copy</button></p>'
        f'<pre class="dv-code" tabindex="0" role="region" aria-label="{name}">{html.escape(clean(text))}</pre>'
    )


def images(order: Order, made: Sequence[str], sheet: str) -> str:
    """Images as they are drawn, and at last one picture to take away; all are base64 of PNGs."""
    parts = [
        f'<img src="data:image/png;base64,{image}" alt="{_safe(order.label)} {number}">'
        for number, image in enumerate(made, start=1)
    ]
    parts += ["<i></i>"] * (order.count - len(made))
    told = f"{order.label}, seed {order.seed}, guidance {order.guidance:g}"
    name = f"{order.label}-seed{order.seed}-guidance{order.guidance:g}.png".replace("/", "-")
    take = (
        f'<p><a class="dv-button" download="{_safe(name)}" href="data:image/png;base64,{sheet}">Download (PNG)</a></p>'
        if sheet
        else ""
    )
    return f'<div class="dv-images"><p>{_safe(told)}</p><div>{"".join(parts)}</div>{take}</div>'


def letters(count: int) -> list[str]:
    """Names of columns as in a spreadsheet: A to Z, then AA."""
    names = []
    for number in range(count):
        name, rest = "", number + 1
        while rest:
            rest, letter = divmod(rest - 1, 26)
            name = chr(ord("A") + letter) + name
        names.append(name)
    return names


def _safe(text: str) -> str:
    return html.escape(" ".join(clean(text).split()))
