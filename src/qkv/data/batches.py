"""What training reads: batches of rows, without end, the same for the same seed wherever one begins."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from qkv.data.rows import AllIds, Ints, Rows, Shard
from qkv.errors import InputError
from qkv.text.tokenizer import PAD


@dataclass(frozen=True)
class Batch:
    """Some rows of any task, each column padded with PAD = 0, and the numbers by which to find them again."""

    columns: tuple[Tensor, ...]  # each (B, its longest)
    lengths: Tensor  # (B, columns)
    rows: Ints  # (B, 2): shard, row; of running text, where each window begins
    part: int = 0  # of a Mixture: which of its streams it is from
    begins: bool = True  # of carried windows: whether nothing stands before it
    epoch: int = 0  # of a stream: which pass over the data it is from

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> "Batch":
        return replace(self, columns=tuple(ids.to(device) for ids in self.columns), lengths=self.lengths.to(device))


@dataclass(frozen=True)
class Place:
    """Where training stands: the number of the next batch, and of its epoch. Both count from 0."""

    epoch: int = 0
    batch: int = 0


START = Place()
Make = Callable[[], Batch]  # a batch that is made when it is called for


class Stream(ABC):
    """Batches without end, from any place on: Buckets, Windows, and Mixture of any streams."""

    of: ClassVar[str]  # what its batches are of, for people
    carry: bool = False  # whether a batch goes on from the one before it

    @abstractmethod
    def count(self, epoch: int) -> int:
        """The number of batches in an epoch."""

    @abstractmethod
    def largest(self) -> Batch:
        """The batch with the most padded tokens: try it first, to run out of memory early or not at all."""

    @abstractmethod
    def epoch(self, epoch: int, skip: int) -> Iterator[Make]:
        """The batches of an epoch but for the first `skip`."""

    @abstractmethod
    def in_order(self) -> Iterator[Batch]:
        """Everything once, always the same: for validation."""

    def after(self, place: Place, batches: int) -> Place:
        """The place to go on from when so many batches more have been read."""
        epoch, done = place.epoch, place.batch + batches
        while done >= (last := self.count(epoch)):
            epoch, done = epoch + 1, done - last
        return Place(epoch, done)

    def stream(self, place: Place = START, *, first: int = 0, every: int = 1) -> Iterator[tuple[Batch, Place]]:
        """All batches from `place` on, without end; with each, the place to go on from after it.

        Or only each `every`th of them, beginning with the one numbered `first`: the share of one of several processes.
        The others are not made.
        """
        epoch, done, last = place.epoch, place.batch, self.count(max(place.epoch, 0))
        if epoch < 0 or not 0 <= done < last:
            raise InputError(
                f"{place} is not in this {self.of}, whose epochs have {last} batches; "
                "resume with the same data and settings, or begin anew"
            )
        passed = 0
        while True:
            for make in self.epoch(epoch, done):
                done, passed = done + 1, passed + 1
                if (passed - 1) % every == first:
                    yield replace(make(), epoch=epoch), Place(epoch, done) if done < last else Place(epoch + 1, 0)
            epoch, done = epoch + 1, 0
            last = self.count(epoch)


class Mixture(Stream):
    """Liu et al. 2019 (MT-DNN), Algorithm 1: merge the batches of all tasks and shuffle them.

    A batch says in `part` which stream it is from. An epoch of the mixture is one epoch of each part.
    """

    of = "mixture"

    def __init__(self, streams: Sequence[Stream], *, seed: int) -> None:
        if not streams:
            raise InputError("a mixture of no parts was asked for; give at least one")
        if seed < 0:
            raise InputError(f"a seed of {seed} was given; give 0 or more")
        self.streams, self.seed, self.carry = list(streams), seed, any(stream.carry for stream in streams)
        for number, stream in enumerate(streams, start=1):
            if stream.count(0) < 1:
                raise InputError(f"part {number} of the mixture has no batch; give it examples, or leave it out")

    def count(self, epoch: int) -> int:
        return sum(stream.count(epoch) for stream in self.streams)

    def largest(self) -> Batch:
        largest = [replace(stream.largest(), part=part) for part, stream in enumerate(self.streams)]
        return max(largest, key=lambda batch: sum(ids.numel() for ids in batch.columns))

    def epoch(self, epoch: int, skip: int) -> Iterator[Make]:
        counts = [stream.count(epoch) for stream in self.streams]
        turns = np.random.default_rng([self.seed, epoch]).permutation(np.repeat(np.arange(len(counts)), counts))
        parts = [stream.epoch(epoch, int((turns[:skip] == part).sum())) for part, stream in enumerate(self.streams)]
        for part in turns[skip:].tolist():
            yield partial(made, next(parts[part]), part=part)

    def in_order(self) -> Iterator[Batch]:
        for part, stream in enumerate(self.streams):
            yield from (replace(batch, part=part) for batch in stream.in_order())


def made(make: Make, **changes: Any) -> Batch:
    return replace(make(), **changes)


class RowsOfPart:
    """Of rows whose last column is as long as the number of their part: those of one part, its columns of each."""

    def __init__(self, rows: Rows, part: int, columns: int) -> None:
        self.rows, self.columns, self.shards = rows, columns, rows.shards
        self._places = [np.flatnonzero(rows.lengths(shard)[:, -1] == part) for shard in range(rows.shards)]

    def __len__(self) -> int:
        return sum(map(len, self._places))

    def lengths(self, shard: int) -> Ints:
        return self.rows.lengths(shard)[self._places[shard], : self.columns]

    def shard(self, shard: int) -> Shard:
        whole, places = self.rows.shard(shard), self._places[shard]
        return Shard(whole.ids, *(column[places, : self.columns] for column in (whole.starts, whole.lengths)))

    def ids(self, shard: int) -> AllIds:
        return self.rows.ids(shard)


def seeds(seed: int, place: Place) -> tuple[int, int]:
    """The randomness of one batch, of the objective and of the model: it depends on the seed and the place alone, so
    that it comes again on resume, and whichever process computes the batch."""
    drawn = np.random.SeedSequence([seed, place.epoch, place.batch]).generate_state(2, np.uint64) >> np.uint64(1)
    return int(drawn[0]), int(drawn[1])


def generator(seed: int, place: Place) -> torch.Generator:
    """What an objective draws from for a batch."""
    return torch.Generator().manual_seed(seeds(seed, place)[0])


def collate(shard: Shard, number: int, rows: Ints) -> Batch:
    """Rows of a shard side by side, each column as wide as its longest."""
    lengths, starts = shard.lengths[rows], shard.starts[rows]
    columns = []
    for column in range(lengths.shape[1]):
        place = np.arange(lengths[:, column].max(initial=0))
        inside = place < lengths[:, column, None]
        found = shard.ids.take(starts[:, column, None] + place, mode="clip") if len(shard.ids) else np.zeros(())
        columns.append(torch.from_numpy(np.where(inside, found, PAD).astype(np.int64)))
    numbers = np.stack([np.full(len(rows), number), rows], axis=1)
    return Batch(tuple(columns), torch.from_numpy(lengths), numbers)
