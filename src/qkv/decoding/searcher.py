"""From ids to hypotheses, however many: in batches of like length."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from qkv.decoding.draws import RowNumber
from qkv.decoding.engine import Engine, Search
from qkv.decoding.hypothesis import Hypothesis, loops
from qkv.folder import About, Loaded, in_brief
from qkv.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from qkv.models import Model

CELLS = 2**14  # tokens x beams of one batch
BLOCK = 3  # no run of so many tokens may come twice when a sentence that looped is decoded again


class Searched(NamedTuple):
    hypotheses: list[Hypothesis]
    looped: bool  # the first attempt repeated itself; these are the second, without repetitions


class Wanted(NamedTuple):
    """One text to be found: what it goes on from, how many tokens it may have, and what is drawn for it."""

    source: list[int]
    limit: int
    row: RowNumber


class Searcher:
    """Ids in, hypotheses out: the same whatever the batches are."""

    catches_loops = False  # decode once more what runs in a loop that its source does not have

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def search(
        self, sources: list[list[int]], limits: list[int], how: Search,
        *, rows: Sequence[RowNumber] | None = None, sizes: list[int] | None = None,
    ) -> list[Searched]:  # fmt: skip
        """Hypotheses for each source, with at most limits[i] tokens; `sizes` are the tokens that a batch counts."""
        named: Sequence[RowNumber] = rows or [(i,) for i in range(len(sources))]
        wanted = [Wanted(*one) for one in zip(sources, limits, named, strict=True)]
        numbers = by_length(sizes or [len(ids) + 1 for ids in sources], CELLS // how.beam)
        results = chain.from_iterable(self.decode([wanted[i] for i in some], how) for some in numbers)
        found = dict(zip(chain.from_iterable(numbers), results, strict=True))
        return [found[i] for i in range(len(sources))]

    def decode(self, batch: list[Wanted], how: Search) -> list[Searched]:
        results, second = self.hypotheses(batch, how), dict[int, list[Hypothesis]]()
        loop = [i for i, found in enumerate(results) if loops(found[0].tokens) and not loops(batch[i].source)]
        if self.catches_loops and loop:
            again = self.hypotheses([batch[i] for i in loop], replace(how, no_repeat=BLOCK))
            second = dict(zip(loop, again, strict=True))
        return [Searched(second.get(i, first), i in second) for i, first in enumerate(results)]

    def hypotheses(self, batch: list[Wanted], how: Search) -> list[list[Hypothesis]]:
        sources, limits, rows = [one.source for one in batch], [one.limit for one in batch], [one.row for one in batch]
        return self.engine.decode(sources, limits, how, rows)


class Opened(Searcher):
    """A model folder, loaded: what translating and generating share."""

    def __init__(
        self, model: "Model", tokenizer: Tokenizer, about: About, engine: Engine | None = None,
        *, folder: Path | None = None,
    ) -> None:  # fmt: skip
        if engine is None:
            from qkv.decoding.plain import Plain

            engine = Plain(model)
        self.hold(Loaded(model, tokenizer, about, folder), engine)

    @classmethod
    def of(cls, loaded: Loaded, engine: Engine) -> Self:
        """The same of what a folder holds, whose model stays unread unless the engine or somebody else asks for it."""
        made = cls.__new__(cls)
        made.hold(loaded, engine)
        return made

    def hold(self, loaded: Loaded, engine: Engine) -> None:
        Searcher.__init__(self, engine)
        if loaded.is_built:
            loaded.model.eval()
        self.loaded, self.tokenizer, self.about = loaded, loaded.tokenizer, loaded.about
        self.folder = loaded.folder  # where it was loaded from

    @property
    def model(self) -> "Model":
        return self.loaded.model

    def __repr__(self) -> str:
        return in_brief(self, self.engine.name)


def by_length(lengths: list[int], cells: int) -> list[list[int]]:
    """Numbers of sentences in batches of like length; rows x longest is at most `cells` (or one row)."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= cells:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
