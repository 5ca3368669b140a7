"""The demo in a browser: documents in, and beside each page what was read on it, to check, correct and take away.

Reading happens in processes of their own (demo_reading.py), one visitor's files live in one folder that ends with the
visit (demo_visits.py), what a page looks like is made in demo_views.py.  Nothing is loaded from outside and nothing is
reported anywhere.

Scanned lines are read by the line head in one pass, so there is no decoding method to choose here; the multi-token
methods are for the decoder, see ``docvision bench decode``.
"""

from __future__ import annotations

import os
import queue
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

from apps import demo_views as views
from apps.demo_reading import Job, ReadingProcess, ReadingStopped
from apps.demo_visits import Limits, Opened, Visit, VisitError, Visits, archive, edit_table, table_rows
from docvision import export

SUFFIXES = [".pdf", ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff"]
TEXT_CHOICES = [("Automatic", "auto"), ("The PDF's own text only", "layer"), ("Read the picture", "model")]
QUEUE_SIZE = 32
SWEEP_S, KEEP_S = 300, 3600
"""Seconds: how often files of the web server are looked through, and the age at which they go."""


class Demo:
    """The state of one running demo and what its buttons do.

    Args:
        root: temporary folder for everything visitors bring.
        limits: what a visitor may ask for.
        readers: documents that are read at the same time.
    """

    def __init__(self, root: Path, limits: Limits, readers: int = 1) -> None:
        self.limits = limits
        self.readers = readers
        self.visits = Visits(root / "visits")
        self.cache = root / "cache"
        self._idle: queue.Queue[ReadingProcess] = queue.Queue()
        self._all = [ReadingProcess() for _ in range(readers)]
        for process in self._all:
            self._idle.put(process)

    def close(self) -> None:
        for process in self._all:
            process.stop()
        self.visits.end_all()

    @contextmanager
    def _reader(self) -> Iterator[ReadingProcess]:
        process = self._idle.get()
        try:
            yield process
        finally:
            self._idle.put(process)

    def visit(self, request: gr.Request | None) -> Visit:
        return self.visits.of((request.session_hash if request else None) or "")

    def leave(self, request: gr.Request) -> None:
        self.visits.end(request.session_hash or "")

    def stop(self, request: gr.Request) -> str:
        self.visit(request).stop.set()
        return views.status("Stopping \u2026")

    def read(
        self, files: list[str] | None, pages: str, text: str, password: str, request: gr.Request
    ) -> Iterator[tuple[Any, ...]]:
        """Read the uploads one after another: (status, chooser, welcome, results, read, stop)."""
        if not files:
            raise gr.Error("Choose a file first.", print_exception=False)
        visit = self.visit(request)
        visit.stop.clear()
        visit.clear()
        busy = (gr.skip(), gr.skip(), gr.skip(), gr.update(interactive=False), gr.update(visible=True))
        failures: list[str] = []
        uploads = [Path(file) for file in files]
        for upload in uploads:
            visit.given.add(upload.parent)
        if len(uploads) > self.limits.max_files:
            failures.append(f"only the first {self.limits.max_files} of {len(uploads)} files were read")
        for number, upload in enumerate(uploads[: self.limits.max_files], start=1):
            start = f"{number} of {len(uploads)}: " if len(uploads) > 1 else ""
            try:
                for line, done in self._read_one(visit, upload, pages, text, password):
                    yield (views.status(start + line, done), *busy)
            except (VisitError, ReadingStopped) as error:
                failures.append(f"{upload.name}: {error}")
                if visit.stop.is_set():
                    break
        names = [(opened.name, index) for index, opened in enumerate(visit.opened)]
        chooser = gr.update(choices=names, value=0 if names else None, visible=len(names) > 1)
        summary = views.summary(visit.opened, failures)
        shown = gr.update(visible=not names), gr.update(visible=bool(names))
        yield summary, chooser, *shown, gr.update(interactive=True), gr.update(visible=False)

    def _read_one(
        self, visit: Visit, upload: Path, pages: str, text: str, password: str
    ) -> Iterator[tuple[str, float | None]]:
        """Read one document into the visit; yields a line for the visitor and the share that is done."""
        path = visit.take(upload, self.limits)
        job = Job(str(path), str(path.parent), pages.strip(), text, password, self.limits.max_pages)
        yield f"{path.name}: waiting for a reader", None
        with self._reader() as process:
            steps = process.read(job, self.limits.max_seconds, visit.stop.is_set)
            try:
                for progress in steps:
                    total = len(progress.selected)
                    done = len(progress.pages)
                    line = f"page {done + 1} of {total}" if done < total else "putting the pages together"
                    yield f"{path.name}: {line if total else 'opening'}", done / total if total else None
            finally:
                steps.close()
        if progress.document is not None:
            if progress.count > len(progress.selected) == self.limits.max_pages:
                progress.document.warnings.append(
                    f"this demo reads {self.limits.max_pages} of the {progress.count} pages at once: choose others"
                )
            visit.add(path, progress.document)

    # What is shown

    def show_document(self, index: int | None, request: gr.Request) -> tuple[Any, ...]:
        """(thumbnails, page number, table chooser, zip) of a document that was chosen."""
        visit = self.visit(request)
        opened = _chosen(visit, index)
        if opened is None:
            return "", gr.update(), gr.update(choices=[], value=None), None
        numbers = [page.number for page in opened.document.pages]
        tables = [(f"Page {page}, table {number}", at) for at, (page, number, _) in enumerate(opened.tables())]
        chooser = gr.update(choices=tables, value=0 if tables else None, visible=bool(tables))
        number = gr.update(
            value=numbers[0], minimum=min(numbers), maximum=max(numbers), label=f"Page of {len(numbers)}"
        )
        return views.thumbnails(opened), number, chooser, self._archive(visit)

    def show_page(self, index: int | None, number: float | None, request: gr.Request) -> tuple[Any, ...]:
        """(picture, text, blocks, Markdown, JSON) of a page."""
        opened = _chosen(self.visit(request), index)
        if opened is None:
            return "", "", "", "", ""
        return views.page(opened, int(number or 1))

    def turn(self, index: int | None, number: float | None, step: int, request: gr.Request) -> int:
        """The number of the page before or after."""
        opened = _chosen(self.visit(request), index)
        if opened is None:
            return 1
        numbers = [page.number for page in opened.document.pages]
        at = numbers.index(opened.page(int(number or 1)).number)
        return numbers[min(max(at + step, 0), len(numbers) - 1)]

    def show_table(self, index: int | None, number: int | None, request: gr.Request) -> tuple[Any, ...]:
        """(rows, CSV file, note) of a table."""
        visit = self.visit(request)
        opened = _chosen(visit, index)
        if opened is None or number is None or not 0 <= number < len(opened.tables()):
            return gr.update(value=None, visible=False), gr.update(visible=False), views.status("No table was found.")
        table = opened.tables()[number][2]
        rows = table_rows(table)
        shown = gr.update(value={"headers": _letters(table.columns), "data": rows, "metadata": None}, visible=True)
        return shown, self._csv(visit, opened, number), views.status("Click a cell to correct it.")

    def edit(
        self, index: int | None, number: int | None, rows: list[list[Any]], request: gr.Request
    ) -> tuple[Any, ...]:
        """Take a corrected table over: (CSV file, zip, note)."""
        visit = self.visit(request)
        opened = _chosen(visit, index)
        if opened is None or number is None or not 0 <= number < len(opened.tables()):
            raise gr.Error("The table is not there any more: read the document again.", print_exception=False)
        if edit_table(opened, number, rows) == 0:
            return gr.skip(), gr.skip(), gr.skip()
        note = views.status("Corrected here and in all downloads.")
        return self._csv(visit, opened, number), self._archive(visit), note

    def _csv(self, visit: Visit, opened: Opened, number: int) -> Any:
        page, on_page, table = opened.tables()[number]
        path = opened.folder / f"{opened.name}.p{page}-t{on_page}.csv"
        path.write_text(export.table_to_csv(table), "utf-8")
        return gr.update(value=self._give(visit, path), visible=True)

    def _archive(self, visit: Visit) -> str:
        name = visit.opened[0].name if len(visit.opened) == 1 else "documents"
        path = visit.folder / f"{name}.zip"
        path.write_bytes(archive(visit.opened))
        return self._give(visit, path)

    def _give(self, visit: Visit, path: Path) -> str:
        """Let a file be downloaded; the copy that the web server makes goes with the visit."""
        visit.given.add(self.cache / hash_file(path))
        return str(path)

    def parse(self, files: list[str] | None, pages: str, text: str, password: str) -> list[dict[str, Any]]:
        """For programs: each file's Markdown and document, or why there is none."""
        visit = Visit(Path(tempfile.mkdtemp(dir=self.visits.root)))
        found = []
        try:
            for file in (files or [])[: self.limits.max_files]:
                upload = Path(file)
                try:
                    for _ in self._read_one(visit, upload, pages, text, password):
                        pass
                    document = visit.opened[-1].document
                    entry = {"markdown": export.to_markdown(document), "document": export.to_json(document)}
                    found.append({"name": upload.name, "status": document.status, **entry})
                except (VisitError, ReadingStopped) as error:
                    found.append({"name": upload.name, "status": "failed", "error": str(error)})
                shutil.rmtree(upload.parent, ignore_errors=True)
        finally:
            shutil.rmtree(visit.folder, ignore_errors=True)
        return found


def _chosen(visit: Visit, index: int | None) -> Opened | None:
    return visit.opened[index] if index is not None and 0 <= index < len(visit.opened) else None


def _letters(count: int) -> list[str]:
    """Names of columns as in a spreadsheet: A to Z, then AA."""
    names = []
    for number in range(count):
        name, rest = "", number + 1
        while rest:
            rest, letter = divmod(rest - 1, 26)
            name = chr(ord("A") + letter) + name
        names.append(name)
    return names


# The page


def build(demo: Demo) -> gr.Blocks:
    """The page with all its parts and what they do."""
    with gr.Blocks(title="docvision", analytics_enabled=False, delete_cache=(SWEEP_S, KEEP_S)) as blocks:
        gr.HTML(views.HEADER)
        with gr.Row(elem_id="desk"):
            with gr.Column(scale=1, min_width=300, elem_id="settings"):
                files = gr.File(label="PDFs or images", file_count="multiple", file_types=SUFFIXES, height=170)
                pages = gr.Textbox(label="Pages", placeholder="all, or 1-5,8,r1 (r1 is the last)")
                text = gr.Radio(TEXT_CHOICES, value="auto", label="Text")
                password = gr.Textbox(label="Password", type="password", placeholder="only for encrypted PDFs")
                read = gr.Button("Read", variant="primary", elem_id="read")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop")
                note = gr.HTML(views.status(""), elem_id="status")
            with gr.Column(scale=4, min_width=300, elem_id="welcome") as welcome:
                gr.HTML(views.welcome(demo.limits))
            with gr.Column(scale=4, min_width=300, visible=False, elem_id="results") as results:
                shown = _results()
        document, number = shown["document"], shown["number"]
        page_parts = [shown[name] for name in ("picture", "text", "blocks", "markdown", "json")]
        table_parts = [shown[name] for name in ("rows", "csv", "table_note")]
        private: dict[str, Any] = {"api_visibility": "private"}
        quick: dict[str, Any] = {**private, "queue": False, "show_progress": "hidden"}
        reading = read.click(
            demo.read, [files, pages, text, password], [note, document, welcome, results, read, stop],
            concurrency_limit=demo.readers, show_progress="hidden", **private,
        )  # fmt: skip
        stop.click(demo.stop, None, [note], **quick)
        for chosen in (reading.then, document.input):
            chosen(
                demo.show_document, [document], [shown["thumbnails"], number, shown["table"], shown["zip"]], **quick
            ).then(demo.show_page, [document, number], page_parts, **quick).then(
                demo.show_table, [document, shown["table"]], table_parts, **quick
            )
        number.input(demo.show_page, [document, number], page_parts, **quick)
        for button, step in ((shown["before"], -1), (shown["after"], 1)):
            button.click(_turn(demo, step), [document, number], [number], **quick).then(
                demo.show_page, [document, number], page_parts, **quick
            )
        shown["table"].input(demo.show_table, [document, shown["table"]], table_parts, **quick)
        shown["rows"].input(
            demo.edit, [document, shown["table"], shown["rows"]], [shown["csv"], shown["zip"], shown["table_note"]],
            **quick,
        )  # fmt: skip
        answer = gr.JSON(visible=False)
        gr.Button(visible=False).click(
            demo.parse, [files, pages, text, password], answer, api_name="parse", concurrency_limit=demo.readers
        )
        blocks.unload(demo.leave)
    return blocks


def _turn(demo: Demo, step: int) -> Any:
    def turn(index: int | None, number: float | None, request: gr.Request) -> int:
        return demo.turn(index, number, step, request)

    return turn


def _results() -> dict[str, Any]:
    """The right side: a document's pages, a page's picture, and what was read on it."""
    parts: dict[str, Any] = {}
    with gr.Row(elem_id="bar"):
        parts["document"] = gr.Dropdown(label="Document", choices=[], visible=False, scale=3, min_width=160)
        parts["before"] = gr.Button("\u2039 Previous", size="sm", min_width=90, scale=0)
        parts["number"] = gr.Number(label="Page", value=1, precision=0, min_width=90, scale=0, elem_id="page-number")
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
            with gr.Tab("Markdown"):
                parts["markdown"] = gr.Code("", language="markdown", wrap_lines=True, max_lines=34, elem_id="markdown")
            with gr.Tab("JSON"):
                parts["json"] = gr.Code("", language="json", wrap_lines=True, max_lines=34, elem_id="json")
    return parts


@contextmanager
def serving(host: str = "127.0.0.1", port: int = 7860, limits: Limits | None = None, readers: int = 1) -> Iterator[str]:
    """Serve the demo inside a ``with`` statement, which gets its address; afterwards nothing is left on the disk.

    Args:
        host: address to listen at; only this machine by default.
        port: to listen at; 0 takes a free one.
        limits: what a visitor may ask for.
        readers: documents read at the same time.

    Raises:
        OSError: the address is taken.
    """
    limits = limits or Limits()
    root = Path(tempfile.mkdtemp(prefix="docvision-demo-"))
    for name in ("visits", "cache"):
        (root / name).mkdir()
    os.environ["GRADIO_TEMP_DIR"] = str(root / "cache")
    demo = Demo(root, limits, readers)
    blocks = build(demo)
    try:
        _, address, _ = blocks.queue(max_size=QUEUE_SIZE).launch(
            server_name=host, server_port=port or None, prevent_thread_lock=True, quiet=True, share=False,
            max_file_size=f"{limits.max_mb}mb", ssr_mode=False, footer_links=["api"], theme=theme(),
            css=views.CSS, head=views.HEAD, run_history=False, enable_monitoring=False, show_error=True,
        )  # fmt: skip
        yield address
    finally:
        blocks.close()
        demo.close()
        shutil.rmtree(root, ignore_errors=True)


def theme() -> gr.themes.Base:
    """Gradio's own look with the fonts of this machine: its themes would fetch theirs from the network."""
    soft = gr.themes.Soft(
        primary_hue="blue", neutral_hue="slate", radius_size="sm",
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"],
    )  # fmt: skip
    dark, strong = "*neutral_800", "*primary_700"  # its own blues are too pale to be read by everybody
    return soft.set(
        block_title_text_color=dark, block_title_background_fill="none", block_title_padding="0",
        block_label_text_color=dark, input_placeholder_color="*neutral_500", body_text_color_subdued="*neutral_600",
        button_primary_background_fill=strong, button_primary_background_fill_hover="*primary_800",
        checkbox_label_background_fill_selected=strong, link_text_color=strong,
        block_title_text_color_dark="*neutral_200", block_label_text_color_dark="*neutral_200",
    )  # fmt: skip
