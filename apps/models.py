"""The models on this machine: what they are, and whether their files are whole.

A model's hash is kept beside its weights in ``SHA256SUMS``, in the form of ``sha256sum -c``.  A model of the Hugging
Face hub has none; there the cache itself names each large file by its hash.  Headers of safetensors are read here
without torch, and nothing in them is believed before it fits the size of the file.

Fetched are models of docvision, document models of transformers (config, processor, all shards), backbones of timm and
adapters: safetensors and plain text, never pickles or code.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docvision
import imagegen
from apps.settings import go_online, hub_cache
from docvision.language import FILE as LANGUAGE

WEIGHTS, CONFIG, SUMS = "model.safetensors", "config.json", "SHA256SUMS"
INDEX, ADAPTER, ADAPTER_WEIGHTS = "model.safetensors.index.json", "adapter.json", "adapter.safetensors"
HARMLESS = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "*.md", SUMS)
"""What is fetched of a repository: tensors and text."""
MAX_HEADER = 100_000_000
"""Bytes; the safetensors format allows no more."""
BLOCK = 1 << 20


class ModelFileError(ValueError):
    """A file of a model that is missing or damaged."""


@dataclass(frozen=True)
class Model:
    """A folder with weights."""

    name: str
    folder: Path
    origin: str
    """``packaged``, ``cached`` or ``folder``."""

    @property
    def weights(self) -> Path:
        """The file with its tensors, or the first of several."""
        return self.shards()[0]

    def shards(self) -> list[Path]:
        """The files with its tensors: one, or those that a large model is cut into.

        Raises:
            ModelFileError: the list of these files is damaged.
        """
        index = self.folder / INDEX
        if (self.folder / WEIGHTS).exists() or not index.is_file():
            return [self.folder / (ADAPTER_WEIGHTS if (self.folder / ADAPTER).is_file() else WEIGHTS)]
        try:
            names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
            if not names or any(Path(name).name != name for name in names):
                raise ValueError("no names of files")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{index} is no list of weights: copy or fetch it again") from error
        return [self.folder / name for name in names]

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.shards())

    def parameters(self) -> int:
        """Numbers in all tensors.

        Raises:
            ModelFileError: the file is no safetensors file, or not all of it.
        """
        return sum(math.prod(shape) for path in self.shards() for shape in _shapes(path))


def packaged() -> list[Model]:
    """What comes with this installation."""
    found = []
    for package in (docvision, imagegen):
        root = Path(str(package.__file__)).parent / "weights"
        found += [
            Model(path.parent.relative_to(root).as_posix(), path.parent, "packaged")
            for path in sorted(root.rglob(WEIGHTS))
        ]
    return found


def cached() -> list[Model]:
    """Models of docvision among those that were fetched from the hub; of several revisions each."""
    found = []
    for path in sorted(hub_cache().glob(f"models--*/snapshots/*/{WEIGHTS}")):
        repository = path.parents[2].name.removeprefix("models--").replace("--", "/", 1)
        if _is_ours(path.with_name(CONFIG)):
            found.append(Model(f"{repository}@{path.parent.name[:8]}", path.parent, "cached"))
    return found


def find(name: str) -> Model:
    """A model by its name as listed, or by its folder.

    Raises:
        ModelFileError: there is none.
    """
    known = [*packaged(), *cached()]
    for model in known:
        if name in (model.name, model.name.partition("@")[0]):
            return model
    if Path(name, CONFIG).is_file() or Path(name, WEIGHTS).is_file():
        return Model(name, Path(name), "folder")
    raise ModelFileError(f"there is no model {name!r}: known are {', '.join(model.name for model in known)}")


def faults(model: Model) -> list[str]:
    """What is wrong with a model's files; nothing where all is well."""
    try:
        model.parameters()
    except ModelFileError as error:
        return [str(error)]
    wanted = dict(_wanted(model))
    if WEIGHTS not in wanted and model.weights.name not in wanted:
        return [f"{model.folder} keeps no hash of {WEIGHTS}: docvision models seal writes one"]
    found = []
    for name, digest in wanted.items():
        path = model.folder / name
        if not path.is_file():
            found.append(f"{path} is missing: install or fetch the model again")
        elif sha256(path) != digest:
            found.append(f"{path} is damaged: its SHA-256 is not the one kept beside it; install or fetch it again")
    return found


