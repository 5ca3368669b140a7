"""The tokenizer: codes and images round trip, the codebook stays in use, gradients go where they should."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from docvision.checkpoint import CheckpointError
from docvision.config import OptimConfig
from imagegen.batches import ImageBatch
from imagegen.config import TokenizerConfig
from imagegen.tokenizer_train import TokenizerTrainer
from imagegen.vq import Quantiser, VQTokenizer, reconstruction_report, to_bytes, to_floats

TINY = TokenizerConfig(widths=(8, 16), codes=32, code_dim=4, optim=OptimConfig(steps=10, warmup=1))


def noise(count: int, size: int = 12, channels: int = 1) -> torch.Tensor:
    source = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, size, size, channels), generator=source, dtype=torch.uint8)


def test_bytes_survive_floats():
    every = torch.arange(256, dtype=torch.uint8).view(1, 16, 16, 1)
    assert torch.equal(to_bytes(to_floats(every)), every)


def test_quantiser_takes_the_nearest_code_and_passes_the_gradient():
    torch.manual_seed(0)
    quantiser = Quantiser(32, 4, 0.25, 0.0)
    z = torch.randn(2, 4, 3, 3, requires_grad=True)
    found = quantiser(z)
    unit = torch.nn.functional.normalize(z.flatten(2).transpose(1, 2), dim=-1)
    assert torch.equal(found.ids_BN, torch.cdist(unit, quantiser.table().expand(2, -1, -1)).argmin(-1))
    torch.testing.assert_close(found.map_BDhw.norm(dim=1), torch.ones(2, 3, 3))
    found.map_BDhw.sum().backward()
    assert z.grad.abs().sum() > 0 and quantiser.embedding.weight.grad is None


def test_codebook_and_encoder_are_pulled_together():
    torch.manual_seed(0)
    quantiser = Quantiser(32, 4, 0.25, 0.0)
    z = torch.randn(2, 4, 3, 3, requires_grad=True)
    quantiser(z).losses["codebook"].backward()
    assert quantiser.embedding.weight.grad.abs().sum() > 0 and z.grad.abs().sum() > 0


def test_entropy_term_prefers_even_use():
    """Inputs that all pick one code cost more than inputs spread over the codes."""
    torch.manual_seed(0)
    quantiser = Quantiser(8, 8, 0.25, 1.0)
    with torch.no_grad():
        quantiser.embedding.weight.copy_(torch.eye(8))
    one = torch.eye(8)[0].view(1, 8, 1, 1).expand(8, 8, 1, 1)
    spread = torch.eye(8).view(8, 8, 1, 1)
    assert quantiser(one).losses["entropy"] > quantiser(spread).losses["entropy"] + 1


@pytest.mark.parametrize(("size", "channels", "attention"), [(28, 1, False), (32, 3, True)])
def test_shapes_follow_the_recipe(size, channels, attention):
    model = VQTokenizer(replace(TINY, attention=attention), size, channels).eval()
    ids = model.encode(noise(2, size, channels))
    assert ids.shape == (2, (size // 4) ** 2) and model.decode(ids).shape == (2, size, size, channels)


def test_decoding_ids_equals_the_reconstruction():
    torch.manual_seed(0)
    model = VQTokenizer(TINY, 12, 1).eval()
    made, quantised = model(to_floats(noise(3)))
    assert torch.equal(model.encode(noise(3)), quantised.ids_BN)
    assert (model.decode(quantised.ids_BN).int() - to_bytes(made).int()).abs().max() <= 1  # another order of sums


def test_images_of_another_size_are_refused():
    with pytest.raises(CheckpointError, match=r"images of \(16, 16, 1\): this tokenizer was made for \(12, 12, 1\)"):
        VQTokenizer(TINY, 12, 1).encode(noise(1, 16))


def test_report_of_a_perfect_tokenizer():
    class Perfect(VQTokenizer):
        def encode(self, images):
            return images.flatten(1).long() % 32

        def decode(self, ids):
            return ids.view(-1, 12, 12, 1).to(torch.uint8)

    report = reconstruction_report(Perfect(TINY, 12, 1), noise(64) % 16)
    assert report["psnr"] == pytest.approx(100) and report["usage"] == 0.5
    assert report["perplexity"] == pytest.approx(16, rel=0.01)


def test_folder_round_trip(tmp_path):
    torch.manual_seed(0)
    model = VQTokenizer(TINY, 12, 1).eval()
    model.save_pretrained(tmp_path)
    assert torch.equal(VQTokenizer.from_pretrained(tmp_path).encode(noise(3)), model.encode(noise(3)))
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        VQTokenizer.from_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="imagegen tokenize makes one"):
        VQTokenizer.from_pretrained(tmp_path / "nowhere")


def test_discriminator_and_tokenizer_learn_from_their_own_terms():
    """One backward serves both: the tokenizer's term must not train the discriminator, nor the other way round."""
    torch.manual_seed(0)
    trainer = TokenizerTrainer(replace(TINY, adversarial=0.5, adversarial_start=0), 12, 1)
    batch = ImageBatch(noise(4), torch.zeros(4, dtype=torch.long))
    judge = list(trainer.discriminator.parameters())
    losses = trainer(batch)
    mine = torch.autograd.grad(losses["adversarial"], judge, retain_graph=True, allow_unused=True)
    own = list(trainer.model.decoder.parameters())
    other = torch.autograd.grad(losses["discriminator"], own, retain_graph=True, allow_unused=True)
    assert all(grad is None for grad in (*mine, *other))
    assert any(grad.abs().sum() > 0 for grad in torch.autograd.grad(losses["adversarial"], own, retain_graph=True))
    assert any(grad.abs().sum() > 0 for grad in torch.autograd.grad(losses["discriminator"], judge))


def test_adversarial_term_waits_for_its_start():
    torch.manual_seed(0)
    trainer = TokenizerTrainer(replace(TINY, adversarial=0.5, adversarial_start=1), 12, 1)
    batch = ImageBatch(noise(4), torch.zeros(4, dtype=torch.long))
    early, late = (trainer(batch) for _ in range(2))
    assert early["discriminator"] == 0 and late["discriminator"] > 0


def test_perceptual_term_compares_the_features_it_is_given():
    torch.manual_seed(0)
    trainer = TokenizerTrainer(replace(TINY, perceptual=2.0), 12, 1, lambda images: [images, images.flip(-1)])
    batch = ImageBatch(noise(4), torch.zeros(4, dtype=torch.long))
    assert trainer(batch)["perceptual"] > 0
    trainer.features = lambda images: [torch.ones_like(images)]
    assert trainer(batch)["perceptual"] < 1e-9


def test_a_few_images_are_learnt():
    """Sixteen smooth images: the error of the reconstruction falls by half in sixty steps."""
    torch.manual_seed(0)
    ramp = torch.linspace(0, 255, 12)
    images = torch.stack([ramp[:, None] * (i / 16) + ramp[None] * (1 - i / 16) for i in range(16)])[..., None].byte()
    trainer = TokenizerTrainer(replace(TINY, entropy=0.02), 12, 1)
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=5e-3)
    batch = ImageBatch(images, torch.zeros(16, dtype=torch.long))
    seen = []
    for _ in range(60):
        losses = trainer(batch)
        seen.append(float(losses["l2"].detach()))
        sum(losses.values()).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert seen[-1] < seen[0] / 2
