"""Rows -> batches: rows of like length under a token budget, every row once an epoch, resumed at any place."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from qkv.data.batches import START, Batch, Place, after, check_place, collate
from qkv.data.rows import Ints, Rows, Shard
from qkv.errors import InputError


class Buckets:
    """The batches of some rows, epoch after epoch: a Stream.

    In a batch, rows x the widest of the columns named by `sizes` is at most `tokens`; a row wider than that is alone in
    its batch. The other columns (labels, for example) cost nothing.
    """

    def __init__(self, rows: Rows, *, tokens: int, seed: int, sizes: Sequence[int] = (0,)) -> None:
        if tokens < 1 or seed < 0:
            raise InputError(f"a budget of {tokens} tokens and a seed of {seed} were given; give 1 or more, 0 or more")
        self.rows, self.tokens, self.seed, self.sizes = rows, tokens, seed, list(sizes)
        self._counts: list[int] = []
        self._largest = (0, 0, 0, 0)  # cells, shard, first and last row of the sorted shard
        for shard in range(rows.shards):
            self._survey(shard)

    def __len__(self) -> int:
        return len(self.rows)

    def _survey(self, shard: int) -> None:
        """Count the batches of a shard and keep its largest. Which rows are tied does not matter for that."""
        widths = self.rows.lengths(shard)[:, self.sizes]
        ordered = widths[by_length(widths)]
        cuts = cut(ordered, self.tokens)
        self._counts.append(len(cuts) - 1)
        for first, last in pairwise(cuts):
            cells = int(ordered[first:last].max(0).sum() * (last - first))
            self._largest = max(self._largest, (cells, shard, first, last), key=lambda found: found[0])

    def count(self, epoch: int) -> int:
        return sum(self._counts)

    def largest(self) -> Batch:
        _, number, first, last = self._largest
        shard = self.rows.shard(number)
        return collate(shard, number, by_length(shard.lengths[:, self.sizes])[first:last])

    def stream(self, place: Place = START) -> Iterator[tuple[Batch, Place]]:
        epoch, done, last = place.epoch, place.batch, self.count(place.epoch)
        check_place(place, last, "corpus")
        while True:
            for batch in self._epoch(epoch, done):
                done += 1
                yield batch, after(epoch, done, last)
            epoch, done = epoch + 1, 0

    def _epoch(self, epoch: int, skip: int) -> Iterator[Batch]:
        for number in np.random.default_rng([self.seed, epoch]).permutation(self.rows.shards).tolist():
            if skip >= self._counts[number]:
                skip -= self._counts[number]
                continue
            shard, rng = self.rows.shard(number), np.random.default_rng([self.seed, epoch, number])
            for rows in self._shuffled(shard, rng)[skip:]:
                yield collate(shard, number, rows)
            skip = 0

    def _shuffled(self, shard: Shard, rng: np.random.Generator) -> list[Ints]:
        """The rows of each batch: rows of equal length meet others in each epoch, and batches come in any order."""
        rows = rng.permutation(len(shard))
        widths = shard.lengths[rows][:, self.sizes]
        order = by_length(widths)
        batches = np.split(rows[order], cut(widths[order], self.tokens)[1:-1])
        return [batches[number] for number in rng.permutation(len(batches))]

    def in_order(self) -> Iterator[Batch]:
        """Short rows first in each shard."""
        for number in range(self.rows.shards):
            shard = self.rows.shard(number)
            widths = shard.lengths[:, self.sizes]
            order = by_length(widths)
            for first, last in pairwise(cut(widths[order], self.tokens)):
                yield collate(shard, number, order[first:last])


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
