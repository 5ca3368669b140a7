"""The journal of an output folder at an address: it lies there, and here while a run holds it.

It is sent every ``SYNC_S`` seconds and at the end, so a driver that is killed costs the work of those seconds, which is
done again under the same names.  What lies at the address is listed once, at the start.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apps import places
from apps.jobs import Outcome
from apps.manifest import FAILURES, JOURNAL, PLACE, Manifest
from apps.outputs import Item, OutputError

SYNC_S = 30.0


class StagedManifest(Manifest):
    """The journal of an output folder at an address; runs on other machines are not kept out of it.

    Args:
        address: of the folder, without a slash at its end.
        settings: everything that decides on the outputs, as JSON.
        resume: believe what earlier runs have written.

    Raises:
        OutputError: the address cannot be used.
    """

    def __init__(self, address: str, settings: Mapping[str, Any], resume: bool = True) -> None:
        self.address = address
        self._home = Path(tempfile.mkdtemp(prefix="docvision-"))
        try:
            (self._home / PLACE).mkdir()
            self._sizes = places.sizes(address)
            for name in (f"{PLACE}/{JOURNAL}", FAILURES):
                if name in self._sizes:
                    places.fetch(f"{address}/{name}", self._home / name)
            self._sent = time.monotonic()
            super().__init__(self._home, settings, resume)
        except (places.PlaceError, FileNotFoundError) as error:
            shutil.rmtree(self._home, ignore_errors=True)
            raise OutputError(str(error)) from error

    @property
    def shown(self) -> str:
        return self.address

    def size(self, name: str) -> int:
        try:
            return self._sizes[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def record(self, item: Item, outcome: Outcome) -> None:
        super().record(item, outcome)
        if time.monotonic() - self._sent > SYNC_S:
            self._send(f"{PLACE}/{JOURNAL}")
            self._sent = time.monotonic()

    def write_failures(self, *arguments: Any, **named: Any) -> int:
        lines = super().write_failures(*arguments, **named)
        if lines:
            self._send(FAILURES)
        elif FAILURES in self._sizes:
            with contextlib.suppress(places.PlaceError):
                places.remove(f"{self.address}/{FAILURES}")
        return lines

    def close(self) -> None:
        if self._journal is not None:
            with contextlib.suppress(OutputError):  # what is in it is read again next time
                self._send(f"{PLACE}/{JOURNAL}")
        super().close()
        shutil.rmtree(self._home, ignore_errors=True)

    def _send(self, name: str) -> None:
        try:
            places.send(self._home / name, f"{self.address}/{name}")
        except places.PlaceError as error:
            raise OutputError(str(error)) from error
