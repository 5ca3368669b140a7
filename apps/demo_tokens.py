"""The decoder at work, for the demo's working process: what a model can do, and plain decoding against a method.

Both write the same lines.  The one whose clock is behind takes the next step, so they run side by side as they
would on a machine of their own, and what slows this one down slows both.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw, ImageFont

from apps.demo_process import Tell
from docvision import methods
from docvision.decode import Hints, Plan, Session, decode, generate_text, text_prompt
from docvision.encoder import Memory
from docvision.images import crop_line, grey, to_float
from docvision.model import DocVisionModel, Reading, pad_images, split_line, width_groups
from docvision.overlay_html import jpeg
from docvision.page import Box
from docvision.pdf import open_source
from docvision.reader import ModelReader
from docvision.steps import READ_DPI

SAMPLES = (
    "Harbours wait for the tide, and clocks are set by it.",
    "Invoice no. 2024-1187 of 12 March, total 1,204.50",
    "The quick brown fox jumps over the lazy dog.",
    "see section 4.2 for the method and its limits",
)
"""Lines to tell a decoder that reads from one that was never trained."""
LETTERS = 2.0
"""Nats a character. Knowing how often each letter occurs leaves about 3, reading leaves less than 1."""
LIMIT = 192
"""Most tokens of a line."""
WARM_UP = 4
"""Tokens that both write before the clocks start: a first forward in a process takes longer."""
WIDEST = 1400
"""Pixels of a line's picture on the page."""
ARMS = ("plain", "drafted")


class DecoderReader(ModelReader):
    """Reads line crops with the decoder.

    Args:
        model: with a trained decoder.
        method: how it decodes; the text is that of plain decoding with any method.
    """

    def __init__(self, model: DocVisionModel, method: str) -> None:
        super().__init__(model)
        self.method = method

    @torch.inference_mode()
    def read_lines(self, crops: Sequence[Image.Image]) -> list[Reading]:
        lines = [split_line(to_float(_of_height(crop, self.model.config.line_height))) for crop in crops]
        pieces = [piece for line in lines for piece in line]
        found = [Reading("", 1.0)] * len(pieces)
        for group in width_groups([piece.shape[1] for piece in pieces], self.model.config.line_height):
            pixels, size = pad_images([pieces[index] for index in group])
            memory = self.model.encoder(pixels.to(self.model.device), size.to(self.model.device))
            for index, reading in zip(group, generate_text(self.model, memory, method=self.method), strict=True):
                found[index] = reading
        readings, start = [], 0
        for line in lines:
            parts = found[start : start + len(line)]
            start += len(line)
            text = " ".join(part.text.strip() for part in parts if part.text.strip())
            readings.append(Reading(text, min(part.confidence for part in parts)))
        return readings


def _of_height(crop: Image.Image, height: int) -> Image.Image:
    return crop if crop.height == height else crop.resize((max(1, round(crop.width * height / crop.height)), height))


def describe(model: DocVisionModel, name: str) -> dict[str, Any]:
    """What the demo says of a model: name, size, how well its decoder reads sample lines, methods that it can use."""
    nats = decoder_nats(model)
    drafting = [method for method in methods.REGISTRY if method != "ntp"]
    return {
        "name": Path(name).name,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "nats": round(nats, 3),
        "decoder": nats < LETTERS,
        "methods": [each for each in drafting if each not in methods.TRAINED or each in model.methods],
    }


@torch.inference_mode()
def decoder_nats(model: DocVisionModel) -> float:
    """Mean cost in nats that the decoder puts on each character of lines drawn here, given the ones before it."""
    vocabulary, costs = model.vocabulary, []
    face = ImageFont.load_default(21.0)
    for text in SAMPLES:
        image = Image.new("L", (int(face.getlength(text)) + 16, model.config.line_height), 255)
        ImageDraw.Draw(image).text((8, 3), text, font=face, fill=0)
        pixels, size = pad_images([to_float(image)])
        memory = model.encoder(pixels.to(model.device), size.to(model.device))
        ids = vocabulary.encode(text)
        tokens = torch.cat([text_prompt(model, 1)[0], torch.tensor(ids, device=model.device)])
        hidden = model.decoder(tokens[None], torch.arange(len(tokens), device=model.device), memory)
        scores = model.decoder.logits(hidden[0, 1:]).float().log_softmax(-1)
        wanted = torch.tensor([*ids, vocabulary.eos], device=model.device)
        costs.append(-scores.gather(1, wanted[:, None])[:, 0])
    return float(torch.cat(costs).mean())


