"""What the demo does for its visitors and for programs, free of any web framework.

Each visitor's documents are in a :class:`apps.demo_visits.Visit`; the work is done by the processes of a pool; what
is said here in lines and figures is put on the page by demo.py.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apps.demo_drawing import Order
from apps.demo_process import Answer, Pool, WorkStopped
from apps.demo_race import METHODS, Card, Race, page_lines
from apps.demo_reading import Job, read
from apps.demo_visits import Limits, Opened, Visit, VisitError, Visits, archive
from docvision import export

REFRESH_S = 0.12
"""Between two pictures of something that goes on."""
WAIT_S = 300
"""For the model to be loaded when the demo starts."""
PRIVILEGED = 1024
"""Ports below it belong to the administrator on most systems."""
OWN_HOSTS = ("127.0.0.1", "localhost", "0.0.0.0", "::1")


class Desk:
    """Takes documents in, has them read, and gives the results out.

    Args:
        root: temporary folder for everything visitors bring.
        limits: what a visitor may ask for.
        readers: processes, that is, jobs done at the same time.
        model: name or folder of the model.
    """

    def __init__(self, root: Path, limits: Limits, readers: int, model: str) -> None:
        self.limits = limits
        self.visits = Visits(root)
        self.pool = Pool(model, readers)
        self._model = model
        self._card = Card()
        self._known = threading.Event()
        threading.Thread(target=self._look_at_model, daemon=True).start()

    def close(self) -> None:
        self.pool.close()
        self.visits.end_all()

    def _look_at_model(self) -> None:
        """Also has a process load it, before the first visitor waits for that."""
        try:
            for answer in self.pool.ask({"kind": "model"}, WAIT_S):
                if "model" in answer:
                    told = answer["model"]
                    self._card = Card(**{**told, "methods": tuple(told["methods"])})
        except WorkStopped as error:
            self._card = Card(name=Path(self._model).name, failure=str(error))
        self._known.set()

    def card(self) -> Card:
        """What is known of the model, as soon as it is."""
        self._known.wait(WAIT_S)
        return self._card

    def read_all(
        self,
        visit: Visit,
        uploads: Sequence[Path],
        pages: str,
        text: str,
        decoding: str,
        password: str,
        failures: list[str],
    ) -> Iterator[tuple[str, float | None]]:
        """Read uploads one after another in place of what the visit has; why one was not read goes to ``failures``.

        Yields as :meth:`read_one`.
        """
        visit.stops["read"].clear()
        visit.clear()
        most = self.limits.max_files
        if len(uploads) > most:
            failures.append(f"only the first {most} of {len(uploads)} files were read")
        for number, upload in enumerate(uploads[:most], start=1):
            start = f"{number} of {len(uploads)}: " if len(uploads) > 1 else ""
            try:
                for line, done in self.read_one(visit, upload, pages, text, decoding, password):
                    yield start + line, done
            except (VisitError, WorkStopped) as error:
                failures.append(f"{upload.name}: {error}")
                if visit.stops["read"].is_set():
                    return

    def read_one(
        self, visit: Visit, upload: Path, pages: str, text: str, decoding: str, password: str
    ) -> Iterator[tuple[str, float | None]]:
        """Read one document into the visit; yields a line for the visitor and the share that is done.

        Raises:
            VisitError: the upload is too large or gone, or the model cannot read lines in that way.
            WorkStopped: it cannot be read, or was stopped.
        """
        known = [name for _, name in decodings(self.card())] if decoding != "line" else ["line"]
        if decoding not in known:
            raise VisitError(f"no decoding {decoding!r} with this model: {', '.join(known)}")
        path = visit.take(upload, self.limits)
        job = Job(str(path), str(path.parent), pages.strip(), text, decoding, password, self.limits.max_pages)
        steps = read(self.pool, job, self.limits.max_seconds, visit.stops["read"].is_set)
        try:
            for progress in steps:
                total, done = len(progress.selected), len(progress.pages)
                line = f"page {done + 1} of {total}" if done < total else "putting the pages together"
                line = _waiting(progress.waiting) or (line if total else "opening")
                yield f"{path.name}: {line}", done / total if total else None
        finally:
            steps.close()
        if progress.document is not None:
            visit.add(path, progress.document, password, progress.cut)

    def watch(
        self, visit: Visit, opened: Opened | None, number: int, block: int, method: str, accept: str
    ) -> Iterator[tuple[str, Race]]:
        """Plain decoding and a method on lines of a page; yields a line for the visitor and what is written so far.

        Raises:
            VisitError: the model has no trained decoder, or the page no lines there.
            WorkStopped: it cannot be done, or was stopped.
        """
        card = self.card()
        if not card.decoder or opened is None:
            raise VisitError("read a document first" if card.decoder else card.notice())
        page = opened.page(number)
        lines, words = page_lines(page, block)
        if not lines:
            raise VisitError(
                f"page {page.number} has no line of text from block {block} on: choose another block or page"
            )
        job = {
            "kind": "watch", "path": str(opened.file), "password": opened.password, "page": page.number,
            "size": [page.width, page.height], "lines": lines, "words": words, "method": method, "accept": accept,
        }  # fmt: skip
        race, shown = Race(method), 0.0
        for answer in self._answers(visit, "watch", job):
            if line := _waiting(answer.get("waiting", 0)):
                yield line, race
            elif race.take(answer) and (race.figures or time.monotonic() - shown > REFRESH_S):
                shown = time.monotonic()
                yield "" if race.figures else "writing", race

    def draw(self, visit: Visit, order: Order) -> Iterator[tuple[str, list[str], str]]:
        """Images of the packaged generator: a line for the visitor, PNGs so far, and at last one PNG of all.

        Raises:
            WorkStopped: it was stopped or failed.
        """
        images: list[str] = []
        sheet = ""
        yield "starting", images, sheet
        for answer in self._answers(visit, "draw", {"kind": "draw", **asdict(order)}):
            line = _waiting(answer.get("waiting", 0))
            images += [answer["image"]] if "image" in answer else []
            sheet = answer.get("sheet", sheet)
            if answer:
                yield line or f"{len(images)} of {order.count}", images, sheet

    def _answers(self, visit: Visit, task: str, job: dict[str, Any]) -> Iterator[Answer]:
        stop = visit.stops[task]
        stop.clear()
        steps = self.pool.ask(job, self.limits.max_seconds, stop.is_set)
        try:
            yield from steps
        finally:
            steps.close()

    # For programs

    def parse(
        self, files: list[str] | None, pages: str = "", text: str = "auto", password: str = "", decoding: str = "line"
    ) -> list[dict[str, Any]]:
        """Each file's Markdown and document, or why there is none; nothing of them is kept."""
        visit = Visit(Path(tempfile.mkdtemp(dir=self.visits.root)))
        found = []
        try:
            for file in (files or [])[: self.limits.max_files]:
                found.append(self._parse_one(visit, Path(file), pages, text, password, decoding))
                shutil.rmtree(Path(file).parent, ignore_errors=True)
        finally:
            shutil.rmtree(visit.folder, ignore_errors=True)
        return found

    def _parse_one(
        self, visit: Visit, upload: Path, pages: str, text: str, password: str, decoding: str
    ) -> dict[str, Any]:
        try:
            for _ in self.read_one(visit, upload, pages, text, decoding, password):
                pass
        except (VisitError, WorkStopped) as error:
            return {"name": upload.name, "status": "failed", "error": str(error)}
        opened = visit.opened[-1]
        told = {"markdown": export.to_markdown(opened.document), "document": export.to_json(opened.document)}
        return {"name": upload.name, **opened.outcome(), **told}

    def drawn(self, order: Order) -> dict[str, Any]:
        """Images of an order as PNG in base64, and one picture of all."""
        *_, (_, images, sheet) = self.draw(Visit(self.visits.root / "none"), order)
        return {**asdict(order), "images": images, "sheet": sheet}


