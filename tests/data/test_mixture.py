"""A mixture: each part once an epoch, in a random order, and the same again from any place."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.data import (
    Batch,
    Buckets,
    Mixture,
    Place,
    RowsInMemory,
    RowsOfPart,
    RowsOnDisk,
    Windows,
    each_row,
    write_rows,
)
from qkv.errors import InputError

COUNTS = st.lists(st.integers(1, 20), min_size=1, max_size=4)


def part(rows: int, seed: int = 1) -> Buckets:
    """Rows of one to three ids, a few in a batch."""
    return Buckets(RowsInMemory([[[5 + i] * (1 + i % 3)] for i in range(rows)]), tokens=4, seed=seed)


def mixture(counts: list[int], seed: int = 7) -> Mixture:
    return Mixture([part(count) for count in counts], seed=seed)


def some(mixed: Mixture, place: Place, number: int) -> list[tuple[Batch, Place]]:
    return list(itertools.islice(mixed.stream(place), number))


def same(one: Batch, other: Batch) -> bool:
    return (one.part, torch.equal(one.columns[0], other.columns[0])) == (other.part, True) and np.array_equal(
        one.rows, other.rows
    )


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(0, 3))
def test_each_part_is_read_once_an_epoch_in_its_own_order(counts: list[int], epoch: int) -> None:
    mixed = mixture(counts)
    found = [batch for batch, _ in some(mixed, Place(epoch, 0), mixed.count(epoch))]
    assert mixed.count(epoch) == sum(part(count).count(epoch) for count in counts)
    for number, count in enumerate(counts):
        alone = [batch for batch, _ in itertools.islice(part(count).stream(Place(epoch, 0)), part(count).count(epoch))]
        here = [batch for batch in found if batch.part == number]
        assert [batch.rows.tolist() for batch in here] == [batch.rows.tolist() for batch in alone]


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(0, 60))
def test_any_place_goes_on_as_if_never_left(counts: list[int], skip: int) -> None:
    whole = some(mixture(counts), Place(), skip + 6)
    place = whole[skip - 1][1] if skip else Place()
    again = some(mixture(counts), place, 6)
    assert [after for _, after in again] == [after for _, after in whole[skip:]]
    assert all(same(one, other) for (one, _), (other, _) in zip(again, whole[skip:], strict=True))


def test_parts_come_in_a_random_order_by_their_size() -> None:
    mixed = mixture([60, 20])
    turns = [[batch.part for batch, _ in some(mixed, Place(epoch, 0), mixed.count(epoch))] for epoch in range(2)]
    assert turns[0] != turns[1]
    assert turns[0] != [batch.part for batch, _ in some(mixture([60, 20], seed=8), Place(), mixed.count(0))]
    sizes = {0: part(60).count(0), 1: part(20).count(0)}
    assert [Counter(one) for one in turns] == [Counter(sizes)] * 2
    assert turns[0] != sorted(turns[0])


def test_parts_may_be_of_different_kinds() -> None:
    text = RowsInMemory([[[*range(5, 60)]]])
    mixed = Mixture([part(9), Windows(text, length=6, batch=2, seed=0)], seed=0)
    for epoch in (0, 1):
        found = [batch for batch, _ in some(mixed, Place(epoch, 0), mixed.count(epoch))]
        assert {batch.columns[0].size(1) for batch in found if batch.part == 1} == {7}
        assert sum(len(batch) for batch in found if batch.part == 0) == 9
    in_order = list(mixed.in_order())
    assert [batch.part for batch in in_order] == sorted(batch.part for batch in in_order)
    assert sum(len(batch) for batch in in_order if batch.part == 0) == 9
    assert (mixed.largest().part, mixed.largest().columns[0].numel()) == (1, 14)


def test_an_empty_mixture_or_part_is_refused() -> None:
    class Empty(Buckets):
        def count(self, epoch: int) -> int:
            return 0

    with pytest.raises(InputError, match="a mixture of no parts was asked for; give at least one"):
        Mixture([], seed=0)
    with pytest.raises(InputError, match="a seed of -1 was given; give 0 or more"):
        Mixture([part(3)], seed=-1)
    empty = Empty(RowsInMemory([[[1]]]), tokens=1, seed=0)
    with pytest.raises(InputError, match="part 2 of the mixture has no batch; give it examples, or leave it out"):
        Mixture([part(3), empty], seed=0)


@pytest.mark.parametrize("place", [Place(0, 9), Place(0, 99), Place(-1, 0), Place(2, -1)])
def test_a_place_that_is_not_there_is_refused(place: Place) -> None:
    mixed = mixture([6, 8])
    assert mixed.count(0) == 9
    with pytest.raises(InputError, match="is not in this mixture, whose epochs have 9 batches; resume with"):
        next(mixed.stream(place))


def test_a_part_comes_as_often_as_it_has_batches() -> None:
    """Liu et al. 2019, Algorithm 1: at any moment of an epoch, in proportion to what each part has."""
    counts = [18, 6, 3]
    mixed = mixture(counts)
    batches = [part(count).count(0) for count in counts]
    turns = np.array([[make().part for make in mixed.epoch(epoch, 0)] for epoch in range(400)])  # (epochs, batches)
    for number, count in enumerate(batches):
        shares = (turns == number).mean(axis=0)  # by the place in an epoch
        assert np.abs(shares - count / sum(batches)).max() < 0.11  # over four standard deviations of 400 draws


def parted_rows(count: int, seed: int) -> list[list[list[int]]]:
    """Rows of three columns, the last as long as the number of the part, 0 to 2."""
    rng = np.random.default_rng(seed)
    return [[[9 + i] * (1 + i % 4), [i], [0] * int(rng.integers(3))] for i in range(count)]


@pytest.mark.parametrize("part", [0, 1, 2])
def test_the_rows_of_a_part_are_those_that_bear_its_number(part: int, tmp_path: Path) -> None:
    rows = parted_rows(50, seed=3)
    how = {"columns": 3, "vocab_size": 99, "fingerprint": "f", "count": 50}
    write_rows(tmp_path / "rows", rows, shard_rows=9, **how)
    for whole in (RowsOnDisk.open(tmp_path / "rows", "f"), RowsInMemory(rows)):
        own = RowsOfPart(whole, part, 2)
        expected = sorted(row[:2] for row in rows if len(row[2]) == part)
        assert sorted(each_row(own)) == expected
        assert len(own) == len(expected) == sum(len(own.lengths(shard)) for shard in range(own.shards))
        batches = [make() for make in Buckets(own, tokens=12, seed=1).epoch(0, 0)]
        assert sorted(int(batch.columns[1][i, 0]) for batch in batches for i in range(len(batch))) == sorted(
            row[1][0] for row in expected
        )
    assert whole.shards == 1
    assert RowsOnDisk.open(tmp_path / "rows", "f").shards > 1
