"""Maps learnt from another model: nothing to learn from itself, scaled windows, a head that comes near its teacher."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from docvision.batches import PictureBatch, page_batch, picture_batch
from docvision.config import LossConfig, RecipeError, load_recipe
from docvision.model import DocVisionModel, pad_images
from docvision.objectives import DocumentTrainer, distillation_loss
from docvision.page import Block, Box, Line, Page, page_to_json

pytest.importorskip("pyarrow.parquet")


def models() -> tuple[DocVisionModel, DocVisionModel]:
    torch.manual_seed(1)
    config = load_recipe("tiny").model
    return DocVisionModel(config), DocVisionModel(config).eval()


def pictures(*shapes: tuple[int, int]) -> PictureBatch:
    rng = np.random.default_rng(5)
    return PictureBatch(*pad_images([rng.random(shape, dtype=np.float32) for shape in shapes]))


def test_a_model_has_nothing_to_learn_from_itself() -> None:
    model, other = models()
    batch = pictures((64, 96), (48, 80))
    loss = LossConfig(structure=2.0, teacher="given")
    same = DocumentTrainer(model, model)(batch, loss, torch.Generator())["taught"]
    different = DocumentTrainer(model, other)(batch, loss, torch.Generator())["taught"]
    assert float(same.detach()) == pytest.approx(0.0, abs=1e-5)
    assert float(different.detach()) > 0.1


def test_padding_teaches_nothing() -> None:
    model, other = models()
    small, both = pictures((48, 80)), pictures((48, 80), (64, 96))
    maps, told = (m.encoder.structure_maps(both.pixels_B1HW, both.size_B2) for m in (model, other))
    inside = torch.zeros(2, *maps["line"].shape[2:], dtype=torch.bool)
    inside[0, :6, :10] = True
    alone = DocumentTrainer(model, other)(small, LossConfig(teacher="given"), torch.Generator())["taught"]
    assert float(distillation_loss(maps, told, inside).detach()) == pytest.approx(float(alone.detach()), rel=1e-4)


def test_the_student_comes_near_its_teacher_and_the_teacher_stays() -> None:
    model, teacher = models()
    kept = {name: value.clone() for name, value in teacher.state_dict().items()}
    trainer, batch = DocumentTrainer(model, teacher), pictures((64, 96))
    assert not any("teacher" in name for name in trainer.state_dict())
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=3e-3)
    losses = []
    for _ in range(40):
        loss = trainer(batch, LossConfig(teacher="given"), torch.Generator())["taught"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 * losses[0]
    assert all(torch.equal(value, kept[name]) for name, value in teacher.state_dict().items())


def test_a_scaled_page_has_the_maps_of_its_size() -> None:
    text = Line("text", Box(20, 40, 180, 60))
    page = Page(1, 200, 160, [Block("text", text.box, lines=[text])], pixels=(200, 160))
    png = io.BytesIO()
    Image.new("L", (200, 160), 255).save(png, "PNG")
    row = {"image": {"bytes": png.getvalue()}, "document": page_to_json(page)}
    batch = page_batch([row], (512, 640), np.random.default_rng(0), (2.0, 2.0))
    assert batch.size_B2.tolist() == [[320, 400]]
    rows = batch.targets["line"][0].any(1).nonzero().flatten()
    assert int(rows.min()) >= 10 and int(rows.max()) <= 15  # 80 to 120 px of a grid of 8
    window = picture_batch([row], (64, 80), np.random.default_rng(0), (0.5, 0.5))
    assert window.size_B2.tolist() == [[64, 80]]


def test_a_teacher_without_pupils_is_told() -> None:
    with pytest.raises(RecipeError, match=r"loss\.teacher"):
        load_recipe("tiny", ["loss.teacher=docvision-tiny"])
    with pytest.raises(RecipeError, match="scale is for pages"):
        load_recipe("tiny", ["tasks.0.scale=[0.5, 1.0]"])
