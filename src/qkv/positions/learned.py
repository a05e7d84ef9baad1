"""Learned positions: one trained vector for each place, and none beyond the last."""

import torch
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.positions.position import Places, Position, Sizes


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
