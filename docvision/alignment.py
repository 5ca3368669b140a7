"""Where on the image each token stands, and a loss that makes the decoder look there.

Left to itself a decoder takes thousands of steps to find out that the next character stands beside the last one, and
until then it loses its place where text repeats.  The place is known in training: the line head aligns the text of a
line with its columns (the best CTC path), and the coordinates of a table name theirs.  Two heads in each layer after
the first are asked to put their attention there, one for text and one for corners; all others stay free (guided
attention, Tachibana, arXiv 1710.08969, with places that are known instead of a diagonal).

Shape suffixes: B batch, T tokens or frames, U characters, C classes, M memory cells, h/w grid, D width.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.decoder import PLACE_HEAD, CausalDecoder, CrossAttention
from docvision.encoder import Memory
from docvision.tableseq import COORDINATE_PIXELS
from docvision.tokens import Vocabulary

TEXT_HEAD = 0
"""The guided head that brings what is written where the next character stands; PLACE_HEAD finds the next corner."""
CELL_PIXELS = (16, 8)
"""Height and width of a memory cell."""
SEATED = (1.0, 0.5)
"""How loud places start in the decoder's states, and new amplitudes in the scores of coordinates."""


def best_path(log_probs_BTC: Tensor, labels_BU: Tensor, label_length_B: Tensor, frames_B: Tensor) -> Tensor:
    """(B,U) frame at which the likeliest CTC path reaches each label; of no meaning behind a row's last label.

    Args:
        log_probs_BTC: of the line head, class 0 the blank.
        labels_BU: character ids, padded with 0.
        label_length_B: labels of each row.
        frames_B: frames of each row.
    """
    B, T, _ = log_probs_BTC.shape
    U = labels_BU.shape[1]
    states_BS = labels_BU.new_zeros(B, 2 * U + 1)  # blank, label, blank, label, ..., blank
    states_BS[:, 1::2] = labels_BU
    skips_BS = F.pad((states_BS[:, 2:] != 0) & (states_BS[:, 2:] != states_BS[:, :-2]), (2, 0))
    emitted_BTS = log_probs_BTC.gather(2, states_BS[:, None].expand(B, T, -1))
    score_BS = torch.full_like(emitted_BTS[:, 0], -math.inf)
    score_BS[:, :2] = emitted_BTS[:, 0, :2]
    steps_TBS = torch.zeros(T, B, 2 * U + 1, dtype=torch.long, device=labels_BU.device)
    for t in range(1, T):
        one_BS = F.pad(score_BS[:, :-1], (1, 0), value=-math.inf)
        two_BS = F.pad(score_BS[:, :-2], (2, 0), value=-math.inf).masked_fill(~skips_BS, -math.inf)
        best = torch.stack([score_BS, one_BS, two_BS]).max(0)
        running_B1 = (t < frames_B)[:, None]
        score_BS = torch.where(running_B1, best.values + emitted_BTS[:, t], score_BS)
        steps_TBS[t] = torch.where(running_B1, best.indices, 0)
    rows = torch.arange(B, device=labels_BU.device)
    end_B = 2 * label_length_B
    last_B = (end_B - 1).clamp(min=0)
    state_B = torch.where(score_BS[rows, end_B] >= score_BS[rows, last_B], end_B, last_B)
    reached_BS = labels_BU.new_zeros(B, 2 * U + 1)
    for t in range(T - 1, -1, -1):
        reached_BS[rows, state_B] = t  # the earliest frame is written last
        state_B = state_B - steps_TBS[t, rows, state_B]
    return reached_BS[:, 1::2]


def line_places(reached_BU: Tensor, label_length_B: Tensor, frames_per_cell: int, tokens: int) -> Tensor:
    """(B,T,2) row and column of the memory cell where the token behind each input stands, negative where unknown.

    Args:
        reached_BU: frame of each character.
        label_length_B: characters of each row.
        frames_per_cell: frames of the line head to one column of the memory.
        tokens: T, inputs of the decoder: start, prompt, characters.
    """
    B, U = reached_BU.shape
    places = torch.full((B, tokens, 2), -1.0, device=reached_BU.device)
    count = min(U, tokens - 1)
    known_BU = torch.arange(count, device=reached_BU.device) < label_length_B[:, None]
    columns_BU = (reached_BU[:, :count] / frames_per_cell).float().floor()
    places[:, 1 : 1 + count, 1] = torch.where(known_BU, columns_BU, -1.0)
    places[:, 1 : 1 + count, 0] = torch.where(known_BU, 0.5, -1.0)  # a line is two cells high
    return places


