"""Shards of a data set: written whole, renamed into place, a marker last.

A data set folder holds ``recipe.json`` (what is being made, from the start), ``part-00000.parquet`` or ``.tar`` ...
and, when all of them are there, ``README.md`` (the card) and ``_SUCCESS`` (JSON: counts, recipe, files).  Shard k holds
rows ``k * rows`` to ``(k + 1) * rows``, so an interrupted build goes on with the shards that are missing and neither
loses nor doubles a row.  Each shard carries its own notes: why samples were dropped, and counts of what is in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_pipeline import webdataset
from data_pipeline.card import NAME as CARD
from data_pipeline.card import card, features
from data_pipeline.tally import Tally

MARKER = "_SUCCESS"
RECIPE = "recipe.json"
ROWS = 2000
FORMATS = {"parquet": ".parquet", "webdataset": ".tar"}
"""Format -> ending of its files."""
_NOTES = b"docvision"
_LOCK_PATIENCE_S = 5.0
"""A build that was killed holds its folder until its workers have seen it."""

IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
LINE_SCHEMA = pa.schema(
    [
        ("image", IMAGE_TYPE), ("text", pa.string()), ("width", pa.int32()), ("font", pa.string()),
        ("kind", pa.string()), ("difficulty", pa.float32()), ("index", pa.int64()),
    ]
)  # fmt: skip


class ShardError(ValueError):
    """A data set folder that cannot be used as asked."""


class WriteError(OSError):
    """A file of the data set that cannot be written."""


def shard_path(folder: Path, number: int, form: str = "parquet") -> Path:
    return folder / f"part-{number:05d}{FORMATS[form]}"


def shard_ranges(count: int, rows: int) -> list[range]:
    """The rows of each shard."""
    return [range(start, min(start + rows, count)) for start in range(0, count, rows)]


# Files


def write_atomic(path: Path, data: bytes) -> None:
    """All of ``data`` under ``path``, or nothing.

    Raises:
        WriteError: with the reason.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise WriteError(_write_failure(path, error)) from error


def _write_failure(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} was not written: the disk is full; free some space and run the same command again: it goes on"
    return f"{path} was not written ({error.strerror or error})"


def write_shard(
    path: Path, rows: list[dict[str, Any]], schema: pa.Schema | None, dropped: Counter[str] | None = None
) -> int:
    """Write one shard, in the format of its ending.

    Args:
        path: from :func:`shard_path`.
        rows: samples in order.
        schema: columns; None lets the rows decide.
        dropped: why samples were drawn and not kept, with counts.

    Returns:
        Its size in bytes.
    """
    table = pa.Table.from_pylist(rows, schema=schema)
    tally = Tally()
    for row in rows:
        tally.add(row)
    notes = {"dropped": dict(sorted((dropped or {}).items())), "tally": tally.plain()}
    data = webdataset.pack(table, notes) if path.suffix == FORMATS["webdataset"] else _parquet(table, notes)
    write_atomic(path, data)
    return len(data)


def _parquet(table: pa.Table, notes: dict[str, Any]) -> bytes:
    info = {"info": {"features": features(table.schema)}}
    table = table.replace_schema_metadata(
        {b"huggingface": json.dumps(info).encode(), _NOTES: json.dumps(notes, sort_keys=True).encode()}
    )
    few = [name for name in ("font", "kind", "genre", "language") if name in table.column_names]
    sink = pa.BufferOutputStream()
    # Images do not shrink; the other columns are small. Row groups of 250 let a reader shuffle in pieces.
    pq.write_table(
        table, sink, row_group_size=250, compression="none", use_dictionary=few or False, write_page_checksum=True
    )
    return sink.getvalue().to_pybytes()


def read_notes(path: Path) -> dict[str, Any]:
    """A shard's drop reasons and counts; empty for one that carries none."""
    if path.suffix == FORMATS["webdataset"]:
        return webdataset.notes(path)
    return json.loads((pq.read_schema(path).metadata or {}).get(_NOTES, b"{}"))


