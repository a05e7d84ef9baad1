"""What stands on a backbone to answer a question: states of tokens (B, T, D) in, an answer out."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention.pooling import Pooling, mean
from qkv.errors import InputError, nearest
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import Embedding
from qkv.layers.recurrent import Recurrence
from qkv.layers.stack_config import StackConfig
from qkv.text.frames import Pool

WIDTHS = {"concat": 3}  # of what stands for a text, in widths of a state
DENSE: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
}
MOMENTUM = 0.1  # of the batch norms, as torch has it


class Head(nn.Module):
    """One linear layer over what `hidden` (B, T, D) says of some tokens; `real` (B, T) is True at those of the text."""

    of_pairs: ClassVar[bool] = False  # whether it is also told which tokens are of the second text
    names_classes: ClassVar[bool] = False  # whether what it says of a text, (B, n), are the logits of n classes

    def __init__(self, width: int, *, n: int, dropout: float = 0.1) -> None:
        super().__init__()
        if n < 1 or not 0 <= dropout < 1:
            raise InputError(f"a head with n={n} and dropout={dropout} cannot be; give n >= 1 and 0 <= dropout < 1")
        self.dropout, self.output = Dropout(dropout), nn.Linear(width, n)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        raise NotImplementedError


class ClassHead(Head):
    """Radford et al. 2018, section 3.2: softmax(h W) over n classes, h the state of one token; as logits (B, n).

    `pool` says what stands for the text: the state of its last token (GPT), of its first (BERT), the mean of all, or
    the last, the largest and the mean side by side, `concat` (ULMFiT). With `dense`, BERT's pooler, tanh(h V + b),
    stands before it; `activation` names what takes the place of tanh: relu (DistilBERT) or gelu_tanh (BigBird).
    """

    names_classes = True

    def __init__(
        self, width: int, *, n: int, pool: Pool = "last", dense: bool = False, activation: str = "tanh",
        dropout: float = 0.1,
    ) -> None:  # fmt: skip
        width *= WIDTHS.get(pool, 1)
        super().__init__(width, n=n, dropout=dropout)
        self.pool: Pool = pool
        self.dense = nn.Sequential()
        if activation not in DENSE:
            raise InputError(f"a head has no activation {activation!r}; {nearest(activation, DENSE)}")
        if dense:
            self.dense = nn.Sequential(nn.Linear(width, width), DENSE[activation]())

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return self.output(self.dropout(self.dense(pooled(hidden, real, self.pool))))


class BatchNorm(nn.Module):
    """Ioffe & Szegedy 2015: y = g (x - mean) / sqrt(variance + eps) + b over the rows of a batch x (B, D); what is read
    by itself is normalised by a moving mean of these.

    As torch's. Differs: the moving means are parameters that nobody learns, as model folders hold parameters; and a
    batch of one row, which has no variance, is normalised by them in training too.
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps
        self.mean = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(width), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        of_batch = self.training and len(x) > 1
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, of_batch, MOMENTUM, self.eps)


class ConcatHead(Head):
    """Howard & Ruder 2018 (ULMFiT), section 3.3: [h_T; maxpool(H); meanpool(H)], then two blocks of batch norm, dropout
    and a linear layer, with a ReLU between them; logits (B, n).

    Sizes and dropouts are those of the authors' code.
    """

    names_classes = True

    def __init__(
        self, width: int, *, n: int, hidden: int = 50, dropout: float = 0.4, last_dropout: float = 0.1
    ) -> None:
        super().__init__(hidden, n=n, dropout=last_dropout)
        if hidden < 1 or not 0 <= dropout < 1:
            raise InputError(
                f"a head with hidden={hidden} and dropout={dropout} cannot be; give 1 or more, and below 1"
            )
        wide = 3 * width
        self.block = nn.Sequential(BatchNorm(wide), Dropout(dropout), nn.Linear(wide, hidden), nn.ReLU())
        self.norm = BatchNorm(hidden)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return self.output(self.dropout(self.norm(self.block(pooled(hidden, real, "concat")))))


class AttentionHead(Head):
    """Chronopoulou et al. 2019 (SiATL), section 3.2: an LSTM of the task's own over the states of the language model,
    and a self-attention with one learned query over its states; logits (B, n)."""

    names_classes = True

    def __init__(self, width: int, *, n: int, d_hidden: int = 100, dropout: float = 0.3) -> None:
        super().__init__(d_hidden, n=n, dropout=dropout)
        if d_hidden < 1:
            raise InputError(f"a head with d_hidden={d_hidden} cannot be; give 1 or more")
        self.recurrence = Recurrence("lstm", width, d_hidden, layers=1)
        self.pooling = Pooling(StackConfig(d_model=d_hidden, n_heads=1), d_hidden)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        states, _ = self.recurrence(hidden)  # (B, T, d_hidden); padding stands on the right, where nothing sees it
        return self.output(self.dropout(self.pooling(self.dropout(states), real)))


