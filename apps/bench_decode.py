"""Decoding methods side by side on one model: tokens a forward, seconds against plain decoding, and what is written.

    docvision bench decode --methods ptp,pmtp --batch 1,32 --json decode.json

Every batch is decoded by plain greedy decoding and by each method in turn, in changing order, so that a busy machine
is busy for all; ratios are sums of seconds over the whole set.  The encoder runs once a batch and counts in the
end-to-end ratio only.  A method is written ``name``, ``name/accept`` or ``name/accept/option=value/...``, such as
``pmtp``, ``ptp/all`` or ``ptp/exact/registers=2/groups=last``.

Tasks: ``text`` (line crops), ``born_digital`` (line crops of a PDF with the words of its text layer as hints) and
``table`` (structure streams inside the table grammar).  Data are folders of shards of lines or tables, or of PDFs;
or single PDFs; without any, a few lines and tables are drawn on the spot.

In tables the grammar's forced tokens cost no forward of their own for any method, plain decoding included, so plain
decoding wins more than one token a forward there; ``gain`` is a method's tokens a forward over those of plain decoding.
"""

from __future__ import annotations

import inspect
import sys
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from apps.decode_samples import Bounds, Sample, load
from docvision import methods as registry
from docvision.accept import Policy
from docvision.decode import Decoded, Hints, Plan, decode
from docvision.encoder import Memory
from docvision.methods.base import Drafter, Method
from docvision.metrics import error_rate
from docvision.model import DocVisionModel, pad_images
from docvision.pace import clock

TIE = 1e-3
"""Gap between the two best scores below which a difference is put down to rounding."""
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
WIDEST = 512
"""Most tokens of all rows of a timed forward."""
SHOWN = (
    "method",
    "accept",
    "task",
    "batch",
    "exact_match",
    "ties",
    "tokens_per_forward",
    "gain",
    "wall_ratio",
    "end_to_end_ratio",
    "score",
)
"""Columns of the printed table; the rest is in the JSON."""


@dataclass
class Tally:
    """What a method did on the whole set."""

    seconds: float = 0.0
    encoder: float = 0.0
    cpu: float = 0.0
    equal: int = 0
    ties: list[dict[str, Any]] = field(default_factory=list)
    """Sequences that part from plain decoding at a tie."""
    disagreements: int = 0
    runs: list[list[int]] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def plan_of(text: str, limit: int) -> Plan:
    """``name/accept/option=value/...`` as a plan.

    Raises:
        ValueError: something that is not an option.
    """
    name, *rest = text.split("/")
    accept = rest.pop(0) if rest and "=" not in rest[0] else "exact"
    options: dict[str, Any] = {}
    for part in rest:
        key, sign, value = part.partition("=")
        if not sign:
            raise ValueError(f"method {text!r}: {part!r} is not option=value")
        options[key] = yaml.safe_load(value)
    return Plan(limit, name, accept, fallback=bool(options.pop("fallback", True)), draft=options)


def crossed(names: Sequence[str], policies: Sequence[str]) -> list[str]:
    """Every method with every policy, those that name a policy of their own as they are."""
    found = []
    for name in names:
        method, *options = name.split("/")
        if options and "=" not in options[0]:
            found.append(name)
        else:
            found += ["/".join([method, policy, *options]) for policy in policies]
    return list(dict.fromkeys(found))


def check(model: DocVisionModel, names: Sequence[str]) -> None:
    """Find out before the first forward whether everything asked for can run.

    Raises:
        ValueError: an unknown method, policy or option, or a method whose weights the model lacks.
    """
    for name in names:
        plan = plan_of(name, 1)
        method = registry.get(model, plan.method)
        Policy.parse(plan.accept)
        known = [*_draft_options(method), "fallback"]
        for option in plan.draft:
            if option not in known:
                raise ValueError(f"method {name!r}: no option {option!r}, only {', '.join(known)}")


