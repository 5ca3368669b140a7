"""Settings and where they come from, offline by default, shell completion, and that examples in the help run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from made_pdfs import MadePage, write_pdf

from apps import cli, models, settings
from apps.settings_examples import EXAMPLES
from docvision import checkpoint
from docvision.hf_kind import is_vlm

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, str]]:
    """Option -> setting, as ``config show --json`` tells it."""
    assert run("config", "show", "--json", *words) == 0
    return {option["name"]: option for option in json.loads(capsys.readouterr().out)["options"]}


def root() -> Any:
    return settings.with_variables(typer.main.get_command(cli.app))


def commands(command: Any = None, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    command = command or root()
    below = getattr(command, "commands", {})
    if not below:
        return [(path, command)]
    return [found for name, child in below.items() for found in commands(child, (*path, name))]


def test_argument_beats_environment_beats_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCVISION_TEXT", "layer")
    monkeypatch.setenv("DOCVISION_JOIN_TABLES", "0")
    found = shown(capsys, "parse", "--text", "model")
    assert (found["text"]["value"], found["text"]["origin"]) == ("model", "argument")
    assert (found["join-tables"]["value"], found["join-tables"]["origin"]) == ("off", "environment")
    assert (found["layout"]["value"], found["layout"]["origin"]) == ("auto", "default")
    assert shown(capsys)["text"]["value"] == "layer"


def test_a_variable_does_what_its_option_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pdf = write_pdf(tmp_path / "a.pdf", [MadePage(["A line of text that is long enough."])])
    monkeypatch.setenv("DOCVISION_FORMAT", "json")
    monkeypatch.setenv("DOCVISION_LAYOUT", "rules")
    assert run("parse", pdf, "-o", tmp_path / "out/", "-q") == 0
    document = json.loads((tmp_path / "out" / "a.json").read_text())
    assert document["settings"]["layout"] == "rules"
    monkeypatch.setenv("DOCVISION_LAYOUT", "ruels")
    assert run("parse", pdf, "-o", tmp_path / "out/", "-q") == 2


def test_every_main_option_belongs_to_a_command_and_is_told_in_its_help() -> None:
    named = {settings.name_of(option): option for _, command in commands() for option in command.params}
    assert set(settings.MAIN) <= named.keys()
    for name in settings.MAIN:
        assert named[name].envvar == settings.variable_of(name) and named[name].show_envvar


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DOCVISION_PASSWORD", "opensesame")
    monkeypatch.setenv("DOCVISION_API_KEY", "k" * 20)
    for words in (("config", "show"), ("config", "show", "--json"), ("config", "show", "serve")):
        assert run(*words) == 0
        out = capsys.readouterr().out
        assert "opensesame" not in out and "k" * 20 not in out
    assert shown(capsys)["password"]["value"] == "(set)"


def test_a_misspelt_variable_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DOCVISION_DEVIC", "cuda")
    assert run("config", "show") == 0
    assert "!! DOCVISION_DEVIC is no variable of docvision; did you mean DOCVISION_DEVICE?" in capsys.readouterr().out
    assert run("config", "show", "--json") == 0
    unknown = json.loads(capsys.readouterr().out)["unknown"]
    assert unknown == [{"name": "DOCVISION_DEVIC", "perhaps": "DOCVISION_DEVICE"}]


def test_a_command_that_is_none_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "show", "pars") == 2
    assert "Did you mean 'parse'?" in capsys.readouterr().err
    assert run("config", "show", "parse", "--txt", "layer") == 2


def test_folders_of_others_are_honoured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert settings.hub_cache() == tmp_path / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    assert settings.hub_cache() == tmp_path / "hf" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert settings.hub_cache() == tmp_path / "hub"


# Offline by default


def fake_hub(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    """A hub that notes whether the network was allowed, and has nothing."""
    errors = SimpleNamespace(
        HfHubHTTPError=type("HfHubHTTPError", (Exception,), {}),
        LocalEntryNotFoundError=type("LocalEntryNotFoundError", (OSError,), {}),
        RepositoryNotFoundError=type("RepositoryNotFoundError", (Exception,), {}),
    )

    def snapshot_download(repository: str, local_files_only: bool = False, **options: object) -> str:
        asked.append(not local_files_only)
        raise errors.LocalEntryNotFoundError("not there")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)


@pytest.mark.parametrize(("value", "online"), [(None, False), ("1", False), ("", False), ("0", True)])
def test_a_hub_id_asks_the_network_only_where_told(
    value: str | None, online: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    fake_hub(monkeypatch, asked)
    if value is None:
        monkeypatch.delenv("HF_HUB_OFFLINE")
    else:
        monkeypatch.setenv("HF_HUB_OFFLINE", value)
    with pytest.raises(checkpoint.CheckpointError, match="docvision models fetch some/model downloads it"):
        checkpoint.find_model("some/model")
    assert asked == [online]


def test_commands_are_offline_unless_told() -> None:
    code = "import os, apps.cli; apps.cli.main(['--version']); print(os.environ['HF_HUB_OFFLINE'])"
    clean = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    for environment, value in ((clean, "1"), ({**clean, "HF_HUB_OFFLINE": "0"}, "0")):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split()[-1] == value


def test_fetch_is_online_unless_forbidden(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bool] = []
    fake_hub(monkeypatch, asked)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert run("models", "fetch", "some/model") == 1
    assert "HF_HUB_OFFLINE=1 forbids it" in capsys.readouterr().err and not asked
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert run("models", "fetch", "some/model") == 1 and asked == [True]
    assert run("models", "fetch", "../model/x") == 1 and asked == [True]


# Shells


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_and_are_answered(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", shell) == 0
    script = capsys.readouterr().out
    assert "docvision" in script and f"_DOCVISION_COMPLETE=complete_{shell}" in script
    asked = {
        "_DOCVISION_COMPLETE": f"complete_{shell}", "COMP_WORDS": "docvision mod", "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "docvision mod", "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }  # fmt: skip
    command = [sys.executable, "-m", "apps.cli"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=False
    )
    assert "models" in done.stdout and "parse" not in done.stdout, done.stderr


def test_bash_reads_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", "bash") == 0
    script = capsys.readouterr().out
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Help

ENDLESS = ("demo", "serve")
"""They run until they are stopped; their options are looked at as the command would."""


def test_every_command_of_people_has_examples_and_its_help_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    names = {" ".join(path) for path, _ in commands() if path[0] != "bench"}
    assert set(EXAMPLES) == names
    for name, lines in EXAMPLES.items():
        assert run(*name.split(), "--help") == 0
        out = capsys.readouterr().out
        assert all(f"  {line}\n" in out for line in lines), out
        assert all(line.startswith(f"docvision {name}") for line in lines)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.slow] if line.startswith("docvision make") else [])
        for lines in EXAMPLES.values()
        for line in lines
    ],
)
def test_examples_of_the_help_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a folder with the files that examples speak of; diff's exit code says that there is a difference."""
    from docvision import train

    write_pdf(tmp_path / "report.pdf", [MadePage(["A line of text that is long enough."]), MadePage(["Another."])])
    write_pdf(tmp_path / "letter.pdf", [MadePage(["Another line of text."])])
    (tmp_path / "letter.txt").write_text("A line of text, and another one.\n")
    monkeypatch.chdir(tmp_path)
    model = next(model for model in models.packaged() if model.name == "docvision-tiny")
    shutil.copytree(model.folder, "my-model")
    asked: list[Any] = []
    monkeypatch.setattr(train, "main", lambda *words: asked.append(words))
    monkeypatch.setattr(models, "fetch", lambda repository, revision: model)
    command, *words = shlex.split(line.partition(">")[0])[1:]
    if command in ("show", "diff", "retry"):
        assert run("parse", "report.pdf", "letter.pdf", "--layout", "rules", "-f", "json", "-o", "out/", "-q") == 0
    if command in ENDLESS:
        assert settings.resolve(root(), [command, *words])
        return
    assert run(command, *words) == (3 if command == "diff" else 0)
    assert bool(asked) == (command == "train")


@pytest.mark.parametrize("name", ["./missing", "some/", "../a", ".hidden/model"])
def test_paths_are_no_hub_ids(name: str) -> None:
    assert not is_vlm(name)
    with pytest.raises(checkpoint.CheckpointError, match="no model"):
        checkpoint.find_model(name)
