"""The searches by the native engine: what `decoding` finds, in C++, with a model's file."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch

from qkv.decoding.engine import Plain, Search
from qkv.decoding.greedy import NextTokens
from qkv.decoding.hypothesis import NEVER, Constraints, Ends, Hypothesis
from qkv.decoding.sampling import RowNumber, uniform
from qkv.engines.native.library import Native, NativeFound
from qkv.models import Model
from qkv.text.tokenizer import BOS, EOS

ENDS: tuple[Ends, ...] = ("forced", "cut", "never")  # native/search.h, enum Ends


class NativeWriter(Plain):
    """The same searches as `Plain`, whose parts they are tested against; in 8 bits, or float32 for tests.

    What is found for a text depends on nothing but the text, to the last bit of its score.
    """

    name = "int8"

    def __init__(self, model: Model, native: Native, other: Callable[[], Plain] | None = None) -> None:
        """`other` opens what does the rest, when there is some: texts that outgrow their context, and streams."""
        super().__init__(model)
        self.native, self.open_other = native, other or (lambda: Plain(model))

    @cached_property
    def other(self) -> Plain:
        return self.open_other()

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        if not self.has_room(sources, limits):
            return self.other.decode(sources, limits, how, rows)
        given = sources if self.has_prompts else [[*ids, EOS] for ids in sources]
        more: dict[str, Any] = {"no_repeat": how.no_repeat, "ends": ENDS.index(how.ends)}
        if how.sampling:
            named = [(*row, i) for row in rows or [(i,) for i in range(len(sources))] for i in range(how.n_best)]
            numbers = uniform(how.seed, named, [limit for limit in limits for _ in range(how.n_best)])
            more |= {"numbers": numbers.numpy().reshape(len(sources), how.n_best, -1), "samples": how.n_best}
            more |= {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        found = self.native.search(
            given, limits, first=BOS, end=EOS, never=NEVER.tolist(), threads=torch.get_num_threads(),
            beam=1 if how.sampling else how.beam, lists=self.lists(sources), **more,
        )  # fmt: skip
        rules = Constraints(limits, how.no_repeat, how.ends, constant=how.constant)
        return [self.ranked(rules, *one, how) for one in zip(found, limits, strict=True)]

    def lists(self, sources: list[list[int]]) -> Sequence[Sequence[int]] | None:
        """The tokens that the translation of each may use, if not all."""
        return None

    def stream(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> Iterator[NextTokens]:
        return self.other.stream(sources, limits, how, rows)

    def has_room(self, sources: list[list[int]], limits: list[int]) -> bool:
        """Whether all that is read and written has a place in the model's file."""
        if self.has_prompts:
            return all(len(ids) + limit - 1 <= self.native.places for ids, limit in zip(sources, limits, strict=True))
        return max(max(len(ids) + 1 for ids in sources), *limits) <= self.native.places

    def ranked(self, rules: Constraints, found: NativeFound, limit: int, how: Search) -> list[Hypothesis]:
        """The n best, by log p and the length penalty of a beam."""
        alpha = how.alpha if how.beam > 1 and not how.sampling else 0.0
        pairs = zip(found.texts, found.log_p, strict=True)
        every = [rules.hypothesis(tokens, log_p, len(tokens) >= limit, alpha) for tokens, log_p in pairs]
        return sorted(every, key=lambda h: -h.score)[: how.n_best]
