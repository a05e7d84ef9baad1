"""Which parameters learn, and how fast: freezing, rates by layer, gradual unfreezing, weight decay."""

from collections.abc import Container
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from qkv.errors import InputError
from qkv.layers import Embedding, Projection, Stack
from qkv.positions import Position
from qkv.training.settings import TrainingConfig

TABLES = Embedding | nn.Embedding | Projection | Position  # of tokens and of positions


def freeze(model: nn.Module, patterns: str) -> None:
    """Let the parameters whose names match stay as they are: "backbone", "encoder.blocks.0, source", "*.norm.*"."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in filter(None, (one.strip() for one in patterns.split(","))):
        frozen = [name for name in names if fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")]
        if not frozen:
            known = ", ".join(dict.fromkeys(name.partition(".")[0] for name in names))
            raise InputError(f"training.freeze names {pattern!r}, but no parameter is called so; begin with: {known}")
        for name in frozen:
            model.get_parameter(name).requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"training.freeze = {patterns!r} leaves nothing to learn; freeze less")


def layers(model: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters from below: tables of tokens and positions, each block, and what stands on them."""
    tables = nn.ModuleList(module for module in model.modules() if isinstance(module, TABLES))
    blocks = [block for module in model.modules() if isinstance(module, Stack) for block in module.blocks]
    found, seen = list[list[nn.Parameter]](), set[int]()
    for part in (tables, *blocks, model):
        found.append([p for p in part.parameters() if id(p) not in seen])
        seen |= set(map(id, found[-1]))
    return [layer for layer in found if layer]


def parameter_groups(model: nn.Module, c: TrainingConfig, apart: Container[int] = ()) -> list[dict[str, Any]]:
    """All parameters, parted by what they have in common: the factor of their learning rate, their weight decay, and
    whether their ids are `apart`: these come first. Their order is the model's own in each group.

    Howard & Ruder 2018, section 3.2: the rate of a layer is that of the layer above it times `layer_decay`.
    """
    from_above = enumerate(reversed(layers(model)))
    factor = {id(parameter): c.layer_decay**depth for depth, layer in from_above for parameter in layer}
    groups: dict[Any, dict[str, Any]] = {}
    for parameter in model.parameters():
        decay = c.weight_decay if parameter.ndim > 1 or c.decay == "all" else 0.0
        key = id(parameter) in apart, factor[id(parameter)], decay
        groups.setdefault(key, {"params": [], "factor": key[1], "weight_decay": decay, "apart": key[0]})
        groups[key]["params"].append(parameter)
    return sorted(groups.values(), key=lambda group: not group["apart"])


class Unfreezing:
    """Howard & Ruder 2018, section 3.3, gradual unfreezing: the top layer learns first, and every `epochs` one more."""

    def __init__(self, model: nn.Module, epochs: float) -> None:
        self.epochs, self.awake = epochs, 0
        self.layers = [[p for p in layer if p.requires_grad] for layer in layers(model)] if epochs else []

    def at(self, epoch: float) -> None:
        """Let as many layers learn as should by now."""
        awake = 1 + int(epoch / self.epochs) if self.epochs else 0
        if awake == self.awake:
            return
        self.awake = awake
        for depth, layer in enumerate(reversed(self.layers)):
            for parameter in layer:
                parameter.requires_grad_(depth < awake)
