"""Parquet shards: written whole, renamed into place, a marker last.

A data set folder holds ``recipe.json`` (what is being made, from the start), ``part-00000.parquet`` ... and, when all
of them are there, ``_SUCCESS`` (JSON: counts, recipe, files).  Shard k holds rows ``k * rows`` to ``(k + 1) * rows``,
so an interrupted build goes on with the shards that are missing and neither loses nor doubles a row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MARKER = "_SUCCESS"
RECIPE = "recipe.json"
ROWS = 2000

IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
LINE_SCHEMA = pa.schema(
    [
        ("image", IMAGE_TYPE), ("text", pa.string()), ("width", pa.int32()), ("font", pa.string()),
        ("kind", pa.string()), ("difficulty", pa.float32()), ("index", pa.int64()),
    ]
)  # fmt: skip


class ShardError(ValueError):
    """A data set folder that cannot be used as asked."""


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def shard_ranges(count: int, rows: int) -> list[range]:
    """The rows of each shard."""
    return [range(start, min(start + rows, count)) for start in range(0, count, rows)]


def write_atomic(path: Path, data: bytes) -> None:
    """All of ``data`` under ``path``, or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


def write_shard(path: Path, rows: list[dict[str, Any]], schema: pa.Schema | None) -> int:
    """Write one shard and return its size in bytes; ``schema`` None lets the rows decide."""
    table = pa.Table.from_pylist(rows, schema=schema)
    sink = pa.BufferOutputStream()
    # PNG bytes do not shrink; the other columns are small. Row groups of 250 let a reader shuffle in pieces.
    pq.write_table(table, sink, row_group_size=250, compression="none", use_dictionary=["font", "kind"])
    data = sink.getvalue().to_pybytes()
    write_atomic(path, data)
    return len(data)


def open_folder(folder: Path, recipe: dict[str, Any]) -> list[int]:
    """Prepare a folder for this recipe and return the shards still to be made.

    Raises:
        ShardError: the folder holds another data set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RECIPE
    if path.exists():
        found = json.loads(path.read_text())
        differing = sorted(key for key in recipe.keys() | found.keys() if recipe.get(key) != found.get(key))
        if differing:
            raise ShardError(f"{folder} holds a data set with another {', '.join(differing)}: give -o a new folder")
    elif any(folder.glob("part-*.parquet")):
        raise ShardError(f"{folder} holds shards but no {RECIPE}: give -o a new folder")
    else:
        write_atomic(path, json.dumps(recipe, indent=1, sort_keys=True).encode())
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)
    ranges = shard_ranges(recipe["count"], recipe["rows"])
    return [number for number in range(len(ranges)) if not shard_path(folder, number).exists()]


def finish(folder: Path) -> dict[str, Any]:
    """Count what lies in the shards and write the marker.

    Raises:
        ShardError: a shard is missing or has another number of rows than the recipe says.
    """
    recipe = json.loads((folder / RECIPE).read_text())
    files = []
    for number, rows in enumerate(shard_ranges(recipe["count"], recipe["rows"])):
        path = shard_path(folder, number)
        if not path.exists():
            raise ShardError(f"{path} is missing: run the same command again to make it")
        found = pq.read_metadata(path).num_rows
        if found != len(rows):
            raise ShardError(
                f"{path} holds {found} rows instead of {len(rows)}: delete it and run the same command again"
            )
        files.append({"file": path.name, "rows": found, "bytes": path.stat().st_size})
    summary = {"count": recipe["count"], "files": files, "recipe": recipe}
    write_atomic(folder / MARKER, json.dumps(summary, indent=1, sort_keys=True).encode())
    return summary


def read_rows(folder: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """All rows of a data set in order, finished or not."""
    for path in sorted(folder.glob("part-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=250, columns=columns):
            yield from batch.to_pylist()
