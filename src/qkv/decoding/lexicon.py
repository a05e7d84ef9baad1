"""Which words stand for which, learned from pairs alone (Brown et al. 1993, model 1)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from qkv.data import Shard

Ids = NDArray[np.int64]
Shares = NDArray[np.float64]
Cells = tuple[Ids, Ids, Ids]  # each source word of some pairs with each target word: both, and the number of the latter


@dataclass(frozen=True)
class Lexicon:
    """t(target | source) of all words that stand together in some pair."""

    size: int  # words, of both languages
    keys: Ids  # source * size + target, in order
    t: Shares

    @classmethod
    def learn(cls, cells: Callable[[], Iterable[Cells]], size: int, rounds: int) -> "Lexicon":
        """Expectation and maximisation, from equal shares on; `cells` gives all pairs, some at a time, each round."""
        keys = np.empty(0, np.int64)
        for source, target, _ in cells():
            keys = np.union1d(keys, source * size + target)
        found = cls(size, keys, np.ones(len(keys)))
        for _ in range(rounds):
            counts = np.zeros(len(keys))
            for some in cells():
                counts += np.bincount(found.places(some), found.shares(some), len(keys))
            found = replace(found, t=counts / np.bincount(keys // size, counts)[keys // size])
        return found

    def places(self, cells: Cells) -> Ids:
        source, target, _ = cells
        return np.searchsorted(self.keys, source * self.size + target)

    def shares(self, cells: Cells) -> Shares:
        """For each cell, the probability that its target word comes from its source word; they sum to 1 for a word."""
        t, number = self.t[self.places(cells)], cells[2]
        return t / np.bincount(number, t)[number]


def crossed(shard: Shard, rows: Ids) -> Cells:
    """The cells of some pairs (source, target), target word by target word."""
    widths, heights = shard.lengths[rows].T
    sizes = widths * heights
    pair = np.arange(len(rows)).repeat(sizes)
    inside = np.arange(len(pair)) - (sizes.cumsum() - sizes)[pair]
    place, word = np.divmod(inside, widths[pair])  # in the target, in the source
    starts = shard.starts[rows]
    source, target = (shard.ids[starts[pair, side] + at].astype(np.int64) for side, at in ((0, word), (1, place)))
    return source, target, (heights.cumsum() - heights)[pair] + place
