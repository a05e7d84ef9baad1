"""The keys and values that decoding has already computed: passed in and returned, never left on a module."""

from collections.abc import Callable

import torch
from torch import Tensor


class KeyValues:
    """What one attention has seen: k and v, each (B, H, S, K)."""

    def __init__(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Self-attention: everything so far and the new token."""
        if self.k is not None and self.v is not None:
            k, v = torch.cat((self.k, k), dim=2), torch.cat((self.v, v), dim=2)
        self.k, self.v = k, v
        return k, v

    def keep(self, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Attention over a memory that does not change: computed once for each sentence."""
        if self.k is None or self.v is None:
            self.k, self.v = compute()
        return self.k, self.v

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was: beams change places, finished sentences leave."""
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k[rows], self.v[rows]
