"""Keys and values of a Hugging Face decoder, with a committed length for each row.

One cache replaces those of the library during ``generate``.  The prompt lies in columns 0 .. P-1 as the model's own
forward wrote it, padding included; generated tokens lie behind it, each row with a length of its own.  A forward
writes behind the committed length and commits nothing, so rolling back is leaving the length alone: nothing is
copied or deleted.  Layers with a sliding window keep all their entries and the mask applies the window, so the
dynamic, static, sliding and hybrid caches that models ask for are all served by this one; recurrent states (linear
attention, Mamba, short convolutions) cannot be rolled back row by row and are refused.

To ``docvision.decode`` it is a KVCache that starts empty behind the prompt.

Shape suffixes: B batch, H heads, S new entries, K entries, E channels of a head, P prompt columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, EncoderDecoderCache

SPARE = 256
"""Columns allocated for generated tokens at first; doubled when they are full."""


class RowLayer(CacheLayerMixin):
    """One layer's keys and values (B,H,K,E)."""

    is_sliding = False
    keys: Any
    values: Any

    def __init__(self, owner: RowCache) -> None:
        super().__init__()
        self.owner = owner

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = allocate(key_states, key_states.shape[2] + SPARE)
        self.values = allocate(value_states, value_states.shape[2] + SPARE)
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store new entries; returns all written so far."""
        if not self.is_initialized:  # the prompt
            self.lazy_initialization(key_states, value_states)
            self.owner.prompt = key_states.shape[2]
            return key_states, value_states
        need = self.owner.prompt + self.owner.longest + key_states.shape[2]
        if self.keys.shape[2] < need:
            room = max(need, self.keys.shape[2] + self.keys.shape[2] - self.owner.prompt)
            self.keys, self.values = allocate(self.keys, room), allocate(self.values, room)
        columns_BS = self.owner.columns(key_states.shape[2])
        rows_B1 = torch.arange(len(columns_BS), device=columns_BS.device)[:, None]
        for store, new in ((self.keys, key_states), (self.values, value_states)):
            store[rows_B1.to(store.device), :, columns_BS.to(store.device)] = new.transpose(1, 2)
        return self.keys[:, :, :need], self.values[:, :, :need]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return self.owner.prompt + self.owner.longest if self.is_initialized else 0

    def get_max_length(self) -> int:
        return -1


class RowCache(Cache):
    """The self-attention's cache of a batch."""

    def __init__(self, layers: int) -> None:
        self.rows = [RowLayer(self) for _ in range(layers)]
        super().__init__(layers=[*self.rows])
        self.prompt = 0
        """P, columns of the prompt."""
        self.length_B = torch.zeros(0, dtype=torch.long)
        """Committed generated tokens."""
        self.longest = 0
        """Upper bound of the committed lengths, known without asking the device."""
        self.seen_BP = torch.zeros(0, 0, dtype=torch.bool)
        """True where a column of the prompt is no padding."""
        self.offset_B = torch.zeros(0, dtype=torch.long)
        """Position of each row's first generated token."""
        self.axes = 0
        """Leading size of the position ids that the model takes: 0 for (B,S), 3 for M-RoPE."""
        self.cross: EncoderDecoderCache | None = None
        """Around this cache, where there is an encoder."""
        self.cross_inputs: dict[str, Tensor] = {}
        """What the decoder's cross-attention is called with."""

    def with_encoder(self) -> EncoderDecoderCache:
        """This cache together with one for the cross-attention, which is never rolled back."""
        self.cross = EncoderDecoderCache(self, DynamicCache())
        return self.cross

    def start(self, seen_BP: Tensor, offset_B: Tensor, axes: int) -> None:
        """The prompt is in: from here on the cache counts generated tokens."""
        assert seen_BP.shape[1] == self.prompt, (seen_BP.shape, self.prompt)
        self.seen_BP, self.offset_B, self.axes = seen_BP, offset_B, axes
        self.length_B = torch.zeros(len(seen_BP), dtype=torch.long, device=seen_BP.device)

    def columns(self, steps: int) -> Tensor:
        """(B,S) columns of the next ``steps`` entries."""
        return self.prompt + self.length_B[:, None] + torch.arange(steps, device=self.length_B.device)

    def commit(self, count_B: Tensor | int) -> None:
        """Keep the first ``count_B`` entries that the last forward wrote, for each row."""
        self.length_B = self.length_B + count_B
        self.longest += count_B if isinstance(count_B, int) else int(count_B.max())

    def select(self, rows: Tensor) -> None:
        """Keep only these rows: the others are finished."""
        self.length_B, self.offset_B, self.seen_BP = self.length_B[rows], self.offset_B[rows], self.seen_BP[rows]
        self.longest = int(self.length_B.max()) if len(rows) else 0
        for layer in self.rows:
            if layer.is_initialized:
                layer.keys, layer.values = (part[rows.to(part.device)] for part in (layer.keys, layer.values))
        if self.cross is not None:
            self.cross.cross_attention_cache.batch_select_indices(rows)
            self.cross_inputs = {name: part[rows.to(part.device)] for name, part in self.cross_inputs.items()}

    def causal_mask(self, steps: int) -> Tensor:
        """(B,S,K) True where a new entry may look, of what was generated: the committed, and the new up to itself."""
        reach_BS = self.length_B[:, None] + torch.arange(steps, device=self.length_B.device)
        return torch.arange(self.longest + steps, device=self.length_B.device) <= reach_BS[..., None]

    @property
    def keys(self) -> list[Tensor | None]:
        """By layer, views (B,K,H,E) of the generated entries; writing into them writes into the cache."""
        return [self._generated(layer.keys) for layer in self.rows]

    @property
    def values(self) -> list[Tensor | None]:
        return [self._generated(layer.values) for layer in self.rows]

    def _generated(self, held: Tensor | None) -> Tensor | None:
        return None if held is None else held[:, :, self.prompt :].transpose(1, 2)


def allocate(held_BHKE: Tensor, columns: int) -> Tensor:
    """The same entries with room for ``columns`` of them."""
    B, H, K, E = held_BHKE.shape
    room = held_BHKE.new_zeros(B, H, columns, E)
    room[:, :, :K] = held_BHKE
    return room
