"""A backbone as it reads many texts: its products by the fastest kernels, and none of them for padding."""

import copy
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from qkv.engines.blocks import MOSTLY, LeanEncoder, has_standard_parts, packed, padded
from qkv.engines.products import FASTEST, Make
from qkv.errors import InputError
from qkv.layers import Stack
from qkv.models import Backbone, Headed, Model
from qkv.positions import Places

M = TypeVar("M", bound=Model)


class LeanReader(nn.Module):
    """What a `Stack` gives for whole texts (B, T, D), at their real tokens; its blocks may compute in `precision`."""

    def __init__(self, name: str, stack: Stack, make: Make, activation: str, precision: torch.dtype) -> None:
        super().__init__()
        self.position, self.norm_inputs, self.precision = stack.position, stack.norm_inputs, precision
        stack = stack if precision == torch.float32 else copy.deepcopy(stack).to(precision)
        self.blocks, self.norm = LeanEncoder(name, stack, make, activation), stack.norm

    def forward(self, x: Tensor, at: Places, mask: Tensor | None, *_: Any) -> Tensor:
        """`mask` (B, 1, 1, T) has the real tokens, and what it leaves out is left out of the products; any other is
        looked through as it is."""
        x, shape, real = self.position.embed(x, at), list(x.shape[:2]), None
        if mask is not None and mask.shape == (shape[0], 1, 1, shape[1]) and mask.float().mean() < MOSTLY:
            real = mask.flatten().nonzero()[:, 0]
        x = self.norm_inputs(packed(x, real)).to(self.precision)  # (N, D)
        x = self.norm(self.blocks(x, shape, real, mask, at.causal and mask is None))
        return padded(x.float(), shape, real)


def can_read(model: Model) -> bool:
    """Whether a model's texts can be read in the lean form."""
    backbone = model.backbone if isinstance(model, Headed) else model
    return isinstance(backbone, Backbone) and any(stacks(backbone)) and has_standard_parts(backbone)


def stacks(backbone: nn.Module) -> dict[str, Stack]:
    return {name: part for name, part in backbone.named_children() if isinstance(part, Stack)}


def lean_reader(model: M, make: Make = FASTEST, precision: torch.dtype = torch.float32) -> M:
    """The same model, which shares all weights but those of its stacks, with these in the lean form."""
    if not can_read(model):
        raise InputError(
            "only a backbone with scaled dot products, no entities, and sinusoidal, learned or no positions has a lean "
            f"form, and this is a {type(model).__name__} ({model.sizes()}); use the engine plain"
        )
    lean = copy.copy(model)
    lean._modules = dict(model._modules)
    if isinstance(model, Headed):
        lean._modules["backbone"] = lean_reader(cast(Model, model.backbone), make, precision)
        return lean
    for name, stack in stacks(model).items():
        lean._modules[name] = LeanReader(name, stack, make, model.config.activation, precision)
    return lean