def decodings(card: Card) -> list[tuple[str, str]]:
    """How scanned lines may be read with a model, as (what it says, name)."""
    choices = [("Line head: one pass", "line")]
    if card.decoder:
        choices += [("Decoder, plain", "ntp"), *((f"Decoder, {METHODS[name]}", name) for name in card.methods)]
    return choices


def write_archive(visit: Visit) -> Path:
    """All that was read, in one zip file."""
    name = visit.opened[0].name if len(visit.opened) == 1 else "documents"
    path = visit.folder / f"{name}.zip"
    path.write_bytes(archive(visit.opened))
    return path


def write_csv(opened: Opened, number: int) -> Path:
    """A table of a document (from 0) as CSV."""
    page, on_page, table = opened.tables()[number]
    path = opened.folder / f"{opened.name}.p{page}-t{on_page}.csv"
    path.write_text(export.table_to_csv(table), "utf-8")
    return path


def address_problem(host: str, port: int) -> str:
    """Why a server could not listen there, in one line."""
    if not port:
        return f"no free port was found at {host}: give a --port"
    why = "taken, or needs more rights" if port < PRIVILEGED else "taken"
    if host not in OWN_HOSTS:
        why += f", or {host} is no address of this machine"
    return f"port {port} is {why}: give another --port, or --port 0"


def _waiting(before: int) -> str:
    return f"waiting: {before} job{'s'[: before > 1]} before this one" if before else ""
