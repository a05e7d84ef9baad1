"""What every search returns and ranks by, and what may follow in a text: which tokens, how many, and when it ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from qkv.text.tokenizer import BOS, EOS, PAD, UNK

NEVER = torch.tensor([PAD, BOS, UNK])  # ids that no text holds
# forced: a text has an end; at its limit, which counts the end, it must come (a translation).
# cut: a text ends by itself, or is cut at its limit (a continuation). never: it is always cut there.
Ends = Literal["forced", "cut", "never"]
CONSTANT = 5.0  # of the length penalty
BLOCK = 64  # tokens of the vocabulary whose largest probability is found first


@dataclass(frozen=True)
class Hypothesis:
    """One way to go on from what is given."""

    tokens: list[int]  # without what they go on from, and without </s>
    score: float  # by which hypotheses are ranked: log_probability / length penalty
    log_probability: float  # of all tokens and of the end, if there is one
    ended: bool  # False if the limit was reached: the end was forced, or there is none


def length_penalty(length: int, alpha: float, constant: float = CONSTANT) -> float:
    """Wu et al. 2016, Eq. 14, with the constants of Vaswani et al. 2017: ((5 + length) / 6)^alpha.

    With another constant than 5: 0 gives length^alpha, by which Marian, CTranslate2 and transformers rank.
    """
    return float(((constant + length) / (constant + 1)) ** alpha)


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
    """The limit of each row, and the rules that all rows share; with `no_repeat` = n, no n tokens stand twice, and none
    ends before it has `at_least` so many tokens."""

    def __init__(
        self, limits: Sequence[int], no_repeat: int = 0, ends: Ends = "forced", at_least: int = 0,
        constant: float = CONSTANT,
    ) -> None:  # fmt: skip
        self.limits, self.soonest = torch.tensor(limits), min(limits)
        self.no_repeat, self.ends, self.at_least = no_repeat, ends, at_least
        self.constant = constant  # of the length penalty

    def last(self, rows: Tensor, length: int) -> Tensor | None:
        """Which of these rows (n,) now write their last token, the `length`-th; None: not one."""
        return self.limits[rows] <= length if self.soonest <= length else None

    def hypothesis(self, tokens: list[int], log_p: float, is_last: bool, alpha: float = 0.0) -> Hypothesis:
        """What is over after these tokens: the last one is the end, or stands at the limit."""
        is_end = tokens[-1] == EOS
        ended = is_end and not (is_last and self.ends == "forced")
        score = log_p / length_penalty(len(tokens), alpha, self.constant)
        return Hypothesis(tokens[:-1] if is_end else tokens, score, log_p, ended)

    def log_probabilities(self, logits: Tensor, tokens: Tensor, last: Tensor | None) -> Tensor:
        """log p of each next token (N, V) after those so far (N, t), the first of which was given, with what may not
        follow at -inf."""
        logits.index_fill_(1, NEVER.to(logits.device), -torch.inf)
        if self.ends == "never":
            logits[:, EOS] = -torch.inf
        elif tokens.size(1) <= self.at_least:  # but at its limit a text ends
            early = torch.ones(len(logits), dtype=torch.bool) if last is None else ~last
            logits[early.to(logits.device), EOS] = -torch.inf
        log_p = logits.float().log_softmax(dim=-1)
        if self.no_repeat:
            for row, banned in enumerate(repeating(tokens.tolist(), self.no_repeat)):
                log_p[row, banned] = -torch.inf
        if last is not None and self.ends == "forced":
            end = log_p[:, EOS].clone()
            log_p[last] = -torch.inf
            log_p[:, EOS] = end
        return log_p


def repeating(rows: list[list[int]], n: int) -> list[list[int]]:
    """For each row, the tokens that would complete a run of n tokens that the row already has."""
    banned = []
    for row in rows:
        last = row[len(row) - n + 1 :]
        starts = range(len(row) - n + 1)
        banned.append([row[i + n - 1] for i in starts if row[i : i + n - 1] == last])
    return banned


def loops(tokens: list[int], times: int = 4, longest: int = 8) -> bool:
    """Whether some run of up to `longest` tokens stands `times` times in a row."""
    for n in range(1, longest + 1):
        equal = 0
        for i in range(n, len(tokens)):
            equal = equal + 1 if tokens[i] == tokens[i - n] else 0
            if equal >= n * (times - 1):
                return True
    return False
