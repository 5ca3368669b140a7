"""What says which cells are worth reading: scorers for semantic dropping, named in every report.

The paper scores with DINOv3's class attention.  No such network is at hand here, so a small one of our own stands in
(``vit-cls``), next to two scores that need none, and a uniform one as the control that any of them must beat.  All read
tokens, never the picture files, so a mirrored view has mirrored scores.

Shape suffixes: K images, A views, N cells, V codes, B batch, D width.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from imagegen.batches import TokenSet, shuffled
from imagegen.vq import VQTokenizer

FLOOR = 1e-4
"""Added to each score after they are made to sum to 1, so that background is still visited."""
VIT_STEPS = 400
VIT_BATCH = 256
VIT_WIDTH = 64
VIT_HEADS = 4


def uniform(tokens: TokenSet, tokenizer: VQTokenizer, seed: int) -> np.ndarray:
    """Every cell alike: random dropping, the control."""
    return np.ones(tokens.ids_KAN.shape, np.float32)


def surprisal(tokens: TokenSet, tokenizer: VQTokenizer, seed: int) -> np.ndarray:
    """-log p(code | cell), counted over the set; no network."""
    N, V = tokens.ids_KAN.shape[2], tokenizer.config.codes
    ids_RN = tokens.ids_KAN.reshape(-1, N).astype(np.int64)
    cost = np.empty((len(ids_RN), N), np.float32)
    for cell in range(N):
        counts = np.bincount(ids_RN[:, cell], minlength=V) + 1.0
        cost[:, cell] = -np.log(counts / counts.sum())[ids_RN[:, cell]]
    return cost.reshape(tokens.ids_KAN.shape)


def gradient(tokens: TokenSet, tokenizer: VQTokenizer, seed: int) -> np.ndarray:
    """Mean squared difference of neighbouring pixels in the cell of the decoded image."""
    K, A, N = tokens.ids_KAN.shape
    ids_RN = torch.from_numpy(tokens.ids_KAN.reshape(-1, N).astype(np.int64))
    found = []
    for part in ids_RN.split(512):
        image = tokenizer.decode(part).cpu().float().mean(-1) / 255
        down, right = image.diff(dim=1).pow(2), image.diff(dim=2).pow(2)
        slope = F.pad(down, (0, 0, 0, 1)) + F.pad(right, (0, 1))
        found.append(F.adaptive_avg_pool2d(slope[:, None], tokens.grid).flatten(1).numpy())
    return np.concatenate(found).reshape(K, A, N)


class TokenViT(nn.Module):
    """Two layers over the cells' code vectors and a class token, taught to name the class."""

    def __init__(self, code_dim: int, cells: int, classes: int, width: int = VIT_WIDTH, heads: int = VIT_HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.read = nn.Linear(code_dim, width)
        self.place = nn.Parameter(torch.randn(1 + cells, width) * 0.02)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(2)
        )
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, codes_BND: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the classes, and the class token's attention (B,N) to the cells in the last layer."""
        x = F.pad(self.read(codes_BND), (0, 0, 1, 0)) + self.place
        B, T, D = x.shape
        for layer in range(2):
            parts = self.qkv[layer](self.norms[2 * layer](x)).view(B, T, 3, self.heads, D // self.heads)
            q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
            attention = (q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5).softmax(-1)
            x = x + self.mix[layer]((attention @ v).transpose(1, 2).reshape(B, T, D))
            x = x + self.ffn[layer](self.norms[2 * layer + 1](x))
        return self.out(x[:, 0]), attention[:, :, 0, 1:].mean(1)


def vit_cls(tokens: TokenSet, tokenizer: VQTokenizer, seed: int) -> np.ndarray:
    """Class attention of a small ViT trained on the same labels: the closest to the paper's scorer."""
    K, A, N = tokens.ids_KAN.shape
    table_VD = tokenizer.quantiser.table().detach().cpu()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = TokenViT(table_VD.shape[1], N, len(tokens.names))
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    labels_K = torch.from_numpy(tokens.labels_K.astype(np.int64))
    for step in range(VIT_STEPS):
        rows = shuffled(K, VIT_BATCH, step, seed)
        view = step % A
        logits, _ = model(table_VD[torch.from_numpy(tokens.ids_KAN[rows, view].astype(np.int64))])
        loss = F.cross_entropy(logits, labels_K[torch.from_numpy(rows)])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    model.eval()
    found = []
    with torch.inference_mode():
        for part in torch.from_numpy(tokens.ids_KAN.reshape(-1, N).astype(np.int64)).split(1024):
            found.append(model(table_VD[part])[1].numpy())
    return np.concatenate(found).reshape(K, A, N)


Scorer = Callable[[TokenSet, VQTokenizer, int], np.ndarray]
SCORERS: dict[str, Scorer] = {"uniform": uniform, "surprisal": surprisal, "gradient": gradient, "vit-cls": vit_cls}


class ScorerError(ValueError):
    """A scorer that does not exist."""


def scores_of(
    name: str, tokens: TokenSet, tokenizer: VQTokenizer, folder: Path | None = None, seed: int = 0
) -> tuple[np.ndarray, float]:
    """Scores (K,A,N) in float16 that sum to about 1 an image, and the seconds that they took.

    Args:
        name: in SCORERS.
        tokens: an encoded split.
        tokenizer: that encoded it.
        folder: of the split's shards; scores are kept beside them.
        seed: of a scorer that is trained.

    Raises:
        ScorerError: unknown name.
    """
    if name not in SCORERS:
        raise ScorerError(f"mtar.scorer={name!r}: one of {', '.join(SCORERS)}")
    path = folder / f"scores-{name}-{seed}.safetensors" if folder else None
    if path and path.is_file():
        try:
            held = load_file(path)
            if held["scores"].shape == tokens.ids_KAN.shape:
                return held["scores"], float(held["seconds"][0])
        except (SafetensorError, KeyError, OSError):
            path.unlink()  # cut off while it was written: it is made again
    began = time.perf_counter()
    raw = np.maximum(SCORERS[name](tokens, tokenizer, seed), 0)
    total = raw.sum(-1, keepdims=True)
    share = np.where(total > 0, raw / np.maximum(total, 1e-12), 1 / raw.shape[-1]) + FLOOR
    scores, seconds = share.astype(np.float16), time.perf_counter() - began
    if path:
        save_file({"scores": scores, "seconds": np.array([seconds], np.float32)}, path)
    return scores, seconds
