"""The causal decoder: embeddings and positions to hidden states, with a cache that rolls back row by row.

Pre-norm, RMSNorm, SwiGLU, rotary positions in one dimension (text) or two (image grid), optional
cross-attention to an image memory.  It knows nothing about losses or what a token means.

Shape suffixes: B batch, S new positions, K cached and new positions, M memory cells, D width, H heads,
E = D/H channels of a head, V vocabulary.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.config import DecoderConfig
from docvision.encoder import Memory

PLACE_HEAD = 1
"""Head of the last cross-attention that is trained to look where the next coordinate stands, see alignment.py."""


class KVCache:
    """Keys and values of the self-attention, with a committed length for each row.

    A forward writes its S new entries after each row's committed length and commits nothing.  ``commit`` keeps
    the first n of them; what lies beyond is overwritten by the next forward.  So rolling back costs nothing,
    and each row of a batch may accept a different number of drafted tokens.
    """

    def __init__(self, layers: int, batch: int, device: torch.device | str = "cpu") -> None:
        self.length_B = torch.zeros(batch, dtype=torch.long, device=device)
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.cross: list[tuple[Tensor, ...]] = []
        """Keys and values of the memory by layer, and the codes of its places in the last, computed once."""
        self.longest = 0
        """Upper bound of the committed lengths, known without asking the device; exact for a single row."""
        self._slots: tuple[Tensor, int, tuple[Tensor | slice, Tensor | slice]] | None = None

    def commit(self, count_B: Tensor | int) -> None:
        """Keep the first ``count_B`` entries that the last forward wrote, for each row."""
        self.length_B = self.length_B + count_B
        self.longest += count_B if isinstance(count_B, int) else int(count_B.max())

    def rollback(self, length_B: Tensor) -> None:
        """Shorten each row to ``length_B`` committed entries.

        Raises:
            ValueError: a row would grow.
        """
        if bool((length_B > self.length_B).any()):
            raise ValueError(
                f"rollback to {length_B.tolist()} from {self.length_B.tolist()}: a cache can only be shortened"
            )
        self.length_B = length_B.clone()
        self.longest = int(length_B.max())

    def select(self, rows: Tensor) -> None:
        """Keep only these rows (finished sequences leave the batch) or repeat them, in this order."""
        self.length_B = self.length_B[rows]
        self.longest = int(self.length_B.max()) if len(rows) else 0
        self.keys = [k if k is None else k[rows] for k in self.keys]
        self.values = [v if v is None else v[rows] for v in self.values]
        self.cross = [tuple(part[rows] for part in parts) for parts in self.cross]

    def write(self, layer: int, keys_BSHE: Tensor, values_BSHE: Tensor) -> tuple[Tensor, Tensor]:
        """Store new entries behind each row's committed length; returns all entries (B,K,H,E) written so far."""
        B, S = keys_BSHE.shape[:2]
        need = self.longest + S
        for store, new in ((self.keys, keys_BSHE), (self.values, values_BSHE)):
            held = store[layer]
            if held is None or held.shape[1] < need:
                grown = new.new_zeros(B, max(need, 64, 2 * (held.shape[1] if held is not None else 0)), *new.shape[2:])
                if held is not None:
                    grown[:, : held.shape[1]] = held
                store[layer] = held = grown
            held[self._places(S)] = new
        keys, values = self.keys[layer], self.values[layer]
        assert keys is not None and values is not None
        return keys[:, :need], values[:, :need]

    def _places(self, steps: int) -> tuple[Tensor | slice, Tensor | slice]:
        """Where new entries go: rows and columns, worked out once for all layers of a forward."""
        if len(self.length_B) == 1:
            return slice(None), slice(self.longest, self.longest + steps)
        if self._slots is None or self._slots[0] is not self.length_B or self._slots[1] != steps:
            device = self.length_B.device
            rows_B1 = torch.arange(len(self.length_B), device=device)[:, None]
            self._slots = self.length_B, steps, (rows_B1, self.length_B[:, None] + torch.arange(steps, device=device))
        return self._slots[2]

    def causal_mask(self, steps: int) -> Tensor:
        """(B,S,K) True where a new position may look: everything committed, and the new ones up to itself."""
        need = self.longest + steps
        reach_BS = self.length_B[:, None] + torch.arange(steps, device=self.length_B.device)
        return torch.arange(need, device=self.length_B.device) <= reach_BS[..., None]


