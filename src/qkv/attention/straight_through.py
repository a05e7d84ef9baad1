"""Straight-through attention: hard on the way forward, soft on the way back."""

from torch import Tensor

from qkv.attention.hard import noisy, one_hot
from qkv.attention.soft import Soft
from qkv.positions import Places, Sizes


class StraightThrough(Soft):
    """Bengio et al. 2013: forward, a query takes its best key; backward, the gradient is that of soft attention.

    With `sample`, it draws the key in training (straight-through Gumbel-softmax: Jang et al. 2017, section 2.2). The
    gradient is biased, but needs no reward and no baseline. Without draws it never tries another key than its best,
    and can stop at a poor one.
    """

    def __init__(self, sizes: Sizes, *, sample: bool = False, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.sample = sample

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        values = noisy(scores) if self.sample and self.training else scores
        weights = super().choose(values, q, at)
        return one_hot(values, scores).to(weights.dtype) + (weights - weights.detach())  # the bracket is exactly 0
