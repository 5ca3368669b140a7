"""Training a method's weights on a frozen Hugging Face model, from pictures and their texts.

One forward of the model as it is gives the states to learn from; registers ride behind the text in the same forward,
and no token sees them.  Only the method's weights learn: they are what is prepared, averaged over processes and saved,
so DDP moves megabytes and a checkpoint holds megabytes.  The model is whole on each process, or split over them.

    docvision train hf-ptp run.init=org/model tasks.0.data=pages.jsonl
    accelerate launch --num_processes 8 -m docvision.hf_vlm.recipe hf-ptp run.init=org/model tasks.0.data=pages.jsonl

Shape suffixes: B batch, T text columns (prompt included), A answer columns, E riders, D width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from docvision.hf_vlm.adapter import attach
from docvision.hf_vlm.decoder import VlmDecoder
from docvision.methods.base import PAD, Method, Riders, TextRun, rider_mask


@dataclass
class PairBatch:
    """Pictures with their prompts and answers, as a model's processor gives them."""

    inputs: dict[str, Tensor]
    """Arguments of the model's forward."""
    targets_BT: Tensor
    """The token after each column of the text, 0 where none is to be learnt."""


class VlmTrainer(nn.Module):
    """The methods of an accelerated model as one module whose forward gives losses.

    The model itself is no part of it: it has no gradient, so nothing of it is synchronised or saved.

    Args:
        accelerated: the model.
        options: of each method that learns, by name.
        checkpointing: recompute the layers' activations in the backward pass: a third slower, far less memory.
    """

    def __init__(self, accelerated: Any, options: Mapping[str, dict[str, Any]], checkpointing: bool = False) -> None:
        super().__init__()
        for name, chosen in options.items():
            attach(accelerated, name, chosen)
        self.methods = accelerated.core.methods
        self.methods.float().requires_grad_(True)
        self._held = (accelerated,)
        accelerated.model.requires_grad_(False)
        accelerated.model.eval()
        if checkpointing:
            accelerated.model.gradient_checkpointing_enable({"use_reentrant": False})
            accelerated.core.decoder.stack.train()  # the library recomputes in training mode only

    @property
    def accelerated(self) -> Any:
        return self._held[0]

    def forward(self, batch: PairBatch, noise: torch.Generator) -> dict[str, Tensor]:
        """Losses by method, and detached figures under names that start with ``_``."""
        decoder: VlmDecoder = self.accelerated.core.decoder
        first = int((batch.targets_BT != PAD).any(0).nonzero()[0, 0])
        answers_BA = text_ids(batch)[:, first:]
        targets_BA = batch.targets_BT[:, first:]
        methods: dict[str, Method] = dict(self.methods.items())
        riding = {name: method.expand(answers_BA, targets_BA, noise) for name, method in methods.items()}
        riders = [part for part in riding.values() if part is not None]
        if "ptp" in methods:
            methods["ptp"].lora.learning = batch.targets_BT.shape[1]  # its riders are last
        states = run_with_riders(self.accelerated, batch, riders, first)
        T = batch.targets_BT.shape[1]
        hidden_BAD = states[:, first:T].float()
        run = TextRun(Scores(decoder), None, answers_BA, targets_BA, hidden_BAD)  # type: ignore[arg-type]
        losses: dict[str, Tensor] = {}
        for name, method in methods.items():
            own = states[:, T:].float() if riding[name] is not None else None
            losses |= {f"{name}{part}": value for part, value in method.losses(run, own).items()}
        return losses


class Scores:
    """What a method's losses need of a decoder, in single precision."""

    def __init__(self, decoder: VlmDecoder) -> None:
        self.decoder = decoder

    def logits(self, hidden: Tensor) -> Tensor:
        return self.decoder.logits(hidden.to(self.decoder.head.weight.dtype)).float()

    def embed(self, tokens: Tensor) -> Tensor:
        return self.decoder.embed(tokens).float()


def text_ids(batch: PairBatch) -> Tensor:
    """(B,T) ids that the text decoder reads."""
    found = batch.inputs.get("decoder_input_ids")
    return batch.inputs["input_ids"] if found is None else found


