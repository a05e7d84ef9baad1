"""Batches of examples in memory keep to their budget, hold every example once an epoch, and go on from any place."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qkv.data.examples import Examples, Ints

from qkv.data import Place
from qkv.errors import InputError

SIZES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40)


@dataclass(frozen=True)
class Batch:
    examples: list[Any]
    pairs: list[int]


def collate(examples: Sequence[Any], numbers: Ints) -> Batch:
    return Batch(list(examples), numbers.tolist())


def batches_of(sizes: list[tuple[int, ...]], tokens: int = 40, seed: int = 3) -> Examples:
    return Examples(list(enumerate(sizes)), sizes, collate, tokens=tokens, seed=seed)


def some(batches: Examples, place: Place, number: int) -> list[tuple[Batch, Place]]:
    return list(itertools.islice(batches.stream(place), number))


@settings(deadline=None)
@given(SIZES, st.integers(1, 60), st.integers(0, 5))
def test_every_example_is_in_one_batch_of_each_epoch_and_under_the_budget(
    sizes: list[tuple[int, int]], tokens: int, epoch: int
) -> None:
    batches = batches_of(sizes, tokens)
    found = [batch for batch, _ in some(batches, Place(epoch, 0), batches.count(epoch))]
    assert sorted(number for batch in found for number in batch.pairs) == list(range(len(sizes)))
    assert sorted(number for batch in batches.in_order() for number in batch.pairs) == list(range(len(sizes)))
    cells = []
    for batch in found:
        assert [number for number, _ in batch.examples] == batch.pairs
        inside = np.array([size for _, size in batch.examples])
        cells.append(len(inside) * int(inside.max(0).prod()))
        assert len(inside) == 1 or cells[-1] <= tokens
    inside = np.array([size for _, size in batches.largest().examples])
    assert len(inside) * int(inside.max(0).prod()) == max(cells)


@settings(deadline=None)
@given(SIZES, st.integers(0, 30))
def test_a_stream_that_begins_anywhere_is_the_rest_of_one_that_began_at_the_start(
    sizes: list[tuple[int, int]], skip: int
) -> None:
    batches = batches_of(sizes)
    whole = some(batches, Place(), skip + 5)
    place = whole[skip - 1][1] if skip else Place()
    assert some(batches_of(sizes), place, 5) == whole[skip:]


def test_a_seed_decides_the_order_and_epochs_differ() -> None:
    sizes = [(1 + i % 7,) for i in range(60)]
    number = batches_of(sizes, tokens=12).count(0)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.pairs for batch, _ in some(batches_of(sizes, 12, seed), Place(epoch, 0), number)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)


def test_rows_of_a_batch_are_alike() -> None:
    """Two sizes that alternate meet their own kind: no batch mixes them but the one at the border."""
    batches = batches_of([(2,) if i % 2 else (9,) for i in range(40)], tokens=36)
    mixed = [batch for batch in batches.in_order() if len({size for _, size in batch.examples}) > 1]
    assert len(mixed) <= 1
    assert batches.count(0) <= 2 + 6


def test_a_batch_is_as_full_as_the_budget_allows() -> None:
    """By hand: of sizes 1 1 1 2 2 5 and a budget of 4, batches are 1 1 1, 2 2 and 5 alone."""
    batches = batches_of([(5,), (1,), (2,), (1,), (2,), (1,)], tokens=4)
    assert [batch.pairs for batch in batches.in_order()] == [[1, 3, 5], [2, 4], [0]]
    assert batches.largest().pairs == [0]


@pytest.mark.parametrize("place", [Place(0, 3), Place(-1, 0), Place(2, -1)])
def test_a_place_that_is_not_there_is_refused(place: Place) -> None:
    batches = batches_of([(5,), (1,), (2,), (1,), (2,), (1,)], tokens=4)
    with pytest.raises(InputError, match="is not in these examples, whose epochs have 3 batches; resume with"):
        next(batches.stream(place))


@pytest.mark.parametrize(
    ("sizes", "tokens", "seed", "told"),
    [
        ([], 4, 0, "there is no example to make batches of; give files that hold some"),
        ([(1,)], 0, 0, "a budget of 0 tokens and a seed of 0 were given"),
        ([(1,)], 4, -1, "a budget of 4 tokens and a seed of -1 were given"),
    ],
)
def test_what_cannot_be_is_refused(sizes: list[tuple[int, ...]], tokens: int, seed: int, told: str) -> None:
    with pytest.raises(InputError, match=told):
        batches_of(sizes, tokens, seed)
