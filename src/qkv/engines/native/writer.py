"""The searches by the native engine: what `decoding` finds, in C++, with a model's file."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from qkv.decoding.draws import RowNumber, uniform
from qkv.decoding.engine import Search
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
    """The same searches as `Plain`, whose parts they are tested against; in 8 bits, in 16, or in float32.

    What is found for a text depends on nothing but the text, to the last bit of its score.
    """

    def __init__(
        self, loaded: "Callable[[], Model]", native: Native, *, has_prompts: bool, source_end: bool = True,
        workers: int = 0,
    ) -> None:  # fmt: skip
        """The file is enough: the model itself, which `loaded` gives, does the rest, sources that have no place in it.

        `has_prompts`: it goes on from them, and does not translate; `source_end`: a source is read with its end;
        `workers` are threads, and 0 stands for as many as torch takes.
        """
        self.name, self.loaded, self.native, self.workers = NAMES[native.bits], loaded, native, workers
        self.has_prompts, self.source_end = has_prompts, source_end

    @classmethod
    def of(cls, model: "Model", native: Native, workers: int = 0) -> Self:
        """... of a model that is there."""
        from qkv.models import CausalBackbone

        has_prompts, source_end = isinstance(model, CausalBackbone), bool(getattr(model.config, "source_end", True))
        return cls(lambda: model, native, has_prompts=has_prompts, source_end=source_end, workers=workers)

    @cached_property
    def plain(self) -> "Plain":
        from qkv.decoding.plain import Plain

        return Plain(self.loaded())

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        if not self.has_room(sources, limits) or how.repetition_penalty != 1:
            return self.plain.decode(sources, limits, how, rows)
        beam = 1 if how.sampling else how.beam
        found = self.native.search(beam=beam, **self.asked(sources, limits, how, rows))
        return [self.ranked(*one, how) for one in zip(found, limits, strict=True)]

    def stream(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> Iterator[NextTokens]:
        """What `decode` gives, greedy or drawn, a token of each text at a time."""
        if not self.has_room(sources, limits) or how.repetition_penalty != 1:
            yield from self.plain.stream(sources, limits, how, rows)
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
            "sources": sources if self.has_prompts else self.read(sources), "limits": limits,
            "first": BOS, "end": EOS, "never": NEVER, "prefix": how.prefix, "lists": self.lists(sources, how.prefix),
            "threads": self.workers or threads(), **more,
        }  # fmt: skip

    def read(self, sources: list[list[int]]) -> list[list[int]]:
        """As the encoder reads them."""
        return [[*ids, EOS] for ids in sources] if self.source_end else sources

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
        read, written = self.read(sources), [[BOS, *ids] for ids in targets]
        found = self.native.attention(read, written, layer, threads=self.workers or threads())
        if self.source_end:
            return found
        import numpy as np

        # Nobody looks at an end that is not read.
        return [np.pad(weights, ((0, 0), (0, 0), (0, 1))) for weights in found]

    def has_room(self, sources: list[list[int]], limits: list[int]) -> bool:
        """Whether all that is read and written has a place in the model's file; after prompts, texts slide."""
        longest = max(max(len(ids) + 1 for ids in sources), *limits)
        return self.has_prompts or (longest <= self.native.places and (self.source_end or all(sources)))

    def ranked(self, found: "NativeFound", limit: int, how: Search) -> list[Hypothesis]:
        """The n best, by log p and the length penalty of a beam."""
        alpha = how.alpha if how.beam > 1 and not how.sampling else 0.0
        pairs = zip(found.texts, found.log_p, strict=True)
        every = [over(tokens, log_p, len(tokens) >= limit, how.ends, alpha, how.constant) for tokens, log_p in pairs]
        return sorted(every, key=lambda h: -h.score)[: how.n_best]
