"""Taking a document in: out of a form or as the body itself, into a folder that ends with the request."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from apps.demo_visits import safe_name
from apps.serve.answers import Refusal
from apps.serve.reading import UPLOAD

MEDIA_TYPES = ("application/pdf", "image/png", "image/jpeg", "image/webp", "image/tiff", "application/octet-stream")
"""Of a body that is the document itself; what it really is, its first bytes say."""
FORM = "multipart/form-data"
FIELDS = ("file", "password")
BLOCK = 1 << 20


class Request(Protocol):
    """The part of starlette's request that is used here."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def stream(self) -> Any: ...

    def form(self, *, max_files: int, max_fields: int) -> Any: ...


@dataclass(frozen=True)
class Upload:
    """A document that has arrived."""

    folder: Path
    """Holds it under the name ``UPLOAD``, and later its answer."""
    name: str
    """What its sender calls it; a label only, no file has this name."""
    password: str


def new_folder(root: Path) -> Path:
    """A folder for one document, readable by this user only."""
    return Path(tempfile.mkdtemp(dir=root))


async def receive(request: Request, folder: Path, seconds: float) -> Upload:
    """Write a request's document into ``folder``.

    Raises:
        Refusal: there is none, it is too large, or it does not arrive in ``seconds``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    password = request.headers.get("x-document-password", "")
    try:
        async with asyncio.timeout(seconds):
            if kind == FORM:
                name, written = await _from_form(request, folder / UPLOAD)
            elif kind in MEDIA_TYPES or not kind:
                name, written = {"name": "document", "password": ""}, await _from_body(request, folder / UPLOAD)
            else:
                raise Refusal("wrong-media-type", f"a body of the type {kind[:80]!r} is not read")
    except TimeoutError:
        raise Refusal("upload-too-slow", f"the document did not arrive within {seconds:g} seconds") from None
    if not written:
        raise Refusal("empty", "the document has 0 bytes")
    return Upload(folder, name["name"], password or name["password"])


async def _from_body(request: Request, path: Path) -> int:
    written = 0
    with path.open("wb") as file:
        async for chunk in request.stream():
            written += len(chunk)
            await asyncio.to_thread(file.write, chunk)
    return written


async def _from_form(request: Request, path: Path) -> tuple[dict[str, str], int]:
    """The labels and the size of a form's document."""
    async with request.form(max_files=1, max_fields=len(FIELDS)) as form:
        unknown = sorted(set(form) - set(FIELDS))
        if unknown:
            raise Refusal("bad-request", f"the form has a field {unknown[0][:40]!r}, known are {' and '.join(FIELDS)}")
        file, password = form.get("file"), form.get("password", "")
        if not hasattr(file, "read") or not isinstance(password, str):
            raise Refusal("bad-request", "the form has no file in its field 'file'")
        with path.open("wb") as target:
            await asyncio.to_thread(shutil.copyfileobj, file.file, target, BLOCK)
        name = safe_name(file.filename or "document")
        return {"name": name, "password": password}, path.stat().st_size


@asynccontextmanager
async def folder_for(root: Path) -> AsyncIterator[Path]:
    """A folder that is gone after the block, whatever happens in it."""
    folder = new_folder(root)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
