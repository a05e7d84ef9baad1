"""How the learning rate moves. Each schedule is a function of the step and of the share of the run that is done."""

import math
from collections.abc import Callable

from qkv.errors import InputError

Schedule = Callable[[int, float], float]  # (step from 1, progress 0..1) -> factor of the learning rate


def warm(step: int, warmup: int) -> float:
    """A straight line from 0 to 1 over the first `warmup` steps; at once 1 if there are none."""
    return min(max(step, 1) / max(warmup, 1), 1.0)


def noam(*, d_model: int = 512, warmup: int = 4000) -> Schedule:
    """Vaswani et al. 2017, Eq. 3: d_model^-0.5 * min(step^-0.5, step * warmup^-1.5); use with learning_rate = 1."""
    if d_model < 1:
        raise InputError(f"noam needs a d_model of at least 1, not {d_model}")
    rise = math.sqrt(max(warmup, 1)) ** 3
    return lambda step, _: math.sqrt(1 / d_model) * min(math.sqrt(1 / max(step, 1)), max(step, 1) / rise)


def inverse_square_root(*, warmup: int = 4000) -> Schedule:
    """Linear warm-up to the learning rate, then its decay by sqrt(warmup / step) (fairseq's form of Eq. 3)."""
    warmup = max(warmup, 1)
    return lambda step, _: min(max(step, 1) / warmup, math.sqrt(warmup / max(step, 1)))


def linear(*, warmup: int = 400, floor: float = 0.0) -> Schedule:
    """Linear warm-up times a straight line to `floor` at the end of the run; needs a run with an end. As in GPT's code,
    the line falls while it warms up, too; BERT's begins behind, which differs by warmup / steps at most."""
    return lambda step, progress: warm(step, warmup) * max(floor, 1 - progress)


def cosine(*, warmup: int = 400, floor: float = 0.0) -> Schedule:
    """Linear warm-up, then half a cosine wave to `floor` at the end of the run (GPT); needs a run with an end."""
    return lambda step, progress: warm(step, warmup) * max(floor, 0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))


def polynomial(*, warmup: int = 400, power: float = 1.0, floor: float = 0.0) -> Schedule:
    """Linear warm-up, then (1 - progress)^power of the way to `floor` (RoBERTa, power 1); needs a run with an end."""
    if not power > 0:
        raise InputError(f"polynomial needs a power above 0, not {power}")

    def factor(step: int, progress: float) -> float:
        return warm(step, warmup) * (floor + (1 - floor) * (1 - min(progress, 1.0)) ** power)

    return factor


def constant(*, warmup: int = 1) -> Schedule:
    """Linear warm-up, then the learning rate as it is."""
    return lambda step, _: warm(step, warmup)


def slanted_triangle(*, cut: float = 0.1, ratio: float = 32.0) -> Schedule:
    """Howard & Ruder 2018 (ULMFiT), Eq. 3: up for the share `cut` of the run, then down to 1 / `ratio` at its end."""
    if not (0 < cut < 1 and ratio >= 1):
        raise InputError(f"slanted_triangle needs a cut between 0 and 1, a ratio of 1 or more, not {cut}, {ratio}")

    def factor(step: int, progress: float) -> float:
        height = progress / cut if progress < cut else (1 - min(progress, 1.0)) / (1 - cut)
        return (1 + height * (ratio - 1)) / ratio

    return factor


SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "noam": noam,
    "inverse_square_root": inverse_square_root,
    "linear": linear,
    "cosine": cosine,
    "polynomial": polynomial,
    "constant": constant,
    "slanted_triangle": slanted_triangle,
}
