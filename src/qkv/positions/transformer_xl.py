"""Transformer-XL's relative positions: sinusoids of the distance, which each layer learns to read."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from qkv.positions.position import Places, Sizes
from qkv.positions.sinusoidal import Waves


class TransformerXL(Waves):
    """Dai et al. 2019, section 3.3: to q_i . k_j come q_i . W_r R_{i-j} + u . k_j + v . W_r R_{i-j}, all / sqrt(d).

    R is the sinusoid of the distance, W_r projects it for each head; u and v are learned for each head.
    Differs: u and v belong to each layer, as in XLNet (untie_r); the paper's layers share them.
    """

    per_layer: ClassVar[bool] = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes.d_model, 0)  # one table for each layer: no longer than the texts are
        self.project = nn.Linear(sizes.d_model, sizes.n_heads * sizes.head_width, bias=False)  # W_r
        shape = sizes.n_heads, 1, sizes.head_width
        self.u, self.v = (nn.Parameter(nn.init.normal_(torch.empty(shape), std=0.02)) for _ in "uv")  # as the authors

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        distance = at.distance
        first, last = int(distance.min()), int(distance.max())
        r = self.sinusoids(torch.arange(first, last + 1, device=distance.device))  # (R, D), R = T + S - 1
        r = self.project(r).view(len(r), q.size(1), -1).permute(1, 2, 0)  # (H, K, R)
        by_distance: Tensor = (q + self.v) @ r  # (B, H, T, R)
        by_place = by_distance.gather(-1, (distance - first).expand(*q.shape[:3], -1))  # (B, H, T, S)
        by_content = self.u @ k.transpose(-1, -2)  # (B, H, 1, S)
        return (by_content + by_place) / math.sqrt(q.size(-1))

    def sinusoids(self, distance: Tensor) -> Tensor:
        """R for any distance: sin(-x) = -sin(x), cos(-x) = cos(x)."""
        sin, cos = self.waves(distance.abs()).chunk(2, dim=-1)
        return torch.cat((sin * distance.sign()[:, None], cos), dim=-1)
