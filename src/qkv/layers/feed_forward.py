"""The position-wise feed-forward network."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.kernels import FastLinear, gelu_tanh
from qkv.layers.dropout import Dropout
from qkv.layers.stack_config import StackConfig

# gelu: Hendrycks & Gimpel 2016, as in BERT; gelu_tanh: its approximation by tanh, as in GPT; swish: Ramachandran et al.
# 2017, as in Marian.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swish": F.silu,
}


class FeedForward(nn.Module):
    """Vaswani et al. 2017, Eq. 2: FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every place.

    `activation` names what stands in the place of max(0, .).
    """

    def __init__(self, c: StackConfig) -> None:
        super().__init__()
        kind = FastLinear if c.fused else nn.Linear
        self.expand = kind(c.d_model, c.inner_width)
        self.contract = kind(c.inner_width, c.d_model)
        self.activation = ACTIVATIONS[c.activation]
        self.fused = c.fused and c.activation == "gelu_tanh"
        self.dropout = Dropout(c.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        activation = gelu_tanh if self.fused and self.training else self.activation
        result: Tensor = self.contract(self.dropout(activation(self.expand(x))))
        return result
