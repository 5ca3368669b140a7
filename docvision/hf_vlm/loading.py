"""From a hub id, a folder or a loaded model to an accelerated one.

Weights are read from safetensors, code of a repository is never run, and nothing is downloaded unless an id is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from docvision.hf_vlm.accelerated import Accelerated
from docvision.hf_vlm.decoder import VlmError


def accelerate(
    model: Any,
    method: str = "textlayer",
    processor: Any = None,
    *,
    adapter: str | Path | None = None,
    revision: str | None = None,
    dtype: str = "auto",
    device_map: Any = None,
    accept: str = "exact",
    fallback: bool = True,
    **options: Any,
) -> Accelerated:
    """A document model that writes several tokens a forward.

    Args:
        model: a loaded model of transformers, a folder or a hub id.
        method: ``textlayer`` (drafts from the page's own words and from what was written), ``ngram`` (the latter
            alone), ``ptp`` (registers), ``pmtp`` (a recursive module), ``own`` (the layer for drafts that the model
            brings along), ``ntp`` (one token at a time).
        processor: of the model; loaded with it where an id or folder is given.
        adapter: folder or hub id of a trained method's weights.
        revision: commit, tag or branch of the hub id: pin it to a commit for results that stay the same.
        dtype: ``auto`` for the checkpoint's own, or float32, bfloat16, float16.
        device_map: as in transformers: ``auto``, ``cuda``, a mapping; None for the CPU.
        accept: ``exact`` keeps the model's answers; ``all`` and ``confidence(TAU)`` do not.
        fallback: stop drafting where the clock says that it does not pay.
        options: of the drafter, such as ``nodes=32`` or ``registers=2``.

    Raises:
        VlmError: no such model or adapter, or one that cannot be used; the message says why.
    """
    if isinstance(model, str | Path):
        model, found = load(str(model), revision, dtype, device_map)
        processor = processor or found
    return Accelerated(model, method, processor, accept, fallback, adapter, **options)


def load(name: str, revision: str | None = None, dtype: str = "auto", device_map: Any = None) -> tuple[Any, Any]:
    """Model and processor by hub id or folder.

    Raises:
        VlmError: there is no such model, it is of another kind, or it has no processor.
    """
    import transformers

    if dtype not in ("auto", "float32", "bfloat16", "float16"):
        raise VlmError(f"dtype {dtype!r}: auto, float32, bfloat16 or float16")
    wanted: Any = dtype if dtype == "auto" else getattr(torch, dtype)
    try:
        processor = transformers.AutoProcessor.from_pretrained(name, revision=revision)
    except (OSError, ValueError, KeyError) as error:
        raise VlmError(f"{name} has no processor that transformers can load: {first_line(error)}") from error
    if not hasattr(processor, "tokenizer"):
        raise VlmError(f"{name} has a {type(processor).__name__} alone, no processor of pictures and text")
    try:
        model = transformers.AutoModelForImageTextToText.from_pretrained(
            name, revision=revision, dtype=wanted, device_map=device_map, use_safetensors=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise VlmError(f"{name} is no image-text-to-text model that can be loaded: {first_line(error)}") from error
    return model.eval(), processor


def first_line(error: BaseException) -> str:
    """What an error says first, without its cause and hints."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]
