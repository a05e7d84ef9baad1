"""The searches by the native engine: what `decoding` finds, in C++, with a model's file."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from qkv.decoding.draws import RowNumber, uniform
from qkv.decoding.engine import Search, Spread, Work
from qkv.decoding.hypothesis import NEVER, Ends, Hypothesis, NextTokens, over
from qkv.engines.native.kept import threads
from qkv.engines.native.library import Native
from qkv.text.tokenizer import BOS, EOS

if TYPE_CHECKING:
    from qkv.decoding.plain import Plain
    from qkv.engines.native.asked import Floats, NativeFound
    from qkv.models import Model

NAMES = {8: "int8", 16: "float16", 32: "float32"}  # by the bits of a weight
ENDS: tuple[Ends, ...] = ("forced", "cut", "never")  # native/search.h, enum Ends


class NativeWriter:
    """The same searches as `Plain`, whose parts they are tested against; in 8 bits, in 16, or in float32 for tests.

    What is found for a text depends on nothing but the text, to the last bit of its score.
    """

    def __init__(
        self, model: "Model | None", native: Native, other: "Callable[[], Plain] | None" = None,
        *, has_prompts: bool = False,
    ) -> None:  # fmt: skip
        """`other` opens what does the rest, when there is some: sources that have no place in the file.

        The file is enough, and no model need be there; then `has_prompts` says whether it goes on from prompts.
        """
        if model is not None:
            from qkv.decoding.plain import Plain

            plain = Plain(model)
            other, has_prompts = other or (lambda: plain), plain.has_prompts
        assert other is not None
        self.name, self.model, self.native = NAMES[native.bits], model, native
        self.open_other, self.has_prompts = other, has_prompts

    @cached_property
    def other(self) -> "Plain":
        return self.open_other()

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        if not self.has_room(sources, limits) or how.repetition_penalty != 1:
            return self.other.decode(sources, limits, how, rows)
        beam = 1 if how.sampling else how.beam
        found = self.native.search(beam=beam, **self.asked(sources, limits, how, rows))
        return [self.ranked(*one, how) for one in zip(found, limits, strict=True)]

    def stream(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> Iterator[NextTokens]:
        """What `decode` gives, greedy or drawn, a token of each text at a time."""
        if not self.has_room(sources, limits) or how.repetition_penalty != 1:
            yield from self.other.stream(sources, limits, how, rows)
            return
        for numbers, tokens, done in self.native.stream(**self.asked(sources, limits, how, rows)):
            yield NextTokens(numbers, tokens, {
                row: over(text, log_p, len(text) >= limits[row // how.n_best], how.ends)
                for row, (text, log_p) in done.items()
            })  # fmt: skip

    def asked(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None
    ) -> dict[str, Any]:
        """What the engine is given."""
        more: dict[str, Any] = {"no_repeat": how.no_repeat, "ends": ENDS.index(how.ends), "at_least": how.at_least}
        if how.sampling:
            named = [(*row, i) for row in rows or [(i,) for i in range(len(sources))] for i in range(how.n_best)]
            numbers = uniform(how.seed, named, [limit for limit in limits for _ in range(how.n_best)])
            more |= {"numbers": numbers.reshape(len(sources), how.n_best, -1), "samples": how.n_best}
            more |= {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        return {
            "sources": sources if self.has_prompts else [[*ids, EOS] for ids in sources], "limits": limits,
            "first": BOS, "end": EOS, "never": NEVER, "prefix": how.prefix, "lists": self.lists(sources, how.prefix),
            "threads": threads(), **more,
        }  # fmt: skip

    def spread(self, work: Work, count: int) -> Spread | None:
        """It has threads of its own."""
        return None

    def lists(self, sources: list[list[int]], prefix: Sequence[int] = ()) -> Sequence[Sequence[int]] | None:
        """The tokens that the translation of each may use, if not all."""
        return None

    @property
    def memory_layers(self) -> int:
        """Layers of the decoder that attend to the source."""
        return self.native.memory_layers

    def attention(self, sources: list[list[int]], targets: list[list[int]], layer: int) -> "list[Floats]":
        """How much each head of a layer of the decoder, counted from 0, looks at each source token and its end, before
        it writes each target token and the end: (H, T + 1, S + 1) for each pair of ids without ends."""
        read, written = [[*ids, EOS] for ids in sources], [[BOS, *ids] for ids in targets]
        return self.native.attention(read, written, layer, threads=threads())

    def has_room(self, sources: list[list[int]], limits: list[int]) -> bool:
        """Whether all that is read and written has a place in the model's file; after prompts, texts slide."""
        return self.has_prompts or max(max(len(ids) + 1 for ids in sources), *limits) <= self.native.places

    def ranked(self, found: "NativeFound", limit: int, how: Search) -> list[Hypothesis]:
        """The n best, by log p and the length penalty of a beam."""
        alpha = how.alpha if how.beam > 1 and not how.sampling else 0.0
        pairs = zip(found.texts, found.log_p, strict=True)
        every = [over(tokens, log_p, len(tokens) >= limit, how.ends, alpha, how.constant) for tokens, log_p in pairs]
        return sorted(every, key=lambda h: -h.score)[: how.n_best]
