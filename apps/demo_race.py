"""The decoder at work, as the demo's page shows it: what is known of the model, tokens as they arrive, the figures.

Tokens that were drafted and kept are coloured; each knows the second at which it came, so that the page can show the
run again in slow motion.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docvision.markdown import clean
from docvision.page import Page

LINES = 6
"""Lines that are decoded together."""
MOST_WORDS, MOST_LETTERS = 60, 60
"""Of one line's text layer, and of each word: a layer may hold anything."""
METHODS = {
    "ctc": "ctc (line head)",
    "textlayer": "textlayer (PDF's words)",
    "ptp": "ptp (registers)",
    "pmtp": "pmtp (recursive)",
    "mtp": "mtp (heads)",
}
"""Where drafts come from."""
ACCEPT = {"exact": "exact", "confidence(0.95)": "confidence 0.95 (lossy)", "all": "all (lossy)"}
ARMS = ("plain", "drafted")
REPLAY = """
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-replay]");
  const race = button && button.closest(".dv-race");
  if (!race) return;
  race.classList.remove("replay");
  void race.offsetWidth;
  race.classList.add("replay");
});
"""
SLOWER = 10
"""How many times slower the replay is."""
STYLE = (
    ".dv-race{font-size:.9rem}.dv-race figure{margin:.8rem 0;padding:.5rem .6rem;border:1px solid"
    " var(--border-color-primary);border-radius:6px}.dv-race figure img{display:block;max-width:100%;height:auto;"
    "max-height:2.2rem;background:#fff;margin:0 0 .3rem}"
    ".dv-arm{display:grid;grid-template-columns:4.2rem minmax(0,1fr);gap:.3rem;align-items:baseline;margin:.15rem 0}"
    ".dv-arm>span{font-size:.78rem;color:var(--body-text-color-subdued)}"
    ".dv-arm p{margin:0;min-height:1.4em;white-space:pre-wrap;overflow-wrap:anywhere;font-family:var(--font-mono)}"
    ".dv-own{color:inherit}.dv-kept{background:#bfdbfe;color:#1e3a8a;border-radius:2px}"
    ".dark .dv-kept{background:#1e40af;color:#eff6ff}"
    ".dv-figures{border-collapse:collapse;margin:.5rem 0;font-size:.85rem}"
    ".dv-race .dv-figures :is(th,td){padding:.2rem .7rem;text-align:right;border:0;font-weight:400;"
    "border-bottom:1px solid var(--border-color-primary)}.dv-race .dv-figures th:first-child{text-align:left}"
    ".dv-race p{margin:.4rem 0}.dv-race .dv-verdict{font-size:1.02rem;font-weight:600}"
    ".dv-button{border:1px solid #1d4ed8;color:#1d4ed8;background:#fff;border-radius:6px;padding:.3rem .8rem;"
    "font-size:.9rem;font-weight:400;cursor:pointer;"
    "display:inline-block;text-decoration:none}.dark .dv-button{background:transparent;color:#bfdbfe;"
    "border-color:#bfdbfe}.dv-button:focus-visible{outline:3px solid #2563eb;outline-offset:2px}"
    "@keyframes dv-arrive{from{opacity:0}to{opacity:1}}"
    f".dv-race.replay b{{animation:dv-arrive 1ms linear calc(var(--t) * {SLOWER}s) both}}.dv-race b{{font-weight:400}}"
)  # fmt: skip


@dataclass(frozen=True)
class Card:
    """What is known of the model that the demo runs with."""

    name: str = ""
    parameters: int = 0
    nats: float = 0.0
    """Cost that the decoder puts on a character of sample lines."""
    decoder: bool = False
    """Whether the decoder reads them, that is, was trained."""
    methods: tuple[str, ...] = ()
    failure: str = ""

    def notice(self) -> str:
        """A line for visitors on what the decoder of this model can do."""
        if self.failure:
            return f"The model cannot be used: {self.failure}. The PDF's own text is still read."
        size = f"{self.name}, {self.parameters / 1e6:.1f} million parameters"
        if not self.decoder:
            return (
                f"The model of this demo ({size}) has no trained decoder: scans are read by its line head in one pass,"
                f" so there are no tokens to watch. Its decoder spends {self.nats:.1f} nats on a character of sample"
                " lines; a trained one spends less than 1. Another model: docvision demo --model FOLDER."
            )
        return (
            f"{size}; its decoder spends {self.nats:.1f} nats on a character of sample lines. Plain decoding writes one"
            " token a step; a method drafts several, which are checked in one step. A click on a block starts there."
        )


