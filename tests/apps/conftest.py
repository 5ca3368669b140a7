"""What the tests of the HTTP service share: a service in this process with one reader, and a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from service_checks import settings, two_pages


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a small service without the model."""
    from fastapi.testclient import TestClient

    from apps.serve.app import build

    with TestClient(build(settings())) as client:
        yield client


@pytest.fixture(scope="module")
def pdf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Two pages of text."""
    return two_pages(tmp_path_factory.mktemp("pdf"))
