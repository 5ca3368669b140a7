"""The long batch under watch: what its figures mean, and the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from made_pdfs import MadePage, write_pdf

from apps import bench_soak, cli


def test_the_first_quarter_is_not_what_is_compared() -> None:
    assert bench_soak.quarter_medians([1, 9, 50, 51, 52, 60, 70, 70, 80]) == (50.5, 75.0)


def test_memory_is_drawn_to_scale() -> None:
    watch = bench_soak.Watch(pages=100, memory={7: [(0, 40.0), (50, 80.0), (100, 80.0)], 8: [(3, 1.0)]})
    root = ElementTree.fromstring(bench_soak.plot(watch))
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")  # a worker seen once makes no line
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x0 == bench_soak.EDGE and x1 - x0 == pytest.approx(x2 - x1) and y1 == y2
    bottom = bench_soak.HEIGHT - bench_soak.EDGE
    assert bottom - y1 == pytest.approx(2 * (bottom - y0), abs=0.2)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured where /proc tells it")
def test_a_short_soak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pdf(tmp_path / "a.pdf", [MadePage([f"Line {line} of the page."]) for line in range(4)])
    code = cli.main(["bench", "soak", str(path), "--pages", "30", "--workers", "2", "-o", str(tmp_path / "m.svg")])
    head, one, two = capsys.readouterr().out.splitlines()
    assert code == 0 and head.split()[:3] == ["workers", "documents", "pages"]
    assert one.split()[:3] == ["1", "8", "32"] and two.split()[:3] == ["2", "8", "32"]
    assert all(float(figure) > 0 for figure in [*one.split(), *two.split()])
    assert len(list(ElementTree.parse(tmp_path / "m.svg").iter("{http://www.w3.org/2000/svg}polyline"))) >= 1
