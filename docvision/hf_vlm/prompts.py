"""How the known families of document models are asked for a page, and how any other is.

A model that was trained for one task answers best to the words it was trained with.  Others get a plain request for
Markdown with HTML tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image
from torch import Tensor

from docvision.hf_vlm.decoder import VlmError

PAGE_PROMPTS = {
    "paddleocr_vl": "OCR:",
    "glm_ocr": "Text Recognition:",
    "lighton_ocr": "",
    "granite_docling": "<doclang>",
    "florence2": "<OCR>",
    "got_ocr2": "",
}
"""By model type; empty where the picture alone is the request."""
DOCTAGS_PROMPT = "Convert this page to docling."
GENERAL_PROMPT = "Transcribe this page as Markdown in reading order. Write tables as HTML. Add nothing."


def page_prompt(model: Any) -> str:
    """The request for a whole page."""
    kind = str(model.config.model_type)
    if kind in ("idefics3", "smolvlm") and "docling" in str(model.config.name_or_path).lower():
        return DOCTAGS_PROMPT
    return PAGE_PROMPTS.get(kind, GENERAL_PROMPT)


def ask(processor: Any, images: Sequence[Image.Image], prompt: str, padding_side: str = "left") -> dict[str, Tensor]:
    """Arguments of generate for pictures, each asked for with the same words.

    Raises:
        VlmError: the processor does not take a picture with a request.
    """
    pictures = [image.convert("RGB") for image in images]
    try:
        if getattr(processor, "chat_template", None):
            content: list[dict[str, str]] = [{"type": "image"}]
            if prompt:
                content.append({"type": "text", "text": prompt})
            turn = [{"role": "user", "content": content}]
            text = processor.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
            made = processor(
                text=[text] * len(pictures), images=[[picture] for picture in pictures], return_tensors="pt",
                padding=True, padding_side=padding_side,
            )  # fmt: skip
        elif prompt:
            made = processor(text=[prompt] * len(pictures), images=pictures, return_tensors="pt", padding=True)
        else:
            made = processor(images=pictures, return_tensors="pt", format=True)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        said = " ".join(str(error).split())[:160]
        raise VlmError(f"{type(processor).__name__} does not take a picture with a request: {said}") from error
    return dict(made)
