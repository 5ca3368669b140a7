"""WebDataset shards: a tar with two members a sample, ``00000012.jpg`` and ``00000012.json``.

A sample with a class has a third, ``00000012.cls``, with its name.

Owner, mode and time are fixed, so equal samples give equal bytes.  What the shard knows about itself (drop reasons,
counts, a digest of its members) stands in the tar's own header, which plain readers skip.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

_NOTES = "DOCVISION.notes"


def pack(table: pa.Table, notes: dict[str, Any]) -> bytes:
    """A shard's bytes."""
    members = [member for row in table.to_pylist() for member in _members(row)]
    noted = {**notes, "sha256": _digest(members)}
    sink = io.BytesIO()
    headers = {_NOTES: json.dumps(noted, sort_keys=True)}
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, 0
            tar.addfile(entry, io.BytesIO(data))
    return sink.getvalue()


def _members(row: dict[str, Any]) -> list[tuple[str, bytes]]:
    image = row["image"]["bytes"]
    key = f"{row['index']:08d}"
    columns = {name: value for name, value in row.items() if name != "image"}
    suffix = "jpg" if image[:2] == b"\xff\xd8" else "png"
    named = [(f"{key}.cls", columns["label"].encode())] if "label" in columns else []
    return [(f"{key}.{suffix}", image), *named, (f"{key}.json", json.dumps(columns, ensure_ascii=False).encode())]


def _digest(members: list[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, data in members:
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def notes(path: Path) -> dict[str, Any]:
    """What :func:`pack` was given, and the digest."""
    with tarfile.open(path) as tar:
        tar.next()
        return json.loads(tar.pax_headers.get(_NOTES, "{}"))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The samples as Parquet shards would give them."""
    image = b""
    for name, data in _read(path):
        if name.endswith(".json"):
            yield {"image": {"bytes": image, "path": None}, **json.loads(data)}
        elif not name.endswith(".cls"):
            image = data


def is_whole(path: Path) -> bool:
    """Whether the members are those that were written."""
    return notes(path).get("sha256") == _digest(list(_read(path)))


def _read(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as tar:
        for entry in tar:
            stream = tar.extractfile(entry)
            if stream is not None:
                yield entry.name, stream.read()
