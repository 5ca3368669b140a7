"""Plain greedy decoding with a cache, the reference that every multi-token method must equal.

Finished rows leave the batch, and a row stops when it provably loops, so one bad crop does not hold the rest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from docvision.encoder import Memory
from docvision.model import DocVisionModel, Reading


@torch.inference_mode()
def generate(model: DocVisionModel, memory: Memory, prompt_BP: Tensor, limit: int = 192) -> tuple[Tensor, Tensor]:
    """Greedy continuation of prompts.

    Args:
        model: decoder and vocabulary.
        memory: image memory of the B rows.
        prompt_BP: token ids, all of one length.
        limit: most new tokens a row.

    Returns:
        New ids (B,<=limit) with ``<eos>`` where reached and 0 after it, and their log probabilities.
    """
    decoder, eos = model.decoder, model.vocabulary.eos
    B = prompt_BP.shape[0]
    device = prompt_BP.device
    out = torch.zeros(B, limit, dtype=torch.long, device=device)
    scores = torch.zeros(B, limit, device=device)
    rows = torch.arange(B, device=device)
    cache = decoder.new_cache(B, device)
    tokens, states, mask = prompt_BP, memory.states_BMD, memory.mask_BM
    for step in range(limit):
        positions = cache.length_B[:, None] + torch.arange(tokens.shape[1], device=device)
        view = memory._replace(states_BMD=states, mask_BM=mask)
        hidden = decoder(tokens, positions, view, cache=cache)
        cache.commit(tokens.shape[1])
        best = decoder.logits(hidden[:, -1]).float().log_softmax(-1).max(-1)
        out[rows, step], scores[rows, step] = best.indices, best.values
        going = best.indices != eos
        if not bool(going.any()):
            break
        tokens = best.indices[:, None]
        if not bool(going.all()):
            kept = going.nonzero()[:, 0]
            rows, tokens, states, mask = rows[kept], tokens[kept], states[kept], mask[kept]
            cache.select(kept)
    used = int((out != 0).any(0).sum())
    return out[:, :used], scores[:, :used]


def generate_text(model: DocVisionModel, memory: Memory, limit: int = 192) -> list[Reading]:
    """Greedy transcription of line crops already encoded.

    No line holds more characters than the line head has frames, so a longer row is a loop and is cut there.
    """
    B = memory.states_BMD.shape[0]
    prompt = torch.tensor(
        [[model.vocabulary.bos, model.vocabulary.ids["<prompt:text>"]]], device=memory.states_BMD.device
    )
    ids, scores = generate(model, memory, prompt.expand(B, -1), min(limit, 2 * memory.grid[1] + 2))
    readings = []
    for row, score in zip(ids, scores, strict=True):
        count = int((row != 0).sum())
        confidence = float(score[:count].mean().exp()) if count else 1.0
        readings.append(Reading(model.vocabulary.decode(row.tolist()), confidence))
    return readings
