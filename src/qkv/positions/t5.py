"""T5's positions: a learned bias for each range of distances."""

import math

import torch
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.positions.position import Places, Position, Sizes


class T5(Position):
    """Raffel et al. 2020, section 2.1: a learned bias of the scores for each head and each bucket of distances j - i.

    The first half of the buckets hold one distance each, the others grow geometrically up to `max_distance`, and the
    last holds all beyond. An encoder has half of the buckets for each direction, a decoder all of them for what stands
    before. One table serves all layers. T5 itself does not divide scores by sqrt(d_k): that is attention = "dot".
    """

    def __init__(self, sizes: Sizes, *, buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        if buckets < 4 or buckets % 2 or max_distance <= buckets // 2:
            raise InputError(
                f"t5 positions with buckets={buckets} and max_distance={max_distance} cannot be; "
                "give an even number of buckets, 4 or more, and a max_distance above half of it"
            )
        self.buckets, self.max_distance = buckets, max_distance
        self.table = nn.Parameter(torch.empty(buckets, sizes.n_heads))
        nn.init.normal_(self.table, std=sizes.d_model**-0.5)  # as T5 does

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        bucket = self.bucket(-at.distance, is_causal=at.causal)  # (T, S) or (B, 1, T, S)
        bias = self.table[bucket[:, 0] if bucket.dim() == 4 else bucket]
        return bias.movedim(-1, -3).to(q.dtype)  # (H, T, S) or (B, H, T, S)

    def bucket(self, distance: Tensor, *, is_causal: bool) -> Tensor:
        """The bucket of each distance j - i."""
        if is_causal:
            return self.one_way(-distance.clamp(max=0), self.buckets)
        half = self.buckets // 2
        return self.one_way(distance.abs(), half) + half * (distance > 0)

    def one_way(self, distance: Tensor, buckets: int) -> Tensor:
        """The bucket, of so many, of each distance >= 0. In float32: weights were trained with its rounding."""
        exact = buckets // 2
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return torch.where(distance < exact, distance, far)
