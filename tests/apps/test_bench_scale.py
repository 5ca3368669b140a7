"""Predicting a corpus on many cores: formula and simulation agree where they should, and say what is in the way."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from apps import bench_scale, cli
from apps.bench_scale import Cluster, Measured, predict, simulate

MEASURED = Measured((0.05, 0.1, 0.15), 0.02, 0.0003)
CALM = Cluster(hang=0.0)
PAGES, LENGTH = 2_000_000, 10.0
NEAR = 0.1
"""Between formula and simulation, whose tail is of fewer documents."""


@pytest.mark.parametrize(
    ("cluster", "cores", "bound"),
    [
        (CALM, 64, "cores"),
        (CALM, 400, "cores"),
        (replace(CALM, files=200.0), 1000, "store"),
        (replace(CALM, call=0.05, cores_per_driver=10_000), 1000, "driver"),
    ],
)
def test_formula_and_simulation_agree_on_what_is_in_the_way(cluster: Cluster, cores: int, bound: str) -> None:
    told = predict(MEASURED, cluster, cores, PAGES, LENGTH, 2)
    seen = simulate(MEASURED, cluster, cores, PAGES, LENGTH, 2, ratio=1000)
    assert told["bound"] == bound and seen["failed"] == 0
    assert seen["seconds"] == pytest.approx(told["seconds"], rel=NEAR)
    assert seen["efficiency"] == pytest.approx(told["efficiency"], rel=2 * NEAR)
    assert seen["scale"] == f"1:{min(1000, cores // bench_scale.LEAST)}"


def test_pages_that_hang_cost_their_time_and_are_counted() -> None:
    calm, hanging = (
        simulate(MEASURED, replace(CALM, hang=share), 100, 200_000, LENGTH, 2, ratio=1) for share in (0.0, 1e-3)
    )
    assert hanging["failed"] == pytest.approx(200, rel=0.3)  # four standard deviations
    assert hanging["seconds"] > calm["seconds"] + hanging["failed"] * CALM.timeout / 100 * 0.9


def test_lengths_have_the_mean_that_is_asked_for() -> None:
    rng = random.Random(0)
    lengths = [bench_scale.drawn_length(rng, 12.0, 0.6) for _ in range(20_000)]
    assert sum(lengths) / len(lengths) == pytest.approx(12.0, rel=0.03) and min(lengths) >= 1


def test_the_command_measures_and_prints(examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "scale", examples / "two-columns.pdf", "--pages", "100000", "--cores", "10,2000"]
    assert cli.main([*map(str, words), "--json", str(tmp_path / "scale.json")]) == 0
    first, heads, *rows = capsys.readouterr().out.splitlines()
    assert "pages/s" in first and heads.split()[:4] == ["cores", "drivers", "hours", "simulated"]
    assert [row.split()[:2] for row in rows] == [["10", "1"], ["2000", "4"]]
    report = json.loads((tmp_path / "scale.json").read_text())
    assert all(seconds > 0 for seconds in report["measured"]["pages"]) and report["measured"]["outcome"] > 0
    assert cli.main(["bench", "scale", str(examples / "two-columns.pdf"), "--cores", "many"]) == 2
