"""Drawing: the cache changes nothing, seeds and numbers decide, settings have their effect, errors say what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from docvision.checkpoint import CheckpointError
from imagegen.config import SIZES, GeneratorConfig, SampleConfig, TokenizerConfig
from imagegen.generate import (
    GenerateError,
    Generator,
    Vocabulary,
    class_number,
    draw,
    grid_picture,
    guidance_at,
    load_pair,
    narrow,
    sample_images,
)
from imagegen.train import export_pair
from imagegen.vq import VQTokenizer

PLAIN = SampleConfig(guidance=1.0)
LABELS = torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(
    "config", [PLAIN, SampleConfig(guidance=2.0), SampleConfig(guidance=3.0, schedule="linear", top_k=5, top_p=0.9)]
)
def test_cached_equals_uncached(generator, config):
    """A flip needs two tokens' noisy scores within 1e-6: odds below 1e-3 in these 100 draws."""
    cached, plain = (draw(generator, LABELS, config, 3, cached=value) for value in (True, False))
    assert torch.equal(cached, plain)


def test_cached_states_equal_teacher_forcing(generator, ids_BN):
    """Token by token through the cache, the scores are those of one pass over the whole grid."""
    whole = generator(LABELS, ids_BN)
    cache = generator.decoder.new_cache(4)
    cells = torch.arange(25).expand(4, -1)
    told = [generator.decoder(generator.embed(LABELS, ids_BN[:, :0]), generator.positions(cells[:, :0]), cache=cache)]
    cache.commit(1)
    for cell in range(24):
        newest = generator.positions(cells[:, cell : cell + 1])[:, 1:]
        token = generator.decoder.embed(ids_BN[:, cell : cell + 1])
        told.append(generator.decoder(token, newest, cache=cache))
        cache.commit(1)
    torch.testing.assert_close(generator.head(torch.cat(told, 1)), whole, atol=1e-5, rtol=0)


def test_an_image_depends_on_seed_and_number_and_not_on_its_batch(generator):
    together = draw(generator, LABELS, PLAIN, 5)
    alone = draw(generator, LABELS[2:3], PLAIN, 5, numbers_B=torch.tensor([2]))
    assert torch.equal(together[2:3], alone)
    assert torch.equal(together, draw(generator, LABELS, PLAIN, 5))
    assert not torch.equal(together, draw(generator, LABELS, PLAIN, 6))


def test_batches_change_no_byte(generator):
    torch.manual_seed(0)
    tokenizer = VQTokenizer(TokenizerConfig(widths=(8,), codes=11, code_dim=4), 10, 1).eval()
    whole = sample_images(generator, tokenizer, LABELS, PLAIN, 1)
    parts = sample_images(generator, tokenizer, LABELS, replace(PLAIN, batch=3), 1)
    assert torch.equal(whole, parts) and whole.shape == (4, 10, 10, 1)


def test_guidance_leaves_the_class_free_scores_behind(generator):
    """Guidance 1 is plain drawing; a strong one draws other tokens; of class none it changes nothing."""
    plain = draw(generator, LABELS, PLAIN, 2)
    assert not torch.equal(plain, draw(generator, LABELS, SampleConfig(guidance=6.0), 2))
    none = torch.full((4,), generator.none)
    assert torch.equal(draw(generator, none, PLAIN, 2), draw(generator, none, SampleConfig(guidance=6.0), 2))


def test_guidance_schedules():
    steps = range(5)
    assert [guidance_at(SampleConfig(guidance=3.0, schedule="linear"), cell, 5) for cell in steps] == [
        1,
        1.5,
        2,
        2.5,
        3,
    ]
    assert [guidance_at(SampleConfig(guidance=3.0, schedule="early"), cell, 5) for cell in steps] == [3, 3, 3, 1, 1]
    assert [guidance_at(SampleConfig(guidance=3.0), cell, 5) for cell in steps] == [3] * 5


