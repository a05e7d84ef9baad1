"""Top-k attention: each query mixes its k best keys."""

import torch
from torch import Tensor

from qkv.attention.soft import Soft
from qkv.errors import InputError
from qkv.positions import Places, Sizes


class TopK(Soft):
    """Zhao et al. 2019 (Explicit Sparse Transformer): softmax over a query's k best scores, nothing for other keys.

    Differs: of equal scores the first ones count, so that there are never more than k. (tensor2tensor's hard attention
    takes the k-th largest weight off all weights, which leaves k - 1 keys.)
    """

    def __init__(self, sizes: Sizes, *, k: int = 8, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if k < 1:
            raise InputError(f"the best k={k} keys are none; give a k of at least 1")
        self.k = k

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        order = scores.argsort(dim=-1, descending=True, stable=True)
        others = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order[..., self.k :], True)
        return super().choose(scores.masked_fill(others, -torch.inf), q, at)
