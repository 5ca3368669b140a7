"""The demo in a browser: documents in, and beside each page what was read on it, to check, correct and take away.

This is the one file with gradio: it lays the page out and joins its parts to what demo_desk.py does.  What a page
looks like is made in demo_views.py and demo_race.py.  Nothing is loaded from outside and nothing is reported anywhere.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before gradio is imported: it would ask the network for its newest version, and report its use.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gradio as gr
from gradio.processing_utils import hash_file

from apps import demo_race
from apps import demo_views as views
from apps.demo_desk import Desk, address_problem, decodings, write_archive, write_csv
from apps.demo_drawing import GUIDANCE, MAX_SEED, MOST, Order, OrderError, classes
from apps.demo_process import MAX_WAITING, WorkStopped
from apps.demo_visits import Limits, Visit, VisitError, edit_table, table_rows
from docvision.parse import DEFAULT_MODEL

SUFFIXES = [".pdf", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff"]
TEXT_CHOICES = [("Automatic", "auto"), ("The PDF's own text only", "layer"), ("Read the picture", "model")]
SWEEP_S, KEEP_S = 300, 3600
"""Seconds: how often files of the web server are looked through, and the age at which they go."""
PRIVATE: dict[str, Any] = {"api_visibility": "private"}
QUICK: dict[str, Any] = {**PRIVATE, "queue": False, "show_progress": "hidden"}
LONG: dict[str, Any] = {**PRIVATE, "concurrency_limit": MAX_WAITING, "show_progress": "hidden"}
Parts = dict[str, Any]
Updates = Iterator[tuple[Any, ...]]


class Demo:
    """What the buttons do: a desk's answers as updates of the page."""

    def __init__(self, root: Path, limits: Limits, readers: int = 1, model: str = DEFAULT_MODEL) -> None:
        for name in ("visits", "cache"):
            (root / name).mkdir()
        self.desk = Desk(root / "visits", limits, readers, model)
        self.cache = root / "cache"

    def visit(self, request: gr.Request) -> Visit:
        return self.desk.visits.of(request.session_hash or "")

    def leave(self, request: gr.Request) -> None:
        self.desk.visits.end(request.session_hash or "")

    def greet(self) -> tuple[Any, ...]:
        """(decodings, methods, notice, watch) once it is known what the model can do."""
        card = self.desk.card()
        methods = [(demo_race.METHODS[name], name) for name in card.methods]
        ways = decodings(card)
        info = "" if len(ways) > 1 else "This model has no trained decoder."
        reading = gr.update(choices=ways, value="line", info=info, interactive=len(ways) > 1)
        watching = gr.update(choices=methods, value=methods[0][1] if methods else None, interactive=card.decoder)
        return reading, watching, views.notice(card.notice(), card.decoder), gr.update(interactive=card.decoder)

    def read(
        self, files: list[str] | None, pages: str, text: str, decoding: str, password: str, request: gr.Request
    ) -> Updates:
        """Read the uploads one after another: (status, chooser, welcome, results, read, stop)."""
        if not files:
            raise gr.Error("Choose a file first.", print_exception=False)
        visit = self.visit(request)
        failures: list[str] = []
        visit.given.update(Path(file).parent for file in files)
        busy = (gr.skip(), gr.skip(), gr.skip(), gr.update(interactive=False), gr.update(visible=True))
        for line, done in self.desk.read_all(
            visit, [Path(file) for file in files], pages, text, decoding, password, failures
        ):
            yield (views.status(line, done), *busy)
        names = [(opened.name, index) for index, opened in enumerate(visit.opened)]
        chooser = gr.update(choices=names, value=0 if names else None, visible=len(names) > 1)
        shown = gr.update(visible=not names), gr.update(visible=bool(names))
        ready = gr.update(interactive=True), gr.update(visible=False)
        yield views.summary(visit.opened, failures), chooser, *shown, *ready

    def stop(self, task: str) -> Any:
        """A handler that ends what a visitor has going on."""

        def stop(request: gr.Request) -> str:
            self.visit(request).stops[task].set()
            return views.status("Stopping \u2026")

        return stop

    # What is shown

    def show_document(self, index: int | None, request: gr.Request) -> tuple[Any, ...]:
        """(title, thumbnails, page number, before, after, table chooser, zip) of a document that was chosen."""
        visit = self.visit(request)
        opened = visit.chosen(index)
        if opened is None:
            return "", "", gr.skip(), gr.skip(), gr.skip(), gr.update(choices=[], value=None), None
        first, last = opened.document.pages[0].number, opened.document.pages[-1].number
        tables = [(f"Page {page}, table {number}", at) for at, (page, number, _) in enumerate(opened.tables())]
        chooser = gr.update(choices=tables, value=0 if tables else None, visible=bool(tables))
        several: Parts = {"visible": first != last}
        number = gr.update(value=first, minimum=first, maximum=last, label=f"Page ({first}\u2013{last})", **several)
        turns = gr.update(**several), gr.update(**several)
        file = self._give(visit, write_archive(visit))
        return views.title(opened), views.thumbnails(opened), number, *turns, chooser, file

    def show_page(self, index: int | None, number: float | None, request: gr.Request) -> tuple[Any, ...]:
        """(picture, text, blocks, Markdown, JSON, race) of a page."""
        opened = self.visit(request).chosen(index)
        if opened is None:
            return "", "", "", "", "", ""
        return *views.page(opened, int(number or 1)), ""

    def turn(self, step: int) -> Any:
        """A handler that gives the number of the page before or after."""

        def turn(index: int | None, number: float | None, request: gr.Request) -> int:
            opened = self.visit(request).chosen(index)
            return opened.turned(int(number or 1), step) if opened else 1

        return turn

    def show_table(self, index: int | None, number: int | None, request: gr.Request) -> tuple[Any, ...]:
        """(rows, CSV file, note) of a table."""
        visit = self.visit(request)
        opened = visit.chosen(index)
        if opened is None or number is None or not 0 <= number < len(opened.tables()):
            none = views.empty("No table was found in this document.")
            return gr.update(value=None, visible=False), gr.update(visible=False), none
        table = opened.tables()[number][2]
        rows = {"headers": views.letters(table.columns), "data": table_rows(table), "metadata": None}
        file = self._give(visit, write_csv(opened, number))
        note = views.status("Double-click a cell to correct it.")
        return gr.update(value=rows, visible=True), gr.update(value=file, visible=True), note

    def edit(
        self, index: int | None, number: int | None, rows: list[list[Any]], request: gr.Request
    ) -> tuple[Any, ...]:
        """Take a corrected table over: (CSV file, zip, note)."""
        visit = self.visit(request)
        opened = visit.chosen(index)
        if opened is None or number is None or not 0 <= number < len(opened.tables()):
            raise gr.Error("The table is gone: read the document again.", print_exception=False)
        if edit_table(opened, number, rows) == 0:
            return gr.skip(), gr.skip(), gr.skip()
        files = self._give(visit, write_csv(opened, number)), self._give(visit, write_archive(visit))
        return *files, views.status("Corrected here and in all downloads.")

    def _give(self, visit: Visit, path: Path) -> str:
        """Let a file be downloaded; the copy that the web server makes goes with the visit."""
        visit.given.add(self.cache / hash_file(path))
        return str(path)

    def watch(
        self,
        index: int | None,
        number: float | None,
        block: float | None,
        method: str,
        accept: str,
        request: gr.Request,
    ) -> Updates:
        """Tokens as they arrive: (status, race, watch, stop)."""
        visit = self.visit(request)
        opened = visit.chosen(index)
        ready = gr.update(interactive=True), gr.update(visible=False)
        busy = gr.update(interactive=False), gr.update(visible=True)
        try:
            yield views.status("starting"), "", *busy
            for line, race in self.desk.watch(visit, opened, int(number or 1), int(block or 1), method, accept):
                yield views.status(line), demo_race.show(race), *busy
            yield gr.skip(), gr.skip(), *ready
        except (VisitError, WorkStopped) as error:
            yield views.problem(str(error)), gr.skip(), *ready

    def order(self, label: str, seed: int | None, guidance: float, count: int, request: gr.Request) -> Updates:
        """Images of a class: (status, images, draw, stop)."""
        busy, ready = ((gr.update(interactive=not on), gr.update(visible=on)) for on in (True, False))
        try:
            order = Order(label, seed or 0, guidance, count)
            for line, images, sheet in self.desk.draw(self.visit(request), order):
                yield views.status(line, len(images) / order.count), views.images(order, images, sheet), *busy
            yield views.status(f"{order.count} images drawn."), gr.skip(), *ready
        except (OrderError, WorkStopped) as error:
            yield views.problem(str(error)), gr.skip(), *ready

    # For programs

    def drawn(self, label: str, seed: int = 0, guidance: float = 1.5, count: int = 1) -> dict[str, Any]:
        """Images of a class as PNG in base64; the same order gives the same images."""
        try:
            return self.desk.drawn(Order(label, seed, guidance, count))
        except (OrderError, WorkStopped) as error:
            raise gr.Error(str(error), print_exception=False) from error


