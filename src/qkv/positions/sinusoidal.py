"""Sinusoidal positions: defined for every place, nothing to learn; and the waves that others are made of too."""

from typing import ClassVar

import torch
from torch import Tensor

from qkv.errors import InputError, nearest
from qkv.positions.position import Places, Position, Sizes

LAYOUTS = ("interleaved", "halves", "fairseq")


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


class Sinusoidal(Waves):
    """Vaswani et al. 2017, section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same).

    Three layouts are in use, and weights trained with one do not fit another: `interleaved` is the paper's;
    `halves` puts all sines before all cosines (Marian, XLNet); `fairseq` does that too and divides the exponent by
    d/2 - 1, so that the longest wavelength is exactly 10000 * 2 pi (tensor2tensor, fairseq, FSMT). `offset` is added to
    every place (fairseq starts at padding_idx + 1).
    """

    def __init__(self, sizes: Sizes, *, layout: str = "interleaved", offset: int = 0) -> None:
        if layout not in LAYOUTS:
            raise InputError(f"unknown layout {layout!r} of sinusoidal positions; {nearest(layout, LAYOUTS)}")
        super().__init__(sizes.d_model, sizes.max_length, layout=layout, offset=offset)

    def embed(self, x: Tensor, at: Places) -> Tensor:
        return x + self.waves(at.query).to(x.dtype)
