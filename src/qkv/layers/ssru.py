"""A recurrence in the place of the decoder's self-attention: one state, however long the text has become."""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from qkv.attention import KeyValues, MultiHead, Remembered
from qkv.config import build
from qkv.layers.dropout import Dropout
from qkv.layers.stack import FeedForward, Residual, normalisation
from qkv.layers.stack_config import StackConfig
from qkv.positions import POSITIONS, Places, Position


class SimplerRecurrence(nn.Module):
    """Kim et al. 2019, section 3.1: the simpler simple recurrent unit (SSRU), which has no second gate and no tanh.

    f_t = sigmoid(W_f x_t + b_f),  c_t = f_t * c_(t-1) + (1 - f_t) * W x_t,  h_t = max(0, c_t);  c_0 = 0.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.forget = nn.Linear(d_model, d_model)
        self.input = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, cell: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) and the cell (B, D) before it -> h (B, T, D) and the cell after it. The products of all places
        are computed at once; what is left to do one by one is a sum."""
        forget = torch.sigmoid(self.forget(x))
        added = (1 - forget) * self.input(x)
        cell = x.new_zeros(len(x), x.size(2)) if cell is None else cell
        cells = []
        for t in range(x.size(1)):
            cell = forget[:, t] * cell + added[:, t]
            cells.append(cell)
        return torch.relu(torch.stack(cells, dim=1)), cell


@dataclass
class SeenBefore(Remembered):
    """What one block has computed in earlier decoding steps: its cell, and the keys and values of the memory."""

    cell: Tensor | None = None  # (B, D)
    source: KeyValues = field(default_factory=KeyValues)


class RecurrentBlock(nn.Module):
    """A block of the decoder (layers/stack.py) with a recurrence in the place of self-attention."""

    def __init__(self, c: StackConfig, *, layer: int) -> None:
        super().__init__()
        residual = partial(Residual, c.d_model, c.dropout, c.norm, c.eps)
        self.recurrence, self.recurrence_residual = SimplerRecurrence(c.d_model), residual()
        self.memory_attention = MultiHead(c, attention=c.attention_of("memory", layer), use="memory")
        self.memory_residual = residual()
        self.feed_forward, self.feed_forward_residual = FeedForward(c), residual()

    def forward(self, x: Tensor, at: Places, memory: Tensor, mask: Tensor | None, seen: SeenBefore) -> Tensor:
        def recur(x: Tensor) -> Tensor:
            h, seen.cell = self.recurrence(x, seen.cell)
            return h

        x = self.recurrence_residual(x, recur)
        over = partial(self.memory_attention, memory=memory, mask=mask, seen=seen.source)
        x = self.memory_residual(x, lambda x: over(x, at))
        return self.feed_forward_residual(x, self.feed_forward)


class RecurrentStack(nn.Module):
    """N such blocks over embedded tokens, with their positions; with pre-norm a last normalisation follows."""

    def __init__(self, c: StackConfig, *, layers: int) -> None:
        super().__init__()
        self.positions = nn.ModuleList([build(POSITIONS, c.position, c)])
        self.dropout = Dropout(c.dropout)
        self.blocks = nn.ModuleList(RecurrentBlock(c, layer=i) for i in range(layers))
        self.norm = normalisation(c.d_model, c.eps, rms=False) if c.norm == "pre" else nn.Identity()

    @property
    def position(self) -> Position:
        return self.positions[0]  # type: ignore[return-value]

    def forward(self, x: Tensor, at: Places, memory: Tensor, mask: Tensor | None, seen: list[SeenBefore]) -> Tensor:
        x = self.dropout(self.position.embed(x, at))
        for block, one in zip(self.blocks, seen, strict=True):
            x = block(x, at, memory, mask, one)
        return self.norm(x)
