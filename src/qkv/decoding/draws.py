"""The numbers that draws are made by, for each text its own, and what may be asked of draws."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qkv.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLDEST, HOTTEST = 1e-6, 1e6  # temperatures; float32 holds every log p divided by them
RowNumber = tuple[int, ...]  # which text it is, in numbers: with the seed, they say what is drawn for it


def uniform(seed: int, rows: Sequence[RowNumber], limits: Sequence[int]) -> "NDArray[np.float64]":
    """Numbers from 0 to 1 (B, T), for each row its own; a longer row begins with those of a shorter one."""
    import numpy as np  # not before something is drawn: it takes as long as all else of a short translation

    numbers = np.zeros((len(rows), max(limits)))
    for i, (row, limit) in enumerate(zip(rows, limits, strict=True)):
        numbers[i, :limit] = np.random.default_rng([seed, *row]).random(limit)
    return numbers


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    if not COLDEST <= temperature <= HOTTEST or top_k < 0 or not 0 < top_p <= 1:
        raise InputError(
            f"temperature={temperature}, top_k={top_k}, top_p={top_p}: give a temperature above 0 "
            f"(from {COLDEST:g} to {HOTTEST:g}), top_k of 0 (all) or more, top_p above 0 and up to 1"
        )
