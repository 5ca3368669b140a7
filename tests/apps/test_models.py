"""Models on disk: listed with what their files say, and a damaged file is told, whichever byte it is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from apps import cli, models

TINY = "docvision-tiny"


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def write_model(folder: Path, shape: tuple[int, int] = (3, 4), **config: object) -> Path:
    """A model of one tensor of zeros, written without torch."""
    folder.mkdir(parents=True)
    size = shape[0] * shape[1] * 2
    header = json.dumps({"a": {"dtype": "F16", "shape": shape, "data_offsets": [0, size]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    (folder / "config.json").write_text(json.dumps({"vocabulary": "x", **config}))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = write_model(tmp_path / "model")
    models.seal(folder)
    return folder


def test_every_packaged_model_is_whole() -> None:
    """Weights that were replaced without `docvision models seal` are found here."""
    found = models.packaged()
    assert TINY in [model.name for model in found] and len(found) >= 3
    assert {model.name: models.faults(model) for model in found} == {model.name: [] for model in found}


def test_the_list_says_what_the_files_say(capsys: pytest.CaptureFixture[str]) -> None:
    from docvision.checkpoint import read_tensors

    assert run("models", "list", "--json") == 0
    row = next(row for row in json.loads(capsys.readouterr().out) if row["name"] == TINY)
    weights = Path(row["path"]) / "model.safetensors"
    assert row["parameters"] == sum(tensor.numel() for tensor in read_tensors(weights).values())
    assert row["bytes"] == weights.stat().st_size and row["faults"] == []


@pytest.mark.parametrize("place", [0, 4, 20, 60, -1])
def test_one_wrong_byte_is_told(model: Path, place: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("models", "verify", model) == 0
    weights = model / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[place] ^= 1
    weights.write_bytes(content)
    capsys.readouterr()
    assert run("models", "verify", model) == 1
    assert str(weights) in capsys.readouterr().out


@pytest.mark.parametrize("kept", [0, 5, 30, -1])
def test_a_file_cut_off_is_told_with_or_without_a_hash(model: Path, kept: int) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    assert run("models", "verify", model) == 1
    with pytest.raises(models.ModelFileError, match=r"safetensors|copy it again"):
        models.find(str(model)).parameters()


def test_a_header_that_claims_more_than_the_file_is_not_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "a")
    (folder / "model.safetensors").write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    with pytest.raises(models.ModelFileError, match="no safetensors file"):
        models.find(str(folder)).parameters()


def test_a_missing_file_and_a_missing_hash_are_told(model: Path, tmp_path: Path) -> None:
    (model / "config.json").unlink()
    assert "config.json is missing" in models.faults(models.find(str(model)))[0]
    assert "keeps no hash" in models.faults(models.find(str(write_model(tmp_path / "b"))))[0]


def test_some_bad_ones_are_a_partial_success(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = shutil.copytree(model, tmp_path / "bad")
    (bad / "config.json").write_text("{}")
    assert run("models", "verify", model, bad) == 3
    out = capsys.readouterr().out
    assert f"ok {model}" in out and f"!! {bad}: {bad}/config.json is damaged" in out
    assert run("models", "verify", "docvision-tinny") == 2
    assert run("models", "seal", tmp_path) == 2


def test_cached_models_are_checked_by_the_names_of_their_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of the hub's cache: snapshots link to blobs, and a large blob's name is its hash."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--some--model"
    made = write_model(repository / "made")
    blob = repository / "blobs" / models.sha256(made / "model.safetensors")
    blob.parent.mkdir()
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    shutil.move(made / "model.safetensors", blob)
    shutil.move(made / "config.json", snapshot / "config.json")
    os.symlink(blob, snapshot / "model.safetensors")
    other = write_model(tmp_path / "models--no--docvision" / "snapshots" / "b")
    (other / "config.json").write_text('{"model_type": "bert"}')
    (found,) = models.cached()
    assert found.name == "some/model@aaaaaaaa" and models.faults(found) == []
    blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    assert "is damaged" in models.faults(found)[0]


class Hub:
    """Repositories on disk in the place of the hub: what is asked for, and only that, lands in a snapshot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, str | None]] = []

    def publish(self, name: str, revision: str, files: dict[str, str | bytes]) -> None:
        folder = self.root / "hub" / name / revision
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())

    def snapshot_download(self, name: str, revision: str | None, allow_patterns: list[str]) -> str:
        from huggingface_hub.utils import filter_repo_objects

        self.asked.append((name, revision))
        source = self.root / "hub" / name / (revision or "main")
        if not source.is_dir():
            raise OSError(f"404: {name} has no revision {revision}\nmore lines")
        target = self.root / "cache" / name / (revision or "main")
        files = [path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()]
        for file in filter_repo_objects(files, allow_patterns=allow_patterns):
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / file, target / file)
        target.mkdir(parents=True, exist_ok=True)
        return str(target)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    made = Hub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    monkeypatch.setattr(models, "go_online", lambda: None)
    return made


