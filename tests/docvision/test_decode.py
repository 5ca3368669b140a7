"""The verify loop: whatever is drafted, exact decoding writes what plain decoding writes, and the cache shows no trace.

The drafters here are hostile on purpose: right for a while, then wrong, of another length in every row, past the
end of the sequence, chains and trees.
"""

import itertools

import numpy as np
import pytest
import torch

from docvision.accept import AcceptError, Chooser, Constraint, Policy
from docvision.config import DecoderConfig, EncoderConfig, ModelConfig
from docvision.decode import Decoded, Hints, Plan, Session, cached_mask, decode, generate, tree_ancestors
from docvision.decoder import CausalDecoder, KVCache
from docvision.encoder import Memory
from docvision.methods.base import Draft, Drafter
from docvision.model import DocVisionModel
from docvision.pace import Pace
from docvision.table_grammar import TableGrammar

TOLERANCE = 2e-5
"""fp32 sums in another order; a rejected token left in the cache shows as 1e-2 or more."""
SMALL = ModelConfig(
    width=32,
    bins=8,
    encoder=EncoderConfig(widths=(4, 8, 8, 16), depths=(0, 1, 1, 1)),
    decoder=DecoderConfig(layers=2, heads=2, ffn=48),
)
ROWS, LIMIT = 5, 24


@pytest.fixture(scope="module")
def model() -> DocVisionModel:
    """Random weights, large enough that the output depends on the prefix; the end mark comes up now and then."""
    torch.manual_seed(0)
    model = DocVisionModel(SMALL).eval()
    with torch.no_grad():
        for weight in model.decoder.layers.parameters():
            weight.mul_(3)
        model.decoder.embedding.weight[model.vocabulary.eos] *= 1.5
    return model


@pytest.fixture(scope="module")
def memory(model: DocVisionModel) -> Memory:
    generator = torch.Generator().manual_seed(2)
    mask = torch.arange(10) < torch.tensor([10, 7, 10, 4, 9])[:, None]
    return Memory(torch.randn(ROWS, 10, SMALL.width, generator=generator), mask, (1, 10), {})


def prompt(model: DocVisionModel, rows: int = ROWS) -> torch.Tensor:
    return torch.tensor([[model.vocabulary.bos, model.vocabulary.ids["<prompt:text>"]]]).expand(rows, -1)


class Spoilt(Drafter):
    """Knows the answer, and spoils a share of what it drafts.

    Args:
        answers: rows of ids.
        share: of tokens replaced by others.
        tree: add wrong siblings before and after the right path.
        seed: of the choices.
        ids: tokens to spoil with, below this one.
    """

    def __init__(
        self, answers: list[list[int]], share: float, tree: bool = False, seed: int = 0, ids: int = 300
    ) -> None:
        self.answers, self.ids = answers, ids
        self.done = [0] * len(answers)
        self.rng = np.random.default_rng(seed)
        self.share, self.tree = share, tree

    def propose(self, limit: int) -> Draft | None:
        tokens, parents, sure = [], [], []
        for answer, done in zip(self.answers, self.done, strict=True):
            path = answer[done : done + int(self.rng.integers(0, 7))]
            path = [int(self.rng.integers(1, self.ids)) if self.rng.random() < self.share else token for token in path]
            # Past the end of the answer there is only noise, so an end mark inside the draft must stop the row.
            path += self.rng.integers(1, self.ids, int(self.rng.integers(0, 3))).tolist()
            nodes, above, at = [], [], -1
            for token in path[:limit]:
                for sibling in (token ^ 1, token, token ^ 2) if self.tree else (token,):
                    nodes.append(sibling)
                    above.append(at)
                at = len(nodes) - (2 if self.tree else 1)
            tokens.append(nodes)
            parents.append(above)
            sure.append([0.9] * len(nodes))
        return Draft.from_lists(tokens, torch.device("cpu"), sure, parents if self.tree else None)

    def observe(self, step) -> None:
        self.done = [done + len(new) for done, new in zip(self.done, step.emitted, strict=True)]

    def select(self, rows: torch.Tensor) -> None:
        self.answers = [self.answers[row] for row in rows.tolist()]
        self.done = [self.done[row] for row in rows.tolist()]


def rows_of(found: Decoded) -> list[list[int]]:
    """Ids of each row; random weights also write id 0, so the lengths come from the runs."""
    return [row[: sum(run)] for row, run in zip(found.ids.tolist(), found.runs, strict=True)]


def session(model, memory, drafter: Drafter | None = None, **options) -> Session:
    found = Session(model, memory, prompt(model, len(memory.mask_BM)), Plan(LIMIT, **options))
    if drafter is not None:
        found.drafter = drafter
    return found