class MemoryView(NamedTuple):
    """What cross-attention needs of a Memory: states, and an additive or boolean key mask (B,M)."""

    states_BMD: Tensor
    mask_BM: Tensor


class CausalDecoder(nn.Module):
    """Tokens (or embeddings) to hidden states.

    Args:
        config: layers, heads and widths.
        width: D.
        vocabulary: V; the embedding is tied to the output layer.
        bins: of each axis, where the last 2 x bins tokens are coordinates; ``config.waves`` then score them.
    """

    def __init__(self, config: DecoderConfig, width: int, vocabulary: int, bins: int = 0) -> None:
        super().__init__()
        self.config = config
        pointing = config.cross_attention
        self.coordinates = FourierScores(width, bins, config.waves, pointing) if bins and config.waves else None
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(width))
        self.scale = math.sqrt(width) * 0.5
        self.layers = nn.ModuleList(DecoderLayer(config, width) for _ in range(config.layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        memory: Memory | MemoryView | None = None,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Hidden states (B,S,D) after the last norm.

        Args:
            tokens: ids (B,S), or embeddings (B,S,D) as :meth:`embed` gives them.
            positions: (B,S) or (S,) for text, (B,S,2) rows and columns for an image grid.
            memory: image memory; required where the config has cross-attention and the cache holds none yet.
            mask: True where a query may look, (B,S,K) or (S,K); None for causal.
            cache: keys and values of what came before; new entries are written, not committed.
        """
        x_BSD = self.embed(tokens) if tokens.dtype in (torch.long, torch.int32) else tokens
        rotary = rotary_angles(positions, x_BSD.shape[-1] // self.config.heads, self.config.rope_base)
        cross = self._cross(memory, cache) if self.config.cross_attention else None
        memory_mask = None if memory is None else key_mask(memory.mask_BM, x_BSD)
        if cache is not None and mask is None and x_BSD.shape[:2] != (1, 1):  # a single new token sees everything
            mask = cache.causal_mask(x_BSD.shape[1])
        if mask is not None:
            mask = mask[:, None] if mask.dim() == 3 else mask
        for index, layer in enumerate(self.layers):
            keys_values = cross[index] if cross is not None else None
            x_BSD, looking_BHSE = layer(x_BSD, rotary, mask, keys_values, memory_mask, cache, index)
        if self.coordinates is None or cross is None:
            return self.norm(x_BSD)
        hidden_BSD = self.norm(x_BSD)
        return hidden_BSD + self.coordinates.point(hidden_BSD, looking_BHSE, cross[-1], memory_mask)

    def embed(self, tokens_BS: Tensor) -> Tensor:
        return self.embedding(tokens_BS) * self.scale

    def logits(self, hidden_BSD: Tensor) -> Tensor:
        """Scores over the vocabulary, by the tied embedding, of coordinates by their Fourier series if it has one."""
        if self.coordinates is None:
            return F.linear(hidden_BSD, self.embedding.weight)
        others = F.linear(hidden_BSD, self.embedding.weight[: -2 * self.coordinates.bins])
        return torch.cat([others, self.coordinates(hidden_BSD)], -1)

    def new_cache(self, batch: int, device: torch.device | str = "cpu") -> KVCache:
        return KVCache(self.config.layers, batch, device)

    def _cross(self, memory: Memory | MemoryView | None, cache: KVCache | None) -> list[tuple[Tensor, ...]]:
        if cache is not None and cache.cross:
            return cache.cross
        if memory is None:
            raise ValueError(
                "this decoder has cross-attention: pass the image memory, or decoder.cross_attention=false"
            )
        pairs: list[tuple[Tensor, ...]] = [
            layer.cross_attention.project_memory(memory.states_BMD) for layer in self.layers
        ]
        if self.coordinates is not None:
            pairs[-1] = *pairs[-1], self.coordinates.code(memory.states_BMD)
        if cache is not None:
            cache.cross = pairs
        return pairs


class FourierScores(nn.Module):
    """Scores of the coordinates of both axes, each a Fourier series over its bins (arXiv 2410.22269).

    A tied embedding tells neighbouring bins apart by a few channels among many, and its scores stay flat over a dozen
    of them.  A series of few waves is smooth by construction and as sharp as its weights are large.

    Where there is an image the series also points (pointer networks, Vinyals et al., arXiv 1506.03134): each memory
    cell has a code, the amplitudes of a coordinate that stands there, and the mean code of the cells that one head
    looks at is added to the state.  The head's own channels are too few to tell a place, and the last norm would keep
    them quiet.

    Args:
        width: D.
        bins: of each axis.
        waves: of each series, from half a period over all bins to one of 8 bins, evenly on a logarithmic scale.
        pointing: read the places of a memory.
    """

    def __init__(self, width: int, bins: int, waves: int, pointing: bool = False) -> None:
        super().__init__()
        self.bins = bins
        self.amplitudes = nn.Linear(width, 4 * waves, bias=False)
        nn.init.normal_(self.amplitudes.weight, std=0.02)
        if pointing:
            self.code = nn.Linear(width, 4 * waves, bias=False)
            self.read = nn.Linear(4 * waves, width, bias=False)
            nn.init.normal_(self.read.weight, std=0.02)
            self.gate = nn.Linear(width, 1)
            nn.init.zeros_(self.gate.weight)
            nn.init.constant_(self.gate.bias, -2.0)
        low, high = math.log(math.pi / bins), math.log(2 * math.pi / 8)
        angles_WN = torch.linspace(low, high, waves).exp()[:, None] * torch.arange(bins)
        self.register_buffer("waves_WN", torch.cat([angles_WN.sin(), angles_WN.cos()]), persistent=False)

    def forward(self, hidden_BSD: Tensor) -> Tensor:
        """(B,S,2 x bins), x before y."""
        amplitudes = self.amplitudes(hidden_BSD).unflatten(-1, (2, -1))
        return (amplitudes @ self.waves_WN).flatten(-2)

    def point(
        self, hidden_BSD: Tensor, looking_BHSE: Tensor, memory: tuple[Tensor, ...], mask: Tensor | None
    ) -> Tensor:
        """What the places that the head of places looks at add to the states, (B,S,D).

        Args:
            hidden_BSD: states, which say how much a place is wanted.
            looking_BHSE: queries of the last cross-attention.
            memory: its keys, its values, and the codes of the memory's places.
            mask: of the keys.
        """
        keys_BHME, _, codes_BMC = memory
        head = slice(PLACE_HEAD, PLACE_HEAD + 1)
        q, k = looking_BHSE[:, head], keys_BHME[:, head]
        seen_BSC = F.scaled_dot_product_attention(q, k, codes_BMC[:, None], attn_mask=mask)[:, 0]
        return self.gate(hidden_BSD).sigmoid() * self.read(seen_BSC)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention where configured, SwiGLU; each behind its own RMSNorm."""

    def __init__(self, config: DecoderConfig, width: int) -> None:
        super().__init__()
        self.self_norm = nn.RMSNorm(width, eps=1e-6)
        self.self_attention = SelfAttention(width, config.heads)
        if config.cross_attention:
            self.cross_norm = nn.RMSNorm(width, eps=1e-6)
            self.cross_attention = CrossAttention(width, config.heads)
        self.ffn_norm = nn.RMSNorm(width, eps=1e-6)
        self.ffn_in = nn.Linear(width, 2 * config.ffn, bias=False)
        self.ffn_out = nn.Linear(config.ffn, width, bias=False)
        for projection in (self.self_attention.out, self.ffn_out):
            nn.init.normal_(projection.weight, std=0.02 / math.sqrt(2 * config.layers))

    def forward(
        self,
        x_BSD: Tensor,
        rotary: tuple[Tensor, Tensor],
        mask: Tensor | None,
        memory: tuple[Tensor, ...] | None,
        memory_mask: Tensor | None,
        cache: KVCache | None,
        index: int,
    ) -> tuple[Tensor, Tensor | None]:
        """States, and with what the heads of the cross-attention looked, (B,H,S,E)."""
        looking_BHSE = None
        x_BSD = x_BSD + self.self_attention(self.self_norm(x_BSD), rotary, mask, cache, index)
        if memory is not None:
            looking_BHSE = self.cross_attention.queries(self.cross_norm(x_BSD))
            x_BSD = x_BSD + self.cross_attention.look(looking_BHSE, memory, memory_mask)
        gate, value = self.ffn_in(self.ffn_norm(x_BSD)).chunk(2, -1)
        return x_BSD + self.ffn_out(F.silu(gate) * value), looking_BHSE


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(
        self, x_BSD: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None, cache: KVCache | None, index: int
    ) -> Tensor:
        B, S, D = x_BSD.shape
        qk, v = self.qkv(x_BSD).view(B, S, 3 * self.heads, D // self.heads).split((2 * self.heads, self.heads), 2)
        q, k = rotate(qk, rotary).chunk(2, 2)
        if cache is not None:
            k, v = cache.write(index, k, v)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and cache is None)
        return self.out(out.transpose(1, 2).reshape(B, S, D))


class CrossAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def project_memory(self, states_BMD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B,H,M,E) of a memory, each head in one piece: every later step reads all of it."""
        B, M, D = states_BMD.shape
        pair = self.key_value(states_BMD).view(B, M, 2, self.heads, D // self.heads)
        k, v = pair.permute(2, 0, 3, 1, 4).contiguous()
        return k, v

    def queries(self, x_BSD: Tensor) -> Tensor:
        """(B,H,S,E)."""
        B, S, D = x_BSD.shape
        return self.query(x_BSD).view(B, S, self.heads, D // self.heads).transpose(1, 2)

    def look(self, q_BHSE: Tensor, memory: tuple[Tensor, ...], mask: Tensor | None) -> Tensor:
        """What the heads bring from a memory's keys and values, (B,S,D)."""
        B, H, S, E = q_BHSE.shape
        out = F.scaled_dot_product_attention(q_BHSE, memory[0], memory[1], attn_mask=mask)
        return self.out(out.transpose(1, 2).reshape(B, S, H * E))

    def forward(self, x_BSD: Tensor, memory: tuple[Tensor, ...], mask: Tensor | None) -> Tensor:
        return self.look(self.queries(x_BSD), memory, mask)


def key_mask(mask_BM: Tensor, like: Tensor) -> Tensor:
    """(B,1,1,M): boolean as it is, an additive bias in the type of the activations."""
    mask = mask_BM[:, None, None]
    return mask if mask.dtype == torch.bool else mask.to(like.dtype)


def rotary_angles(positions: Tensor, channels: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines (..., S, 1, E/2) of rotary embeddings (RoFormer, arXiv 2104.09864).

    One-dimensional positions turn all pairs of channels; two-dimensional ones turn the first half of the pairs by
    the row and the second half by the column.
    """
    pairs = channels // 2
    if positions.dim() == 3:
        frequency = _frequencies(pairs // 2, base, positions.device)
        angles = torch.cat([positions[..., axis, None].float() * frequency for axis in (0, 1)], -1)
    else:
        angles = positions[..., None].float() * _frequencies(pairs, base, positions.device)
    return angles.cos()[..., None, :], angles.sin()[..., None, :]


@functools.lru_cache
def _frequencies(count: int, base: float, device: torch.device) -> Tensor:
    return base ** (-torch.arange(count, device=device) / count)


def rotate(x_BSHE: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = (part.to(x_BSHE.dtype) for part in rotary)
    left, right = x_BSHE.chunk(2, -1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)
