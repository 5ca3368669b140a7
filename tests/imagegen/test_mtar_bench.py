"""The comparison's own arithmetic: arms, budgets, intervals; and both benches end to end at the smallest size."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tiny_images import tiny_recipe

from imagegen import mtar_bench
from imagegen.config import MtarConfig
from imagegen.mtar_bench import Protocol, arms_of, bench_mtar, interval, plan, rows_of
from imagegen.step_bench import bench_steps, step_arms

pytest.importorskip("accelerate")


def test_arms_differ_in_the_aids_alone(tmp_path):
    arms = arms_of(tiny_recipe(tmp_path, 10, MtarConfig(heads=("B",), contrast=0.1, scorer="surprisal")))
    assert arms["base"] == MtarConfig() and arms["MTP"].heads == ("B",) and not arms["MTP"].contrast
    assert arms["TCR"].contrast == 0.1 and not arms["TCR"].heads and not arms["TCR"].scorer
    assert (arms["SD-uniform"].scorer, arms["SD-scored"].scorer) == ("uniform", "surprisal")
    assert arms["all"] == replace(arms["all-uniform"], scorer="surprisal")
    assert arms["all"].heads and arms["all"].contrast and arms["MTP+TCR"] == replace(arms["MTP"], contrast=0.1)
    plain = arms_of(tiny_recipe(tmp_path))
    assert plain["all"].heads == ("B",) and plain["all"].contrast == 0.2 and plain["SD-scored"].scorer == "vit-cls"


def test_plan_has_the_protocols_seeds_and_budgets(tmp_path):
    runs = plan(tiny_recipe(tmp_path, 900), Protocol(seeds=5), 1.25)
    count = {
        (budget, arm): sum(1 for run in runs if run[:2] == (budget, arm)) for budget, arm in {run[:2] for run in runs}
    }
    assert count["full", "base"] == count["full", "all"] == count["third", "all"] == count["equal time", "base"] == 5
    assert count["full", "MTP"] == count["full", "SD-uniform"] == 3
    steps = {budget: number for budget, _, _, number in runs}
    assert steps == {"full": 900, "third": 300, "equal time": 720}


def test_interval_is_students():
    """Gaps 1, 2, 3: mean 2, deviation 1, t of 2 degrees 4.303 over the root of 3."""
    assert interval([1.0, 2.0, 3.0]) == f"+2.0000 +- {4.303 / math.sqrt(3):.4f}"
    assert interval([-0.5]) == "-0.5000 (one seed)"


def test_rows_pair_seeds_and_choose_the_guidance_on_plain_training():
    runs = [
        {
            "budget": "full",
            "arm": arm,
            "seed": seed,
            "steps": 9,
            "nll": nll + seed,
            "cpu_seconds": 1.0 + seed,
            "FD 1 7": 9.0,
            "FD 2 7": fd,
        }
        for arm, nll, fd in (("base", 3.0, 5.0), ("all", 2.5, 11.0))
        for seed in (0, 1, 2)
    ]
    plain, aided = rows_of(runs, Protocol(each=7, guidances=(1.0, 2.0)))
    assert (plain["nll"], plain["FD 2 7"], plain["paper's FID"]) == (4.0, 5.0, 21.96) and "FD 1 7" not in plain
    assert plain["CPU s"] == 2.0 and list(plain) == list(aided)  # the columns of one table
    assert aided["nll - base"] == "-0.5000 +- 0.0000" and aided["FD 2 7 - base"] == "+6.0000 +- 0.0000"


def test_step_arms_hold_one_phase_each(tmp_path):
    arms = step_arms(tiny_recipe(tmp_path, 10))
    assert set(arms) == {"base", "sd 2", "full 2", "sd 1", "full 1"}
    assert arms["sd 1"].mtar.rates == (0.5,) and arms["full 2"].mtar.rates == (0.0,) and arms["full 2"].mtar.depth == 2


def test_step_bench_reports_ratios_that_fit_each_other(tmp_path, monkeypatch):
    """The speed-up must follow from the two ratios and the phases; how large they are is the bench's matter."""
    monkeypatch.setattr("imagegen.step_bench.WARM", 1)
    recipe = tiny_recipe(tmp_path, 10)
    recipe = replace(recipe, batch=24, model=replace(recipe.model, width=64, heads=2, layers=4))
    report = bench_steps(replace(recipe, data=replace(recipe.data, kind="folder", folder="x", size=14)), rounds=3)
    for mark in ("", "_1block", "_wall", "_1block_wall"):
        cost = 0.8 * report[f"sd_ratio{mark}"] + 0.2 * report[f"full_ratio{mark}"]
        assert report[f"schedule_speedup{mark}"] == pytest.approx(1 / cost)
    assert report["clock"] in ("process", "wall") and report["predicted_full_ratio"] > 1.3


def test_bench_runs_every_arm_and_goes_on_where_it_was_cut_off(digits, tmp_path, monkeypatch):
    """Two steps a run, one seed; a second call trains nothing and gives the same table."""
    monkeypatch.setattr(mtar_bench, "prepare", lambda recipe: digits)
    monkeypatch.setattr("imagegen.scores.VIT_STEPS", 2)
    trained = []
    train = mtar_bench.train_generator
    monkeypatch.setattr(mtar_bench, "train_generator", lambda *given: trained.append(1) or train(*given))
    recipe = tiny_recipe(tmp_path, 3)
    report = bench_mtar(recipe, Protocol(seeds=1, each=0, timed_rounds=1))
    assert len(report["rows"]) == 11 == len(trained) and {row["budget"] for row in report["rows"]} == {
        "full", "third", "equal time"
    }  # fmt: skip
    assert all(2.5 < run["nll"] < 3 for run in report["runs"])
    again = bench_mtar(recipe, Protocol(seeds=1, each=0, timed_rounds=1))
    assert len(trained) == 11 and again["rows"] == report["rows"]
    monkeypatch.setattr("imagegen.classifier.STEPS", 1)
    later = bench_mtar(recipe, Protocol(seeds=1, arms=("all",), each=2, guidances=(1.5,), timed_rounds=1))
    assert len(trained) == 11 and [row["arm"] for row in later["rows"]] == ["base", "all", "base", "all", "base"]
    assert all(row["FD 1.5 2"] >= 0 for row in later["rows"]) and later["score_seconds"] > 0
    fewer = bench_mtar(recipe, Protocol(seeds=1, arms=("all",), each=0, held=20, timed_rounds=1))
    assert len(trained) == 11 and fewer["rows"][0]["nll"] != report["rows"][0]["nll"]


def test_unknown_arms_are_named():
    with pytest.raises(ValueError, match="arm XYZ: unknown, one of base, MTP"):
        Protocol(arms=("all", "XYZ"))
