"""What every search returns, and what every search has in common."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.text.tokenizer import BOS, EOS, PAD, UNK

NEVER = torch.tensor([PAD, BOS, UNK])  # ids that no translation holds
BLOCK = 64  # tokens of the vocabulary whose largest probability is found first


@dataclass(frozen=True)
class Hypothesis:
    """One way to go on from a source sentence."""

    tokens: list[int]  # without <s> and </s>
    score: float  # by which hypotheses are ranked: log_probability / length penalty
    log_probability: float  # of all tokens and the end
    ended: bool  # False if the end was forced, since the limit was reached


def length_penalty(length: int, alpha: float) -> float:
    """Wu et al. 2016, Eq. 14, with the constants of Vaswani et al. 2017: ((5 + length) / 6)^alpha."""
    return float(((5 + length) / 6) ** alpha)


def next_log_probabilities(logits: Tensor, tokens: Tensor, must_end: Tensor | None, no_repeat: int) -> Tensor:
    """log p of each next token (N, V), with what may not follow at -inf.

    `tokens` (N, t) are those so far, with <s>; rows of `must_end` may only end (None: no row must); with `no_repeat` =
    n, no n tokens may stand twice in a row of tokens.
    """
    logits.index_fill_(1, NEVER.to(logits.device), -torch.inf)
    log_p = logits.float().log_softmax(dim=-1)
    if no_repeat:
        for row, banned in enumerate(_repeating(tokens.tolist(), no_repeat)):
            log_p[row, banned] = -torch.inf
    if must_end is not None:
        end = log_p[:, EOS].clone()
        log_p[must_end] = -torch.inf
        log_p[:, EOS] = end
    return log_p


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


def _repeating(rows: list[list[int]], n: int) -> list[list[int]]:
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
