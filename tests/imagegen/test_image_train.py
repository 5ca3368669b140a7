"""Training: resumed equals never stopped across the phase switch, arms start alike, nothing of the aids is exported."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import pytest
import torch
from tiny_images import tiny_recipe

from docvision import checkpoint
from docvision.config import RecipeError
from imagegen.config import RECIPES, MtarConfig, load_recipe
from imagegen.estimate import EstimateError, check_machine, estimate, scaled
from imagegen.generate import Generator, load_pair
from imagegen.mtar import phase_rate
from imagegen.train import GeneratorTrainer, held_out_nll, train_generator

pytest.importorskip("accelerate")
ALL = MtarConfig(
    heads=("B",), depth=1, contrast=0.1, contrast_rows=16, scorer="surprisal", rates=(0.5, 0.0), phases=(0.5, 0.5)
)


def losses(out) -> dict[int, dict[str, str]]:
    """Losses by step from the curve."""
    found: dict[int, dict[str, str]] = {}
    with (out / "curve.csv").open() as file:
        for row in csv.DictReader(file):
            if row["name"] in ("ntp", "mtp", "tcr"):
                found.setdefault(int(row["step"]), {})[row["name"]] = row["value"]
    return found


def test_a_run_cut_off_before_the_switch_goes_on_as_if_never_stopped(digits, tmp_path):
    """Six steps, half of them with cells left out; cut off after step 2, resumed: losses and export are the same."""
    whole, cut = (tiny_recipe(tmp_path / name, 6, ALL) for name in ("whole", "cut"))
    train_generator(whole, digits)
    shutil.copytree(tmp_path / "whole" / "step-0000002", tmp_path / "cut" / "step-0000002")
    train_generator(cut, digits)
    first, second = losses(tmp_path / "whole"), losses(tmp_path / "cut")
    assert sorted(first) == [1, 2, 3, 4, 5, 6] and sorted(second) == [3, 4, 5, 6]
    assert {step: first[step] for step in second} == second
    exports = [
        checkpoint.read_tensors(tmp_path / name / "export" / "generator" / "model.safetensors")
        for name in ("whole", "cut")
    ]
    assert all(torch.equal(exports[0][name], exports[1][name]) for name in exports[0])


def test_cells_are_left_out_in_the_first_phase_only(digits, tmp_path):
    """The trainer counts its own steps, so the phase after a resume is that of the step, not of the restart."""
    recipe = tiny_recipe(tmp_path, 4, ALL)
    trainer = GeneratorTrainer(recipe, digits.vocabulary())
    seen = []
    states = trainer.model.states
    trainer.model.states = lambda labels, ids, *rest: seen.append(ids.shape[1]) or states(labels, ids, *rest)
    batch = stream(recipe, digits).batch(0)
    for _ in range(4):
        trainer(batch, torch.Generator().manual_seed(0))
    assert seen == [7, 7, 15, 15]


def stream(recipe, ready):
    from imagegen.batches import TokenStream
    from imagegen.scores import scores_of

    return TokenStream(
        ready.train_tokens, recipe.batch, 0, scores_of("surprisal", ready.train_tokens, ready.tokenizer)[0]
    )


def test_route_mode_reaches_the_loss_at_every_cell(digits, tmp_path):
    """Routing keeps all 16 targets where dropping leaves 8, and gives the weights a gradient."""
    recipe = tiny_recipe(tmp_path, 4, replace(ALL, mode="route"))
    trainer = GeneratorTrainer(recipe, digits.vocabulary())
    torch.nn.init.normal_(trainer.model.head.weight, std=0.1)
    heads = []
    trainer.model.head.register_forward_hook(lambda module, given, out: heads.append(out.shape[1]))
    sum(trainer(stream(recipe, digits).batch(0), torch.Generator().manual_seed(0)).values()).backward()
    assert heads == [16]
    assert all(p.grad is not None for p in trainer.model.decoder.layers.parameters())


def test_arms_start_with_equal_shared_weights_and_equal_draws(digits, tmp_path):
    """The first next-token loss of an arm with contrast alone equals plain training's to the last bit."""
    arms = [tiny_recipe(tmp_path, 4, mtar) for mtar in (MtarConfig(), MtarConfig(contrast=0.2, contrast_rows=8))]
    trainers = [GeneratorTrainer(recipe, digits.vocabulary()) for recipe in arms]
    plain, other = (dict(trainer.model.state_dict()) for trainer in trainers)
    assert all(torch.equal(plain[name], other[name]) for name in plain)
    for trainer in trainers:
        torch.manual_seed(9)
        torch.nn.init.normal_(trainer.model.head.weight, std=0.1)
    batch = stream(arms[0], digits).batch(0)
    first, second = (trainer(batch, torch.Generator().manual_seed(4))["ntp"] for trainer in trainers)
    assert torch.equal(first, second)


def test_export_has_the_plain_models_weights_and_no_others(digits, tmp_path):
    """Strict load, equal scores to the last bit, the parameter count of a run without aids."""
    train_generator(tiny_recipe(tmp_path, 2, ALL), digits)
    model, _ = load_pair(tmp_path / "export")
    plain = GeneratorTrainer(tiny_recipe(tmp_path, 2), digits.vocabulary())
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in plain.model.parameters())
    kept = checkpoint.read_tensors(checkpoint.checkpoints(tmp_path)[-1] / "trainer" / "model.safetensors")
    assert any(name.startswith("methods.mtar.") for name in kept)
    stored = checkpoint.read_tensors(tmp_path / "export" / "generator" / "model.safetensors")
    assert set(stored) == set(plain.model.state_dict())
    again = Generator.from_pretrained(tmp_path / "export" / "generator")
    ids = torch.from_numpy(digits.held_tokens.ids_KAN[:3, 0].astype("int64"))
    assert torch.equal(model(torch.zeros(3, dtype=torch.long), ids), again(torch.zeros(3, dtype=torch.long), ids))


