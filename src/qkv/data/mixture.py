"""Several streams as one: the batches of all parts in a random order, each part once an epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from qkv.data.batches import Batch, Stream
from qkv.errors import InputError


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
        self.streams, self.seed = list(streams), seed
        for number, stream in enumerate(streams, start=1):
            if stream.count(0) < 1:
                raise InputError(f"part {number} of the mixture has no batch; give it examples, or leave it out")

    def count(self, epoch: int) -> int:
        return sum(stream.count(epoch) for stream in self.streams)

    def largest(self) -> Batch:
        largest = [replace(stream.largest(), part=part) for part, stream in enumerate(self.streams)]
        return max(largest, key=lambda batch: sum(ids.numel() for ids in batch.columns))

    def epoch(self, epoch: int, skip: int) -> Iterator[Batch]:
        counts = [stream.count(epoch) for stream in self.streams]
        turns = np.random.default_rng([self.seed, epoch]).permutation(np.repeat(np.arange(len(counts)), counts))
        parts = [stream.epoch(epoch, int((turns[:skip] == part).sum())) for part, stream in enumerate(self.streams)]
        for part in turns[skip:].tolist():
            yield replace(next(parts[part]), part=part)

    def in_order(self) -> Iterator[Batch]:
        for part, stream in enumerate(self.streams):
            yield from (replace(batch, part=part) for batch in stream.in_order())
