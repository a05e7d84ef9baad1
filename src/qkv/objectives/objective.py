"""What training asks of an objective, whatever the task."""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """A loss summed over what was asked (tokens, documents), what it is made of, and how many of them there were."""

    total: Tensor
    parts: dict[str, Tensor]
    tokens: int


class Objective(Protocol):
    """Prepares a batch for a model and computes a loss from what the model gives; knows nothing of training."""

    def prepare(self, batch: Any) -> tuple[tuple[Any, ...], Any]:
        """What the model reads, and what it is asked for: (inputs, labels)."""
        ...

    def count(self, labels: Any) -> int:
        """How many labels count: the loss is divided by it."""
        ...

    def loss(self, outputs: Any, labels: Any) -> Loss: ...
