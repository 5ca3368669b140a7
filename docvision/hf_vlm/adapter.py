"""A method's weights for one base model: on disk, on the hub, and back.

A folder holds ``adapter.safetensors``, ``adapter.json`` (method, options, what the base is) and ``README.md``, the card
that the hub shows.  The base is known by its shape and by a few of its numbers, whatever its folder is called, so an
adapter is never put on another model in silence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from docvision import methods
from docvision.checkpoint import CheckpointError, read_tensors, write_folder
from docvision.hf_vlm.decoder import VlmError
from docvision.hf_vlm.registers import GatedRegisters

WEIGHTS, DESCRIPTION, CARD = "adapter.safetensors", "adapter.json", "README.md"
PROBES = 32
PROBE_TOLERANCE = 0.02
"""Differences of the base's numbers, as a share of their spread, that another number format explains."""


def attach(accelerated: Any, method: str, options: dict[str, Any] | None = None) -> Any:
    """Give an accelerated model fresh weights of a method.

    Raises:
        VlmError: a method without weights, or options that it does not have.
    """
    core = accelerated.core
    options = dict(options or {})
    if method not in ("ptp", "pmtp"):
        raise VlmError(f"{method} has no weights to train: ptp or pmtp")
    if method in core.methods:
        raise VlmError(f"this model has weights for {method} already: load it anew for others")
    try:
        made = (
            GatedRegisters(core.decoder, **options)
            if method == "ptp"
            else methods.build("pmtp", core, {"image": False, **options})
        )
    except (TypeError, ValueError) as error:
        raise VlmError(f"{method} with {options}: {error}") from error
    core.methods[method] = made.to(core.device)
    core.config.methods[method] = options
    return made


def save_adapter(accelerated: Any, folder: str | Path, method: str = "") -> None:
    """Write the weights of a method.

    Args:
        accelerated: the model.
        folder: where to; replaced as a whole.
        method: which; empty for the one in use.

    Raises:
        VlmError: the model has no weights of that method.
    """
    method = method or accelerated.method
    if method not in accelerated.core.methods:
        raise VlmError(f"there are no weights of {method} to save")
    module = accelerated.core.methods[method]
    told = {
        "format": "docvision-adapter-1",
        "method": method,
        "options": accelerated.core.config.methods[method],
        "base": describe(accelerated),
    }
    tensors = {name: value.detach().float().cpu().contiguous() for name, value in module.state_dict().items()}

    def write(partial: Path) -> None:
        save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})
        (partial / DESCRIPTION).write_text(json.dumps(told, indent=1), encoding="utf-8")
        (partial / CARD).write_text(card(told, sum(value.numel() for value in tensors.values())), encoding="utf-8")

    write_folder(Path(folder), write)


