"""What the tests of the HTTP service share: its settings, the shape of a refusal, waiting for a job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from made_pdfs import MadePage, write_pdf

from apps.serve.answers import ServiceSettings

LINES = ["Read the height at every full hour, 8,760 numbers a year.", "Then sort the readings in columns."]
PATIENCE_S = 60
"""For anything that a busy machine may delay; nothing in the tests takes a tenth of it by itself."""


def settings(**changes: Any) -> ServiceSettings:
    """A small service without the model."""
    return ServiceSettings(**{"layout": "rules", "max_pages": 5, "max_mb": 1, **changes})


def two_pages(folder: Path) -> bytes:
    """A PDF with two pages of text."""
    pages = [MadePage(LINES), MadePage(["Second page, with a line of its own."])]
    return write_pdf(folder / "a.pdf", pages).read_bytes()


def refused(response: Any, status: int, code: str) -> dict[str, str]:
    """The body of a refusal, which has the one shape that all of them have."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body.keys() == {"code", "message", "hint"} and all(body.values()), body
    assert body["code"] == code and response.headers["cache-control"] == "no-store"
    return body


def finished(client: Any, location: str, **options: Any) -> dict[str, Any]:
    """A job's state when it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        state = client.get(location, **options).json()
        if state["state"] in ("done", "failed"):
            return state
        time.sleep(0.05)
    raise AssertionError(f"the job does not end: {state}")