def test_average_follows_the_weights(digits, tmp_path):
    trainer = GeneratorTrainer(tiny_recipe(tmp_path, 4), digits.vocabulary())
    with torch.no_grad():
        trainer.model.head.weight.fill_(1.0)
    trainer.calls += 90
    trainer.update_average()
    assert trainer.average.head.weight[0, 0].item() == pytest.approx(1 - min(0.9, 91 / 100))
    assert not any(p.requires_grad for p in trainer.average.parameters())


def test_run_can_start_from_a_trained_pair(digits, tmp_path):
    """run.init: the average starts there too, so the first export is already the trained model."""
    train_generator(tiny_recipe(tmp_path / "first", 3), digits)
    recipe = tiny_recipe(tmp_path / "second", 1)
    recipe = replace(
        recipe, run=replace(recipe.run, init=str(tmp_path / "first" / "export")), optim=replace(recipe.optim, lr=0.0)
    )
    first, _ = load_pair(tmp_path / "first" / "export")
    second, _ = train_generator(recipe, digits)
    assert torch.equal(first.head.weight, second.head.weight) and first.head.weight.abs().sum() > 0


def test_untrained_cost_is_that_of_a_uniform_guess(digits, tmp_path):
    """The output layer starts at zero, so every code is as likely as any other: ln 16 nats, 4 bits a token."""
    trainer = GeneratorTrainer(tiny_recipe(tmp_path, 4), digits.vocabulary())
    told = held_out_nll(trainer.model, digits.held_tokens, 20)
    assert told == pytest.approx({"nll": 2.772589, "bits": 64.0}, abs=1e-4)


def test_one_batch_is_learnt_by_heart(digits, tmp_path):
    """Eight images, seen 120 times with all aids on: the exact cost falls to a fraction of a guess."""
    recipe = replace(tiny_recipe(tmp_path, 120, replace(ALL, scorer="")), ema=0.0)
    recipe = replace(
        recipe, model=replace(recipe.model, dropout=0.0, class_dropout=0.0), optim=replace(recipe.optim, lr=1e-2)
    )
    few = replace(
        digits.train_tokens, ids_KAN=digits.train_tokens.ids_KAN[:8], labels_K=digits.train_tokens.labels_K[:8]
    )
    recipe = replace(recipe, run=replace(recipe.run, log_every=50, save_every=120))
    model, _ = train_generator(recipe, replace(digits, train_tokens=few))
    assert held_out_nll(model, few)["nll"] < 0.5


def test_run_leaves_card_curve_samples_and_recipe(digits, tmp_path):
    train_generator(tiny_recipe(tmp_path, 2, ALL), digits)
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["parameters"]["training_only"] > 0 and card["data"]["train"] == digits.train_tokens.data
    assert (tmp_path / "samples" / "step-0000002.png").stat().st_size > 100
    assert (tmp_path / "recipe.yaml").is_file() and (tmp_path / "curve.csv").is_file()


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_recipes_load(path):
    assert load_recipe(path.stem).run.out == f"runs/{path.stem}"


def test_recipe_problems_are_told_together():
    with pytest.raises(RecipeError) as told:
        load_recipe("digits_tiny", ["data.size=9", "mtar.heads=[C]", "sample.top_p=0", "model.size=huge"])
    for text in ("write data.size=8", "mtar.heads: C unknown", "top_p in (0, 1]", "one of tiny, mini, small"):
        assert text in str(told.value)
    with pytest.raises(RecipeError, match="unknown key mtar.head: did you mean mtar.heads"):
        load_recipe("digits_tiny", ["mtar.head=[B]"])


def test_estimate_grows_with_the_work_and_shrinks_with_dropping():
    base = load_recipe("fashion_mnist_base")
    plain, dropped = estimate(base, speed=1e11), estimate(replace(base, mtar=MtarConfig(scorer="uniform")), speed=1e11)
    assert plain.parameters == dropped.parameters and 0.5 < dropped.seconds / plain.seconds < 0.65
    assert estimate(scaled(base, 2 * base.optim.steps), speed=1e11).seconds == pytest.approx(
        2 * plain.seconds, rel=0.02
    )
    large = estimate(load_recipe("imagenet256_B"), 1000, speed=1e11)
    assert large.seconds > 1e7 and large.memory_gib > 2 and "days" in large.line()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU takes the recipe")
def test_a_recipe_for_gpus_is_refused_on_a_cpu_with_time_and_memory():
    with pytest.raises(
        EstimateError, match=r"days and .* GiB on this CPU.*for a GPU: run it there with accelerate launch"
    ):
        check_machine(load_recipe("imagenet256_L"))
    assert check_machine(load_recipe("imagenet256_L"), anyway=True).steps == 1_500_000


def test_scaled_run_keeps_its_shape():
    recipe = scaled(load_recipe("fashion_mnist_mtar", ["optim.steps=3000", "optim.warmup=150"]), 1000)
    assert (recipe.optim.steps, recipe.optim.warmup) == (1000, 50)
    assert phase_rate(recipe.mtar, 799, 1000) == 0.5 and phase_rate(recipe.mtar, 800, 1000) == 0