def watch_job(model: DocVisionModel, job: dict[str, Any], tell: Tell) -> None:
    """Crop the lines out of a page and race over them; see :func:`race`.

    Args:
        model: with a trained decoder.
        job: ``path``, ``password``, ``page``, ``size`` of the page and ``lines`` (boxes) in points, ``words`` of the
            text layer in each line, ``method``, ``accept``.
        tell: takes the answers: ``pictures`` of the lines first.

    Raises:
        ValueError: the page cannot be drawn, or there is no such method or policy.
    """
    with open_source(job["path"], job["password"]) as source:
        image = grey(source.page(job["page"]).raster(READ_DPI))
    x, y = image.width / max(job["size"][0], 1.0), image.height / max(job["size"][1], 1.0)
    crops = [crop_line(image, Box(*box).scale(x, y), model.config.line_height) for box in job["lines"]]
    tell(pictures=[base64.b64encode(jpeg(crop, WIDEST)).decode() for crop in crops])
    race(model, crops, job["words"], job["method"], job["accept"], tell)


@torch.inference_mode()
def race(
    model: DocVisionModel,
    crops: Sequence[Image.Image],
    words: Sequence[Sequence[str]],
    method: str,
    accept: str,
    tell: Tell,
) -> None:
    """Plain decoding and a method write the same lines, step by step.

    Answers ``{"arm", "clock", "rows": [[row, text, drafted], ...]}`` after each step, with the seconds that this arm
    has used so far, and at last ``{"race": {"plain": ..., "drafted": ..., "equal": lines, "disagreements": tokens}}``.
    """
    pixels, size = pad_images([to_float(crop) for crop in crops])
    memory = model.encoder(pixels.to(model.device), size.to(model.device))
    prompt = text_prompt(model, len(crops))
    limit = min(LIMIT, 2 * memory.grid[1] + 2)
    sessions: dict[str, Session] = {}
    clocks = dict.fromkeys(ARMS, 0.0)
    for arm, plan in zip(ARMS, (Plan(limit), Plan(limit, method, accept, fallback=False)), strict=True):
        _warm_up(model, memory, prompt, plan, words)
        began = time.perf_counter()
        sessions[arm] = Session(model, memory, prompt, plan, Hints(words=words))
        clocks[arm] = time.perf_counter() - began
    while going := [arm for arm in ARMS if sessions[arm].alive]:
        arm = min(going, key=clocks.__getitem__)
        began = time.perf_counter()
        rows = _step(model, sessions[arm])
        clocks[arm] += time.perf_counter() - began
        tell(arm=arm, clock=round(clocks[arm], 5), rows=rows)
    plain, drafted = (sessions[arm] for arm in ARMS)
    equal = sum(mine == want for mine, want in zip(drafted.written, plain.written, strict=True))
    figures = {arm: _figures(sessions[arm], clocks[arm]) for arm in ARMS}
    tell(race={**figures, "equal": equal, "lines": len(crops), "disagreements": drafted.disagreements})


def _warm_up(
    model: DocVisionModel, memory: Memory, prompt: torch.Tensor, plan: Plan, words: Sequence[Sequence[str]]
) -> None:
    short = Plan(min(WARM_UP, plan.limit), plan.method, plan.accept, fallback=False)
    decode(model, memory, prompt, short, Hints(words=words))


def _step(model: DocVisionModel, session: Session) -> list[tuple[int, str, bool]]:
    """One forward of a session: (row, text of a token, whether it was drafted) of what was won."""
    before = [len(row) for row in session.written]
    session.step()
    won = []
    for row, start in enumerate(before):
        new = session.written[row][start:]
        for index, token in enumerate(new):
            if token != session.eos:
                # Of each forward the last token is the core's own; those before it were drafted and held.
                won.append((row, model.vocabulary.decode([token]), index < len(new) - 1))
    return won


def _figures(session: Session, seconds: float) -> dict[str, Any]:
    tokens = sum(map(len, session.written))
    shares = sum(map(len, session.runs))
    return {
        "seconds": round(seconds, 4),
        "tokens": tokens,
        "forwards": session.forwards,
        "tokens_per_forward": round(tokens / max(1, shares), 2),
    }
