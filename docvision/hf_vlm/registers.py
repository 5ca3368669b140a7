"""PTP on a frozen model: one register row, and LoRA that is active on registers alone.

The paper trains registers together with the model; then the model's answers become those of another model.  Here the
text's own tokens never meet a trained weight: the low-rank matrices are added behind the registers' columns only, and
no token sees a register.  So the answers are those of the model as it was, and one copy of it serves with and without.

Shape suffixes: B batch, S columns, N text tokens, E registers, D width, R rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.hf_vlm.decoder import VlmDecoder, VlmError
from docvision.methods.base import Drafter, Request, Riders
from docvision.methods.ptp import RegisterDrafter, Registers

NOT_OURS = ("lora_", "encoder_attn", "crossattention")
"""Layers of somebody's own LoRA, and those that see the encoder's columns."""


class RiderLora(nn.Module):
    """Low-rank additions to linear layers, for the columns from ``first`` on.

    Args:
        decoder: whose linear layers get one each.
        rank: R.
        targets: ends of the names of the layers meant; none for all.
    """

    def __init__(self, decoder: VlmDecoder, rank: int, targets: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.first: int | None = None
        """First column that gets the additions; None for none."""
        self.learning: int | None = None
        """The same for forwards with gradient, the backward pass's own recomputations included."""
        self.scale = 2.0
        self.down, self.up = nn.ParameterDict(), nn.ParameterDict()
        self.hooks = []
        for name, layer in decoder.stack.layers.named_modules():
            wanted = not targets or name.endswith(targets)
            if not isinstance(layer, nn.Linear) or any(part in name for part in NOT_OURS) or not wanted:
                continue
            key = name.replace(".", "-")
            self.down[key] = nn.Parameter(torch.randn(rank, layer.in_features) * layer.in_features**-0.5)
            self.up[key] = nn.Parameter(torch.zeros(layer.out_features, rank))
            self.hooks.append(layer.register_forward_hook(self._added(key)))
        if not self.hooks:
            raise VlmError(f"no linear layer of the decoder ends in {', '.join(targets)}: leave targets out for all")

    def _added(self, key: str) -> Any:
        def add(layer: nn.Module, given: tuple[Tensor, ...], output_BSD: Tensor) -> Tensor | None:
            first, x_BSD = self.learning if torch.is_grad_enabled() else self.first, given[0]
            if first is None or x_BSD.dim() != 3 or x_BSD.shape[1] <= first:
                return None
            down, up = self.down[key], self.up[key]
            riders_BED = F.linear(F.linear(x_BSD[:, first:].to(down.dtype), down), up) * self.scale
            changed_BED = output_BSD[:, first:] + riders_BED.to(output_BSD.dtype)
            return torch.cat([output_BSD[:, :first], changed_BED], 1)

        return add

    def remove(self) -> None:
        """Take the additions out of the model."""
        for hook in self.hooks:
            hook.remove()


class GatedRegisters(Registers):
    """Registers for a model of Hugging Face.

    Args:
        decoder: of the model.
        registers: n, the longest group that is trained.
        rank: of the low-rank additions.
        targets: ends of the names of the linear layers that get one; empty for all of them.
        share: share of the anchors that get a group in a training batch; less is cheaper.
        target: ``model`` to learn the model's own next tokens (what the verifier compares with), ``gold`` the truth.
    """

    def __init__(
        self,
        decoder: VlmDecoder,
        registers: int = 4,
        rank: int = 16,
        targets: tuple[str, ...] | list[str] = (),
        share: float = 1.0,
        target: str = "model",
    ) -> None:
        super().__init__(decoder, registers, 0, share, target)  # type: ignore[arg-type] # what it asks of one is there
        rows = decoder.stack.get_input_embeddings().weight.detach().float()
        with torch.no_grad():  # a fresh row among the others
            self.register.copy_(rows.mean(0) + rows.std() * torch.randn(rows.shape[1], device=rows.device))
        self.lora = RiderLora(decoder, rank, tuple(targets))
        self.dtype = decoder.stack.dtype
        self.behind = 0
        decoder.riding = self.active

    def riders(self, anchor_BA: Tensor, node_A: Tensor, nodes: int, registers: int) -> Riders:
        made = super().riders(anchor_BA, node_A, nodes, registers)
        self.behind = nodes
        made.embeddings_BED = made.embeddings_BED.to(self.dtype)
        return made

    @contextmanager
    def active(self, columns: int) -> Iterator[None]:
        """Additions on, for a forward of this many columns of which the last are registers."""
        assert self.behind < columns, (self.behind, columns)
        self.lora.first = self.behind
        try:
            yield
        finally:
            self.lora.first = None

    def drafter(self, request: Request) -> Drafter:
        return RegisterDrafter(self, request, **request.options)
