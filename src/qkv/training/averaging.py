"""Averages of weights: running along with training, or of the last n validations."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from qkv.errors import InputError

Weights = dict[str, Tensor]


class NoAverage:
    """The weights as they are.

    An average sees them after each step and at each validation; what it holds goes into checkpoints.
    """

    def after_step(self, model: nn.Module) -> None:
        pass

    def at_validation(self, model: nn.Module) -> None:
        pass

    def weights(self, model: nn.Module) -> Weights:
        return current(model)

    def tensors(self) -> Weights:
        return {}

    def restore(self, tensors: Weights) -> None:
        pass


class RunningAverage(NoAverage):
    """a <- decay * a + (1 - decay) * w after each step; the decay grows from 0.1: the first weights fade soon."""

    def __init__(self, *, decay: float = 0.998) -> None:
        if not 0 <= decay < 1:
            raise InputError(f"the decay of a running average must be at least 0 and below 1, not {decay}")
        self.decay, self.steps = decay, 0
        self.average: Weights = {}

    def after_step(self, model: nn.Module) -> None:
        now = current(model)
        if not self.average:
            self.average = {name: value.clone() for name, value in now.items()}
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        own = [self.average[name] for name in now]  # in the model's order: a checkpoint gives them back in another
        torch._foreach_lerp_(own, list(now.values()), 1 - decay)

    def weights(self, model: nn.Module) -> Weights:
        return self.average or current(model)

    def tensors(self) -> Weights:
        return {"steps": torch.tensor(self.steps), **{f"running.{name}": value for name, value in self.average.items()}}

    def restore(self, tensors: Weights) -> None:
        self.steps = int(tensors["steps"])
        self.average = {n.removeprefix("running."): t for n, t in tensors.items() if n.startswith("running.")}


class LastAverage(NoAverage):
    """Vaswani et al. 2017, section 6.1: the mean of the last n checkpoints, here of the last n validations."""

    def __init__(self, *, n: int = 5) -> None:
        if n < 1:
            raise InputError(f"an average of the last n checkpoints needs n of at least 1, not {n}")
        self.n = n
        self.kept: list[Weights] = []

    def at_validation(self, model: nn.Module) -> None:
        self.kept = [*self.kept, {name: value.clone() for name, value in current(model).items()}][-self.n :]

    def weights(self, model: nn.Module) -> Weights:
        return mean(self.kept) if self.kept else current(model)

    def tensors(self) -> Weights:
        return {f"{i}.{name}": value for i, kept in enumerate(self.kept) for name, value in kept.items()}

    def restore(self, tensors: Weights) -> None:
        self.kept = []
        for key, value in tensors.items():
            i, name = key.split(".", 1)
            self.kept += [{} for _ in range(int(i) + 1 - len(self.kept))]
            self.kept[int(i)][name] = value


AVERAGES: dict[str, Callable[..., NoAverage]] = {"running": RunningAverage, "last": LastAverage, "none": NoAverage}


def current(model: nn.Module) -> Weights:
    return {name: value.detach() for name, value in model.named_parameters()}


def mean(several: Sequence[Weights], names: Sequence[Path] = ()) -> Weights:
    """The mean of several sets of weights, summed in float64."""
    if not several:
        raise InputError("nothing to average; name at least one model folder")
    shapes = [{name: value.shape for name, value in weights.items()} for weights in several]
    for i, other in enumerate(shapes):
        if other != shapes[0]:
            raise InputError(f"{names[i]} does not have the weights of {names[0]}; average folders of one model only")
    alike = {name: [weights[name] for weights in several] for name in shapes[0]}
    return {n: torch.stack([w.double() for w in same]).mean(dim=0).to(same[0].dtype) for n, same in alike.items()}


@contextmanager
def averaged(model: nn.Module, weights: Weights) -> Iterator[None]:
    """Within, the model has these weights (of those that are given); afterwards its own again, bit for bit."""
    now = current(model)
    own = {name: value.clone() for name, value in now.items()}
    try:
        for name, value in weights.items():
            now[name].copy_(value)
        yield
    finally:
        for name, value in own.items():
            now[name].copy_(value)
