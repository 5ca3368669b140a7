"""Tiny generators, tokenizers and token sets that train in moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_images import CODES, GRID, tiny_recipe

from imagegen.batches import TokenSet, encode_set
from imagegen.config import GeneratorConfig
from imagegen.generate import Generator, Vocabulary
from imagegen.images import load_images
from imagegen.train import Prepared
from imagegen.vq import VQTokenizer


@pytest.fixture
def generator() -> Generator:
    """Two layers on a 5 x 5 grid, with an output layer that is not zero, so that nothing is equal by accident."""
    torch.manual_seed(0)
    model = Generator(GeneratorConfig(size="tiny", width=32, heads=2), Vocabulary(CODES, GRID, ("a", "b", "c")))
    torch.nn.init.normal_(model.head.weight, std=0.3)
    return model.eval()


@pytest.fixture
def ids_BN() -> torch.Tensor:
    return torch.randint(CODES, (4, GRID * GRID), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """scikit-learn's digits through an untrained tokenizer: what trains on them does not care what they show."""
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("digits")
    recipe = tiny_recipe(folder)
    torch.manual_seed(0)
    tokenizer = VQTokenizer(recipe.tokenizer, 8, 1).eval()
    train, held = load_images(replace(recipe.data, limit=200))
    tokens = [encode_set(tokenizer, part, folder / name) for part, name in ((train, "train"), (held, "held-out"))]
    return Prepared(train, held, tokenizer, tokens[0], tokens[1], folder)


@pytest.fixture
def ramp() -> TokenSet:
    """Token i of every image is i."""
    ids = np.tile(np.arange(GRID * GRID, dtype=np.uint16), (6, 1, 1))
    return TokenSet(ids.reshape(6, 1, -1), np.zeros(6, np.int64), ("a",), GRID, "t", "d")
