"""What lies in a data set's folder: is it complete, is each shard whole, what are the samples like.

Every shard is read to the end and counted again; nothing is taken from the marker.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_pipeline import shards
from data_pipeline.tally import Tally, ordered

_BAR = 30


@dataclass
class Report:
    """What was found."""

    folder: Path
    recipe: dict[str, Any]
    rows: int = 0
    size: int = 0
    """Bytes of the shards that are whole."""
    missing: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    """File -> what is wrong with it."""
    strange: list[str] = field(default_factory=list)
    """Shards that do not belong to this data set."""
    finished: bool = False
    """The marker is there and agrees with the shards."""
    dropped: Counter[str] = field(default_factory=Counter)
    tally: Tally = field(default_factory=Tally)

    @property
    def complete(self) -> bool:
        return self.finished and not (self.missing or self.damaged or self.strange)


def inspect(folder: Path) -> Report:
    """Read a whole data set.

    Raises:
        ShardError: the folder holds none.
    """
    recipe = shards.read_recipe(folder)
    report = Report(folder, recipe)
    expected = set()
    for number, indexes in enumerate(shards.shard_ranges(recipe["count"], recipe["rows"])):
        path = shards.shard_path(folder, number, recipe["format"])
        expected.add(path.name)
        if not path.exists():
            report.missing.append(path.name)
        elif reason := shards.fault(path, indexes):
            report.damaged[path.name] = reason
        else:
            for row in shards.shard_rows(path):
                report.tally.add(row)
            report.rows += len(indexes)
            report.size += path.stat().st_size
            report.dropped.update(shards.read_notes(path).get("dropped", {}))
    report.strange = sorted(path.name for path in folder.glob("part-*") if path.name not in expected)
    report.finished = _marker_agrees(report)
    return report


def _marker_agrees(report: Report) -> bool:
    try:
        marker = json.loads((report.folder / shards.MARKER).read_text(encoding="utf-8"))
        return marker["recipe"] == report.recipe and sum(entry["rows"] for entry in marker["files"]) == report.rows
    except (OSError, ValueError, KeyError, TypeError):
        return False


def lines(report: Report) -> list[str]:
    """The report as lines of text."""
    recipe = report.recipe
    count = recipe["count"]
    shown = [
        f"{report.folder}: {recipe['kind']}, {recipe['format']}, seed {recipe.get('seed')}",
        f"{report.rows:,} of {count:,} samples, {report.size / 1e6:,.1f} MB: {_state(report)}",
    ]
    shown += [f"damaged: {name}: {reason}" for name, reason in report.damaged.items()]
    if report.missing:
        shown.append(f"missing: {_some(report.missing)}")
    if report.strange:
        shown.append(f"not of this data set: {_some(report.strange)}")
    for name, counts in report.tally.plain().items():
        if name != "samples":
            shown += ["", name, *_bars(counts)]
    shown += ["", "drawn and not kept", *(_bars(report.dropped) or ["  nothing"])]
    return shown


def _state(report: Report) -> str:
    if report.complete:
        return "complete"
    again = "the same docvision make command makes what is missing"
    if report.damaged or report.strange:
        return f"damaged; {again}" if report.damaged else "complete, but with files of something else"
    return f"unfinished; {again}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _bars(counts: dict[str, int] | Counter[str]) -> list[str]:
    if not counts:
        return []
    total, most = sum(counts.values()), max(counts.values())
    width = max(len(label) for label in counts)
    return [
        f"  {label:<{width}}  {number:>9,}  {100 * number / total:5.1f} %  {'#' * round(_BAR * number / most)}".rstrip()
        for label, number in ordered(counts)
    ]
