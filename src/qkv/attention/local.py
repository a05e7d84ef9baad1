"""Local attention: each query looks at a few keys around one place."""

import torch
from torch import Tensor

from qkv.attention.scores import draw
from qkv.attention.soft import Soft
from qkv.errors import InputError
from qkv.positions import Places, Sizes


def check_radius(radius: int) -> int:
    if radius < 1:
        raise InputError(f"a window with radius={radius} has no neighbours in it; give a radius of at least 1")
    return radius


class LocalM(Soft):
    """Luong et al. 2015, section 3.2, local-m: the query at place t sees the keys from t - radius to t + radius.

    The paper's window is for a source and a target that run side by side: a query that stands more than `radius`
    places beyond the last key sees nothing.
    """

    def __init__(self, sizes: Sizes, *, radius: int = 10, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)

    def region(self, at: Places) -> Tensor:
        return at.distance.abs() <= self.radius  # (T, S) or (B, 1, T, S)


class LocalP(Soft):
    """Luong et al. 2015, section 3.2, Eq. 9 and 10, local-p: each query predicts the place p_t around which it looks.

    p_t = S sigmoid(v^T tanh(W q)), and a(s) = align(q, k_s) exp(-(s - p_t)^2 / (2 sigma^2)) with sigma = radius / 2,
    where align is a softmax over the keys within `radius` of p_t. W and v are for each head; they learn through the
    Gaussian alone, which is not normalised. S is the number of keys that the query may see: neither padding nor
    neighbours nor decoding token by token change it.
    """

    def __init__(self, sizes: Sizes, *, radius: int = 10, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)
        self.weight, self.v = (draw(sizes.n_heads, sizes.head_width, columns) for columns in (sizes.head_width, 1))

    def place(self, scores: Tensor, q: Tensor) -> Tensor:
        """p_t, a real number for each query: (B, H, T, 1)."""
        chosen = torch.tanh(q @ self.weight) @ self.v  # (B, H, T, 1)
        wide = chosen.to(torch.promote_types(chosen.dtype, torch.float32))  # bfloat16 cannot tell place 300 from 301
        return (scores > -torch.inf).sum(dim=-1, keepdim=True) * wide.sigmoid()

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        key = at.key if at.key.dim() == 1 else at.key[:, None, None]
        away = key - self.place(scores, q)  # (B, H, T, S)
        align = super().choose(scores.masked_fill(away.abs() > self.radius, -torch.inf), q, at)
        return align * torch.exp(-2 * (away / self.radius) ** 2)  # 1 / (2 sigma^2) = 2 / radius^2
