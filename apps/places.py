"""Addresses of files elsewhere: ``s3://bucket/scans``, ``gs://...``, ``hdfs://...``, whatever fsspec knows.

An address may stand for an input or for the output folder.  ``file://`` is a path in other words and becomes one.  A
document at an address is known by what its store says of it (its tag, or size and time), since to read its bytes only
to see that they are the same would cost as much as to parse it.
"""

from __future__ import annotations

import glob
import hashlib
import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
    "hdfs": "pyarrow",
}
"""What fsspec wants for the usual ones."""
_listed: dict[str, str] = {}
"""Address -> fingerprint, of what a listing has told already: asking for each one takes a request."""


class PlaceError(OSError):
    """An address that cannot be used; one line says why and what to do."""


def is_address(text: str | Path) -> bool:
    return isinstance(text, str) and bool(_ADDRESS.match(text))


def plain(text: str) -> str:
    """A path for ``file://``, else the text as it is."""
    return text.removeprefix("file://") if text.startswith("file:///") else text


def opened(address: str) -> tuple[Any, str]:
    """(file system, path in it) of an address.

    Raises:
        PlaceError: fsspec, or what it needs for this kind, is not installed; or there is no such kind.
    """
    kind = address.partition("://")[0]
    try:
        url_to_fs = importlib.import_module("fsspec.core").url_to_fs
        return url_to_fs(address)
    except ImportError as error:
        missing = _PACKAGES.get(kind, "what fsspec names")
        package = "fsspec" if "fsspec" in str(error.name or "") else missing
        raise PlaceError(f"{address} needs a package that is not installed: pip install {package}") from error
    except ValueError as error:
        raise PlaceError(f"{address}: {_line(error)}: use a path, or an address such as s3://bucket/folder") from error
    except Exception as error:  # each store has its own errors, for rights and names that do not resolve
        raise PlaceError(told(address, "opened", error)) from error


def told(address: str, what: str, error: BaseException) -> str:
    """One line for an error of a store."""
    if isinstance(error, FileNotFoundError):
        return f"{address} is not there: check the address"
    return f"{address} cannot be {what} ({type(error).__name__}: {_line(error)}): check the address and your rights"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def find(address: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(address, natural name) of the documents that an address names: itself, below it, or by its pattern, sorted.

    Raises:
        PlaceError: it cannot be listed, or holds nothing.
    """
    system, path = opened(address)
    try:
        if glob.has_magic(path):
            root = path[: path[: re.search(r"[*?\[]", path).start()].rfind("/") + 1]  # type: ignore[union-attr]
            infos = system.glob(path, detail=True)
        elif system.isdir(path):
            root = path.rstrip("/") + "/"
            infos = system.find(path, detail=True)
        else:
            yield address, _stem(path.rpartition("/")[2])
            return
    except Exception as error:
        raise PlaceError(told(address, "listed", error)) from error
    files = {name: info for name, info in infos.items() if info.get("type") == "file"}
    hidden = (name for name in files if any(part.startswith(".") for part in name.removeprefix(root).split("/")))
    names = sorted(files.keys() - set(hidden))
    wanted = [name for name in names if os.path.splitext(name)[1].lower() in suffixes]
    if not wanted:
        raise PlaceError(f"{address} holds no document: name a place with {', '.join(suffixes)} files")
    for name in wanted:
        found = system.unstrip_protocol(name)
        _listed[found] = _fingerprint(files[name])
        yield found, _stem(name.removeprefix(root))


def _stem(name: str) -> str:
    return os.path.splitext(name)[0]


def fingerprint(address: str) -> str:
    """What a document is known by without reading it; empty where the store does not say."""
    if address not in _listed:
        try:
            system, path = opened(address)
            _listed[address] = _fingerprint(system.info(path))
        except Exception:  # its reader will say it better
            return ""
    return _listed[address]


def _fingerprint(info: dict[str, Any]) -> str:
    tag = info.get("ETag") or info.get("etag") or info.get("md5Hash")
    when = next(
        (info[key] for key in ("mtime", "LastModified", "last_modified", "updated", "created") if key in info), ""
    )
    return "store:" + hashlib.sha256(f"{tag or (info.get('size'), str(when))}".encode()).hexdigest()[:40]


def real(path: str | Path) -> str:
    """What a document is called once for all: the real path of a file, an address as it is."""
    return str(path) if is_address(path) else os.path.realpath(path)


def there(path: str, links: bool = False) -> bool:
    """Whether a document is there; of an address that is believed."""
    return is_address(path) or (os.path.lexists(path) if links else os.path.exists(path))


def fetch(address: str, target: Path) -> None:
    """Bring a document here.

    Raises:
        FileNotFoundError: it is not there.
        PlaceError: it cannot be had.
    """
    system, path = opened(address)
    try:
        system.get_file(path, str(target))
    except FileNotFoundError:
        raise
    except Exception as error:
        raise PlaceError(told(address, "read", error)) from error


def send(source: Path, address: str) -> None:
    """Put a file at an address: whole, as stores do, or not at all.

    Raises:
        PlaceError: it cannot be put there.
    """
    system, path = opened(address)
    try:
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        system.put_file(str(source), path)
    except Exception as error:
        raise PlaceError(told(address, "written", error)) from error


def sizes(address: str) -> dict[str, int]:
    """Path below an address -> bytes, of all that lies there.

    Raises:
        PlaceError: it cannot be listed.
    """
    system, path = opened(address)
    try:
        infos = system.find(path, detail=True) if system.exists(path) else {}
    except Exception as error:
        raise PlaceError(told(address, "listed", error)) from error
    root = path.rstrip("/") + "/"
    return {name.removeprefix(root): int(info.get("size") or 0) for name, info in infos.items()}


def remove(address: str) -> None:
    """Remove a file, if it is there.

    Raises:
        PlaceError: it cannot be removed.
    """
    system, path = opened(address)
    try:
        system.rm_file(path)
    except FileNotFoundError:
        return
    except Exception as error:
        raise PlaceError(told(address, "removed", error)) from error


def check(address: str) -> None:
    """See that files can be made below an address, before hours of work.

    Raises:
        PlaceError: they cannot.
    """
    system, path = opened(f"{address.rstrip('/')}/.docvision/probe")
    try:
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        system.pipe_file(path, b"")
        system.rm_file(path)
    except Exception as error:
        raise PlaceError(told(address, "written", error)) from error
