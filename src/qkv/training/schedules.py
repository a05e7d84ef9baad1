"""How the learning rate moves. Each schedule is a function of the step and of the share of the run that is done."""

import math
from collections.abc import Callable

Schedule = Callable[[int, float], float]  # (step from 1, progress 0..1) -> factor of the learning rate


def noam(*, d_model: int = 512, warmup: int = 4000) -> Schedule:
    """Vaswani et al. 2017, Eq. 3: d_model^-0.5 * min(step^-0.5, step * warmup^-1.5); use with learning_rate = 1."""

    def factor(step: int, progress: float) -> float:
        step = max(step, 1)
        return d_model**-0.5 * float(min(step**-0.5, step * warmup**-1.5))

    return factor


def inverse_square_root(*, warmup: int = 4000) -> Schedule:
    """Linear warm-up to the learning rate, then its decay by sqrt(warmup / step) (fairseq's form of Eq. 3)."""

    def factor(step: int, progress: float) -> float:
        step = max(step, 1)
        return min(step / warmup, math.sqrt(warmup / step))

    return factor


def linear(*, warmup: int = 400, floor: float = 0.0) -> Schedule:
    """Linear warm-up, then a straight line to `floor` at the end of the run (BERT); needs a run with an end."""

    def factor(step: int, progress: float) -> float:
        return min(max(step, 1) / warmup, 1.0) * max(floor, 1 - progress)

    return factor


def cosine(*, warmup: int = 400, floor: float = 0.0) -> Schedule:
    """Linear warm-up, then half a cosine wave to `floor` at the end of the run (GPT); needs a run with an end."""

    def factor(step: int, progress: float) -> float:
        wave = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        return min(max(step, 1) / warmup, 1.0) * max(floor, wave)

    return factor


def constant(*, warmup: int = 1) -> Schedule:
    """Linear warm-up, then the learning rate as it is."""
    return lambda step, progress: min(max(step, 1) / warmup, 1.0)


SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "noam": noam,
    "inverse_square_root": inverse_square_root,
    "linear": linear,
    "cosine": cosine,
    "constant": constant,
}
