"""From ids to hypotheses, however many: in batches of like length, some of them side by side."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from qkv.decoding.draws import RowNumber
from qkv.decoding.engine import Engine, Search, Spread
from qkv.decoding.hypothesis import Hypothesis, loops
from qkv.folder import About, Loaded, in_brief
from qkv.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from qkv.models import Model

CELLS = 2**14  # tokens x beams of one batch
SMALL = 256  # tokens that a batch is not made smaller than, to keep several workers busy
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
    """Ids in, hypotheses out: the same whatever the batches and the workers are."""

    catches_loops = False  # decode once more what runs in a loop that its source does not have

    def __init__(self, engine: Engine, *, workers: int = 1) -> None:
        """`workers`: so many batches are decoded side by side, in processes of their own where the engine can."""
        self.engine, self.workers = engine, workers
        self.opened: tuple[Engine, int, Spread | None] | None = None

    def search(
        self, sources: list[list[int]], limits: list[int], how: Search,
        *, rows: Sequence[RowNumber] | None = None, sizes: list[int] | None = None, workers: int | None = None,
    ) -> list[Searched]:  # fmt: skip
        """Hypotheses for each source, with at most limits[i] tokens; `sizes` are the tokens that a batch counts."""
        count = self.workers if workers is None else workers
        named: Sequence[RowNumber] = rows or [(i,) for i in range(len(sources))]
        wanted = [Wanted(*one) for one in zip(sources, limits, named, strict=True)]
        numbers = by_length(sizes or [len(ids) + 1 for ids in sources], CELLS // how.beam, count)
        batches = [[wanted[i] for i in some] for some in numbers]
        results = chain.from_iterable(self.side_by_side(batches, how, count))
        found = dict(zip(chain.from_iterable(numbers), results, strict=True))
        return [found[i] for i in range(len(sources))]

    def side_by_side(self, batches: list[list[Wanted]], how: Search, count: int) -> Iterable[list[Searched]]:
        """One core for each batch is faster than all cores for one, and no other process can stall it."""
        spread = self.open_workers(count) if count > 1 and len(batches) > 1 else None
        if spread is None:
            return [self.decode(batch, how) for batch in batches]
        answers = spread([[batch, asdict(how)] for batch in batches])
        return [[Searched([Hypothesis(*one) for one in some], looped) for some, looped in answer] for answer in answers]

    def open_workers(self, count: int | None = None) -> Spread | None:
        """What works side by side for the engine, if it can; to be opened before a program has threads."""
        count = self.workers if count is None else count
        if count == 1:
            return None
        if self.opened is None or self.opened[:2] != (self.engine, count):
            self.opened = None  # the old ones end before new ones begin
            self.opened = self.engine, count, self.engine.spread(self.work, count)
        return self.opened[2]

    def work(self, asked: tuple[list[Any], dict[str, Any]]) -> list[Any]:
        """`decode`, with what JSON can hold in and out."""
        batch, how = asked
        found = self.decode([Wanted(source, limit, tuple(row)) for source, limit, row in batch], Search(**how))
        return [([astuple(one) for one in some.hypotheses], some.looped) for some in found]

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
        *, workers: int = 1, folder: Path | None = None,
    ) -> None:  # fmt: skip
        if engine is None:
            from qkv.decoding.plain import Plain

            engine = Plain(model)
        self.hold(Loaded(model, tokenizer, about, folder), engine, workers)

    @classmethod
    def of(cls, loaded: Loaded, engine: Engine, *, workers: int = 1) -> Self:
        """The same of what a folder holds, whose model stays unread unless the engine or somebody else asks for it."""
        made = cls.__new__(cls)
        made.hold(loaded, engine, workers)
        return made

    def hold(self, loaded: Loaded, engine: Engine, workers: int) -> None:
        Searcher.__init__(self, engine, workers=workers)
        if loaded.is_built:
            loaded.model.eval()
        self.loaded, self.tokenizer, self.about = loaded, loaded.tokenizer, loaded.about
        self.folder = loaded.folder  # where it was loaded from

    @property
    def model(self) -> "Model":
        return self.loaded.model

    def __repr__(self) -> str:
        return in_brief(self, self.engine.name)


def by_length(lengths: list[int], cells: int, parts: int = 1) -> list[list[int]]:
    """Numbers of sentences in batches of like length; rows x longest is at most `cells` (or one row).

    There are about four batches for each of several `parts`, so that none waits long for the last of another.
    """
    if parts > 1:
        cells = min(cells, max(SMALL, sum(lengths) // (4 * parts)))
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= cells:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
