"""Hard attention: each query takes one key, or its few best, in place of a mixture of all."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from qkv.attention.soft import Soft
from qkv.errors import InputError
from qkv.positions import Places, Sizes


@dataclass(frozen=True)
class Choice:
    """What one hard attention has drawn for a batch, and how it wants to learn from it: see objectives.reinforce."""

    log_p: Tensor  # (B,): how probable the drawn keys were, over all queries and heads of a sentence
    entropy: Tensor  # (B,): of the weights they were drawn from, summed likewise
    baseline: nn.Parameter  # (): a moving mean of the reward, which the objective moves on
    reward_weight: float  # of the term in log_p
    entropy_weight: float  # of the term in entropy


DRAWN: ContextVar[list[Choice] | None] = ContextVar("drawn", default=None)


@contextmanager
def drawing() -> Iterator[list[Choice]]:
    """Within, what hard attentions draw is kept in the list, in their order."""
    choices: list[Choice] = []
    token = DRAWN.set(choices)
    try:
        yield choices
    finally:
        DRAWN.reset(token)


class Hard(Soft):
    """Xu et al. 2015, section 4.1, stochastic hard attention: a query takes one key, s ~ softmax(scores).

    In training it draws, in a share `sampling` of the batches, and has soft weights in the others; what was drawn goes
    to `drawing()`, from which the objective makes the REINFORCE term: `reward` and `entropy` are the weights of its
    parts. Otherwise it takes the best key. The numbers are those of the paper's own code (arctic-captions).
    """

    def __init__(
        self, sizes: Sizes, *, sampling: float = 0.5, entropy: float = 0.002, reward: float = 0.1,
        score: str = "scaled_dot", dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(sizes, score=score, dropout=dropout)
        if not 0 <= sampling <= 1:
            raise InputError(f"sampling={sampling} is not a share of the batches; give a number from 0 to 1")
        if entropy < 0 or reward < 0:
            raise InputError(f"entropy={entropy} and reward={reward} are weights of a loss; give 0 or more")
        self.sampling, self.entropy, self.reward = sampling, entropy, reward
        self.baseline = nn.Parameter(torch.zeros(()), requires_grad=False)  # no buffer: checkpoints carry parameters

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        if not self.training:
            return one_hot(scores, scores)
        weights = super().choose(scores, q, at)
        if torch.rand(()) >= self.sampling:
            return weights
        drawn = one_hot(noisy(scores), scores).to(weights.dtype)
        log_weights = weights.masked_fill(weights == 0, 1).log()  # 0 log 0 is 0
        log_p, entropy = ((x * log_weights).sum(dim=(1, 2, 3)) for x in (drawn, -weights))  # (B,)
        if (choices := DRAWN.get()) is not None:
            choices.append(Choice(log_p, entropy, self.baseline, self.reward, self.entropy))
        return drawn


def noisy(scores: Tensor) -> Tensor:
    """Scores with Gumbel noise: the largest is each key as often as softmax(scores) says (Gumbel 1954)."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))  # bfloat16 noise has too few values
    return wide - torch.empty_like(wide).exponential_().log()


def one_hot(values: Tensor, scores: Tensor) -> Tensor:
    """1 at each row's largest value, the first of equals; a row whose scores are all -inf gives zeros: (B, H, T, S)."""
    best = torch.zeros_like(scores).scatter(-1, values.argmax(dim=-1, keepdim=True), 1)
    return best.masked_fill(scores == -torch.inf, 0)


class StraightThrough(Soft):
    """Bengio et al. 2013: forward, a query takes its best key; backward, the gradient is that of soft attention.

    With `sample`, it draws the key in training (straight-through Gumbel-softmax: Jang et al. 2017, section 2.2). The
    gradient is biased, but needs no reward and no baseline. Without draws it never tries another key than its best,
    and can stop at a poor one.
    """

    def __init__(self, sizes: Sizes, *, sample: bool = False, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.sample = sample

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        values = noisy(scores) if self.sample and self.training else scores
        weights = super().choose(values, q, at)
        return one_hot(values, scores).to(weights.dtype) + (weights - weights.detach())  # the bracket is exactly 0


class TopK(Soft):
    """Zhao et al. 2019 (Explicit Sparse Transformer): softmax over a query's k best scores, nothing for other keys.

    Differs: of equal scores the first ones count, so that there are never more than k. (tensor2tensor's hard attention
    takes the k-th largest weight off all weights, which leaves k - 1 keys.)
    """

    def __init__(self, sizes: Sizes, *, k: int = 8, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if k < 1:
            raise InputError(f"the best k={k} keys are none; give a k of at least 1")
        self.k = k

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        order = scores.argsort(dim=-1, descending=True, stable=True)
        others = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order[..., self.k :], True)
        return super().choose(scores.masked_fill(others, -torch.inf), q, at)
