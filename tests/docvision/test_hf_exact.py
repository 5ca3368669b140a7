"""Exactness: whatever is drafted, generate writes what the model's own generate writes, token for token.

Models are tiny ones of eleven real architectures with random weights (tiny_vlms.py).  The drafter here is given the
right answer and spoils it: a tree with the true tokens as far as a hash of the step says, wrong ones behind them and
beside them.  So every step keeps another share of its draft, and each row another one.  A false alarm needs two
scores within 1e-6 of each other among some 3,000 choices between 96 tokens: about once in 1,000 builds of other seeds,
never with these.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import tiny_vlms
import torch
from torch import Tensor

from docvision.hf_vlm import Accelerated, VlmError
from docvision.methods.base import Draft, Drafter, Step
from docvision.methods.textlayer import merge

NAMES = tuple(tiny_vlms.BUILDERS)
TEXT_TOO = tuple(name for name in NAMES if name != "donut")
LENGTHS = (5, 9, 3, 7)
NEW = 12


class Spoiler(Drafter):
    """Trees (or chains) that hold the truth for a while."""

    def __init__(self, truth: list[list[int]], tree: bool) -> None:
        self.truth, self.tree, self.steps = truth, tree, 0
        self.written: list[int] = [0] * len(truth)

    def begin(self, written: list[list[int]]) -> None:
        self.written = [len(row) for row in written]

    def observe(self, step: Step) -> None:
        self.written = [count + len(new) for count, new in zip(self.written, step.emitted, strict=True)]

    def select(self, rows: Tensor) -> None:
        kept = rows.tolist()
        self.truth, self.written = [self.truth[row] for row in kept], [self.written[row] for row in kept]

    def propose(self, limit: int) -> Draft | None:
        self.steps += 1
        trees = []
        for row, (truth, count) in enumerate(zip(self.truth, self.written, strict=True)):
            good = truth[count : count + (3 * self.steps + 2 * row) % 4]
            wrong = [(token + 1) % 80 for token in truth[count : count + 2]]
            trees.append(merge([wrong, [*good, 7, 8], good] if self.tree else [[*good, 7]], 12))
        if not any(tokens for tokens, _ in trees):
            return None
        parent = [parents for _, parents in trees] if self.tree else None
        return Draft.from_lists([tokens[:limit] for tokens, _ in trees], torch.device("cpu"), parent=parent and
                                [parents[:limit] for parents in parent])  # fmt: skip


class Spoilt(Accelerated):
    """A model with such a drafter, in the place of the one that copies."""

    def __init__(self, model: Any, truth: Tensor, tree: bool = True) -> None:
        super().__init__(model, "ngram", fallback=False)
        self.truth, self.tree = truth, tree

    def _drafter(self, words: Any, going: Any, input_ids: Tensor, named: Any) -> Any:
        return lambda request: Spoiler([self.truth[row].tolist() for row in going], self.tree)


@cache
def model(name: str) -> Any:
    return tiny_vlms.build(name)


@cache
def reference(name: str, pictures: bool = True) -> Tensor:
    """New tokens (4,NEW) of the model's own generate, which no end stops."""
    given = tiny_vlms.inputs(name, LENGTHS, pictures)
    ids = model(name).generate(**given, max_new_tokens=NEW, do_sample=False, eos_token_id=None)
    return ids[:, -NEW:]


def new(ids: Tensor, name: str, given: dict[str, Any]) -> Tensor:
    """What stands behind the prompt."""
    start = given["input_ids"].shape[1] if "input_ids" in given and not model(name).config.is_encoder_decoder else 1
    return ids[:, start:]


