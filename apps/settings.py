"""Where settings come from: the command line, then variables of the environment, then defaults.

The main options of all commands may also be given as ``DOCVISION_`` and the option's name, ``DOCVISION_TEXT=layer`` for
``--text layer``; ``docvision config show`` tells what holds and why.  The folders of others are theirs: ``HF_HOME`` and
``HF_HUB_CACHE`` for models of the Hugging Face hub, ``XDG_CACHE_HOME`` for what is slow to find out.

Commands ask no network unless ``HF_HUB_OFFLINE=0`` lets them; ``docvision models fetch`` is the one exception.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "DOCVISION_"
MAIN = (
    "text", "layout", "device", "model", "format", "tables", "headers", "anchors", "images", "join-tables",
    "table-reader", "max-pages", "workers", "ray", "timeout", "memory", "json-log", "host", "port", "queue", "max-mb",
    "max-seconds", "max-memory-mb", "keep-seconds",
)  # fmt: skip
"""Options that have a variable, whichever command they belong to."""
SECRET = ("password", "api-key")
"""Never shown; they have variables of their own."""
OFFLINE = "HF_HUB_OFFLINE"
_offline_by_us = False
OTHERS = (OFFLINE, "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Setting:
    """A setting, its value as text, and where that came from."""

    name: str
    value: str
    origin: str
    """``argument``, ``environment`` or ``default``."""
    variable: str = ""


def variable_of(option: str) -> str:
    """``DOCVISION_JOIN_TABLES`` for ``join-tables``."""
    return PREFIX + option.replace("-", "_").upper()


def name_of(parameter: Any) -> str:
    """The long name of a command's option, without dashes at its front."""
    return next((name.lstrip("-") for name in parameter.opts if name.startswith("--")), parameter.name)


def with_variables(command: Any) -> Any:
    """``command`` and all below it, their main options also taken from the environment."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and name_of(parameter) in MAIN and parameter.envvar is None:
            parameter.envvar, parameter.show_envvar = variable_of(name_of(parameter)), True
    for below in getattr(command, "commands", {}).values():
        with_variables(below)
    return command


def stay_offline() -> None:
    """Let no library ask the hub unless somebody has said so; to be called before any is imported."""
    global _offline_by_us
    if OFFLINE not in os.environ:
        os.environ[OFFLINE] = "1"
        _offline_by_us = True


def go_online() -> None:
    """Undo :func:`stay_offline` for a command whose purpose is to fetch.

    Raises:
        ValueError: it is the user who said so.
    """
    if os.environ.get(OFFLINE, "0").lower() not in ("", "0", "no", "off", "false") and not _offline_by_us:
        raise ValueError(f"{OFFLINE}={os.environ[OFFLINE]} forbids it: unset it first")
    os.environ[OFFLINE] = "0"


def resolve(root: Any, words: Sequence[str]) -> list[Setting]:
    """The options of a command as it would see them.

    Args:
        root: the whole command line, with variables.
        words: the command and its arguments; those that it requires may be missing.
    """
    command, words = root, list(words)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    for parameter in command.params:
        parameter.required = False
    context = command.make_context("docvision", words)
    found = []
    for parameter in command.params:
        if parameter.param_type_name != "option" or name_of(parameter) in ("help", "version", "debug"):
            continue
        source = context.get_parameter_source(parameter.name)
        origin = {"COMMANDLINE": "argument", "ENVIRONMENT": "environment"}.get(source.name if source else "", "default")
        variable = parameter.envvar if isinstance(parameter.envvar, str) else ""
        value = context.params.get(parameter.name)
        if value is None and isinstance(parameter.show_default, str):
            value = parameter.show_default  # what stands in the help where no value is passed on
        found.append(Setting(name_of(parameter), shown(name_of(parameter), value), origin, variable))
    return found


def shown(name: str, value: object) -> str:
    """A value as people write it; of a secret only whether there is one."""
    if name in SECRET:
        return "(set)" if value else ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else str(value)


def surroundings() -> list[Setting]:
    """Variables of others that matter here, and the folders that follow from them."""
    found = []
    for name in OTHERS:
        if name in os.environ:
            ours = name == OFFLINE and _offline_by_us
            found.append(Setting(name, os.environ[name], "default" if ours else "environment", name))
    hub = "environment" if {"HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"} & os.environ.keys() else "default"
    own = "environment" if "XDG_CACHE_HOME" in os.environ else "default"
    found.append(Setting("models of the hub", str(hub_cache()), hub))
    found.append(Setting("what is slow to find out", str(cache() / "docvision"), own))
    return found


def unknown_variables(root: Any) -> Iterator[tuple[str, str]]:
    """Variables that look like ours and are none, each with the name that was perhaps meant, or nothing."""
    known = {variable_of(name) for name in (*MAIN, *SECRET)} | {"DOCVISION_SHOTS"}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
            yield name, close[0] if close else ""


def cache() -> Path:
    """``$XDG_CACHE_HOME``, by default ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def hub_cache() -> Path:
    """Where the Hugging Face hub keeps what it has fetched."""
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"])
    return Path(os.environ.get("HF_HOME") or cache() / "huggingface") / "hub"
