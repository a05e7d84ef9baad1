"""Examples in memory -> batches: rows of like size under a budget, each example once an epoch, from any place on."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.batches import START, Place
from qkv.errors import InputError

Ints = NDArray[np.int64]
Collate = Callable[[Sequence[Any], Ints], Any]  # some examples and their numbers -> a batch with .to(device) and .pairs


class Examples:
    """The batches of encoded examples that fit in memory; a Stream, as training reads it.

    An example has one size or several (tokens; sentences and words of a sentence). In a batch, rows x the largest of
    each size is at most `tokens`; an example larger than that is alone in its batch.
    """

    def __init__(
        self, examples: Sequence[Any], sizes: Sequence[tuple[int, ...]], collate: Collate, *, tokens: int, seed: int
    ) -> None:
        if not examples:
            raise InputError("there is no example to make batches of; give files that hold some")
        if tokens < 1 or seed < 0:
            raise InputError(f"a budget of {tokens} tokens and a seed of {seed} were given; give 1 or more, 0 or more")
        self.examples, self.collate, self.seed = examples, collate, seed
        self.sizes: Ints = np.array(sizes, np.int64)  # (examples, sizes)
        ordered = self.sizes[by_size(self.sizes)]
        self.cuts = cut(ordered, tokens)  # the same in every epoch: they depend on the sizes alone
        cells = [(last - first) * int(ordered[first:last].max(0).prod()) for first, last in pairwise(self.cuts)]
        self._largest = int(np.argmax(cells))

    def __len__(self) -> int:
        return len(self.examples)

    def count(self, epoch: int) -> int:
        """The number of batches in an epoch."""
        return len(self.cuts) - 1

    def largest(self) -> Any:
        """The batch with the most padded tokens: try it first, to run out of memory early or not at all."""
        return self.batch(self.rows(np.arange(len(self)))[self._largest])

    def stream(self, place: Place = START) -> Iterator[tuple[Any, Place]]:
        """All batches from `place` on, without end; with each, the place to go on from after it."""
        last = self.count(place.epoch)
        if not (place.epoch >= 0 and 0 <= place.batch < last):
            raise InputError(
                f"{place} is not in these examples, whose epochs have {last} batches; "
                "resume with the same data and settings, or begin anew"
            )
        epoch, done = place.epoch, place.batch
        while True:
            rng = np.random.default_rng([self.seed, epoch])
            batches = self.rows(rng.permutation(len(self)))
            for number in rng.permutation(last)[done:].tolist():
                done += 1
                yield self.batch(batches[number]), Place(epoch, done) if done < last else Place(epoch + 1, 0)
            epoch, done = epoch + 1, 0

    def in_order(self) -> Iterator[Any]:
        """Every example once, small ones first, always the same: for validation."""
        return map(self.batch, self.rows(np.arange(len(self))))

    def rows(self, order: Ints) -> list[Ints]:
        """The numbers of the examples of each batch; those of one size stay in `order`."""
        return np.split(order[by_size(self.sizes[order])], self.cuts[1:-1])

    def batch(self, rows: Ints) -> Any:
        return self.collate([self.examples[row] for row in rows.tolist()], rows)


def by_size(sizes: Ints) -> Ints:
    """An order by the product of the sizes, then by each of them. Stable."""
    return np.lexsort((*sizes.T[::-1], sizes.prod(1)))


def cut(sizes: Ints, tokens: int) -> list[int]:
    """Where to cut sorted rows into batches: each has as many rows as the budget allows."""
    cuts = [0]
    while cuts[-1] < len(sizes):
        first, largest = cuts[-1], sizes[cuts[-1]]
        end = first + 1
        while end < len(sizes):
            largest = np.maximum(largest, sizes[end])
            if largest.prod() * (end + 1 - first) > tokens:
                break
            end += 1
        cuts.append(end)
    return cuts
