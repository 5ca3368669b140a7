"""A tiny document model learns pages by heart and then shows real acceptance: copied text, registers, the module.

Slow: six minutes of one core.  The numbers are printed with ``-s``.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
import tiny_vlms
import torch
from PIL import Image

from docvision.hf_vlm import Accelerated
from docvision.hf_vlm.prompts import ask
from docvision.hf_vlm.training import PairBatch, VlmTrainer, pair_targets

pytestmark = pytest.mark.slow
PAGES, SIDE, LIMIT = 50, 32, 200
PROMPT = "Read."
WORDS = tiny_vlms.CORPUS.split("</table>")[1].replace("-", " ").split()
PHRASES = [
    " ".join(words[start : start + 8])
    for words in (WORDS, random.Random(2).sample(WORDS, len(WORDS)))
    for start in range(0, len(words) - 7, 8)
]


def page_text(noise: random.Random) -> tuple[str, list[str]]:
    """Markdown of a page, some 70 words and a table, and the words that its text layer would have."""
    prose = " ".join(noise.sample(PHRASES, 9))
    cells = [[noise.choice(WORDS), str(noise.randint(10, 999))] for _ in range(3)]
    rows = "".join(f"<tr><td>{left}</td><td>{right}</td></tr>" for left, right in cells)
    words = [*prose.split(), *(cell for row in cells for cell in row)]
    return f"{prose}\n\n<table>{rows}</table>", words


@pytest.fixture(scope="module")
def learnt() -> tuple[Any, Any, list[Image.Image], list[str], list[list[str]]]:
    """A model that knows its pages by heart: each is told from the others by its colours alone."""
    model, processor = tiny_vlms.reader(SIDE, 128)
    noise = random.Random(1)
    pixels = torch.Generator().manual_seed(0)
    pictures, texts, words = [], [], []
    for _ in range(PAGES):
        colours = torch.randint(0, 256, (4, 4, 3), generator=pixels, dtype=torch.uint8)
        pictures.append(Image.fromarray(colours.numpy()).resize((SIDE, SIDE), Image.Resampling.NEAREST))
        text, layer = page_text(noise)
        texts.append(text)
        words.append(layer)
    batch = teacher(processor, pictures, texts)
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    recent = [1.0] * 20
    for step in range(1200):
        chosen = torch.randperm(PAGES, generator=pixels)[:10]
        inputs = {name: value[chosen] for name, value in batch.inputs.items()}
        targets = batch.targets_BT[chosen]
        logits = model(**inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[targets != 0], targets[targets != 0])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 50 == 0:
            print(f"step {step} loss {sum(recent) / 20:.4f}", flush=True)
        recent = [*recent[1:], float(loss.detach())]
        if sum(recent) / 20 < 0.004:
            break
    return model.eval(), processor, pictures, texts, words


def teacher(processor: Any, pictures: list[Image.Image], texts: list[str]) -> PairBatch:
    """All pages with their texts as one batch; all prompts are of one length."""
    inputs = ask(processor, pictures, PROMPT)
    end = processor.tokenizer.eos_token_id
    answers = [[*processor.tokenizer.encode(text, add_special_tokens=False), end] for text in texts]
    width = max(map(len, answers))
    padded = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in answers])
    ids = torch.cat([inputs["input_ids"], padded], 1)
    inputs["attention_mask"] = torch.cat([inputs["attention_mask"], (padded != 0).long()], 1)
    answer = torch.cat([torch.zeros_like(inputs["input_ids"]), padded], 1) != 0
    inputs["input_ids"] = ids
    return PairBatch(inputs, pair_targets(ids, answer))


def read_all(
    accelerated: Accelerated, pictures: list[Image.Image], words: Any = None
) -> tuple[list[Any], float, float]:
    """Answers page by page, tokens a forward, and seconds of this thread (others may be busy on the machine)."""
    made, tokens, forwards = [], 0, 0
    began = time.thread_time()
    for number, picture in enumerate(pictures):
        layer = {} if words is None else {"words": [words[number]]}
        given = ask(accelerated.processor, [picture], PROMPT)
        made.append(accelerated.generate(**given, **layer, max_new_tokens=LIMIT, do_sample=False))
        tokens += sum(map(sum, accelerated.last.runs))
        forwards += accelerated.last.forwards
    return made, tokens / max(1, forwards), time.thread_time() - began


def train_drafts(drafted: Accelerated, batch: PairBatch, options: dict[str, Any], steps: int) -> None:
    """A method's weights on all pages."""
    trainer = VlmTrainer(drafted, {drafted.method: options})
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=3e-3)
    order = torch.Generator().manual_seed(0)
    for step in range(steps):
        chosen = torch.randperm(PAGES, generator=order)[:8]
        part = PairBatch({name: value[chosen] for name, value in batch.inputs.items()}, batch.targets_BT[chosen])
        losses = trainer(part, order)
        losses[drafted.method].backward()
        optimiser.step()
        optimiser.zero_grad()
        if step % 50 == 0:
            print(f"step {step}", {name: round(float(value.detach()), 3) for name, value in losses.items()}, flush=True)