# The page


def build(demo: Demo) -> gr.Blocks:
    """The page with all its parts and what they do."""
    with gr.Blocks(title="docvision", analytics_enabled=False, delete_cache=(SWEEP_S, KEEP_S)) as blocks:
        gr.HTML(views.HEADER)
        with gr.Tabs(elem_id="rooms"):
            with gr.Tab("Documents"), gr.Row(elem_id="desk"):
                with gr.Column(scale=1, min_width=300, elem_classes="settings"):
                    asked = _asked()
                with gr.Column(scale=4, min_width=300, elem_id="welcome") as welcome:
                    gr.HTML(views.welcome(demo.desk.limits))
                with gr.Column(scale=4, min_width=300, visible=False, elem_id="results") as results:
                    shown = _results()
            with gr.Tab("Images"), gr.Row(elem_classes="desk"):
                _images(demo)
        _join(demo, asked, shown, welcome, results)
        card = [asked["decoding"], shown["method"], shown["notice"], shown["watch"]]
        blocks.load(demo.greet, None, card, **LONG)
        blocks.unload(demo.leave)
    return blocks


def _asked() -> Parts:
    """The left side: files and how they are read."""
    parts: Parts = {}
    parts["files"] = gr.File(label="PDFs or images", file_count="multiple", file_types=SUFFIXES, height=170)
    parts["pages"] = gr.Textbox("", label="Pages", placeholder="all, or 1-5,8,r1 (r1 is the last)")
    parts["text"] = gr.Radio(TEXT_CHOICES, value="auto", label="Text")
    with gr.Accordion("More", open=False):
        parts["decoding"] = gr.Dropdown(
            [("Line head: one pass", "line")], value="line", label="Scanned lines are read by", elem_id="decoding"
        )
        parts["password"] = gr.Textbox("", label="Password", type="password", placeholder="only for encrypted PDFs")
    parts["read"] = gr.Button("Read", variant="primary", elem_id="read")
    parts["stop"] = gr.Button("Stop", variant="stop", visible=False, elem_id="stop")
    parts["note"] = gr.HTML(views.status(""), elem_id="status")
    return parts


