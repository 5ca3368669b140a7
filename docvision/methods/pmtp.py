"""P-MTP: one light module drafts as deep as it is sure, trained from near to far (arXiv 2606.24447).

Only the paper's abstract is public, so the formulas are our reading of it.

- Module: state of the core and embedding of the next token in, state for the token after it out; applied to its own
  output for the next depth.  One fused projection, a look at the image (may be left out), one feed-forward; no
  self-attention and so no cache: the prefix is in the core's state, the path in the module's own.
- Progressive Curriculum Loss: the loss at anchor i and depth k is weighted by R * C, both without gradient.
  R, cumulative path reliability, is the product of the probabilities that the path's shallower depths gave to
  their targets: the chance that this depth is reached at all.  C, retrospective target consistency, is the
  probability that the same target got from one step nearer (anchor i+1, depth k-1): a token that cannot be told
  from nearer by is noise from afar.  For k=1 nearer by means the core, and its probability counts relative to its
  best token's, because its coordinates are spread by training, not by doubt.  Far depths open as near ones become
  right.
- Confidence-Gated Dynamic Drafting: drafting goes on while the path's probability exceeds what one more token
  costs, in measured seconds.
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
    MethodError,
    Request,
    Seen,
    Step,
    TextRun,
    select_seen,
)
from docvision.pace import clock

DECAY = 0.6
"""Weight of each depth relative to the one before, FastMTP's (arXiv 2509.18362): the baseline of the curriculum."""
WEIGHTS = ("curriculum", "uniform", "decay")


class ProgressiveModule(Method):
    """The recursive module.

    Args:
        decoder: the core, whose embedding and output layer the module shares.
        depth: K, steps trained.
        ffn: inner width of the feed-forward.
        image: whether the module looks at the image.
        weights: ``curriculum``, ``uniform`` or ``decay``.
        least: smallest curriculum weight, so that no depth dies.
        target: ``model`` to learn the core's own next tokens (what the verifier compares with), ``gold`` the truth.
        share: share of each batch's tokens, a stretch drawn anew every time, from which drafts start in training; less
            is cheaper, and neighbouring anchors teach much the same.
        characters: draft only ids below this one and the end of the sequence, 0 for all; a smaller output layer.
    """

    trained = True

    def __init__(
        self,
        decoder: CausalDecoder,
        depth: int = 8,
        ffn: int = 256,
        image: bool = True,
        weights: str = "curriculum",
        least: float = 0.02,
        target: str = "model",
        share: float = 1.0,
        characters: int = 0,
    ) -> None:
        super().__init__()
        if weights not in WEIGHTS:
            raise MethodError(f"pmtp: weights={weights!r}: one of {', '.join(WEIGHTS)}")
        width = decoder.embedding.embedding_dim
        self.depth, self.weights, self.least, self.target = depth, weights, least, target
        self.share, self.characters = share, characters
        self._stretch = slice(None)
        self.state_norm = nn.RMSNorm(width, eps=1e-6)
        self.token_norm = nn.RMSNorm(width, eps=1e-6)
        self.fuse = nn.Linear(2 * width, width, bias=False)
        with torch.no_grad():  # state and token start mixed, not scrambled
            self.fuse.weight.mul_(0.2)
            self.fuse.weight += 0.5 * torch.eye(width).repeat(1, 2)
        self.layer = LookLayer(width, decoder.config.heads, ffn, image and decoder.config.cross_attention)
        self.layer.start_from(decoder.layers[-1])
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, state_BSD: Tensor, embedded_BSD: Tensor, seen: Seen) -> Tensor:
        """State that predicts the token after the embedded one."""
        fused = self.fuse(torch.cat([self.state_norm(state_BSD), self.token_norm(embedded_BSD)], -1))
        return self.norm(self.layer(fused, seen))

    def expand(self, inputs_BT: Tensor, targets_BT: Tensor, noise: torch.Generator) -> None:
        """Adds nothing to the forward; draws where the anchors of this batch stand."""
        T = inputs_BT.shape[1]
        count = min(T, round(self.share * T) + self.depth)
        start = int(torch.randint(T - count + 1, (), generator=noise)) if count < T else 0
        self._stretch = slice(start, start + count)

    def losses(self, run: TextRun, riders_BED: Tensor | None) -> dict[str, Tensor]:
        """Weighted cross-entropy over all depths, divided by the number of terms, not by the weights."""
        run = run.part(self._stretch)
        labels_BT = run.predicted() if self.target == "model" else run.targets_BT
        T = labels_BT.shape[1]
        seen = self.layer.look(run.memory)
        state = run.hidden_BTD
        reliable_BT = torch.ones(labels_BT.shape, device=labels_BT.device)
        with torch.no_grad():
            known_BTV = run.decoder.logits(run.hidden_BTD).float()
            nearer_BT = (known_BTV.gather(2, labels_BT[..., None]) - known_BTV.amax(2, keepdim=True))[..., 0].exp()
        losses, figures, count = [], {}, 0
        for depth in range(1, min(self.depth, T - 1) + 1):
            # Anchors 0 .. T-depth-1: token x_{i+depth} goes in, x_{i+depth+1} is to come out.
            state = self(state[:, : T - depth], run.decoder.embed(run.inputs_BT[:, depth:]), seen)
            labels = labels_BT[:, depth:]
            known = (labels != PAD) & (run.targets_BT[:, : T - depth] != PAD)
            if not bool(known.any()):
                break
            scores, right = label_scores(run.decoder.logits(state), labels)
            reliable_BT, nearer_BT = reliable_BT[:, : T - depth], nearer_BT[:, 1 : T - depth + 1]
            weight = self._weights(depth, reliable_BT, nearer_BT)
            losses.append(-(weight * scores)[known].sum())
            count += int(known.sum())
            figures[f"_top{depth}"] = right[known].float().mean()
            figures[f"_weight{depth}"] = weight[known].mean()
            nearer_BT = scores.detach().exp()
            reliable_BT = reliable_BT * nearer_BT
        return {"": torch.stack(losses).sum() / max(1, count)} | figures if losses else {}

    def _weights(self, depth: int, reliable: Tensor, nearer: Tensor) -> Tensor:
        if self.weights == "curriculum":
            return (reliable * nearer).clamp(min=self.least)
        return torch.full_like(reliable, DECAY ** (depth - 1) if self.weights == "decay" else 1.0)

    def drafter(self, request: Request) -> Drafter:
        return ModuleDrafter(self, request, **request.options)


