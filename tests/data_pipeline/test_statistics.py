"""Statistics of page pictures: each measure follows what it measures; a fit follows the folder."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from data_pipeline import build, contact_sheet, statistics

LINES = 20


def page(
    skew: float = 0.0, ink: int = 20, paper: int = 235, thick: int = 0, blur: float = 0.0, grain: float = 0.0
) -> np.ndarray:
    """Words as strokes in 20 lines, in A4 at 1000 pixels; ``thick`` pixels are added to the strokes."""
    image = np.full((1414, 1000), paper, np.uint8)
    rng = np.random.default_rng(5)
    for line in range(LINES):
        for x in range(100, 880, 26):
            letter = "abcdeonmu"[int(rng.integers(9))]
            place = x, 160 + line * 52
            cv2.putText(image, letter, place, cv2.FONT_HERSHEY_SIMPLEX, 0.9, ink, 2, cv2.LINE_AA)
    image = cv2.erode(image, np.ones((thick, thick), np.uint8)) if thick else image
    if skew:
        turn = cv2.getRotationMatrix2D((500, 707), skew, 1.0)
        image = cv2.warpAffine(image, turn, (1000, 1414), borderMode=cv2.BORDER_REPLICATE)
    if blur:
        image = cv2.GaussianBlur(image, (0, 0), blur)
    if grain:
        image = np.clip(image + rng.normal(0, grain, image.shape), 0, 255).astype(np.uint8)
    return image


def measured(**changes: float) -> statistics.PageStatistics:
    found = statistics.measure(page(**changes))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_measures_follow_what_they_measure() -> None:
    plain = measured()
    assert plain.lines == LINES and plain.skew == pytest.approx(0, abs=0.11)
    assert plain.contrast == pytest.approx(215, abs=15) and plain.paper == 235
    assert measured(skew=1.5).skew == pytest.approx(1.5, abs=0.15)
    assert measured(skew=1.5).lines == pytest.approx(LINES, abs=1)
    assert measured(ink=120).contrast < plain.contrast - 60
    assert measured(thick=4).stroke > plain.stroke + 1
    assert measured(blur=2.5).softness > plain.softness + 0.5
    assert measured(grain=12).grain > plain.grain + 4
    assert statistics.measure(np.full((1000, 800), 250, np.uint8)) is None


def test_resolution_does_not_matter() -> None:
    """The same page at half the size measures about the same in thousandths of its width."""
    half = statistics.measure(cv2.resize(page(), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA))
    assert half is not None and half.text_height == pytest.approx(measured().text_height, rel=0.2)
    assert half.lines == LINES


def write(folder: Path, **changes: float) -> Path:
    folder.mkdir()
    for number in range(2):
        cv2.imwrite(str(folder / f"{number}.png"), page(**changes))  # type: ignore[arg-type]
    return folder


def test_a_fit_follows_the_folder(tmp_path: Path) -> None:
    """Crooked and grainy pages ask for more skew and difficulty than clean ones, in a recipe that loads."""
    clean = statistics.fit(statistics.read_folder(write(tmp_path / "clean")))
    poor_folder = write(tmp_path / "poor", skew=1.2, grain=12.0, blur=1.5, ink=110)
    poor = statistics.fit(statistics.read_folder(poor_folder))
    assert clean["clean"] > 0.9 > poor["clean"]
    assert poor["skew"] > 1.0 > clean["skew"] and poor["difficulty"][1] > 0.3
    path = tmp_path / "mine.yaml"
    assert statistics.main(["fit", str(poor_folder), "-o", str(path)]) == 0
    options = build.load_recipe(str(path)).sample_options()
    assert options.skew == yaml.safe_load(path.read_text())["options"]["skew"] == poor["skew"]


def test_compare_prints_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write(tmp_path / "a"), write(tmp_path / "b", ink=110)
    assert statistics.main(["compare", str(a), str(b)]) == 0
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("contrast"))
    assert "2 real and 2 synthetic" in printed and row.endswith("0 %")


def test_a_folder_without_pages_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert statistics.main(["fit", str(tmp_path), "-o", str(tmp_path / "x.yaml")]) == 2
    assert "has no page with text" in capsys.readouterr().err


def test_sheets_keep_to_their_size(tmp_path: Path) -> None:
    images = [page(grain=20.0), page()[:300]]
    sheet = contact_sheet.contact_sheet(images, across=2, cell=(200, 260))
    assert sheet.shape == (280, 430) and sheet.min() < 60
    assert contact_sheet.write_sheet(tmp_path / "sheet.jpg", sheet, 12_000) <= 12_000
    with pytest.raises(ValueError, match="use .png or .jpg"):
        contact_sheet.write_sheet(tmp_path / "sheet.tif", sheet)
