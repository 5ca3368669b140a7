"""The recipe that the tests train: digits, 16 tokens, a few thousand weights."""

from __future__ import annotations

from pathlib import Path

from docvision.config import OptimConfig, RunConfig
from imagegen.config import DataConfig, GeneratorConfig, ImageRecipe, MtarConfig, TokenizerConfig

GRID, CODES = 5, 11
"""Of the generator in conftest.py."""


def tiny_recipe(out: Path, steps: int = 6, mtar: MtarConfig | None = None) -> ImageRecipe:
    """A run of ``steps`` into ``out``."""
    return ImageRecipe(
        data=DataConfig(kind="digits", size=8),
        tokenizer=TokenizerConfig(
            widths=(8,), codes=16, code_dim=4, entropy=0.02, batch=32, optim=OptimConfig(steps=5, lr=4e-3, warmup=1)
        ),
        model=GeneratorConfig(size="tiny", width=32, heads=2),
        mtar=mtar or MtarConfig(),
        batch=8,
        ema=0.9,
        optim=OptimConfig(steps=steps, lr=2e-3, warmup=2),
        run=RunConfig(out=str(out), log_every=1, save_every=2, validate_every=1000, validate_samples=16, keep=9),
    )
