"""A Hugging Face document model that writes several tokens a forward, with its answers unchanged.

    accelerated = docvision.accelerate(model, method="textlayer")
    ids = accelerated.generate(**inputs, max_new_tokens=1024, words=[["words", "of", "the", "page"]])

``generate`` takes what the model's own generate takes.  The library prepares everything as always (inputs, masks,
positions, the picture's features, generation config, score processors, stopping criteria); only its decoding loop is
replaced, by docvision.decode over the model's own decoder.  With do_sample=False the ids are those of
``model.generate``; with do_sample=True they are those that plain decoding would draw with the same seed.

The model is shared, not copied: one cache for the batch, and the method's own weights if it has any.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from docvision import methods
from docvision.accept import Chooser, Policy
from docvision.decode import Plan
from docvision.hf_vlm.adapter import load_adapter, push_adapter, save_adapter
from docvision.hf_vlm.cache import RowCache
from docvision.hf_vlm.decoder import VlmDecoder, VlmError
from docvision.hf_vlm.drafts import copier
from docvision.hf_vlm.own_layer import OwnDrafter, PromptRun, load_own_layer
from docvision.hf_vlm.request import REFUSED, LeftPadded, check_settings, end_tokens, finish
from docvision.hf_vlm.session import Course, VlmSession, apply
from docvision.pace import Pace

METHODS = ("textlayer", "ngram", "ptp", "pmtp", "own", "ntp")
TOLERANCE = 1e-3
"""Largest difference between the model's own scores and ours, as a share of their spread, that is taken for rounding
in single precision; 0.1 in half precision."""
NATIVE_CRITERIA = ("MaxLengthCriteria", "EosTokenCriteria")


@dataclass(frozen=True)
class CoreConfig:
    """What docvision.methods wants to know of a model."""

    methods: dict[str, Any] = field(default_factory=dict)


class Core:
    """A model as docvision.decode sees it: decoder, methods, vocabulary."""

    def __init__(self, model: Any) -> None:
        self.decoder = VlmDecoder(model)
        self.methods = nn.ModuleDict()
        self.config = CoreConfig()
        self.vocabulary = SimpleNamespace(eos=-1)
        self.paces: dict[str, Pace] = {}
        """What was learnt about the speed of each drafter that is none of docvision.methods."""
        self.training = False

    @property
    def device(self) -> torch.device:
        return self.decoder.device


@dataclass
class Statistics:
    """What the last call of generate cost."""

    forwards: int = 0
    """Of the decoder behind the prompt."""
    runs: list[list[int]] = field(default_factory=list)
    """For each row, the tokens won by each forward that it took part in."""
    confidence: list[float] = field(default_factory=list)
    """For each row, the geometric mean probability of its tokens behind the first."""
    disagreements: int = 0
    """Tokens kept that the model would not have written; 0 with ``accept="exact"``."""

    @property
    def tokens_per_forward(self) -> float:
        return sum(map(sum, self.runs)) / max(1, sum(map(len, self.runs)))


@dataclass(frozen=True)
class Asked:
    """Arguments of generate that are ours."""

    words: Sequence[Sequence[str]] | None
    seed: int
    streamer: Any


class Accelerated:
    """A model with a method.

    Args:
        model: an image-text-to-text model of transformers, encoder-decoder ones included, LoRA or not.
        method: ``textlayer``, ``ngram``, ``ptp``, ``pmtp``, ``own`` for the layer that the model brings along, or
            ``ntp`` for one token at a time.
        processor: of the model, or its tokenizer; ``textlayer`` needs it to turn words into tokens.
        accept: ``exact`` keeps the model's answers; ``all`` and ``confidence(TAU)`` do not.
        fallback: stop drafting where the clock says that it does not pay.
        adapter: folder or hub id of trained weights of the method.
        options: of the drafter, such as ``nodes=32``.

    Raises:
        VlmError: this model cannot be accelerated, or the method lacks something; the message says what.
    """

    def __init__(
        self,
        model: Any,
        method: str = "textlayer",
        processor: Any = None,
        accept: str = "exact",
        fallback: bool = True,
        adapter: str | Path | None = None,
        **options: Any,
    ) -> None:
        if method not in METHODS:
            close = difflib.get_close_matches(method, METHODS, n=1, cutoff=0.4)
            raise VlmError(f"no method {method!r}, only {', '.join(METHODS)}{f': {close[0]}?' if close else ''}")
        if hasattr(model, "get_base_model"):  # a PeftModel: its layers stand inside the base model
            model = model.get_base_model()
        if not callable(getattr(model, "generate", None)) or not hasattr(model, "get_decoder"):
            raise VlmError(
                f"{type(model).__name__} does not generate text: give a model of AutoModelForImageTextToText"
            )
        Policy.parse(accept)
        self.model, self.method, self.accept, self.fallback = model, method, accept, fallback
        self.processor = processor
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self.options = options
        self.core = Core(model)
        self.last = Statistics()
        self.described: dict[str, Any] | None = None
        """What an adapter says of this base, where it was worked out before the weights were split."""
        self._checked = False
        self.own = load_own_layer(model, self.core.decoder) if method == "own" else None
        self._prompt: tuple[RowCache, PromptRun] | None = None
        if adapter is not None:
            load_adapter(self, adapter)
        if method == "textlayer" and self.tokenizer is None:
            raise VlmError("textlayer turns words into tokens: pass processor=AutoProcessor.from_pretrained(...)")

    def generate(
        self, inputs: Tensor | None = None, *, words: Sequence[Sequence[str]] | None = None, seed: int = 0, **named: Any
    ) -> Any:
        """As ``model.generate``, with the same arguments and the same result.

        Args:
            inputs: as there.
            words: for each row, the words that the page's text layer shows; they change speed, never output.
            seed: of the sampling noise, where do_sample is set.
            named: as there.

        Raises:
            VlmError: an argument that only the model's own generate understands.
        """
        for name in ("custom_generate", "assistant_model", "prefix_allowed_tokens_fn", "cache", "past_key_values"):
            if named.get(name) is not None:
                raise VlmError(f"{name} is not understood here: leave it out, or use model.generate")
        if self.method in methods.TRAINED and self.method not in self.core.methods:
            raise VlmError(f"this model has no weights for {self.method}: load an adapter, or train one with hf-ptp")
        if inputs is not None:
            named["inputs"] = inputs
        check_settings(SimpleNamespace(**{name: named[name] for name in REFUSED if name in named}), ())
        sides = LeftPadded(named, self.model.config.is_encoder_decoder)

        asked = Asked(words, seed, named.get("streamer"))

        def loop(model: Any, input_ids: Tensor, **prepared: Any) -> Any:
            return self._decode(input_ids, asked, **prepared)

        made = self.model.generate(**sides.named, custom_generate=loop)
        return sides.restore(made)

    def save_pretrained(self, folder: str | Path, method: str = "") -> None:
        """Write the weights of a method with their card; see docvision.hf_vlm.adapter."""
        save_adapter(self, folder, method)

    def push_to_hub(self, repository: str, private: bool = True, method: str = "") -> str:
        """Upload the weights of a method; returns the address of the commit."""
        return push_adapter(self, repository, private, method)

    @torch.inference_mode()
    def _decode(
        self,
        input_ids: Tensor,
        asked: Asked,
        logits_processor: Sequence[Any],
        stopping_criteria: Any,
        generation_config: Any,
        **named: Any,
    ) -> Any:
        """In the place of the library's decoding loop."""
        check_settings(generation_config, logits_processor)
        rows = input_ids.shape[0]
        if asked.words is not None and len(asked.words) != rows:
            raise VlmError(f"words of {len(asked.words)} pages for {rows} rows: give a list of words for each row")
        cache, scores_BV = self._prefill(input_ids, named)
        scores_BV = apply(logits_processor, input_ids, scores_BV)
        # Temperature is one of the processors, so the noise is added at temperature 1.
        temperature = 1.0 if generation_config.do_sample else 0.0
        every_B = torch.arange(rows, device=scores_BV.device)
        first_B = Chooser(temperature, asked.seed)(scores_BV[:, None], every_B, torch.zeros_like(every_B)[:, None])[
            :, 0
        ]
        first = first_B.tolist()
        if asked.streamer is not None:
            asked.streamer.put(first_B.cpu())
        ends = end_tokens(generation_config)
        limit = stopping_criteria.max_length - input_ids.shape[1]
        others = [criterion for criterion in stopping_criteria if type(criterion).__name__ not in NATIVE_CRITERIA]
        begun = torch.cat([input_ids, first_B[:, None].to(input_ids.device)], 1)
        stopped = {row for criterion in others for row in criterion(begun, None).nonzero()[:, 0].tolist()}
        going = [row for row in range(rows) if first[row] not in ends and row not in stopped and limit > 1]
        written = [[token] for token in first]
        self.last = Statistics()
        if going:
            course = Course(
                plan=self._plan(limit - 1, temperature, asked.seed, min(ends, default=-1)),
                rows=going,
                first=[first[row] for row in going],
                prompts=[input_ids[row].tolist() for row in going],
                ends=ends,
                processors=list(logits_processor),
                criteria=others,
                drafter=self._drafter(asked.words, going, input_ids, named),
                name=self.method,
                on_tokens=None if asked.streamer is None else lambda ids: asked.streamer.put(torch.tensor(ids)),
            )
            for row, tokens in zip(going, self._go_on(cache, course, rows), strict=True):
                written[row] += tokens
        if asked.streamer is not None:
            asked.streamer.end()
        return finish(input_ids, written, generation_config, self.model.config.is_encoder_decoder)

    def _prefill(self, input_ids: Tensor, named: dict[str, Any]) -> tuple[RowCache, Tensor]:
        """The prompt's own forward, as the library does it: the cache behind it, and the scores of the next token."""
        decoder, cache = self.core.decoder, self.core.decoder.fresh_cache()
        encoder = self.model.config.is_encoder_decoder
        named["cache"] = cache.with_encoder() if encoder else cache
        prepared = self.model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **named)
        seen: dict[str, Any] = {}

        def look(module: nn.Module, given: Any, called: dict[str, Any], output: Any) -> None:
            states = output.last_hidden_state
            seen.update(called, states=states[:, -1:], all=states if self.own is not None else None)

        hook = decoder.stack.register_forward_hook(look, with_kwargs=True)
        try:
            logits_BV = self.model(**prepared, return_dict=True).logits[:, -1].float()
        finally:
            hook.remove()
        device = decoder.device
        rows = input_ids.shape[0]
        mask = named.get("attention_mask") if not encoder else None
        if mask is None or mask.shape[1] != cache.prompt:
            mask = torch.ones(rows, cache.prompt, device=device)
        place = seen.get("position_ids")
        axes = 0
        if place is None:
            offset_B = torch.full((rows,), cache.prompt, device=device)
        else:
            if place.dim() == 3:  # M-RoPE; where there are four axes, the first is for masks alone
                axes, place = 3, place[-1]
            offset_B = place[:, -1].to(device).expand(rows) + 1
        cache.start(mask.to(device).bool(), offset_B.clone(), axes)
        if self.own is not None:
            placed = seen.get("position_ids")
            placed = torch.arange(cache.prompt, device=device)[None] if placed is None else placed
            self._prompt = cache, PromptRun(seen["inputs_embeds"], seen["all"], placed[-3:] if axes else placed)
        if encoder:
            names = ("encoder_hidden_states", "encoder_attention_mask")
            cache.cross_inputs = {name: seen[name] for name in names if seen.get(name) is not None}
        self._check_scores(seen["states"], logits_BV)
        return cache, logits_BV.to(device)

    def _check_scores(self, states_B1D: Tensor, logits_BV: Tensor) -> None:
        """Once for each model: our way from states to scores must be the model's own."""
        if self._checked:
            return
        ours_BV = self.core.decoder.logits(states_B1D)[:, 0].float()
        theirs_BV = logits_BV.to(ours_BV.device)
        slack = TOLERANCE if states_B1D.dtype == torch.float32 else 100 * TOLERANCE
        if ours_BV.shape != theirs_BV.shape or bool(((ours_BV - theirs_BV).abs() > slack * theirs_BV.std()).any()):
            raise VlmError(
                f"{type(self.model).__name__} makes its scores in a way not known here (more than an output layer):"
                " use model.generate"
            )
        self._checked = True

    def _plan(self, limit: int, temperature: float, seed: int, eos: int) -> Plan:
        own = self.method in methods.TRAINED
        draft: Mapping[str, Any] = self.options if own else {}
        return Plan(limit, self.method if own else "ntp", self.accept, temperature, seed, self.fallback, draft, eos)

    def _drafter(
        self, words: Sequence[Sequence[str]] | None, going: Sequence[int], input_ids: Tensor, named: dict[str, Any]
    ) -> Callable[[Any], Any] | None:
        """What copies from words and from what was written, for the methods that do."""
        if self.own is not None and self._prompt is not None:
            cache, prompt = self._prompt
            self._prompt = None
            return partial(OwnDrafter, layer=self.own, main=cache, prompt=prompt.of(going), **self.options)
        if self.method not in ("textlayer", "ngram"):
            return None
        mask = named.get("attention_mask")
        keep = torch.ones_like(input_ids) if mask is None or mask.shape != input_ids.shape else mask
        config = self.model.config
        pictures = {getattr(config, name, None) for name in ("image_token_id", "image_token_index", "video_token_id")}
        prompts = [
            [token for token, real in zip(input_ids[row].tolist(), keep[row].tolist(), strict=True)
             if real and token not in pictures] for row in going
        ]  # fmt: skip
        given = None if words is None or self.method == "ngram" else [words[row] for row in going]
        return copier(self.tokenizer, given, prompts, **self.options)

    def _go_on(self, cache: RowCache, course: Course, rows: int) -> list[list[int]]:
        """New tokens of the rows that did not end with their first."""
        if len(course.rows) < rows:
            cache.select(torch.tensor(course.rows, device=self.core.device))
        self.core.decoder.prime(cache)
        session = VlmSession(self.core, course)
        session.run()
        sure = [math.exp(sum(scores) / len(scores)) if scores else 1.0 for scores in session.scores]
        self.last = Statistics(session.forwards, session.runs, sure, session.disagreements)
        return session.written
