"""Dropout that draws its masks from random bytes."""

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Srivastava et al. 2014: in training, zero each value with probability p and scale the rest by 1 / (1 - p).

    Differs: p is rounded to 256ths, since one byte decides each value. torch draws 32 random bits for each value, one
    after the other on a CPU; here every 64 bits decide eight values.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.level = min(round(p * 256), 255)  # of 256 byte values, how many mean "zero"

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.level == 0:
            return x
        return x * self.mask(x)

    def mask(self, x: Tensor) -> Tensor:
        """0 or 1 / (1 - p) for each value of x."""
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.level
        return keep.to(x.dtype).mul_(256 / (256 - self.level))

    def extra_repr(self) -> str:
        return f"p={self.level / 256}"


class VariationalDropout(Dropout):
    """Gal & Ghahramani 2016, section 4: one mask for all tokens of a text, another one for each text; x (B, T, D)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.level == 0:
            return x
        return x * self.mask(x[:, :1])