def table_places(targets_BT: Tensor, vocabulary: Vocabulary) -> Tensor:
    """(B,T,2) row and column of the memory cell where each coordinate of a table stands, negative for other tokens.

    An x is read off the middle of its text's height, where there is ink, a y off the corner itself.  The token before
    a text's first corner opens its cell: whether there is one is seen at the same place.

    Args:
        targets_BT: the tokens to be predicted; an x is followed by its y, two corners are a box.
        vocabulary: token ids.
    """
    x_BT, y_BT = targets_BT - vocabulary.first_x, targets_BT - vocabulary.first_y
    is_x, is_y = (x_BT >= 0) & (x_BT < vocabulary.bins), (y_BT >= 0) & (y_BT < vocabulary.bins)
    is_x = is_x & F.pad(is_y[:, 1:], (0, 1))
    places = torch.full((*targets_BT.shape, 2), -1.0, device=targets_BT.device)
    row_N, time_N = is_x.nonzero(as_tuple=True)
    if not len(row_N):
        return places
    y_N = y_BT[row_N, time_N + 1].float()
    second_N = is_x.cumsum(1)[row_N, time_N] % 2 == 0
    other_N = (torch.arange(len(row_N), device=row_N.device) + torch.where(second_N, -1, 1)).clamp(0, len(row_N) - 1)
    middle_N = torch.where(row_N[other_N] == row_N, (y_N + y_N[other_N]) / 2, y_N)
    column_N = (x_BT[row_N, time_N] * COORDINATE_PIXELS / CELL_PIXELS[1]).floor()
    at_x, at_y = (
        torch.stack([(rows * COORDINATE_PIXELS / CELL_PIXELS[0]).floor(), column_N], -1) for rows in (middle_N, y_N)
    )
    places[row_N, time_N], places[row_N, time_N + 1] = at_x, at_y
    opens_N = ~second_N & (time_N > 0)
    places[row_N[opens_N], time_N[opens_N] - 1] = at_x[opens_N]
    return places


@contextlib.contextmanager
def watched(decoder: CausalDecoder) -> Iterator[list[tuple[CrossAttention, Tensor]]]:
    """Collects the cross-attention and the queries (B,S,D) of every layer but the first, or of the only one."""
    seen: list[tuple[CrossAttention, Tensor]] = []
    hooks = []
    for layer in decoder.layers[1:] or decoder.layers:
        attention = layer.cross_attention

        def keep(_: nn.Module, __: object, queries: Tensor, attention: CrossAttention = attention) -> None:
            seen.append((attention, queries))

        hooks.append(attention.query.register_forward_hook(keep))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def guide_loss(seen: list[tuple[CrossAttention, Tensor]], memory: Memory, places_BT2: Tensor, head: int) -> Tensor:
    """Mean surprise of finding a guided head's attention in the cells around the places, over layers and tokens.

    Args:
        seen: from :func:`watched`.
        memory: what was looked at.
        places_BT2: row and column of the cell for each token, negative where unknown.
        head: ``TEXT_HEAD``, for which the cells beside the place are as good, or ``PLACE_HEAD``, for which only those
            above and below it are.
    """
    known_BT = places_BT2[..., 0] >= 0
    if not seen or not bool(known_BT.any()):
        return places_BT2.sum() * 0.0
    h, w = memory.grid
    device = places_BT2.device
    near_BTh = (torch.arange(h, device=device) - places_BT2[..., :1]).abs() <= 1
    near_BTw = (torch.arange(w, device=device) - places_BT2[..., 1:]).abs() <= (head == TEXT_HEAD)
    near_BTM = (near_BTh[..., :, None] & near_BTw[..., None, :]).flatten(2)
    total = places_BT2.new_zeros(())
    for attention, queries_BSD in seen:
        scores_BTM = _scores(attention, queries_BSD[:, : places_BT2.shape[1]], memory, head)
        inside_BT = scores_BTM.masked_fill(~near_BTM, -1e4).logsumexp(-1) - scores_BTM.logsumexp(-1)
        total = total - inside_BT[known_BT].mean()
    return total / len(seen)


