"""Several optimisers for one model, each for the parameters of some names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from qkv.config import parse_call
from qkv.errors import InputError, nearest

Optimizer = Literal["adamw", "adam", "muon", "adamax", "adagrad", "asgd", "sgd"]


@dataclass(frozen=True)
class Group:
    """'backbone.tokens: asgd(rate=1e-4, after=4)': parameters by the beginnings of their names, the optimiser that
    moves them, its highest learning rate, and the epochs before they begin to learn (SiATL's sequential unfreezing)."""

    names: str
    optimizer: Any
    rate: float
    after: float

    @classmethod
    def read(cls, text: str) -> "Group":
        names, _, call = text.partition(":")
        name, options = parse_call(call.strip()) if call.strip() else ("", {})
        rate, after = options.pop("rate", None), options.pop("after", 0)
        is_good = isinstance(rate, int | float) and rate > 0 and isinstance(after, int | float) and after >= 0
        if not names.strip() or options or not is_good:
            raise InputError(
                f"{text!r} is no group of parameters; write names: optimizer(rate=0.01), and perhaps after=1, in epochs"
            )
        if name not in get_args(Optimizer):
            raise InputError(f"unknown optimizer {name!r} in {text!r}; {nearest(name, get_args(Optimizer))}")
        return cls(names.strip(), name, float(rate), float(after))


def matches(name: str, pattern: str) -> bool:
    """Whether a parameter is called so, or is a part of what is: "backbone", "encoder.blocks.0", "*.norm.*"."""
    return fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")


def parted(model: nn.Module, groups: Sequence[Group]) -> list[list[nn.Parameter]]:
    """The parameters of each group: of several that name one, the first has it; what learns must be in one of them."""
    found: list[list[nn.Parameter]] = [[] for _ in groups]
    for name, parameter in model.named_parameters() if groups else ():
        own = (i for i, group in enumerate(groups) if any(matches(name, p.strip()) for p in group.names.split(",")))
        if (number := next(own, None)) is not None:
            found[number].append(parameter)
        elif parameter.requires_grad:
            raise InputError(f"training.groups names no group for {name}; add one, or freeze it with training.freeze")
    for group, some in zip(groups, found, strict=True):
        if not some:
            raise InputError(f"training.groups leaves no parameter for {group.names!r}; correct it, or leave it out")
    return found


class Optimizers:
    """As one optimiser: the states of their parameters are numbered one behind the other."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.optimizers = list(optimizers)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for one in self.optimizers for group in one.param_groups]

    def step(self) -> None:
        for one in self.optimizers:
            one.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for one in self.optimizers:
            one.zero_grad(set_to_none)

    def numbered(self) -> Iterator[tuple[int, int, torch.optim.Optimizer]]:
        """Each with the number of its first parameter, and of the one after its last."""
        first = 0
        for one in self.optimizers:
            count = sum(len(group["params"]) for group in one.param_groups)
            yield first, first + count, one
            first += count

    def state_dict(self) -> dict[str, Any]:
        found = {first + i: s for first, _, one in self.numbered() for i, s in one.state_dict()["state"].items()}
        return {"state": found}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        for first, end, one in self.numbered():
            own = {i - first: state for i, state in saved["state"].items() if first <= i < end}
            one.load_state_dict({**one.state_dict(), "state": own})


def each(optimizer: "torch.optim.Optimizer | Optimizers") -> list[torch.optim.Optimizer]:
    return optimizer.optimizers if isinstance(optimizer, Optimizers) else [optimizer]


def parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
