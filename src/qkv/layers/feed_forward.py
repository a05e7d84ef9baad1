"""The position-wise feed-forward network."""

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.layers.dropout import Dropout

# gelu: Hendrycks & Gimpel 2016, as in GPT and BERT; swish: Ramachandran et al. 2017, as in Marian.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForwardSizes(Protocol):
    @property
    def d_model(self) -> int: ...
    @property
    def d_ff(self) -> int: ...
    @property
    def activation(self) -> str: ...
    @property
    def activation_dropout(self) -> float: ...


class FeedForward(nn.Module):
    """Vaswani et al. 2017, Eq. 2: FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every place.

    `activation` names what stands in the place of max(0, .).
    """

    def __init__(self, c: FeedForwardSizes) -> None:
        super().__init__()
        self.expand = nn.Linear(c.d_model, c.d_ff)
        self.contract = nn.Linear(c.d_ff, c.d_model)
        self.activation = ACTIVATIONS[c.activation]
        self.dropout = Dropout(c.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.contract(self.dropout(self.activation(self.expand(x))))
        return result