def pointed(decoder: CausalDecoder, seen: list[tuple[CrossAttention, Tensor]], memory: Memory, tokens: int) -> Tensor:
    """What the places that the decoder looks at add to its states, (B,T,D) for the first T tokens.

    The loss of coordinates is asked of this too: a head that looks at the right cell is of no use where the code of the
    cell does not say where it stands.
    """
    assert decoder.coordinates is not None
    attention, queries_BSD = seen[-1]
    weights_BTM = _scores(attention, queries_BSD[:, :tokens], memory, PLACE_HEAD).softmax(-1)
    return decoder.coordinates.read(weights_BTM @ decoder.coordinates.code(memory.states_BMD))


@torch.no_grad()
def seat_places(decoder: CausalDecoder, memories: Iterable[Memory], amplitudes: bool = True) -> None:
    """Start the codes of memory cells as the amplitudes of their middle, by least squares from the cells' states.

    Left to gradients they take a thousand steps to find what the states tell of places.

    Args:
        decoder: with a Fourier series for coordinates.
        memories: of some pictures; as many cells as states have channels are the least.
        amplitudes: those of the series are new too.

    Raises:
        ValueError: the decoder scores coordinates by their embeddings.
    """
    series = decoder.coordinates
    if series is None:
        raise ValueError("places are seated where model.decoder.waves is above 0")
    cells, places = [], []
    for memory in memories:
        B, (h, w) = len(memory.states_BMD), memory.grid
        mask_BM = _is_image(memory)
        middle = [
            (torch.arange(count, device=mask_BM.device) * size + size // 2) // COORDINATE_PIXELS
            for count, size in zip((h, w), CELL_PIXELS, strict=True)
        ]
        y_M, x_M = (grid.flatten().clamp(max=series.bins - 1) for grid in torch.meshgrid(*middle, indexing="ij"))
        codes_MC = torch.cat([series.waves_WN[:, x_M], series.waves_WN[:, y_M]]).T
        cells.append(memory.states_BMD[mask_BM])
        places.append(codes_MC.expand(B, -1, -1)[mask_BM])
    states_ND, codes_NC = torch.cat(cells).float(), torch.cat(places).float()
    gram_DD = states_ND.T @ states_ND + 0.1 * torch.eye(states_ND.shape[1], device=states_ND.device)
    series.code.weight.copy_(torch.linalg.solve(gram_DD, states_ND.T @ codes_NC).T)
    if amplitudes:
        nn.init.orthogonal_(series.amplitudes.weight, SEATED[1])
    series.read.weight.copy_(SEATED[0] * torch.linalg.pinv(series.amplitudes.weight))


def _channels(attention: CrossAttention, width: int, head: int) -> slice:
    size = width // attention.heads
    return slice(head * size, head * size + size)


def _scores(attention: CrossAttention, queries_BTD: Tensor, memory: Memory, head: int) -> Tensor:
    """Attention logits (B,T,M) of a head, -inf in the padding."""
    part = _channels(attention, queries_BTD.shape[-1], head)
    keys_BME = F.linear(memory.states_BMD, attention.key_value.weight[part])
    scores_BTM = queries_BTD[..., part] @ keys_BME.transpose(1, 2) / math.sqrt(keys_BME.shape[-1])
    return scores_BTM.masked_fill(~_is_image(memory)[:, None], -math.inf)


def _is_image(memory: Memory) -> Tensor:
    """(B,M) False in the padding, whether the mask is boolean or the bias of a structure prior."""
    return memory.mask_BM if memory.mask_BM.dtype == torch.bool else memory.mask_BM > -math.inf
