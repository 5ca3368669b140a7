"""Confidence against what is right: bins, calibration error, thresholds, and the command on drawn lines."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from apps import bench_confidence as benchmarks
from apps import cli
from apps.bench_confidence import Judged


def test_a_line_is_judged_by_its_characters_and_nothing_by_nothing() -> None:
    readings = [(("Hello", 0.9), "Hallo"), (("", 1.0), "x"), (("x", 0.3), ""), (("far too long", 0.5), "no")]
    judged = list(benchmarks.judge(readings))
    assert judged == [Judged(0.9, 1, 5), Judged(0.5, 2, 2)]
    assert [line.right for line in judged] == [0.8, 0.0]
    (same,) = benchmarks.judge([(("\u201cA \u2013 b\u201d", 1.0), '"A - b"')])
    assert same.edits == 0


def test_the_calibration_error_is_the_distance_by_bins() -> None:
    sure = [Judged(0.95, 0, 10), Judged(0.95, 1, 10)]  # 0.95 right: as sure as right
    boastful = [Judged(0.85, 5, 10)] * 2
    assert benchmarks.calibration_error(sure) == pytest.approx(0.0)
    assert benchmarks.calibration_error(sure + boastful) == pytest.approx(0.35 / 2)
    low, high = benchmarks.bins(boastful + sure)
    assert (low["confidence"], low["lines"], low["mean"], low["right"]) == ("0.8 to 0.9", 2, 0.85, 0.5)
    assert (high["confidence"], high["exact"]) == ("0.9 to 1.0", 0.5)
    assert benchmarks.bins([Judged(1.0, 0, 1)])[0]["confidence"] == "0.9 to 1.0"


def test_the_threshold_keeps_most_lines_within_the_risk() -> None:
    lines = [Judged(0.9, 0, 10), Judged(0.8, 1, 10), Judged(0.7, 0, 10), Judged(0.6, 5, 10)]
    assert benchmarks.kept(lines, 0.05) == {"risk": 0.05, "from": 0.7, "share": 0.75, "cer": 0.0333}
    assert benchmarks.kept(lines, 0.5)["share"] == 1.0
    assert benchmarks.kept([Judged(0.9, 5, 10)], 0.1) == {"risk": 0.1, "from": None, "share": 0.0, "cer": 0.0}
    # Two lines of one confidence cannot be told apart by a threshold.
    assert benchmarks.kept([Judged(0.9, 0, 10), Judged(0.9, 9, 10)], 0.1)["from"] is None


def test_dots_of_the_plot_lie_on_the_diagonal_where_confidence_is_right() -> None:
    root = ElementTree.fromstring(benchmarks.plot([Judged(0.5, 5, 10)] * 3 + [Judged(0.9, 1, 10)]))
    half, sure = root.iter("{http://www.w3.org/2000/svg}circle")
    for dot in (half, sure):
        x, y = float(dot.attrib["cx"]) - benchmarks.EDGE, float(dot.attrib["cy"]) - benchmarks.EDGE / 2
        assert x + y == pytest.approx(benchmarks.SIDE, abs=0.2)
    assert float(half.attrib["r"]) > float(sure.attrib["r"])


def test_command_line_on_drawn_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["The measured values of the first series", "Kind regards, A. Smith"]
    rows = []
    for number, text in enumerate(texts):
        face = ImageFont.load_default(26.0)
        image = Image.new("L", (int(face.getlength(text)) + 40, 60), 255)
        ImageDraw.Draw(image).text((20, 12), text, font=face, fill=0)
        image.save(tmp_path / f"{number}.png")
        (tmp_path / f"{number}.txt").write_text(text)
        rows.append({"id": str(number), "kind": "line", "file": f"{number}.png", "truth": [f"{number}.txt"]})
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "report.json"
    assert cli.main(["bench", "confidence", str(manifest), "--risk", "0.5", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "over 2 lines" in printed and printed.startswith("confidence")
    report = json.loads(out.read_text())
    assert sum(row["lines"] for row in report["bins"]) == 2 and report["kept"][0]["share"] == 1.0
    assert cli.main(["bench", "confidence", str(manifest), "--risk", "2"]) == 2
    assert "shares from 0 to 1" in capsys.readouterr().err
    manifest.write_text('{"kind": "page_scan"}\n')
    assert cli.main(["bench", "confidence", str(manifest)]) in (1, 2)
    assert "has no lines with text" in capsys.readouterr().err
