"""Sines and cosines of places, from slow to fast: what several positions are made of."""

from typing import ClassVar

import torch
from torch import Tensor

from qkv.errors import InputError
from qkv.positions.position import Position


class Waves(Position):
    """Vaswani et al. 2017, section 3.5: sin and cos of place * base^(-2i/width), in a table that grows when needed.

    The layouts are told apart in `Sinusoidal`. Computed in float64 and rounded once.
    """

    name_of_width: ClassVar[str] = "d_model"
    table: Tensor

    def __init__(
        self, width: int, length: int, *, base: float = 10000.0, layout: str = "halves", offset: int = 0
    ) -> None:
        super().__init__()
        least = 4 if layout == "fairseq" else 2  # with 2, fairseq would divide by zero
        if width % 2 or width < least:
            raise InputError(
                f"sines and cosines come in pairs, so {self.name_of_width} must be even and at least {least}, "
                f"not {width}; change it, or take another position"
            )
        self.width, self.base, self.layout, self.offset = width, base, layout, offset
        self.register_buffer("table", self.rows(length).to(torch.get_default_dtype()), persistent=False)

    def rows(self, length: int) -> Tensor:
        """The first `length` rows of the table, in float64."""
        half = self.width // 2
        place = torch.arange(self.offset, length + self.offset, dtype=torch.float64)
        exponent = torch.arange(half, dtype=torch.float64) / (half - 1 if self.layout == "fairseq" else half)
        angle = place[:, None] * self.base**-exponent  # (T, D/2)
        pair = torch.stack((angle.sin(), angle.cos()), dim=-1)  # (T, D/2, 2)
        ordered = pair if self.layout == "interleaved" else pair.transpose(1, 2)
        return ordered.reshape(length, self.width)

    def waves(self, place: Tensor) -> Tensor:
        """The row of each place: one dimension more than `place` has."""
        needed = int(place.max()) + 1
        if needed > len(self.table):
            self.table = self.rows(2 * needed).to(self.table)
        return self.table[place]
