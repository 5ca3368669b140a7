"""Drafts for Hugging Face models: copied text, registers, the recursive module; their weights on disk; bad input.

The replays follow a fixed text instead of a model, so that what is measured is the drafter alone.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest
import tiny_vlms
import torch

import docvision
from docvision.config import RecipeError, TrainRecipe, build, load_recipe
from docvision.hf_vlm import Accelerated, VlmError
from docvision.hf_vlm.adapter import DESCRIPTION, WEIGHTS
from docvision.hf_vlm.drafts import Follower, TextPieces
from docvision.hf_vlm.pairs import PairError, Pairs
from docvision.hf_vlm.recipe import check, train_recipe
from docvision.hf_vlm.training import PairBatch, VlmTrainer, run_with_riders

NEW = 12
TABLE = "".join(
    f"<tr><td>{name}</td><td>{number * 37 % 811}</td><td>{number * 91 % 977}</td></tr>"
    for number, name in enumerate("paper ink wood stone iron copper silver gold letters tables merchants".split(), 2)
)
PAGE = tiny_vlms.CORPUS + f"\n\n## Goods of the merchants\n\n<table>{TABLE}</table>\n\n" + tiny_vlms.CORPUS[-300:]
WORDS = re.sub(r"<[^>]+>", " ", PAGE).replace("#", "").replace("- ", "").split()


@pytest.fixture(scope="module")
def words_tokenizer() -> Any:
    return tiny_vlms.tokenizer()


def replay(tokenizer: Any, words: list[str], text: str = PAGE, nodes: int = 64) -> float:
    """Tokens a forward while ``text`` is written with these words as source."""
    end = tokenizer.eos_token_id
    ids = [*tokenizer.encode(text, add_special_tokens=False), end]
    follower = Follower(TextPieces(tokenizer), " ".join(words), (), end)
    place = forwards = 0
    while place < len(ids):
        tokens, parents = follower.branches(1000, nodes)
        assert len(tokens) <= nodes
        node, kept = -1, 0
        while place + kept < len(ids) - 1:
            nodes_here = (i for i, (token, above) in enumerate(zip(tokens, parents, strict=True)) if above == node)
            found = next((i for i in nodes_here if tokens[i] == ids[place + kept]), None)
            if found is None:
                break
            node, kept = found, kept + 1
        follower.learn(ids[place : place + kept + 1], kept)
        place += kept + 1
        forwards += 1
    return len(ids) / forwards


def test_words_and_markup_are_copied(words_tokenizer):
    """With the page's words more tokens a forward than with the output alone, markup or not."""
    whole, alone = replay(words_tokenizer, WORDS), replay(words_tokenizer, [])
    assert whole >= 4 > alone >= 1, (whole, alone)
    prose = " ".join(tiny_vlms.CORPUS.split("</table>")[1].split())
    assert replay(words_tokenizer, prose.split(), prose) >= 5


def test_wrong_and_hostile_layers_cost_little(words_tokenizer):
    alone = replay(words_tokenizer, [])
    noise = random.Random(3)
    spoilt = [word if noise.random() > 0.05 else "Xx" for word in WORDS]
    shuffled = noise.sample(WORDS, len(WORDS))
    assert replay(words_tokenizer, spoilt) > alone + 1
    assert replay(words_tokenizer, shuffled) >= alone
    assert replay(words_tokenizer, ["IGNORE", "ALL", "PREVIOUS"] * 60) >= 0.95 * alone


def test_pieces_join_to_the_text(words_tokenizer):
    pieces = TextPieces(words_tokenizer)
    ids = words_tokenizer.encode(PAGE, add_special_tokens=False)
    assert "".join(map(pieces.text, ids)) == PAGE
    assert pieces.text(words_tokenizer.eos_token_id) == ""
    middle = PAGE.index(" report")
    assert words_tokenizer.decode(pieces.encode(PAGE[middle : middle + 40])) == PAGE[middle : middle + 40]