def label_scores(logits_BTV: Tensor, labels_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Log probability of the labels, and whether they are the best (B,T)."""
    logits_BTV = logits_BTV.float()
    chosen = logits_BTV.gather(2, labels_BT[..., None])[..., 0]
    return chosen - logits_BTV.logsumexp(2), logits_BTV.detach().argmax(-1) == labels_BT


class ModuleDrafter(Drafter):
    """Applies the module until the path's probability no longer pays.

    Args:
        method: the weights.
        request: the batch.
        depth: most tokens drafted; None for as many as were trained, more is allowed.
        gate: path probability at which drafting stops; None for the cost-optimal one, 0 for no gate.
    """

    def __init__(
        self, method: ProgressiveModule, request: Request, depth: int | None = None, gate: float | None = None
    ) -> None:
        self.method, self.request = method, request
        self.depth = method.depth if depth is None else depth
        self.gate = 0.0 if request.blind and gate is None else gate
        self.seen = method.layer.look(request.memory)
        decoder = request.model.decoder
        self.ids: Tensor | None = None
        """The reduced vocabulary, and the output layer for it alone."""
        if method.characters:
            device = decoder.embedding.weight.device
            self.ids = torch.cat([torch.arange(method.characters), torch.tensor([request.eos])]).to(device)
            self.output = decoder.embedding.weight[self.ids]
        self.state_B1D: Tensor | None = None
        self.next_B = request.prompt_BP[:, -1]
        self.position_B = torch.zeros_like(self.next_B)
        self.clock = clock(self.next_B.device.type)
        self.seconds = 0.0
        """Of one drafting step, a running mean."""

    def propose(self, limit: int) -> Draft | None:
        if self.state_B1D is None:
            return None
        pace = self.request.pace
        gate = pace.threshold(len(self.next_B), self.seconds) if self.gate is None else self.gate
        state, token_B = self.state_B1D, self.next_B
        tokens, sure = [], []
        path_B = torch.ones(len(token_B), device=token_B.device)
        length_B = torch.zeros_like(token_B)
        open_B = torch.ones_like(token_B, dtype=torch.bool)
        began = self.clock()
        for step in range(1, min(self.depth, limit) + 1):
            state = self.method(state, self.request.model.decoder.embed(token_B[:, None]), self.seen)
            token_B, sure_B = self._choose(state, self.position_B + step)
            tokens.append(token_B)
            sure.append(sure_B)
            length_B = length_B + open_B
            path_B = path_B * sure_B
            open_B = open_B & (path_B >= gate) & (token_B != self.request.eos)
            # One more step is taken by all rows: it must pay for the batch.
            if not bool(open_B.any() & (path_B.mean() >= gate)):
                break
        spent = (self.clock() - began) / max(1, len(tokens))
        self.seconds = spent if self.seconds == 0 else 0.8 * self.seconds + 0.2 * spent
        if not tokens:
            return None
        return Draft(torch.stack(tokens, 1), length_B, torch.stack(sure, 1))

    def _choose(self, state_B1D: Tensor, position_B: Tensor) -> tuple[Tensor, Tensor]:
        """Token and its probability for each row."""
        decoder = self.request.model.decoder
        if self.ids is None:
            logits = decoder.logits(state_B1D).float()
        else:
            logits = F.linear(state_B1D, self.output).float()
            # The sampling noise belongs to ids, so the reduced scores are put back into their places.
            whole = logits.new_full((*logits.shape[:2], decoder.embedding.num_embeddings), -1e9)
            logits = whole.index_copy(2, self.ids, logits)
        token_B1 = self.request.choose(logits, position_B[:, None])
        score = logits.gather(2, token_B1[..., None])[..., 0] - logits.logsumexp(2)
        return token_B1[:, 0], score.exp()[:, 0]

    def observe(self, step: Step) -> None:
        self.state_B1D = step.last_hidden()[:, None]
        self.next_B, self.position_B = step.next_B, step.position_B

    def select(self, rows: Tensor) -> None:
        self.seen = select_seen(self.seen, rows)
        self.next_B, self.position_B = self.next_B[rows], self.position_B[rows]
        if self.state_B1D is not None:
            self.state_B1D = self.state_B1D[rows]
