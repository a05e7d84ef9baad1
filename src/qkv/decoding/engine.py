"""What does the searching: ids in, the best hypotheses for each row of them out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol, TypedDict, cast

import torch
from torch import Tensor

from qkv.decoding.beam import beam_search
from qkv.decoding.greedy import Choose, NextTokens, collected, most_probable, one_by_one
from qkv.decoding.hypothesis import Constraints, Ends, Hypothesis
from qkv.decoding.sampling import RowNumber, check_sampling, drawing, uniform
from qkv.decoding.sliding import Sliding
from qkv.errors import InputError
from qkv.models import CausalBackbone, Model, Writes
from qkv.text.tokenizer import EOS, PAD

STEEPEST = 20  # the largest alpha: the penalty of a million tokens is still a number
TYPES: dict[Any, Any] = {int: Integral, float: Real, bool: bool}  # numpy's numbers are welcome
Work = Callable[[Any], Any]  # what JSON can hold, in and out
Spread = Callable[[Sequence[Any]], list[Any]]  # pieces of work, done side by side -> their results, in order


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
    at_least: int  # tokens that a text has before it may end
    ends: Ends


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
    at_least: int = 0  # tokens that a text has before it may end
    ends: Ends = "forced"

    def __post_init__(self) -> None:
        for name, kind in Searching.__annotations__.items():
            is_wanted, value = TYPES.get(kind, object), getattr(self, name)
            if not isinstance(value, is_wanted) or (kind is not bool and isinstance(value, bool)):
                raise InputError(f"{name} is {value!r:.40}, a {type(value).__name__}; give a {kind.__name__}")
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

    def spread(self, work: Work, count: int) -> Spread | None:
        """A way to do `count` pieces of work at a time; None if there is none."""


class Plain:
    """Our own searches on a model as it is: the reference that every other engine is measured against."""

    name = "plain"

    def __init__(self, model: Model, decoder: Writes | None = None) -> None:
        """`decoder` is what writes in the model's place."""
        self.model, self.decoder = model, decoder or cast(Writes, model)
        self.has_prompts = isinstance(model, CausalBackbone)  # it goes on from prompts, and does not translate

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        if how.beam > 1 and not how.sampling:
            writer, given = self.writer(sources, limits), self.given(sources)
            rules: dict[str, Any] = {"no_repeat": how.no_repeat, "ends": how.ends, "at_least": how.at_least}
            found = beam_search(writer, given, limits, beam=how.beam, alpha=how.alpha, **rules)
            return [some[: how.n_best] for some in found]
        every, n = collected(self.stream(sources, limits, how, rows)), how.n_best
        return [sorted(every[i : i + n], key=lambda h: -h.score) for i in range(0, len(every), n)]

    def stream(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> Iterator[NextTokens]:
        """What `decode` gives, greedy or drawn, a token of each text at a time: n_best texts of a source stand side by
        side."""
        writer, given, n = self.writer(sources, limits), self.given(sources), how.n_best
        named = [(*row, i) for row in rows or [(i,) for i in range(len(sources))] for i in range(n)]
        limits = [limit for limit in limits for _ in range(n)]
        return one_by_one(writer, given.repeat_interleave(n, dim=0), *rules_of(how, named, limits))

    def writer(self, sources: list[list[int]], limits: list[int]) -> Writes:
        """What writes; after prompts, a text may outgrow the context. Its last token is not read."""
        context = self.model.config.max_length
        outgrows = any(len(ids) + limit - 1 > context for ids, limit in zip(sources, limits, strict=True))
        return Sliding(self.decoder, context) if self.has_prompts and outgrows else self.decoder

    def given(self, sources: list[list[int]]) -> Tensor:
        device = next(self.model.parameters()).device
        return padded_left(sources, device) if self.has_prompts else padded(sources, device)

    def spread(self, work: Work, count: int) -> Spread | None:
        """What hooks watch must happen here, one piece after another."""
        return None


def rules_of(how: Search, rows: Sequence[RowNumber], limits: list[int]) -> tuple[Constraints, Choose]:
    """What may follow in each row, and which of it is chosen: the most probable, or what is drawn."""
    choose: Choose = most_probable
    if how.sampling:
        choose = drawing(how.temperature, how.top_k, how.top_p, uniform(how.seed, rows, limits))
    return Constraints(limits, how.no_repeat, how.ends, how.at_least), choose


def padded(sources: list[list[int]], device: torch.device | str = "cpu") -> Tensor:
    """(B, S): each source with its end, filled up at the right."""
    width = max(len(ids) for ids in sources) + 1
    return torch.tensor([[*ids, EOS] + [PAD] * (width - 1 - len(ids)) for ids in sources], device=device)


def padded_left(prompts: list[list[int]], device: torch.device | str = "cpu") -> Tensor:
    """(B, T): each prompt as it is, filled up at the left."""
    width = max(len(ids) for ids in prompts)
    return torch.tensor([[PAD] * (width - len(ids)) + ids for ids in prompts], device=device)
