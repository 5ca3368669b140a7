"""The model, loaded once and shared by all worker processes.

The server process from which workers are forked imports this module first.  It then holds the weights, and a fork
shares them page by page for as long as nobody writes to them; a worker that replaces a lost one has its model at
once.  Forking is safe here because that process has one thread: torch is told to use one before it computes, and
gets its threads after the fork.  A GPU cannot be shared in this way, so there each worker loads its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docvision.scan import Reader

VARIABLE = "_DOCVISION_MODEL_TO_SHARE"
"""Names the model for the server process; set by workers.py while it starts that process."""
_NAME = os.environ.get(VARIABLE, "")


def _load(name: str) -> Reader | None:
    """The model, or None where it cannot be loaded, which the first page that needs it will say."""
    from docvision.parse import load_reader
    from docvision.scan import ModelUnavailable

    try:
        import torch

        torch.set_num_threads(1)
        return load_reader(name, "cpu")
    except (ImportError, ModelUnavailable):
        return None


_READER = _load(_NAME) if _NAME else None


def reader_of(model: str, device: str) -> Reader | None:
    """The shared model, if it is this one and runs there."""
    return _READER if (model, device) == (_NAME, "cpu") else None
