"""Independent heads on the core's state, the known method that others are measured against.

Head i reads the state of one position and predicts the token i further on than the core does (Gloeckle et al.,
arXiv 2404.19737; post hoc on a frozen core it is Medusa).  The heads do not see each other's tokens.  Each is a
decoder layer without self-attention, because a layer of the paper's kind would need a cache of its own.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.decoder import CausalDecoder
from docvision.methods.base import (
    PAD,
    Draft,
    Drafter,
    LookLayer,
    Method,
    Request,
    Step,
    TextRun,
    select_seen,
)


class IndependentHeads(Method):
    """Extra output heads.

    Args:
        decoder: the core, whose output layer the heads share.
        heads: tokens predicted beyond the core's own.
        ffn: inner width of a head's feed-forward.
        image: whether the heads look at the image.
        target: ``model`` to learn the core's own next tokens (what the verifier compares with), ``gold`` the truth.
    """

    trained = True

    def __init__(
        self, decoder: CausalDecoder, heads: int = 4, ffn: int = 256, image: bool = True, target: str = "model"
    ) -> None:
        super().__init__()
        width = decoder.embedding.embedding_dim
        self.image = image and decoder.config.cross_attention
        self.target = target
        self.layers = nn.ModuleList(LookLayer(width, decoder.config.heads, ffn, self.image) for _ in range(heads))
        for layer in self.layers:
            layer.start_from(decoder.layers[-1])
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-6) for _ in range(heads))

    def losses(self, run: TextRun, riders_BED: Tensor | None) -> dict[str, Tensor]:
        labels_BT = run.predicted() if self.target == "model" else run.targets_BT
        total = run.hidden_BTD.new_zeros(())
        figures: dict[str, Tensor] = {}
        for ahead, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True), start=1):
            if labels_BT.shape[1] <= ahead:
                break
            known = (labels_BT[:, ahead:] != PAD) & (run.targets_BT[:, :-ahead] != PAD)
            if not bool(known.any()):
                break
            states = norm(layer(run.hidden_BTD[:, :-ahead], layer.look(run.memory)))
            logits = run.decoder.logits(states[known]).float()
            wanted = labels_BT[:, ahead:][known]
            total = total + F.cross_entropy(logits, wanted) / len(self.layers)
            figures[f"_top{ahead}"] = (logits.argmax(-1) == wanted).float().mean().detach()
        return {"": total} | figures

    def drafter(self, request: Request) -> Drafter:
        return HeadDrafter(self, request, **request.options)


class HeadDrafter(Drafter):
    """Drafts of one token a head.

    Args:
        method: the heads.
        request: the batch.
        heads: how many of them to use; None for all.
    """

    def __init__(self, method: IndependentHeads, request: Request, heads: int | None = None) -> None:
        self.method = method
        self.request = request
        self.count = len(method.layers) if heads is None else min(heads, len(method.layers))
        self.seen = [layer.look(request.memory) for layer in method.layers[: self.count]]
        self.state_B1D: Tensor | None = None
        self.position_B = request.prompt_BP[:, -1]

    def propose(self, limit: int) -> Draft | None:
        if self.state_B1D is None:
            return None
        count = min(self.count, limit)
        layers = zip(self.method.layers[:count], self.method.norms, self.seen, strict=False)
        states_BKD = torch.cat([norm(layer(self.state_B1D, seen)) for layer, norm, seen in layers], 1)
        logits = self.request.model.decoder.logits(states_BKD).float()
        places_BK = self.position_B[:, None] + 1 + torch.arange(count, device=logits.device)
        tokens = self.request.choose(logits, places_BK)
        sure = logits.softmax(-1).gather(2, tokens[..., None])[..., 0]
        return Draft(tokens, torch.full_like(self.position_B, count), sure)

    def observe(self, step: Step) -> None:
        self.state_B1D, self.position_B = step.last_hidden()[:, None], step.position_B

    def select(self, rows: Tensor) -> None:
        self.seen = [select_seen(seen, rows) for seen in self.seen]
        self.position_B = self.position_B[rows]
        if self.state_B1D is not None:
            self.state_B1D = self.state_B1D[rows]
