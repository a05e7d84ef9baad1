"""Sampling: the next token is drawn, for each text from numbers of its own."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.decoding.constraints import Constraints
from qkv.decoding.draws import RowNumber, check_sampling, uniform
from qkv.decoding.greedy import Choose, collected, one_by_one
from qkv.decoding.hypothesis import Ends, Hypothesis
from qkv.models import Writes


def sample(
    model: Writes, given: Tensor, limits: Sequence[int],
    *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
    seed: int = 0, rows: Sequence[RowNumber] | None = None,
    no_repeat: int = 0, ends: Ends = "forced",
) -> list[Hypothesis]:  # fmt: skip
    """Draw each token from softmax(logits / temperature), cut to the `top_k` best and to the nucleus `top_p`.

    Nucleus (Holtzman et al. 2020): the fewest tokens whose probabilities sum to at least top_p. What is drawn for a
    text depends on the seed and on its own entry of `rows` (its place, unless given), and not on the texts beside it.
    """
    draw = drawing(temperature, top_k, top_p, uniform(seed, rows or [(i,) for i in range(len(limits))], limits))
    return collected(one_by_one(model, given, Constraints(limits, no_repeat, ends), draw))


def drawing(temperature: float, top_k: int, top_p: float, numbers: NDArray[Any]) -> Choose:
    """The token at which the sum of the probabilities passes the row's next number (B, T)."""
    check_sampling(temperature, top_k, top_p)
    drawn = torch.from_numpy(numbers)

    def draw(log_p: Tensor, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
        sums = narrow(log_p / temperature, top_k, top_p).double().cumsum(dim=1)  # (n, V)
        number = drawn[rows, length, None].to(sums.device) * sums[:, -1:]
        chosen = torch.searchsorted(sums, number, right=True)
        # Rounding must not draw what is beyond the last token that may be drawn: there the sums stand still.
        chosen = torch.minimum(chosen, torch.searchsorted(sums, sums[:, -1:].contiguous()))
        return log_p.gather(1, chosen), chosen

    return draw


def narrow(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Probabilities (N, V) with all but the allowed tokens at 0, summing to 1."""
    p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    before = p.cumsum(dim=-1) - p  # what the better tokens sum to
    p = p.masked_fill(before >= top_p, 0)
    if top_k:
        p[:, top_k:] = 0
    return torch.zeros_like(p).scatter_(1, order, p / p.sum(dim=-1, keepdim=True))