def shard_rows(path: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of one shard."""
    if path.suffix == FORMATS["webdataset"]:
        for row in webdataset.rows(path):
            yield row if columns is None else {name: row[name] for name in columns}
        return
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(batch_size=250, columns=columns):
            yield from batch.to_pylist()


def fault(path: Path, indexes: range) -> str:
    """What is wrong with a shard, all of it read: empty where it is whole and holds these rows."""
    try:
        if path.suffix == FORMATS["webdataset"] and not webdataset.is_whole(path):
            return "its content has changed"
        found = [row["index"] for row in shard_rows(path)]
    except (OSError, pa.ArrowException, tarfile.TarError, ValueError, KeyError, EOFError) as error:
        return f"it cannot be read ({' '.join(str(error).split())[:100]})"
    if len(found) != len(indexes):
        return f"it holds {len(found)} rows instead of {len(indexes)}"
    return "" if found == list(indexes) else "it holds rows of another place"


# Folders


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold a folder against other builds; the lock goes with the process, however that ends.

    Yields:
        The file descriptor that holds it; worker processes close their copies.

    Raises:
        ShardError: the folder is none, or another build holds it.
        WriteError: the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ShardError(f"{folder} is a file or lies below one: give -o a folder") from None
    except OSError as error:
        raise WriteError(_write_failure(folder, error)) from error
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ShardError(f"{folder} is being built by another process: wait for it to end") from None
                time.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)


def open_folder(folder: Path, recipe: dict[str, Any]) -> tuple[list[int], dict[str, str]]:
    """Prepare a folder for this recipe.

    Returns:
        Numbers of the shards still to be made, and the damaged ones among them: file -> what is wrong.

    Raises:
        ShardError: the folder holds another data set, or something else.
    """
    if (folder / RECIPE).exists():
        found = read_recipe(folder)
        differing = sorted(key for key in recipe.keys() | found.keys() if recipe.get(key) != found.get(key))
        if differing:
            raise ShardError(
                f"{folder} holds a data set with another {', '.join(differing)}{_change(found, recipe, differing)}: "
                "give -o a new folder"
            )
    elif others := sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(".")):
        raise ShardError(f"{folder} holds {others[0]} but no {RECIPE}: give -o a new or an empty folder")
    else:
        write_atomic(folder / RECIPE, _json(recipe))
    sweep(folder)
    missing, damaged = [], {}
    for number, indexes in enumerate(shard_ranges(recipe["count"], recipe["rows"])):
        path = shard_path(folder, number, recipe["format"])
        reason = fault(path, indexes) if path.exists() else "missing"
        if reason:
            missing.append(number)
        if reason and path.exists():
            damaged[path.name] = reason
    if missing:  # no marker stands over shards that are not there
        (folder / MARKER).unlink(missing_ok=True)
    return missing, damaged


def _change(old: dict[str, Any], new: dict[str, Any], keys: list[str]) -> str:
    """`` (fonts a -> b)`` where one thing alone differs."""
    while len(keys) == 1 and isinstance(old.get(keys[0]), dict) and isinstance(new.get(keys[0]), dict):
        old, new = old[keys[0]], new[keys[0]]
        keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return f" ({keys[0]} {old.get(keys[0])} there, {new.get(keys[0])} here)" if len(keys) == 1 else ""


def sweep(folder: Path) -> None:
    """Remove what an interrupted write left."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def read_recipe(folder: Path) -> dict[str, Any]:
    """What a folder's data set is made from.

    Raises:
        ShardError: there is no data set, or its recipe is damaged.
    """
    path = folder / RECIPE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        shard_ranges(found["count"], found["rows"])
        return {"format": "parquet", **found}
    except (FileNotFoundError, NotADirectoryError):
        raise ShardError(f"{folder} holds no data set: there is no {RECIPE} in it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ShardError(f"{path} is damaged ({error}): give -o a new folder") from error


def finish(folder: Path) -> dict[str, Any]:
    """Add up what lies in the shards; write the card and the marker.

    Raises:
        ShardError: a shard is missing or has another number of rows than the recipe says.
    """
    recipe = read_recipe(folder)
    files, dropped, tally = [], Counter[str](), Tally()
    for number, indexes in enumerate(shard_ranges(recipe["count"], recipe["rows"])):
        path = shard_path(folder, number, recipe["format"])
        if not path.exists():
            raise ShardError(f"{path} is missing: run the same command again to make it")
        notes = read_notes(path)
        rows = notes["tally"]["samples"]["all"]
        if rows != len(indexes):
            raise ShardError(f"{path} holds {rows} rows instead of {len(indexes)}: run the same command again")
        dropped.update(notes["dropped"])
        tally.merge(notes["tally"])
        files.append({"file": path.name, "rows": rows, "bytes": path.stat().st_size})
    summary = {
        "count": recipe["count"], "files": files, "recipe": recipe, "dropped": dict(sorted(dropped.items())),
        "tally": tally.plain(),
    }  # fmt: skip
    write_atomic(folder / CARD, card(summary, _schema(shard_path(folder, 0, recipe["format"]))).encode())
    write_atomic(folder / MARKER, _json(summary))
    return summary


def _schema(path: Path) -> pa.Schema:
    if path.suffix == FORMATS["parquet"]:
        return pq.read_schema(path)
    return pa.Table.from_pylist([next(webdataset.rows(path))]).schema


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def read_rows(folder: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """All rows of a data set in order, finished or not."""
    for path in sorted([*folder.glob("part-*.parquet"), *folder.glob("part-*.tar")]):
        yield from shard_rows(path, columns)