def run_with_riders(accelerated: Any, batch: PairBatch, riders: Sequence[Riders], first: int) -> Tensor:
    """One forward of the model with riders behind its text; states (B,T+E,D) of the text decoder.

    Args:
        accelerated: the model.
        batch: right-padded.
        riders: at most one part, its places counted from column ``first``.
        first: column from which nodes count.
    """
    decoder: VlmDecoder = accelerated.core.decoder
    seen: dict[str, Tensor] = {}
    learned = decoder.learned_positions

    def widen(module: nn.Module, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return given, widened(decoder, named, riders, first, batch)

    def look(module: nn.Module, given: Any, output: Any) -> None:
        seen["states"] = output.last_hidden_state

    hooks = [decoder.stack.register_forward_pre_hook(widen, with_kwargs=True)] if riders else []
    hooks.append(decoder.stack.register_forward_hook(look))
    keep = {"logits_to_keep": 1} if accelerated.model._supports_logits_to_keep() else {}
    B, T = batch.targets_BT.shape
    place_BS = torch.arange(T, device=batch.targets_BT.device).expand(B, T)
    if riders:
        place_BS = torch.cat([place_BS, riders[0].positions_BE + first], 1)
    try:
        with learned(place_BS):
            accelerated.model(**batch.inputs, use_cache=False, **keep)
    finally:
        for hook in hooks:
            hook.remove()
    return seen["states"]


def widened(
    decoder: VlmDecoder, named: dict[str, Any], riders: Sequence[Riders], first: int, batch: PairBatch
) -> dict[str, Any]:
    """Arguments of the text decoder with riders behind its columns."""
    part = riders[0]
    embeddings = named.get("inputs_embeds")
    if embeddings is None:
        embeddings = decoder.embed(named["input_ids"])
    B, T = embeddings.shape[:2]
    E = part.positions_BE.shape[1]
    made = {**named, "input_ids": None, "inputs_embeds": torch.cat([embeddings, part.embeddings_BED], 1)}
    node_E = part.sees_EN.sum(1) - 1 + first
    """Columns of the anchors: a rider sees the nodes up to its own."""
    place = named.get("position_ids")
    if place is not None:
        ahead_BE = part.positions_BE + first - node_E
        made["position_ids"] = torch.cat([place, place[..., node_E] + ahead_BE], -1)
    elif decoder.learned is None:
        made["position_ids"] = torch.cat(
            [torch.arange(T, device=embeddings.device).expand(B, T), part.positions_BE + first], 1
        )
    prefix_EF = torch.ones(E, first, dtype=torch.bool, device=part.sees_EN.device)
    whole = Riders(part.embeddings_BED, part.positions_BE, torch.cat([prefix_EF, part.sees_EN], 1), part.sees_EE)
    real = batch.inputs.get("attention_mask") if "decoder_input_ids" not in batch.inputs else None
    columns = torch.arange(T, device=embeddings.device).expand(B, T)
    places_BS = torch.cat([columns, part.positions_BE + first], 1)
    made["attention_mask"] = wide_masks(decoder, named.get("attention_mask"), whole, real, places_BS, embeddings)
    if named.get("visual_pos_masks") is not None:  # features added at the picture's columns
        masks = named["visual_pos_masks"]
        made["visual_pos_masks"] = torch.cat([masks, masks.new_zeros(B, E)], 1)
    return made


def wide_masks(
    decoder: VlmDecoder, own: Any, riders: Riders, real_BT: Tensor | None, places_BS: Tensor, like: Tensor
) -> Any:
    """Masks for text and riders, by kind of layer where there are several.

    What text sees of text stays as the model made it, where it made it (some let a picture's tokens see each other).
    """
    B, S = places_BS.shape
    T = S - riders.positions_BE.shape[1]
    causal_BSS = rider_mask(T, [riders]).expand(B, S, S)
    if real_BT is not None:
        columns_BS = torch.cat([real_BT.bool(), real_BT.new_ones(B, S - T).bool()], 1)
        itself = torch.eye(S, dtype=torch.bool, device=like.device)  # padding sees itself, so that nothing is NaN
        causal_BSS = causal_BSS & columns_BS[:, None] | itself
    made = {}
    for kind in decoder.kinds:
        seen_BSS = causal_BSS.clone()
        if kind == "sliding_attention":
            seen_BSS &= places_BS[..., None] - places_BS[:, None] < decoder.window
        mask = own.get(kind) if isinstance(own, dict) else own
        if mask is not None and mask.dim() == 4:
            seen_BSS[:, :T, :T] = mask[:, 0] if mask.dtype == torch.bool else mask[:, 0] == 0
        made[kind] = decoder.as_implemented(seen_BSS, like)
    return made if len(made) > 1 else next(iter(made.values()))


def pair_targets(ids_BT: Tensor, answer_BT: Tensor) -> Tensor:
    """The token after each column where it belongs to the answer, else 0.

    Args:
        ids_BT: prompts and answers.
        answer_BT: True for the tokens of the answer.
    """
    targets = torch.where(answer_BT, ids_BT, PAD)[:, 1:]
    return torch.cat([targets, targets.new_zeros(len(targets), 1)], 1)
