"""PTP: registers behind the text that predict the tokens after the next (arXiv 2603.15206).

After a token at position p, the anchor, stand up to n registers at positions p+1 .. p+n.  They share one embedding
row.  Register j sees the regular tokens up to its anchor and the registers before it in its own group, and predicts
the token at p+j+1; regular tokens see no register, so the core's own predictions do not change.

Choices of ours where the paper is silent: causal groups, so that weights trained with n=4 serve any smaller n;
registers appended instead of interleaved, which gives the same outputs; visibility by the anchor's position,
because a register's own position is ahead of what it may see.  For a frozen core, where one row is all there is to
learn, an optional adapter (a look at the image and a feed-forward) may follow the registers' states.

Verified decoding sends a group behind each node of the block, so that fresh drafts exist wherever the draft breaks;
``groups="last"`` sends one group behind the last node, which is narrower and pays when most drafts hold whole.
Blind decoding (``accept="all"``) needs only the latter.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.decoder import CausalDecoder
from docvision.methods.base import (
    PAD,
    Block,
    Draft,
    Drafter,
    LookLayer,
    Method,
    MethodError,
    Request,
    Riders,
    Seen,
    Step,
    TextRun,
    select_seen,
)


class Registers(Method):
    """One register row, and the adapter of a frozen core.

    Args:
        decoder: the core.
        registers: n, the longest group that is trained.
        adapter: inner width of the adapter's feed-forward, 0 for no adapter.
        share: share of the anchors that get a group in a training batch; less is cheaper.
        target: ``model`` to learn the core's own next tokens (what the verifier compares with), ``gold`` the truth.
        causal: a register sees those before it in its group; False lets it see all, and then n is fixed for ever.
    """

    trained = True

    def __init__(
        self,
        decoder: CausalDecoder,
        registers: int = 4,
        adapter: int = 0,
        share: float = 1.0,
        target: str = "gold",
        causal: bool = True,
    ) -> None:
        super().__init__()
        self.causal = causal
        width = decoder.embedding.embedding_dim
        self.registers, self.share, self.target = registers, share, target
        self.register = nn.Parameter(torch.randn(width) * 0.5)
        self.adapter = None
        if adapter:
            self.adapter = LookLayer(width, decoder.config.heads, adapter, decoder.config.cross_attention)
            self.adapter.start_from(decoder.layers[-1])
            self.norm = nn.RMSNorm(width, eps=1e-6)
        self._anchors_A: Tensor | None = None

    def expand(self, inputs_BT: Tensor, targets_BT: Tensor, noise: torch.Generator) -> Riders | None:
        anchors_A = (targets_BT != PAD).any(0).nonzero()[:, 0]
        if self.share < 1:
            keep = torch.rand(len(anchors_A), generator=noise) < self.share
            keep[torch.randint(len(anchors_A), (), generator=noise)] = True
            anchors_A = anchors_A[keep.to(anchors_A.device)]
        self._anchors_A = anchors_A
        return self.riders(anchors_A.expand(len(inputs_BT), -1), anchors_A, inputs_BT.shape[1], self.registers)

    def riders(self, anchor_BA: Tensor, node_A: Tensor, nodes: int, registers: int) -> Riders:
        """Groups behind anchors.

        Args:
            anchor_BA: the anchors' positions.
            node_A: their indices among the nodes.
            nodes: N.
            registers: size of a group.
        """
        B, A = anchor_BA.shape
        device = anchor_BA.device
        ahead = torch.arange(1, registers + 1, device=device)
        group_E = torch.arange(A, device=device).repeat_interleave(registers)
        ahead_E = ahead.repeat(A)
        sees_EN = torch.arange(nodes, device=device) <= node_A.repeat_interleave(registers)[:, None]
        sees_EE = group_E[:, None] == group_E
        if self.causal:
            sees_EE &= ahead_E <= ahead_E[:, None]
        positions_BE = (anchor_BA[..., None] + ahead).flatten(1)
        return Riders(self.register.expand(B, A * registers, -1), positions_BE, sees_EN, sees_EE)

    def finish(self, states_BSD: Tensor, seen: Seen) -> Tensor:
        """States of registers, ready for the core's output layer."""
        return states_BSD if self.adapter is None else self.norm(self.adapter(states_BSD, seen))

    def losses(self, run: TextRun, riders_BED: Tensor | None) -> dict[str, Tensor]:
        """Mean cross-entropy over the registers, and by depth how often they are right."""
        assert riders_BED is not None and self._anchors_A is not None
        labels_BT = run.predicted() if self.target == "model" else run.targets_BT
        ahead_n = torch.arange(1, self.registers + 1, device=labels_BT.device)
        place_E = (self._anchors_A[:, None] + ahead_n).flatten()
        inside_E = place_E < labels_BT.shape[1]
        labels_BE = torch.where(inside_E, labels_BT[:, place_E.clamp(max=labels_BT.shape[1] - 1)], PAD)
        # A row's padding has no anchors; behind its end there is nothing to learn either.
        anchored_BE = (run.targets_BT[:, self._anchors_A] != PAD).repeat_interleave(self.registers, 1)
        known = (labels_BE != PAD) & anchored_BE
        seen = None if self.adapter is None else self.adapter.look(run.memory)
        logits = run.decoder.logits(self.finish(riders_BED, seen)[known]).float()
        wanted = labels_BE[known]
        right = (logits.argmax(-1) == wanted).float().detach()
        depth = ahead_n.repeat(len(self._anchors_A)).expand_as(known)[known]
        figures = {f"_top{ahead}": right[depth == ahead].mean() for ahead in ahead_n.tolist() if (depth == ahead).any()}
        return {"": F.cross_entropy(logits, wanted)} | figures

    def drafter(self, request: Request) -> Drafter:
        return RegisterDrafter(self, request, **request.options)


