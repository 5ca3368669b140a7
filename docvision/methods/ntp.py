"""Plain next-token decoding: no draft, no extra loss; the reference of every other method."""

from __future__ import annotations

from docvision.decoder import CausalDecoder
from docvision.methods.base import Method


class NextToken(Method):
    """One token a forward."""

    def __init__(self, decoder: CausalDecoder) -> None:
        super().__init__()
