"""The residual connection with its normalisation and dropout, written once for every sub-layer."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from qkv.layers.dropout import Dropout


class Residual(nn.Module):
    """Vaswani et al. 2017, section 5.4, `post`: LayerNorm(x + Dropout(f(x))).

    `pre`, as in GPT-2: x + Dropout(f(LayerNorm(x))).
    """

    def __init__(self, d_model: int, dropout: float, norm: Literal["post", "pre"], eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps)
        self.dropout = Dropout(dropout)
        self.place = norm

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        if self.place == "pre":
            before: Tensor = x + self.dropout(f(self.norm(x)))
            return before
        after: Tensor = self.norm(x + self.dropout(f(x)))
        return after
