"""Score functions: how well a key answers a query; chosen by the names in SCORES."""

import math

import torch
from torch import Tensor, nn

from qkv.positions import Places, Sizes


class Score(nn.Module):
    """e(q, k) for every query with every key: q (B, H, T, K), k (B, H, S, K) -> (B, H, T, S)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        raise NotImplementedError


class Dot(Score):
    """Luong et al. 2015, "dot": e = q . k."""

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return q @ k.transpose(-1, -2)


class ScaledDot(Score):
    """Vaswani et al. 2017, Eq. 1: e = q . k / sqrt(d_k), so that the variance of e does not grow with d_k."""

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))


class General(Score):
    """Luong et al. 2015, "general": e = q^T W k, a matrix for each head."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        width = sizes.head_width
        self.weight = nn.Parameter(torch.empty(sizes.n_heads, width, width))
        nn.init.normal_(self.weight, std=1 / width)  # q^T W k then has the variance of one product of q and k

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return (q @ self.weight) @ k.transpose(-1, -2)


SCORES: dict[str, type[Score]] = {
    "scaled_dot": ScaledDot,
    "dot": Dot,
    "general": General,
}