def _results() -> Parts:
    """The right side: a document's pages, a page's picture, and what was read on it."""
    parts: Parts = {}
    with gr.Row(elem_id="bar"):
        parts["document"] = gr.Dropdown(label="Document", choices=[], visible=False, scale=3, min_width=160)
        parts["title"] = gr.HTML("", min_height=0)
        parts["before"] = gr.Button("\u2039 Previous", size="sm", min_width=90, scale=0)
        parts["number"] = gr.Number(label="Page", value=1, precision=0, min_width=170, scale=0, elem_id="page-number")
        parts["after"] = gr.Button("Next \u203a", size="sm", min_width=90, scale=0)
        parts["zip"] = gr.DownloadButton("Download all (zip)", variant="primary", size="sm", elem_id="zip")
    parts["thumbnails"] = gr.HTML("", elem_id="thumbnails")
    with gr.Row(elem_id="sheet"):
        with gr.Column(scale=1, min_width=300):
            parts["picture"] = gr.HTML("", elem_id="picture")
        with gr.Column(scale=1, min_width=300), gr.Tabs():
            with gr.Tab("Text"):
                parts["text"] = gr.Markdown("", sanitize_html=True, elem_id="text", latex_delimiters=[])
            with gr.Tab("Blocks"):
                parts["blocks"] = gr.HTML("", elem_id="blocks")
            with gr.Tab("Tables"):
                parts["table"] = gr.Dropdown(label="Table", choices=[], visible=False)
                parts["rows"] = gr.Dataframe(
                    label="Cells", type="array", interactive=True, wrap=True, visible=False, elem_id="cells"
                )
                parts["csv"] = gr.DownloadButton("Download this table (CSV)", size="sm", visible=False, elem_id="csv")
                parts["table_note"] = gr.HTML(views.status(""))
            with gr.Tab("Tokens", elem_id="tokens"):
                parts |= _tokens()
            with gr.Tab("Markdown"):
                parts["markdown"] = gr.HTML("", elem_id="markdown")
            with gr.Tab("JSON"):
                parts["json"] = gr.HTML("", elem_id="json")
    return parts


