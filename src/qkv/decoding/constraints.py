"""What may follow in a text: which tokens, how many, and when it ends; and the best of what may."""

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.decoding.hypothesis import CONSTANT, NEVER, Ends, Hypothesis, over, repeating
from qkv.text.tokenizer import EOS

FORBIDDEN = torch.tensor(NEVER)
BLOCK = 64  # tokens of the vocabulary whose largest probability is found first


def best(log_p: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row of log p (N, V), largest first, and their tokens: both (N, k).

    As `topk` finds them, faster for many rows: they stand in the k blocks whose own largest is largest.
    """
    N, V = log_p.shape
    whole = V // BLOCK
    if N < 4 or whole <= 2 * k:
        return _top(log_p, min(k, V))
    blocks = log_p[:, : whole * BLOCK].view(N, whole, BLOCK)
    _, chosen = _top(blocks.amax(dim=2), k)  # (N, k)
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)  # (N, k * BLOCK)
    values, index = _top(torch.cat((inside, log_p[:, whole * BLOCK :]), dim=1), k)
    rest = index - k * BLOCK  # what stands after the last whole block
    tokens = chosen.gather(1, (index // BLOCK).clamp(max=k - 1)) * BLOCK + index % BLOCK
    return values, torch.where(rest >= 0, whole * BLOCK + rest, tokens)


def _top(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """topk; of one it is the maximum, which is faster and the first of equals."""
    largest, index = values.max(dim=1, keepdim=True) if k == 1 else values.topk(k, dim=1)
    return largest, index


class Constraints:
    """The limit of each row, and the rules that all rows share; with `no_repeat` = n, no n tokens stand twice, none
    ends before it has `at_least` so many tokens, and all begin with `prefix`, whatever the other rules say.

    `penalty` is that of Keskar et al. 2019 (CTRL), section 4.1: the logits of tokens that the text has already are
    divided by it. Differs: those below 0 are multiplied, or these tokens would become more likely.
    """

    def __init__(
        self, limits: Sequence[int], no_repeat: int = 0, ends: Ends = "forced", at_least: int = 0,
        prefix: Sequence[int] = (), constant: float = CONSTANT, penalty: float = 1.0,
    ) -> None:  # fmt: skip
        self.limits, self.soonest = torch.tensor(limits), min(limits)
        self.no_repeat, self.ends, self.at_least, self.prefix = no_repeat, ends, at_least, prefix
        self.constant, self.penalty = constant, penalty  # of length, and of repetition

    def last(self, rows: Tensor, length: int) -> Tensor | None:
        """Which of these rows (n,) now write their last token, the `length`-th; None: not one."""
        return self.limits[rows] <= length if self.soonest <= length else None

    def hypothesis(self, tokens: list[int], log_p: float, is_last: bool, alpha: float = 0.0) -> Hypothesis:
        """What is over after these tokens: the last one is the end, or stands at the limit."""
        return over(tokens, log_p, is_last, self.ends, alpha, self.constant)

    def log_probabilities(self, logits: Tensor, tokens: Tensor, last: Tensor | None) -> Tensor:
        """log p of each next token (N, V) after those so far (N, t), the first of which was given, with what may not
        follow at -inf."""
        logits.index_fill_(1, FORBIDDEN.to(logits.device), -torch.inf)
        if self.ends == "never":
            logits[:, EOS] = -torch.inf
        elif tokens.size(1) <= self.at_least:  # but at its limit a text ends
            early = torch.ones(len(logits), dtype=torch.bool) if last is None else ~last
            logits[early.to(logits.device), EOS] = -torch.inf
        if self.penalty != 1:
            own = tokens[:, 1:]  # (N, t - 1)
            old = logits.gather(1, own)
            logits.scatter_(1, own, torch.where(old > 0, old / self.penalty, old * self.penalty))
        log_p = logits.float().log_softmax(dim=-1)
        written = tokens.size(1) - 1
        given = log_p[:, self.prefix[written]].clone() if written < len(self.prefix) else None
        if self.no_repeat:
            for row, banned in enumerate(repeating(tokens.tolist(), self.no_repeat)):
                log_p[row, banned] = -torch.inf
        end = log_p[:, EOS].clone()
        if given is not None:
            log_p.fill_(-torch.inf)
            log_p[:, self.prefix[written]] = given
        if last is not None and self.ends == "forced":
            log_p[last] = -torch.inf
            log_p[last, EOS] = end[last]
        return log_p
