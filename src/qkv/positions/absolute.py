"""Absolute positions: what is done to a token goes by its own place."""

from typing import ClassVar

import torch
from torch import Tensor, nn

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


class Learned(Position):
    """A table of trained vectors, as in ConvS2S, BERT and GPT (Vaswani et al. 2017, Table 3, row E).

    It has `length` places (the model's max_length unless given) and refuses any other. `offset` rows in front stay
    unused, as in RoBERTa (padding_idx + 1 = 2).
    """

    def __init__(self, sizes: Sizes, *, length: int | None = None, offset: int = 0) -> None:
        super().__init__()
        if (length is not None and length < 1) or offset < 0:
            raise InputError(
                f"learned positions with length={length} and offset={offset} have no table; "
                "give a length of at least 1 and an offset of 0 or more"
            )
        self.length, self.offset = length or sizes.max_length, offset
        table = torch.empty(self.length + offset, sizes.d_model)
        self.weight = nn.Parameter(nn.init.normal_(table, std=sizes.d_model**-0.5))

    def embed(self, x: Tensor, at: Places) -> Tensor:
        last = int(at.query.max())
        if last >= self.length:
            raise InputError(
                f"place {last} is beyond the {self.length} learned positions of this model; "
                "give shorter text, or train with a larger max_length or with sinusoidal positions"
            )
        return x + self.weight[at.query + self.offset]


class Rotary(Waves):
    """Su et al. 2021 (RoFormer), section 3.2: turn each pair of numbers in q and k by place * base^(-2i/d).

    The product of a query at m and a key at n then depends on m - n alone. Which numbers are a pair: `halves` takes
    i and i + d/2 (Llama), `interleaved` takes 2i and 2i + 1 (the paper, GPT-J).
    """

    name_of_width: ClassVar[str] = "the width of a head"

    def __init__(self, sizes: Sizes, *, base: float = 10000.0, layout: str = "halves") -> None:
        if layout not in (known := LAYOUTS[:2]):
            raise InputError(f"unknown layout {layout!r} of rotary positions; {nearest(layout, known)}")
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
