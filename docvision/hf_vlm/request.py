"""What generate is asked for and gives back: settings that are refused, ends, padding, the form of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput

from docvision.hf_vlm.decoder import VlmError

PER_ROW = ("PrefixConstrained", "UnbatchedClassifierFree", "Watermark", "SynthID")
"""Processors that know rows or steps by count and cannot be asked about one node of a draft."""
REFUSED: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "use_cache": (True,),
    "penalty_alpha": (),
    "prompt_lookup_num_tokens": (),
    "use_mtp": (False,),
    "token_healing": (False,),
    "output_scores": (False,),
    "output_logits": (False,),
    "output_attentions": (False,),
    "output_hidden_states": (False,),
    "prefill_chunk_size": (),
    "cache_implementation": ("dynamic", "static", "hybrid", "sliding_window"),
}
"""Settings of generate, and their values besides None that are understood here."""


def check_settings(config: Any, processors: Sequence[Any]) -> None:
    """Refuse what cannot be done draft by draft.

    Raises:
        VlmError: a setting, with its value.
    """
    for name, known in REFUSED.items():
        value = getattr(config, name, None)
        if value is not None and value not in known:
            raise VlmError(f"{name}={value!r} is not understood here: leave it out, or use model.generate")
    for processor in processors:
        if type(processor).__name__.startswith(PER_ROW):
            raise VlmError(f"{type(processor).__name__} cannot score drafts: leave it out, or use model.generate")


def end_tokens(config: Any) -> frozenset[int]:
    """Ids that end a row; none where generation runs to its limit."""
    ids = getattr(config, "_eos_token_tensor", None)
    return frozenset() if ids is None else frozenset(int(token) for token in ids.flatten().tolist())


def finish(input_ids: Tensor, written: Sequence[Sequence[int]], config: Any, encoder: bool) -> Any:
    """Prompts with what was written, padded, in the form that was asked for."""
    width = max(map(len, written))
    pad = getattr(config, "_pad_token_tensor", None)
    new = torch.full((len(written), width), 0 if pad is None else int(pad), dtype=input_ids.dtype)
    for row, tokens in enumerate(written):
        new[row, : len(tokens)] = torch.tensor(tokens)
    sequences = torch.cat([input_ids, new.to(input_ids.device)], 1)
    if not config.return_dict_in_generate:
        return sequences
    return (GenerateEncoderDecoderOutput if encoder else GenerateDecoderOnlyOutput)(sequences=sequences)


class LeftPadded:
    """Arguments of generate with right-padded prompts turned to left padding, and the way back.

    Plain generate continues a right-padded row behind its padding, which is not what anybody means; here such a row
    gets the answer that it gets alone.
    """

    def __init__(self, named: Mapping[str, Any], encoder: bool) -> None:
        self.named = dict(named)
        self.original: Tensor | None = None
        mask = named.get("attention_mask")
        name = "inputs" if named.get("inputs") is not None else "input_ids"
        ids = named.get(name)
        if encoder or mask is None or ids is None or mask.dim() != 2 or bool(mask[:, -1].all()):
            return
        self.original = ids
        shift_B = mask.shape[1] - (mask != 0).long().cumsum(1).argmax(1) - 1
        place_BP = (torch.arange(mask.shape[1], device=mask.device) - shift_B[:, None]) % mask.shape[1]
        for key, value in named.items():
            if isinstance(value, Tensor) and value.shape == ids.shape:
                self.named[key] = value.gather(1, place_BP.to(value.device))

    def restore(self, made: Any) -> Any:
        """The result with the prompts as they were given."""
        if self.original is None:
            return made
        ids = made if isinstance(made, Tensor) else made.sequences
        ids = torch.cat([self.original, ids[:, self.original.shape[1] :]], 1)
        if isinstance(made, Tensor):
            return ids
        made.sequences = ids
        return made
