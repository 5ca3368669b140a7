"""A recipe's YAML into frozen dataclasses: every key known, every value of the type that its field says.

A mistake is a :class:`RecipeError` with the file, the key and what to write instead, before any sample is made.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")


class RecipeError(ValueError):
    """A recipe that cannot be used, and why."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        RecipeError: it cannot be read, is no YAML, or is no mapping.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path} cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of keys, such as kind: lines")
    return tree


def fill(cls: type[T], values: Any, place: str) -> T:
    """A dataclass from a mapping; lists become tuples.

    Raises:
        RecipeError: unknown keys, with the nearest known one; missing ones; values of a wrong type or out of bounds.
    """
    if not isinstance(values, dict):
        raise RecipeError(f"{place} must be a mapping of names to values")
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    known = [entry.name for entry in fields]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise RecipeError(f"unknown key {key!r} in {place}: {hint}")
    for entry in fields:
        if entry.name not in values and entry.default is entry.default_factory is dataclasses.MISSING:
            raise RecipeError(f"key {entry.name!r} is missing in {place}")
    hints = typing.get_type_hints(cls)
    given = {key: _value(hints[key], value, f"{key} in {place}") for key, value in values.items()}
    try:
        return cls(**given)
    except RecipeError:
        raise
    except ValueError as error:
        raise RecipeError(str(error)) from error


def _value(schema: Any, value: Any, place: str) -> Any:
    """``value`` as ``schema`` wants it."""
    origin, inner = typing.get_origin(schema), typing.get_args(schema)
    if schema is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _value(next(part for part in inner if part is not type(None)), value, place)
    if origin is typing.Literal:
        if value in inner:
            return value
        raise RecipeError(f"{place} is {value!r}: use one of {', '.join(map(str, inner))}")
    if origin is tuple and isinstance(value, (list, tuple)):
        kinds = (inner[0],) * len(value) if inner[-1] is Ellipsis else inner
        if len(kinds) != len(value):
            raise RecipeError(f"{place} has {len(value)} values: give {len(kinds)}")
        return tuple(_value(kind, item, place) for kind, item in zip(kinds, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {
            _value(inner[0], key, place): _value(inner[1], item, f"{key} in {place}") for key, item in value.items()
        }
    if dataclasses.is_dataclass(schema) and isinstance(schema, type):
        return fill(schema, value, place)
    if schema is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is None and isinstance(value, schema) and (schema is bool) == isinstance(value, bool):
        return value
    raise RecipeError(f"{place} is {value!r}: expected {_name(schema)}")


def _name(schema: Any) -> str:
    names = {tuple: "a list", dict: "a mapping", str: "text", float: "a number", int: "a whole number", bool: "a flag"}
    return names.get(typing.get_origin(schema) or schema, str(schema))
