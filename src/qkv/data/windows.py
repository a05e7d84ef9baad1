"""Running text -> batches of windows without padding: no token is asked for twice in an epoch."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from qkv.data.batches import Batch, Make, Stream
from qkv.data.rows import Ints, Rows, RunningText
from qkv.errors import InputError


class Windows(Stream):
    """Windows of `length` tokens and the one after them, `batch` of them at a time.

    Each window begins with the last token of the one before, so that no token is asked for twice. From epoch to epoch
    they are cut at other places: what does not fill a window, at the ends of the text, has its turn in another one.
    With `carry` the text is parted into `batch` lanes that are read side by side from their beginnings: row i of a
    batch goes on where row i of the batch before it ended. With `backward` all is read from the end to the beginning.
    """

    of = "text"

    def __init__(
        self, rows: Rows, *, length: int, batch: int, seed: int, carry: bool = False, backward: bool = False
    ) -> None:
        if length < 1 or batch < 1 or seed < 0:
            raise InputError(
                f"windows of {length} tokens, {batch} in a batch, and a seed of {seed} were given; "
                "give 1 or more, 1 or more, 0 or more"
            )
        self.text, self.length, self.batch, self.seed = RunningText(rows), length, batch, seed
        self.carry, self.backward = carry, backward
        lanes = batch if carry else 1
        if len(self.text) < lanes * (length + 1):
            raise InputError(
                f"the text has {len(self.text):,} tokens, but {lanes} x {length + 1} are needed to fill the first "
                "windows; give more text, or a smaller data.window"
            )

    def __len__(self) -> int:
        return len(self.text)

    def count(self, epoch: int) -> int:
        return -(-len(self._lane(epoch)) * (self.batch if self.carry else 1) // self.batch)

    def largest(self) -> Batch:
        return self._batch(self._starts(0)[: self.batch])

    def epoch(self, epoch: int, skip: int) -> Iterator[Make]:
        starts = self._starts(epoch)
        if not self.carry:
            starts = np.random.default_rng([self.seed, epoch, 1]).permutation(starts)
        for first in range(skip * self.batch, len(starts), self.batch):
            begins = not self.carry or first == 0
            yield partial(self._batch, starts[first : first + self.batch], begins=begins)

    def in_order(self) -> Iterator[Batch]:
        """Every token but the first, asked for once; the last window may be shorter than the others.

        With `carry`, the lanes side by side, and by itself what is left over when the lanes are equally long.
        """
        if self.carry:
            lane = (len(self.text) - 1) // self.batch
            for first in range(0, lane, self.length):
                starts = first + lane * np.arange(self.batch)
                yield self._batch(starts, min(self.length, lane - first), begins=first == 0)
            begins, ends = lane * self.batch, len(self.text) - 1
            for first in range(begins, ends, self.length):
                yield self._batch(np.array([first]), min(self.length, ends - first), begins=first == begins)
            return
        starts = np.arange(0, len(self.text) - 1, self.length)
        whole = starts[starts + self.length < len(self.text)]
        for first in range(0, len(whole), self.batch):
            yield self._batch(whole[first : first + self.batch])
        if len(whole) < len(starts):
            yield self._batch(starts[-1:], len(self.text) - 1 - int(starts[-1]))

    @property
    def _spare(self) -> int:
        """Tokens of the text, or with `carry` of a lane, that another one stands behind."""
        return (len(self.text) - 1) // (self.batch if self.carry else 1)

    def _lane(self, epoch: int) -> range:
        """Where the windows of an epoch begin, in the text or in each lane: counted, for it is asked at every step."""
        last = self._spare - self.length
        shift = int(np.random.default_rng([self.seed, epoch, 0]).integers(min(self.length, last + 1)))
        return range(shift if epoch else 0, last + 1, self.length)

    def _starts(self, epoch: int) -> Ints:
        """Where the windows of an epoch begin; with `carry` in the order of the batches, lane by lane."""
        lane = self._lane(epoch)
        starts = np.arange(lane.start, lane.stop, lane.step)
        if not self.carry:
            return starts
        return (starts[:, None] + self._spare * np.arange(self.batch)).ravel()

    def _batch(self, starts: Ints, length: int = 0, begins: bool = True) -> Batch:
        length = (length or self.length) + 1
        ids = torch.from_numpy(np.stack([self._read(start, start + length) for start in starts.tolist()]))
        numbers = np.stack([np.zeros_like(starts), starts], axis=1)
        return Batch((ids,), torch.full((len(starts), 1), length), numbers, begins=begins)

    def _read(self, start: int, stop: int) -> Ints:
        if not self.backward:
            return self.text[slice(start, stop)]
        return self.text[slice(len(self.text) - stop, len(self.text) - start)][::-1]