def test_narrowing():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert narrow(logits, SampleConfig(top_k=2)).isfinite().tolist() == [[True, True, False, False]]
    assert narrow(logits, SampleConfig(top_p=0.75)).isfinite().tolist() == [[True, True, False, False]]
    assert narrow(logits, SampleConfig(top_p=0.01)).isfinite().tolist() == [[True, False, False, False]]
    assert torch.equal(narrow(logits, PLAIN), logits)


def test_temperature_zero_and_top_one_agree(generator):
    assert torch.equal(
        draw(generator, LABELS, SampleConfig(temperature=0.0, guidance=1.0), 1),
        draw(generator, LABELS, SampleConfig(top_k=1, guidance=1.0), 9),
    )


def test_class_token_is_turned_by_the_identity(generator):
    """LlamaGen's zero table would make the class's keys zero, so that nobody could attend to what it holds."""
    from docvision.decoder import rotary_angles

    cos, sin = rotary_angles(generator.positions(torch.zeros(1, 0, dtype=torch.long)), 16, 10_000.0)
    assert (cos == 1).all() and (sin == 0).all()


def test_classes_by_name_number_and_none(generator):
    assert [class_number(generator, name) for name in ("b", "2", "none")] == [1, 2, 3]
    with pytest.raises(GenerateError, match="no class 'sneeker': 0 to 2, none, or one of a, b, c"):
        class_number(generator, "sneeker")


def test_sizes_are_llamagens():
    """Parameters of B and L as LlamaGen counts them, 111 M and 343 M; the table's other rows must fit its rules."""
    names = tuple(map(str, range(1000)))
    for size, wanted in (("B", 111e6), ("L", 343e6)):
        with torch.device("meta"):
            model = Generator(GeneratorConfig(size=size), Vocabulary(16384, 16, names))
        assert sum(p.numel() for p in model.parameters()) == pytest.approx(wanted, rel=0.01)
    for size in SIZES:
        assert not GeneratorConfig(size=size).problems()


def test_pair_is_written_and_read_back(generator, tmp_path):
    tokenizer = VQTokenizer(TokenizerConfig(widths=(8,), codes=11, code_dim=4), 10, 1).eval()
    export_pair(tmp_path / "pair", generator, tokenizer)
    model, _ = load_pair(tmp_path / "pair")
    assert torch.equal(draw(model, LABELS, PLAIN, 1), draw(generator, LABELS, PLAIN, 1))


def test_pair_of_two_runs_is_refused(generator, tmp_path):
    tokenizer = VQTokenizer(TokenizerConfig(widths=(8,), codes=64, code_dim=4), 10, 1).eval()
    export_pair(tmp_path / "pair", generator, tokenizer)
    with pytest.raises(CheckpointError, match="speaks 11 codes on 5 x 5 cells, the tokenizer 64"):
        load_pair(tmp_path / "pair")


def test_checkpoint_of_another_config_is_refused(generator, tmp_path):
    generator.save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"layers": 0', '"layers": 3'))
    with pytest.raises(CheckpointError, match="does not fit this model: tensors .* missing"):
        Generator.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"kind": "vq"}')
    with pytest.raises(CheckpointError, match="no 'generator' model"):
        Generator.from_pretrained(tmp_path)


def test_missing_model_names_what_there_is(tmp_path):
    with pytest.raises(CheckpointError, match="no generator 'nowhere'"):
        load_pair("nowhere")


def test_grid_picture_holds_every_image():
    images = torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, 4, 4, 1) * 10
    sheet = grid_picture(images, columns=3, scale=2, gap=1)
    assert sheet.shape == (2 * 9 + 1, 3 * 9 + 1, 1)
    assert [int(sheet[1 + 9 * (i // 3), 1 + 9 * (i % 3), 0]) for i in range(5)] == [0, 10, 20, 30, 40]
    with pytest.raises(GenerateError, match="no image"):
        grid_picture(images[:0], 3)
