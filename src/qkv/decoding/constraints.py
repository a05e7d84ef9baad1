"""What may follow in a text: which tokens, how many of them, and when it must end."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from qkv.text.tokenizer import BOS, EOS, PAD, UNK

NEVER = torch.tensor([PAD, BOS, UNK])  # ids that no text holds
# forced: a text has an end; at its limit, which counts the end, it must come (a translation).
# cut: a text ends by itself, or is cut at its limit (a continuation). never: it is always cut there.
Ends = Literal["forced", "cut", "never"]


class Constraints:
    """The limit of each row, and the rules that all rows share; with `no_repeat` = n, no n tokens stand twice."""

    def __init__(self, limits: Sequence[int], no_repeat: int = 0, ends: Ends = "forced") -> None:
        self.limits, self.soonest = torch.tensor(limits), min(limits)
        self.no_repeat, self.ends = no_repeat, ends

    def last(self, rows: Tensor, length: int) -> Tensor | None:
        """Which of these rows (n,) now write their last token, the `length`-th; None: not one."""
        return self.limits[rows] <= length if self.soonest <= length else None

    def log_probabilities(self, logits: Tensor, tokens: Tensor, last: Tensor | None) -> Tensor:
        """log p of each next token (N, V) after those so far (N, t), with what may not follow at -inf."""
        logits.index_fill_(1, NEVER.to(logits.device), -torch.inf)
        if self.ends == "never":
            logits[:, EOS] = -torch.inf
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
