"""Which models are document models of Hugging Face, told by their config alone, before anything heavy is loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
"""``user/model``."""


def is_vlm(name: str) -> bool:
    """Whether a folder, or a hub id in the local cache, holds a model of transformers: its config names a type."""
    place: Any = Path(name) / "config.json"
    if not place.is_file() and HUB_ID.fullmatch(name) and not Path(name).exists():
        try:
            from huggingface_hub import try_to_load_from_cache
        except ImportError:  # an optional package: without it there is no cache to look into
            return False
        place = try_to_load_from_cache(name, "config.json")
    try:
        return "model_type" in json.loads(Path(place).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False
