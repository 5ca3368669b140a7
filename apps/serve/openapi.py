"""The service described for machines: what each address takes and answers, with examples."""

from __future__ import annotations

from typing import Any

from apps.serve.answers import CODES, FORMATS
from apps.serve.uploads import FORM, MEDIA_TYPES

DESCRIPTION = (
    'PDFs, scans and photographed pages to JSON, Markdown and HTML, on this machine. A refusal is {"code", "message",'
    ' "hint"}. Where keys are asked for, they go into the header X-API-Key, or Authorization: Bearer.'
)

_BLOCK = {
    "kind": "heading", "box": [72, 70.2, 310.5, 88], "text": "Field report", "lines": [], "level": 1, "marker": "",
    "table": None, "source": "text-layer", "confidence": 1.0,
}  # fmt: skip
_EXAMPLES = {
    "json": {
        "source": "report.pdf",
        "pages": [{"number": 1, "width": 612, "height": 792, "status": "ok", "blocks": [_BLOCK], "dropped": []}],
        "warnings": [],
        "schema_version": "1",
    },
    "md": "# Field report\n\nRead the height at every full hour.\n",
    "html": "<!doctype html>\n<html>...<h1>Field report</h1>...</html>\n",
    "txt": "Field report\n\nRead the height at every full hour.\n",
    "jsonl": '{"text": "Read the height at every full hour.", "headings": ["Field report"], "page": 1}\n',
}
_STATE = {
    "id": "k3yQm1...", "state": "reading", "pages_done": 3, "pages_total": 12, "format": "json", "status": None,
    "error": None, "expires_in": None, "result": None,
}  # fmt: skip
_MESSAGES = {
    "busy": "17 documents are being read or wait",
    "too-many-bytes": "a request has 50 MB at most here",
    "not-supported": "report.doc is neither a PDF nor a PNG, JPEG, WebP or TIFF image: convert it first",
    "password-required": "report.pdf is encrypted: give its password",
    "out-of-time": "the document was not read within 300 seconds",
    "no-key": "this service asks for a key",
    "bad-option": "pages: a value is wrong",
    "no-job": "there is no such job, or no more",
    "not-finished": "3 of 12 pages are read",
    "not-ready": "the reading processes are starting",
    "bad-request": "the form has no file in its field 'file'",
    "not-acceptable": "nothing that 'image/gif' asks for is made here",
    "upload-too-slow": "the document did not arrive within 60 seconds",
}


def _refusals(*codes: str) -> dict[int | str, dict[str, Any]]:
    answers: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        status, hint = CODES[code]
        example = {"code": code, "message": _MESSAGES[code], "hint": hint}
        same = sorted(other for other, (number, _) in CODES.items() if number == status)
        schema = {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {"code": {"enum": same}, "message": {"type": "string"}, "hint": {"type": "string"}},
        }
        answers[status] = {
            "description": f"Refused: {', '.join(same)}.",
            "content": {"application/json": {"schema": schema, "example": example}},
        }
        if status in (429, 503):
            seconds = {"schema": {"type": "integer"}, "description": "Seconds after which to try again."}
            answers[status]["headers"] = {"Retry-After": seconds}
    return answers


def _documents() -> dict[str, Any]:
    content = {media.split(";")[0]: {"example": _EXAMPLES[name]} for name, media in FORMATS.items()}
    status = {"schema": {"enum": ["ok", "partial"]}, "description": "partial: some pages have warnings or failed."}
    return {"description": "The document.", "content": content, "headers": {"X-Document-Status": status}}


def _json(description: str, example: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"example": example}}}


def _body() -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    fields = {"file": binary, "password": {"type": "string", "description": "Opens an encrypted PDF."}}
    form = {"type": "object", "required": ["file"], "properties": fields}
    content = {FORM: {"schema": form}, **{media: {"schema": binary} for media in MEDIA_TYPES}}
    password = {
        "name": "X-Document-Password", "in": "header", "required": False, "schema": {"type": "string"},
        "description": "Opens an encrypted PDF.",
    }  # fmt: skip
    return {"requestBody": {"required": True, "content": content}, "parameters": [password]}


_TAKING = (
    "bad-request", "no-key", "not-acceptable", "upload-too-slow", "too-many-bytes", "not-supported",
    "password-required", "busy",
)  # fmt: skip
PARSE: dict[str, Any] = {
    "summary": "Read a document and answer with it",
    "openapi_extra": _body(),
    "responses": {200: _documents(), **_refusals(*_TAKING, "out-of-time")},
}
START: dict[str, Any] = {
    "summary": "Begin to read a document",
    "status_code": 202,
    "openapi_extra": _body(),
    "responses": {202: _json("The job, to be asked for at the address in Location.", _STATE), **_refusals(*_TAKING)},
}
STATE: dict[str, Any] = {
    "summary": "How far a job is",
    "responses": {
        200: _json("waiting, reading, done or failed.", _STATE),
        **_refusals("no-key", "no-job", "bad-option"),
    },
}
RESULT: dict[str, Any] = {
    "summary": "The document of a job that is done",
    "responses": {
        200: _documents(),
        **_refusals("no-key", "no-job", "not-finished", "password-required", "out-of-time"),
    },
}
FORGET: dict[str, Any] = {
    "summary": "Stop a job, and remove its document and result",
    "status_code": 204,
    "responses": {204: {"description": "Nothing of it is left."}, **_refusals("no-key", "no-job", "bad-option")},
}
HEALTH: dict[str, Any] = {
    "summary": "The web process is alive",
    "responses": {200: _json("Alive.", {"status": "ok", "version": "0.1.0"})},
}
READY: dict[str, Any] = {
    "summary": "Documents can be read now",
    "responses": {
        200: _json("Ready.", {"status": "ready", "workers": 2, "documents": 0, "model": "docvision-tiny"}),
        **_refusals("not-ready"),
    },
}
