"""A document of many pages, read by several workers: its pages in parts, then one document made of the parts.

It comes out as if one had read it alone.  What a page teaches about later ones is the one thing that could spoil that:
once the model is in use, pages with a good text layer are compared with their picture too.  So each part says whether
it has used the model and whether that would have changed a page; where a part that it would have changed comes after
one that has used the model, the document is read again by one worker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from apps.jobs import MAX_BAD_PAGES, Loss, Outcome, Task, failed, failure, given_up
from apps.outputs import Item, OutputError, write_atomic
from apps.read_task import TaskReader, Tell, ranges, teller
from docvision.hf_kind import is_vlm
from docvision.page import Document, Page
from docvision.parse import ParseOptions
from docvision.pdf import SourceError, open_source, parse_page_range
from docvision.steps import one_line

SPLIT_PAGES = 64
"""Documents with more pages are read in parts."""
PART_PAGES = 32
NEVER = -1
"""For :attr:`apps.jobs.Task.split`, of a document that parts did not make."""
SPLIT, AGAIN = "split", "again"
"""States of an outcome that stay between engine and reader: read these parts; these parts do not make the document."""
FOLDER = ".docvision/partial/parts"


def may_split(options: ParseOptions) -> bool:
    """Whether pages can be read apart; a model that reads whole pages may remember the ones before."""
    return options.layout == "rules" or options.text == "layer" or not is_vlm(options.model)


class _NoDocument(BaseException):
    """The parts do not make what one reader would have made; no error, so that nobody takes it for one."""


class PartReader(TaskReader):
    """Reads documents, parts of them, and makes documents of parts."""

    def read_here(self, task: Task, tell: Tell | None = None) -> Outcome:
        try:
            if task.part:
                return self._part(task, tell)
            if task.split > 0 and not task.parts and (parts := self._parts(task)):
                return Outcome(SPLIT, notes=tuple(parts))
        except (SourceError, OutputError) as error:
            if task.part:
                return failed(task, error.code, str(error))
        except MemoryError:
            return failed(task, "memory", "not enough memory for this document")
        except Exception as error:
            reason = f"internal error: {type(error).__name__}: {one_line(error)} (--debug shows more)"
            return failed(task, "internal", reason)
        try:
            return super().read_here(task, tell)
        except _NoDocument:
            return Outcome(AGAIN)

    def _parts(self, task: Task) -> list[str]:
        """Selections of pages; none where the document is small enough."""
        _, numbers, _ = self.chosen(Item(Path(task.path), task.name), True)
        if len(numbers) <= task.split:
            return []
        return [ranges(numbers[start : start + PART_PAGES]) for start in range(0, len(numbers), PART_PAGES)]

    def _part(self, task: Task, tell: Tell | None) -> Outcome:
        """Read some pages and write them down for :meth:`document`."""
        outputs, lost = self.settings.outputs, {loss.page for loss in task.skip}
        assert outputs.folder is not None
        self.parser.tell = tell
        with open_source(Path(task.path), outputs.password) as source:
            numbers = [number for number in parse_page_range(task.part, source.page_count) if number not in lost]
            run, document = self.parser.begin(source, task.path)
            on_page = teller(numbers, tell)
            for number in numbers:
                document.pages.append(run.page(number))
                if on_page is not None:
                    on_page(document.pages[-1])
        data = {
            "document": json.loads(document.to_json()), "words": run.words, "leaned": run.leaned,
            "model_used": run.model_used,
        }  # fmt: skip
        name = f"{FOLDER}/{hashlib.sha256(task.name.encode('utf-8', 'replace')).hexdigest()[:32]}-{task.part}.json"
        write_atomic(outputs.folder / name, [json.dumps(data)], outputs.scratch)
        failures = tuple(failure(task.path, loss.code, loss.message, loss.page) for loss in task.skip)
        return Outcome("ok", len(numbers), "", {name: (outputs.folder / name).stat().st_size}, failures)

    def document(self, item: Item, task: Task, pages: str, on_page: Callable[[Page], None] | None) -> Document:
        if not task.parts:
            return super().document(item, task, pages, on_page)
        outputs = self.settings.outputs
        assert outputs.folder is not None
        with open_source(item.path, outputs.password) as source:
            run, document = self.parser.begin(source, str(item.path))
        for name in task.parts:
            part = json.loads((outputs.folder / name).read_bytes())
            if part["leaned"] and run.model_used:
                raise _NoDocument
            run.model_used = run.model_used or part["model_used"]
            run.words.update({int(number): words for number, words in part["words"].items()})
            document.pages += Document.from_json(json.dumps(part["document"])).pages
        self.parser.finish(run, document)
        return document


# On the side of the engine


@dataclass
class _Whole:
    """A document of which parts are being read."""

    task: Task
    waiting: set[str]
    parts: list[str]
    """In the order of the document."""
    files: dict[str, str] = field(default_factory=dict)
    """Part -> the file with its pages."""
    skip: list[Loss] = field(default_factory=list)


class Parts:
    """Follows documents that are read in parts.

    Args:
        back: takes a task that is to be done next.
    """

    def __init__(self, back: Callable[[Task], None]) -> None:
        self._back = back
        self._wholes: dict[str, _Whole] = {}

    def finished(self, task: Task, outcome: Outcome) -> Iterator[tuple[Task, Outcome]]:
        """The document's outcome where this was the last of it; else what follows is to be done."""
        if outcome.status == SPLIT:
            self._wholes[task.name] = _Whole(task, set(outcome.notes), list(outcome.notes))
            for part in reversed(outcome.notes):
                self._back(replace(task, part=part))
        elif outcome.status == AGAIN:
            self._back(replace(task, split=NEVER, parts=(), skip=()))
        elif task.part:
            yield from self._part(task, outcome)
        else:
            yield task, outcome

    def _part(self, task: Task, outcome: Outcome) -> Iterator[tuple[Task, Outcome]]:
        whole = self._wholes.get(task.name)
        if whole is None:  # given up before
            return
        if outcome.status == "failed":
            del self._wholes[task.name]
            yield whole.task, outcome
            return
        whole.waiting.discard(task.part)
        whole.files[task.part] = next(iter(outcome.files))
        whole.skip += [Loss(found.code, found.page, found.message) for found in outcome.failures]
        if len(whole.skip) >= MAX_BAD_PAGES:
            del self._wholes[task.name]
            yield whole.task, given_up(whole.task, tuple(whole.skip))
        elif not whole.waiting:
            del self._wholes[task.name]
            files = tuple(whole.files[part] for part in whole.parts)
            self._back(replace(whole.task, parts=files, skip=tuple(whole.skip)))
