"""A frozen model whose layers lie split over the processes that train a method's weights beside it.

A model that fits on one GPU is copied to each.  One that does not is split by FSDP: each process holds its share of
every layer and the layer is put together when it is run.  The embedding and the output layer stay whole on each, as
methods use them by themselves.  What learns is megabytes and is copied and averaged in either case (DDP).
"""

from __future__ import annotations

from typing import Any

import torch

from docvision.hf_vlm.adapter import describe
from docvision.hf_vlm.decoder import VlmError
from docvision.train import on_cpu


def split_base(accelerated: Any) -> None:
    """Split the layers of an accelerated model over all processes of this launch.

    Args:
        accelerated: loaded on the CPU by each process; what is not split goes to the process's own device.

    Raises:
        VlmError: there is one process alone.
    """
    from accelerate import PartialState
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    state = PartialState(cpu=on_cpu())
    if state.num_processes < 2:
        raise VlmError("run.shard=true splits the model over processes: accelerate launch --num_processes 2 or more")
    accelerated.described = describe(accelerated)  # while its numbers lie together
    model = accelerated.model
    mesh = init_device_mesh(state.device.type, (state.num_processes,))
    blocks = set(model._no_split_modules or ())
    layers = {id(layer) for layer in accelerated.core.decoder.stack.layers}
    for module in list(model.modules()):
        if id(module) in layers or type(module).__name__ in blocks:
            fully_shard(module, mesh=mesh)
    model.to(state.device)


def share_held(accelerated: Any) -> float:
    """Share of the model's numbers that this process holds."""
    held = whole = 0
    for weight in accelerated.model.parameters():
        whole += weight.numel()
        held += weight.to_local().numel() if hasattr(weight, "to_local") else weight.numel()
    return held / max(1, whole)


def meet() -> bool:
    """Wait for the other processes of a launch; whether this is the one that writes."""
    from accelerate import PartialState

    state = PartialState(cpu=on_cpu())
    state.wait_for_everyone()
    return bool(state.is_main_process)


def own_device() -> Any:
    """This process's own GPU where there is one: each process of a launch holds the model."""
    if not torch.cuda.is_available():
        return None
    from accelerate import PartialState

    return {"": PartialState().local_process_index}
