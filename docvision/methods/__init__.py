"""Multi-token methods by name: one file each, one line here.

``attach`` gives a model a method's weights, under ``methods.<name>`` of its state dict; methods without weights
need none.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

from docvision.methods.base import Drafter, Method, MethodError, Request
from docvision.methods.ctc import LineDrafts
from docvision.methods.mtp import IndependentHeads
from docvision.methods.ntp import NextToken
from docvision.methods.pmtp import ProgressiveModule
from docvision.methods.ptp import Registers
from docvision.methods.textlayer import CopiedWords

REGISTRY: dict[str, Callable[..., Method]] = {
    "ntp": NextToken,
    "ptp": Registers,
    "pmtp": ProgressiveModule,
    "mtp": IndependentHeads,
    "ctc": LineDrafts,
    "textlayer": CopiedWords,
}
TRAINED = ("ptp", "pmtp", "mtp")
"""Methods with weights of their own."""


def build(name: str, model: Any, options: Mapping[str, Any] | None = None) -> Method:
    """A method made for a model's decoder, with fresh weights.

    Raises:
        MethodError: unknown method or option.
    """
    if name not in REGISTRY:
        close = difflib.get_close_matches(name, REGISTRY, n=1, cutoff=0.4)
        hint = f": did you mean {close[0]}?" if close else ""
        raise MethodError(f"no method {name!r}, only {', '.join(REGISTRY)}{hint}")
    try:
        return REGISTRY[name](model.decoder, **(options or {}))
    except TypeError as error:
        raise MethodError(f"method {name}: {error}: see the options in docvision/methods/{name}.py") from error


def attach(model: Any, name: str, options: Mapping[str, Any] | None = None) -> Method:
    """Give a model fresh weights of a method, or build the method on those that it was loaded with.

    Args:
        model: a DocVisionModel, or any module with ``decoder``, ``config`` and a ModuleDict ``methods``.
        name: of the method.
        options: of the method; None for those it was saved with, or the defaults.

    Raises:
        MethodError: unknown method or option, or weights that do not fit them.
    """
    held = dict(model.methods.items()).get(name)
    if isinstance(held, Method):
        return held
    options = dict(model.config.methods.get(name, {}) if options is None else options)
    method = build(name, model, options).to(model.device).train(model.training)
    if held is not None:
        try:
            method.load_state_dict(held.state_dict())
        except RuntimeError as error:
            raise MethodError(f"method {name}: stored weights do not fit {options}: {error}") from error
    model.methods[name] = method
    model.config = dataclasses.replace(model.config, methods={**model.config.methods, name: options})
    return method


def get(model: Any, name: str) -> Method:
    """The method of a model.

    Raises:
        MethodError: unknown method, or no weights for it here.
    """
    if name not in TRAINED:
        return build(name, model)
    if name not in model.methods:
        known = [*(key for key in REGISTRY if key not in TRAINED), *model.methods]
        raise MethodError(
            f"this model has no weights for {name}: train them with docvision train {name}, or use one of"
            f" {', '.join(known)}"
        )
    return attach(model, name)


def drafter(name: str, request: Request) -> Drafter:
    """A method's drafter for one batch.

    Raises:
        MethodError: unknown method or option, or no weights for it here.
    """
    method = get(request.model, name)
    try:
        return method.drafter(request)
    except TypeError as error:
        if "unexpected keyword" not in str(error) and "takes no arguments" not in str(error):
            raise
        raise MethodError(f"method {name} has no draft option among {sorted(request.options)}: {error}") from error