def _draft_options(method: Method) -> list[str]:
    """What a method's drafter may be told: the parameters with defaults of the drafter in the method's file."""
    drafters = [
        kind
        for kind in vars(sys.modules[type(method).__module__]).values()
        if isinstance(kind, type) and issubclass(kind, Drafter) and kind.__module__ == type(method).__module__
    ]
    parameters = [item for kind in drafters for item in inspect.signature(kind).parameters.values()]
    return [item.name for item in parameters if item.default is not item.empty]


def bench(
    model: DocVisionModel,
    methods: Sequence[str],
    data: Sequence[Path] = (),
    tasks: Sequence[str] = ("text", "born_digital", "table"),
    batches: Sequence[int] = (1, 8, 32),
    bounds: Bounds | None = None,
    tokens: int = 512,
) -> dict[str, Any]:
    """Run the comparison.

    Args:
        model: in evaluation mode.
        methods: as in the title of this file; plain decoding is always among them.
        data: PDFs, or folders of shards or PDFs; none for lines and tables drawn on the spot.
        tasks: of apps.decode_samples.TASKS.
        batches: rows decoded together.
        bounds: how many samples of each task, and how large.
        tokens: most tokens of a sequence.

    Returns:
        ``rows``, one for each task, batch and method, and ``width_cost``: by batch, the seconds of a forward of 1, 2,
        4 ... tokens relative to one token, the table from which a drafter's width should be chosen.
    """
    check(model, methods)
    rows = []
    for task in tasks:
        samples = load(task, data, bounds or Bounds())
        for batch in batches:
            tallies = _race(model, task, samples, ["ntp", *(name for name in methods if name != "ntp")], batch, tokens)
            rows += [_row(model, name, task, batch, tally, tallies["ntp"], samples) for name, tally in tallies.items()]
    return {"rows": rows, "width_cost": {str(batch): width_cost(model, batch) for batch in batches}}


def _race(
    model: DocVisionModel, task: str, samples: Sequence[Sample], names: Sequence[str], batch: int, tokens: int
) -> dict[str, Tally]:
    """Every batch by every method; the first batch is done once more before, so that all are warm."""
    tallies = {name: Tally() for name in names}
    order = sorted(range(len(samples)), key=lambda index: samples[index].image.shape[1])
    groups = [order[start : start + batch] for start in range(0, len(order), batch)]
    for turn, group in enumerate([groups[0], *groups]):
        part = [samples[index] for index in group]
        memory, prompt, hints, limit, encoder = _encode(model, task, part)
        limit = min(limit, tokens)
        results: dict[str, Decoded] = {}
        for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
            plan = plan_of(name, limit)
            began, spent = time.perf_counter(), time.process_time()
            results[name] = decode(model, memory, prompt, plan, hints())
            took = time.perf_counter() - began, time.process_time() - spent
            if turn:
                tallies[name].seconds += took[0]
                tallies[name].cpu += took[1]
                tallies[name].encoder += encoder
        if turn:
            for name, found in results.items():
                _count(model, tallies[name], found, results["ntp"], memory, prompt, group)
    for tally in tallies.values():
        tally.texts = [_text(model, task, tally.ids[order.index(index)]) for index in range(len(samples))]
    return tallies


def _encode(model: DocVisionModel, task: str, part: Sequence[Sample]) -> tuple[Memory, torch.Tensor, Any, int, float]:
    """Memory, prompt, maker of fresh hints, limit of tokens and the encoder's seconds for some samples."""
    began = time.perf_counter()
    pixels, size = pad_images([sample.image for sample in part])
    with torch.inference_mode():
        memory = model.encoder(pixels.to(model.device), size.to(model.device), maps=task == "table")
    seconds = time.perf_counter() - began
    vocabulary = model.vocabulary
    names = (vocabulary.bos, vocabulary.ids["<prompt:structure>" if task == "table" else "<prompt:text>"])
    prompt = torch.tensor([names], device=model.device).expand(len(part), -1)
    if task != "table":
        hints = Hints(words=[sample.words for sample in part] if task == "born_digital" else None)
        return memory, prompt, lambda: hints, min(192, 2 * memory.grid[1] + 2), seconds
    from docvision.table_grammar import TableGrammar

    rules = TableGrammar(vocabulary, text=False)
    sizes = [(float(width), float(height)) for height, width in size.tolist()]

    def fresh() -> Hints:
        return Hints(grammars=[rules.start(pair) for pair in sizes])

    return memory, prompt, fresh, 1024, seconds