def seal(folder: Path) -> Path:
    """Write the hashes of a model's files beside them."""
    names = [name for name in (CONFIG, WEIGHTS, LANGUAGE) if (folder / name).is_file()]
    if WEIGHTS not in names:
        raise ModelFileError(f"{folder} holds no {WEIGHTS}: name the folder of a model")
    path = folder / SUMS
    path.write_text("".join(f"{sha256(folder / name)}  {name}\n" for name in names), "ascii")
    return path


def fetch(repository: str, revision: str | None = None) -> Model:
    """Download a model from the Hugging Face hub into its cache, the only thing here that asks the network.

    Args:
        repository: user/model.
        revision: branch, tag or commit; a commit stays what it is.

    Raises:
        ModelFileError: it is not there, or what is there is no model that can be used here.
    """
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", repository):
        raise ModelFileError(f"{repository!r} is no hub id such as user/model")
    go_online()
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ModelFileError(f"{error}; run: pip install 'docvision[hub]'") from None

    def download(patterns: Sequence[str]) -> Path:
        try:
            return Path(snapshot_download(repository, revision=revision, allow_patterns=list(patterns)))
        except (OSError, ValueError) as error:
            told = " ".join(str(error).split())[:200]
            raise ModelFileError(f"{repository} was not fetched: {told}") from error

    folder = download([CONFIG, ADAPTER])  # small files first: what is it?
    wanted = _files_of(folder)
    if not wanted:
        raise ModelFileError(
            f"{repository} is no model of docvision, transformers or timm, and no adapter: {CONFIG} says nothing known"
        )
    model = Model(repository, download(wanted), "cached")
    missing = [path.name for path in model.shards() if not path.is_file()]
    if missing:
        raise ModelFileError(f"{repository} has no weights in safetensors, which is all that is read: no {missing[0]}")
    return model


def _files_of(folder: Path) -> Sequence[str]:
    """What to fetch of a repository, told by its small files; nothing where it is of no use here."""
    if (folder / ADAPTER).is_file():
        return (ADAPTER, ADAPTER_WEIGHTS)
    config = _config(folder / CONFIG)
    if "vocabulary" in config:
        return (CONFIG, WEIGHTS, LANGUAGE, SUMS)
    if "model_type" in config:
        return HARMLESS
    return (CONFIG, WEIGHTS) if "pretrained_cfg" in config else ()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _wanted(model: Model) -> Iterator[tuple[str, str]]:
    """(file, hash) pairs that are kept for a model."""
    sums = model.folder / SUMS
    if sums.is_file():
        for line in sums.read_text("utf-8", "replace").splitlines():
            match = re.fullmatch(r"([0-9a-f]{64}) [ *]([\w.-]+)", line.strip())
            if match:
                yield match[2], match[1]
    elif model.origin == "cached":
        for path in model.shards():
            blob = path.resolve().name
            if re.fullmatch(r"[0-9a-f]{64}", blob):
                yield path.name, blob


def _shapes(path: Path) -> Iterator[list[int]]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MAX_HEADER, size - 8):
                raise ModelFileError(f"{path} is no safetensors file, or not all of it: copy it again")
            header = json.loads(file.read(length))
        tensors = [value for name, value in header.items() if name != "__metadata__"]
        end = max((int(tensor["data_offsets"][1]) for tensor in tensors), default=0)
        if size != 8 + length + end:
            raise ModelFileError(f"{path} has {size:,} bytes and should have {8 + length + end:,}: copy it again")
        yield from ([int(side) for side in tensor["shape"]] for tensor in tensors)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is no safetensors file: copy it again") from error


def _is_ours(config: Path) -> bool:
    return "vocabulary" in _config(config)


def _config(path: Path) -> dict[str, Any]:
    """A config as plain data; empty where there is none."""
    try:
        plain = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}
