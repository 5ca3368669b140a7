"""The tokenizer: images to grids of codes and back.

LlamaGen's VQ (arXiv 2406.06525), scaled down: a convolutional encoder and decoder around a codebook of low
dimension, both sides normalised to unit length, the gradient passed straight through.  It has no level at full
resolution, so 28 pixels cost a CPU little.  Pixels are in [-1, 1].

Shape suffixes: B batch, C channels, H W pixels, h w cells, D code dimension, N = h*w cells, V codes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision import checkpoint
from docvision.config import build, to_plain
from imagegen.config import TokenizerConfig


class Quantised(NamedTuple):
    """What the codebook makes of an encoder's map."""

    map_BDhw: Tensor
    """Chosen codes, with the gradient of the encoder's output."""
    ids_BN: Tensor
    losses: dict[str, Tensor]


class ResidualBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return x_BCHW + self.body(x_BCHW)


class CellAttention(nn.Module):
    """One head of self-attention over all cells, as at the lowest level of LlamaGen's tokenizer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        q, k, v = (part.flatten(2).transpose(1, 2) for part in self.qkv(self.norm(x_BCHW)).chunk(3, 1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x_BCHW + self.out(mixed.transpose(1, 2).reshape(x_BCHW.shape))


class Quantiser(nn.Module):
    """Nearest code by cosine.

    Args:
        codes: V.
        dim: D.
        commitment: weight of the encoder's pull towards its code, beside 1 for the code's pull towards it.
        entropy: weight of H(assignment) - H(mean assignment); 0 leaves it out.
    """

    SOFTNESS = 0.1
    """Temperature of the soft assignment in the entropy term."""

    def __init__(self, codes: int, dim: int, commitment: float, entropy: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(codes, dim)
        nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(dim))
        self.commitment = commitment
        self.entropy = entropy

    def table(self) -> Tensor:
        """(V,D) codes of unit length."""
        return F.normalize(self.embedding.weight, dim=-1)

    def forward(self, z_BDhw: Tensor) -> Quantised:
        z_BND = F.normalize(z_BDhw.flatten(2).transpose(1, 2).float(), dim=-1)
        table_VD = self.table()
        cosine_BNV = z_BND @ table_VD.T
        ids_BN = cosine_BNV.argmax(-1)
        q_BND = F.embedding(ids_BN, table_VD)
        pull = (q_BND - z_BND.detach()).pow(2).mean() + self.commitment * (q_BND.detach() - z_BND).pow(2).mean()
        losses = {"codebook": pull}
        if self.entropy and self.training:
            share_BNV = (cosine_BNV / self.SOFTNESS).softmax(-1)
            losses["entropy"] = self.entropy * (_entropy(share_BNV).mean() - _entropy(share_BNV.mean((0, 1))))
        through = z_BND + (q_BND - z_BND).detach()
        return Quantised(through.transpose(1, 2).reshape(z_BDhw.shape), ids_BN, losses)


def _entropy(share: Tensor) -> Tensor:
    return -(share * share.clamp(min=1e-9).log()).sum(-1)


class VQTokenizer(nn.Module):
    """Images (B,C,H,W) in [-1, 1] to ids (B,N) and back.

    Args:
        config: widths, codes and weights of the losses.
        size: pixels a side.
        channels: 1 or 3.
    """

    def __init__(self, config: TokenizerConfig, size: int, channels: int) -> None:
        super().__init__()
        self.config, self.size, self.channels = config, size, channels
        self.grid = size // 2 ** len(config.widths)
        widths = config.widths
        down: list[nn.Module] = []
        for index, width in enumerate(widths):
            before = channels if index == 0 else widths[index - 1]
            down += [nn.Conv2d(before, width, 4, stride=2, padding=1)]
            down += [ResidualBlock(width) for _ in range(config.blocks)]
        down += [CellAttention(widths[-1])] if config.attention else []
        down += [nn.GroupNorm(8, widths[-1]), nn.SiLU(), nn.Conv2d(widths[-1], config.code_dim, 1)]
        self.encoder = nn.Sequential(*down)
        self.quantiser = Quantiser(config.codes, config.code_dim, config.commitment, config.entropy)
        up: list[nn.Module] = [nn.Conv2d(config.code_dim, widths[-1], 3, padding=1)]
        up += [CellAttention(widths[-1])] if config.attention else []
        for index in range(len(widths) - 1, -1, -1):
            up += [ResidualBlock(widths[index]) for _ in range(config.blocks)]
            after = widths[index - 1] if index else max(8, widths[0] // 3 // 8 * 8)
            up += [nn.Conv2d(widths[index], 4 * after, 3, padding=1), nn.PixelShuffle(2)]
        up += [nn.SiLU(), nn.Conv2d(after, channels, 3, padding=1)]
        self.decoder = nn.Sequential(*up)

    @property
    def device(self) -> torch.device:
        return self.quantiser.embedding.weight.device

    def forward(self, images_BCHW: Tensor) -> tuple[Tensor, Quantised]:
        """Reconstruction and what the codebook made of the images."""
        quantised = self.quantiser(self.encoder(images_BCHW))
        return self.decoder(quantised.map_BDhw), quantised

    @torch.inference_mode()
    def encode(self, images_BHWC: Tensor) -> Tensor:
        """Bytes (B,H,W,C) to ids (B,N), rows first.

        Raises:
            CheckpointError: images of another size or number of channels.
        """
        if tuple(images_BHWC.shape[1:]) != (self.size, self.size, self.channels):
            raise checkpoint.CheckpointError(
                f"images of {tuple(images_BHWC.shape[1:])}: this tokenizer was made for"
                f" {(self.size, self.size, self.channels)} (height, width, channels); set data.size and data.channels"
            )
        return self.quantiser(self.encoder(to_floats(images_BHWC.to(self.device)))).ids_BN

    @torch.inference_mode()
    def decode(self, ids_BN: Tensor) -> Tensor:
        """Ids (B,N) to bytes (B,H,W,C)."""
        codes_BND = F.embedding(ids_BN.to(self.device), self.quantiser.table())
        map_BDhw = codes_BND.transpose(1, 2).reshape(len(ids_BN), -1, self.grid, self.grid)
        return to_bytes(self.decoder(map_BDhw))

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write config.json and model.safetensors."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        plain = {"kind": "vq", "size": self.size, "channels": self.channels, "tokenizer": to_plain(self.config)}
        (folder / checkpoint.CONFIG).write_text(json.dumps(plain, indent=1), encoding="utf-8")
        checkpoint.save_weights(self, folder, dtype)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> VQTokenizer:
        """Load a folder that :meth:`save_pretrained` wrote.

        Raises:
            CheckpointError: no tokenizer there, or one that does not fit its config.
        """
        plain = read_config(Path(folder), "vq", "imagegen tokenize")
        config = build(TokenizerConfig, plain["tokenizer"], str(folder))
        model = cls(config, plain["size"], plain["channels"])
        checkpoint.load_weights(model, Path(folder))
        return model.eval()


def read_config(folder: Path, kind: str, maker: str) -> dict:
    """config.json of a model folder, checked to be of ``kind``.

    Raises:
        CheckpointError: missing, damaged, or of another kind.
    """
    path = folder / checkpoint.CONFIG
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise checkpoint.CheckpointError(f"{path}: cannot be read ({error}); {maker} makes one") from error
    if not isinstance(plain, dict) or plain.get("kind") != kind:
        raise checkpoint.CheckpointError(f"{path}: no {kind!r} model: give the folder that {maker} wrote")
    return plain


def to_floats(images_BHWC: Tensor) -> Tensor:
    """Bytes (B,H,W,C) to (B,C,H,W) in [-1, 1]."""
    return images_BHWC.permute(0, 3, 1, 2).float() / 127.5 - 1


def to_bytes(images_BCHW: Tensor) -> Tensor:
    """The inverse of :func:`to_floats`, rounded and clipped."""
    return ((images_BCHW.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


@torch.inference_mode()
def reconstruction_report(model: VQTokenizer, images_NHWC: Tensor, batch: int = 256) -> dict[str, float]:
    """How well images survive the tokenizer.

    Returns:
        ``psnr`` in dB of all pixels together, ``usage`` (share of the codes that occur), ``perplexity`` of the codes.
    """
    was_training = model.training
    model.eval()
    squares, pixels = 0.0, 0
    counts_V = torch.zeros(model.config.codes, dtype=torch.double)
    for start in range(0, len(images_NHWC), batch):
        part = images_NHWC[start : start + batch]
        ids_BN = model.encode(part)
        error = (model.decode(ids_BN).cpu().float() - part.float()) / 255
        squares += float(error.pow(2).sum())
        pixels += error.numel()
        counts_V += torch.bincount(ids_BN.flatten().cpu(), minlength=model.config.codes).double()
    model.train(was_training)
    share_V = counts_V / counts_V.sum()
    return {
        "psnr": -10 * math.log10(max(squares / pixels, 1e-10)),
        "usage": float((counts_V > 0).double().mean()),
        "perplexity": float(_entropy(share_V).exp()),
    }