def _count(
    model: DocVisionModel,
    tally: Tally,
    found: Decoded,
    plain: Decoded,
    memory: Memory,
    prompt: torch.Tensor,
    samples: Sequence[int],
) -> None:
    """Add one batch; ``samples`` are the numbers of its rows."""
    tally.runs += found.runs
    tally.disagreements += found.disagreements
    for index, (run, other) in enumerate(zip(found.runs, plain.runs, strict=True)):
        mine, want = found.ids[index, : sum(run)].tolist(), plain.ids[index, : sum(other)].tolist()
        tally.ids.append(mine)
        tally.equal += mine == want
        if mine != want and not found.disagreements:
            place = next((i for i, (a, b) in enumerate(zip(mine, want, strict=False)) if a != b), None)
            gap = np.inf if place is None else _gap(model, memory, prompt, index, mine[: place + 1], want[place])
            if gap < TIE:
                tally.ties.append({"sample": samples[index], "place": place, "gap": gap})


@torch.inference_mode()
def _gap(model: DocVisionModel, memory: Memory, prompt: torch.Tensor, row: int, ids: list[int], other: int) -> float:
    """Difference between the scores of the last of some tokens of a row and of another in its place."""
    tokens = torch.tensor([[*prompt[row].tolist(), *ids[:-1]]], device=prompt.device)
    view = memory._replace(states_BMD=memory.states_BMD[row : row + 1], mask_BM=memory.mask_BM[row : row + 1])
    hidden = model.decoder(tokens, torch.arange(tokens.shape[1], device=tokens.device), view)
    scores = model.decoder.logits(hidden[0, -1])
    return abs(float(scores[ids[-1]] - scores[other]))


def _row(
    model: DocVisionModel, name: str, task: str, batch: int, tally: Tally, plain: Tally, samples: Sequence[Sample]
) -> dict[str, Any]:
    plan = plan_of(name, 1)
    count = len(tally.ids)
    tokens = sum(map(len, tally.ids))
    forwards = sum(map(len, tally.runs))
    per_forward = round(tokens / max(1, forwards), 3)
    plain_tokens = sum(map(len, plain.ids))
    won = [size - 1 for run in tally.runs for size in run]
    return {
        "method": name.split("/")[0],
        "options": dict(plan.draft),
        "accept": plan.accept,
        "task": task,
        "batch": batch,
        "sequences": count,
        "exact_match": round(tally.equal / count, 4),
        "ties": len(tally.ties),
        "tied": tally.ties,
        "tokens": tokens,
        "tokens_per_forward": per_forward,
        "gain": round(per_forward / (plain_tokens / max(1, sum(map(len, plain.runs)))), 3),
        "tokens_per_forward_by_class": _by_class(model, tally),
        "accepted_by_depth": [round(sum(n >= k for n in won) / len(won), 3) for k in range(1, min(16, max(won)) + 1)],
        "forwards": forwards,
        "wall_ratio": round(plain.seconds / tally.seconds, 3),
        "cpu_ratio": round(plain.cpu / tally.cpu, 3),
        "end_to_end_ratio": round((plain.seconds + plain.encoder) / (tally.seconds + tally.encoder), 3),
        "seconds": round(tally.seconds, 3),
        "disagreement": round(tally.disagreements / max(1, tokens), 4),
        "score": round(_score(task, tally, samples), 4),
    }


