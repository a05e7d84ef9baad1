"""The position-wise feed-forward network."""

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from qkv.layers.dropout import Dropout


class FeedForwardSizes(Protocol):
    @property
    def d_model(self) -> int: ...
    @property
    def d_ff(self) -> int: ...
    @property
    def activation_dropout(self) -> float: ...


class FeedForward(nn.Module):
    """Vaswani et al. 2017, Eq. 2: FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every place."""

    def __init__(self, c: FeedForwardSizes) -> None:
        super().__init__()
        self.expand = nn.Linear(c.d_model, c.d_ff)
        self.contract = nn.Linear(c.d_ff, c.d_model)
        self.dropout = Dropout(c.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.contract(self.dropout(F.relu(self.expand(x))))
        return result
