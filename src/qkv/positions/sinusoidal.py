"""Sinusoidal positions: defined for every place, nothing to learn."""

import torch
from torch import Tensor

from qkv.errors import InputError, nearest
from qkv.positions.places import Places
from qkv.positions.position import Position, Sizes

LAYOUTS = ("interleaved", "halves", "fairseq")


class Sinusoidal(Position):
    """Vaswani et al. 2017, section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same).

    Three layouts are in use, and weights trained with one do not fit another: `interleaved` is the paper's;
    `halves` puts all sines before all cosines (Marian, XLNet); `fairseq` does that too and divides the exponent by
    d/2 - 1, so that the longest wavelength is exactly 10000 * 2 pi (tensor2tensor, fairseq, FSMT). `offset` is added to
    every place (fairseq starts at padding_idx + 1).
    """

    table: Tensor

    def __init__(self, sizes: Sizes, *, layout: str = "interleaved", offset: int = 0) -> None:
        super().__init__()
        if layout not in LAYOUTS:
            raise InputError(f"unknown layout {layout!r} of sinusoidal positions; {nearest(layout, LAYOUTS)}")
        if sizes.d_model % 2 or sizes.d_model < 4:
            raise InputError(f"sinusoidal positions need an even d_model of at least 4, not {sizes.d_model}")
        self.d_model, self.layout, self.offset = sizes.d_model, layout, offset
        self.register_buffer("table", self.rows(sizes.max_length), persistent=False)

    def rows(self, length: int) -> Tensor:
        """The first `length` rows of the table, computed in float64 and rounded once."""
        half = self.d_model // 2
        place = torch.arange(self.offset, length + self.offset, dtype=torch.float64)
        exponent = torch.arange(half, dtype=torch.float64) / (half - 1 if self.layout == "fairseq" else half)
        angle = place[:, None] * 10000.0**-exponent  # (T, D/2)
        pair = torch.stack((angle.sin(), angle.cos()), dim=-1)  # (T, D/2, 2)
        ordered = pair if self.layout == "interleaved" else pair.transpose(1, 2)
        return ordered.reshape(length, self.d_model).to(torch.get_default_dtype())

    def embed(self, x: Tensor, at: Places) -> Tensor:
        needed = int(at.query[-1]) + 1
        if needed > len(self.table):
            self.table = self.rows(2 * needed).to(self.table)
        return x + self.table[at.query].to(x.dtype)
