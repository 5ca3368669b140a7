"""The next-token layer that a model brings along, as a drafter; GLM-OCR has one.

Such a model was trained with one more decoder layer, which predicts the token after the next from the model's state
and the embedding of the next token (as in DeepSeek-V3, arXiv 2412.19437).  transformers leaves its weights out when it
loads the model, so they are read from the model's own files here.  Fed with its own output the layer drafts further.

It attends to the whole text, the prompt included, with keys of its own: entry i of its cache pairs the state of token
i with the embedding of token i + 1 and stands at the latter's position.

Shape suffixes: B batch, P prompt columns, S new entries, D width.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from docvision.hf_vlm.cache import RowCache
from docvision.hf_vlm.decoder import VlmDecoder, VlmError
from docvision.methods.base import Draft, Drafter, Request, Step

DEPTH = 3
SHARED = ("embed_tokens.weight", "shared_head.head.weight")
"""Tensors in some files that are the model's own embedding and output layer once more."""


class OwnLayer(nn.Module):
    """The layer with what is around it; its modules are of the model's own classes.

    Args:
        decoder: of the model.
    """

    def __init__(self, decoder: VlmDecoder) -> None:
        super().__init__()
        config = copy.deepcopy(decoder.text_config)
        width, eps = config.hidden_size, config.rms_norm_eps
        norm = type(decoder.stack.norm)
        self.enorm, self.hnorm, self.norm = norm(width, eps=eps), norm(width, eps=eps), norm(width, eps=eps)
        self.eh_proj = nn.Linear(2 * width, width, bias=False)
        self.block = type(decoder.stack.layers[-1])(config, 0)
        self.rotary = (decoder.stack.rotary_emb,)  # the model's, not to be moved or saved with this

    def forward(self, embedded_BSD: Tensor, states_BSD: Tensor, place: Tensor, mask: Any, cache: RowCache) -> Tensor:
        """States (B,S,D) that the model's output layer scores.

        Args:
            embedded_BSD: tokens.
            states_BSD: of the model, or of this layer, at the tokens before them.
            place: position ids of the tokens, as the model takes them.
            mask: as the model's layers take it.
            cache: this layer's own.
        """
        x_BSD = self.eh_proj(torch.cat([self.enorm(embedded_BSD), self.hnorm(states_BSD)], -1))
        rotary = self.rotary[0](x_BSD, position_ids=place)
        return self.norm(self.block(x_BSD, position_embeddings=rotary, attention_mask=mask, cache=cache))


def load_own_layer(model: Any, decoder: VlmDecoder) -> OwnLayer:
    """The layer with the weights that lie among the model's files.

    Raises:
        VlmError: the model has no such layer, or its weights are not there.
    """
    config = decoder.text_config
    name, number = type(model).__name__, config.num_hidden_layers
    count = getattr(config, "num_nextn_predict_layers", None) or getattr(config, "num_mtp_layers", None) or 0
    if count < 1 or "position_ids" not in decoder.parameters_of_forward:
        raise VlmError(f"{name} brings no next-token layer of its own: use textlayer, or train ptp or pmtp")
    found: dict[str, Tensor] = {}
    for path in _files(str(config.name_or_path or model.config.name_or_path)):
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118 (not a dict)
                match = re.search(rf"(?:^|\.)(?:language_model\.|model\.)*layers\.{number}\.(.+)$", key)
                if match and "visual" not in key and not match[1].endswith(SHARED):
                    found[_renamed(match[1])] = file.get_tensor(key)
    if not found:
        raise VlmError(f"the files of {name} hold no layer {number}, its next-token layer: fetch the whole repository")
    layer = OwnLayer(decoder)
    try:
        layer.load_state_dict(found)
    except RuntimeError as error:
        raise VlmError(f"layer {number} of {name} is of another form: {' '.join(str(error).split())[:200]}") from error
    return layer.to(decoder.device, decoder.stack.dtype).requires_grad_(False).eval()


def _renamed(key: str) -> str:
    if key.startswith("shared_head.norm."):
        return key.removeprefix("shared_head.")
    return key if key.startswith(("enorm.", "hnorm.", "eh_proj.")) else f"block.{key}"


def _files(name: str) -> Iterator[Path]:
    """Safetensors of a folder, or of a hub id in the local cache."""
    folder = Path(name)
    if not name or not folder.is_dir():
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(name, allow_patterns=["*.safetensors"], local_files_only=True))
        except (OSError, ValueError) as error:
            raise VlmError(f"the files of {name or 'this model'} are not on this disk: load it by folder") from error
    yield from sorted(folder.glob("*.safetensors"))


