"""The README and docs/ say what is true: the tree is the disk, commands exist, the README's Python runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from apps import cli, images

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
DOCS = {path: path.read_text("utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
PACKAGES = ("docvision", "data_pipeline", "imagegen", "apps")
INDENT = 2


def fenced(language: str, text: str = README) -> list[str]:
    """Contents of the fenced blocks of one language, the README's unless told."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def listed_paths() -> dict[str, str]:
    """Paths of the annotated tree with what is said about them; folders end in a slash."""
    entries: dict[str, str] = {}
    folders: list[str] = []
    for line in fenced("text")[0].splitlines():
        name, _, note = line.strip().partition(" ")
        depth = (len(line) - len(line.lstrip())) // INDENT
        folders = folders[:depth]
        entries["".join(folders) + name] = note.strip()
        if name.endswith("/"):
            folders.append(name)
    return entries


def paths_on_disk() -> set[str]:
    """What the tree must list: files and folders at the top, each module, each folder in a package."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout, so which files belong to it is not known")
    expected = set()
    for name in listing.stdout.splitlines():
        parts = Path(name).parts
        if not (ROOT / name).is_file():
            continue
        expected.add(parts[0] + ("/" if len(parts) > 1 else ""))
        if parts[0] in PACKAGES and len(parts) > 2:
            expected.add(f"{parts[0]}/{parts[1]}/")
        if parts[0] in PACKAGES and name.endswith(".py") and parts[-1] != "__init__.py":
            expected.add(name)
    return expected


def test_tree_equals_disk():
    listed, disk = set(listed_paths()), paths_on_disk()
    missing = sorted(disk - listed)
    stale = sorted(path for path in listed - disk if "*" not in path or not list(ROOT.glob(path)))
    assert not missing, "the README's tree lacks:\n" + "\n".join(missing)
    assert not stale, "the README's tree lists what is not there:\n" + "\n".join(stale)


def test_tree_is_annotated():
    bare = [path for path, note in listed_paths().items() if not note]
    assert not bare, f"say in the README's tree what these are: {bare}"


def options(command: Any) -> set[str]:
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help"}


def commands() -> list[list[str]]:
    text = "\n".join(DOCS.values()).replace("\\\n", " ")
    lines = [line for block in fenced("sh", text) + fenced("bash", text) for line in block.splitlines()]
    inline = re.findall(r"`((?:make|docvision|imagegen) [^`.]+)`", text)
    return [words for line in lines + inline if (words := shlex.split(line, comments=True))]


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {words[1] for words in commands() if words[0] == "make"}
    assert {"demo", "test", "check"} <= named
    assert named <= targets, f"the README names make targets that do not exist: {sorted(named - targets)}"


@pytest.mark.parametrize(("program", "app"), [("docvision", cli.app), ("imagegen", images.app)])
def test_named_commands_exist(program, app):
    assert program in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    root = typer.main.get_command(app)
    calls = [words[1:] for words in commands() if words[0] == program]
    assert calls
    for words in calls:
        command, rest = root, words
        while rest and rest[0] in getattr(command, "commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        assert command is not root or words[0].startswith("-"), f"no command: {program} {words[0]}"
        unknown = {word.split("=")[0] for word in rest if word.startswith("-")} - options(command) - {"--version"}
        assert not unknown, f"{program} {shlex.join(words)}: no option {sorted(unknown)}"


def test_python_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    blocks = fenced("python")
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert "heading" in capsys.readouterr().out


def test_relative_links_lead_somewhere():
    for path, text in DOCS.items():
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"


def test_python_in_docs_is_python():
    for path, text in DOCS.items():
        for block in fenced("python", text):
            compile(block, path.name, "exec")


def test_exit_codes_are_all_listed():
    assert re.findall(r"^\| (\d+) \|", README, re.MULTILINE) == ["0", "1", "2", "3", "130"]