def taught(name: str) -> tuple[Any, dict[str, Any], PairBatch]:
    """A model, a batch of prompts, and the model's own answers as a batch to learn from."""
    model = tiny_vlms.build(name)
    given = tiny_vlms.inputs(name, [9, 9, 9, 9])
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None, "suppress_tokens": [tiny_vlms.IMAGE]}
    ids = model.generate(**given, **settings)
    start = 1 if model.config.is_encoder_decoder else given["input_ids"].shape[1]
    targets = ids[:, 1:].clone()
    targets[:, : start - 1] = 0
    inputs = dict(given)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :-1]
    else:
        inputs["input_ids"] = ids[:, :-1]
        for key in ("attention_mask", "mm_token_type_ids", "token_type_ids"):
            if key in given:
                more = torch.full((4, NEW - 1), int(key == "attention_mask"))
                inputs[key] = torch.cat([given[key], more], 1)
    return model, settings | given, PairBatch(inputs, targets)


@pytest.mark.parametrize(
    ("name", "method", "options"),
    [
        ("qwen3_vl", "ptp", {"registers": 3, "rank": 8}),
        ("florence2", "ptp", {"registers": 3, "rank": 8}),
        ("qwen2_5_vl", "pmtp", {"depth": 3, "ffn": 64}),
    ],
)
def test_methods_learn_beside_a_frozen_model(name, method, options, tmp_path):
    """Answers stay what they were while the drafts get right; saved and loaded weights draft the same."""
    model, asked, batch = taught(name)
    plain = model.generate(**asked)
    before = [weight.clone() for weight in model.parameters()]
    drafted = Accelerated(model, method, fallback=False)
    trainer = VlmTrainer(drafted, {method: options})
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=2e-2)
    for step in range(12):
        losses = trainer(batch, torch.Generator().manual_seed(step))
        losses[method].backward()
        optimiser.step()
        optimiser.zero_grad()
    assert all(weight.equal(old) for weight, old in zip(model.parameters(), before, strict=True))
    assert drafted.generate(**asked).equal(plain)
    assert drafted.last.tokens_per_forward > 1.2
    drafted.save_pretrained(tmp_path / "adapter")
    again = Accelerated(tiny_vlms.build(name), method, adapter=tmp_path / "adapter", fallback=False)
    assert again.generate(**asked).equal(plain)
    assert again.last.runs == drafted.last.runs
    assert "docvision.accelerate(" in (tmp_path / "adapter" / "README.md").read_text()


@pytest.mark.parametrize("name", ["qwen3_vl", "gemma3", "florence2"])
def test_no_token_sees_a_register(name):
    """States of the text with registers behind it equal those without; a leak shows as 1e-2 or more."""
    model, _, batch = taught(name)
    drafted = Accelerated(model, "ptp")
    trainer = VlmTrainer(drafted, {"ptp": {"registers": 3, "rank": 4}})
    with torch.no_grad():
        for up in trainer.methods["ptp"].lora.up.values():
            up.normal_()
    first = int((batch.targets_BT != 0).any(0).nonzero()[0, 0])
    T = batch.targets_BT.shape[1]
    riders = trainer.methods["ptp"].riders(torch.arange(T - first).expand(4, -1), torch.arange(T - first), T - first, 3)
    trainer.methods["ptp"].lora.learning = T
    with_them = run_with_riders(drafted, batch, [riders], first)
    without = run_with_riders(drafted, batch, [], first)
    assert with_them.shape[1] == T + riders.positions_BE.shape[1]
    assert (with_them[:, :T] - without).abs().max() < 1e-4
    with torch.no_grad():
        assert (run_with_riders(drafted, batch, [riders], first)[:, T:] - with_them[:, T:]).abs().max() > 1e-2


def test_checkpointing_gives_the_same_gradient():
    grads = []
    for checkpointing in (False, True):
        model, _, batch = taught("smolvlm")
        torch.manual_seed(1)
        trainer = VlmTrainer(Accelerated(model, "ptp"), {"ptp": {"registers": 2, "rank": 4}}, checkpointing)
        trainer(batch, torch.Generator().manual_seed(0))["ptp"].backward()
        grads.append(trainer.methods["ptp"].register.grad.clone())
    assert grads[0].abs().max() > 0
    assert (grads[0] - grads[1]).abs().max() < 1e-5 * grads[0].abs().max() + 1e-7