def _tokens() -> Parts:
    """The tab on which the decoder can be watched."""
    parts: Parts = {"notice": gr.HTML(views.notice("The model is being loaded.", False), elem_id="model")}
    policies = [(told, name) for name, told in demo_race.ACCEPT.items()]
    with gr.Row(elem_id="watching"):
        parts["method"] = gr.Dropdown([], label="Method", interactive=False, min_width=120)
        parts["accept"] = gr.Dropdown(policies, value="exact", label="Keep drafts", min_width=120)
        parts["block"] = gr.Number(
            label="From block", value=1, minimum=1, precision=0, min_width=90, elem_id="from-block"
        )
    small: Parts = {"size": "sm", "scale": 0, "min_width": 130}
    with gr.Row(elem_id="watch-row"):
        parts["watch"] = gr.Button("Watch", variant="primary", interactive=False, elem_id="watch", **small)
        parts["stop_watch"] = gr.Button("Stop", variant="stop", visible=False, elem_id="stop-watch", **small)
    parts["watch_note"] = gr.HTML(views.status(""), elem_id="watch-status")
    parts["race"] = gr.HTML("", elem_id="race")
    return parts


def _images(demo: Demo) -> None:
    """The room in which the image generator draws."""
    with gr.Column(scale=1, min_width=300, elem_classes="settings"):
        label = gr.Dropdown(list(classes()), value=classes()[0], label="Class", elem_id="class")
        seed = gr.Number(label="Seed", value=0, minimum=0, maximum=MAX_SEED, precision=0, elem_id="seed")
        guidance = gr.Slider(*GUIDANCE, value=1.5, step=0.1, label="Guidance", info="1 is none")
        count = gr.Slider(1, MOST, value=8, step=1, label="Images")
        draw = gr.Button("Draw", variant="primary", elem_id="draw")
        stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop-draw")
        note = gr.HTML(views.status(""), elem_id="draw-status")
    with gr.Column(scale=4, min_width=300):
        shown = gr.HTML(views.IMAGES_WELCOME, elem_id="images")
    draw.click(demo.order, [label, seed, guidance, count], [note, shown, draw, stop], **LONG)
    stop.click(demo.stop("draw"), None, [note], **QUICK)
    gr.api(demo.drawn, api_name="draw", concurrency_limit=MAX_WAITING)


