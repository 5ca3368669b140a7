"""A vision language model as an annotator: any model for pictures and text of the transformers library.

Loaded by hub id or folder from safetensors; code from a repository is never run.  The transformers library is loaded
when a model is, so that the other annotators do without it.  Answers are decoded greedily, one picture at a time.
"""

from __future__ import annotations

from typing import Any

from PIL import Image

from data_pipeline.consensus import AnnotatorError

PROMPTS = {
    "text": "Transcribe all text in this image exactly as printed. Give the text only.",
    "table": "Transcribe the table in this image as HTML: <table>, <tr>, <td>, colspan, rowspan. Give the HTML only.",
}
"""By kind of region; others are read as text."""
MAX_NEW_TOKENS = 1024


class VisionLanguageModel:
    """A model and its processor, as an annotator."""

    def __init__(self, model: Any, processor: Any, name: str, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        self.model, self.processor, self.name = model.eval(), processor, name
        self.max_new_tokens = max_new_tokens

    @classmethod
    def from_pretrained(cls, model: str, name: str = "") -> VisionLanguageModel:
        """Load by hub id or folder, on the first GPU where there is one.

        Raises:
            AnnotatorError: transformers is not installed, or there is no such model.
        """
        try:
            import torch
            import transformers
        except ImportError as error:
            raise AnnotatorError("hf: annotators need transformers: pip install docvision[vlm]") from error
        try:
            processor = transformers.AutoProcessor.from_pretrained(model)
            loaded = transformers.AutoModelForImageTextToText.from_pretrained(model, use_safetensors=True)
        except (OSError, ValueError) as error:
            said = str(error).strip().split("\n")[0][:200]
            raise AnnotatorError(f"hf:{model} cannot be loaded: {said}") from error
        device = "cuda" if torch.cuda.is_available() else "cpu"
        loaded.to(device)  # type: ignore[arg-type] # a device's name is one of the things it takes
        return cls(loaded, processor, name or model.rstrip("/").rsplit("/", 1)[-1])

    def __call__(self, images: list[Image.Image], kind: str) -> list[str]:
        return [self._read(image.convert("RGB"), PROMPTS.get(kind, PROMPTS["text"])) for image in images]

    def _read(self, image: Image.Image, prompt: str) -> str:
        turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
        asked = self.processor.apply_chat_template([turn], add_generation_prompt=True)
        inputs = self.processor(text=asked, images=image, return_tensors="pt").to(self.model.device)
        made = self.model.generate(**inputs, max_new_tokens=self.max_new_tokens, do_sample=False)
        answer = made[0, inputs["input_ids"].shape[1] :]
        return str(self.processor.decode(answer, skip_special_tokens=True)).strip()