def one(given: dict[str, Any], row: int) -> dict[str, Any]:
    """One row of a batch, without its padding."""
    count = len(LENGTHS)
    real = given["attention_mask"][row].bool() if "attention_mask" in given else None
    alone = {}
    for key, value in given.items():
        part = value[row * len(value) // count : (row + 1) * len(value) // count]
        same = real is not None and value.shape == given["attention_mask"].shape
        alone[key] = part[:, real] if same else part
    return alone


def test_the_models_differ_and_vary():
    """Guards the tests below: a model that repeats one token would be exact with any bug."""
    assert len(NAMES) >= 8
    for name in NAMES:
        assert len(reference(name).unique()) >= 5, name
        assert len({tuple(row) for row in reference(name).tolist()}) > 1, name


@pytest.mark.parametrize("name", NAMES)
def test_batches_with_pictures_in_trees(name):
    given = tiny_vlms.inputs(name, LENGTHS)
    drafted = Spoilt(model(name), reference(name))
    ids = drafted.generate(**given, max_new_tokens=NEW, do_sample=False, eos_token_id=None)
    assert new(ids, name, given).equal(reference(name))
    assert 1.3 < drafted.last.tokens_per_forward < 4
    assert drafted.last.disagreements == 0


@pytest.mark.parametrize("name", TEXT_TOO)
def test_batches_of_text_in_chains(name):
    given = tiny_vlms.inputs(name, LENGTHS, pictures=False)
    drafted = Spoilt(model(name), reference(name, False), tree=False)
    ids = drafted.generate(**given, max_new_tokens=NEW, do_sample=False, eos_token_id=None)
    assert new(ids, name, given).equal(reference(name, False))
    assert drafted.last.tokens_per_forward > 1.3


@pytest.mark.parametrize("name", NAMES)
def test_one_page_alone(name):
    row = 2
    given = one(tiny_vlms.inputs(name, LENGTHS), row)
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
    truth = reference(name)[row : row + 1]
    if name == "florence2":  # whose encoder counts padding as places, so that it answers differently in a batch
        truth = model(name).generate(**given, **settings)[:, -NEW:]
    ids = Spoilt(model(name), truth).generate(**given, **settings)
    assert new(ids, name, given).equal(truth)


@pytest.mark.parametrize("name", NAMES)
def test_rows_end_apart_and_right_padding_changes_nothing(name):
    """One row ends at its second token, another at its sixth or not at all; the others run on."""
    truth = reference(name)
    ends = [int(truth[1, 1]), int(truth[3, 5])]
    wanted = torch.full_like(truth, tiny_vlms.PAD)
    for row, tokens in enumerate(truth.tolist()):
        stop = min((place for place, token in enumerate(tokens) if token in ends), default=NEW - 1)
        wanted[row, : stop + 1] = truth[row, : stop + 1]
    longest = max(int((truth[row] == wanted[row]).sum()) for row in range(4))
    given = tiny_vlms.inputs(name, LENGTHS, right=name != "donut" and not model(name).config.is_encoder_decoder)
    drafted = Spoilt(model(name), truth)
    ids = drafted.generate(**given, max_new_tokens=NEW, do_sample=False, eos_token_id=ends, pad_token_id=0)
    made = new(ids, name, given)
    assert made.equal(wanted[:, : made.shape[1]]) and made.shape[1] <= max(longest, NEW)
    assert not wanted[:, made.shape[1] :].any()
    if "input_ids" in given and not model(name).config.is_encoder_decoder:
        assert ids[:, : given["input_ids"].shape[1]].equal(given["input_ids"]), "prompts come back as they were given"


def test_ends_are_those_of_the_library():
    """The reference of the test above is cut by us; here by the library itself."""
    truth = reference("qwen2_5_vl")
    ends = [int(truth[1, 1]), int(truth[3, 5])]
    given = tiny_vlms.inputs("qwen2_5_vl", LENGTHS)
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": ends, "pad_token_id": 0}
    plain = model("qwen2_5_vl").generate(**given, **settings)
    assert Spoilt(model("qwen2_5_vl"), truth).generate(**given, **settings).equal(plain)


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.4},
        {"no_repeat_ngram_size": 2, "min_new_tokens": 9, "eos_token_id": 53},
        {"bad_words_ids": [[53], [60, 60]], "suppress_tokens": [27]},
        {"max_length": 21},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_score_processors_see_the_path_to_each_node(settings):
    given = tiny_vlms.inputs("qwen2_5_vl", LENGTHS)
    settings = {"do_sample": False, "eos_token_id": None} | settings
    settings |= {} if "max_length" in settings else {"max_new_tokens": NEW}
    plain = model("qwen2_5_vl").generate(**given, **settings)
    truth = plain[:, given["input_ids"].shape[1] :]
    truth = torch.cat([truth, truth], 1)  # where a row ends early, anything may be proposed
    for tree in (True, False):
        drafted = Spoilt(model("qwen2_5_vl"), truth, tree)
        assert drafted.generate(**given, **settings).equal(plain)
        assert drafted.last.tokens_per_forward > 1


@pytest.mark.parametrize("name", ["smolvlm", "florence2"])
def test_sampling_draws_what_plain_decoding_draws(name):
    given = tiny_vlms.inputs(name, LENGTHS)
    settings = {"max_new_tokens": NEW, "do_sample": True, "temperature": 0.7, "top_k": 8, "eos_token_id": None}
    plain = Accelerated(model(name), "ntp", fallback=False)
    first = plain.generate(**given, **settings, seed=3)
    assert not first.equal(plain.generate(**given, **settings, seed=4))
    drafted = Spoilt(model(name), new(first, name, given))
    assert drafted.generate(**given, **settings, seed=3).equal(first)
    assert drafted.last.tokens_per_forward > 1.3


