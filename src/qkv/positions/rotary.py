"""Rotary positions: queries and keys are turned, so that their product sees only how far apart they stand."""

from typing import ClassVar

import torch
from torch import Tensor

from qkv.errors import InputError, nearest
from qkv.positions.position import Places, Sizes
from qkv.positions.sinusoidal import Waves

LAYOUTS = ("halves", "interleaved")


class Rotary(Waves):
    """Su et al. 2021 (RoFormer), section 3.2: turn each pair of numbers in q and k by place * base^(-2i/d).

    The product of a query at m and a key at n then depends on m - n alone. Which numbers are a pair: `halves` takes
    i and i + d/2 (Llama), `interleaved` takes 2i and 2i + 1 (the paper, GPT-J).
    """

    name_of_width: ClassVar[str] = "the width of a head"

    def __init__(self, sizes: Sizes, *, base: float = 10000.0, layout: str = "halves") -> None:
        if layout not in LAYOUTS:
            raise InputError(f"unknown layout {layout!r} of rotary positions; {nearest(layout, LAYOUTS)}")
        if base <= 1:
            raise InputError(f"the base of rotary positions must be above 1, not {base}; the paper's is 10000")
        super().__init__(sizes.head_width, sizes.max_length, base=base)
        self.is_interleaved = layout == "interleaved"

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        sin, cos = self.waves(at.query).unsqueeze(-3).chunk(2, dim=-1)  # (1, T, K/2) or (B, 1, T, K/2)
        a, b = (x[..., 0::2], x[..., 1::2]) if self.is_interleaved else x.chunk(2, dim=-1)
        turned = a * cos - b * sin, a * sin + b * cos
        joined = torch.stack(turned, dim=-1).flatten(-2) if self.is_interleaved else torch.cat(turned, dim=-1)
        return joined.to(x.dtype)  # (B, H, T, K)
