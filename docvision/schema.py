"""Plain data from YAML into frozen dataclasses and back, with every problem named at once.

One dataclass per concern; a field's docstring says its unit.  Nothing is accepted that no field takes, the closest
known key stands beside each unknown one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import yaml

T = TypeVar("T")


class RecipeError(ValueError):
    """What is wrong with a recipe, all of it, one problem a line."""


def build(schema: type[T], tree: Mapping[str, Any], place: str) -> T:
    """A dataclass from nested plain data; raises RecipeError with all problems found."""
    problems: list[str] = []
    value = _convert(schema, tree, "", problems)
    if not problems and hasattr(value, "problems"):
        problems = value.problems()
    if problems:
        raise RecipeError(f"{place}: " + "\n".join(problems))
    return value


def to_plain(value: Any) -> Any:
    """Dataclasses to plain dicts and lists, ready for YAML or JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def override(tree: dict[str, Any], change: str) -> None:
    """Set one ``dotted.key=value`` of a tree in place, the value in YAML.

    Raises:
        RecipeError: no ``=``, or a part of the key that is no mapping or no entry of a list.
    """
    key, sign, text = change.partition("=")
    if not sign or not key:
        raise RecipeError(f"override {change!r}: write key=value, for example optim.lr=3e-4")
    *parents, last = key.strip().split(".")
    node: Any = tree
    for part in parents:
        if isinstance(node, list):
            node = _item(node, part, change)
        else:
            node = node.setdefault(part, {})
        if not isinstance(node, (dict, list)):
            raise RecipeError(f"override {change!r}: {part} holds a value, not further keys")
    value = yaml.safe_load(text)
    if isinstance(value, str):  # YAML 1.1 reads 3e-4 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(node, list):
        _item(node, last, change)
        node[int(last)] = value
    else:
        node[last] = value


def _item(node: list[Any], part: str, change: str) -> Any:
    if not part.isdigit() or int(part) >= len(node):
        raise RecipeError(f"override {change!r}: {part!r} is not an index of a list of {len(node)}")
    return node[int(part)]


def _convert(schema: Any, value: Any, place: str, problems: list[str]) -> Any:
    if dataclasses.is_dataclass(schema):
        return _convert_fields(schema, value, place, problems)
    origin = typing.get_origin(schema)
    if origin is tuple:
        return _convert_tuple(schema, value, place, problems)
    if origin is dict:
        if isinstance(value, Mapping):
            return dict(value)
    elif origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _convert(next(arg for arg in typing.get_args(schema) if arg is not type(None)), value, place, problems)
    elif schema is Any:
        return value
    elif schema is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, schema) and (schema is bool) == isinstance(value, bool):
        return value
    problems.append(f"{place}={value!r}: expected {getattr(schema, '__name__', schema)}")
    return value


def _convert_tuple(schema: Any, value: Any, place: str, problems: list[str]) -> Any:
    if not isinstance(value, (list, tuple)):
        problems.append(f"{place}={value!r}: expected a list")
        return value
    kinds = typing.get_args(schema)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    elif len(kinds) != len(value):
        problems.append(f"{place}={value!r}: expected {len(kinds)} values")
        return value
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_convert(kind, item, f"{place}.{i}", problems) for i, (kind, item) in pairs)


def _convert_fields(schema: Any, value: Any, place: str, problems: list[str]) -> Any:
    if not isinstance(value, Mapping):
        problems.append(f"{place or 'recipe'}={value!r}: expected keys")
        return value
    hints = typing.get_type_hints(schema)
    known = {item.name: item for item in dataclasses.fields(schema)}
    prefix = f"{place}." if place else ""
    for key in value:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {prefix}{close[0]}?" if close else f"known keys: {', '.join(known)}"
            problems.append(f"unknown key {prefix}{key}: {hint}")
    arguments = {
        name: _convert(hints[name], value[name], f"{prefix}{name}", problems) for name in known if name in value
    }
    for name, item in known.items():
        if name not in value and item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            problems.append(f"missing key {prefix}{name}")
    return None if problems else schema(**arguments)
