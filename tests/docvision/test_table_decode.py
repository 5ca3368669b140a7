"""Decoding tables: inside the grammar always a table, the same as one token at a time, alone or in a batch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_tables import random_table

from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import generate
from docvision.encoder import Memory
from docvision.model import DocVisionModel
from docvision.table_decode import NEAR, PROMPTS, decode_table
from docvision.table_grammar import Phase, TableGrammar
from docvision.tableseq import TableStreamError, ids_to_table, stream_form, table_to_ids
from docvision.tokens import Vocabulary

TINY = ModelConfig(
    width=32,
    bins=64,
    characters=" abcdefghijklmnopqrstuvwxyz0123456789.-<>",
    encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 1, 1, 1)),
    decoder=DecoderConfig(layers=2, heads=2, ffn=48),
)
SIZES = [(60, 100), (30, 40), (126, 126)]
"""Height and width of the pictures that the memories stand for."""
TOLERANCE = 1e-4
"""Log probabilities of fp32 sums in another order."""


def make_model(seed: int) -> DocVisionModel:
    """Odd seeds score coordinates by Fourier series."""
    torch.manual_seed(seed)
    return DocVisionModel(replace(TINY, decoder=replace(TINY.decoder, waves=8 * (seed % 2)))).eval()


@pytest.fixture(scope="module")
def model() -> DocVisionModel:
    return make_model(0)


def memory_of(lengths: tuple[int, ...] = (12, 5, 9), seed: int = 1) -> Memory:
    """Noise as image memory, rows of unequal length padded with noise that must not matter."""
    states = torch.randn(len(lengths), max(lengths), 32, generator=torch.Generator().manual_seed(seed)) * 2
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Memory(states, mask, (1, max(lengths)), {})


def row_of(memory: Memory, row: int) -> Memory:
    kept = memory.mask_BM[row]
    return Memory(memory.states_BMD[row : row + 1, kept], memory.mask_BM[row : row + 1, kept], (1, int(kept.sum())), {})


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("seed", range(3))
def test_inside_the_grammar_every_stream_is_a_table(prompt, seed):
    """Untrained weights of any seed write whole rectangular tables inside the picture, and within the limit."""
    model = make_model(seed)
    streams = decode_table(model, memory_of(seed=seed), prompt, limit=160, size_B2=torch.tensor(SIZES))
    grammar = TableGrammar(model.vocabulary, text=PROMPTS[prompt])
    for stream, (height, width) in zip(streams, SIZES, strict=True):
        assert stream.ids[-1] == model.vocabulary.eos and len(stream.ids) <= 160
        assert stream.stopped or grammar.accepts(stream.ids, size=(width, height))
        table = stream.table(model.vocabulary, (1.0, 1.0)).table
        assert all(cell is not None for row in table.grid() for cell in row)
        for cell in table.cells:
            assert cell.text_box is None or (cell.text_box.x1 <= width + 1 and cell.text_box.y1 <= height + 1)


def test_outside_the_grammar_it_is_plain_greedy(model):
    memory = memory_of()
    prompt = torch.tensor([[model.vocabulary.bos, model.vocabulary.ids["<prompt:table>"]]]).expand(3, -1)
    ids, scores = generate(model, memory, prompt, limit=60)
    for row, stream in enumerate(decode_table(model, memory, "table", grammar=False, limit=60)):
        count = len(stream.ids)
        assert stream.ids == ids[row, :count].tolist() and not ids[row, count:].any()
        plain = ids[row, :count] < model.vocabulary.first_x
        told = torch.tensor(stream.scores)
        torch.testing.assert_close(told[plain], scores[row, :count][plain], atol=TOLERANCE, rtol=0)
        assert stream.stopped == ("" if stream.ids[-1] == model.vocabulary.eos else "60 tokens")


def near(chances: torch.Tensor, token: int, vocabulary: Vocabulary) -> torch.Tensor:
    """The chances of a token, with those of a coordinate's neighbours on its axis."""
    for first in (vocabulary.first_x, vocabulary.first_y):
        if first <= token < first + vocabulary.bins:
            return chances[max(first, token - NEAR) : min(first + vocabulary.bins, token + NEAR + 1)]
    return chances[token : token + 1]


@torch.inference_mode()
def one_at_a_time(model: DocVisionModel, memory: Memory, prompt: str, limit: int) -> tuple[list[int], list[float]]:
    """The definition: the best legal token of the likelier class, without cache and without forced tokens."""
    state = TableGrammar(model.vocabulary, text=PROMPTS[prompt]).start()
    ids, scores = [], []
    begin = [model.vocabulary.bos, model.vocabulary.ids[f"<prompt:{prompt}>"]]
    while state.phase != Phase.DONE:
        if len(ids) + state.closing_cost() > limit:
            state.close("limit")
        tokens = torch.tensor([begin + ids])
        hidden = model.decoder(tokens, torch.arange(tokens.shape[1]), memory)
        chances = model.decoder.logits(hidden[0, -1]).float().log_softmax(-1)
        legal = chances.exp() * torch.from_numpy(state.legal().copy())
        first = model.vocabulary.first_x
        place = legal[first:].sum() > legal[:first].sum()  # all coordinates stand against all else
        ids.append(int(legal[first:].argmax()) + first if place else int(legal[:first].argmax()))
        scores.append(float(near(chances, ids[-1], model.vocabulary).logsumexp(0)))
        state.advance(ids[-1])
    return ids, scores


