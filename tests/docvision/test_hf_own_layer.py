"""A model's own next-token layer drafts: answers stay, and drafts with its cache are those of a whole forward.

The model is a tiny GLM-OCR on disk whose files hold a layer behind the last, as the published ones do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_vlms
import torch
from safetensors.torch import load_file, save_file

from docvision.hf_vlm import Accelerated, VlmError
from docvision.hf_vlm.own_layer import OwnDrafter, OwnLayer
from docvision.methods.base import Draft

LENGTHS, NEW, DEPTH = (5, 9, 3, 7), 12, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("glm")
    model = tiny_vlms.build("glm_ocr")
    model.config.text_config.num_nextn_predict_layers = 1
    model.save_pretrained(place)
    torch.manual_seed(3)
    layer = OwnLayer(Accelerated(model, "ngram").core.decoder)
    tensors = load_file(place / "model.safetensors")
    for key, value in layer.state_dict().items():
        name = {"norm.weight": "shared_head.norm.weight"}.get(key, key.removeprefix("block."))
        scale = tiny_vlms.FACTOR if value.dim() > 1 else 1.0
        tensors[f"model.language_model.layers.2.{name}"] = value.detach() * scale
    tensors["model.language_model.layers.2.shared_head.head.weight"] = model.lm_head.weight.detach().clone()
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    return place


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Any:
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(folder).eval().requires_grad_(False)


class Seen(OwnDrafter):
    """Remembers what it drafts, by row and by how many tokens stood."""

    drafts: dict[tuple[int, int], list[int]] = {}  # noqa: RUF012 (one for all drafters of a test)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.numbers = list(range(len(self.next_B)))

    def propose(self, limit: int) -> Draft | None:
        made = super().propose(limit)
        if made is not None:
            for number, place, tokens in zip(
                self.numbers, self.position_B.tolist(), made.tokens_BK.tolist(), strict=True
            ):
                self.drafts[number, place] = tokens
        return made

    def select(self, rows: torch.Tensor) -> None:
        self.numbers = [self.numbers[row] for row in rows.tolist()]
        super().select(rows)


@pytest.mark.parametrize("pictures", [True, False])
@pytest.mark.parametrize("ends", [None, 3])
def test_answers_stay_and_drafts_are_those_of_a_whole_forward(loaded, pictures, ends, monkeypatch) -> None:
    """Ragged rows, padded on the left.  A shift of tokens, states, positions or columns by one gives other drafts."""
    monkeypatch.setattr("docvision.hf_vlm.accelerated.OwnDrafter", Seen)
    Seen.drafts = {}
    given = tiny_vlms.inputs("glm_ocr", LENGTHS, pictures)
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None, "suppress_tokens": [tiny_vlms.IMAGE]}
    plain = loaded.generate(**given, **settings)
    start = given["input_ids"].shape[1]
    if ends is not None:  # a row that ends early leaves the batch
        settings["eos_token_id"] = int(plain[1, start + ends])
        plain = loaded.generate(**given, **settings)
    drafted = Accelerated(loaded, "own", fallback=False, depth=DEPTH)
    assert drafted.generate(**given, **settings).equal(plain)
    assert len(Seen.drafts) >= 8 and len({tuple(tokens) for tokens in Seen.drafts.values()}) > 4
    going = [row for row in range(len(LENGTHS)) if int(plain[row, start]) != settings["eos_token_id"]]
    for (number, place), tokens in list(Seen.drafts.items())[::3]:
        row = going[number]
        assert tokens == whole_forward(drafted, given, plain[row, : start + place + 1], row, len(tokens)), (row, place)


def whole_forward(drafted: Accelerated, given: dict[str, Any], ids: torch.Tensor, row: int, depth: int) -> list[int]:
    """The same drafts from one forward of the model over a row alone, and of the layer over all its entries."""
    model, layer, decoder = drafted.model, drafted.own, drafted.core.decoder
    count, real = len(LENGTHS), given["attention_mask"][row].bool()
    text = torch.cat([ids[: len(real)][real], ids[len(real) :]])[None]
    inputs: dict[str, Any] = {"input_ids": text, "attention_mask": torch.ones_like(text)}
    for key in ("pixel_values", "image_grid_thw"):
        if key in given:
            inputs[key] = given[key][row * len(given[key]) // count : (row + 1) * len(given[key]) // count]
    if "mm_token_type_ids" in given:
        inputs["mm_token_type_ids"] = (text == tiny_vlms.IMAGE).long()
    seen: dict[str, Any] = {}
    hook = decoder.stack.register_forward_hook(
        lambda module, args, named, output: seen.update(named, states=output.last_hidden_state), with_kwargs=True
    )
    model(**inputs, use_cache=False)
    hook.remove()
    place = seen["position_ids"]
    place = torch.arange(text.shape[1]).expand(3, 1, -1) if place is None else place[-3:]
    embedded, states, place, drafts = seen["inputs_embeds"][:, 1:], seen["states"][:, :-1], place[..., 1:], []
    for _ in range(depth):
        length = embedded.shape[1]
        mask = torch.ones(1, 1, length, length, dtype=torch.bool).tril()
        x = layer.eh_proj(torch.cat([layer.enorm(embedded), layer.hnorm(states)], -1))
        rotary = decoder.stack.rotary_emb(x, position_ids=place)
        made = layer.norm(layer.block(x, position_embeddings=rotary, attention_mask=mask))
        drafts.append(int(decoder.logits(made[:, -1:]).argmax()))
        embedded = torch.cat([embedded, decoder.embed(torch.tensor([drafts[-1:]]))], 1)
        states = torch.cat([states, made[:, -1:]], 1)
        place = torch.cat([place, place[..., -1:] + 1], -1)
    return drafts


def test_models_without_such_a_layer_are_told(folder: Path, loaded: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText

    with pytest.raises(VlmError, match="brings no next-token layer"):
        Accelerated(tiny_vlms.build("smolvlm"), "own")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    tensors = load_file(folder / "model.safetensors")
    for name, word in (("layers.2.", "hold no layer 2"), ("layers.2.eh_proj", "of another form.*eh_proj")):
        kept = {key: value for key, value in tensors.items() if name not in key}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(VlmError, match=word) as told:
            Accelerated(AutoModelForImageTextToText.from_pretrained(tmp_path), "own")
        assert "\n" not in str(told.value)
    model = tiny_vlms.build("glm_ocr")
    model.config.text_config.num_nextn_predict_layers = 1
    with pytest.raises(VlmError, match="not on this disk"):
        Accelerated(model, "own")
