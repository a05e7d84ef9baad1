"""Shards -> batches: rows of like length under a token budget, every pair once an epoch, resumed at any place."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.data.shards import Corpus, Shard
from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS, PAD

Ints = NDArray[np.int64]
SPECIALS = np.array([1, 2])  # tokens added to a source (EOS) and to a target (BOS, EOS)


@dataclass(frozen=True)
class Batch:
    """Some pairs, padded with PAD = 0, and the numbers by which to find them again."""

    src: Tensor  # (B, S): ids, EOS
    tgt: Tensor  # (B, T): BOS, ids, EOS
    pairs: Ints  # (B, 2): shard, row

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.src.to(device), self.tgt.to(device), self.pairs)


@dataclass(frozen=True)
class Place:
    """Where training stands: the number of the next batch, and of its epoch. Both count from 0."""

    epoch: int = 0
    batch: int = 0


START = Place()


class Stream(Protocol):
    """Batches without end, the same for the same seed wherever one begins: what training reads."""

    def count(self, epoch: int) -> int: ...
    def largest(self) -> Any: ...
    def stream(self, place: Place = START) -> Iterator[tuple[Any, Place]]: ...


class Batches:
    """The batches of a corpus, epoch after epoch, the same for the same `seed` wherever one begins.

    In a batch, rows x the wider of source and target is at most `tokens`; a pair wider than that is alone in its batch.
    """

    def __init__(self, corpus: Corpus, tokens: int, seed: int) -> None:
        if seed < 0:
            raise InputError(f"the seed {seed} is negative; give 0 or more")
        self.corpus, self.tokens, self.seed = corpus, tokens, seed
        self._counts: list[int] = []
        self._largest = (0, 0, 0, 0)  # cells, shard, first and last row of the sorted shard
        for shard in range(corpus.shards):
            self._survey(shard)

    def _survey(self, shard: int) -> None:
        """Count the batches of a shard and keep its largest. Which rows are tied does not matter for that."""
        widths = self.corpus.lengths(shard) + SPECIALS
        ordered = widths[_by_length(widths)]
        cuts = _cuts(ordered, self.tokens)
        self._counts.append(len(cuts) - 1)
        for first, last in pairwise(cuts):
            cells = int(ordered[first:last].max(0).sum() * (last - first))
            self._largest = max(self._largest, (cells, shard, first, last), key=lambda found: found[0])

    def count(self, epoch: int) -> int:
        """The number of batches in an epoch."""
        return sum(self._counts)

    def largest(self) -> Batch:
        """The batch with the most padded tokens: try it first, to run out of memory early or not at all."""
        _, number, first, last = self._largest
        shard = self.corpus.shard(number)
        return _collate(shard, number, _by_length(shard.lengths + SPECIALS)[first:last])

    def stream(self, place: Place = START) -> Iterator[tuple[Batch, Place]]:
        """All batches from `place` on, without end; with each, the place to go on from after it."""
        if not (place.epoch >= 0 and 0 <= place.batch < self.count(place.epoch)):
            raise InputError(
                f"{place} is not in this corpus, whose epochs have {self.count(place.epoch)} batches; "
                "resume with the same data and settings, or begin anew"
            )
        epoch, skip = place.epoch, place.batch
        while True:
            done, last = skip, self.count(epoch)
            for batch in self._epoch(epoch, skip):
                done += 1
                yield batch, Place(epoch, done) if done < last else Place(epoch + 1, 0)
            epoch, skip = epoch + 1, 0

    def _epoch(self, epoch: int, skip: int) -> Iterator[Batch]:
        for number in np.random.default_rng([self.seed, epoch]).permutation(self.corpus.shards).tolist():
            if skip >= self._counts[number]:
                skip -= self._counts[number]
                continue
            shard, rng = self.corpus.shard(number), np.random.default_rng([self.seed, epoch, number])
            for rows in self._shuffled(shard, rng)[skip:]:
                yield _collate(shard, number, rows)
            skip = 0

    def _shuffled(self, shard: Shard, rng: np.random.Generator) -> list[Ints]:
        """The rows of each batch: pairs of equal length meet others in each epoch, and batches come in any order."""
        rows = rng.permutation(len(shard))
        widths = shard.lengths[rows] + SPECIALS
        order = _by_length(widths)
        batches = np.split(rows[order], _cuts(widths[order], self.tokens)[1:-1])
        return [batches[number] for number in rng.permutation(len(batches))]


def in_order(corpus: Corpus, tokens: int) -> Iterator[Batch]:
    """Every pair once, short ones first in each shard, always the same: for validation."""
    for number in range(corpus.shards):
        shard = corpus.shard(number)
        widths = shard.lengths + SPECIALS
        order = _by_length(widths)
        cuts = _cuts(widths[order], tokens)
        for first, last in pairwise(cuts):
            yield _collate(shard, number, order[first:last])


def _by_length(widths: Ints) -> Ints:
    """An order by target, then by source, up and down by turns, so that neighbours differ little in both. Stable."""
    source, target = widths.T
    return np.lexsort((np.where(target % 2, source, -source), target))


def _cuts(widths: Ints, tokens: int) -> list[int]:
    """Where to cut sorted rows into batches: each has as many rows as the budget allows."""
    if tokens < 1:
        raise InputError(f"a budget of {tokens} tokens holds no pair; give 1 or more, for example 4096")
    widest = widths.max(1)
    cuts = [0]
    while cuts[-1] < len(widest):
        first = cuts[-1]
        window = np.maximum.accumulate(widest[first : first + tokens // widest[first]])
        fits = np.count_nonzero(window * np.arange(1, len(window) + 1) <= tokens)
        cuts.append(first + max(1, int(fits)))
    return cuts


def _collate(shard: Shard, number: int, rows: Ints) -> Batch:
    lengths, starts = shard.lengths[rows], shard.starts[rows]
    source = _padded(shard.ids, starts[:, 0], lengths[:, 0], before=0)
    target = _padded(shard.ids, starts[:, 1], lengths[:, 1], before=1)
    target[:, 0] = BOS
    pairs = np.stack([np.full(len(rows), number), rows], axis=1)
    return Batch(torch.from_numpy(source), torch.from_numpy(target), pairs)


def _padded(ids: NDArray[Any], starts: Ints, lengths: Ints, before: int) -> Ints:
    """(B, width): `before` free cells, the ids of each row, EOS, and PAD up to the longest row."""
    column = np.arange(-before, lengths.max() + 1)
    inside = column < lengths[:, None]
    found = ids.take(starts[:, None] + column, mode="clip") if len(ids) else np.zeros(inside.shape)
    block = np.where(inside, found, PAD).astype(np.int64)
    block[np.arange(len(block)), lengths + before] = EOS
    return block
