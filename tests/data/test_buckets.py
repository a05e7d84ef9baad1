"""Batches keep to their budget, hold every row once an epoch, go on from any place, and waste little on padding."""

import dataclasses
import gzip
import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import real
from qkv.data import Batch, Buckets, Place, Rows, RowsInMemory, RowsOnDisk, each_row, write_rows
from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

OWNER = "0" * 64


def rows_of_lengths(folder: Path, lengths: list[tuple[int, ...]], shard_rows: int = 2**18) -> RowsOnDisk:
    """Rows with so many ids in each column, and one more in the first: its own number, so that no two are equal."""
    rows = [
        [[1 + number] + [7] * first, *([8] * more for more in others)]
        for number, (first, *others) in enumerate(lengths)
    ]
    write_rows(
        folder, rows, columns=len(rows[0]), vocab_size=10_000, fingerprint=OWNER, count=len(rows), shard_rows=shard_rows
    )
    return RowsOnDisk.open(folder, OWNER)


@pytest.fixture
def rows(tmp_path: Path) -> RowsOnDisk:
    """600 pairs in 5 shards, with lengths that follow each other as those of translations do."""
    rng = np.random.default_rng(0)
    sources = rng.integers(0, 20, 600)
    targets = np.maximum(0, sources + rng.integers(-3, 4, 600))
    return rows_of_lengths(tmp_path / "rows", list(zip(sources.tolist(), targets.tolist(), strict=True)), 128)


def buckets(rows: Rows, tokens: int = 256, seed: int = 5, sizes: tuple[int, ...] = (0, 1)) -> Buckets:
    return Buckets(rows, tokens=tokens, seed=seed, sizes=sizes)


def epoch(batches: Buckets, number: int) -> list[Batch]:
    return [batch for batch, _ in itertools.islice(batches.stream(Place(number, 0)), batches.count(number))]


def same(one: Batch, other: Batch) -> bool:
    pairs = zip((*one.columns, one.lengths), (*other.columns, other.lengths), strict=True)
    return all(torch.equal(a, b) for a, b in pairs) and np.array_equal(one.rows, other.rows)


def numbers(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(shard, row) for batch in batches for shard, row in batch.rows.tolist()]


def all_numbers(rows: Rows) -> list[tuple[int, int]]:
    return [(shard, row) for shard in range(rows.shards) for row in range(len(rows.shard(shard)))]


def widths(batch: Batch, sizes: tuple[int, ...] = (0, 1)) -> list[int]:
    return [batch.columns[column].shape[1] for column in sizes]


def cells(batch: Batch, sizes: tuple[int, ...] = (0, 1)) -> int:
    return len(batch) * sum(widths(batch, sizes))


def test_columns_are_the_rows_padded_to_their_longest(rows: RowsOnDisk) -> None:
    """As a plain loop would build them."""
    for batch in itertools.chain(epoch(buckets(rows), 0), buckets(rows).in_order()):
        found = [rows.shard(shard)[row] for shard, row in batch.rows.tolist()]
        for column, ids in enumerate(batch.columns):
            wide = max(len(row[column]) for row in found)
            assert ids.tolist() == [row[column] + [PAD] * (wide - len(row[column])) for row in found]
            assert ids.dtype == torch.int64
        assert batch.lengths.tolist() == [[len(column) for column in row] for row in found]
        assert len(batch) == len(found)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.integers(1, 3).flatmap(
        lambda k: st.lists(st.tuples(*[st.integers(0, 30)] * k), min_size=1, max_size=60)
    ),
    tokens=st.integers(1, 300),
    shard_rows=st.integers(1, 80),
    in_memory=st.booleans(),
)
def test_every_row_once_and_under_the_budget(
    lengths: list[tuple[int, ...]], tokens: int, shard_rows: int, in_memory: bool
) -> None:
    """A third column costs nothing, however long it is."""
    sizes = tuple(range(len(lengths[0])))[:2]
    with tempfile.TemporaryDirectory() as folder:
        rows: Rows = rows_of_lengths(Path(folder) / "rows", lengths, shard_rows)
        if in_memory:
            rows = RowsInMemory(list(each_row(rows)))
        batches = buckets(rows, tokens, seed=1, sizes=sizes)
        for found in (epoch(batches, 0), epoch(batches, 1), list(batches.in_order())):
            assert sorted(numbers(found)) == all_numbers(rows)
            assert all(len(batch) == 1 or len(batch) * max(widths(batch, sizes)) <= tokens for batch in found)
        assert cells(batches.largest(), sizes) == max(cells(batch, sizes) for batch in epoch(batches, 0))