def _by_class(model: DocVisionModel, tally: Tally) -> dict[str, float]:
    """Tokens a forward for text, tags with the end mark, coordinates: one won with n others took 1/n of a forward."""
    vocabulary = model.vocabulary
    bounds = (vocabulary.first_byte + 256, vocabulary.first_x)
    counts: dict[str, list[float]] = {}
    for ids, run in zip(tally.ids, tally.runs, strict=True):
        shares = [1 / size for size in run for _ in range(size)]
        for token, share in zip(ids, shares, strict=True):
            kind = ("text", "tag", "coordinate")[bisect_right(bounds, token)]
            held = counts.setdefault(kind, [0, 0.0])
            held[0] += 1
            held[1] += share
    return {kind: round(tokens / forwards, 3) for kind, (tokens, forwards) in counts.items()}


def _text(model: DocVisionModel, task: str, ids: list[int]) -> str:
    """Text of a line, HTML of a table."""
    if task != "table":
        return model.vocabulary.decode(ids)
    from docvision.export import table_to_html
    from docvision.tableseq import ids_to_table

    return table_to_html(ids_to_table(ids, model.vocabulary, (1.0, 1.0)).table)


def _score(task: str, tally: Tally, samples: Sequence[Sample]) -> float:
    """1 - character error rate, or S-TEDS of tables."""
    if task != "table":
        return 1 - error_rate(tally.texts, [sample.truth for sample in samples])
    from docvision.teds import teds

    return float(np.mean([teds(t, s.truth, structure_only=True) for t, s in zip(tally.texts, samples, strict=True)]))


@torch.inference_mode()
def width_cost(model: DocVisionModel, batch: int, rounds: int = 3) -> dict[str, float]:
    """Seconds of a forward with output layer by width, relative to width 1, behind 40 tokens; best of some rounds."""
    decoder = model.decoder
    states = torch.randn(batch, 160, model.config.width, device=model.device)
    memory = Memory(states, torch.ones(batch, 160, dtype=torch.bool, device=model.device), (2, 80), {})
    cache = decoder.new_cache(batch, model.device)
    past = torch.ones(batch, 40, dtype=torch.long, device=model.device)
    decoder(past, torch.arange(40, device=model.device), memory, cache=cache)
    cache.commit(40)
    widths = [width for width in WIDTHS if width == 1 or width * batch <= WIDEST]
    best = dict.fromkeys(widths, float("inf"))
    now = clock(model.device.type)
    for _ in range(rounds):
        for width in widths:
            tokens = torch.ones(batch, width, dtype=torch.long, device=model.device)
            places = 40 + torch.arange(width, device=model.device)
            began = now()
            decoder.logits(decoder(tokens, places, memory, cache=cache)).argmax(-1).cpu()
            best[width] = min(best[width], now() - began)
    return {"seconds": round(best[1], 6)} | {str(width): round(best[width] / best[1], 2) for width in widths}


def plot(rows: Sequence[dict[str, Any]]) -> str:
    """Speed against score as an SVG: one mark for each row."""
    width, height, left, bottom = 720, 420, 60, 50
    top_speed = 1.1 * max(1.0, *(row["wall_ratio"] for row in rows))
    low = min(0.0, *(row["score"] for row in rows))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
        ' font-size="11"><rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{left} 20V{height - bottom}H{width - 20}" stroke="black" fill="none"/>',
        f'<text x="{width / 2}" y="{height - 12}">speed, times plain decoding</text>',
        f'<text x="14" y="{height / 2}" transform="rotate(-90 14 {height / 2})">score</text>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + share * (width - left - 20)
        y = height - bottom - share * (height - bottom - 20)
        parts.append(f'<text x="{x:.0f}" y="{height - bottom + 16}">{share * top_speed:.2f}</text>')
        parts.append(f'<text x="{left - 40}" y="{y:.0f}">{low + share * (1 - low):.2f}</text>')
    for row in rows:
        x = left + row["wall_ratio"] / top_speed * (width - left - 20)
        y = height - bottom - (row["score"] - low) / (1 - low) * (height - bottom - 20)
        label = f"{row['method']}/{row['accept']} {row['task']} x{row['batch']}"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/><text x="{x + 5:.1f}" y="{y - 4:.1f}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
