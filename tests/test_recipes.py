"""Every recipe on disk: it parses, says what it is for and how to launch it, and loads into its dataclasses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from data_pipeline import build
from docvision import config
from imagegen import config as image_config

ROOT = Path(__file__).resolve().parent.parent
RECIPES = sorted(
    path.relative_to(ROOT)
    for package in ("docvision", "data_pipeline", "imagegen")
    for path in ROOT.glob(f"{package}/**/recipes/*.yaml")
)
LAUNCHERS = ("docvision ", "imagegen ", "python -m ", "accelerate launch ", "make ")


def header(path: Path) -> list[str]:
    """The comment lines above the first key, without their signs."""
    lines = []
    for line in (ROOT / path).read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return [line for line in lines if line]


def test_recipes_are_found():
    """Guards the tests below: a wrong glob would pass on no files."""
    assert len(RECIPES) >= 6
    assert {path.parts[0] for path in RECIPES} >= {"docvision", "data_pipeline"}


@pytest.mark.parametrize("path", RECIPES, ids=str)
def test_header_says_purpose_and_launch_line(path):
    lines = header(path)
    assert lines and len(lines[0]) >= 20, f"{path}: open with a comment that says what the recipe is for"
    launch = [line for line in lines if any(word in line for word in LAUNCHERS) and path.stem in line]
    assert launch, f"{path}: the header needs a launch line that names {path.name}, e.g. docvision train {path}"
    for word in shlex.split(launch[0].strip("`")):
        if word.endswith(".yaml"):
            assert (ROOT / word).is_file(), f"{path}: the launch line names {word}, which does not exist"


@pytest.mark.parametrize("path", RECIPES, ids=str)
def test_recipe_is_a_mapping_with_known_places(path):
    text = (ROOT / path).read_text("utf-8")
    recipe = yaml.safe_load(text)
    assert isinstance(recipe, dict) and recipe, f"{path}: a recipe is a mapping"
    assert not re.search(r"(^|\s)(/home/|/work/|/mnt/|/root/)", text), f"{path}: no machine's own paths in a recipe"


@pytest.mark.parametrize("path", RECIPES, ids=str)
def test_recipe_loads(path):
    """Into frozen dataclasses, so an unknown or misspelt key fails here and not after an hour."""
    load(str(ROOT / path), path.parts[0])


def load(name: str, package: str, overrides: tuple[str, ...] = ()) -> None:
    if package == "data_pipeline":
        build.load_recipe(name)
    elif package == "imagegen":
        image_config.load_recipe(name, overrides)
    else:
        config.load_recipe(name, overrides)


@pytest.mark.parametrize("path", RECIPES, ids=str)
def test_commands_in_the_header_load(path):
    """Each `docvision train NAME key=value` and `docvision make NAME` in the header is accepted as written."""
    for command, rest in re.findall(r"docvision (train|make) ([^&|`]+)", "\n".join(header(path))):
        name, *words = shlex.split(rest.splitlines()[0])
        overrides = tuple(word for word in words if "=" in word and not word.startswith("-"))
        load(name, "docvision" if command == "train" else "data_pipeline", overrides)
