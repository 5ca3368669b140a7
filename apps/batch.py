"""Many documents in, finished files out: what ``docvision parse`` and ``docvision retry`` do.

    inputs.py names documents -> manifest.py says which are finished -> a WorkList (jobs.py) of the others
    -> an engine reads them, in this process or in workers that can be killed -> the manifest records each outcome

An engine is any function that takes a WorkList and yields ``(task, outcome)``.  A document that fails costs one line
and the run's exit code, never the next document.  One document alone is read in this process, unless it has limits.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from apps.batch_log import JsonLog, Log, Tally
from apps.inputs import Inputs
from apps.jobs import Outcome, Task, WorkList, count
from apps.manifest import FAILURES, Manifest
from apps.outputs import Item, OutputError, Outputs
from apps.places import is_address
from apps.read_task import Settings, TaskReader, digest
from docvision.parse import ParseOptions

DEFAULT_TIMEOUT_S = 300.0
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff"})
_PLACES = ("folder", "file", "scratch", "password")
"""Fields of Outputs that do not change what is written."""
Outcomes = Generator[tuple[Task, Outcome], None, None]
"""As they come, each task once; closing it ends all reading at once."""


@dataclass(frozen=True)
class How:
    """How a batch is read; none of it changes an output."""

    workers: int = 1
    timeout: float | None = None
    """Seconds for one page; None: a default where workers read, none else."""
    memory: int | None = None
    """Megabytes for one worker."""
    resume: bool = True
    retry_failed: bool = False
    quiet: bool = False
    json_log: bool = False

    def isolated(self, documents: int, debug: bool) -> bool:
        """Whether workers read: more than one document, or limits that need them."""
        limits = self.workers > 1 or self.timeout is not None or self.memory is not None
        return documents > 0 and (limits or (documents > 1 and not debug))


Engine = Callable[[WorkList, Settings, Log, How], Outcomes]
"""Reads what is in the list until nothing is, and tells it of readers that are lost."""


def run(found: Inputs, settings: Settings, how: How, engine: Engine | None = None) -> Tally:
    """Read all documents that are not finished, and write their outputs.

    Args:
        found: from :func:`apps.inputs.find`.
        settings: what is written, and where.
        how: see :class:`How`.
        engine: what reads into a folder; None chooses by ``how``.

    Raises:
        FolderBusy: another run writes into the folder.
        OutputError: the folder cannot be written.
        WorkersUnavailable: workers do not start.
    """
    folder = settings.outputs.folder
    tally = Tally(len(found.documents) + len(found.problems), failed=len(found.problems))
    tally.codes.update(problem.code for problem in found.problems)
    log = (JsonLog if how.json_log else Log)(sys.stderr, how.quiet, tally)
    if folder is None:
        tasks = [Task(str(path), natural or "document") for path, natural in found.documents]
        log.begin(found.notes, found.problems)
        try:
            for task, outcome in read_here(WorkList(tasks), settings, log, how):
                tally.add(outcome)
                log.done(task, outcome)
        finally:
            log.summary()
        return tally
    with _manifest(settings, folder, how.resume) as manifest:
        manifest.scratch.mkdir(parents=True, exist_ok=True)
        outputs = replace(settings.outputs, folder=manifest.folder, scratch=manifest.scratch)
        settings = replace(settings, outputs=outputs)
        _into_folder(found, settings, how, manifest, log, engine)
    return tally


def _manifest(settings: Settings, folder: Path, resume: bool) -> Manifest:
    if not settings.address:
        return Manifest(folder, identity(settings), resume)
    from apps.staged_manifest import StagedManifest

    return StagedManifest(settings.address, identity(settings), resume)


def _into_folder(
    found: Inputs, settings: Settings, how: How, manifest: Manifest, log: Log, engine: Engine | None
) -> None:
    tally = log.tally
    tasks = []
    for item in manifest.names(found.documents, settings.outputs.formats):
        stands = manifest.finished(item, how.retry_failed, bool(settings.outputs.password))
        if stands is None:
            tasks.append(Task(str(item.path), item.name))
        else:
            tally.add(stands, before=True)
    manifest.write_failures(found.problems, without={task.name for task in tasks})
    log.begin(found.notes, found.problems)
    engine = engine or (read_in_workers if how.isolated(len(tasks), settings.debug) else read_here)
    outcomes = engine(WorkList(tasks), settings, log, how)
    try:
        with contextlib.closing(outcomes):
            for task, outcome in outcomes:
                manifest.record(Item(task.path if is_address(task.path) else Path(task.path), task.name), outcome)  # type: ignore[arg-type]
                tally.add(outcome)
                log.done(task, outcome)
                if any(failure.code == "disk-full" for failure in outcome.failures):
                    break
    except OutputError as error:  # the journal's own
        log.stopped(str(error))
    finally:
        if tally.done < tally.total:
            left = count(tally.total - tally.done, "document")
            log.stopped(f"{left} not reached: the same command goes on with them")
        lines = 0
        with contextlib.suppress(OSError, OutputError):  # on a full disk the file stays as it was
            lines = manifest.write_failures(found.problems)
        log.summary(f"{manifest.shown}/{FAILURES}" if lines else "")


# Engines


def read_here(work: WorkList, settings: Settings, log: Log, how: How) -> Outcomes:
    """Read in this process, without limits."""
    del how
    reader = TaskReader(settings, hashes=settings.outputs.folder is not None, raises=settings.debug)
    while task := work.next():
        yield task, reader.read(task, partial(log.begun, task) if log.live else None)


def read_in_workers(work: WorkList, settings: Settings, log: Log, how: How) -> Outcomes:
    """Read in workers."""
    from apps.workers import Limits, Workers

    def on_page() -> None:
        log.tally.pending += 1

    timeout = how.timeout or DEFAULT_TIMEOUT_S
    number = min(how.workers, len(work))
    model = shared_model(settings.options, work.paths())
    workers = Workers(number, settings, Limits(timeout, how.memory), model, on_page, log.look)
    yield from workers.run(work)


def shared_model(options: ParseOptions, paths: list[str]) -> str:
    """The model that all workers share; empty where perhaps none of them needs it."""
    if options.layout == "rules" or options.text == "layer" or options.device != "cpu":
        return ""
    needed = options.text == "model" or any(Path(path).suffix.lower() in PICTURES for path in paths)
    return options.model if needed else ""


# What a run is known by


def identity(settings: Settings) -> dict[str, Any]:
    """Everything that decides on the outputs, as JSON: with it a later run knows what is finished."""
    from docvision import __version__

    options = settings.options
    outputs = {name: value for name, value in vars(settings.outputs).items() if name not in _PLACES}
    uses_model = options.layout != "rules" and options.text != "layer"
    return {
        "options": asdict(options), "outputs": outputs, "pages": settings.pages, "max_pages": settings.max_pages,
        "weights": weights_digest(options.model) if uses_model else "", "version": __version__,
    }  # fmt: skip


def settings_of(known: dict[str, Any], folder: Path, password: str, debug: bool) -> Settings:
    """The settings that :func:`identity` was made from, for the same folder.

    Raises:
        ValueError: another version has written them.
    """
    try:
        options = ParseOptions(**known["options"])
        outputs = Outputs(**{**known["outputs"], "formats": tuple(known["outputs"]["formats"])})
    except (TypeError, KeyError, ValueError):
        reason = f"{folder} was written by another version of docvision: run the parse command again"
        raise ValueError(reason) from None
    outputs = replace(outputs, folder=folder, password=password)
    return Settings(options, outputs, known["pages"], known["max_pages"], debug)


def weights_digest(model: str) -> str:
    """SHA-256 of a model's weights without loading them; for a hub id the id itself, which pins no version."""
    from docvision import config

    for folder in (Path(model), Path(config.__file__).parent / "weights" / model):
        if (folder / "config.json").is_file():
            parts = [digest(path) for path in sorted(folder.glob("*")) if path.suffix in (".json", ".safetensors")]
            return hashlib.sha256("".join(parts).encode()).hexdigest()
    return model
