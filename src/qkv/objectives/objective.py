"""What training asks of an objective, whatever the task."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from qkv.data import Batch
from qkv.text.tokenizer import Tokenizer

Given = Mapping[str, Any]  # by which a model is called: model(**inputs)
NOTHING: Given = MappingProxyType({})


@dataclass(frozen=True)
class Asked:
    """A question to a model: what it reads, what is right, and how many answers count."""

    inputs: dict[str, Any]
    labels: Any
    count: int  # the loss is divided by it
    parts: list["Asked"] = field(default_factory=list)  # of several objectives together, the question of each
    chosen: int = 0  # of several of which one is asked: its number
    beside: dict[str, Any] = field(default_factory=dict)  # what other objectives of a sum may read, and no model does
    read: int = 0  # tokens, where more are read than asked for: speed is counted in them

    def to(self, device: torch.device | str) -> "Asked":
        """Without `beside`, which has done its work."""
        inputs = {name: moved(value, device) for name, value in self.inputs.items()}
        labels, parts = moved(self.labels, device), moved(self.parts, device)
        return replace(self, inputs=inputs, labels=labels, parts=parts, beside={})


def moved(value: Any, device: torch.device | str) -> Any:
    """Tensors, and tuples and lists of them, on the device; anything else as it is."""
    if isinstance(value, list | tuple):
        make = getattr(value, "_make", type(value))  # a named tuple takes its parts one by one
        return make(moved(part, device) for part in value)
    return value.to(device) if hasattr(value, "to") else value


@dataclass(frozen=True)
class Loss:
    """A loss summed over what was asked (tokens, documents), and sums of whatever else is worth knowing.

    A figure is a sum divided by what it counts: by the count of the question, unless `counts` names another.
    """

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Objective(Protocol):
    """Prepares a batch for a model and computes a loss from what the model gives; knows nothing of training."""

    @property
    def turn(self) -> int:
        """When it prepares a batch beside others: 0, it makes texts of it; 1, it reads them; 2, it hides words; 3, it
        asks about what is hidden."""
        ...

    @property
    def passages(self) -> bool:
        """Whether its rows must be passages: sentences of a document, and marks of their tokens (passages.py)."""
        ...

    @property
    def heads(self) -> Mapping[str, str]:
        """The heads that must stand on a backbone for it, by name, where they follow from the objective alone."""
        ...

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "Objective":
        """The same for the ids of a vocabulary, and for a model that reads inputs of these names."""
        ...

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """What the model is asked; whatever is drawn (masks, orders) is drawn from `rng`.

        `inputs` is what other objectives of a sum have made of the batch before: what it reads is then read again.
        """
        ...

    def loss(self, outputs: Any, asked: Asked) -> Loss: ...

    def measured(self, measure: "Measure") -> dict[str, float]:
        """Its figures, by what measures one objective on everything."""
        ...

    def check(self, documents: int, marks: int) -> None:
        """Refuse passages of so many documents, with any of these marks, of which it cannot be asked."""
        ...


Measure = Callable[[Objective], dict[str, float]]


class Usual:
    """What most objectives say: they make their texts of a batch, need no head but the task's, and ask of any ids."""

    turn = 0
    passages = False
    heads: ClassVar[Mapping[str, str]] = NOTHING

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> Self:
        return self

    def measured(self: Objective, measure: Measure) -> dict[str, float]:
        return measure(self)

    def check(self, documents: int, marks: int) -> None:
        pass