class RegisterDrafter(Drafter):
    """Drafts from the group behind the last token kept.

    Args:
        method: the weights.
        request: the batch.
        registers: tokens drafted, at most as many as trained; None for all.
        groups: ``all`` for a group behind each node, ``last`` for one behind the last.
    """

    def __init__(self, method: Registers, request: Request, registers: int | None = None, groups: str = "all") -> None:
        if groups not in ("all", "last"):
            raise MethodError(f"ptp: groups={groups!r}: write all or last")
        if registers is not None and not 1 <= registers <= method.registers:
            raise MethodError(f"ptp: registers={registers}: 1 to {method.registers}, as many as were trained")
        if not method.causal and registers not in (None, method.registers):
            raise MethodError(
                f"ptp: registers={registers}: groups that are not causal keep the {method.registers} trained"
            )
        self.method, self.request = method, request
        self.registers = registers or method.registers
        self.only_last = groups == "last" or request.blind
        self.seen = None if method.adapter is None else method.adapter.look(request.memory)
        self.draft: Draft | None = None

    def propose(self, limit: int) -> Draft | None:
        draft, self.draft = self.draft, None
        if draft is None or not bool(draft.length_B.any()):
            return None
        assert draft.confidence_BK is not None
        return Draft(draft.tokens_BK[:, :limit], draft.length_B.clamp(max=limit), draft.confidence_BK[:, :limit])

    def ride(self, block: Block) -> Riders | None:
        nodes = block.tokens_BN.shape[1]
        first = nodes - 1 if self.only_last else block.root
        node_A = torch.arange(first, nodes, device=block.tokens_BN.device)
        return self.method.riders(block.positions_BN[:, first:], node_A, nodes, self.registers)

    def observe(self, step: Step) -> None:
        if step.riders_BED is None:
            self.draft = None
            return
        B, E, D = step.riders_BED.shape
        groups_BAnD = step.riders_BED.view(B, E // self.registers, self.registers, D)
        first = step.hidden_BND.shape[1] - groups_BAnD.shape[1]
        group_B = step.last_B - first
        rows = torch.arange(B, device=group_B.device)
        states_BnD = self.method.finish(groups_BAnD[rows, group_B.clamp(min=0)], self.seen)
        logits = self.request.model.decoder.logits(states_BnD).float()
        places_Bn = step.position_B[:, None] + 1 + torch.arange(self.registers, device=rows.device)
        tokens = self.request.choose(logits, places_Bn)
        sure = logits.softmax(-1).gather(2, tokens[..., None])[..., 0]
        # Under "last" a draft that broke off early leaves the row without a group.
        self.draft = Draft(tokens, torch.where(group_B >= 0, self.registers, 0), sure)

    def select(self, rows: Tensor) -> None:
        self.seen = select_seen(self.seen, rows)
        if self.draft is not None:
            sure = self.draft.confidence_BK
            assert sure is not None
            self.draft = Draft(self.draft.tokens_BK[rows], self.draft.length_B[rows], sure[rows])
