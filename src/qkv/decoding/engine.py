"""What does the searching: ids in, the best hypotheses for each row of them out."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol, TypedDict

from qkv.decoding.draws import RowNumber, check_sampling
from qkv.decoding.hypothesis import CONSTANT, Ends, Hypothesis, NextTokens
from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS, PAD, UNK

STEEPEST = 20  # the largest alpha: the penalty of a million tokens is still a number
TYPES: dict[Any, Any] = {int: Integral, float: Real, bool: bool}  # numpy's numbers are welcome


class Searching(TypedDict, total=False):
    """The fields of `Search`, as those who translate or generate give them: beam=5, sampling=True .."""

    beam: int  # hypotheses that are kept at each step; 1 is greedy
    alpha: float  # the length penalty: 0 for none, larger for longer texts
    n_best: int  # texts that are given back
    sampling: bool  # draw from the model's distribution instead of searching
    temperature: float  # with sampling: below 1 sharper, above 1 flatter
    top_k: int  # with sampling: only the k most probable tokens; 0 for all
    top_p: float  # with sampling: only the fewest tokens whose probabilities reach p
    seed: int
    no_repeat: int  # no run of so many tokens may come twice; 0: any may
    repetition_penalty: float  # above 1, what stands in a text already is less likely to come again
    at_least: int  # tokens that a text has before it may end
    constant: float  # of the length penalty; 0 for length^alpha
    ends: Ends
    prefix: tuple[int, ...]  # the tokens that every text begins with


@dataclass(frozen=True)
class Search:
    """How to look for a text: beam search, or greedy with beam=1, or sampling with a temperature."""

    beam: int = 5
    alpha: float = 1.0
    n_best: int = 1
    sampling: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    no_repeat: int = 0  # no run of so many tokens may come twice; 0: any may
    repetition_penalty: float = 1.0  # above 1, what stands in a text already is less likely to come again
    at_least: int = 0  # tokens that a text has before it may end
    constant: float = CONSTANT  # of the length penalty; 0 for length^alpha
    ends: Ends = "forced"
    prefix: tuple[int, ...] = ()  # the tokens that every text begins with

    def __post_init__(self) -> None:
        for name, kind in Searching.__annotations__.items():
            is_wanted, value = TYPES.get(kind, object), getattr(self, name)
            if not isinstance(value, is_wanted) or (kind is not bool and isinstance(value, bool)):
                raise InputError(f"{name} is {value!r:.40} ({type(value).__name__}); give it as {kind.__name__}")
        if self.beam < 1 or self.n_best < 1:
            raise InputError(f"beam={self.beam} and n_best={self.n_best} must be at least 1")
        if self.n_best > self.beam and not self.sampling:
            raise InputError(f"n_best={self.n_best} needs a beam of at least {self.n_best}, not {self.beam}")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed must be a number from 0 to 2**63 - 1, not {self.seed}")
        for name in ("no_repeat", "at_least"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be a number of tokens, or 0 for none, not {getattr(self, name)}")
        if not -STEEPEST <= self.alpha <= STEEPEST:  # nor NaN
            raise InputError(
                f"alpha must be a number such as 0.6 or 1, from {-STEEPEST} to {STEEPEST}, not {self.alpha}"
            )
        if not 0 < self.repetition_penalty < math.inf:
            found = self.repetition_penalty
            raise InputError(f"repetition_penalty must be a number above 0, such as 1.2, or 1 for none, not {found}")
        object.__setattr__(self, "prefix", tuple(self.prefix))  # JSON has lists
        if any(token in (PAD, BOS, EOS, UNK) for token in self.prefix):
            raise InputError(f"prefix={self.prefix} holds a token that stands for no word; give the tokens of a text")
        if not 0 <= self.constant < math.inf:
            raise InputError(f"constant must be a number of tokens from 0 on, such as 5, not {self.constant}")
        if self.sampling:
            check_sampling(self.temperature, self.top_k, self.top_p)


class Engine(Protocol):
    """Decodes a batch; the hypotheses of each row are the same whatever else is in the batch."""

    name: str

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        """The n best for each source (ids without the end) or prompt; at most limits[i] tokens, see `Constraints`.

        `rows` say what is drawn for each, see `sample`.
        """


class Streams(Engine, Protocol):
    """One that can also be watched while it writes."""

    def stream(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> Iterator[NextTokens]:
        """What `decode` gives, greedy or drawn, a token of each text at a time."""
