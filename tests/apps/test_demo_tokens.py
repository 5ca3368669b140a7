"""The decoder at work in the demo: the race of a method against plain decoding, and how it is shown.

The model here is small and untrained: it repeats itself, so that drafts copied from its own output are kept.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw

from apps import demo_race, demo_tokens
from apps.demo_desk import decodings
from apps.demo_race import Card, Race, page_lines
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import Plan, decode, text_prompt
from docvision.images import to_float
from docvision.methods.base import MethodError
from docvision.model import DocVisionModel, pad_images
from docvision.page import Block, Box, Line, Page

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def model() -> DocVisionModel:
    torch.manual_seed(0)
    sizes = {"encoder": EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 0, 0, 1)), "width": 32, "bins": 8}
    return DocVisionModel(ModelConfig(decoder=DecoderConfig(layers=1, heads=2, ffn=32), **sizes)).eval()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def crops() -> list[Image.Image]:
    made = []
    for text in ("tides rise", "harbours wait for it"):
        image = Image.new("L", (8 * len(text), 32), 255)
        ImageDraw.Draw(image).text((2, 8), text, fill=0)
        made.append(image)
    return made


def run(model: DocVisionModel, crops: list[Image.Image], method: str, accept: str = "exact") -> Race:
    race = Race(method)
    race.take({"pictures": ["AAAA"] * len(crops)})
    demo_tokens.race(model, crops, [[] for _ in crops], method, accept, lambda **answer: race.take(answer))
    return race


def written(race: Race, arm: str) -> list[str]:
    return ["".join(text for text, _, _ in row) for row in race.tokens[arm]]


@torch.inference_mode()
def test_both_write_what_plain_decoding_writes_and_drafts_are_marked(model: DocVisionModel, crops: Any) -> None:
    race = run(model, crops, "textlayer")
    pixels, size = pad_images([to_float(crop) for crop in crops])
    memory = model.encoder(pixels, size)
    want = decode(model, memory, text_prompt(model, 2), Plan(2 * memory.grid[1] + 2))
    texts = [model.vocabulary.decode(row) for row in want.ids.tolist()]
    assert [model.vocabulary.decode(model.vocabulary.encode(text)) for text in written(race, "plain")] == texts
    assert written(race, "drafted") == written(race, "plain") and race.figures["equal"] == 2
    kept = [drafted for row in race.tokens["drafted"] for _, drafted, _ in row]
    assert any(kept) and not all(kept)
    assert not any(drafted for row in race.tokens["plain"] for _, drafted, _ in row)
    plain, drafted = race.figures["plain"], race.figures["drafted"]
    assert plain["tokens"] == drafted["tokens"] and plain["forwards"] > drafted["forwards"]
    assert drafted["tokens_per_forward"] > plain["tokens_per_forward"] == 1
    assert "times as fast as plain decoding, with the same text in all 2 lines." in race.verdict()


def test_clocks_never_run_back_and_the_later_one_waits(model: DocVisionModel, crops: Any) -> None:
    answers: list[dict[str, Any]] = []
    demo_tokens.race(model, crops, [[], []], "textlayer", "exact", lambda **answer: answers.append(answer))
    clocks = {"plain": 0.0, "drafted": 0.0}
    ends = {arm: max(at for at, found in enumerate(answers) if found.get("arm") == arm) for arm in clocks}
    for at, answer in enumerate(answers[:-1]):
        arm = answer["arm"]
        other = "plain" if arm == "drafted" else "drafted"
        assert answer["clock"] >= clocks[arm]
        if clocks[other] and at <= ends[other] and clocks[arm]:
            assert clocks[arm] <= clocks[other], "the one that is behind takes the next step"
        clocks[arm] = answer["clock"]


def test_a_lossy_policy_tells_its_disagreements(model: DocVisionModel, crops: Any) -> None:
    race = run(model, crops, "ctc", "all")
    assert race.figures["disagreements"] > 0
    assert "are not what the decoder would have written" in race.verdict()


def test_a_method_without_weights_is_refused(model: DocVisionModel, crops: Any) -> None:
    with pytest.raises(MethodError, match="no weights for pmtp"):
        run(model, crops, "pmtp")
    with pytest.raises(ValueError, match="accept='most'"):
        run(model, crops, "ctc", "most")


def test_an_untrained_decoder_is_known_by_what_it_spends_on_a_character(model: DocVisionModel) -> None:
    told = demo_tokens.describe(model, "/some/where/tiny")
    card = Card(**{**told, "methods": tuple(told["methods"])})
    assert card.name == "tiny" and card.nats > demo_tokens.LETTERS and not card.decoder
    assert card.methods == ("ctc", "textlayer") and "has no trained decoder" in card.notice()
    assert [name for _, name in decodings(card)] == ["line"]
    trained = Card("tiny", 10, 0.4, True, ("ctc", "pmtp"))
    assert [name for _, name in decodings(trained)] == ["line", "ntp", "ctc", "pmtp"]


def test_the_decoder_reads_lines_like_plain_decoding_with_any_method(model: DocVisionModel, crops: Any) -> None:
    plain, drafted = (demo_tokens.DecoderReader(model, method).read_lines(crops) for method in ("ntp", "textlayer"))
    assert [reading.text for reading in plain] == [reading.text for reading in drafted]
    assert any(reading.text for reading in plain)


def test_lines_of_a_page_come_from_the_block_on_with_the_layers_words() -> None:
    def block(text: str, source: str) -> Block:
        return Block("text", Box(0, 0, 9, 9), text, [Line(text, Box(0, 0, 9, 9))], source=source)  # type: ignore[arg-type]

    blocks = [block("one", "text-layer"), block("two words", "text-layer"), block("three", "model")]
    boxes, words = page_lines(Page(1, 9, 9, blocks * 4), 2)
    assert len(boxes) == demo_race.LINES and words[:3] == [["two", "words"], [], ["one"]]
    assert page_lines(Page(1, 9, 9, blocks), 9) == ([], [])


def test_the_race_is_escaped_and_tokens_carry_their_time() -> None:
    race = Race("ctc")
    race.take({"pictures": ["AAAA"]})
    race.take({"arm": "drafted", "clock": 0.25, "rows": [[0, HOSTILE, True], [0, "x", False]]})
    shown = demo_race.show(race)
    assert "<script" not in shown and "&lt;script&gt;" in shown
    assert re.findall(r'<b class="(dv-\w+)" style="--t:([\d.]+)">', shown) == [
        ("dv-kept", "0.250"),
        ("dv-own", "0.250"),
    ]
    assert "data-replay" not in shown, "not over yet"