class NumberHead(ClassHead):
    """Devlin et al. 2019, section 4.1 (STS-B): one number for a text, by a class of its own; (B,)."""

    names_classes = False

    def __init__(
        self, width: int, *, pool: Pool = "last", dense: bool = False, activation: str = "tanh", dropout: float = 0.1
    ) -> None:
        super().__init__(width, n=1, pool=pool, dense=dense, activation=activation, dropout=dropout)

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


class AnswerNetwork(Head):
    """Liu et al. 2019 (MT-DNN), section 3: a stochastic answer network (Liu et al. 2018) names one of n classes of two
    texts in k turns; as log-probabilities (B, n).

    With m_j the states of the first text and h_j those of the second: s_1 = sum_j a_j h_j where a = softmax(w . h_j);
    in turn k, x = sum_j b_j m_j where b = softmax(s_k W m_j), p_k = softmax(V [s_k; x; |s_k - x|; s_k * x]), and
    s_k+1 = GRU(x, s_k). The answer is the log of the mean of all p_k. In training each turn is left out of the mean
    with the probability `dropping`; one of them, drawn for each example, always stays.

    Differs: in the paper p_k reads the state that the GRU makes of x; here, as in the authors' code, the one before.
    """

    names_classes = True
    of_pairs = True

    def __init__(self, width: int, *, n: int, turns: int = 5, dropping: float = 0.1, dropout: float = 0.1) -> None:
        super().__init__(4 * width, n=n, dropout=dropout)
        if turns < 1 or not 0 <= dropping < 1:
            raise InputError(
                f"an answer in turns={turns}, dropping={dropping} cannot be; give 1 turn or more and 0 <= dropping < 1"
            )
        self.turns, self.dropping = turns, dropping
        self.first = nn.Linear(width, 1, bias=False)
        self.attend = nn.Linear(width, width, bias=False)
        self.next = nn.GRUCell(width, width)

    def forward(self, hidden: Tensor, real: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]
        """`second` (B, T) is True at the tokens of the second text, and perhaps at padding."""
        s = weighed(self.first(hidden)[:, :, 0], hidden, real & second)  # (B, D)
        said = list[Tensor]()
        for turn in range(self.turns):
            x = weighed((hidden @ self.attend(s)[:, :, None])[:, :, 0], hidden, real & ~second)  # (B, D)
            both = torch.cat([s, x, (s - x).abs(), s * x], dim=1)  # (B, 4 D)
            said.append(self.output(self.dropout(both)).log_softmax(dim=1))
            s = self.next(x, self.dropout(s)) if turn + 1 < self.turns else s
        kept = self.kept(hidden)  # (B, turns)
        log_p = torch.stack(said, dim=2).masked_fill(~kept[:, None], -torch.inf)  # (B, n, turns)
        return log_p.logsumexp(dim=2) - kept.sum(dim=1, keepdim=True).log()

    def kept(self, hidden: Tensor) -> Tensor:
        """The turns (B, turns) whose answers count: all of them, but in training."""
        kept = torch.ones(len(hidden), self.turns, dtype=torch.bool, device=hidden.device)
        if self.training and self.dropping:
            kept = torch.rand(kept.shape, device=hidden.device) >= self.dropping
            kept |= F.one_hot(torch.randint(self.turns, (len(hidden),), device=hidden.device), self.turns).bool()
        return kept


def weighed(scores: Tensor, hidden: Tensor, mask: Tensor) -> Tensor:
    """The sum of states by the softmax of their scores (B, T) where `mask` is True: (B, D); zeros if it nowhere is."""
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=1).nan_to_num()  # a row of -inf alone would be nan
    return (weights[:, None] @ hidden)[:, 0]


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
    """What stands for each text, (B, D), or (B, 3 D) of `concat`: its last state, the largest value of each column, and
    the mean. `real` (B, T) is True at the tokens of the text, which stand on the left."""
    if pool == "mean":
        return mean(hidden, real)
    if pool == "concat":
        largest = hidden.masked_fill(~real[:, :, None], -torch.inf).amax(dim=1)
        largest = largest.masked_fill(~real.any(dim=1, keepdim=True), 0)  # of a text of nothing
        return torch.cat([pooled(hidden, real, "last"), largest, mean(hidden, real)], dim=1)
    if pool == "first":
        return hidden[:, 0]
    at = real.sum(dim=1).sub(1).clamp(min=0)  # (B,)
    return hidden.gather(1, at[:, None, None].expand(-1, 1, hidden.size(2)))[:, 0]


HEADS: dict[str, type[Head]] = {
    "classes": ClassHead,
    "concat_classes": ConcatHead,
    "attention_classes": AttentionHead,
    "number": NumberHead,
    "tags": TagHead,
    "spans": SpanHead,
    "san": AnswerNetwork,
    "pooled": PooledHead,
    "choices": ChoiceHead,
    "span_boundary": BoundaryHead,
}
