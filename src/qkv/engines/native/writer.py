"""The searches by the native engine: what `decoding` finds, in C++, with a model's file."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from qkv.decoding.draws import RowNumber, uniform
from qkv.decoding.engine import Search, Spread, Work
from qkv.decoding.hypothesis import NEVER, Ends, Hypothesis, NextTokens, over
from qkv.engines.native.kept import threads
from qkv.engines.native.library import Native, NativeFound
from qkv.text.tokenizer import BOS, EOS

if TYPE_CHECKING:
    from qkv.decoding.plain import Plain
    from qkv.models import Model

ENDS: tuple[Ends, ...] = ("forced", "cut", "never")  # native/search.h, enum Ends


class NativeWriter:
    """The same searches as `Plain`, whose parts they are tested against; in 8 bits, or float32 for tests.

    What is found for a text depends on nothing but the text, to the last bit of its score.
    """

    name = "int8"

    def __init__(
        self, model: "Model | None", native: Native, other: "Callable[[], Plain] | None" = None,
        *, has_prompts: bool = False,
    ) -> None:  # fmt: skip
        """`other` opens what does the rest, when there is some: texts that outgrow their context.

        The file is enough, and no model need be there; then `has_prompts` says whether it goes on from prompts.
        """
        if model is not None:
            from qkv.decoding.plain import Plain

            plain = Plain(model)
            other, has_prompts = other or (lambda: plain), plain.has_prompts
        assert other is not None
        self.model, self.native, self.open_other, self.has_prompts = model, native, other, has_prompts

    @cached_property
    def other(self) -> "Plain":
        return self.open_other()

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        if how.at_least or not self.has_room(sources, limits):
            return self.other.decode(sources, limits, how, rows)
        given = sources if self.has_prompts else [[*ids, EOS] for ids in sources]
        more: dict[str, Any] = {"no_repeat": how.no_repeat, "ends": ENDS.index(how.ends)}
        if how.sampling:
            named = [(*row, i) for row in rows or [(i,) for i in range(len(sources))] for i in range(how.n_best)]
            numbers = uniform(how.seed, named, [limit for limit in limits for _ in range(how.n_best)])
            more |= {"numbers": numbers.reshape(len(sources), how.n_best, -1), "samples": how.n_best}
            more |= {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        found = self.native.search(
            given, limits, first=BOS, end=EOS, never=NEVER, threads=threads(),
            beam=1 if how.sampling else how.beam, lists=self.lists(sources), **more,
        )  # fmt: skip
        return [self.ranked(*one, how) for one in zip(found, limits, strict=True)]

    def spread(self, work: Work, count: int) -> Spread | None:
        """It has threads of its own."""
        return None

    def lists(self, sources: list[list[int]]) -> Sequence[Sequence[int]] | None:
        """The tokens that the translation of each may use, if not all."""
        return None

    def stream(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> Iterator[NextTokens]:
        """A token of each text at a time, once all of them are written: what `decode` gives, and as soon."""
        if not self.has_room(sources, limits):
            yield from self.other.stream(sources, limits, how, rows)
            return
        found = [(one, limit) for some, limit in zip(self.decode(sources, limits, how, rows), limits, strict=True)
                 for one in some]  # fmt: skip
        texts = [[*one.tokens, EOS][:limit] for one, limit in found]
        for step in range(max(map(len, texts))):
            here = [row for row, tokens in enumerate(texts) if len(tokens) > step]
            done = {row: found[row][0] for row in here if len(texts[row]) == step + 1}
            yield NextTokens(array("i", here), array("i", [texts[row][step] for row in here]), done)

    def has_room(self, sources: list[list[int]], limits: list[int]) -> bool:
        """Whether all that is read and written has a place in the model's file."""
        if self.has_prompts:
            return all(len(ids) + limit - 1 <= self.native.places for ids, limit in zip(sources, limits, strict=True))
        return max(max(len(ids) + 1 for ids in sources), *limits) <= self.native.places

    def ranked(self, found: NativeFound, limit: int, how: Search) -> list[Hypothesis]:
        """The n best, by log p and the length penalty of a beam."""
        alpha = how.alpha if how.beam > 1 and not how.sampling else 0.0
        pairs = zip(found.texts, found.log_p, strict=True)
        every = [over(tokens, log_p, len(tokens) >= limit, how.ends, alpha) for tokens, log_p in pairs]
        return sorted(every, key=lambda h: -h.score)[: how.n_best]
