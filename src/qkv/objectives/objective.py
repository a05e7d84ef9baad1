"""What training asks of an objective, whatever the task."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from qkv.data import Batch


@dataclass(frozen=True)
class Asked:
    """A question to a model: what it reads, what is right, and how many answers count."""

    inputs: dict[str, Any]  # the model is called with them: model(**inputs)
    labels: Any
    count: int  # the loss is divided by it
    parts: list["Asked"] = field(default_factory=list)  # of several objectives together, the question of each

    def to(self, device: torch.device | str) -> "Asked":
        inputs = {name: moved(value, device) for name, value in self.inputs.items()}
        return Asked(inputs, moved(self.labels, device), self.count, moved(self.parts, device))


def moved(value: Any, device: torch.device | str) -> Any:
    """Tensors, and tuples and lists of them, on the device; anything else as it is."""
    if isinstance(value, list | tuple):
        make = getattr(value, "_make", type(value))  # a named tuple takes its parts one by one
        return make(moved(part, device) for part in value)
    return value.to(device) if hasattr(value, "to") else value


@dataclass(frozen=True)
class Loss:
    """A loss summed over what was asked (tokens, documents), and sums of whatever else is worth knowing."""

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)


class Objective(Protocol):
    """Prepares a batch for a model and computes a loss from what the model gives; knows nothing of training."""

    def prepare(self, batch: Batch, rng: torch.Generator) -> Asked:
        """What the model is asked; whatever is drawn (masks, orders) is drawn from `rng`."""
        ...

    def loss(self, outputs: Any, asked: Asked) -> Loss: ...