def test_drafts_of_a_model_that_reads(learnt):
    """Copied text: at least 4 tokens a forward. Registers: at least 2. The answers are the model's own."""
    model, processor, pictures, texts, words = learnt
    plain, _, plain_seconds = read_all(Accelerated(model, "ntp", processor), pictures)
    right = sum(processor.tokenizer.decode(ids[0], skip_special_tokens=True).endswith(text)
                for ids, text in zip(plain, texts, strict=True))  # fmt: skip
    assert right >= 0.9 * PAGES, f"only {right} of {PAGES} pages are known by heart"
    for number in (0, PAGES - 1):
        given = ask(processor, pictures[number : number + 1], PROMPT)
        assert model.generate(**given, max_new_tokens=LIMIT, do_sample=False).equal(plain[number])

    found = {"textlayer": read_all(Accelerated(model, "textlayer", processor, fallback=False), pictures, words)}
    batch = teacher(processor, pictures, texts)
    for method, options, steps in (
        ("ptp", {"registers": 3, "rank": 32, "share": 0.25}, 250),
        ("pmtp", {"depth": 3, "ffn": 256}, 100),
    ):
        drafted = Accelerated(model, method, processor, fallback=False)
        train_drafts(drafted, batch, options, steps)
        found[method] = read_all(drafted, pictures)
    print(f"{right} of {PAGES} pages known; seconds for all: plain {plain_seconds:.1f}")
    for method, (made, rate, seconds) in found.items():
        print(f"{method}: {rate:.2f} tokens a forward, {plain_seconds / seconds:.2f} times the speed of plain decoding")
        assert all(ids.equal(own) for ids, own in zip(made, plain, strict=True)), method
    assert found["textlayer"][1] >= 4
    assert found["ptp"][1] >= 2


def test_rolling_back_costs_next_to_nothing(learnt):
    """Committing some of what was written and leaving the rest: under 2 % of the forward before it."""
    model, processor, pictures, _, _ = learnt
    accelerated = Accelerated(model, "ngram", processor)
    decoder = accelerated.core.decoder
    given = ask(processor, pictures[:4], PROMPT)
    with torch.inference_mode():
        cache, _ = accelerated._prefill(
            given["input_ids"], {name: given[name] for name in given if name != "input_ids"}
        )
        forward, commit = [], []
        for _ in range(40):
            began = time.perf_counter()
            decoder(torch.full((4, 9), 40), cache.length_B[:, None] + torch.arange(9), None, None, cache)
            middle = time.perf_counter()
            cache.commit(torch.tensor([1, 3, 9, 2]))
            commit.append(time.perf_counter() - middle)
            forward.append(middle - began)
    share = sorted(commit)[20] / sorted(forward)[20]
    print(f"rollback: {share:.2%} of a forward of 9 tokens in 4 rows")
    assert share < 0.02