def test_any_place_goes_on_as_if_never_left(rows: RowsOnDisk) -> None:
    whole = buckets(rows)
    count = whole.count(0)
    run = list(itertools.islice(whole.stream(), 2 * count + 3))
    assert run[count - 1][1] == Place(1, 0)
    assert run[-1][1] == Place(2, 3)
    for stop in (0, 1, count // 2, count - 2, count - 1, count, count + 7):
        saved = json.dumps(dataclasses.asdict(run[stop][1]))
        resumed = buckets(rows).stream(Place(**json.loads(saved)))
        for (batch, place), (again, place_again) in zip(run[stop + 1 :], resumed, strict=False):
            assert same(batch, again)
            assert place == place_again


def test_skipped_batches_are_not_read(rows: RowsOnDisk) -> None:
    """The shards that lie wholly before the place may even be damaged."""
    last = epoch(buckets(rows), 0)[-1]
    for shard in range(rows.shards):
        if shard != last.rows[0, 0]:
            path = rows.folder / f"{shard:05d}.ids"
            path.write_bytes(bytes(path.stat().st_size))
    fresh = buckets(RowsOnDisk.open(rows.folder, OWNER))
    assert same(next(fresh.stream(Place(0, fresh.count(0) - 1)))[0], last)
    with pytest.raises(InputError, match="damaged"):
        epoch(fresh, 0)


def test_epochs_and_seeds_differ_in_batches_not_only_in_their_order(tmp_path: Path) -> None:
    rows = rows_of_lengths(tmp_path / "rows", [(number % 3, number % 2) for number in range(600)])

    def sets(seed: int, number: int) -> set[frozenset[tuple[int, int]]]:
        return {frozenset(numbers([batch])) for batch in epoch(buckets(rows, 64, seed), number)}

    first = sets(0, 0)
    assert sets(0, 0) == first
    for other in (sets(0, 1), sets(0, 2), sets(1, 0)):
        assert len(other & first) < len(first) / 10


def test_batches_come_in_random_order_of_length(rows: RowsOnDisk) -> None:
    wide = [widths(batch)[1] for batch in epoch(buckets(rows, 128, seed=0), 0)]
    assert abs(np.corrcoef(wide[:-1], wide[1:])[0, 1]) < 0.5  # sorted batches would give nearly 1


def test_a_row_wider_than_the_budget_is_alone(tmp_path: Path) -> None:
    rows = rows_of_lengths(tmp_path / "rows", [(5, 5), (900, 10), (5, 6), (10, 700), (4, 4)])
    batches = buckets(rows, 100)
    assert sorted(map(len, epoch(batches, 0))) == [1, 1, 3]
    assert widths(batches.largest())[0] > 900


def test_a_column_that_does_not_count_may_be_long(tmp_path: Path) -> None:
    rows = rows_of_lengths(tmp_path / "rows", [(5, 900)] * 4)
    assert [len(batch) for batch in buckets(rows, 24, sizes=(0,)).in_order()] == [4]
    assert [len(batch) for batch in buckets(rows, 24, sizes=(0, 1)).in_order()] == [1] * 4


def test_a_batch_is_as_full_as_the_budget_allows() -> None:
    """By hand: of lengths 1 1 1 2 2 5 and a budget of 4, batches are 1 1 1, 2 2 and 5 alone."""
    batches = Buckets(RowsInMemory([[[9] * n] for n in (5, 1, 2, 1, 2, 1)]), tokens=4, seed=0)
    assert [batch.rows[:, 1].tolist() for batch in batches.in_order()] == [[1, 3, 5], [2, 4], [0]]
    assert batches.largest().rows.tolist() == [[0, 0]]


def test_rows_of_a_batch_are_alike() -> None:
    """Two lengths that alternate meet their own kind: no batch mixes them but the one at the border."""
    batches = Buckets(RowsInMemory([[[9] * (2 if i % 2 else 9)] for i in range(40)]), tokens=36, seed=0)
    assert sum(len(set(batch.lengths[:, 0].tolist())) > 1 for batch in batches.in_order()) <= 1
    assert batches.count(0) <= 2 + 6


def test_in_order_is_always_the_same_and_sorted(rows: RowsOnDisk) -> None:
    found = list(buckets(rows).in_order())
    assert all(same(one, other) for one, other in zip(found, buckets(rows, seed=9).in_order(), strict=True))
    for _, group in itertools.groupby(found, key=lambda batch: batch.rows[0, 0]):
        wide = [widths(batch)[1] for batch in group]
        assert wide == sorted(wide)


def test_mistakes_are_told(rows: RowsOnDisk) -> None:
    batches = buckets(rows)
    for place in (Place(0, batches.count(0)), Place(-1, 0), Place(0, -1)):
        with pytest.raises(InputError, match=r"is not in this corpus, whose epochs have .* batches; resume with"):
            next(batches.stream(place))
    with pytest.raises(InputError, match="a budget of 0 tokens and a seed of 5 were given; give 1 or more, 0 or more"):
        buckets(rows, 0)
    with pytest.raises(InputError, match="a budget of 256 tokens and a seed of -1 were given"):
        buckets(rows, seed=-1)


@pytest.fixture(scope="module")
def multi30k(tmp_path_factory: pytest.TempPathFactory) -> RowsOnDisk:
    sides = []
    for side in ("de", "en"):
        with gzip.open(real("multi30k", f"train.{side}.gz"), "rt", encoding="utf-8") as file:
            sides.append(file.read().splitlines())
    tokenizer = Tokenizer.train(itertools.chain(*sides), vocab_size=8000)
    pairs = zip(*map(tokenizer.encode_batch, sides), strict=True)
    write_rows(
        (folder := tmp_path_factory.mktemp("multi30k") / "rows"),
        (([*source, EOS], [BOS, *target, EOS]) for source, target in pairs),
        columns=2, vocab_size=8000, fingerprint=OWNER, count=len(sides[0]),
    )  # fmt: skip
    return RowsOnDisk.open(folder, OWNER)


@pytest.mark.parametrize("tokens", [2048, 4096])
def test_padding_takes_less_than_a_twentieth_of_multi30k(multi30k: RowsOnDisk, tokens: int) -> None:
    batches = buckets(multi30k, tokens, seed=0)
    first, second = epoch(batches, 0), epoch(batches, 1)
    padding = sum(int((ids == PAD).sum()) for batch in first for ids in batch.columns)
    assert padding / sum(map(cells, first)) < 0.05
    assert sorted(numbers(first)) == sorted(numbers(second)) == all_numbers(multi30k)
    one, two = ({frozenset(numbers([batch])) for batch in found} for found in (first, second))
    assert len(one & two) < len(one) / 10
