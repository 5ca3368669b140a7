"""The doctor: a healthy machine is healthy, and each kind of trouble is told and fails the examination."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from apps import cli, doctor, models
from docvision.page import Block, Box, Document, Page


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def checks(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> dict[str, dict[str, object]]:
    assert run("doctor", "--json", *arguments) == code
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == ("ok" if code == 0 else "broken")
    return {check["name"]: check for check in report["checks"]}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the self-test, which loads the model."""
    monkeypatch.setattr(doctor, "_self_test", lambda model, device: iter(()))


def test_a_healthy_machine(capsys: pytest.CaptureFixture[str]) -> None:
    found = checks(capsys, 0)
    for name in ("text of a PDF", "page drawn by pypdfium2", "model loaded", "text of a picture", "docvision-tiny"):
        assert found[name]["state"] == "ok" and found[name]["needed"] and float(str(found[name]["seconds"])) > 0
    assert found["pypdfium2"]["state"] == "ok" and "verified" in str(found["docvision-tiny"]["detail"])


def test_people_get_lines(quick: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCVISION_TXT", "layer")
    assert run("doctor") == 0
    out = capsys.readouterr().out
    assert "ok pypdfium2: " in out and out.endswith("all that is needed works\n")
    assert "DOCVISION_TXT is no variable of docvision; did you mean DOCVISION_TEXT?" in out


def test_a_missing_package_is_told_and_only_a_needed_one_is_fatal(
    quick: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor.metadata.version

    def without(*gone: str) -> None:
        def version(name: str) -> str:
            if name in gone:
                raise doctor.metadata.PackageNotFoundError(name)
            return real(name)

        monkeypatch.setattr(doctor.metadata, "version", version)

    without("gradio")
    found = checks(capsys, 0)
    assert found["gradio"]["state"] == "missing" and found["gradio"]["hint"] == "pip install 'docvision[app]'"
    without("gradio", "pypdfium2")
    assert checks(capsys, 1)["pypdfium2"]["state"] == "missing"


def test_a_program_that_does_not_run_is_told(
    quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "pdftoppm"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = checks(capsys, 0)
    assert found["pdftoppm"]["state"] == "broken" and "ends with 7" in str(found["pdftoppm"]["detail"])
    assert found["tesseract"]["state"] == "missing"


def test_damaged_weights_are_fatal(
    quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = next(model for model in models.packaged() if model.name == "docvision-tiny")
    copy = models.Model(model.name, shutil.copytree(model.folder, tmp_path / model.name), "packaged")
    content = bytearray(copy.weights.read_bytes())
    content[len(content) // 2] ^= 64
    copy.weights.write_bytes(content)
    monkeypatch.setattr(models, "packaged", lambda: [copy])
    assert "is damaged" in str(checks(capsys, 1)["docvision-tiny"]["detail"])


def test_no_place_for_temporary_files_is_fatal(
    quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.tempfile, "tempdir", str(tmp_path / "gone"))
    assert checks(capsys, 1)["temporary files"]["state"] == "broken"


def test_a_document_read_wrong_is_told() -> None:
    page = Page(1, 10, 10, [Block("text", Box(0, 0, 1, 1), "something else altogether, quite another line")])
    check = doctor._timed("text of a PDF", lambda: doctor._compared(Document("a", [page]), doctor.MAX_WRONG))
    assert check.fatal and "read 'something else" in check.detail
