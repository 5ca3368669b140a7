"""A Hugging Face model's text decoder behind the interface of docvision.decoder.CausalDecoder.

``docvision.decode`` verifies drafts with it as with our own decoder, and the methods train and draft on it: tokens
or embeddings, positions and a mask in, hidden states out.  Nothing is copied: embedding, layers and output layer
are the model's own.

Positions here count generated tokens from 0; the cache knows where each row's prompt ended (``offset_B``), which
with left padding or M-RoPE is not the prompt's length.  Learned positions that a decoder takes from its cache's
length, one for all rows, are put right by a hook.

Shape suffixes: B batch, S new positions, P prompt columns, K generated columns, D width, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.hf_vlm.cache import RowCache


class VlmError(ValueError):
    """A model, processor, adapter or option that cannot be used here: what, why, and what to do instead."""


ROLLABLE = ("full_attention", "sliding_attention")
MASKED = ("sdpa", "eager")
"""Attention implementations that take a mask of any shape, which a tree of drafts and registers need."""


class VlmDecoder:
    """The decoder of a model.

    Args:
        model: an image-text-to-text model of transformers.

    Raises:
        VlmError: the model has no decoder that this can drive; the message says why.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.stack = innermost(model)
        self.head = model.get_output_embeddings()
        if self.head is None and hasattr(model, "decoder"):  # VisionEncoderDecoderModel
            self.head = model.decoder.get_output_embeddings()
        self.text_config = self.stack.config.get_text_config(decoder=True)
        self.parameters_of_forward = set(inspect.signature(self.stack.forward).parameters)
        self._check()
        self.learned = None
        if "position_ids" not in self.parameters_of_forward:
            self.learned = self.stack.embed_positions
        self.window: int | None = getattr(self.text_config, "sliding_window", None)
        kinds = getattr(self.text_config, "layer_types", None)
        self.kinds = set(kinds) if kinds else {"sliding_attention" if self.window else "full_attention"}
        self.config = SimpleNamespace(heads=self.text_config.num_attention_heads, cross_attention=False)
        # What docvision.methods may start from: nothing of another architecture fits.
        self.layers = [SimpleNamespace(ffn_in=SimpleNamespace(weight=torch.empty(0)))]
        self.riding: Callable[[int], Any] | None = None
        """Gives a context for a forward with riders, such as an adapter that is active on them alone."""
        self._primed: RowCache | None = None

    def _check(self) -> None:
        name = type(self.model).__name__
        if self.head is None or not hasattr(self.stack, "layers"):
            raise VlmError(f"{name} has no text decoder with an output layer: give an image-text-to-text model")
        kinds = getattr(self.text_config, "layer_types", None) or ()
        alien = sorted(set(kinds) - set(ROLLABLE))
        if alien or "cache" not in self.parameters_of_forward:
            why = f"layers of kind {', '.join(alien)}" if alien else "a cache of its own kind"
            raise VlmError(f"{name} has {why}, whose states cannot be rolled back row by row: use model.generate")
        attention = getattr(self.text_config, "_attn_implementation", "sdpa")
        if attention not in MASKED:
            raise VlmError(
                f"attention {attention!r} takes no mask per token: load the model with attn_implementation='sdpa'"
            )
        learned = getattr(self.stack, "embed_positions", None)
        if "position_ids" not in self.parameters_of_forward and not hasattr(learned, "offset"):
            raise VlmError(f"the decoder of {name} takes no positions, so rows of unequal length cannot be decoded")

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device if self.learned is None else self.stack.device

    @property
    def embedding(self) -> Any:
        """The output layer in the shape of an embedding: what a method's own states are scored with."""
        weight = self.head.weight
        return SimpleNamespace(weight=weight, embedding_dim=weight.shape[1], num_embeddings=weight.shape[0])

    def embed(self, tokens_BS: Tensor) -> Tensor:
        return self.stack.get_input_embeddings()(tokens_BS)

    def logits(self, hidden_BSD: Tensor) -> Tensor:
        """Scores over the vocabulary, as the model's own forward makes them."""
        scores = self.head(hidden_BSD.to(self.head.weight.device))
        bias = getattr(self.model, "final_logits_bias", None)
        if bias is not None:
            scores = scores + bias.to(scores.device)
        scaling = getattr(self.text_config, "logits_scaling", None)
        if scaling is not None:
            scores = scores / scaling
        cap = getattr(self.text_config, "final_logit_softcapping", None)
        if cap is not None:
            scores = cap * torch.tanh(scores / cap)
        return scores.to(self.device)

    def prime(self, cache: RowCache) -> None:
        """The cache, prompt included, that the next decoding goes on with."""
        self._primed = cache

    def new_cache(self, batch: int, device: torch.device | str = "cpu") -> RowCache:
        cache, self._primed = self._primed, None
        assert cache is not None and len(cache.length_B) == batch, "prime() comes first"
        return cache

    def fresh_cache(self) -> RowCache:
        """An empty cache, for the prompt."""
        return RowCache(len(self.stack.layers))

    def __call__(
        self,
        tokens: Tensor,
        positions: Tensor,
        memory: Any = None,
        mask: Tensor | None = None,
        cache: RowCache | None = None,
    ) -> Tensor:
        """Hidden states (B,S,D) after the last norm.

        Args:
            tokens: ids (B,S), or embeddings (B,S,D) with riders behind the tokens.
            positions: (B,S) or (S,), counted from the end of the prompt.
            memory: none; what a cross-attention sees is in the cache.
            mask: (B,S,K) True where an entry may look among the generated columns; None for causal.
            cache: the prompt and what was generated; new entries are written, not committed.
        """
        assert cache is not None and memory is None
        riders = tokens.is_floating_point()
        embeddings = tokens if riders else self.embed(tokens)
        B, S = embeddings.shape[:2]
        positions_BS = positions.expand(B, S)
        called: dict[str, Any] = {
            "inputs_embeds": embeddings,
            "attention_mask": self._masks(cache, mask, positions_BS, embeddings),
            "cache": cache if cache.cross is None else cache.cross,
            "use_cache": True,
            **cache.cross_inputs,
        }
        place_BS = cache.offset_B[:, None] + positions_BS
        if self.learned is None:
            called["position_ids"] = place_BS.expand(cache.axes, B, S) if cache.axes else place_BS
        with self.learned_positions(place_BS), self.riding(S) if riders and self.riding else _nothing():
            return self.stack(**called).last_hidden_state.to(self.device)

    def _masks(self, cache: RowCache, mask: Tensor | None, positions_BS: Tensor, like: Tensor) -> Any:
        """What the stack wants as its mask: by kind of layer where it has several."""
        B, S = positions_BS.shape
        seen_BSK = (cache.causal_mask(S) if mask is None else mask).expand(B, S, -1)
        seen_BSK = torch.cat([cache.seen_BP[:, None].expand(B, S, -1), seen_BSK], 2)
        if "sliding_attention" not in self.kinds:
            return self.masks(seen_BSK, like)
        # As in plain decoding, distance is measured in columns; a drafted node stands at its depth, not at its slot.
        places_BK = torch.arange(-cache.prompt, seen_BSK.shape[2] - cache.prompt, device=like.device).repeat(B, 1)
        places_BK = places_BK.scatter(1, cache.columns(S), positions_BS)
        return self.masks(seen_BSK, like, positions_BS[..., None] - places_BK[:, None])

    def masks(self, seen_BSK: Tensor, like: Tensor, distance_BSK: Tensor | None = None) -> Any:
        """A mask as the stack takes it, by kind of layer where there are several.

        Args:
            seen_BSK: True where an entry may look.
            like: of the type of the activations.
            distance_BSK: between the places, where layers have a window.
        """
        full = self.as_implemented(seen_BSK, like)
        if "sliding_attention" not in self.kinds:
            return full
        assert distance_BSK is not None and self.window is not None
        sliding = self.as_implemented(seen_BSK & (distance_BSK < self.window), like)
        if self.kinds == {"sliding_attention"}:
            return sliding
        return {"full_attention": full, "sliding_attention": sliding}

    def as_implemented(self, seen_BSK: Tensor, like: Tensor) -> Tensor:
        """A mask in the form that the model's attention takes."""
        seen = seen_BSK[:, None]
        if self.text_config._attn_implementation != "eager":
            return seen
        return torch.zeros_like(seen, dtype=like.dtype).masked_fill(~seen, torch.finfo(like.dtype).min)

    @contextmanager
    def learned_positions(self, place_BS: Tensor) -> Iterator[None]:
        """Let a decoder with learned positions use these instead of those it derives from the cache."""
        if self.learned is None:
            yield
            return
        table = self.learned

        def harmless(module: nn.Module, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return given, {"position_ids": torch.zeros_like(place_BS[0])}  # its own could lie beyond the table

        def right(module: nn.Module, given: Any, named: dict[str, Any], output: Tensor) -> Tensor:
            ids_BS = (place_BS + table.offset).clamp(max=table.num_embeddings - 1)  # registers behind the last place
            return F.embedding(ids_BS.to(table.weight.device), table.weight)

        hooks = [
            table.register_forward_pre_hook(harmless, with_kwargs=True),
            table.register_forward_hook(right, with_kwargs=True),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def innermost(model: Any) -> Any:
    """The module that runs the layers of the text decoder."""
    found = model.get_decoder()
    while True:
        inner = found.get_decoder() if hasattr(found, "get_decoder") else found
        if inner is found:
            break
        found = inner
    return getattr(found, "decoder", found) if not hasattr(found, "layers") else found
