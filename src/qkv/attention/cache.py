"""What decoding has already computed: passed in and returned, never left on a module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class Rows:
    """Tensors whose row i belongs to hypothesis i, by themselves, in lists, or in other Rows."""

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was: beams change places, finished sentences leave."""
        for name, value in vars(self).items():
            setattr(self, name, picked(value, rows))


def picked(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[rows]
    if isinstance(value, list | tuple):
        return type(value)(picked(one, rows) for one in value)
    if isinstance(value, Rows):
        value.reorder(rows)
    return value


@dataclass
class KeyValues(Rows):
    """What one attention has seen: k and v, each (B, H, S, K)."""

    k: Tensor | None = None
    v: Tensor | None = None

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
