"""ALiBi: a key counts less the farther away it stands."""

import torch
from torch import Tensor

from qkv.positions.position import Places, Position, Sizes


class ALiBi(Position):
    """Press et al. 2022, section 3: -m * |i - j| is added to the scores, with a fixed slope m for each head.

    A decoder sees no j > i, so there it is the paper's -m * (i - j); an encoder looks both ways alike.
    """

    slopes: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(slopes(sizes.n_heads))[:, None, None], persistent=False)

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return (-self.slopes * at.distance.abs()).to(q.dtype)  # (H, T, S) or (B, H, T, S)


def slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n) .. 2^-8 for n heads, if n is a power of two.

    Other numbers take those of the power below, then every other one of the power above (the authors' code, Bloom).
    """
    power = 1 << (n_heads.bit_length() - 1)
    more = n_heads - power
    return [2 ** (-8 * h / power) for h in range(1, power + 1)] + [2 ** (-4 * h / power) for h in range(1, 2 * more, 2)]
