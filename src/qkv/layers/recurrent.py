"""Recurrent layers: the cells as their equations, and a stack of them that runs whole sentences or single steps."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.layers.dropout import Dropout

CellState = tuple[Tensor, ...]  # h, and c of an LSTM: each (B, D)


class Cell(NamedTuple):
    """One step of a recurrent layer: W x + b and U h + b', with the old state, give the new state."""

    step: Callable[[Tensor, Tensor, CellState], CellState]
    whole: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]  # torch's layer of this cell, which holds the weights
    gates: int  # blocks of D rows in W and U
    states: int = 1


def rnn(wx: Tensor, uh: Tensor, state: CellState) -> CellState:
    """Elman 1990: h' = tanh(W x + U h + b)."""
    return ((wx + uh).tanh(),)


def gru(wx: Tensor, uh: Tensor, state: CellState) -> CellState:
    """Cho et al. 2014, Eq. 5-8: h' = (1 - z) * n + z * h, with gates r, z and n = tanh(W x + b + r * (U h + b')).

    Differs: the paper has U (r * h). This is torch's form, in which U h is one product for all three gates.
    """
    (wr, wz, wn), (ur, uz, un) = wx.chunk(3, dim=-1), uh.chunk(3, dim=-1)
    r, z = (wr + ur).sigmoid(), (wz + uz).sigmoid()
    n = (wn + r * un).tanh()
    return ((1 - z) * n + z * state[0],)


def lstm(wx: Tensor, uh: Tensor, state: CellState) -> CellState:
    """Hochreiter and Schmidhuber 1997, forget gate of Gers et al. 2000: c' = f * c + i * g, h' = o * tanh(c').

    i, f, o are sigmoids and g is a tanh of W x + U h + b.
    """
    i, f, g, o = (wx + uh).chunk(4, dim=-1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


CELLS = {"lstm": Cell(lstm, nn.LSTM, 4, 2), "gru": Cell(gru, nn.GRU, 3), "rnn": Cell(rnn, nn.RNN, 1)}


class Recurrence(nn.Module):
    """Layers of one cell, each over the outputs of the one below, with dropout between them (Zaremba et al. 2014).

    `forward` runs all steps in one call of torch's kernel; `step` runs one, by the equations above. A state is one
    CellState for each layer, of a bidirectional stack for each layer and direction.

    With `weight_dropout`, DropConnect (Merity et al. 2018, section 2): in training, values of U are dropped, the same
    ones for all steps and rows of a batch.
    """

    def __init__(
        self, cell: str, inputs: int, width: int, *, layers: int, dropout: float = 0.0, bidirectional: bool = False,
        weight_dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.cell = CELLS[cell]
        between = dropout if layers > 1 else 0.0
        self.layers = self.cell.whole(
            inputs, width, layers, batch_first=True, dropout=between, bidirectional=bidirectional
        )
        self.weight_dropout = Dropout(weight_dropout)
        with torch.no_grad():
            for _, _, b, b_hidden in self.layers.all_weights if self.cell.step is lstm else ():
                b.chunk(4)[1].fill_(1.0)  # f, so that a new network remembers (Jozefowicz et al. 2015)
                b_hidden.chunk(4)[1].fill_(0.0)

    def forward(
        self, x: Tensor, state: list[CellState] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, list[CellState]]:
        """x (B, T, D) -> the top layer's outputs, directions side by side, and the state after the last step.

        With `lengths` (B,), rows end early: they stop there, begin there backwards, and give zeros beyond.
        """
        first = None if state is None else [torch.stack(part).to(x.dtype) for part in zip(*state, strict=True)]
        given = first if first is None or self.cell.states > 1 else first[0]
        if lengths is None:
            outputs, last = self.run(x, given)
        else:  # torch packs no empty rows: such a row reads one token of padding, and then counts as 0
            packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
            outputs, last = self.run(packed, given)
            outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.size(1))
        parts = last if isinstance(last, tuple) else (last,)  # each (layers * directions, B, D)
        if lengths is not None:
            full = lengths[:, None] > 0
            outputs, parts = outputs * full[:, None], tuple(part * full for part in parts)
        return outputs, list(zip(*(part.unbind(0) for part in parts), strict=True))

    def run(self, *given: Any) -> Any:
        """torch's kernel, with what is left of U."""
        if not self.training or self.weight_dropout.level == 0:
            return self.layers(*given)
        matrices = {name: u for name, u in self.layers.named_parameters() if name.startswith("weight_hh")}
        return functional_call(self.layers, {name: self.weight_dropout(u) for name, u in matrices.items()}, given)

    def project(self, x: Tensor) -> Tensor:
        """The first layer's W x + b, which waits for no state: (.., D) -> (.., gates * D)."""
        w, _, b, _ = self.layers.all_weights[0]
        return F.linear(x, w, b)

    def step(self, wx: Tensor, state: list[CellState], masks: Tensor | None = None) -> list[CellState]:
        """One step of each layer, from `project(x)` (B, gates * D); `masks` (layers - 1, B, D) drop in between."""
        new: list[CellState] = []
        for i, (w, u, b, b_hidden) in enumerate(self.layers.all_weights):
            if new:
                h = new[-1][0]
                wx = F.linear(h if masks is None else h * masks[i - 1], w, b)
            new.append(self.cell.step(wx, F.linear(state[i][0], u, b_hidden), state[i]))
        return new


class ProjectedLSTM(nn.Module):
    """Sak et al. 2014, section 2.1: an LSTM whose state is smaller than its cells, h' = P (o * tanh(c')).

    Peters et al. 2018 (ELMo), the authors' code: c' stays within `cell_clip` of 0, and h' within `projection_clip`; a
    clip of 0 is no limit. torch.nn.LSTM(proj_size=..) gives the same without limits.
    """

    def __init__(
        self, inputs: int, cells: int, width: int, *, cell_clip: float = 0.0, projection_clip: float = 0.0
    ) -> None:
        super().__init__()
        self.cell_clip, self.projection_clip = cell_clip or math.inf, projection_clip or math.inf
        self.input = nn.Linear(inputs, 4 * cells)  # of the gates i, f, g, o
        self.state = nn.Linear(width, 4 * cells, bias=False)
        self.projection = nn.Linear(cells, width, bias=False)
        with torch.no_grad():
            self.input.bias.zero_()
            self.input.bias.chunk(4)[1].fill_(1.0)  # f, so that a new network remembers

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> the states h (B, T, P), from the first to the last; before them all are 0."""
        wide = torch.promote_types(x.dtype, torch.float32)  # cells add up over many steps
        h, c = x.new_zeros(len(x), self.state.in_features), x.new_zeros(len(x), self.projection.in_features, dtype=wide)
        states = []
        for wx in self.input(x).unbind(dim=1):  # (B, 4 C)
            i, f, g, o = (wx + self.state(h)).chunk(4, dim=-1)
            c = (f.sigmoid() * c + i.sigmoid() * g.tanh()).clamp(-self.cell_clip, self.cell_clip)
            h = self.projection(o.sigmoid() * c.tanh()).clamp(-self.projection_clip, self.projection_clip)
            states.append(h)
        return torch.stack(states, dim=1)
