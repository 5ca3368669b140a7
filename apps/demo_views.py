"""What the demo shows: HTML, CSS and the little script that joins a page's picture, its list and its thumbnails.

Everything that comes from a document is escaped here or in docvision/overlay_html.py; Markdown is sanitised once
more by the browser.  Pictures are written into the page itself, so the web server keeps no copy of them.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace

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
CSS = (
    STYLE
    + """
.gradio-container{max-width:1500px!important;padding:0 1rem!important}
.dv-header h1{font-size:1.5rem;margin:.6rem 0 0}.dv-header p{margin:0 0 .4rem;opacity:.8}
.dv-status{min-height:1.5rem;overflow-wrap:anywhere}.dv-status progress{width:100%;height:.5rem;accent-color:#2563eb}
.dv-status ul{margin:.3rem 0;padding-left:1.1rem}.dv-bad{color:#b42318}.dark .dv-bad{color:#ff9b8e}
.dv-thumbs{display:flex;gap:.5rem;overflow-x:auto;padding:.25rem .1rem .6rem}
.dv-thumbs button{flex:none;border:1px solid #94a3b8;border-radius:6px;padding:3px;background:#fff;color:#1f2328;
  font-size:.75rem;cursor:pointer;line-height:1.2}
.dv-thumbs button:focus-visible{outline:3px solid #2563eb}
.dv-thumbs button.chosen{border-color:#2563eb;box-shadow:0 0 0 2px #2563eb}
.dv-thumbs img,.dv-thumbs i{display:block;width:62px;height:84px;object-fit:contain;background:#fff}
.audit-told{min-height:2.6em;margin:.4rem 0;font-size:.85rem;overflow-wrap:anywhere}
.audit-key{font-size:.75rem;margin:.2rem 0}.audit-key span{display:inline-block;margin-right:.8rem}
.audit-key i{display:inline-block;width:.75rem;height:.75rem;margin-right:.3rem;background:var(--edge)}
.note{font-size:.85rem;margin:.3rem 0;padding:.3rem .6rem;border-left:3px solid #9a6700;overflow-wrap:anywhere}
#text,#blocks{max-height:80vh;overflow-y:auto}#text{padding:.2rem .6rem}#text table{display:block;overflow-x:auto}
#bar{align-items:end;gap:.5rem;flex-wrap:wrap}#bar>*{min-height:0}#bar .block{padding:0;border:0;box-shadow:none;
  background:none}#bar button,#bar a{height:2.4rem}#zip{max-width:14rem;margin-left:auto}
#bar label>span{margin:0;padding:0 .2rem;background:none}
.dv-welcome{padding:1rem 1.4rem;border:1px dashed #94a3b8;border-radius:8px}
.dv-welcome li{margin:.5rem 0}.dv-welcome ol{padding-left:1.2rem;list-style:decimal}
@media(max-width:640px){.gradio-container{padding:0 .5rem!important}#text,#blocks{max-height:none}
  #sheet,#desk{flex-direction:column}}
"""
)
_PAGES = """
document.addEventListener("click", (event) => {
  const thumb = event.target.closest("[data-page]");
  const input = document.querySelector("#page-number input");
  if (!thumb || !input) return;
  input.value = thumb.dataset.page;
  input.dispatchEvent(new Event("input", {bubbles: true}));
});
const follow = () => {
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
new MutationObserver(follow).observe(document.documentElement, {childList: true, subtree: true});
"""
HEAD = f'<meta name="viewport" content="width=device-width, initial-scale=1"><script>{SCRIPT}{_PAGES}</script>'


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
    return picture, markdown or "Nothing was found on this page.", blocks, markdown, body


def _safe(text: str) -> str:
    return html.escape(" ".join(clean(text).split()))