@pytest.fixture(scope="module")
def plain(model: DocVisionModel, memory: Memory) -> dict[float, list[list[int]]]:
    """Answers by temperature, one token a forward; some rows end before the limit, some do not."""
    answers = {t: rows_of(decode(model, memory, prompt(model), Plan(LIMIT, temperature=t))) for t in (0.0, 0.8)}
    lengths = {len(row) for rows in answers.values() for row in rows}
    assert LIMIT in lengths and min(lengths) < LIMIT
    return answers


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("tree", [False, True], ids=["chain", "tree"])
@pytest.mark.parametrize("share", [0.0, 0.15, 1.0])
def test_any_draft_gives_the_tokens_of_plain_decoding(model, memory, plain, share, tree, temperature) -> None:
    with torch.inference_mode():
        drafter = Spoilt(plain[temperature], share, tree, seed=int(100 * share))
        found = session(model, memory, drafter, temperature=temperature).run()
    assert rows_of(found) == plain[temperature]
    assert found.disagreements == 0
    if share == 0:
        assert found.tokens_per_forward > 2.5
    if share == 1 and not tree:
        assert found.tokens_per_forward < 1.1  # a wrong draft wins nothing, and costs no extra forward


def test_scores_are_the_cores_log_probabilities(model, memory, plain) -> None:
    _, scores = generate(model, memory, prompt(model), LIMIT)
    with torch.inference_mode():
        drafted = session(model, memory, Spoilt(plain[0.0], 0.1, tree=True)).run()
    torch.testing.assert_close(drafted.scores, scores, atol=1e-4, rtol=0)
    for row, answer in enumerate(plain[0.0]):
        tokens = torch.tensor([[*prompt(model)[0].tolist(), *answer]])
        alone = Memory(memory.states_BMD[row : row + 1], memory.mask_BM[row : row + 1], memory.grid, {})
        with torch.no_grad():
            logits = model.decoder.logits(model.decoder(tokens, torch.arange(tokens.shape[1]), alone))
        want = logits.log_softmax(-1)[0, 1:-1].gather(1, tokens[0, 2:, None])[:, 0]
        torch.testing.assert_close(scores[row, : len(answer)], want, atol=1e-4, rtol=0)


@pytest.mark.parametrize("tree", [False, True], ids=["chain", "tree"])
def test_the_cache_holds_what_a_fresh_run_over_the_kept_tokens_holds(model, memory, plain, tree) -> None:
    """After every step; catches rejected or misplaced entries, wrong positions, and rows mixed up."""
    with torch.inference_mode():
        running = session(model, memory, Spoilt(plain[0.0], 0.2, tree, seed=7))
        while running.alive:
            running.step()
            for index, row in enumerate(running.alive):
                kept = [*prompt(model)[0].tolist(), *running.written[row][:-1]]
                assert running.cache.length_B[index] == len(kept)
                fresh = model.decoder.new_cache(1)
                alone = Memory(memory.states_BMD[row : row + 1], memory.mask_BM[row : row + 1], memory.grid, {})
                model.decoder(torch.tensor([kept]), torch.arange(len(kept)), alone, cache=fresh)
                for store, clean in ((running.cache.keys, fresh.keys), (running.cache.values, fresh.values)):
                    for held, want in zip(store, clean, strict=True):
                        got = held[index, : len(kept)]
                        torch.testing.assert_close(got, want[0, : len(kept)], atol=TOLERANCE, rtol=1e-4)


def test_rows_do_not_depend_on_their_batch(model, memory, plain) -> None:
    for row in range(ROWS):
        alone = Memory(memory.states_BMD[row : row + 1], memory.mask_BM[row : row + 1], memory.grid, {})
        assert rows_of(decode(model, alone, prompt(model, 1), Plan(LIMIT))) == [plain[0.0][row]]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_interrupted_decoding_goes_on_as_if_never_stopped(model, memory, plain, temperature) -> None:
    cut = [3, 0, 11, 1, LIMIT]
    written = [row[:count] for row, count in zip(plain[temperature], cut, strict=True)]
    with torch.inference_mode():
        resumed = Session(
            model,
            memory,
            prompt(model),
            Plan(LIMIT, temperature=temperature, method="textlayer"),
            Hints(written=written),
        ).run()
    got = [row[: min(count, len(want)) + sum(run)] for row, count, run, want in zip(
        resumed.ids.tolist(), cut, resumed.runs, plain[temperature], strict=True)]  # fmt: skip
    assert got == plain[temperature]
    assert resumed.runs[4] == []


