"""The command line: the way from recipe to picture, exit codes, and errors of one line that say what to do."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from apps.images import main

pytest.importorskip("accelerate")
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")
SMALL = [
    "tokenizer.widths=[8]", "tokenizer.codes=16", "tokenizer.optim.steps=3", "tokenizer.optim.warmup=1",
    "model.width=32", "model.heads=2", "optim.steps=4", "optim.warmup=1", "batch=8", "data.limit=100",
    "mtar.contrast_rows=16", "run.save_every=2", "run.validate_every=4", "run.validate_samples=20",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    """A run of a few steps on the digits."""
    out = str(tmp_path_factory.mktemp("run"))
    assert main(["train", "digits_tiny", f"run.out={out}", *SMALL]) == 0
    return out


def test_sample_is_the_same_bytes_for_the_same_seed(run, tmp_path, capsys):
    pictures = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = tmp_path / f"{name}.png"
        given = ["sample", "--model", f"{run}/export", "--class", "7", "-n", "6", "--columns", "3", "--scale", "1"]
        assert main([*given, "--seed", str(seed), "-o", str(path)]) == 0
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1] != pictures[2]
    assert Image.open(tmp_path / "a.png").size == (3 * 10 + 2, 2 * 10 + 2)
    assert "6 images in" in capsys.readouterr().out


def test_sample_writes_an_image_folder(run, tmp_path):
    given = ["sample", "--model", f"{run}/export", "--class", "3", "--class", "none", "-n", "4"]
    assert main([*given, "-o", str(tmp_path / "g.png"), "--folder", str(tmp_path / "each")]) == 0
    assert sorted(path.relative_to(tmp_path / "each").as_posix() for path in (tmp_path / "each").rglob("*.png")) == [
        "3/0-00000.png", "3/0-00001.png", "none/0-00002.png", "none/0-00003.png",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["sample", "--class", "sneeker", "--model", "{run}/export"], "no class 'sneeker': 0 to 9, none, or one of"),
        (["sample", "--model", "nowhere"], "no generator 'nowhere': give a folder"),
        (["sample", "--schedule", "late"], "sample.schedule='late': constant, linear or early"),
        (["sample", "--top-p", "0"], "top_p in (0, 1]"),
        (["sample", "--temperature", "nan"], "temperature and top_k from 0"),
        (["sample", "--guidance", "nan"], "sample.guidance=nan: a number from 0"),
        (["sample", "--guidance", "inf"], "sample.guidance=inf: a number from 0"),
        (["sample", "--guidance", "-1"], "sample.guidance=-1: a number from 0"),
        (["sample", "--seed", "99999999999999999999"], "2147483647"),
        (["sample", "--model", "nowhere", "-o", "s9.xyz"], "--out s9.xyz: a picture's name, ending in .png, .jpg"),
        (["sample", "--model", "nowhere", "-o", "{run}"], "a picture's name, ending in .png, .jpg"),
        (["bench", "mtar", "digits_tiny", "--guidance", "nan"], "guidance nan: a number from 0"),
        (["train", "digits_tiny", "mtar.scorer=foo"], "mtar.scorer='foo': one of uniform, surprisal, gradient"),
        (["train", "digits_tiny", "run.seed=2147483648"], "run.seed=2147483648: from 0 to 2147483647"),
        (["evaluate", "digits_tiny", "run.out={run}/none"], "/none: no trained generator there, run imagegen train"),
        (["evaluate", "digits_tiny", "run.out={run}"], "was trained with data.limit=100, tokenizer.widths=(8,)"),
        (["evaluate", "digits_tiny", "run.out={run}", "--guidance", "nan"], "sample.guidance=nan: a number from 0"),
        (["train", "digits"], "no recipe 'digits': give a .yaml file or one of"),
        (["train", "digits_tiny", "optim.step=3"], "unknown key optim.step: did you mean optim.steps?"),
        (["train", "digits_tiny", "data.size=9"], "write data.size=8"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(run, given, told, capsys):
    assert main([word.replace("{run}", run) for word in given]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and error.startswith("imagegen: ")


def test_no_command_shows_help_with_code_2(capsys):
    assert main([]) == 2
    out = capsys.readouterr().out
    assert all(name in out for name in ("train", "tokenize", "sample", "evaluate", "bench"))


def test_missing_data_is_code_1(tmp_path, capsys):
    assert main(["tokenize", "fashion_mnist_base", f"data.folder={tmp_path}", f"run.out={tmp_path}"]) == 1
    assert "apt-get install dataset-fashion-mnist" in capsys.readouterr().err


def test_unreadable_pictures_are_counted_and_code_3(tmp_path, capsys):
    for split in ("train", "test"):
        for name, grey in (("cat", 10), ("dog", 200)):
            place = tmp_path / "data" / split / name
            place.mkdir(parents=True)
            for number in range(4):
                Image.fromarray(np.full((8, 8), grey + number, np.uint8)).save(place / f"{number}.png")
    (tmp_path / "data" / "train" / "cat" / "9.png").write_bytes(b"no picture")
    given = ["digits_tiny", "data.kind=folder", f"data.folder={tmp_path / 'data'}", f"run.out={tmp_path / 'run'}"]
    assert main(["tokenize", *given, *SMALL]) == 3
    out = capsys.readouterr().out
    assert "8 training and 8 held-out images" in out
    assert "1 picture(s) left out, unreadable; the first: cat/9.png: " in out


def test_evaluate_names_its_features_and_floors(run, tmp_path, capsys, monkeypatch):
    """Never FID without Inception; each distance stands beside its floors; the npz lies there for others."""
    monkeypatch.setattr("imagegen.classifier.STEPS", 3)
    trained = written(run)
    given = ["evaluate", "digits_tiny", f"run.out={run}", *SMALL, "--each", "3", "--guidance", "1", "--guidance", "2"]
    assert main([*given, "--json", str(tmp_path / "r.json")]) == 0
    assert trained.items() <= written(run).items()
    report = json.loads((tmp_path / "r.json").read_text())
    floor = next(name for name in report if name.startswith("FD-clf-") and name.endswith(" floor"))
    assert set(report[floor]) == {"halves", "train", "reconstructions"}
    assert {"nll", "bits", "psnr", "usage", "guidance 1", "guidance 2"} <= set(report)
    assert 0 <= report[f"agreement-{floor.removeprefix('FD-').removesuffix(' floor')} of real images"] <= 1
    figures = report["guidance 2"]
    assert floor.removesuffix(" floor") in figures and "copies" in figures and "FID" not in figures
    with np.load(f"{run}/evaluation/samples-guidance-2.npz") as held:
        assert held["arr_0"].shape == (30, 8, 8, 3)
    assert "not comparable with published FID" in capsys.readouterr().out


def written(run: str) -> dict[str, bytes]:
    """All files of a run."""
    return {str(path): path.read_bytes() for path in Path(run).rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", ["tokenizer.optim.steps=6", "tokenizer.codes=32", "data.limit=120"])
def test_evaluate_with_other_settings_leaves_the_run_as_it_is(run, change, capsys):
    """It used to train the tokenizer on in the run's folder, so that no generator fitted it any more."""
    before = written(run)
    assert main(["evaluate", "digits_tiny", f"run.out={run}", *SMALL, change]) == 2
    assert written(run) == before
    error = capsys.readouterr().err
    assert f"evaluate {run}/recipe.yaml" in error and error.count("\n") == 1


def test_recipes_know_the_scorers_that_there_are():
    from imagegen import config, scores

    assert tuple(scores.SCORERS) == config.SCORERS
