"""Soft attention, in the four steps that every attention here has: score, region, choice, mix."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention.masks import causal
from qkv.attention.scores import SCORES, ScaledDot
from qkv.config import build
from qkv.errors import InputError
from qkv.kernels import attention
from qkv.positions import NO_POSITION, Places, Position, Sizes

SHORT = 64  # keys up to which the plain form is faster on a CPU: 1.7 times at 15 keys, forward and backward


class Soft(nn.Module):
    """Bahdanau et al. 2015: weights = softmax(score(q, k)) over all keys, context = sum of weights * v.

    With the scaled dot product it is Vaswani et al. 2017, Eq. 1: softmax(Q K^T / sqrt(d_k)) V. A variant overrides
    `region` (which keys a query may see) or `choose` (how scores become weights). `mask` is True where a query may
    look and broadcasts to (B, H, T, S); without one, `at.causal` says whether a query sees what stands
    after it. A row that sees nothing gives zeros.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder", "decoder", "memory")  # where in a model it makes sense
    hides_pairs: ClassVar[bool] = True  # whether a mask can keep one query from seeing what another sees
    shortens: ClassVar[bool] = False  # whether it looks at fewer keys than there are tokens, which are made of them
    extra: int = 0  # tokens of its own that a stack puts in front of a text
    always_fused: bool = False  # without a mask, or to learn, the fused kernel is faster however few keys there are

    def __init__(self, sizes: Sizes, *, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise InputError(f"the dropout of an attention must be at least 0 and below 1, not {dropout}")
        self.score, self.dropout = build(SCORES, score, sizes), dropout
        self.can_fuse = type(self).choose is Soft.choose and type(self.score) is ScaledDot

    def settle(self, layer: int, first: "Soft") -> None:
        """Be told by a stack which layer this is, and who stands in its first layer of this kind."""

    def region(self, at: Places) -> Tensor | None:
        """True where a query may see a key, beside the mask: broadcasts to (B, H, T, S). None for everywhere."""
        return None

    def outdated(self, at: Places) -> Tensor | None:
        """True at keys that no query behind the last one can see, (S,) or (B, S); None if there are never any.

        In the order of their places: decoding forgets them.
        """
        return None

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        """Scores (B, H, T, S), -inf where a query may not look, become weights."""
        return scores.softmax(dim=-1).nan_to_num()  # a row of -inf alone would be nan

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> Tensor:
        """The context (B, H, T, K), by whichever form is faster."""
        always = self.always_fused and (mask is None or self.training)
        is_short = q.device.type == "cpu" and k.size(-2) <= SHORT and not always
        if not self.can_fuse or position.has_value or is_short:
            return self.plain(q, k, v, at, mask, position)[0]
        return self.fused(q, k, v, at, mask, position)

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> Tensor:
        """By torch's fused kernel: the weights never stand in memory."""
        bias, dropout = self.bias(q, k, at, mask, position), self.dropout if self.training else 0.0
        is_triangle = mask is None and at.causal and at.in_order and bias is None and self.region(at) is None
        mask = None if is_triangle else self.visible(at, mask)
        if self.always_fused and self.training and bias is None and not dropout:
            return attention(q, k, v, mask, is_causal=is_triangle)
        if bias is not None and mask is not None:
            bias = bias.masked_fill(~mask, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, mask if bias is None else bias, dropout, is_causal=is_triangle)

    def plain(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> tuple[Tensor, Tensor]:
        """The same in the paper's own steps, with the weights: (context, weights)."""
        scores, mask = self.score(q, k, at), self.visible(at, mask)  # (B, H, T, S)
        if (bias := self.bias(q, k, at, mask, position)) is not None:
            scores = scores + bias
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = self.choose(scores, q, at)
        dropped = F.dropout(weights, self.dropout, self.training)
        context, more = dropped @ v, position.value(dropped, at)  # (B, H, T, K)
        return context if more is None else context + more, weights

    def bias(self, q: Tensor, k: Tensor, at: Places, mask: Tensor | None, position: Position) -> Tensor | None:
        """What is added to the scores (B, H, T, S); None for nothing."""
        return position.score(q, k, at)

    def visible(self, at: Places, mask: Tensor | None) -> Tensor | None:
        """What a query may see: `mask`, or without one what comes of `at.causal`, and the region."""
        region = self.region(at)
        if mask is None and at.causal and at.query.size(-1) > 1:
            mask = causal(at)
        if region is None or mask is None:
            return mask if region is None else region
        return mask & region
