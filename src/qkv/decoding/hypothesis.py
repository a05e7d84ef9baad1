"""What every search returns, and what every search has in common."""

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 64  # tokens of the vocabulary whose largest probability is found first


@dataclass(frozen=True)
class Hypothesis:
    """One way to go on from what is given."""

    tokens: list[int]  # without what they go on from, and without </s>
    score: float  # by which hypotheses are ranked: log_probability / length penalty
    log_probability: float  # of all tokens and of the end, if there is one
    ended: bool  # False if the limit was reached: the end was forced, or there is none


def length_penalty(length: int, alpha: float) -> float:
    """Wu et al. 2016, Eq. 14, with the constants of Vaswani et al. 2017: ((5 + length) / 6)^alpha."""
    return float(((5 + length) / 6) ** alpha)


def best(log_p: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row of log p (N, V), largest first, and their tokens: both (N, k).

    As `topk` finds them, faster for many rows: they stand in the k blocks whose own largest is largest.
    """
    N, V = log_p.shape
    whole = V // BLOCK
    if N < 4 or whole <= 2 * k:
        return _top(log_p, min(k, V))
    blocks = log_p[:, : whole * BLOCK].view(N, whole, BLOCK)
    _, chosen = _top(blocks.amax(dim=2), k)  # (N, k)
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)  # (N, k * BLOCK)
    values, index = _top(torch.cat((inside, log_p[:, whole * BLOCK :]), dim=1), k)
    rest = index - k * BLOCK  # what stands after the last whole block
    tokens = chosen.gather(1, (index // BLOCK).clamp(max=k - 1)) * BLOCK + index % BLOCK
    return values, torch.where(rest >= 0, whole * BLOCK + rest, tokens)


def _top(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """topk; of one it is the maximum, which is faster and the first of equals."""
    largest, index = values.max(dim=1, keepdim=True) if k == 1 else values.topk(k, dim=1)
    return largest, index