def load_adapter(accelerated: Any, name: str | Path, revision: str | None = None) -> None:
    """Put trained weights of a method beside a model.

    Args:
        accelerated: the model.
        name: folder, or hub id of an adapter.
        revision: of the hub id.

    Raises:
        VlmError: no adapter there, a damaged one, or one of another base.
    """
    folder = Path(name)
    if not (folder / DESCRIPTION).is_file():
        folder = _from_hub(str(name), revision)
    try:
        told = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        method, options, base = told["method"], told["options"], told["base"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VlmError(f"{folder / DESCRIPTION} is no description of an adapter: {error!r}") from error
    check_base(accelerated, base, str(name))
    try:
        tensors = read_tensors(folder / WEIGHTS)
    except CheckpointError as error:
        raise VlmError(str(error)) from error
    module = attach(accelerated, method, options)
    own = module.state_dict()
    if own.keys() != tensors.keys() or any(own[key].shape != tensors[key].shape for key in own):
        raise VlmError(f"{folder / WEIGHTS} does not hold what {DESCRIPTION} says: copy or download it again")
    module.load_state_dict(tensors)
    module.to(accelerated.core.decoder.stack.dtype).requires_grad_(False).eval()


def describe(accelerated: Any) -> dict[str, Any]:
    """What the base model is: name, shape, and a few of its numbers."""
    if accelerated.described is not None:
        return accelerated.described
    config = accelerated.core.decoder.text_config
    return {
        "name": str(accelerated.model.config.name_or_path or type(accelerated.model).__name__),
        "architecture": type(accelerated.model).__name__,
        "shape": [accelerated.core.decoder.embedding.num_embeddings, config.hidden_size, config.num_hidden_layers],
        "probe": probe(accelerated),
    }


def probe(accelerated: Any) -> list[float]:
    """Numbers spread over the embedding and over the last layer's largest matrix."""
    stack = accelerated.core.decoder.stack
    last = max(stack.layers[-1].parameters(), key=lambda weight: weight.numel())
    found: list[float] = []
    for weight in (stack.get_input_embeddings().weight, last):
        flat = weight.detach().flatten()
        places = torch.linspace(0, len(flat) - 1, PROBES, dtype=torch.float64).long()
        found += flat[places.to(flat.device)].float().tolist()
    return found


def check_base(accelerated: Any, base: dict[str, Any], name: str) -> None:
    """Raises VlmError unless the adapter was made for this model."""
    own = describe(accelerated)
    what = f"the adapter {name} was made for {base.get('name')} ({base.get('architecture')})"
    for part, word in (("architecture", "a"), ("shape", "vocabulary, width and layers")):
        if own[part] != base.get(part):
            raise VlmError(f"{what}: this is {word} {own[part]}, not {base.get(part)}")
    theirs, ours = torch.tensor(base.get("probe") or [0.0]), torch.tensor(own["probe"])
    if theirs.shape != ours.shape or bool(((theirs - ours).abs() > PROBE_TOLERANCE * ours.std()).any()):
        raise VlmError(f"{what}: this model has its shape and other weights; load that base, or train an adapter anew")


def card(told: dict[str, Any], parameters: int) -> str:
    """README.md with the header that the hub reads."""
    base, method = told["base"], told["method"]
    header = ["---", "library_name: docvision", "tags: [docvision, multi-token-prediction, document-parsing]"]
    if "/" in base["name"] and not Path(base["name"]).exists():
        header.append(f"base_model: {base['name']}")
    return "\n".join(
        [
            *header,
            "---",
            "",
            f"# {method.upper()} drafts for {base['name']}",
            "",
            f"{parameters / 1e6:.2f} M parameters beside a frozen {base['architecture']}. They propose tokens, the",
            "model checks them: its answers stay what they are, and come in fewer forward passes.",
            "",
            "```python",
            "import docvision",
            "",
            f'model = docvision.accelerate("{base["name"]}", method="{method}", adapter="THIS_REPOSITORY")',
            "ids = model.generate(**inputs, max_new_tokens=1024)",
            "```",
            "",
            f"Options: `{json.dumps(told['options'])}`",
            "",
        ]
    )


def push_adapter(accelerated: Any, repository: str, private: bool = True, method: str = "") -> str:
    """Upload the weights of a method to the hub, with the token of this machine's login.

    Returns:
        The address of the commit.

    Raises:
        VlmError: nothing to upload, or the hub refused it.
    """
    import tempfile

    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise VlmError("uploading needs pip install 'docvision[hub]'") from error
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "adapter"
        save_adapter(accelerated, folder, method)
        try:
            api = HfApi()
            api.create_repo(repository, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=repository, folder_path=folder))
        except (HfHubHTTPError, OSError, ValueError) as error:
            raise VlmError(f"{repository} was not uploaded: {str(error).splitlines()[0]}") from error


def _from_hub(name: str, revision: str | None) -> Path:
    if name.count("/") != 1 or Path(name).exists():
        raise VlmError(f"there is no adapter {name!r}: give a folder with {DESCRIPTION}, or a hub id")
    try:
        from huggingface_hub import snapshot_download

        found = snapshot_download(name, revision=revision, allow_patterns=[WEIGHTS, DESCRIPTION])
    except Exception as error:  # the hub's client has no one family of errors
        raise VlmError(f"the adapter {name} was not found on the hub: {str(error).splitlines()[0][:200]}") from error
    return Path(found)