def test_samples_follow_the_cores_distribution() -> None:
    """Chi-square over all pairs of two tokens of a vocabulary of 5, drafted; false alarm below 1 in 10,000."""
    torch.manual_seed(3)
    decoder = CausalDecoder(DecoderConfig(layers=1, heads=2, ffn=32, cross_attention=False), 16, 5).eval()
    with torch.no_grad():
        decoder.embedding.weight.mul_(1.5)

    class Core(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = decoder

    rows, heat = 6000, 4.0
    start = torch.full((rows, 1), 4)
    plan = Plan(limit=2, temperature=heat, seed=5, eos=-1, fallback=False)
    with torch.inference_mode():
        running = Session(Core(), None, start, plan)
        guesses = torch.randint(1, 5, (rows, 2), generator=torch.Generator().manual_seed(1)).tolist()
        running.drafter = Spoilt(guesses, 0.0, ids=5)
        found = running.run()
        first = decoder.logits(decoder(start[:1], torch.arange(1)))[0, -1]
        pairs = torch.stack([torch.full((5,), 4), torch.arange(5)], 1)
        second = decoder.logits(decoder(pairs, torch.arange(2)))[:, -1]
    expected = (first / heat).softmax(-1)[:, None] * (second / heat).softmax(-1) * rows
    counts = torch.zeros(5, 5)
    counts.index_put_((found.ids[:, 0], found.ids[:, 1]), torch.ones(rows), accumulate=True)
    assert expected.min() > 5
    assert float(((counts - expected) ** 2 / expected).sum()) < 60.0  # 24 degrees of freedom
    assert found.tokens_per_forward > 1.05


def test_sampling_noise_depends_on_seed_row_and_position() -> None:
    logits = torch.zeros(2, 3, 50)
    rows, places = torch.tensor([0, 1]), torch.arange(3).expand(2, 3)
    draw = Chooser(1.0, seed=1)(logits, rows, places)
    assert torch.equal(draw, Chooser(1.0, seed=1)(logits, rows, places))
    assert torch.equal(draw[1:, 1:], Chooser(1.0, seed=1)(logits[:1, :2], rows[1:], places[:1, 1:]))
    assert not torch.equal(draw, Chooser(1.0, seed=2)(logits, rows, places))
    assert len(set(draw.flatten().tolist())) > 3


def test_lossy_policies_keep_what_they_say_and_count_it(model, memory, plain) -> None:
    wrong = [[(token + 1) % 300 + 1 for token in row] for row in plain[0.0]]
    with torch.inference_mode():
        everything = session(model, memory, Spoilt(wrong, 0.0), accept="all").run()
        sure = session(model, memory, Spoilt(plain[0.0], 0.3, seed=3), accept="confidence(0.9)").run()
        unsure = session(model, memory, Spoilt(plain[0.0], 0.3, seed=3), accept="confidence(0.95)").run()
    # Every drafted token was kept, so most tokens are not the core's own, and are counted.
    assert everything.disagreements > 0.3 * sum(map(len, rows_of(everything)))
    assert sure.disagreements > 0 and sure.tokens_per_forward > unsure.tokens_per_forward
    assert rows_of(unsure) == plain[0.0] and unsure.disagreements == 0
    recount = 0
    for row, answer in enumerate(rows_of(everything)):
        tokens = torch.tensor([[*prompt(model)[0].tolist(), *answer]])
        alone = Memory(memory.states_BMD[row : row + 1], memory.mask_BM[row : row + 1], memory.grid, {})
        with torch.no_grad():
            best = model.decoder.logits(model.decoder(tokens, torch.arange(tokens.shape[1]), alone)).argmax(-1)
        recount += int((best[0, 1:-1] != tokens[0, 2:]).sum())
    assert everything.disagreements == recount


@pytest.mark.parametrize("text", ["exakt", "confidence", "confidence(2)", "all(1)"])
def test_unknown_policies_are_refused(text: str) -> None:
    with pytest.raises(AcceptError, match="exact, all or confidence"):
        Policy.parse(text)


def test_ancestors_and_masks_by_hand() -> None:
    #      0 -> 1 -> 2 -> 4
    #           1 -> 3
    ancestors = tree_ancestors(torch.tensor([[-1, 0, 1, 1, 2]]))[0]
    want = [{0}, {0, 1}, {0, 1, 2}, {0, 1, 3}, {0, 1, 2, 4}]
    assert [set(row.nonzero()[:, 0].tolist()) for row in ancestors] == want
    cache = KVCache(1, 2)
    cache.commit(torch.tensor([3, 1]))
    seen = torch.tensor([[True, False], [True, True]])
    mask = cached_mask(cache, seen).int().tolist()
    assert mask == [[[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]]
    assert torch.equal(cached_mask(cache, torch.ones(4, 4).tril().bool()), cache.causal_mask(4))


def constrained_by_hand(model, memory, grammar: TableGrammar, row: int, limit: int) -> list[int]:
    """One token at a time without cache: the reference of constrained decoding."""
    alone = Memory(memory.states_BMD[row : row + 1], memory.mask_BM[row : row + 1], memory.grid, {})
    state = grammar.start()
    constraint = Constraint([], limit, model.vocabulary.eos)
    ids: list[int] = []
    while len(ids) < limit:
        tokens = torch.tensor([[model.vocabulary.bos, model.vocabulary.ids["<prompt:text>"], *ids]])
        with torch.no_grad():
            logits = model.decoder.logits(model.decoder(tokens, torch.arange(tokens.shape[1]), alone))[0, -1]
        constraint._mind_limit(state, limit - len(ids))
        chances = logits.softmax(-1) * torch.from_numpy(state.legal().copy())
        first = model.vocabulary.first_x
        place = chances[first:].sum() > chances[:first].sum()  # all coordinates stand against all else
        token = int(chances[first:].argmax()) + first if place else int(chances[:first].argmax())
        ids.append(token)
        if token == model.vocabulary.eos:
            break
        state.advance(token)
    return ids


@pytest.mark.parametrize("tree", [False, True], ids=["chain", "tree"])
def test_constrained_drafts_equal_constrained_greedy(model, memory, tree) -> None:
    """Forced tokens are won without being drafted, and every stream is whole although the limit is short."""
    grammar = TableGrammar(model.vocabulary)
    limit = 40
    want = [constrained_by_hand(model, memory, grammar, row, limit) for row in range(ROWS)]
    ends = [model.vocabulary.ids["</table>"], model.vocabulary.eos]
    assert all(row[-2:] == ends for row in want)
    for drafter in (Drafter(), Spoilt(want, 0.1, tree, seed=5)):
        with torch.inference_mode():
            hints = Hints(grammars=[grammar.start() for _ in range(ROWS)])
            running = Session(model, memory, prompt(model), Plan(limit), hints)
            running.drafter = drafter
            found = running.run()
        assert rows_of(found) == want
        assert found.tokens_per_forward > 1.2


def run_pace(pace: Pace, plain: float, drafted: float, won: float, steps: int, rows: int = 32) -> tuple[float, float]:
    """Seconds spent and tokens won by ``steps`` steps of made-up cost."""
    seconds = tokens = 0.0
    for _ in range(steps):
        drafting = pace.wants_draft(rows, False)
        cost, gain = (drafted, won) if drafting else (plain, 1.0)
        pace.record(rows, False, cost, gain, 8 if drafting else 0, drafting)
        seconds, tokens = seconds + cost, tokens + gain
    return seconds, tokens


def test_drafting_stops_where_it_does_not_pay_and_goes_on_where_it_does() -> None:
    pace = Pace()
    seconds, tokens = run_pace(pace, plain=1.0, drafted=3.0, won=1.5, steps=2000)
    assert seconds / tokens < 1.05  # plain decoding takes 1 a token
    pace = Pace()
    seconds, tokens = run_pace(pace, plain=1.0, drafted=1.5, won=4.0, steps=2000)
    assert seconds / tokens < 1.05 * 1.5 / 4.0
    # What did not pay begins to: a trial notices.
    pace = Pace()
    run_pace(pace, plain=1.0, drafted=3.0, won=1.5, steps=500)
    run_pace(pace, plain=1.0, drafted=1.2, won=3.0, steps=2000)
    seconds, tokens = run_pace(pace, plain=1.0, drafted=1.2, won=3.0, steps=500)
    assert seconds / tokens < 0.45


def test_a_hopeless_draft_is_tried_once_and_other_batches_learn_from_it() -> None:
    pace = Pace()
    seconds, tokens = run_pace(pace, plain=1.0, drafted=20.0, won=5.0, steps=60)
    assert seconds - tokens < 20 - 5 + 1
    seconds, tokens = run_pace(pace, plain=1.0, drafted=20.0, won=5.0, steps=60, rows=8)
    assert seconds == tokens


def test_the_gate_rises_with_the_cost_of_a_draft() -> None:
    gates = []
    for drafted in (1.1, 1.8, 3.0):
        pace = Pace()
        for cost, drafting in itertools.product([drafted], [True] * 5):
            pace.record(1, False, cost, 3.0, 8, drafting)
        for _ in range(5):
            pace.record(1, False, 1.0, 1.0, 0, False)
        gates.append(pace.threshold(1))
    assert gates == sorted(gates) and gates[0] < 0.1 < gates[2]


def test_a_trial_that_wins_nothing_ends_early() -> None:
    """A drafter that takes a cycle to get going may lose two plain steps, not four cycles' worth."""
    pace = Pace()
    lost, plain = 0.0, 0
    while not lost:
        drafting = pace.wants_draft(32, False)
        pace.record(32, False, 2.2 if drafting else 1.0, 1.0, 4, drafting)
        lost, plain = 1.2 if drafting else 0.0, plain + 1
    while pace.wants_draft(32, False):
        pace.record(32, False, 2.2, 1.0, 4, True)
        lost += 1.2
    assert plain == Pace.SAMPLES + 1 and lost == pytest.approx(2.4)
