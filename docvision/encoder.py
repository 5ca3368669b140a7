"""Pixels to memory: a convolutional (or timm) backbone, one transformer layer over the grid, two small heads.

    image (B,C,H,W), 0 = paper, 1 = ink  ->  grid (h, w) = (ceil(H/16), ceil(W/8)) of D channels

The grid idea (H/16 x W/8, text rows keep their own feature row) is TableSeq's FCN-H16, arXiv 2604.16070; the
blocks are ours: pre-norm residual pairs of 3x3 convolutions.  Normalisation is a LayerNorm over the channels
of each pixel, never over pixels, and every map is multiplied by its mask before a 3x3 convolution.  So a
sample's states do not depend on what it was batched with, in training as in inference.

Shape suffixes: B batch, C channels, H/W pixels, h/w grid, M = h*w memory cells, D model width, K maps.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.config import EncoderConfig

STRIDES = ((2, 2), (2, 2), (2, 2), (2, 1))
BLOCK_CLASSES = 12  # docvision.maps.CLASSES, background first
MAPS = {"line": 1, "block": BLOCK_CLASSES, "rows": 1, "columns": 1, "corners": 1}
"""Name -> channels of the structure maps, in the order of the head's output."""


class Memory(NamedTuple):
    """What the decoder and the heads look at."""

    states_BMD: Tensor
    mask_BM: Tensor
    """True where a cell holds image, False for padding; or a bias of the cross-attention, -inf for padding."""
    grid: tuple[int, int]
    maps: dict[str, Tensor]
    """Structure maps as logits at (2h, w) by name (B,K,2h,w); empty unless asked for."""


