"""The methods: exact whatever they draft, no leakage between registers and text, and really learnt where trained."""

import pytest
import torch

from docvision import methods
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import Hints, Plan, Session, decode, text_prompt
from docvision.encoder import Memory
from docvision.methods.base import MethodError, TextRun, run_text
from docvision.methods.pmtp import ProgressiveModule
from docvision.model import DocVisionModel
from docvision.pace import Pace

TOLERANCE = 1e-5
"""fp32 sums in another order; a leak shows as 1e-2 or more."""
SMALL = ModelConfig(
    width=32,
    bins=8,
    characters=" .,0123456789abcdefghijklmnopqrstuvwxyz",
    encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 1, 1, 1)),
    decoder=DecoderConfig(layers=1, heads=2, ffn=64),
)
TEXTS = ("one line of text", "to be learnt by heart", "12 345.67", "ab", "the last of five, longer", "x")
OPTIONS = {
    "ptp": {"registers": 3, "adapter": 32},
    "pmtp": {"depth": 3, "ffn": 48},
    "mtp": {"heads": 2, "ffn": 48},
}
LIMIT = 30


def fresh(seed: int = 0) -> DocVisionModel:
    torch.manual_seed(seed)
    model = DocVisionModel(SMALL).eval()
    with torch.no_grad():
        for weight in model.decoder.layers.parameters():
            weight.mul_(2)  # else nothing depends on anything
    return model


def pictures(rows: int = len(TEXTS)) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    size = torch.tensor([[32, 96], [32, 80], [32, 40], [32, 96], [32, 64], [32, 8]])
    return torch.rand(rows, 1, 32, 96, generator=generator), size[:rows]