def tensors() -> bytes:
    header = json.dumps({"a": {"dtype": "F16", "shape": [3, 4], "data_offsets": [0, 24]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(24)


def test_a_whole_repository_is_fetched_at_its_revision_without_pickles_or_code(hub: Hub) -> None:
    """A document model of transformers: processor, templates and every shard; a pinned commit, not the newest."""
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    files: dict[str, str | bytes] = {
        "config.json": '{"model_type": "idefics3"}', "model.safetensors.index.json": json.dumps(index),
        "model-1-of-2.safetensors": tensors(), "model-2-of-2.safetensors": tensors(), "tokenizer.json": "{}",
        "preprocessor_config.json": "{}", "chat_template.jinja": "x", "modeling_x.py": "boom",
        "pytorch_model.bin": b"x",
    }  # fmt: skip
    hub.publish("org/vlm", "c0ffee", files)
    hub.publish("org/vlm", "main", {"config.json": '{"model_type": "newer"}'})
    model = models.fetch("org/vlm", "c0ffee")
    assert {path.name for path in model.folder.iterdir()} == set(files) - {"modeling_x.py", "pytorch_model.bin"}
    assert {revision for _, revision in hub.asked} == {"c0ffee"}
    assert model.parameters() == 24 and model.size() == 2 * len(tensors())
    with pytest.raises(models.ModelFileError, match="no weights in safetensors"):
        models.fetch("org/vlm")
    with pytest.raises(models.ModelFileError, match=r"^org/vlm was not fetched: 404.*more lines$"):
        models.fetch("org/vlm", "gone")
    (model.folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../../secret"}}')
    with pytest.raises(models.ModelFileError, match="no list of weights"):
        model.parameters()


def test_of_other_repositories_only_what_is_of_use_is_fetched(hub: Hub) -> None:
    ours = {"config.json": '{"vocabulary": "x"}', "model.safetensors": tensors(), "extra.json": "{}"}
    hub.publish("me/ours", "main", ours)
    adapter = {"adapter.json": "{}", "adapter.safetensors": tensors(), "README.md": "x"}
    hub.publish("me/adapter", "main", adapter)
    hub.publish(
        "timm/net", "main", {"config.json": '{"pretrained_cfg": {}}', "model.safetensors": tensors(), "x.bin": "x"}
    )
    hub.publish("me/else", "main", {"config.json": "[1]", "model.safetensors": tensors()})
    found = {name: models.fetch(name) for name in ("me/ours", "me/adapter", "timm/net")}
    assert {name: sorted(path.name for path in model.folder.iterdir()) for name, model in found.items()} == {
        "me/ours": ["config.json", "model.safetensors"],
        "me/adapter": ["adapter.json", "adapter.safetensors"],
        "timm/net": ["config.json", "model.safetensors"],
    }
    assert all(model.parameters() == 12 for model in found.values())
    with pytest.raises(models.ModelFileError, match="nothing known"):
        models.fetch("me/else")
    with pytest.raises(models.ModelFileError, match="no hub id"):
        models.fetch("../etc")
