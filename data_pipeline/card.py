"""The data set's card: README.md with the YAML header that the Hugging Face hub and ``datasets`` read.

It is made from the recipe and the shards' own counts, names no time and no machine, and so is the same on each build.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import yaml

from data_pipeline.tally import ordered

NAME = "README.md"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LICENSES = {
    "builtin": {"license": "apache-2.0"},
    "none": {"license": "apache-2.0"},
    "system": {
        "license": "other",
        "license_name": "texts-of-installed-packages",
        "license_link": "https://www.debian.org/legal/licenses/",
    },
}
_TITLES = {
    "kind": "Kinds", "genre": "Genres", "language": "Languages", "difficulty": "Difficulty",
    "characters": "Characters in a sample", "blocks": "Blocks", "label": "Classes",
}  # fmt: skip


def features(schema: pa.Schema) -> dict[str, Any]:
    """The columns in the words of ``datasets.Features``, so that images decode by themselves."""
    return {field.name: {"_type": "Image"} if _is_image(field.type) else _feature(field.type) for field in schema}


def _is_image(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and [kind.field(i).name for i in range(kind.num_fields)] == ["bytes", "path"]


def _feature(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _feature(kind.field(i).type) for i in range(kind.num_fields)}
    return {"dtype": {"float": "float32", "double": "float64"}.get(str(kind), str(kind)), "_type": "Value"}


def _declared(name: str, feature: Any) -> dict[str, Any]:
    """A feature in the form of a card's header, which differs from the one in Parquet."""
    if isinstance(feature, list):
        inner = feature[0]
        plain = isinstance(inner, dict) and inner.get("_type") == "Value"
        return {"name": name, "list": inner["dtype"] if plain else [_declared(key, inner[key]) for key in inner]}
    if "_type" not in feature:
        return {"name": name, "struct": [_declared(key, value) for key, value in feature.items()]}
    return {"name": name, "dtype": "image" if feature["_type"] == "Image" else feature["dtype"]}


def card(summary: Mapping[str, Any], columns: pa.Schema) -> str:
    """The text of README.md.

    Args:
        summary: what the marker holds, see :func:`data_pipeline.shards.finish`.
        columns: the shards' schema.
    """
    recipe, tally = summary["recipe"], summary["tally"]
    size = sum(entry["bytes"] for entry in summary["files"])
    parts = [
        f"---\n{yaml.safe_dump(_header(summary, columns, size), sort_keys=False, allow_unicode=True)}---\n",
        f"# {recipe['kind'].capitalize()} made by docvision\n",
        f"{summary['count']:,} synthetic samples with exact truth, {size / 1e6:,.1f} MB in {len(summary['files'])} "
        f"{'Parquet shards' if recipe['format'] == 'parquet' else 'WebDataset tars'}. Truth comes from the rendered "
        "page itself, and a sample depends on the recipe, the seed and its index only.\n",
        "## Make it again\n",
        "With the recipe below in `recipe.yaml`, and the versions and sources in `recipe.json`:\n",
        f"```sh\n{command(recipe)}\n```\n\n```yaml\n{yaml.safe_dump(_recipe(recipe), sort_keys=False)}```\n",
        "## What is in it\n",
    ]
    parts += [counts_table(_TITLES.get(name, name.capitalize()), counts) for name, counts in tally.items() if counts]
    parts.append("## What was left out\n")
    if summary["dropped"]:
        parts.append("Drawn and not kept, by reason; another sample took the place of each.\n")
        parts.append(counts_table("Reason", summary["dropped"]))
    else:
        parts.append("Nothing was drawn and not kept.\n")
    parts.append(_rights(recipe))
    return "\n".join(parts)


def command(recipe: Mapping[str, Any]) -> str:
    """The line that makes the data set."""
    words = ["docvision", "make", "recipe.yaml", "-o", "DIR", "--count", recipe["count"], "--seed", recipe["seed"]]
    words += ["--format", recipe["format"]] if recipe["format"] != "parquet" else []
    return shlex.join(map(str, words))


def _recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {name: recipe[name] for name in ("kind", "rows", "options")}


def counts_table(title: str, counts: Mapping[str, int]) -> str:
    """Markdown rows of label, count and share."""
    total = sum(counts.values())
    rows = [f"| {title} | count | share |", "|---|---:|---:|"]
    rows += [f"| {label} | {count:,} | {100 * count / total:.1f} % |" for label, count in ordered(counts)]
    return "\n".join(rows) + "\n"


def _header(summary: Mapping[str, Any], columns: pa.Schema, size: int) -> dict[str, Any]:
    recipe = summary["recipe"]
    count = summary["count"]
    suffix = "parquet" if recipe["format"] == "parquet" else "tar"
    languages = sorted(name for name in summary["tally"].get("language", {}) if len(name) in (2, 3))
    header: dict[str, Any] = dict(_LICENSES[_corpus(recipe)])
    if languages:
        header["language"] = languages
    header["task_categories"] = ["image-classification" if recipe["kind"] == "glyphs" else "image-to-text"]
    header["size_categories"] = [next((name for top, name in _SIZES if count < top), "n>1M")]
    header["tags"] = ["synthetic", "document", "ocr", "docvision", *(["webdataset"] if suffix == "tar" else [])]
    header["configs"] = [
        {"config_name": "default", "data_files": [{"split": "train", "path": f"part-*.{suffix}"}]},
    ]
    if suffix == "parquet":  # a WebDataset's columns are its members' endings
        declared = [_declared(name, feature) for name, feature in features(columns).items()]
        splits = [{"name": "train", "num_bytes": size, "num_examples": count}]
        header["dataset_info"] = {"features": declared, "splits": splits, "dataset_size": size}
    return header


def _corpus(recipe: Mapping[str, Any]) -> str:
    """``none`` for glyphs, ``builtin`` only where every part says so; what is not said is ``system``."""
    if recipe["kind"] == "glyphs":
        return "none"
    named = set(json_values(recipe["options"], "corpus"))
    return "builtin" if named == {"builtin"} else "system"


def json_values(tree: Any, key: str) -> list[Any]:
    """All values of a key, at any depth."""
    if isinstance(tree, dict):
        own = [tree[key]] if key in tree else []
        return own + [found for value in tree.values() for found in json_values(value, key)]
    return [found for value in tree for found in json_values(value, key)] if isinstance(tree, list) else []


def _rights(recipe: Mapping[str, Any]) -> str:
    text = "## Rights and sources\n\n"
    if _corpus(recipe) == "builtin":
        text += "The texts are docvision's own sentences, under its licence (Apache-2.0).\n"
    elif _corpus(recipe) == "none":
        text += "Single characters, stamps and paper: there is no text in them. Fonts have licences of their own.\n"
    else:
        text += (
            "The texts are pieces of the documentation that was installed on the machine, each under its package's own "
            "licence: see /usr/share/doc/PACKAGE/copyright before you pass the data on.\n"
        )
    return (
        text
        + f"\n```json\n{json.dumps({'sources': recipe['sources'], 'versions': recipe['versions']}, indent=1)}\n```\n"
    )
