"""What stands on a backbone to answer a question: states of tokens (B, T, D) in, an answer out."""

from typing import Literal

import torch
from torch import Tensor, nn

from qkv.attention.pooling import mean
from qkv.errors import InputError
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import Embedding

Pool = Literal["last", "first", "mean"]


class Head(nn.Module):
    """One linear layer over what `hidden` (B, T, D) says of some tokens; `real` (B, T) is True at those of the text."""

    def __init__(self, width: int, *, n: int, dropout: float = 0.1) -> None:
        super().__init__()
        if n < 1 or not 0 <= dropout < 1:
            raise InputError(f"a head with n={n} and dropout={dropout} cannot be; give n >= 1 and 0 <= dropout < 1")
        self.dropout, self.output = Dropout(dropout), nn.Linear(width, n)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        raise NotImplementedError


class ClassHead(Head):
    """Radford et al. 2018, section 3.2: softmax(h W) over n classes, h the state of one token; as logits (B, n).

    `pool` says which state stands for the text: of its last token (GPT), of its first (BERT), or the mean of all. With
    `dense`, BERT's pooler, tanh(h V + b), stands before it; `relu` takes the place of tanh (DistilBERT).
    """

    def __init__(
        self, width: int, *, n: int, pool: Pool = "last", dense: bool = False, relu: bool = False, dropout: float = 0.1
    ) -> None:
        super().__init__(width, n=n, dropout=dropout)
        self.pool: Pool = pool
        self.dense = nn.Sequential()
        if dense:
            self.dense = nn.Sequential(nn.Linear(width, width), nn.ReLU() if relu else nn.Tanh())

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return self.output(self.dropout(self.dense(pooled(hidden, real, self.pool))))


class NumberHead(ClassHead):
    """Devlin et al. 2019, section 4.1 (STS-B): one number for a text, by a class of its own; (B,)."""

    def __init__(
        self, width: int, *, pool: Pool = "last", dense: bool = False, relu: bool = False, dropout: float = 0.1
    ) -> None:
        super().__init__(width, n=1, pool=pool, dense=dense, relu=relu, dropout=dropout)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return super().forward(hidden, real)[:, 0]


class ChoiceHead(NumberHead):
    """Radford et al. 2018, section 3.3: one number for each choice, read with its context as a text of its own."""


class TagHead(Head):
    """Devlin et al. 2019, section 5.3: one of n tags for each token; logits (B, T, n)."""

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return self.output(self.dropout(hidden))


class SpanHead(Head):
    """Devlin et al. 2019, section 4.2 (SQuAD): S . T_i and E . T_i for each token, where an answer begins and ends.

    Logits (B, 2, T), -inf at padding.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, n=2, dropout=0.0)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return self.output(hidden).transpose(1, 2).masked_fill(~real[:, None], -torch.inf)


class PooledHead(Head):
    """Devlin et al. 2019, the authors' code: BERT's pooler alone, tanh(h V + b) of the first token; (B, D).

    Nobody asks it: a head for a task begins with it.
    """

    def __init__(self, width: int, *, pool: Pool = "first") -> None:
        nn.Module.__init__(self)
        self.pool: Pool = pool
        self.dense = nn.Sequential(nn.Linear(width, width), nn.Tanh())

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return self.dense(pooled(hidden, real, self.pool))


class BoundaryHead(Head):
    """Joshi et al. 2020 (SpanBERT), section 3.2: y_i = f(x_s-1, x_e+1, p_i-s+1) for token i of a span s .. e, where
    h = LayerNorm(GeLU(W1 [x; x; p])), y = LayerNorm(GeLU(W2 h)), and p is one vector for each place in a span.

    What stands at N tokens (N, D), to be multiplied with the table of tokens; `bias` (n,) is its own.
    """

    def __init__(self, width: int, *, n: int, longest: int = 20, d_position: int = 200) -> None:
        nn.Module.__init__(self)
        if min(n, longest, d_position) < 1:
            raise InputError(
                f"a head with n={n}, longest={longest} and d_position={d_position} cannot be; give 1 or more"
            )
        self.positions = Embedding(longest, d_position, scale=1.0)
        layers = [(nn.Linear(d, width), nn.GELU(), nn.LayerNorm(width)) for d in (2 * width + d_position, width)]
        self.layers = nn.Sequential(*layers[0], *layers[1])
        self.bias = nn.Parameter(torch.zeros(n))

    def forward(  # type: ignore[override]
        self, hidden: Tensor, real: Tensor, row: Tensor, before: Tensor, after: Tensor, at: Tensor
    ) -> Tensor:
        """Of N tokens (N,): the row, the places of the tokens before and after the span, and the place in it from 0."""
        ends = hidden[row, before], hidden[row, after]  # (N, D) each
        return self.layers(torch.cat([*ends, self.positions(at)], dim=1))


def pooled(hidden: Tensor, real: Tensor, pool: Pool) -> Tensor:
    """The state (B, D) that stands for each text; `real` (B, T) is True at its tokens, which stand on the left."""
    if pool == "mean":
        return mean(hidden, real)
    at = real.sum(dim=1).sub(1).clamp(min=0) if pool == "last" else torch.zeros_like(real[:, 0], dtype=torch.long)
    return hidden[torch.arange(len(hidden), device=hidden.device), at]


HEADS: dict[str, type[Head]] = {
    "classes": ClassHead,
    "number": NumberHead,
    "tags": TagHead,
    "spans": SpanHead,
    "pooled": PooledHead,
    "choices": ChoiceHead,
    "span_boundary": BoundaryHead,
}
