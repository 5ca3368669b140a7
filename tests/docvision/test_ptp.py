"""Registers: what they see and what sees them; the five leaks that a wrong mask or position makes."""

import pytest
import torch

from docvision import methods
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import cached_mask
from docvision.encoder import Memory
from docvision.methods.base import Riders, rider_mask
from docvision.methods.ptp import Registers
from docvision.model import DocVisionModel

TOLERANCE = 1e-5
"""fp32 sums in another order; a leak shows as 1e-2 or more."""
SMALL = ModelConfig(
    width=32,
    bins=8,
    encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 1, 1, 1)),
    decoder=DecoderConfig(layers=2, heads=2, ffn=48),
)
ANCHORS = [1, 3, 4, 8]


@pytest.fixture(scope="module")
def setting() -> tuple[DocVisionModel, Registers, torch.Tensor, Memory]:
    torch.manual_seed(0)
    model = DocVisionModel(SMALL).eval()
    with torch.no_grad():
        for weight in model.decoder.layers.parameters():
            weight.mul_(2)  # else nothing depends on anything
    method = methods.attach(model, "ptp", {"registers": 4})
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randint(1, 300, (3, 9), generator=generator)
    mask = torch.arange(10) < torch.tensor([[10], [7], [4]])
    return model, method, inputs, Memory(torch.randn(3, 10, 32, generator=generator), mask, (1, 10), {})


def register_states(model, method: Registers, inputs, memory, anchors: list[int], count: int) -> torch.Tensor:
    """States (B,A,n,D) of registers behind ``anchors``, and of the text (B,T,D) before them."""
    T = inputs.shape[1]
    node_A = torch.tensor(anchors)
    riders = method.riders(node_A.expand(len(inputs), -1), node_A, T, count)
    with torch.no_grad():
        embeddings = torch.cat([model.decoder.embed(inputs), riders.embeddings_BED], 1)
        places = torch.cat([torch.arange(T).expand(len(inputs), T), riders.positions_BE], 1)
        states = model.decoder(embeddings, places, memory, mask=rider_mask(T, [riders]))
    return states[:, :T], states[:, T:].unflatten(1, (len(anchors), count))


def test_text_does_not_see_registers(setting) -> None:
    model, method, inputs, memory = setting
    text, _ = register_states(model, method, inputs, memory, ANCHORS, 4)
    with torch.no_grad():
        alone = model.decoder(inputs, torch.arange(9), memory)
    torch.testing.assert_close(text, alone, atol=TOLERANCE, rtol=0)


def test_registers_see_text_up_to_their_anchor_and_no_further(setting) -> None:
    """A register's position lies ahead of its anchor: a mask that compares positions fails here."""
    model, method, inputs, memory = setting
    changed = inputs.clone()
    changed[:, 4] = 301
    text, before = register_states(model, method, inputs, memory, ANCHORS, 4)
    moved_text, after = register_states(model, method, changed, memory, ANCHORS, 4)
    torch.testing.assert_close(before[:, :2], after[:, :2], atol=0, rtol=0)
    torch.testing.assert_close(text[:, :4], moved_text[:, :4], atol=0, rtol=0)
    assert ((before[:, 2:] - after[:, 2:]).abs().amax(-1) > 1e-3).all()


def test_registers_of_a_training_row_equal_those_of_a_cached_step(setting) -> None:
    model, method, inputs, memory = setting
    _, trained = register_states(model, method, inputs, memory, ANCHORS, 4)
    for index, anchor in enumerate(ANCHORS):
        with torch.no_grad():
            cache = model.decoder.new_cache(3)
            model.decoder(inputs[:, : anchor - 1], torch.arange(anchor - 1), memory, cache=cache)
            cache.commit(anchor - 1)
            riders = method.riders(torch.full((3, 1), anchor), torch.tensor([1]), 2, 4)
            block = torch.cat([model.decoder.embed(inputs[:, anchor - 1 : anchor + 1]), riders.embeddings_BED], 1)
            places = torch.cat([torch.arange(anchor - 1, anchor + 1).expand(3, 2), riders.positions_BE], 1)
            states = model.decoder(block, places, memory, cached_mask(cache, rider_mask(2, [riders])), cache)
        torch.testing.assert_close(states[:, 2:], trained[:, index], atol=TOLERANCE, rtol=0)


def test_groups_do_not_see_each_other(setting) -> None:
    model, method, inputs, memory = setting
    _, states = register_states(model, method, inputs, memory, ANCHORS, 4)
    order = [2, 0, 3, 1]
    _, permuted = register_states(model, method, inputs, memory, [ANCHORS[i] for i in order], 4)
    torch.testing.assert_close(permuted, states[:, order], atol=TOLERANCE, rtol=0)


def test_short_groups_equal_the_start_of_long_ones(setting) -> None:
    model, method, inputs, memory = setting
    _, long = register_states(model, method, inputs, memory, ANCHORS, 4)
    _, short = register_states(model, method, inputs, memory, ANCHORS, 2)
    torch.testing.assert_close(short, long[:, :, :2], atol=TOLERANCE, rtol=0)
    assert (long[:, :, 0] - long[:, :, 1]).abs().max() > 1e-2  # and yet they differ from each other


def test_groups_that_are_not_causal_are_told_apart(setting) -> None:
    model, _, inputs, memory = setting
    method = methods.build("ptp", model, {"registers": 4, "causal": False})
    _, long = register_states(model, method, inputs, memory, ANCHORS, 4)
    _, short = register_states(model, method, inputs, memory, ANCHORS, 2)
    assert (short - long[:, :, :2]).abs().max() > 1e-3
    text, _ = register_states(model, method, inputs, memory, ANCHORS, 4)
    with torch.no_grad():
        torch.testing.assert_close(text, model.decoder(inputs, torch.arange(9), memory), atol=TOLERANCE, rtol=0)


def test_two_methods_with_riders_do_not_disturb_each_other() -> None:
    parts = [
        Riders(torch.zeros(1, 2, 1), torch.zeros(1, 2), torch.ones(2, 3).bool(), torch.ones(2, 2).tril().bool())
    ] * 2
    mask = rider_mask(3, parts)
    assert mask[:3, :3].equal(torch.ones(3, 3).tril().bool()) and not mask[:3, 3:].any()
    assert not mask[3:5, 5:].any() and not mask[5:, 3:5].any() and mask[5:, :3].all()