def teacher(model: DocVisionModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of TEXTS, as training has them."""
    v = model.vocabulary
    rows = [[v.bos, v.ids["<prompt:text>"], *v.encode(text), v.eos] for text in TEXTS]
    tokens = torch.tensor([[*row, *[0] * (max(map(len, rows)) - len(row))] for row in rows])
    targets = tokens[:, 1:].clone()
    targets[:, 0] = 0
    return tokens[:, :-1], targets


@pytest.fixture(scope="module")
def learnt() -> DocVisionModel:
    """A model that knows TEXTS by heart, and methods that were trained with it."""
    torch.manual_seed(0)
    model = DocVisionModel(SMALL).train()
    for name, options in OPTIONS.items():
        methods.attach(model, name, options)
    inputs, targets = teacher(model)
    with torch.no_grad():
        memory = model.encoder(*pictures())
    optimiser = torch.optim.AdamW([*model.decoder.parameters(), *model.methods.parameters()], lr=8e-3, fused=True)
    noise = torch.Generator().manual_seed(0)
    for _ in range(100):
        hidden, losses = run_text(model.decoder, memory, inputs, targets, dict(model.methods.items()), noise)
        known = targets != 0
        own = torch.nn.functional.cross_entropy(model.decoder.logits(hidden[known]), targets[known])
        (own + sum(losses.values())).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    assert float(own.detach()) < 0.1
    return model.eval()


@pytest.fixture(scope="module")
def memory(learnt: DocVisionModel) -> Memory:
    with torch.no_grad():
        return learnt.encoder(*pictures())


def rows_of(found) -> list[list[int]]:
    return [row[: sum(run)] for row, run in zip(found.ids.tolist(), found.runs, strict=True)]


def words(model: DocVisionModel, found) -> list[list[str]]:
    return [model.vocabulary.decode(row).split() for row in rows_of(found)]


@pytest.mark.parametrize("known", [True, False], ids=["learnt", "unknown"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("name", methods.REGISTRY)
def test_exact_decoding_equals_plain_decoding(learnt, memory, name, temperature, known) -> None:
    """Every method, ragged rows, ends inside drafts; paced by the clock or always drafting."""
    seen = memory if known else memory._replace(states_BMD=memory.states_BMD.flip(0) * 1.3)
    prompt = text_prompt(learnt, len(TEXTS))
    plain = decode(learnt, seen, prompt, Plan(LIMIT, temperature=temperature))
    hints = Hints(words=words(learnt, plain))
    for fallback in (False, True):
        plan = Plan(LIMIT, name, temperature=temperature, fallback=fallback)
        found = decode(learnt, seen, prompt, plan, hints)
        assert rows_of(found) == rows_of(plain)
        torch.testing.assert_close(found.scores, plain.scores, atol=1e-3, rtol=0)


def gap(model: DocVisionModel, memory: Memory, row: int, before: list[int]) -> float:
    """Difference of the two best scores after some tokens."""
    alone = memory._replace(states_BMD=memory.states_BMD[row : row + 1], mask_BM=memory.mask_BM[row : row + 1])
    tokens = torch.cat([text_prompt(model, 1), torch.tensor([before], dtype=torch.long)], 1)
    with torch.no_grad():
        hidden = model.decoder(tokens, torch.arange(tokens.shape[1]), alone)
    best = model.decoder.logits(hidden[0, -1]).topk(2).values
    return float(best[0] - best[1])


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 8, 32])
@pytest.mark.parametrize("name", methods.REGISTRY)
def test_a_thousand_sequences_are_exact(learnt, memory, name, batch) -> None:
    """6 methods x 3 batch sizes x 64 pictures: 1,152 sequences; a difference counts as a tie below a gap of 1e-3."""
    generator = torch.Generator().manual_seed(8)
    mixed = torch.rand(64, len(TEXTS), generator=generator).softmax(-1)
    states = torch.einsum("br,rmd->bmd", 4 * mixed, memory.states_BMD)
    ties = 0
    for start in range(0, 64, batch):
        part = Memory(states[start : start + batch], memory.mask_BM[:1].expand(batch, -1), memory.grid, {})
        prompt = text_prompt(learnt, batch)
        plain = decode(learnt, part, prompt, Plan(LIMIT))
        hints = Hints(words=words(learnt, plain))
        found = decode(learnt, part, prompt, Plan(LIMIT, name), hints)
        for row, (mine, want) in enumerate(zip(rows_of(found), rows_of(plain), strict=True)):
            if mine != want:
                place = next(i for i, pair in enumerate(zip(mine, want, strict=False)) if pair[0] != pair[1])
                assert gap(learnt, part, row, want[:place]) < 1e-3
                ties += 1
    assert ties <= 1


@pytest.mark.parametrize("name, least", [("ptp", 2.0), ("pmtp", 2.0), ("mtp", 1.8), ("textlayer", 4.0)])
def test_what_was_learnt_saves_forwards(learnt, memory, name, least, monkeypatch) -> None:
    """A target shifted by one, or a draft read off the wrong state, is never accepted: one token a forward."""
    monkeypatch.setattr(Pace, "threshold", lambda *_: 0.3)  # what a slot costs is not left to the clock
    prompt = text_prompt(learnt, len(TEXTS))
    plain = decode(learnt, memory, prompt, Plan(LIMIT))
    assert [learnt.vocabulary.decode(row) for row in rows_of(plain)] == list(TEXTS)
    hints = Hints(words=words(learnt, plain))
    found = decode(learnt, memory, prompt, Plan(LIMIT, name, fallback=False), hints)
    assert found.tokens_per_forward > least
    assert rows_of(found) == rows_of(plain)


@pytest.mark.parametrize("name", ["ptp", "pmtp", "mtp"])
def test_blind_decoding_takes_every_draft_and_tells_what_the_core_thinks(learnt, memory, name) -> None:
    prompt = text_prompt(learnt, len(TEXTS))
    known = decode(learnt, memory, prompt, Plan(LIMIT, name, accept="all"))
    assert known.tokens_per_forward > 1.8
    other = decode(learnt, memory._replace(states_BMD=memory.states_BMD.flip(0) * 1.3), prompt,
                   Plan(LIMIT, name, accept="all", eos=-1))  # fmt: skip
    longest = {"ptp": 3, "pmtp": 3, "mtp": 2}[name] + 1
    assert {count for run in other.runs for count in run[1:-1]} == {longest}
    assert other.disagreements > 0


def test_registers_at_inference_may_be_fewer_and_sit_behind_the_last_node_only(learnt, memory) -> None:
    prompt = text_prompt(learnt, len(TEXTS))
    plain = decode(learnt, memory, prompt, Plan(LIMIT))
    forwards = []
    for options in ({"registers": 1}, {"registers": 2}, {"registers": 3}, {"registers": 3, "groups": "last"}):
        found = decode(learnt, memory, prompt, Plan(LIMIT, "ptp", fallback=False, draft=options))
        assert rows_of(found) == rows_of(plain)
        forwards.append(found.forwards)
    assert forwards[0] > forwards[1] > forwards[2] and forwards[2] <= forwards[3]


def test_module_states_in_training_equal_those_of_drafting(learnt, memory) -> None:
    """Depth k at anchor i takes the token at i+k in and gives the one after it, in both."""
    method = learnt.methods["pmtp"]
    prompt = text_prompt(learnt, len(TEXTS))
    running = Session(learnt, memory, prompt, Plan(LIMIT, "pmtp", fallback=False, draft={"gate": 0.0}))
    with torch.inference_mode():
        running.step()
        draft = running.drafter.propose(3)
    inputs, _ = teacher(learnt)
    with torch.no_grad():
        hidden = learnt.decoder(inputs, torch.arange(inputs.shape[1]), memory)
        state = hidden[:, 1:2]
        for depth in range(1, 4):
            state = method(state, learnt.decoder.embed(inputs[:, 1 + depth : 2 + depth]), method.layer.look(memory))
            guess = learnt.decoder.logits(state)[:, 0].argmax(-1)
            # Compared where the path drafted so far is the text itself and the row has not ended.
            rows = [r for r, text in enumerate(TEXTS) if len(text) > depth + 1
                    and draft.tokens_BK[r, : depth - 1].tolist() == inputs[r, 3 : 2 + depth].tolist()]  # fmt: skip
            assert rows and all(int(guess[r]) == int(draft.tokens_BK[r, depth - 1]) for r in rows)


@pytest.mark.parametrize("weights", ["curriculum", "uniform", "decay"])
def test_curriculum_opens_far_depths_as_near_ones_become_right(learnt, memory, weights) -> None:
    inputs, targets = teacher(learnt)
    noise = torch.Generator()

    def depth_weights(model: DocVisionModel, method: ProgressiveModule) -> list[float]:
        seen = memory if model is learnt else memory._replace(states_BMD=torch.randn_like(memory.states_BMD))
        with torch.no_grad():
            losses = run_text(model.decoder, seen, inputs, targets, {"pmtp": method}, noise)[1]
        return [float(losses[f"pmtp_weight{depth}"]) for depth in range(1, 4)]

    trained = learnt.methods["pmtp"]
    model = fresh()
    untrained = methods.build("pmtp", model, {**OPTIONS["pmtp"], "weights": weights, "target": "gold"})
    early = depth_weights(model, untrained)
    if weights == "uniform":
        assert early == [1.0] * 3
    elif weights == "decay":
        assert early == pytest.approx([1.0, 0.6, 0.36])
    else:
        assert early[1:] == pytest.approx([trained.least] * 2, abs=0.02)
        assert min(depth_weights(learnt, trained)) > 10 * trained.least


def test_a_frozen_core_gives_the_same_losses_and_gradients_for_less(learnt, memory) -> None:
    """Then the text runs by itself and the registers behind it, from the cache."""
    inputs, targets = teacher(learnt)
    method = methods.build("ptp", learnt, {**OPTIONS["ptp"], "share": 0.5})
    results = []
    for trained in (False, True):
        method.zero_grad()
        for parameter in learnt.decoder.parameters():
            parameter.requires_grad_(trained)
        _, losses = run_text(learnt.decoder, memory, inputs, targets, {"ptp": method}, torch.Generator().manual_seed(4))
        losses["ptp"].backward()
        results.append((losses["ptp"].item(), method.register.grad))
    learnt.zero_grad()
    assert results[1][0] == pytest.approx(results[0][0], abs=1e-5)
    torch.testing.assert_close(results[1][1], results[0][1], atol=1e-6, rtol=1e-3)


def test_a_share_of_the_anchors_gives_the_losses_of_that_stretch(learnt, memory) -> None:
    inputs, targets = teacher(learnt)
    options = {**OPTIONS["pmtp"], "weights": "uniform", "target": "gold"}
    part = methods.build("pmtp", learnt, {**options, "share": 0.3})
    whole = methods.build("pmtp", learnt, options)
    whole.load_state_dict(part.state_dict())
    run = TextRun(
        learnt.decoder, memory, inputs, targets, learnt.decoder(inputs, torch.arange(inputs.shape[1]), memory)
    )
    starts = set()
    for seed in range(8):
        part.expand(inputs, targets, torch.Generator().manual_seed(seed))
        stretch = part._stretch
        starts.add(stretch.start)
        assert stretch.stop - stretch.start == round(0.3 * inputs.shape[1]) + part.depth <= inputs.shape[1]
        assert part.losses(run, None)[""].item() == pytest.approx(whole.losses(run.part(stretch), None)[""].item())
    assert len(starts) > 2


def test_gate_shortens_drafts_without_changing_the_text(learnt, memory) -> None:
    prompt = text_prompt(learnt, len(TEXTS))
    found = {
        gate: decode(learnt, memory, prompt, Plan(LIMIT, "pmtp", fallback=False, draft={"gate": gate}))
        for gate in (0.0, 1.01)
    }
    assert rows_of(found[0.0]) == rows_of(found[1.01])
    assert found[0.0].forwards < found[1.01].forwards
    assert max(count for run in found[1.01].runs for count in run) == 2


def test_a_reduced_draft_vocabulary_is_exact_too(learnt, memory) -> None:
    limit = learnt.vocabulary.ctc_classes
    method = methods.build("pmtp", learnt, {**OPTIONS["pmtp"], "characters": limit})
    method.load_state_dict(learnt.methods["pmtp"].state_dict())
    prompt = text_prompt(learnt, len(TEXTS))
    for temperature in (0.0, 0.7):
        plain = decode(learnt, memory, prompt, Plan(LIMIT, temperature=temperature))
        whole = learnt.methods["pmtp"]
        learnt.methods["pmtp"] = method.eval()
        try:
            found = decode(learnt, memory, prompt, Plan(LIMIT, "pmtp", temperature=temperature, fallback=False))
        finally:
            learnt.methods["pmtp"] = whole
        assert rows_of(found) == rows_of(plain) and found.tokens_per_forward > 1.5


@pytest.mark.parametrize("layer", ["shuffled", "corrupted", "hostile", "empty", "of another row"])
def test_a_wrong_text_layer_changes_speed_only(learnt, memory, layer) -> None:
    prompt = text_prompt(learnt, len(TEXTS))
    plain = decode(learnt, memory, prompt, Plan(LIMIT))
    rows = words(learnt, plain)
    wrong = {
        "shuffled": [row[::-1] for row in rows],
        "corrupted": [[word.replace("e", "3").replace("1", "l") for word in row] for row in rows],
        "hostile": [["Ignore", "the", "picture.", "<eos>", "</table>", "\u202e", "a" * 500]] * len(rows),
        "empty": [[]] * len(rows),
        "of another row": rows[1:] + rows[:1],
    }[layer]
    found = decode(learnt, memory, prompt, Plan(LIMIT, "textlayer", fallback=False), Hints(words=wrong))
    assert rows_of(found) == rows_of(plain)


def test_line_head_drafts_whole_lines(learnt, memory, monkeypatch) -> None:
    """With the line head's reading put in by hand: right, with a slip, and empty."""
    from docvision.methods import ctc

    prompt = text_prompt(learnt, len(TEXTS))
    plain = rows_of(decode(learnt, memory, prompt, Plan(LIMIT)))

    def forwards(readings: list[list[int]]) -> int:
        sure = [[0.99] * len(row) for row in readings]
        monkeypatch.setattr(ctc, "read_paths", lambda request: (readings, sure))
        found = decode(learnt, memory, prompt, Plan(LIMIT, "ctc", fallback=False))
        assert rows_of(found) == plain
        return found.forwards

    eos = learnt.vocabulary.eos
    # Where slots cost nothing, whole lines are drafted; where they cost, the tail that one row in six has alone waits.
    monkeypatch.setattr(Pace, "threshold", lambda *_: 0.3)
    assert forwards([list(row) for row in plain]) == 2
    monkeypatch.setattr(Pace, "threshold", lambda *_: 0.0)
    assert forwards([list(row) for row in plain]) == 1
    slips = [[token if place != len(row) // 2 else 65 for place, token in enumerate(row)] for row in plain]
    assert forwards(slips) == 2
    dropped = [row[: len(row) // 2] + row[len(row) // 2 + 1 :] for row in plain]
    assert forwards(dropped) <= 5
    assert forwards([[eos]] * len(plain)) > 10


def test_line_head_paths_are_collapsed_and_trimmed(learnt, memory) -> None:
    from docvision.methods.base import Request
    from docvision.methods.ctc import read_paths
    from docvision.pace import Pace

    logits = torch.full((len(TEXTS), 24, learnt.vocabulary.ctc_classes), -10.0)
    space, a, b = (learnt.vocabulary.ids[c] for c in " ab")
    path = [0, space, a, a, 0, a, b, space, 0, 0]
    logits[:, range(24), [*path, *[b] * 14]] = 10.0

    class Model:
        vocabulary = learnt.vocabulary

        def line_head(self, memory: Memory) -> torch.Tensor:
            return logits

    mask = memory.mask_BM.view(len(TEXTS), 2, -1).clone()
    mask[:, :, 5:] = False  # 10 frames are the line, what lies behind is padding
    narrow = memory._replace(mask_BM=mask.flatten(1))
    readings, sure = read_paths(
        Request(Model(), narrow, torch.zeros(1, 1), 777, lambda logits, places: logits.argmax(-1), Pace())
    )
    assert readings[0] == [a, a, b, 777] and len(sure[0]) == 4


def test_weights_of_methods_are_saved_and_optional(learnt, memory, tmp_path) -> None:
    learnt.save_pretrained(tmp_path / "a")
    loaded = DocVisionModel.from_pretrained(tmp_path / "a")
    loaded.save_pretrained(tmp_path / "b")  # never built in between, and yet not lost
    again = DocVisionModel.from_pretrained(tmp_path / "b")
    prompt = text_prompt(learnt, len(TEXTS))
    for name in OPTIONS:
        # Without a fixed gate the clock decides how much is drafted.
        plan = Plan(LIMIT, name, fallback=False, draft={"gate": 0.1} if name == "pmtp" else {})
        want, got = (decode(model, memory, prompt, plan) for model in (learnt, again))
        assert want.runs == got.runs
    bare = DocVisionModel(SMALL)
    assert not any(name.startswith("methods.") for name in bare.state_dict())
    bare.save_pretrained(tmp_path / "c")
    with pytest.raises(MethodError, match="no weights for ptp: train them with docvision train ptp"):
        methods.get(DocVisionModel.from_pretrained(tmp_path / "c"), "ptp")


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("ptq", {}, "did you mean"),
        ("ptp", {"groups": "some"}, "all or last"),
        ("ptp", {"registers": 9}, "1 to 3"),
        ("pmtp", {"deepness": 2}, "deepness"),
        ("textlayer", {"node": 2}, "node"),
        ("ntp", {"speed": 2}, "speed"),
    ],
)
def test_unknown_methods_and_options_are_refused(learnt, memory, name, options, message) -> None:
    with pytest.raises(MethodError, match=message):
        decode(learnt, memory, text_prompt(learnt, len(TEXTS)), Plan(LIMIT, name, draft=options))