def _join(demo: Demo, asked: Parts, shown: Parts, welcome: gr.Column, results: gr.Column) -> None:
    """What happens when."""
    document, number, table = shown["document"], shown["number"], shown["table"]
    settings = [asked[name] for name in ("files", "pages", "text", "decoding", "password")]
    page_parts = [shown[name] for name in ("picture", "text", "blocks", "markdown", "json", "race")]
    table_parts = [shown[name] for name in ("rows", "csv", "table_note")]
    reading = asked["read"].click(
        demo.read, settings, [asked["note"], document, welcome, results, asked["read"], asked["stop"]], **LONG
    )
    asked["stop"].click(demo.stop("read"), None, asked["note"], **QUICK)
    about = [shown[name] for name in ("title", "thumbnails", "number", "before", "after", "table", "zip")]
    for chosen in (reading.then, document.input):
        chosen(demo.show_document, [document], about, **QUICK).then(
            demo.show_page, [document, number], page_parts, **QUICK
        ).then(demo.show_table, [document, table], table_parts, **QUICK)
    number.input(demo.show_page, [document, number], page_parts, **QUICK)
    for button, step in ((shown["before"], -1), (shown["after"], 1)):
        button.click(demo.turn(step), [document, number], [number], **QUICK).then(
            demo.show_page, [document, number], page_parts, **QUICK
        )
    table.input(demo.show_table, [document, table], table_parts, **QUICK)
    files = [shown["csv"], shown["zip"], shown["table_note"]]
    shown["rows"].input(demo.edit, [document, table, shown["rows"]], files, **QUICK)
    shown["watch"].click(
        demo.watch, [document, number, shown["block"], shown["method"], shown["accept"]],
        [shown["watch_note"], shown["race"], shown["watch"], shown["stop_watch"]], **LONG,
    )  # fmt: skip
    shown["stop_watch"].click(demo.stop("watch"), None, [shown["watch_note"]], **QUICK)
    given = [*(asked[name] for name in ("files", "pages", "text", "password")), gr.Textbox("line", visible=False)]
    gr.Button(visible=False).click(
        demo.desk.parse, given, gr.JSON(visible=False), api_name="parse", concurrency_limit=MAX_WAITING
    )


@contextmanager
def serving(
    host: str = "127.0.0.1",
    port: int = 7860,
    limits: Limits | None = None,
    readers: int = 1,
    model: str = DEFAULT_MODEL,
) -> Iterator[str]:
    """Serve the demo inside a ``with`` statement, which gets its address; afterwards nothing is left on the disk.

    Args:
        host: address to listen at; only this machine by default.
        port: to listen at; 0 takes a free one.
        limits: what a visitor may ask for.
        readers: jobs done at the same time.
        model: packaged name or folder of the model.

    Raises:
        OSError: the address is taken, or cannot be listened at.
    """
    root = Path(tempfile.mkdtemp(prefix="docvision-demo-"))
    demo = Demo(root, limits or Limits(), readers, model)
    os.environ["GRADIO_TEMP_DIR"] = str(demo.cache)
    blocks = build(demo)
    try:
        yield _launch(blocks, host, port, demo.desk.limits.max_mb)
    finally:
        blocks.close()
        demo.desk.close()
        shutil.rmtree(root, ignore_errors=True)


def _launch(blocks: gr.Blocks, host: str, port: int, max_mb: int) -> str:
    """Start the web server and give its address."""
    try:
        return blocks.queue(max_size=2 * MAX_WAITING).launch(
            server_name=host, server_port=port or None, prevent_thread_lock=True, quiet=True, share=False,
            max_file_size=f"{max_mb}mb", ssr_mode=False, footer_links=["api"], theme=theme(),
            css=views.CSS, head=views.HEAD, run_history=False, enable_monitoring=False, show_error=True,
        )[1]  # fmt: skip
    except OSError as error:
        raise OSError(address_problem(host, port)) from error
    except ValueError as error:  # it asks its own page whether it is there
        raise OSError(f"{host} does not answer itself: a proxy is in between, or the machine is too busy") from error


def theme() -> gr.themes.Base:
    """Gradio's own look with the fonts of this machine: its themes would fetch theirs from the network."""
    fonts: Parts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    return gr.themes.Soft(primary_hue="blue", neutral_hue="slate", radius_size="sm", **fonts).set(**views.COLOURS)
