"""Windows of self-attention: a query sees keys near it, at a cost that grows with the length, not with its square."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.attention.local import check_radius
from qkv.attention.soft import Soft
from qkv.errors import InputError
from qkv.positions import NO_POSITION, Places, Position, Sizes

NARROW = 64  # queries that are computed together, at least: smaller products keep no processor busy


class Near(Soft):
    """Self-attention in which no block of `size` queries sees further than the block before it and `after` it.

    `plain` is full attention under the region's mask. `fused` lays beside each block of queries only the blocks of
    keys that it can see, so that both products cost T * size instead of T * T.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    size: int
    after: ClassVar[int]  # 1 if the block after a query's own can be seen, else 0

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> Tensor:
        T, keys = q.size(-2), (2 + self.after) * self.size
        has_score = type(position).score is not Position.score  # such a score is for all pairs, and is added to all
        if k.size(-2) != T or keys >= T or has_score or not at.in_order:
            return super().fused(q, k, v, at, mask, position)
        blocks = -(-T // self.size)
        here = torch.arange(blocks * self.size, device=q.device).view(blocks, self.size)
        there = here[:, :1] - self.size + torch.arange(keys, device=q.device)  # (blocks, keys)
        exists = (there >= 0) & (there < T)  # the first block has none before it
        here, there = here.clamp(max=T - 1), there.clamp(0, T - 1)
        visible = self.pairs(at, mask, here, there) & exists[:, None]
        context = F.scaled_dot_product_attention(
            by_block(q[:, :, here]),
            by_block(k[:, :, there]),
            by_block(v[:, :, there]),
            by_block(visible.expand(len(q), *visible.shape[1:])),
            self.dropout if self.training else 0.0,
        )  # (B * blocks, H, size, K)
        joined: Tensor = context.unflatten(0, (-1, blocks)).transpose(1, 2).flatten(2, 3)
        return joined[:, :, :T]  # (B, H, T, K)

    def pairs(self, at: Places, mask: Tensor | None, here: Tensor, there: Tensor) -> Tensor:
        """Which of its keys each query of each block may see: (B or 1, H or 1, blocks, size, keys)."""
        query, key = at.query[here][:, :, None], at.key[there][:, None]
        region = self.seen(query, key)
        if mask is None and at.causal:
            region = region & (query >= key)
        if mask is None:
            return region[None, None]
        whole = mask[(None,) * (4 - mask.dim())]  # (B or 1, H or 1, T or 1, S)
        if whole.size(-2) == 1:
            return region & whole[:, :, 0, there][:, :, :, None]
        return region & whole[:, :, here[:, :, None], there[:, None]]

    def region(self, at: Places) -> Tensor:
        if at.query.dim() == 1:
            return self.seen(at.query[:, None], at.key)  # (T, S)
        return self.seen(at.query[:, None, :, None], at.key[:, None, None, :])  # (B, 1, T, S)

    def seen(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether a query at one place may see a key at another."""
        raise NotImplementedError


def by_block(x: Tensor) -> Tensor:
    """Blocks become rows of the batch: (B, H, blocks, ..) -> (B * blocks, H, ..)."""
    return x.transpose(1, 2).flatten(0, 1)


class Window(Near):
    """Beltagy et al. 2020 (Longformer), section 3.1, sliding window: the query at t sees keys t - radius to t + radius.

    Under a causal mask it sees the `radius` keys before it and itself.
    """

    after = 1

    def __init__(self, sizes: Sizes, *, radius: int = 128, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)
        self.size = max(radius, NARROW)

    def seen(self, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() <= self.radius


class Blocks(Near):
    """Liu et al. 2018, section 4.2.4, as tensor2tensor has it: a query sees its own block and the one before.

    The blocks of `size` tokens are counted from the beginning. Under a causal mask this is tensor2tensor's masked local
    attention: a query sees its own block up to itself, and the whole block before.
    """

    after = 0

    def __init__(self, sizes: Sizes, *, size: int = 128, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if size < 1:
            raise InputError(f"blocks of size={size} hold no token; give a size of at least 1")
        self.size = size

    def seen(self, query: Tensor, key: Tensor) -> Tensor:
        back = query // self.size - key // self.size
        return (back == 0) | (back == 1)