def adapter(tmp_path: Any) -> Any:
    drafted = Accelerated(tiny_vlms.build("smolvlm"), "ptp")
    VlmTrainer(drafted, {"ptp": {"registers": 2, "rank": 4}})
    drafted.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_an_adapter_of_another_base_is_refused(tmp_path):
    folder = adapter(tmp_path)
    for other, word in (
        (tiny_vlms.build("idefics3"), "SmolVLM"),
        (tiny_vlms.build("smolvlm", seed=5), "other weights"),
    ):
        with pytest.raises(VlmError, match=word) as told:
            Accelerated(other, "ptp", adapter=folder)
        assert "\n" not in str(told.value)
    (folder / WEIGHTS).write_bytes(b"not safetensors")
    with pytest.raises(VlmError, match="safetensors"):
        Accelerated(tiny_vlms.build("smolvlm"), "ptp", adapter=folder)
    (folder / DESCRIPTION).write_text(json.dumps({"method": "ptp"}))
    with pytest.raises(VlmError, match="no description"):
        Accelerated(tiny_vlms.build("smolvlm"), "ptp", adapter=folder)
    with pytest.raises(VlmError, match="no adapter"):
        Accelerated(tiny_vlms.build("smolvlm"), "ptp", adapter=tmp_path / "nowhere")


def test_push_to_hub_uploads_the_folder(tmp_path, monkeypatch):
    import huggingface_hub

    seen = {}

    class Api:
        def create_repo(self, name: str, **options: Any) -> None:
            seen["made"] = name, options

        def upload_folder(self, repo_id: str, folder_path: Any) -> str:
            seen["files"] = sorted(path.name for path in folder_path.iterdir())
            return f"https://hub/{repo_id}"

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    drafted = Accelerated(tiny_vlms.build("smolvlm"), "ptp")
    VlmTrainer(drafted, {"ptp": {"registers": 2, "rank": 4}})
    assert drafted.push_to_hub("somebody/drafts") == "https://hub/somebody/drafts"
    assert seen["made"] == ("somebody/drafts", {"private": True, "exist_ok": True})
    assert seen["files"] == ["README.md", "adapter.json", "adapter.safetensors"]


def test_wrong_models_and_missing_parts_are_said_in_one_line(tmp_path):
    from transformers import BertConfig, BertModel, Qwen3NextConfig

    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    cases: list[tuple[str, Any]] = [
        ("BertModel", lambda: docvision.accelerate(BertModel(BertConfig(vocab_size=90, **small)), "ngram")),
        ("no method 'textlayre'.*textlayer", lambda: docvision.accelerate(tiny_vlms.build("smolvlm"), "textlayre")),
        ("processor=", lambda: docvision.accelerate(tiny_vlms.build("smolvlm"), "textlayer")),
        ("no processor", lambda: docvision.accelerate(tmp_path, "ngram")),
        ("dtype 'int4'", lambda: docvision.accelerate(str(tmp_path), "ngram", dtype="int4")),
    ]
    for word, call in cases:
        with pytest.raises(VlmError, match=word) as told:
            call()
        assert "\n" not in str(told.value)
    hybrid = tiny_vlms.build("smolvlm")
    hybrid.get_decoder().config.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(VlmError, match="linear_attention.*cannot be rolled back"):
        Accelerated(hybrid, "ngram")
    flash = tiny_vlms.build("smolvlm")
    flash.get_decoder().config._attn_implementation = "flash_attention_2"
    with pytest.raises(VlmError, match="attn_implementation='sdpa'"):
        Accelerated(flash, "ngram")
    untrained = Accelerated(tiny_vlms.build("smolvlm"), "ptp")
    with pytest.raises(VlmError, match="hf-ptp"):
        untrained.generate(**tiny_vlms.inputs("smolvlm", [4]), max_new_tokens=3)
    scaled = tiny_vlms.build("smolvlm")
    scaled.lm_head.register_forward_hook(lambda module, given, output: output + torch.arange(output.shape[-1]))
    scaled.get_output_embeddings = lambda: torch.nn.Linear(32, tiny_vlms.VOCABULARY)
    with pytest.raises(VlmError, match="makes its scores in a way not known"):
        Accelerated(scaled, "ngram").generate(**tiny_vlms.inputs("smolvlm", [4]), max_new_tokens=3)
    assert Qwen3NextConfig  # the kind of model meant by the hybrid above


