"""What is slow to find out about this machine, kept in the user's cache folder.

An entry is named by what it was made of; an entry that is gone, damaged or cannot be written only costs the time to
make it again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from data_pipeline.shards import write_atomic


def folder() -> Path:
    """``$XDG_CACHE_HOME/docvision``, by default ``~/.cache/docvision``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "docvision"


def key_of(files: Iterable[Path], extra: str = "") -> str:
    """A name for these files as they are now: paths, sizes and times of change."""
    digest = hashlib.sha256(extra.encode())
    for path in files:
        stat = path.stat()
        digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:24]


def load(name: str, key: str) -> bytes | None:
    """What :func:`store` kept, or None."""
    try:
        checksum, _, data = (folder() / f"{name}-{key}").read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if checksum == hashlib.sha256(data).hexdigest().encode() else None


def store(name: str, key: str, data: bytes) -> None:
    """Keep ``data`` in place of what was kept under ``name``, if the disk lets us."""
    path = folder() / f"{name}-{key}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        for other in path.parent.glob(f"{name}-*"):
            if other != path:
                other.unlink(missing_ok=True)
    except OSError:
        return
