"""A model whose weights, gradients and optimiser are shared out over the ranks: for one that no device can hold whole.

Rajbhandari et al. 2020 (ZeRO), stage 3, by torch's fully_shard: a block's weights are gathered when it is computed,
forwards and backwards, and its gradients are summed into the share of each rank.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from qkv.layers import Block

# torch's own modules for this take half a second to import: they are asked for when something is shared out.


def shard(model: nn.Module) -> None:
    """Keep of each tensor the share of this rank; the rest comes when it is needed, block by block."""
    from torch.distributed.fsdp import fully_shard

    for module in (*model.modules(),):
        if isinstance(module, Block):
            fully_shard(module)
    fully_shard(model)
    for part in parts(model):  # sums over ranks, and no means: what is asked for is counted over all of them
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)


def parts(model: nn.Module) -> list[Any]:
    """The modules that are shared out: the whole model first, then its blocks; none of a model that is not."""
    return [module for module in model.modules() if hasattr(module, "unshard")]


@contextmanager
def readable(model: nn.Module) -> Iterator[None]:
    """Within, the model may be asked by any of its methods, on all ranks alike; a whole model always may."""
    shared = parts(model)
    for part in shared[:1]:
        part.unshard()  # blocks do so by themselves
    try:
        yield
    finally:
        for part in shared:
            part.reshard()  # or the weights that were gathered would be taken for those after the next step


@torch.no_grad()
def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, of which each rank has a share; they all ask for it at once."""
    return tensor.full_tensor() if is_share(tensor) else tensor  # type: ignore[attr-defined]


def is_share(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


def gathered(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter, whole, under its first name; tied ones appear once."""
    return {name: whole(value.detach()).contiguous().cpu() for name, value in model.named_parameters()}


def shared_as(tensor: Tensor, other: Tensor | None) -> Tensor:
    """The share that this rank has of a whole tensor, if it has but a share of the other one, of the same shape."""
    if other is None or not is_share(other) or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    how: Any = other
    return distribute_tensor(tensor.to(other.device), how.device_mesh, how.placements, src_data_rank=None)
