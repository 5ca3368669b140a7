"""What the service answers: formats by name and by Accept, and one shape for everything that went wrong.

A refusal is ``{"code", "message", "hint"}`` with the status of its code, whoever notices it: the gate, the limits, the
reading process or the web framework.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

FORMATS = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
"""Name of a format in the query -> media type of the answer."""
_ALIASES = {"text/x-markdown": "md", "application/xhtml+xml": "html", "application/jsonl": "jsonl"}

CODES: dict[str, tuple[int, str]] = {
    # What docvision.source.SourceError says of a document.
    "missing": (500, "send the document again"),
    "empty": (422, "send the content of the file"),
    "not-supported": (415, "send a PDF, PNG, JPEG, WebP or TIFF"),
    "corrupt": (422, "repair the file or export it again"),
    "password-required": (422, "send the password in the header X-Document-Password"),
    "wrong-password": (422, "send the right password in the header X-Document-Password"),
    "no-pages": (422, "export the document again"),
    "page-out-of-range": (422, "pages is like 3, 2-5, r1 or 1-5,8"),
    "too-large": (413, "scale the picture down"),
    # What the service says itself.
    "unreadable": (422, "see the message: no page could be read"),
    "too-many-bytes": (413, "send a smaller file"),
    "too-many-pages": (413, "choose pages, such as ?pages=1-50, and ask again for the rest"),
    "out-of-time": (504, "choose fewer pages"),
    "out-of-memory": (422, "choose fewer pages, or scale the pictures down"),
    "reader-crashed": (422, "the document may be damaged, or larger than the memory: repair it or choose fewer pages"),
    "upload-too-slow": (408, "send the document again"),
    "bad-request": (400, "send the document as the body, or as the field 'file' of a form"),
    "bad-option": (422, "see /openapi.json for the options"),
    "no-key": (401, "send the key in the header X-API-Key"),
    "wrong-host": (403, "use the address that the service was started with, or start it with an API key"),
    "not-found": (404, "see /openapi.json for the addresses"),
    "no-job": (404, "jobs are forgotten some minutes after they end: start another one"),
    "not-allowed": (405, "see /openapi.json for the methods"),
    "not-acceptable": (406, f"formats are {', '.join(FORMATS)}"),
    "not-finished": (409, "ask for the job's state until it is done"),
    "wrong-media-type": (415, "send application/pdf, image/png, image/jpeg, image/webp, image/tiff or a form"),
    "busy": (429, "try again after the seconds in the header Retry-After"),
    "not-ready": (503, "try again in a moment"),
    "internal": (500, "please report it"),
}
"""Code -> HTTP status and what to do about it."""


class Refusal(ValueError):
    """A request that is not answered with a document; ``code`` is one of :data:`CODES`."""

    def __init__(self, code: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code if code in CODES else "internal"
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        return CODES[self.code][0]

    def body(self) -> dict[str, str]:
        return {"code": self.code, "message": " ".join(str(self).split()), "hint": CODES[self.code][1]}

    def headers(self) -> dict[str, str]:
        extra = {"Retry-After": str(max(1, math.ceil(self.retry_after)))} if self.status in (429, 503) else {}
        if self.status == 401:
            extra["WWW-Authenticate"] = 'Bearer realm="docvision"'
        return {**SAFE_HEADERS, **extra}

    def to_json(self) -> bytes:
        return json.dumps(self.body()).encode()


SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
}
"""Of every answer: nothing is kept on the way, and HTML made of a stranger's document may do nothing in a browser."""


@dataclass(frozen=True)
class ServiceSettings:
    """What the service allows, and how it reads."""

    workers: int = 1
    """Processes that read, each one document at a time."""
    queue: int = 16
    """Documents that wait; one more is answered with 429."""
    max_mb: float = 50
    """Megabytes of one request."""
    max_pages: int = 200
    """Pages read of one document."""
    max_seconds: float = 300
    """For reading one document, after its turn has come."""
    max_memory_mb: int = 6000
    """Of one reading process; 0 for no limit."""
    upload_seconds: float = 60
    """For sending one document."""
    keep_seconds: float = 600
    """How long the result of a job waits to be fetched."""
    max_jobs: int = 100
    """Jobs that are running, waiting or finished and not yet forgotten."""
    model: str = "docvision-tiny"
    device: str = "cpu"
    layout: str = "auto"
    """``rules``: the model is never loaded."""
    keys: tuple[str, ...] = field(default=(), repr=False)
    """Without one the service is open to whoever reaches it."""
    hosts: tuple[str, ...] = ()
    """Names under which an open service answers; empty for any."""

    @property
    def max_bytes(self) -> int:
        return int(self.max_mb * 1_000_000)


def wanted_format(named: str | None, accept: str | None) -> str:
    """The format of an answer: the one named in the query, else the first of the Accept header that there is.

    Raises:
        Refusal: ``not-acceptable``.
    """
    if named is not None:
        return named
    known = {media.split(";")[0]: name for name, media in FORMATS.items()} | _ALIASES
    choices = []
    for order, part in enumerate((accept or "*/*").split(",")):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((_quality(value[2:]) for value in parameters if value.startswith("q=")), 1.0)
        if quality > 0:
            choices.append((-quality, order, media))
    for _, _, media in sorted(choices):
        if media in known:
            return known[media]
        if media in ("*/*", "application/*"):
            return "json"
        if media == "text/*":
            return "md"
    raise Refusal("not-acceptable", f"nothing that {(accept or '')[:80]!r} asks for is made here")


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
