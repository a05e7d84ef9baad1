"""Rows -> batches: rows of like length under a token budget, every row once an epoch, resumed at any place."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from qkv.data.batches import Batch, Make, Stream, collate
from qkv.data.rows import Ints, Rows
from qkv.errors import InputError


class Buckets(Stream):
    """The batches of some rows, epoch after epoch.

    In a batch, rows x the widest of the columns named by `sizes` is at most `tokens`; a row wider than that is alone in
    its batch. The other columns (labels, for example) cost nothing.
    """

    of = "corpus"

    def __init__(self, rows: Rows, *, tokens: int, seed: int, sizes: Sequence[int] = (0,)) -> None:
        if tokens < 1 or seed < 0:
            raise InputError(f"a budget of {tokens} tokens and a seed of {seed} were given; give 1 or more, 0 or more")
        self.rows, self.tokens, self.seed, self.sizes = rows, tokens, seed, list(sizes)
        self._counts: list[int] = []  # batches of each shard
        self._largest = 0, 0, np.empty(0, np.int64)  # cells, shard, rows
        for number in range(rows.shards):
            lengths = rows.lengths(number)
            batches = self._batches(lengths)  # which of the rows that are tied does not matter here
            self._counts.append(len(batches))
            for batch in batches:
                cells = int(lengths[batch][:, self.sizes].max(0).sum() * len(batch))
                self._largest = max(self._largest, (cells, number, batch), key=lambda found: found[0])

    def count(self, epoch: int) -> int:
        return sum(self._counts)

    def largest(self) -> Batch:
        _, number, rows = self._largest
        return collate(self.rows.shard(number), number, rows)

    def epoch(self, epoch: int, skip: int) -> Iterator[Make]:
        """Rows of equal length meet others in each epoch, and batches come in any order."""
        for number in np.random.default_rng([self.seed, epoch]).permutation(self.rows.shards).tolist():
            if skip >= self._counts[number]:
                skip -= self._counts[number]
                continue
            shard, rng = self.rows.shard(number), np.random.default_rng([self.seed, epoch, number])
            rows = rng.permutation(len(shard))
            batches = self._batches(shard.lengths[rows])
            for chosen in rng.permutation(len(batches))[skip:]:
                yield partial(collate, shard, number, rows[batches[chosen]])
            skip = 0

    def in_order(self) -> Iterator[Batch]:
        """Short rows first in each shard."""
        for number in range(self.rows.shards):
            shard = self.rows.shard(number)
            yield from (collate(shard, number, rows) for rows in self._batches(shard.lengths))

    def _batches(self, lengths: Ints) -> list[Ints]:
        """The rows of each batch of a shard, short rows first."""
        widths = lengths[:, self.sizes]
        order = by_length(widths)
        return [order[first:last] for first, last in pairwise(cut(widths[order], self.tokens))]


def by_length(widths: Ints) -> Ints:
    """An order by the last width, then by the others, up and down by turns, so that neighbours differ little in all of
    them. Stable."""
    *others, last = widths.T
    return np.lexsort((*(np.where(last % 2, other, -other) for other in others), last))


def cut(widths: Ints, tokens: int) -> list[int]:
    """Where to cut sorted rows into batches: each has as many rows as the budget allows."""
    widest = widths.max(1).clip(min=1)
    cuts = [0]
    while cuts[-1] < len(widest):
        first = cuts[-1]
        window = np.maximum.accumulate(widest[first : first + tokens // widest[first]])
        fits = np.count_nonzero(window * np.arange(1, len(window) + 1) <= tokens)
        cuts.append(first + max(1, int(fits)))
    return cuts
