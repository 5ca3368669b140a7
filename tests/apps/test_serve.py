"""The HTTP service: answers in every format, refusals in one shape, limits, what it says about itself.

The application runs in this process and its reading processes are real ones, without the model.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from made_pdfs import MadePage, write_pdf
from PIL import Image
from service_checks import LINES, PATIENCE_S, refused, settings

from apps import cli
from docvision.page import Document
from docvision.parse import ParseOptions
from docvision.source import ErrorCode

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from apps.serve.answers import CODES, Refusal, wanted_format
from apps.serve.app import Options, build

# Answers


def test_the_answer_is_what_the_parser_says(client: TestClient, pdf: bytes, tmp_path: Path) -> None:
    response = client.post("/parse", content=pdf, headers={"Content-Type": "application/pdf"})
    assert response.status_code == 200 and response.headers["x-document-status"] == "ok"
    document = Document.from_json(response.content)
    (tmp_path / "document").write_bytes(pdf)
    assert cli.main(["parse", str(tmp_path / "document"), "--layout", "rules", "-o", str(tmp_path / "a.json")]) == 0
    alone = Document.from_json((tmp_path / "a.json").read_bytes())
    assert [page.blocks for page in document.pages] == [page.blocks for page in alone.pages]
    assert document.source == "document"


@pytest.mark.parametrize(
    ("query", "accept", "media"),
    [
        ("", "*/*", "application/json"),
        ("", "text/markdown", "text/markdown"),
        ("", "text/html;q=0.4, text/markdown;q=0.9", "text/markdown"),
        ("?format=html", "text/markdown", "text/html"),
        ("?format=txt", "*/*", "text/plain"),
        ("?format=jsonl", "*/*", "application/x-ndjson"),
    ],
)
def test_the_format_comes_from_the_query_or_accept(
    client: TestClient, pdf: bytes, query: str, accept: str, media: str
) -> None:
    response = client.post(f"/parse{query}", content=pdf, headers={"Accept": accept})
    assert response.status_code == 200 and response.headers["content-type"].startswith(media)
    assert "sort the readings" in response.text
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_a_format_that_is_none_is_refused(client: TestClient, pdf: bytes) -> None:
    refused(client.post("/parse", content=pdf, headers={"Accept": "image/gif"}), 406, "not-acceptable")
    with pytest.raises(Refusal):
        wanted_format(None, "application/json;q=0")
    assert wanted_format(None, "text/html;q=x, text/*;q=0.1") == "md"


def test_forms_bring_a_name_and_a_password(client: TestClient, tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [MadePage(LINES)], password="opensesame")
    form = {"file": ("../../etc/r\u00e9sum\u00e9.pdf", path.read_bytes(), "application/pdf")}
    refused(client.post("/parse", files=form), 422, "password-required")
    refused(client.post("/parse", files=form, data={"password": "no"}), 422, "wrong-password")
    response = client.post("/parse", files=form, data={"password": "opensesame"})
    assert response.status_code == 200 and response.json()["source"] == "r\u00e9sum\u00e9.pdf"
    assert "opensesame" not in response.text
    response = client.post("/parse", content=path.read_bytes(), headers={"X-Document-Password": "opensesame"})
    assert response.status_code == 200


def test_options_have_an_effect(client: TestClient, pdf: bytes) -> None:
    def ask(query: str) -> str:
        return client.post(f"/parse?{query}", content=pdf).text

    assert json.loads(ask("pages=2"))["pages"][0]["number"] == 2
    assert '<a id="page-2"></a>' in ask("format=md&anchors=true")
    assert json.loads(ask("text=layer"))["settings"]["text"] == "layer"
    assert json.loads(ask("join_tables=false"))["settings"]["join_tables"] == "off"
    assert "table_reader 'crops' needs the model" in ask("table_reader=crops")
    assert json.loads(ask("layout=auto"))["settings"]["layout"] == "rules"  # the service was started so


def test_every_option_of_parsing_can_be_asked_for() -> None:
    """But for those that would let a stranger choose files or devices."""
    options = {field.name for field in fields(ParseOptions)} - {"model", "device"}
    assert options <= set(Options.model_fields)


# Refusals


def test_every_refusal_has_one_shape(client: TestClient, pdf: bytes) -> None:
    picture = io.BytesIO()
    Image.new("L", (30, 30), 255).save(picture, "GIF")
    raw = {"Content-Type": "application/pdf"}
    refused(client.post("/parse", content=b"", headers=raw), 422, "empty")
    refused(client.post("/parse", content=picture.getvalue(), headers=raw), 415, "not-supported")
    refused(client.post("/parse", content=pdf[: len(pdf) // 3] + b"%%", headers=raw), 422, "corrupt")
    refused(client.post("/parse", content=pdf, headers={"Content-Type": "video/mp4"}), 415, "wrong-media-type")
    refused(client.post("/parse", data={"file": "no file"}), 415, "wrong-media-type")
    refused(client.post("/parse", files={"document": pdf}), 400, "bad-request")
    refused(client.post("/parse", files=[("file", pdf), ("file", pdf)]), 400, "bad-request")
    refused(client.post("/parse?pages=7", content=pdf), 422, "page-out-of-range")
    refused(client.post("/parse?text=layer&pages=x", content=pdf), 422, "page-out-of-range")
    refused(client.post("/parse?text=model", content=pdf), 422, "bad-option")
    assert "text" in refused(client.post("/parse?text=mdoel", content=pdf), 422, "bad-option")["message"]
    assert "page" in refused(client.post("/parse?page=1", content=pdf), 422, "bad-option")["message"]
    refused(client.get("/jobs/none"), 404, "no-job")
    refused(client.get("/nothing"), 404, "not-found")
    refused(client.get("/parse"), 405, "not-allowed")


def test_messages_name_no_place_on_the_server(client: TestClient, pdf: bytes) -> None:
    for content in (b"nothing known", pdf[: len(pdf) // 3]):
        body = client.post("/parse", files={"file": ("mine.pdf", content)}).text
        assert "docvision-serve" not in body and "/tmp" not in body and "mine.pdf" in body


def test_too_many_pages_are_refused_and_some_of_them_read(client: TestClient, tmp_path: Path) -> None:
    content = write_pdf(tmp_path / "a.pdf", [MadePage([f"Line {n} of the test."]) for n in range(6)]).read_bytes()
    assert "6 of 6 pages" in refused(client.post("/parse", content=content), 413, "too-many-pages")["message"]
    assert len(client.post("/parse?pages=2-6", content=content).json()["pages"]) == 5


@pytest.mark.parametrize("told", [True, False])
def test_too_many_bytes_are_cut_off_while_they_arrive(client: TestClient, told: bool) -> None:
    """A body without a length is stopped at the limit: the stream is not asked for much more."""
    given = 0

    def stream() -> Iterator[bytes]:
        nonlocal given
        for _ in range(100):
            given += 100_000
            yield bytes(100_000)

    content: Any = bytes(1_000_001) if told else stream()
    refused(client.post("/parse", content=content), 413, "too-many-bytes")
    files = {"file": ("a.pdf", bytes(1_100_000))}
    refused(client.post("/parse", files=files), 413, "too-many-bytes")


def test_codes_have_a_status_and_a_hint_and_all_source_errors_are_known() -> None:
    assert set(get_args(ErrorCode)) <= CODES.keys()
    assert all(400 <= status < 600 and hint for status, hint in CODES.values())


# Watchdogs and descriptions


def test_health_and_readiness(client: TestClient, pdf: bytes) -> None:
    assert client.get("/health").json()["status"] == "ok"
    client.post("/parse", content=pdf)
    assert client.get("/ready").json() == {"status": "ready", "workers": 1, "documents": 0, "model": "docvision-tiny"}


def test_a_model_that_does_not_load_is_not_ready() -> None:
    with TestClient(build(settings(layout="auto", model="/no/such/model"))) as client:
        deadline = time.monotonic() + PATIENCE_S
        while "starting" in client.get("/ready").text and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "no model" in refused(client.get("/ready"), 503, "not-ready")["message"]
        assert client.get("/health").status_code == 200


def test_the_description_names_every_address_with_examples(client: TestClient) -> None:
    told = client.get("/openapi.json").json()
    assert set(told["paths"]) == {"/parse", "/jobs", "/jobs/{id}", "/jobs/{id}/result", "/health", "/ready"}
    parse = told["paths"]["/parse"]["post"]
    assert {option["name"] for option in parse["parameters"]} >= {"format", "pages", "text", "X-Document-Password"}
    assert "multipart/form-data" in parse["requestBody"]["content"]
    Document.from_json(json.dumps(parse["responses"]["200"]["content"]["application/json"]["example"]))
    for path in told["paths"].values():
        for route in path.values():
            for status, answer in route["responses"].items():
                for content in answer.get("content", {}).values():
                    assert "example" in content, (route["summary"], status)
    codes = {code for code, (status, _) in CODES.items() if status == 413}
    assert (
        set(parse["responses"]["413"]["content"]["application/json"]["schema"]["properties"]["code"]["enum"]) == codes
    )
    assert client.get("/docs").status_code == 404  # it would load scripts from elsewhere