@dataclass
class Race:
    """What plain decoding and a method have written so far."""

    method: str
    pictures: list[str] = field(default_factory=list)
    """Base64 of the lines' JPEGs."""
    tokens: dict[str, list[list[tuple[str, bool, float]]]] = field(default_factory=dict)
    """For each arm and line: text, drafted and kept, seconds."""
    clocks: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ARMS, 0.0))
    figures: dict[str, Any] = field(default_factory=dict)
    """At the end."""

    def take(self, answer: dict[str, Any]) -> bool:
        """Take one answer of the working process; whether there is something new to see."""
        if "pictures" in answer:
            self.pictures = answer["pictures"]
            self.tokens = {arm: [[] for _ in self.pictures] for arm in ARMS}
        elif "arm" in answer:
            arm, clock = answer["arm"], answer["clock"]
            for row, text, drafted in answer["rows"]:
                self.tokens[arm][row].append((text, drafted, clock))
            self.clocks[arm] = clock
        elif "race" in answer:
            self.figures = answer["race"]
        return bool(answer)

    def verdict(self) -> str:
        """The outcome in a sentence or two."""
        plain, drafted = (self.figures[arm] for arm in ARMS)
        ratio = plain["seconds"] / max(drafted["seconds"], 1e-6)
        speed = f"{ratio:.2f} times as fast as plain decoding"
        lines, equal, wrong = (self.figures[name] for name in ("lines", "equal", "disagreements"))
        if equal == lines:
            return f"{speed}, with the same text {f'in all {lines} lines' if lines > 1 else ''}".strip() + "."
        if wrong:
            share = wrong / max(1, drafted["tokens"])
            return f"{speed}; {wrong} tokens ({share:.0%}) are not what the decoder would have written."
        return f"{speed}; {lines - equal} of {lines} lines differ, where two scores are equal up to rounding."


def page_lines(page: Page, block: int) -> tuple[list[list[float]], list[list[str]]]:
    """Boxes in points of the first lines from a block on (from 1), and what the text layer has in each."""
    boxes, words = [], []
    for part in page.blocks[max(block, 1) - 1 :]:
        for line in part.lines:
            layer = line.text.split() if part.source == "text-layer" else []
            boxes.append(list(line.box))
            words.append([word[:MOST_LETTERS] for word in layer[:MOST_WORDS]])
    return boxes[:LINES], words[:LINES]


def show(race: Race) -> str:
    """The race as HTML."""
    parts = ['<div class="dv-race">']
    if race.figures:
        parts.append(f'<p class="dv-verdict" role="status">{html.escape(race.verdict())}</p>')
        parts.append(
            f'<p><button type="button" class="dv-button" data-replay>Again, {SLOWER} times slower</button></p>'
        )
    elif race.pictures:
        clocks = ", ".join(f"{_name(race, arm)} {race.clocks[arm]:.2f} s" for arm in ARMS)
        parts.append(f'<p class="dv-verdict">{html.escape(clocks)}</p>')
    if race.pictures:
        parts.append(
            '<p><b class="dv-kept">drafted and kept</b> <b class="dv-own">written by the decoder itself</b></p>'
        )
    for row, picture in enumerate(race.pictures):
        arms = "".join(
            f'<div class="dv-arm"><span>{html.escape(_name(race, arm))}</span>'
            f"<p>{_tokens(race.tokens[arm][row])}</p></div>"
            for arm in ARMS
        )
        parts.append(f'<figure><img alt="Line {row + 1}" src="data:image/jpeg;base64,{picture}">{arms}</figure>')
    if race.figures:
        parts.append(_figures(race))
    return "".join([*parts, "</div>"])


def _name(race: Race, arm: str) -> str:
    return "plain" if arm == "plain" else race.method


def _tokens(tokens: Sequence[tuple[str, bool, float]]) -> str:
    return "".join(
        f'<b class="{"dv-kept" if drafted else "dv-own"}" style="--t:{clock:.3f}">{html.escape(clean(text))}</b>'
        for text, drafted, clock in tokens
    )


def _figures(race: Race) -> str:
    head = "".join(f'<th scope="col">{html.escape(_name(race, arm))}</th>' for arm in ARMS)
    rows = []
    for key, told in (
        ("seconds", "seconds"),
        ("tokens", "tokens"),
        ("forwards", "steps of the decoder"),
        ("tokens_per_forward", "tokens a step and line"),
    ):
        cells = "".join(f"<td>{race.figures[arm][key]}</td>" for arm in ARMS)
        rows.append(f'<tr><th scope="row">{told}</th>{cells}</tr>')
    return f'<table class="dv-figures"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
