"""Equalities of the core: what must not depend on batch mates, caching, or saving and loading."""

import dataclasses
import json

import pytest
import torch

from docvision.checkpoint import CheckpointError
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import generate
from docvision.decoder import CausalDecoder, rotary_angles, rotate
from docvision.encoder import MAPS, Memory, VisionEncoder
from docvision.maps import CLASSES
from docvision.model import DocVisionModel, pad_images

TOLERANCE = 2e-5
"""fp32 sums in another order; states are of order 1. A leak of padding shows as 1e-2 or more."""

TINY = ModelConfig(
    width=32,
    bins=8,
    encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 1, 1, 1)),
    decoder=DecoderConfig(layers=2, heads=2, ffn=48),
)


@pytest.fixture(scope="module")
def model() -> DocVisionModel:
    torch.manual_seed(0)
    return DocVisionModel(TINY).eval()


def noise_images(*shapes: tuple[int, int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(shape, generator=generator) for shape in shapes]


def test_every_block_class_has_a_map_channel() -> None:
    assert MAPS["block"] == len(CLASSES)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shapes", [((32, 203), (32, 330)), ((61, 77), (130, 45)), ((1, 1), (17, 9))])
def test_encoder_states_do_not_depend_on_batch_mates(model: DocVisionModel, shapes, training: bool) -> None:
    """TableSeq's release lets padding into normalisation and attention; here it must not matter, in training either."""
    model.encoder.train(training)
    images = noise_images(*shapes)
    pixels, size = pad_images([image.numpy() for image in images])
    with torch.no_grad():
        together = model.encoder(pixels, size, maps=True)
        for index, image in enumerate(images):
            alone = model.encoder(image[None, None], maps=True)
            (h, w), (H, W) = alone.grid, together.grid
            states = together.states_BMD[index].view(H, W, -1)[:h, :w].reshape(h * w, -1)
            torch.testing.assert_close(states, alone.states_BMD[0], atol=TOLERANCE, rtol=0)
            assert together.mask_BM[index].view(H, W)[:h, :w].all()
            assert together.mask_BM[index].sum() == h * w
            for name, value in alone.maps.items():
                part = together.maps[name][index, :, : value.shape[2], : value.shape[3]]
                torch.testing.assert_close(part, value[0], atol=TOLERANCE, rtol=0)
    model.encoder.eval()


@pytest.mark.parametrize("shape", [(1, 1), (16, 8), (17, 9), (33, 100)])
def test_grid_is_the_ceiling_of_the_strides(model: DocVisionModel, shape: tuple[int, int]) -> None:
    memory = model.encoder(torch.rand(1, 1, *shape), maps=True)
    height, width = shape
    assert memory.grid == (-(-height // 16), -(-width // 8))
    assert memory.maps["line"].shape[2:] == (-(-height // 8), -(-width // 8))


def test_timm_backbone_gives_the_same_grids() -> None:
    pytest.importorskip("timm")
    encoder = VisionEncoder(EncoderConfig(backbone="timm/resnet10t"), width=32, heads=2).eval()
    memory = encoder(torch.rand(2, 1, 50, 90), torch.tensor([[50, 90], [30, 60]]), maps=True)
    assert memory.grid == (4, 12) and memory.maps["block"].shape == (2, 12, 7, 12)
    assert memory.mask_BM[1].sum() == 2 * 8


def fake_memory(batch: int, cells: int, width: int) -> Memory:
    generator = torch.Generator().manual_seed(2)
    states = torch.randn(batch, cells, width, generator=generator)
    mask = torch.arange(cells) < torch.tensor([[cells], [cells - 3]])[:batch]
    return Memory(states, mask, (1, cells), {})


def test_cached_decoding_equals_uncached(model: DocVisionModel) -> None:
    memory = fake_memory(2, 10, TINY.width)
    tokens = torch.randint(1, 300, (2, 12), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        whole = model.decoder(tokens, torch.arange(12), memory)
        cache = model.decoder.new_cache(2)
        pieces = []
        for start, stop in ((0, 1), (1, 5), (5, 6), (6, 12)):
            positions = cache.length_B[:, None] + torch.arange(stop - start)
            pieces.append(model.decoder(tokens[:, start:stop], positions, memory, cache=cache))
            cache.commit(stop - start)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=TOLERANCE, rtol=0)


def test_rows_may_commit_and_roll_back_by_different_lengths(model: DocVisionModel) -> None:
    """After drafts of which each row keeps another number, the next states equal those of a clean prefix."""
    memory = fake_memory(2, 10, TINY.width)
    tokens = torch.randint(1, 300, (2, 8), generator=torch.Generator().manual_seed(4))
    kept = torch.tensor([5, 2])
    following = torch.tensor([[7, 9], [11, 13]])
    with torch.no_grad():
        cache = model.decoder.new_cache(2)
        model.decoder(tokens, torch.arange(8), memory, cache=cache)
        cache.commit(torch.tensor([8, 6]))
        cache.rollback(kept)
        positions = kept[:, None] + torch.arange(2)
        got = model.decoder(following, positions, memory, cache=cache)
        for row, count in enumerate(kept.tolist()):
            prefix = torch.cat([tokens[row, :count], following[row]])[None]
            alone = Memory(memory.states_BMD[row : row + 1], memory.mask_BM[row : row + 1], memory.grid, {})
            want = model.decoder(prefix, torch.arange(count + 2), alone)[0, count:]
            torch.testing.assert_close(got[row], want, atol=TOLERANCE, rtol=0)
    with pytest.raises(ValueError, match="only be shortened"):
        cache.rollback(torch.tensor([6, 2]))


def test_generate_equals_recomputing_every_step(model: DocVisionModel) -> None:
    """Rows end at different steps: the shrinking batch must not disturb those that go on."""
    memory = fake_memory(2, 10, TINY.width)
    prompt = torch.full((2, 1), model.vocabulary.bos)
    ids, scores = generate(model, memory, prompt, limit=20)
    for row in range(2):
        alone = Memory(memory.states_BMD[row : row + 1], memory.mask_BM[row : row + 1], memory.grid, {})
        tokens = prompt[row : row + 1]
        for step in range(ids.shape[1]):
            with torch.no_grad():
                hidden = model.decoder(tokens, torch.arange(tokens.shape[1]), alone)
            best = model.decoder.logits(hidden[:, -1]).log_softmax(-1).max(-1)
            assert ids[row, step] == best.indices
            assert abs(float(scores[row, step] - best.values.detach())) < 1e-3
            tokens = torch.cat([tokens, best.indices[:, None]], 1)
            if best.indices == model.vocabulary.eos:
                assert (ids[row, step + 1 :] == 0).all()
                break


def test_future_tokens_do_not_leak(model: DocVisionModel) -> None:
    memory = fake_memory(1, 10, TINY.width)
    tokens = torch.randint(1, 300, (1, 9), generator=torch.Generator().manual_seed(5))
    changed = tokens.clone()
    changed[0, 6] = 301
    with torch.no_grad():
        before = model.decoder(tokens, torch.arange(9), memory)
        after = model.decoder(changed, torch.arange(9), memory)
    torch.testing.assert_close(before[:, :6], after[:, :6], atol=0, rtol=0)
    assert not torch.equal(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("two_dimensional", [False, True])
def test_rotary_scores_depend_on_offsets_only(two_dimensional: bool) -> None:
    generator = torch.Generator().manual_seed(6)
    q, k = torch.randn(2, 1, 1, 1, 16, generator=generator)

    def score(query_at: tuple[int, int], key_at: tuple[int, int]) -> float:
        places = [torch.tensor([[place if two_dimensional else place[0]]]) for place in (query_at, key_at)]
        left, right = (rotate(x, rotary_angles(place, 16, 100.0)) for x, place in zip((q, k), places, strict=True))
        return float((left * right).sum())

    assert score((9, 4), (6, 1)) == pytest.approx(score((13, 10), (10, 7)), abs=1e-4)
    assert score((9, 4), (6, 1)) != pytest.approx(score((9, 4), (5, 1)), abs=1e-3)


def test_decoder_without_cross_attention_needs_no_memory() -> None:
    decoder = CausalDecoder(DecoderConfig(layers=1, heads=2, ffn=32, cross_attention=False), 32, 50)
    places = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"), -1).view(1, 6, 2)
    assert decoder(torch.ones(1, 6, dtype=torch.long), places).shape == (1, 6, 32)


def test_saved_model_loads_with_equal_outputs(model: DocVisionModel, tmp_path) -> None:
    model.save_pretrained(tmp_path / "m")
    loaded = DocVisionModel.from_pretrained(tmp_path / "m")
    assert loaded.config == model.config
    for name, value in model.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name]), name


def test_half_precision_weights_are_read_as_single(model: DocVisionModel, tmp_path) -> None:
    model.save_pretrained(tmp_path / "m", dtype=torch.float16)
    loaded = DocVisionModel.from_pretrained(tmp_path / "m")
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}


def test_damaged_and_foreign_models_are_refused_in_one_line(model: DocVisionModel, tmp_path) -> None:
    model.save_pretrained(tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    cases = {
        "vocabulary": {**config, "vocabulary": "0"},
        "does not fit": {**config, "width": 64},
        "did you mean": {**config, "widht": 64},
    }
    for message, plain in cases.items():
        (tmp_path / "m/config.json").write_text(json.dumps(plain))
        with pytest.raises(ValueError, match=message) as caught:
            DocVisionModel.from_pretrained(tmp_path / "m")
        assert "\n" not in str(caught.value)
    (tmp_path / "m/config.json").write_text(json.dumps(config))
    weights = tmp_path / "m/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="safetensors"):
        DocVisionModel.from_pretrained(tmp_path / "m")
    with pytest.raises(CheckpointError, match="no model 'nothing'"):
        DocVisionModel.from_pretrained("nothing")


def test_config_bounds_are_checked_together() -> None:
    broken = dataclasses.replace(TINY, width=30, line_height=20)
    assert len(broken.problems()) == 2