@dataclass
class PromptRun:
    """What the model's forward over the prompt left."""

    embedded_BPD: Tensor
    states_BPD: Tensor
    place: Tensor
    """Position ids (...,B,P) as the text decoder was given them."""

    def of(self, rows: Sequence[int]) -> PromptRun:
        """The same of some rows."""
        B = len(self.states_BPD)
        place = self.place.expand(*self.place.shape[:-2], B, -1)
        return PromptRun(self.embedded_BPD[rows], self.states_BPD[rows], place[..., rows, :])


class OwnDrafter(Drafter):
    """Drafts a chain with the layer.

    Args:
        request: the batch.
        layer: the weights.
        main: the model's cache behind its prompt; read for paddings and positions.
        prompt: the rows of this batch.
        depth: tokens drafted.
    """

    def __init__(
        self, request: Request, layer: OwnLayer, main: RowCache, prompt: PromptRun, depth: int = DEPTH
    ) -> None:
        self.request, self.layer, self.depth = request, layer, depth
        self.decoder: VlmDecoder = request.model.decoder
        self.cache = RowCache(1)
        self.next_B = request.prompt_BP[:, -1]
        self.position_B = torch.zeros_like(self.next_B)
        seen_BP = main.seen_BP
        last = main.offset_B.expand(*prompt.place.shape[:-1])[..., None]
        place = torch.cat([prompt.place[..., 1:], last], -1)
        embedded = torch.cat([prompt.embedded_BPD[:, 1:], self.decoder.embed(self.next_B[:, None])], 1)
        P = seen_BP.shape[1]
        causal_BPP = torch.ones(P, P, dtype=torch.bool, device=seen_BP.device).tril() & seen_BP[:, None]
        itself = torch.eye(P, dtype=torch.bool, device=seen_BP.device)  # padding sees itself, so that nothing is NaN
        mask = self.decoder.as_implemented(causal_BPP | itself, embedded)
        states_BPD = layer(embedded, prompt.states_BPD, place, mask, self.cache)
        self.cache.start(seen_BP, main.offset_B + 1, main.axes)
        self.state_B1D = states_BPD[:, -1:]

    def _run(self, embedded_BSD: Tensor, states_BSD: Tensor) -> Tensor:
        """The layer over entries behind its cache's committed ones."""
        B, S = embedded_BSD.shape[:2]
        steps_BS = self.cache.length_B[:, None] + torch.arange(S, device=self.cache.length_B.device)
        place = self.cache.offset_B[:, None] + steps_BS
        place = place.expand(self.cache.axes, B, S) if self.cache.axes else place
        mask = self.decoder._masks(self.cache, None, steps_BS, embedded_BSD)
        return self.layer(embedded_BSD, states_BSD, place, mask, self.cache)

    def propose(self, limit: int) -> Draft | None:
        state_B1D, tokens = self.state_B1D, []
        length_B, longest = self.cache.length_B, self.cache.longest
        for step in range(1, min(self.depth, limit) + 1):
            logits = self.decoder.logits(state_B1D).float()
            tokens.append(self.request.choose(logits, (self.position_B + step)[:, None])[:, 0])
            if step < min(self.depth, limit):
                state_B1D = self._run(self.decoder.embed(tokens[-1][:, None]), state_B1D)
                self.cache.commit(1)
        self.cache.length_B, self.cache.longest = length_B, longest  # what is only drafted is taken back
        if not tokens:
            return None
        return Draft(torch.stack(tokens, 1), torch.full_like(self.next_B, len(tokens)))

    def observe(self, step: Step) -> None:
        block = step.block
        following_BN = torch.cat([block.tokens_BN[:, 1:], step.next_B[:, None]], 1)
        following_BN = following_BN.scatter(1, step.last_B[:, None], step.next_B[:, None])
        states_BND = self._run(self.decoder.embed(following_BN), step.hidden_BND)
        self.state_B1D = states_BND[torch.arange(len(step.last_B), device=step.last_B.device), step.last_B][:, None]
        self.cache.commit(step.last_B + 1)
        self.cache.longest = int(self.cache.length_B.max())
        self.next_B, self.position_B = step.next_B, step.position_B

    def select(self, rows: Tensor) -> None:
        self.cache.select(rows)
        self.state_B1D, self.next_B, self.position_B = self.state_B1D[rows], self.next_B[rows], self.position_B[rows]
