"""Sinusoidal positions: defined for every place, nothing to learn."""

from torch import Tensor

from qkv.errors import InputError, nearest
from qkv.positions.places import Places
from qkv.positions.position import Sizes
from qkv.positions.waves import Waves

LAYOUTS = ("interleaved", "halves", "fairseq")


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
