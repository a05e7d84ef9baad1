"""What every search returns and ranks by, how a text may end, and what is wrong with one: no numbers of a model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from qkv.text.tokenizer import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from array import array

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

NEVER = (PAD, BOS, UNK)  # ids that no text holds
# forced: a text has an end; at its limit, which counts the end, it must come (a translation).
# cut: a text ends by itself, or is cut at its limit (a continuation). never: it is always cut there.
Ends = Literal["forced", "cut", "never"]


@dataclass(frozen=True)
class Hypothesis:
    """One way to go on from what is given."""

    tokens: list[int]  # without what they go on from, and without </s>
    score: float  # by which hypotheses are ranked: log_probability / length penalty
    log_probability: float  # of all tokens and of the end, if there is one
    ended: bool  # False if the limit was reached: the end was forced, or there is none


class NextTokens(NamedTuple):
    """One step: a token for each row that goes on, and what has ended with it, by the number of its row."""

    rows: "Tensor | NDArray[np.int32] | array[int]"  # (n,): the numbers of those rows
    tokens: "Tensor | NDArray[np.int32] | array[int]"  # (n,)
    done: dict[int, Hypothesis]


def length_penalty(length: int, alpha: float) -> float:
    """Wu et al. 2016, Eq. 14, with the constants of Vaswani et al. 2017: ((5 + length) / 6)^alpha."""
    return float(((5 + length) / 6) ** alpha)


def over(tokens: list[int], log_p: float, is_last: bool, ends: Ends, alpha: float = 0.0) -> Hypothesis:
    """What is over after these tokens: the last one is the end, or stands at the limit."""
    is_end = tokens[-1] == EOS
    ended = is_end and not (is_last and ends == "forced")
    return Hypothesis(tokens[:-1] if is_end else tokens, log_p / length_penalty(len(tokens), alpha), log_p, ended)


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
