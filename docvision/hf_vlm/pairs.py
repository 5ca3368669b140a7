"""Pictures with their texts, from JSON Lines or Parquet, as batches to learn drafting from.

A row has ``image`` (a path beside the file, or bytes) and ``text``, the answer that the model is to give; ``prompt``
where the request is not the family's usual one.  Batch i is a function of seed and i alone, so a run can be resumed.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from docvision.hf_vlm.prompts import ask, page_prompt
from docvision.hf_vlm.training import PairBatch, pair_targets

MAX_ANSWER = 2048
"""Tokens of an answer that are learnt from; what lies behind is cut off."""


class PairError(ValueError):
    """Training data that is missing or has another form."""


class Pairs:
    """A stream of batches.

    Args:
        data: a .jsonl file, a Parquet file, or a folder of Parquet files.
        accelerated: whose processor makes the inputs.
        batch: pairs in a batch.
        seed: of the order.

    Raises:
        PairError: no such data, or rows without image or text.
    """

    def __init__(self, data: str | Path, accelerated: Any, batch: int = 1, seed: int = 0) -> None:
        self.folder = Path(data).parent if Path(data).is_file() else Path(data)
        self.rows = read_rows(Path(data))
        self.accelerated, self.size, self.seed = accelerated, batch, seed
        if accelerated.processor is None or accelerated.tokenizer is accelerated.processor:
            raise PairError("pictures become inputs by the model's processor: load it with AutoProcessor")

    def batch(self, number: int) -> PairBatch:
        """Batch ``number`` of a stream without end, every pair once in each pass."""
        per_pass = max(1, len(self.rows) // self.size)
        order = np.random.default_rng((self.seed, number // per_pass)).permutation(len(self.rows))
        start = (number % per_pass) * self.size
        return self.collate([self.rows[index] for index in order[start : start + self.size]])

    def collate(self, rows: list[dict[str, Any]]) -> PairBatch:
        """Rows of one prompt as tensors, right-padded."""
        model, tokenizer = self.accelerated.model, self.accelerated.tokenizer
        prompts = {row.get("prompt") or page_prompt(model) for row in rows}
        if len(prompts) > 1:
            raise PairError("the rows of a batch need one prompt: use tasks.0.batch=1")
        inputs = ask(self.accelerated.processor, [self._image(row) for row in rows], prompts.pop(), "right")
        answers = [tokenizer.encode(row["text"], add_special_tokens=False)[:MAX_ANSWER] for row in rows]
        end = end_token(model, tokenizer)
        answers = [[*ids, end] if len(ids) < MAX_ANSWER else ids for ids in answers]
        if model.config.is_encoder_decoder:
            return encoder_batch(inputs, answers, start_token(model))
        return decoder_batch(inputs, answers)

    def _image(self, row: dict[str, Any]) -> Image.Image:
        image = row["image"]
        if isinstance(image, dict):
            image = image.get("bytes") or image.get("path")
        try:
            opened = Image.open(io.BytesIO(image) if isinstance(image, bytes) else self.folder / image)
            return opened.convert("RGB")
        except (OSError, ValueError) as error:
            raise PairError(
                f"picture {row['image'] if isinstance(image, str) else ''} cannot be read: {error}"
            ) from error


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a file or folder."""
    if path.suffix == ".jsonl" and path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        try:
            rows = [json.loads(line) for line in lines if line.strip()]
        except ValueError as error:
            raise PairError(f"{path}: not JSON Lines: {error}") from error
    else:
        files = [path] if path.suffix == ".parquet" else sorted(path.glob("*.parquet"))
        if not files or not files[0].is_file():
            raise PairError(f"{path}: give a .jsonl file, a .parquet file or a folder of them")
        import pyarrow.parquet as pq

        rows = []
        for file in files:
            names = set(pq.read_schema(file).names) & {"image", "text", "prompt"}
            rows += pq.read_table(file, columns=sorted(names)).to_pylist()
    bad = next((number for number, row in enumerate(rows, 1) if not row.get("image") or not row.get("text")), None)
    if not rows or bad is not None:
        raise PairError(f"{path}: {'it has no rows' if not rows else f'row {bad} has no image or no text'}")
    return rows


def decoder_batch(inputs: dict[str, Tensor], answers: list[list[int]]) -> PairBatch:
    """Prompts with their answers behind them; other inputs of the text's shape get zeros there."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    lengths = mask.sum(1).tolist()
    width = max(length + len(answer) for length, answer in zip(lengths, answers, strict=True))
    made: dict[str, Tensor] = {}
    for name, value in inputs.items():
        if value.shape != ids.shape:
            made[name] = value
            continue
        made[name] = value.new_zeros(len(answers), width)
        for row, length in enumerate(lengths):
            made[name][row, :length] = value[row, :length]
    answer_BT = torch.zeros(len(answers), width, dtype=torch.bool)
    for row, (length, answer) in enumerate(zip(lengths, answers, strict=True)):
        place = slice(length, length + len(answer))
        made["input_ids"][row, place] = torch.tensor(answer)
        made["attention_mask"][row, place] = 1
        answer_BT[row, place] = True
    return PairBatch(made, pair_targets(made["input_ids"], answer_BT))


def encoder_batch(inputs: dict[str, Tensor], answers: list[list[int]], start: int) -> PairBatch:
    """Answers as the decoder's own text behind its start token."""
    width = max(map(len, answers)) + 1
    ids = torch.zeros(len(answers), width, dtype=torch.long)
    answer_BT = torch.zeros(len(answers), width, dtype=torch.bool)
    for row, answer in enumerate(answers):
        ids[row, : len(answer) + 1] = torch.tensor([start, *answer])
        answer_BT[row, 1 : len(answer) + 1] = True
    return PairBatch({**inputs, "decoder_input_ids": ids}, pair_targets(ids, answer_BT))


def end_token(model: Any, tokenizer: Any) -> int:
    """The id that ends an answer."""
    found = model.generation_config.eos_token_id
    found = found[0] if isinstance(found, list) else found
    found = tokenizer.eos_token_id if found is None else found
    if found is None:
        raise PairError("the model names no end token: set generation_config.eos_token_id")
    return int(found)


def start_token(model: Any) -> int:
    """The id that a decoder behind an encoder starts with."""
    for config in (model.generation_config, model.config, model.config.get_text_config(decoder=True)):
        found = getattr(config, "decoder_start_token_id", None)
        if found is not None:
            return int(found)
    raise PairError("the model names no decoder_start_token_id")
