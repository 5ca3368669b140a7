"""Weights and training state on disk: safetensors and JSON, written whole or not at all, never pickled.

A model folder holds ``config.json``, ``model.safetensors`` and, if it has one, ``language.safetensors``.  A training
checkpoint holds these, the optimiser's tensors, and the position in the data, so that a resumed run gives the losses of
one never stopped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from docvision.hf_kind import HUB_ID

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
OPTIMISER = "optimizer.safetensors"
STATE = "state.json"
PACKAGED = Path(__file__).parent / "weights"


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, or made for another model."""


def find_model(name: str | Path) -> Path:
    """Folder of a model: a path, the name of a packaged one, or a Hugging Face hub id (``user/model``).

    A hub id is looked up in the local cache; the network is asked only where HF_HUB_OFFLINE=0 says so.

    Raises:
        CheckpointError: nothing of that name.
    """
    path = Path(name)
    if (path / CONFIG).is_file():
        return path
    if (PACKAGED / str(name) / CONFIG).is_file():
        return PACKAGED / str(name)
    if HUB_ID.fullmatch(str(name)) and not path.exists():
        return _from_hub(str(name))
    packaged = sorted(entry.parent.name for entry in PACKAGED.glob(f"*/{CONFIG}"))
    raise CheckpointError(
        f"no model {str(name)!r}: give a folder with {CONFIG} and {WEIGHTS}, a hub id user/model,"
        f" or one of {', '.join(packaged) or '(none packaged)'}"
    )


def _from_hub(repository: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as error:
        raise CheckpointError(f"{repository}: hub ids need pip install huggingface_hub") from error
    online = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("0", "no", "off", "false")
    try:
        return Path(snapshot_download(repository, allow_patterns=[CONFIG, WEIGHTS], local_files_only=not online))
    except LocalEntryNotFoundError as error:
        raise CheckpointError(
            f"{repository} is not in the local cache: docvision models fetch {repository} downloads it"
        ) from error
    except (HfHubHTTPError, RepositoryNotFoundError, OSError) as error:
        raise CheckpointError(f"{repository}: not in the local cache and not fetched from the hub: {error}") from error


def save_weights(module: nn.Module, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write a module's state dict, floating tensors as ``dtype`` where given."""
    tensors = {
        name: value.detach().to("cpu", dtype if dtype and value.is_floating_point() else value.dtype).contiguous()
        for name, value in module.state_dict().items()
    }
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def load_weights(
    module: nn.Module, folder: Path, fresh: str = "methods.", remedy: str = f"check {CONFIG}"
) -> list[str]:
    """Load strictly, but for ``methods.*``: a method's extra weights may be there or not on either side.

    Args:
        module: what is filled.
        folder: of a model or a checkpoint.
        fresh: start of the names that the file may lack: they stay as they are.
        remedy: what to do where the file does not fit.

    Returns:
        The names that the file lacks.

    Raises:
        CheckpointError: damaged file, or names and shapes that do not fit.
    """
    tensors = read_tensors(folder / WEIGHTS)
    own = module.state_dict()
    lacking = [name for name in own if name not in tensors]
    missing = [name for name in lacking if not name.startswith(("methods.", fresh))]
    extra = [name for name in tensors if name not in own and not name.startswith("methods.")]
    wrong = [name for name in own if name in tensors and tensors[name].shape != own[name].shape]
    if missing or extra or wrong:
        parts = ((missing, "missing"), (extra, "unknown"), (wrong, "of another shape"))
        told = "; ".join(f"{len(names)} {what} ({names[0]}, ...)" for names, what in parts if names)
        raise CheckpointError(f"{folder / WEIGHTS} does not fit this model: tensors {told}; {remedy}")
    module.load_state_dict({name: value for name, value in tensors.items() if name in own}, strict=False)
    return lacking


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file.

    Raises:
        CheckpointError: missing or damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error}): copy or download it again") from error


def write_folder(target: Path, write: Any) -> None:
    """Call ``write(folder)`` on a temporary sibling, then rename: ``target`` is there whole, or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        write(partial)
        if target.exists():
            old = target.with_name(f".{target.name}.old-{os.getpid()}")
            target.rename(old)
            partial.rename(target)
            shutil.rmtree(old)
        else:
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and step counts by parameter index, whole; where they lie split, all processes call this together."""
    return {
        f"{index}.{name}": whole(torch.as_tensor(value)).detach().cpu().contiguous()
        for index, slots in optimiser.state_dict()["state"].items()
        for name, value in slots.items()
    }


def save_optimiser(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Write what :func:`optimiser_tensors` gave; the state of torch's generator goes with it."""
    save_file({**tensors, "rng": torch.get_rng_state()}, folder / OPTIMISER)


def load_optimiser(optimiser: torch.optim.Optimizer, folder: Path) -> None:
    """Inverse of :func:`save_optimiser`, on any number of processes; also sets torch's generator."""
    tensors = read_tensors(folder / OPTIMISER)
    torch.set_rng_state(tensors.pop("rng"))
    state = optimiser.state_dict()
    state["state"] = {}
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    for name, value in tensors.items():
        index, slot = name.split(".", 1)
        if int(index) >= len(parameters):
            raise CheckpointError(
                f"{folder / OPTIMISER} was made for another model: more than {len(parameters)} parameters"
            )
        state["state"].setdefault(int(index), {})[slot] = split_like(value, parameters[int(index)])
    optimiser.load_state_dict(state)


def whole(value: Tensor) -> Tensor:
    """A tensor that lies split over processes put together, any other as it is; all of them call this."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def split_like(value: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor split over processes as a parameter is, if it is."""
    if value.dim() == 0 or not hasattr(parameter, "full_tensor"):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    (folder / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")


def read_state(folder: Path) -> dict[str, Any]:
    return json.loads((folder / STATE).read_text(encoding="utf-8"))


def checkpoints(run: Path) -> list[Path]:
    """Whole checkpoints of a run, oldest first; anything half-written has another name."""
    found = [entry for entry in run.glob("step-*") if (entry / STATE).is_file()]
    return sorted(found, key=lambda entry: int(entry.name.removeprefix("step-")))


def drop_old(run: Path, keep: int) -> None:
    """Delete all but the newest ``keep`` checkpoints of a run."""
    for folder in checkpoints(run)[:-keep]:
        shutil.rmtree(folder)