class VisionEncoder(nn.Module):
    """Backbone, 2-D positions, transformer layers, structure head.

    Args:
        config: backbone and sizes.
        width: D, channels of the memory.
        channels: image channels, 1 for grey.
        heads: attention heads of the transformer layers.
    """

    def __init__(self, config: EncoderConfig, width: int = 256, channels: int = 1, heads: int = 8) -> None:
        super().__init__()
        self.width = width
        if config.backbone == "fcn":
            self.backbone: nn.Module = FcnBackbone(config.widths, config.depths, channels)
        else:
            self.backbone = TimmBackbone(config.backbone.removeprefix("timm/"), config.pretrained, channels)
        fine, coarse = self.backbone.out_channels
        self.project = nn.Conv2d(coarse, width, 1)
        self.layers = nn.ModuleList(GridLayer(width, heads, 4 * width) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.structure = StructureHead(fine, coarse)
        self.prior = config.prior

    def forward(self, pixels_BCHW: Tensor, size_B2: Tensor | None = None, maps: bool = False) -> Memory:
        """Encode a batch padded at the right and the bottom.

        Args:
            pixels_BCHW: ink in [0, 1], white paper 0.
            size_B2: height and width in pixels of each sample inside the padding; None for no padding.
            maps: also compute the structure maps; with ``config.prior`` the mask is then their additive bias.
        """
        fine_BCHW, coarse_BChw, fine_mask, mask_B1hw = self._features(pixels_BCHW, size_B2)
        grid_BhwD = self.project(coarse_BChw).permute(0, 2, 3, 1)
        h, w = grid_BhwD.shape[1:3]
        position_hwD = sincos_2d(h, w, self.width, grid_BhwD)
        states_BMD = (grid_BhwD + position_hwD).flatten(1, 2)
        mask_BM = mask_B1hw.flatten(1) > 0
        for layer in self.layers:
            states_BMD = layer(states_BMD, mask_BM)
        found = self.structure(fine_BCHW, coarse_BChw, fine_mask) if maps else {}
        mask = structure_prior(found, mask_BM, (h, w)) if found and self.prior else mask_BM
        return Memory(self.norm(states_BMD), mask, (h, w), found)

    def structure_maps(self, pixels_BCHW: Tensor, size_B2: Tensor | None = None) -> dict[str, Tensor]:
        """The structure maps alone, without attention over the grid (a page has many cells)."""
        fine_BCHW, coarse_BChw, fine_mask, _ = self._features(pixels_BCHW, size_B2)
        return self.structure(fine_BCHW, coarse_BChw, fine_mask)

    def _features(self, pixels_BCHW: Tensor, size_B2: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        B, _, H, W = pixels_BCHW.shape
        if size_B2 is None:
            size_B2 = torch.tensor([[H, W]], device=pixels_BCHW.device).expand(B, 2)
        return self.backbone(pixels_BCHW.contiguous(memory_format=torch.channels_last), size_B2)


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of each pixel of a (B,C,H,W) map kept in channels-last memory."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return super().forward(x_BCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(norm(x)))), the last convolution starting near zero."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = ChannelNorm(channels, eps=1e-4)
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.kaiming_normal_(self.first.weight, nonlinearity="relu")
        nn.init.normal_(self.second.weight, std=0.3 / math.sqrt(9 * channels))
        nn.init.zeros_(self.second.bias)

    def forward(self, x_BCHW: Tensor, mask_B1HW: Tensor | None) -> Tensor:
        hidden = self.first(masked(self.norm(x_BCHW), mask_B1HW))
        return x_BCHW + self.second(masked(F.relu(hidden), mask_B1HW))


class Backbone(nn.Module):
    """Stages from the pixels on, the first of which may be frozen."""

    frozen = 0

    @abstractmethod
    def stages_of_modules(self) -> list[list[nn.Module]]:
        """Modules by stage; each weight belongs to one of them directly."""

    def weights_by_stage(self) -> list[list[nn.Parameter]]:
        return [[w for m in stage for w in m.parameters(recurse=False)] for stage in self.stages_of_modules()]

    def freeze(self, count: int) -> None:
        """Leave the first stages as they are, the statistics of their norms included.

        Raises:
            ValueError: there are fewer stages.
        """
        stages = self.stages_of_modules()
        if count > len(stages):
            raise ValueError(f"optim.frozen_stages={count}: this backbone has {len(stages)} stages")
        self.frozen = count
        for weights in self.weights_by_stage()[:count]:
            for weight in weights:
                weight.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> Backbone:
        super().train(mode)
        for stage in self.stages_of_modules()[: self.frozen]:
            for module in stage:
                module.training = False
        return self


class FcnBackbone(Backbone):
    """Four stages; gives the maps at (H/8, W/8) and (H/16, W/8) with their masks."""

    def __init__(self, widths: tuple[int, ...], depths: tuple[int, ...], channels: int) -> None:
        super().__init__()
        self.downs = nn.ModuleList()
        self.stages = nn.ModuleList()
        before = channels
        for index, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            # The last stage halves the height only. Padding 1 on both axes gives ceil(n / stride) everywhere.
            down = nn.Conv2d(before, width, 3, stride=STRIDES[index], padding=1)
            nn.init.kaiming_normal_(down.weight, nonlinearity="relu")
            self.downs.append(down)
            self.stages.append(nn.ModuleList(ResidualBlock(width) for _ in range(depth)))
            before = width
        self.norms = nn.ModuleList(ChannelNorm(width, eps=1e-4) for width in widths)
        self.out_channels = (widths[2], widths[3])

    def stages_of_modules(self) -> list[list[nn.Module]]:
        return [
            [module for part in parts for module in part.modules()]
            for parts in zip(self.downs, self.stages, self.norms, strict=True)
        ]

    def forward(self, x_BCHW: Tensor, size_B2: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        outputs = []
        mask = grid_mask(size_B2, x_BCHW.shape[2:])
        for down, stage, norm, stride in zip(self.downs, self.stages, self.norms, STRIDES, strict=True):
            x_BCHW = F.relu(down(masked(x_BCHW, mask)))
            size_B2 = (size_B2 + size_B2.new_tensor(stride) - 1) // size_B2.new_tensor(stride)
            mask = grid_mask(size_B2, x_BCHW.shape[2:])
            for block in stage:
                x_BCHW = block(x_BCHW, mask)
            x_BCHW = norm(x_BCHW)
            outputs.append((masked(x_BCHW, mask), mask))
        (fine, fine_mask), (coarse, coarse_mask) = outputs[-2:]
        full = [_full_mask(m, x) for m, x in ((fine_mask, fine), (coarse_mask, coarse))]
        return fine, coarse, full[0], full[1]


class TimmBackbone(Backbone):
    """Any timm model with ``features_only``; its maps are resampled to the fcn's two grids.

    The strides of a timm model are not ours: the first map at least as fine as 1/8 and the one at 1/16 (or the
    last) are taken.  These models normalise as they like, so padding-invariance holds only as far as they keep it.
    A stage is what lies between one of the model's maps and the next.
    """

    def __init__(self, name: str, pretrained: bool, channels: int) -> None:
        super().__init__()
        self.model = timm_model(name, pretrained, channels)
        reductions = self.model.feature_info.reduction()
        self.fine = max((i for i, r in enumerate(reductions) if r <= 8), default=0)
        self.coarse = max((i for i, r in enumerate(reductions) if r <= 16), default=len(reductions) - 1)
        if self.coarse < len(reductions) - 1:  # stages behind it would be carried along and never run
            self.model = timm_model(name, pretrained, channels, tuple(range(self.coarse + 1)))
        channels_of = self.model.feature_info.channels()
        self.out_channels = (channels_of[self.fine], channels_of[self.coarse])

    def stages_of_modules(self) -> list[list[nn.Module]]:
        told = self.model.feature_info.module_name()
        names = [name for name, _ in self.model.named_modules()]
        # Some models are flattened to features, others stand one level further in.
        ends = [next(n for n in names if n in (end, end.replace(".", "_"), f"model.{end}")) for end in told]
        stages: list[list[nn.Module]] = [[] for _ in ends]
        passed: list[str] = []
        for name, module in self.model.named_modules():
            if name in ends:
                passed.append(name)
            behind = sum(name != end and not name.startswith(f"{end}.") for end in passed)
            stages[min(behind, len(ends) - 1)].append(module)
        return stages

    def forward(self, x_BCHW: Tensor, size_B2: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        H, W = x_BCHW.shape[2:]
        # Some backbones floor where we ceil, so the image is padded to whole cells of 32 pixels first.
        padded = F.pad(x_BCHW, (0, -W % 32, 0, -H % 32))
        features = self.model(padded)
        shape8 = (-(-H // 8), -(-W // 8))
        shape16 = (-(-H // 16), -(-W // 8))
        fine = F.interpolate(features[self.fine], (padded.shape[2] // 8, padded.shape[3] // 8), mode="bilinear")
        coarse = F.interpolate(features[self.coarse], (padded.shape[2] // 16, padded.shape[3] // 8), mode="bilinear")
        eight, sixteen = size_B2.new_tensor((8, 8)), size_B2.new_tensor((16, 8))
        fine_mask = _full_mask(grid_mask((size_B2 + 7) // eight, shape8), fine)
        coarse_mask = _full_mask(grid_mask((size_B2 + sixteen - 1) // sixteen, shape16), coarse)
        fine = fine[:, :, : shape8[0], : shape8[1]]
        coarse = coarse[:, :, : shape16[0], : shape16[1]]
        fine_mask = fine_mask.expand(-1, -1, *shape8)
        coarse_mask = coarse_mask.expand(-1, -1, *shape16)
        return fine * fine_mask, coarse * coarse_mask, fine_mask, coarse_mask


def timm_model(name: str, pretrained: bool, channels: int, maps: tuple[int, ...] | None = None) -> nn.Module:
    """A timm model that gives its maps, or some of them.

    Raises:
        ValueError: no timm, no such model, or its weights are neither on this disk nor to be had.
    """
    try:
        import timm
    except ImportError as error:
        raise ValueError("encoder.backbone=timm/... needs timm: pip install 'docvision[train]'") from error
    chosen: dict[str, Any] = {} if maps is None else {"out_indices": maps}
    try:
        return timm.create_model(name, features_only=True, pretrained=pretrained, in_chans=channels, **chosen)
    except Exception as error:  # what is raised differs from model to model, and with the hub's client
        said = " ".join(str(error).split())[:160]
        if name.partition(".")[0] not in timm.list_models():
            raise ValueError(f"encoder.backbone=timm/{name}: timm has no such model: {said}") from error
        if not pretrained:
            raise ValueError(f"encoder.backbone=timm/{name} gives no maps to read from: {said}") from error
        source = timm.get_pretrained_cfg(name)
        raise ValueError(
            f"encoder.pretrained=true: the weights of timm/{name} are not on this disk and were not fetched:"
            f" docvision models fetch {source.hf_hub_id if source and source.hf_hub_id else f'timm/{name}'}, or leave"
            f" pretrained out ({said})"
        ) from error


class GridLayer(nn.Module):
    """Pre-norm transformer encoder layer over the memory cells."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn = nn.Sequential(nn.Linear(width, ffn), nn.GELU(), nn.Linear(ffn, width))

    def forward(self, x_BMD: Tensor, mask_BM: Tensor) -> Tensor:
        B, M, D = x_BMD.shape
        qkv = self.qkv(self.attention_norm(x_BMD)).view(B, M, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_BM[:, None, None])
        x_BMD = x_BMD + self.out(attended.transpose(1, 2).reshape(B, M, D))
        return x_BMD + self.ffn(self.ffn_norm(x_BMD))


class StructureHead(nn.Module):
    """Both backbone maps to logits at (2h, w): text-line core, block class, row and column separators, corners."""

    def __init__(self, fine: int, coarse: int, hidden: int = 96) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(coarse, hidden, (2, 1), stride=(2, 1))
        self.skip = nn.Conv2d(fine, hidden, 1)
        # Two dilated 3x3 convolutions look 7 cells (56 px) around: enough to tell a caption from its paragraph.
        self.near = nn.Conv2d(hidden, hidden, 3, padding=1)
        self.far = nn.Conv2d(hidden, hidden, 3, padding=4, dilation=4)
        self.norm = ChannelNorm(hidden, eps=1e-4)
        self.out = nn.Conv2d(hidden, sum(MAPS.values()), 1)

    def forward(self, fine_BCHW: Tensor, coarse_BChw: Tensor, mask_B1HW: Tensor) -> dict[str, Tensor]:
        H = fine_BCHW.shape[2]
        # ceil(ceil(H/8)/2)*2 can be one row more than ceil(H/8).
        x = self.skip(fine_BCHW) + self.up(coarse_BChw)[:, :, :H]
        x = x + F.relu(self.near(x * mask_B1HW))
        x = self.norm(x + F.relu(self.far(x * mask_B1HW)))
        pieces = self.out(x).split(list(MAPS.values()), dim=1)
        return dict(zip(MAPS, pieces, strict=True))


def structure_prior(maps: dict[str, Tensor], mask_BM: Tensor, grid: tuple[int, int]) -> Tensor:
    """Key bias (B,M) of the decoder's cross-attention from the separator maps, -inf in the padding.

    As in TableSeq (arXiv 2604.16070): the strongest row separator of each grid row, the strongest column separator of
    each grid column and the corners, as z-scores over the sample's cells, scaled by how sure the maps are.  Unlike in
    its release the maps are supervised, and padding takes no part.  No gradient flows back.
    """
    logits = torch.cat([maps[name] for name in ("rows", "columns", "corners")], 1).detach()
    probability = F.interpolate(logits.sigmoid(), grid, mode="bilinear", align_corners=False)
    valid_BM = mask_BM.view(-1, 1, *grid)
    probability = probability * valid_BM
    rows, columns, corners = probability.unbind(1)
    mixed_BM = (rows.amax(2, keepdim=True) + columns.amax(1, keepdim=True) + 0.5 * corners).flatten(1)
    count_B1 = mask_BM.sum(1, keepdim=True)
    centred_BM = (mixed_BM - (mixed_BM * mask_BM).sum(1, keepdim=True) / count_B1) * mask_BM
    deviation_B1 = (centred_BM.square().sum(1, keepdim=True) / count_B1).sqrt()
    p = probability.clamp(1e-6, 1 - 1e-6)
    entropy_B1 = (-(p * p.log() + (1 - p) * (1 - p).log()) * valid_BM).sum((1, 2, 3))[:, None] / (3 * count_B1)
    bias_BM = (2 * (1 - entropy_B1) * centred_BM / (deviation_B1 + 1e-6)).clamp(-4, 4)
    return bias_BM.masked_fill(~mask_BM, -torch.inf)


def masked(x_BCHW: Tensor, mask_B1HW: Tensor | None) -> Tensor:
    """Zero the padding, so that a convolution sees there what it sees beyond the border of a lone sample."""
    return x_BCHW if mask_B1HW is None else x_BCHW * mask_B1HW


def grid_mask(size_B2: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor | None:
    """1 inside each sample and 0 in the padding, (B,1,H,W); None when nothing is padded, to save the products."""
    H, W = shape
    if bool((size_B2[:, 0] >= H).all()) and bool((size_B2[:, 1] >= W).all()):
        return None
    rows_BH = torch.arange(H, device=size_B2.device) < size_B2[:, :1]
    columns_BW = torch.arange(W, device=size_B2.device) < size_B2[:, 1:]
    return (rows_BH[:, None, :, None] & columns_BW[:, None, None, :]).float()


def _full_mask(mask_B1HW: Tensor | None, like_BCHW: Tensor) -> Tensor:
    if mask_B1HW is not None:
        return mask_B1HW
    return like_BCHW.new_ones(like_BCHW.shape[0], 1, *like_BCHW.shape[2:])


def sincos_2d(h: int, w: int, width: int, like: Tensor) -> Tensor:
    """Fixed sine and cosine positions (h,w,D): the first half of the channels codes y, the second half x."""
    quarter = width // 4
    frequency = torch.exp(-math.log(10_000.0) * torch.arange(quarter, device=like.device) / quarter)
    y = torch.arange(h, device=like.device)[:, None] * frequency
    x = torch.arange(w, device=like.device)[:, None] * frequency
    code_y = torch.cat([y.sin(), y.cos()], -1)[:, None].expand(h, w, -1)
    code_x = torch.cat([x.sin(), x.cos()], -1)[None].expand(h, w, -1)
    return torch.cat([code_y, code_x], -1).to(like.dtype)