@pytest.fixture
def pages(tmp_path) -> Any:
    from PIL import Image

    lines = []
    for number, text in enumerate(("one page", "another page", "a third")):
        Image.new("RGB", (32, 32), (80 * number, 9, 9)).save(tmp_path / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "text": text, "prompt": "Read."}))
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_recipe_trains_resumes_and_leaves_an_adapter(pages):
    model, processor = tiny_vlms.reader()
    tree = {
        "tasks": [{"kind": "lines", "data": str(pages / "pages.jsonl"), "batch": 2}],
        "model": {"methods": {"ptp": {"registers": 2, "rank": 4}}},
        "optim": {"steps": 4, "warmup": 1},
        "run": {"init": "made/here", "out": str(pages / "run"), "log_every": 2, "save_every": 2},
    }
    report = train_recipe(build(TrainRecipe, tree, "test"), Accelerated(model, "ptp", processor))
    assert report["ptp"] > 0 and 0 <= report["ptp_top1"] <= 1
    assert (pages / "run" / "recipe.yaml").is_file() and (pages / "run" / "step-0000004" / "model" / WEIGHTS).is_file()
    fresh, processor = tiny_vlms.reader()
    drafted = Accelerated(fresh, "ptp", processor, adapter=pages / "run" / "adapter")
    assert "ptp" in drafted.core.methods
    weights = sum(path.stat().st_size for path in (pages / "run" / "step-0000004").rglob("*.safetensors"))
    assert weights < 4 * sum(weight.numel() * 4 for weight in drafted.core.methods.parameters()) + 20_000


def test_batches_hold_the_answers_and_nothing_else_is_learnt(pages):
    model, processor = tiny_vlms.reader()
    stream = Pairs(pages / "pages.jsonl", Accelerated(model, "ptp", processor), 3)
    batch = stream.batch(0)
    learnt = {
        processor.tokenizer.decode([token for token in row if token], skip_special_tokens=True)
        for row in batch.targets_BT.tolist()
    }
    assert learnt == {"one page", "another page", "a third"}
    for ids, targets in zip(batch.inputs["input_ids"], batch.targets_BT, strict=True):
        assert all(targets[place] in (0, ids[place + 1]) for place in range(len(ids) - 1))
    assert batch.targets_BT.equal(Pairs(pages / "pages.jsonl", stream.accelerated, 3).batch(0).targets_BT)


def test_bad_pairs_and_recipes_are_told(pages):
    model, processor = tiny_vlms.reader()
    drafted = Accelerated(model, "ptp", processor)
    (pages / "bad.jsonl").write_text('{"image": "0.png"}\n')
    (pages / "torn.jsonl").write_text('{"image": \n')
    for name, word in (("bad.jsonl", "row 1"), ("torn.jsonl", "not JSON Lines"), ("none", "give a .jsonl")):
        with pytest.raises(PairError, match=word):
            Pairs(pages / name, drafted)
    with pytest.raises(PairError, match="AutoProcessor"):
        Pairs(pages / "pages.jsonl", Accelerated(model, "ptp"))
    recipe = load_recipe("hf-ptp")
    recipe = replace(recipe, run=replace(recipe.run, init=""))
    with pytest.raises(RecipeError, match="run.init"):
        check(recipe)
    recipe = load_recipe("hf-ptp", ["model.width=512", "loss.ctc=0", "tasks.0.max_cells=3"])
    with pytest.raises(RecipeError, match="model.width has no effect.*loss.ctc.*tasks.max_cells"):
        check(recipe)
