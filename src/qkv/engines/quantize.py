"""What 8 bits need to know of a model, and whether what they write is what the model writes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from qkv.convert.native import blocks_of, products_of
from qkv.models import Model

SMOOTH = 0.75  # how much of the channels' differences goes into the weights: the paper's value for wide ones
LEAST = 1e-5  # of a channel


@torch.inference_mode()
def smoothing(model: Model, rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """What inputs (D) of a backbone's products are divided by in 8 bits, from their sizes when these texts are read.

    Xiao et al. 2023 (SmoothQuant), Eq. 4: s_j = max|x_j|^a / max|w_j|^(1 - a), so that x / s has no channel that is far
    wider than the others, and s W bears what it lost: in a pre-trained model some channels are.
    """
    widest: dict[str, Tensor] = {}
    hooks = [
        part.register_forward_pre_hook(watching(widest, f"{name}.{end}"))
        for name, block in blocks_of(model).items()
        for end, part in inputs_of(block).items()
    ]
    try:
        for row in rows:  # each by itself: padding has sizes, too
            model.encode(torch.tensor([row]))  # type: ignore[operator]
    finally:
        for hook in hooks:
            hook.remove()
    weights = {name: products_of(model)[name][0] for name in widest}
    return {
        name: most.clamp(min=LEAST) ** SMOOTH / weights[name].abs().amax(dim=0).clamp(min=LEAST) ** (1 - SMOOTH)
        for name, most in widest.items()
    }


def inputs_of(block: Any) -> dict[str, nn.Module]:
    """The modules that are given what a block's products are given."""
    ways = block.feed_forward
    return {"qkv": block.attention, "output": block.attention.output, "expand": ways.expand, "contract": ways.contract}


def watching(widest: dict[str, Tensor], name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    def watch(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        here = given[0].abs().flatten(0, -2).amax(dim=0)
        widest[name] = torch.maximum(here, widest.get(name, here))

    return watch


def tokens_agree(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """The share of tokens that stand at the same place in both."""
    pairs = list(zip(ours, theirs, strict=True))
    same = sum(a == b for one, other in pairs for a, b in zip(one, other, strict=False))
    return same / max(1, sum(max(len(one), len(other)) for one, other in pairs))