def test_stopping_criteria_stop_between_drafted_tokens():
    from transformers import StoppingCriteria, StoppingCriteriaList

    class AtToken(StoppingCriteria):
        def __call__(self, input_ids: Tensor, scores: Any, **named: Any) -> Tensor:
            return input_ids[:, -1] == 64

    given = tiny_vlms.inputs("qwen2_5_vl", LENGTHS)
    settings = {"max_new_tokens": NEW, "do_sample": False, "stopping_criteria": StoppingCriteriaList([AtToken()])}
    plain = model("qwen2_5_vl").generate(**given, **settings)
    made = Spoilt(model("qwen2_5_vl"), reference("qwen2_5_vl")).generate(**given, **settings)
    assert (plain[:, -NEW:] == 64).any() and made.equal(plain)


def test_a_streamer_hears_every_token():
    class Heard:
        def __init__(self) -> None:
            self.ids: list[int] = []
            self.ended = False

        def put(self, value: Tensor) -> None:
            self.ids += value.flatten().tolist()

        def end(self) -> None:
            self.ended = True

    given = one(tiny_vlms.inputs("got_ocr2", LENGTHS), 0)
    heard = Heard()
    drafted = Spoilt(model("got_ocr2"), reference("got_ocr2")[:1])
    ids = drafted.generate(**given, max_new_tokens=NEW, do_sample=False, eos_token_id=None, streamer=heard)
    assert heard.ids == ids[0].tolist() and heard.ended


@pytest.mark.parametrize("name", ["gemma3", "glm_ocr"])
def test_eager_attention(name):
    eager = tiny_vlms.build(name)
    eager.set_attn_implementation("eager")
    given = tiny_vlms.inputs(name, LENGTHS)
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
    plain = eager.generate(**given, **settings)
    assert Spoilt(eager, plain[:, -NEW:]).generate(**given, **settings).equal(plain)


@pytest.mark.parametrize("merged", [False, True])
def test_lora(merged):
    peft = pytest.importorskip("peft")
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
    config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    lora = peft.get_peft_model(tiny_vlms.build("idefics3"), config).eval()
    given = tiny_vlms.inputs("idefics3", LENGTHS)
    plain = lora.generate(**given, **settings)
    assert not plain[:, -NEW:].equal(reference("idefics3"))
    whole = lora.merge_and_unload() if merged else lora
    assert Spoilt(whole, plain[:, -NEW:]).generate(**given, **settings).equal(plain)


def test_the_model_is_shared_and_the_cache_is_one():
    """No weight is copied, and no cache is left behind."""
    drafted = Spoilt(model("smolvlm"), reference("smolvlm"))
    decoder = drafted.core.decoder
    own = {id(parameter) for parameter in model("smolvlm").parameters()}
    assert id(decoder.head.weight) in own and id(decoder.embedding.weight) in own
    assert all(id(parameter) in own for parameter in decoder.stack.parameters())
    drafted.generate(**tiny_vlms.inputs("smolvlm", LENGTHS), max_new_tokens=NEW, do_sample=False)
    assert not list(drafted.core.methods.parameters()) and decoder._primed is None


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"num_beams": 2}, "num_beams=2"),
        ({"num_return_sequences": 2, "do_sample": True}, "num_return_sequences=2"),
        ({"output_scores": True, "return_dict_in_generate": True}, "output_scores=True"),
        ({"use_cache": False}, "use_cache=False"),
        ({"prefix_allowed_tokens_fn": lambda row, ids: [1]}, "prefix_allowed_tokens_fn"),
        ({"cache_implementation": "quantized"}, "quantized"),
        ({"prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens"),
        ({"words": [["one"]]}, "words of 1 pages for 4 rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_understood_is_said_in_one_line(settings, word):
    drafted = Accelerated(model("smolvlm"), "ngram")
    with pytest.raises(VlmError) as told:
        drafted.generate(**tiny_vlms.inputs("smolvlm", LENGTHS), max_new_tokens=4, **settings)
    assert word in str(told.value) and "\n" not in str(told.value)


def test_a_users_cache_and_static_caches():
    from transformers import DynamicCache

    given = tiny_vlms.inputs("smolvlm", LENGTHS)
    drafted = Spoilt(model("smolvlm"), reference("smolvlm"))
    with pytest.raises(VlmError, match="cache is not understood"):
        drafted.generate(**given, cache=DynamicCache(), max_new_tokens=4)
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
    ids = drafted.generate(**given, cache_implementation="static", **settings)
    assert ids[:, -NEW:].equal(reference("smolvlm"))


def test_return_dict():
    given = tiny_vlms.inputs("florence2", LENGTHS)
    settings = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None, "return_dict_in_generate": True}
    made = Spoilt(model("florence2"), reference("florence2")).generate(**given, **settings)
    assert made.sequences[:, 1:].equal(reference("florence2"))
