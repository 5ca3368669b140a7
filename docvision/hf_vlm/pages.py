"""A Hugging Face document model as the engine of parsing.

Steps, guards and exports are those of docvision.parse; only pictures of pages are read by the model, whole pages at a
time.  With ``text="auto"`` a page with a good text layer never meets it, with ``text="model"`` every page does, and
then the words of the layer are its drafts: it writes them if it sees them, several a forward.

The ledger still holds: a word of the layer that the model did not write is listed under ``dropped``, and words that the
model wrote and the layer does not have are counted in a warning.  A model that repeats itself is stopped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from docvision import ledger
from docvision.hf_vlm.accelerated import Accelerated
from docvision.hf_vlm.loading import accelerate
from docvision.hf_vlm.markup import to_blocks
from docvision.hf_vlm.prompts import ask, page_prompt
from docvision.images import is_blank
from docvision.page import Box, Dropped, Page, Word
from docvision.pdf import SourcePage
from docvision.scan import ModelUnavailable
from docvision.steps import Run, one_line

MAX_NEW_TOKENS = 4096
NOT_WRITTEN = "not in the model's reading"
LOOP_EVERY = 32
LOOP_TOKENS, LOOP_TIMES, LOOP_PERIOD = 96, 4, 160
"""A loop is a tail of at least so many tokens in which a run of at most LOOP_PERIOD stands LOOP_TIMES or more."""


class LoopGuard:
    """A stopping criterion: the end of the text repeats itself."""

    def __init__(self) -> None:
        self.stopped = False

    def __call__(self, input_ids: Tensor, scores: Any, **named: Any) -> Tensor:
        found = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
        if input_ids.shape[1] % LOOP_EVERY == 0:
            for row, ids in enumerate(input_ids[:, -LOOP_TIMES * LOOP_PERIOD :].tolist()):
                found[row] = loop_period(ids) > 0
        self.stopped |= bool(found.any())
        return found


def loop_period(ids: Sequence[int]) -> int:
    """Length of the run that the end of ``ids`` repeats; 0 for none."""
    for period in range(1, LOOP_PERIOD + 1):
        need = max(LOOP_TIMES * period, LOOP_TOKENS)
        if need <= len(ids) and all(ids[-place] == ids[-place - period] for place in range(1, need - period + 1)):
            return period
    return 0


def without_loop(ids: Sequence[int]) -> list[int]:
    """The ids with a loop at their end written once."""
    kept = list(ids)
    period = loop_period(kept)
    while period and len(kept) > period and kept[-period:] == kept[-2 * period : -period]:
        del kept[-period:]
    return kept


@dataclass
class PageText:
    """What the model wrote of one page."""

    text: str
    confidence: float
    """Geometric mean probability of its tokens."""
    warning: str = ""


class VlmReader:
    """A model that reads pages.

    Args:
        accelerated: with its processor.
        prompt: the request; empty for the family's own.
        max_new_tokens: most tokens of a page.
    """

    page_dpi = 144

    def __init__(self, accelerated: Accelerated, prompt: str = "", max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        self.accelerated = accelerated
        self.prompt = prompt or page_prompt(accelerated.model)
        self.max_new_tokens = max_new_tokens

    @classmethod
    def from_pretrained(cls, name: str, device: str = "cpu") -> VlmReader:
        """Load a model by folder or hub id, with drafts from the page's own words.

        Raises:
            ModelUnavailable: why it cannot be used.
        """
        try:
            return cls(accelerate(name, "textlayer", device_map=None if device == "cpu" else {"": device}))
        except (ValueError, OSError, RuntimeError, ImportError) as error:
            raise ModelUnavailable(f"the model cannot be loaded: {one_line(error)}") from error

    def read_page(self, image: Image.Image, words: Sequence[str] = ()) -> PageText:
        """The text of a page in the model's own format.

        Args:
            image: the page.
            words: of its text layer, as drafts.
        """
        model, guard = self.accelerated.model, LoopGuard()
        stack = self.accelerated.core.decoder.stack
        inputs = {
            name: value.to(stack.device, stack.dtype) if value.is_floating_point() else value.to(stack.device)
            for name, value in ask(self.accelerated.processor, [image], self.prompt).items()
        }
        ids = self.accelerated.generate(
            **inputs,
            words=[list(words)],
            max_new_tokens=self.max_new_tokens,
            do_sample=False,
            stopping_criteria=[guard],
        )
        start = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        new = ids[0, start:].tolist()
        warning = ""
        if guard.stopped:
            new, warning = without_loop(new), "the model repeated itself and was stopped: what follows is missing"
        elif len(new) >= self.max_new_tokens:
            warning = f"the model was stopped after {self.max_new_tokens} tokens: the page may go on"
        text = clean(self.accelerated.tokenizer, new)
        confidence = self.accelerated.last.confidence[0] if self.accelerated.last.confidence else 1.0
        return PageText(text, confidence, warning)

    def read_lines(self, crops: Sequence[Image.Image]) -> list[tuple[str, float]]:
        """Text and confidence of line crops, for the check of a text layer against the page."""
        read = [self.read_page(crop) for crop in crops]
        return [(" ".join(re.sub(r"<[^<>]*>", " ", page.text).split()), page.confidence) for page in read]


def clean(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text without the tokens that begin, end and pad; tags of DocTags are special to some tokenizers and stay."""
    silent = {tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id}
    text = tokenizer.decode([token for token in ids if token not in silent], skip_special_tokens=False)
    return re.sub(r"<(end_of_utterance|\|im_end\||\|endoftext\|)>|</s>|<s>", "", text).strip()


class VlmRun(Run):
    """One document whose pictures a document model reads."""

    def _from_picture(self, page: Page, sheet: SourcePage) -> None:
        image = self._raster(page, sheet)
        if is_blank(image):
            return
        layer = None if page.number in self.words else sheet.layer()
        words = list(layer.words) if layer is not None else []
        drafts = [word.text for word in words] or self.words.get(page.number, [])
        reader: Any = self.reader()
        self.model_used = True
        found: PageText = reader.read_page(image, drafts)
        page.blocks = to_blocks(found.text, Box(0.0, 0.0, page.width, page.height))
        for block in page.blocks:
            block.confidence = found.confidence
        if found.warning:
            page.warnings.append(found.warning)
            page.status = "partial"
        if words:
            self._balance(page, words)

    def _add_picture_text(self, page: Page, sheet: SourcePage, layer: Any) -> None:
        """A scan with a little real text on it: the model reads the page whole; the ledger keeps that text."""
        self.words.pop(page.number, None)
        page.blocks, page.dropped = [], []
        self._from_picture(page, sheet)

    def _balance(self, page: Page, words: Sequence[Word]) -> None:
        """List what the layer has and the model did not write; count what it wrote besides."""
        written = Counter(
            token for block in page.blocks for text in ledger.block_texts(block) for token in ledger.tokens(text)
        )
        for word in words:
            tokens = ledger.tokens(word.text)
            if tokens and all(written[token] > 0 for token in tokens):
                written.subtract(tokens)
            elif tokens:
                page.dropped.append(Dropped(word.text, word.box, NOT_WRITTEN))
        surplus = sum(count for count in written.values() if count > 0)
        if surplus:
            page.warnings.append(f"{surplus} words of the model's reading are not in the text layer")
