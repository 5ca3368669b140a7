"""Hosts of Ray actors that misbehave as their documents' names say, in a module that workers can import."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from apps.ray_engine import Host


class Dying(Host):
    """Dies itself, not its reader, over a document called ``poison``; a dot beside it for each time."""

    def do(self, text: str) -> str:
        path = Path(json.loads(text)["path"])
        if path.stem == "poison":
            with path.with_suffix(".times").open("a") as file:
                file.write(".")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().do(text)


class Elsewhere(Host):
    """On a machine with another disk."""

    def hello(self) -> str:
        return json.dumps({**json.loads(super().hello()), "token": "", "node": "far"})
