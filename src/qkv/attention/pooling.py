"""Learned-query pooling: a text of any length becomes one vector, by an attention with one query for all texts."""

import torch
from torch import Tensor, nn

from qkv.attention.soft import Soft
from qkv.positions import Places, Sizes


class Pooling(nn.Module):
    """Yang et al. 2016, Eqs. 5-7: u = tanh(W h + b), a = softmax(u . query), c = sum of a h; one learned query.

    It is soft attention of one query over keys u and values h, so `record_attention` sees it. SiATL pools the same way.
    """

    def __init__(self, sizes: Sizes, width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Parameter(torch.randn(width) * width**-0.5)  # scores of unit variance if u has it
        self.attend = Soft(sizes, score="dot", dropout=dropout)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        """h (B, S, D), mask (B, S), True = may look: the context (B, D); a text of nothing gives zeros."""
        context: Tensor = self.attend(*self.looked_at(h, mask))
        return context[:, 0, 0]  # (B, 1, 1, D) -> (B, D)

    def plain(self, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The same with the weights (B, S): (context, weights)."""
        context, weights = self.attend.plain(*self.looked_at(h, mask))
        return context[:, 0, 0], weights[:, 0, 0]

    def looked_at(self, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Places, Tensor]:
        """What the attention is given: q (B, 1, 1, D), k and v (B, 1, S, D), where they stand, and the mask."""
        u = torch.tanh(self.key(h))
        q = self.query.expand(len(h), 1, 1, -1)
        at = Places(query=torch.zeros(1, dtype=torch.long, device=h.device), key=torch.arange(h.size(1)))
        return q, u[:, None], h[:, None], at, mask[:, None, None]


def mean(h: Tensor, mask: Tensor) -> Tensor:
    """The plain average of what may be seen: h (B, S, D), mask (B, S) -> (B, D); zeros for a text of nothing."""
    return (h * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
