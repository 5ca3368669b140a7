"""Backbones of the encoder in stages: frozen ones stay, each learns at its own rate, published weights are found.

Models of timm are its own ones for tests, a few hundred thousand weights each.
"""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn

from docvision import checkpoint
from docvision.config import EncoderConfig, OptimConfig, RecipeError, RunConfig, load_recipe
from docvision.encoder import VisionEncoder
from docvision.model import DocVisionModel
from docvision.train import Job, fit, parameter_groups, train_document

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
NAMES = ("fcn", "timm/test_resnet", "timm/test_convnext", "timm/test_vit")
PUBLISHED = "timm/test_resnet.r160_in1k"


def encoder(name: str, pretrained: bool = False) -> VisionEncoder:
    torch.manual_seed(0)
    return VisionEncoder(EncoderConfig(backbone=name, pretrained=pretrained, layers=1), width=32, heads=2)


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_of_a_backbone_has_one_stage_and_the_first_see_the_pixels(name: str) -> None:
    backbone: Any = encoder(name).backbone
    stages = backbone.weights_by_stage()
    listed = [id(weight) for stage in stages for weight in stage]
    assert sorted(listed) == sorted(id(weight) for weight in backbone.parameters())
    assert len(stages) >= 3 and sum(bool(stage) for stage in stages) >= 3, [len(stage) for stage in stages]
    first = next(weight for weight in backbone.parameters() if weight.dim() == 4)  # the first convolution
    assert id(first) in {id(weight) for weight in stages[0]}


@pytest.mark.parametrize("name", ["fcn", "timm/test_resnet"])
def test_frozen_stages_keep_weights_and_statistics(name: str) -> None:
    model = encoder(name)
    backbone: Any = model.backbone
    backbone.freeze(2)
    model.train()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    optimiser = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=1.0)
    memory = model(torch.rand(2, 1, 64, 64), maps=True)
    (memory.states_BMD.square().sum() + sum(value.square().sum() for value in memory.maps.values())).backward()
    optimiser.step()
    owner = {id(module): key for key, module in backbone.named_modules()}
    for number, stage in enumerate(backbone.stages_of_modules()):
        names = [f"{owner[id(m)]}.{key}" for m in stage for key in {**m._parameters, **m._buffers} if "." not in key]
        same = [bool(torch.equal(before[key], backbone.state_dict()[key])) for key in names if key in before]
        assert not same or all(same) == (number < 2), (number, names)


def test_more_stages_than_there_are_and_models_without_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frozen_stages=9: this backbone has 4"):
        encoder("fcn").backbone.freeze(9)  # type: ignore[operator]
    job = Job({"a": None}, {"a": 1.0}, lambda module, batch, noise: {})  # type: ignore[dict-item]
    with pytest.raises(RecipeError, match="no backbone of stages"):
        fit(nn.Linear(1, 1), job, OptimConfig(layer_decay=0.5), RunConfig(out=str(tmp_path)))
    with pytest.raises(RecipeError, match="layer_decay"):
        load_recipe("tiny", ["optim.layer_decay=0"])


def test_rates_fall_from_stage_to_stage() -> None:
    model = encoder("timm/test_resnet")
    backbone: Any = model.backbone
    groups = parameter_groups(model, 0.1, backbone, 0.5)
    share_of = {id(weight): group["share"] for group in groups for weight in group["params"]}
    assert share_of.keys() == {id(weight) for weight in model.parameters()}
    stages = backbone.weights_by_stage()
    for ahead, stage in enumerate(reversed(stages), start=1):
        assert {share_of[id(weight)] for weight in stage} in ({0.5**ahead}, set())
    assert share_of[id(model.project.weight)] == 1.0
    assert all(
        group["weight_decay"] == (0.1 if group["params"][0].dim() > 1 else 0) for group in groups if group["params"]
    )


def test_a_recipe_trains_with_frozen_stages_and_falling_rates(tmp_path: Path) -> None:
    """AdamW's first step moves every weight by its rate, so the rates can be read off the weights."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = io.BytesIO()
    Image.effect_noise((96, 32), 90).save(file, "PNG")
    row = {"image": {"bytes": file.getvalue(), "path": None}, "text": "noise", "width": 96}
    parquet.write_table(arrow.Table.from_pylist([row] * 4), tmp_path / "0.parquet")

    settings = ["model.encoder.backbone=timm/test_resnet", "optim.lr=0.001", "optim.warmup=0", "optim.decay=0",
                "optim.weight_decay=0", "optim.layer_decay=0.5", "optim.frozen_stages=2", "optim.steps=1",
                f"tasks.0.data={tmp_path}", "tasks.0.batch=2", f"run.out={tmp_path / 'run'}"]  # fmt: skip
    recipe = load_recipe("tiny", settings)
    train_document(recipe)
    (folder,) = checkpoint.checkpoints(tmp_path / "run")
    assert '"pretrained": false' in (folder / "model" / "config.json").read_text()
    after = checkpoint.read_tensors(folder / "model" / checkpoint.WEIGHTS)
    torch.manual_seed(recipe.run.seed)
    before = DocVisionModel(recipe.model).state_dict()
    moved = {name: (after[name] - value).abs().median() / 0.001 for name, value in before.items() if value.dim() == 4}
    assert not any("layer4" in name for name in moved)  # its map is coarser than any that is read
    for stage, share in (("layer1", 0), ("layer2", 0.25), ("layer3", 0.5), ("project", 1)):
        # Convolutions in front of a norm that starts at 0 have no gradient yet.
        found = [float(change) for name, change in moved.items() if stage in name]
        assert max(found) == pytest.approx(share, rel=0.02), (stage, found)


def test_published_weights_are_read_from_disk_or_said_to_be_missing(tmp_path: Path, monkeypatch: Any) -> None:
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match=rf"docvision models fetch {PUBLISHED}") as told:
        encoder(PUBLISHED, pretrained=True)
    assert "\n" not in str(told.value)
    with pytest.raises(ValueError, match="no such model"):
        encoder("timm/resnet_of_nobody")
    import timm

    published = timm.create_model("test_resnet")
    folder = tmp_path / f"models--{PUBLISHED.replace('/', '--')}"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    checkpoint.save_weights(published, folder / "snapshots" / "abc")
    found = encoder(PUBLISHED, pretrained=True).backbone.state_dict()
    own = published.state_dict()
    name = "layer2.0.conv1.weight"
    assert torch.equal(found[f"model.{name}"], own[name])
