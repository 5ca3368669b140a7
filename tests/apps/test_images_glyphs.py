"""The two halves feed each other: glyph sets train a generator, and what it draws comes back as paper of pages."""

from __future__ import annotations

import json

import pytest

from apps.images import main
from data_pipeline import build, pictures

pytest.importorskip("accelerate")

SMALL = [
    "tokenizer.widths=[8,8]", "tokenizer.codes=32", "tokenizer.optim.steps=40", "tokenizer.optim.warmup=2",
    "tokenizer.entropy=0", "model.width=32", "model.heads=2", "model.layers=2", "optim.steps=6", "optim.warmup=1",
    "batch=8", "mtar.contrast_rows=16", "run.save_every=6", "run.validate_every=6", "run.validate_samples=8",
]  # fmt: skip


def test_glyphs_train_and_their_samples_become_pictures_of_pages(tmp_path, capsys):
    data, run, drawn = tmp_path / "glyphs", tmp_path / "run", tmp_path / "pictures"
    recipe = build.Recipe("glyphs", 60, {"characters": "Ab", "faces": 4, "difficulty": [0.0, 0.2]})
    build.build(recipe, data, 160, seed=2, form="webdataset")
    assert main(["train", "glyphs_mtar", f"data.folder={data}", f"run.out={run}", *SMALL]) == 0
    card = json.loads((run / "card.json").read_text())
    assert card["parameters"]["training_only"] > 0 and card["data"]["images"] < 160
    names = json.loads((run / "export" / "generator" / "config.json").read_text())["vocabulary"]["names"]
    assert {"latin-capital-a", "latin-small-b"} < set(names) and names == sorted(names)
    papers = [name for name in names if name.startswith("paper-")]
    given = ["sample", "--model", str(run / "export"), "-n", str(2 * len(papers)), "-o", str(tmp_path / "grid.png")]
    for name in papers:
        given += ["--class", name]
    assert main([*given, "--folder", str(drawn)]) == 0
    found = pictures.load(str(drawn))
    assert len(found.papers) == len(papers) and not found.skipped, "drawn paper is light and of a size that can be used"
    assert found.papers[0][0].shape == (32, 32)


def test_a_small_class_still_has_a_picture_held_out(tmp_path):
    """A tenth of five pictures is none by most hashes: the class would be missing from the held-out ones."""
    from PIL import Image

    from imagegen.config import DataConfig
    from imagegen.images import load_images

    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.new("L", (9, 9), 40 * number).save(tmp_path / name / f"{number}.png")
    train, held = load_images(DataConfig(kind="folder", folder=str(tmp_path), size=8, holdout=0.02))
    assert sorted(held.labels_N.tolist()) == [0, 1, 2] and len(train) == 12
