"""Pages in Parquet, row by row: what :mod:`formats` and :mod:`annotate` read and write.

A folder holds ``part-00000.parquet`` ... and, last, the marker ``_SUCCESS`` with the counts; files are written whole.
Columns of a page are those of the rendered pages, so an imported set trains like one of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_pipeline.shards import write_atomic

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
PAGE_SCHEMA = pa.schema(
    [
        ("image", IMAGE), ("document", pa.string()), ("width", pa.int32()), ("height", pa.int32()),
        ("kind", pa.string()), ("difficulty", pa.float32()), ("index", pa.int64()),
    ]
)  # fmt: skip
MARKER = "_SUCCESS"
ROWS = 500


def parquet_bytes(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    """A whole Parquet file; pictures are compressed already, so the file is not."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, row_group_size=100, compression="none")
    return sink.getvalue().to_pybytes()


def write_parts(
    folder: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema, summary: dict[str, Any], size: int = ROWS
) -> int:
    """Write all rows in files of ``size`` rows, then the marker with ``summary``; return the number of rows.

    Files of an earlier run are replaced, and those that are no longer needed removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).unlink(missing_ok=True)
    files: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []

    def write() -> None:
        name = f"part-{len(files):05d}.parquet"
        write_atomic(folder / name, parquet_bytes(held, schema))
        files.append({"file": name, "rows": len(held)})
        held.clear()

    for row in rows:
        held.append(row)
        if len(held) == size:
            write()
    if held or not files:
        write()
    for path in folder.glob("part-*.parquet"):
        if path.name not in {entry["file"] for entry in files}:
            path.unlink()
    count = sum(entry["rows"] for entry in files)
    marker = {"count": count, "files": files, **summary}
    write_atomic(folder / MARKER, json.dumps(marker, indent=1, sort_keys=True).encode())
    return count


def read_parts(folder: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """All rows in order.

    Raises:
        ValueError: the folder holds no data set, one without these columns, or a damaged file.
    """
    paths = sorted(folder.glob("part-*.parquet"))
    if not paths:
        raise ValueError(f"{folder} holds no part-*.parquet: name the folder of a data set")
    for path in paths:
        try:
            file = pq.ParquetFile(path)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is no whole Parquet file: build the data set again") from error
        missing = [name for name in columns or [] if name not in file.schema_arrow.names]
        if missing:
            raise ValueError(f"{path} has no column {', '.join(missing)}: name a data set of pages")
        for batch in file.iter_batches(batch_size=100, columns=columns):
            yield from batch.to_pylist()
