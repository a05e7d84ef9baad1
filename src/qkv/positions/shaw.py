"""Shaw's relative positions: a learned vector for each distance, up to a limit."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.positions.position import Places, Position, Sizes


class Shaw(Position):
    """Shaw et al. 2018, Eq. 3 and 4: a learned vector for each distance j - i, added to the keys and the values.

    e_ij = q_i . (k_j + a^K_ij) / sqrt(d), z_i = sum_j weights_ij (v_j + a^V_ij), a_ij = w_clip(j - i, -clip, clip). The
    tables are shared by the heads of a layer. `values=False` leaves a^V out.

    The product with each of the 2 clip + 1 vectors comes first, and each pair (i, j) then picks one, so that no tensor
    of (T, S, K) is made. `plain_score` and `plain_value` are the equations as they stand.
    """

    per_layer: ClassVar[bool] = True

    def __init__(self, sizes: Sizes, *, clip: int = 16, values: bool = True) -> None:
        super().__init__()
        if clip < 0:
            raise InputError(f"relative positions are clipped at a distance of 0 or more, not {clip}")
        self.clip, self.has_value = clip, values
        self.keys = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * clip + 1, sizes.head_width)))
        if values:
            self.values = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * clip + 1, sizes.head_width)))

    def distance(self, at: Places) -> Tensor:
        """Of each key from each query: broadcasts to (B, H, T, S)."""
        return -at.distance

    def row(self, at: Places) -> Tensor:
        """Which row of the tables belongs to each pair: broadcasts to (B, H, T, S)."""
        return self.distance(at).clamp(-self.clip, self.clip) + self.clip

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        products = q @ self.keys.T / math.sqrt(q.size(-1))  # (B, H, T, 2 clip + 1)
        return products.gather(-1, self.row(at).expand(*q.shape[:3], -1))  # (B, H, T, S)

    def value(self, weights: Tensor, at: Places) -> Tensor | None:
        if not self.has_value:
            return None
        sums = weights.new_zeros(*weights.shape[:3], len(self.values))  # (B, H, T, 2 clip + 1)
        return sums.scatter_add(-1, self.row(at).expand_as(weights), weights) @ self.values  # (B, H, T, K)

    def plain_score(self, q: Tensor, at: Places) -> Tensor:
        """The second term of Eq. 4, from a vector for each pair."""
        return (q[..., None, :] * self.keys[self.row(at)]).sum(-1) / math.sqrt(q.size(-1))  # (B, H, T, S)

    def plain_value(self, weights: Tensor, at: Places) -> Tensor:
        """The second term of Eq. 3, from a vector for each pair."""
        return (weights[..., None] * self.values[self.row(at)]).sum(-2)  # (B, H, T, K)