@pytest.mark.parametrize("prompt", PROMPTS)
def test_forced_tokens_change_nothing(model, prompt):
    """Several tokens a forward pass give what one token a forward pass gives, in fewer passes."""
    memory = row_of(memory_of(), 0)
    ids, scores = one_at_a_time(model, memory, prompt, limit=90)
    stream = decode_table(model, memory, prompt, limit=90)[0]
    assert stream.ids == ids
    for mine, true in zip(stream.scores, scores, strict=True):
        assert mine is None or abs(mine - true) < TOLERANCE
    assert 0 < stream.forwards < len(ids)


@pytest.mark.parametrize("grammar", [True, False])
def test_alone_or_in_a_batch(model, grammar):
    """Rows of unequal pictures and lengths: the padding of memory, of forced tokens and of the cache leaks nowhere."""
    memory = memory_of()
    together = decode_table(model, memory, "table", grammar, limit=70)
    assert len({len(stream.ids) for stream in together}) > 1 or not grammar
    for row, stream in enumerate(together):
        alone = decode_table(model, row_of(memory, row), "table", grammar, limit=70)[0]
        assert (stream.ids, stream.stopped) == (alone.ids, alone.stopped)
        for mine, other in zip(stream.scores, alone.scores, strict=True):
            assert mine == other or abs(mine - other) < TOLERANCE


def test_forwards_are_counted(model):
    calls = []
    handle = model.decoder.register_forward_hook(lambda *_: calls.append(1))
    stream = decode_table(model, row_of(memory_of(), 1), "structure", limit=100)[0]
    handle.remove()
    assert stream.forwards == len(calls)


@pytest.mark.parametrize("limit", [16, 20, 45])
def test_a_table_is_closed_within_the_limit(model, limit):
    for stream in decode_table(model, memory_of(), "table", limit=limit):
        assert len(stream.ids) <= limit and stream.ids[-1] == model.vocabulary.eos
        assert stream.stopped in ("", f"{limit} tokens")
        notes = stream.table(model.vocabulary, (1.0, 1.0)).notes
        assert ("ended early" in "".join(notes)) == bool(stream.stopped)


def test_wrong_arguments():
    model, memory = make_model(0), memory_of()
    with pytest.raises(TableStreamError, match="prompt='text'"):
        decode_table(model, memory, "text")
    with pytest.raises(TableStreamError, match="16 tokens at least"):
        decode_table(model, memory, limit=15)


def test_learnt_tables_come_back():
    """Two tables learnt by heart are decoded exactly, with the grammar in fewer passes and with sure cells."""
    model, memory = make_model(5), memory_of((12, 5))
    rng = np.random.default_rng(5)
    v = model.vocabulary
    tables = []
    for shape in ((3, 2), (2, 3)):
        table = random_table(rng, *shape)
        for cell in table.cells:
            cell.text = "ab" if cell.text else ""
        tables.append(stream_form(table))
    prompt = [v.bos, v.ids["<prompt:table>"]]
    streams = [[*table_to_ids(table, v, (1.0, 1.0)), v.eos] for table in tables]
    longest = max(map(len, streams))
    tokens = torch.tensor([prompt + ids + [0] * (longest - len(ids)) for ids in streams])
    model.train()
    optimiser = torch.optim.AdamW(model.decoder.parameters(), lr=2e-2)
    positions = torch.arange(tokens.shape[1] - 1)
    for _ in range(120):
        hidden = model.decoder(tokens[:, :-1], positions, memory)
        targets = tokens[:, 1:].clone()
        targets[:, 0] = 0  # the prompt is given, not learnt
        loss = torch.nn.functional.cross_entropy(
            model.decoder.logits(hidden).flatten(0, 1), targets.flatten(), ignore_index=0
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    free = decode_table(model, memory, "table", grammar=False, limit=200)
    bound = decode_table(model, memory, "table", limit=200)
    for ids, one, other in zip(streams, free, bound, strict=True):
        assert one.ids == other.ids == ids
        assert other.forwards < one.forwards == len(ids)
        found, notes = other.table(v, (1.0, 1.0))
        true = ids_to_table(ids, v, (1.0, 1.0)).table
        assert notes == [] and (found.rows, found.columns) == (true.rows, true.columns)
        assert [replace(cell, confidence=1.0) for cell in found.cells] == true.cells
        assert all(0.5 < cell.confidence < 1 for cell in found.cells)
