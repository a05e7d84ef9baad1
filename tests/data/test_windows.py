"""Windows of running text: no padding, no token asked for twice in an epoch, and the same again from any place."""

import itertools
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.data import Batch, Place, RowsInMemory, RowsOnDisk, Windows, write_rows
from qkv.errors import InputError

SOME = st.tuples(st.integers(2, 200), st.integers(1, 12), st.integers(1, 5))


def text_of(length: int) -> RowsInMemory:
    """A text whose tokens are their own places, counted from 1, in rows of seven."""
    return RowsInMemory([[[*range(1 + i, 1 + min(i + 7, length))]] for i in range(0, length, 7)])


def epoch(windows: Windows, number: int) -> list[Batch]:
    return [batch for batch, _ in itertools.islice(windows.stream(Place(number, 0)), windows.count(number))]


def asked(batches: list[Batch]) -> list[int]:
    """Every token but the first of its window."""
    return [token for batch in batches for row in batch.columns[0].tolist() for token in row[1:]]


def is_running(batch: Batch) -> bool:
    """Each row is a piece of the text, and `rows` says where it begins."""
    ids = batch.columns[0]
    begins = torch.from_numpy(batch.rows[:, 1])[:, None]
    return torch.equal(ids, begins + 1 + torch.arange(ids.size(1)))


@settings(max_examples=100, deadline=None)
@given(SOME, st.integers(0, 4), st.booleans())
def test_a_token_is_asked_for_once_an_epoch(sizes: tuple[int, int, int], number: int, carry: bool) -> None:
    """But for fewer than a window at either end of the text, or of each lane, which wait for another epoch."""
    tokens, length, batch = sizes
    lanes = batch if carry else 1
    tokens += lanes * (length + 1)
    windows = Windows(text_of(tokens), length=length, batch=batch, seed=3, carry=carry)
    found = epoch(windows, number)
    assert len(asked(found)) == len(set(asked(found)))
    left_out = set(range(2, tokens + 1)) - set(asked(found))
    assert len(left_out) < lanes * 2 * length
    assert number or lanes > 1 or left_out == set(range(tokens - len(left_out) + 1, tokens + 1))
    for one in found:
        assert is_running(one)
        assert one.columns[0].shape == (len(one), length + 1)
        assert len(one) == batch or one is found[-1]
        assert one.lengths.tolist() == [[length + 1]] * len(one)
        assert (one.columns[0] > 0).all()
    assert windows.largest().columns[0].numel() >= max(one.columns[0].numel() for one in found)
    assert len(windows) == tokens


def test_over_some_epochs_every_token_is_asked_for() -> None:
    for carry in (False, True):
        windows = Windows(text_of(64), length=8, batch=2, seed=1, carry=carry)
        left_out = set.intersection(*(set(range(2, 65)) - set(asked(epoch(windows, n))) for n in range(40)))
        assert left_out <= ({64} if carry else set())  # 63 tokens in two lanes: one is over


@settings(max_examples=60, deadline=None)
@given(SOME)
def test_in_order_asks_for_every_token_once_and_in_order(sizes: tuple[int, int, int]) -> None:
    tokens, length, batch = sizes
    tokens += length
    for seed, carry in ((0, False), (9, False), (9, True)):
        if tokens >= (batch if carry else 1) * (length + 1):
            windows = Windows(text_of(tokens), length=length, batch=batch, seed=seed, carry=carry)
            found = asked([*windows.in_order()])
            assert (sorted(found) if carry else found) == list(range(2, tokens + 1))
            assert all(map(is_running, windows.in_order()))


@settings(max_examples=60, deadline=None)
@given(SOME, st.integers(0, 40), st.booleans())
def test_any_place_goes_on_as_if_never_left(sizes: tuple[int, int, int], skip: int, carry: bool) -> None:
    tokens, length, batch = sizes
    text = text_of(tokens + (batch if carry else 1) * (length + 1))
    whole = itertools.islice(Windows(text, length=length, batch=batch, seed=2, carry=carry).stream(), skip + 6)
    run = list(whole)
    place = run[skip - 1][1] if skip else Place()
    again = Windows(text, length=length, batch=batch, seed=2, carry=carry).stream(place)
    for (one, after), (other, after_other) in zip(run[skip:], again, strict=False):
        assert torch.equal(one.columns[0], other.columns[0])
        assert (one.begins, after) == (other.begins, after_other)


def test_lanes_go_on_where_they_ended() -> None:
    """Row i of a batch begins with the last token of row i of the batch before it; only an epoch begins anew."""
    windows = Windows(text_of(500), length=7, batch=4, seed=1, carry=True)
    for number in range(3):
        found = epoch(windows, number)
        assert [batch.begins for batch in found] == [True] + [False] * (len(found) - 1)
        for one, following in itertools.pairwise(found):
            assert torch.equal(one.columns[0][:, -1], following.columns[0][:, 0])
    first = epoch(windows, 0)[0].columns[0][:, 0]
    assert first.tolist() == [1, 125, 249, 373]  # 499 tokens are asked for: lanes of 124


def test_in_order_lanes_go_on_too_and_what_is_over_comes_last() -> None:
    """By hand: of 22 tokens, 21 are asked for: four lanes of 5 in windows of 3 and 2, and one over."""
    windows = Windows(text_of(22), length=3, batch=4, seed=1, carry=True)
    found = [(one.columns[0].tolist(), one.begins) for one in windows.in_order()]
    lanes = [1, 6, 11, 16]
    assert found == [
        ([[*range(first, first + 4)] for first in lanes], True),
        ([[*range(first + 3, first + 6)] for first in lanes], False),
        ([[21, 22]], True),
    ]


@pytest.mark.parametrize("carry", [False, True])
def test_backward_all_is_read_from_the_end(carry: bool) -> None:
    """The batches are those of the text whose tokens stand the other way round."""
    turned = RowsInMemory([[[*range(100, 0, -1)]]])
    ours, theirs = (
        Windows(rows, length=7, batch=3, seed=1, carry=carry, backward=rows is not turned)
        for rows in (text_of(100), turned)
    )
    for one, other in zip([*epoch(ours, 1), *ours.in_order()], [*epoch(theirs, 1), *theirs.in_order()], strict=True):
        assert torch.equal(one.columns[0], other.columns[0])
        assert one.begins == other.begins


def test_a_batch_says_of_which_epoch_it_is() -> None:
    windows = Windows(text_of(50), length=10, batch=2, seed=1)
    for number in range(3):
        assert {one.epoch for one in epoch(windows, number)} == {number}


def test_without_lanes_nothing_is_carried_and_the_order_is_random() -> None:
    windows = Windows(text_of(500), length=7, batch=4, seed=1)
    found = epoch(windows, 0)
    assert all(batch.begins for batch in found)
    starts = [start for batch in found for start in batch.rows[:, 1].tolist()]
    assert starts != sorted(starts)
    assert sorted(starts) == list(range(0, 493, 7))


def test_epochs_are_cut_at_other_places_and_seeds_differ() -> None:
    def starts(seed: int, number: int) -> list[int]:
        windows = Windows(text_of(1000), length=50, batch=3, seed=seed)
        return [start for batch in epoch(windows, number) for start in batch.rows[:, 1].tolist()]

    assert starts(1, 2) == starts(1, 2)
    assert starts(1, 0) != starts(2, 0)
    assert len({min(starts(1, number)) for number in range(20)}) > 10
    assert all(min(starts(1, number)) < 50 for number in range(20))


def test_windows_cross_the_borders_of_rows_on_disk() -> None:
    with tempfile.TemporaryDirectory() as place:
        rows = [[[number] * 3] for number in range(1, 41)]
        how = {"columns": 1, "vocab_size": 99, "fingerprint": "0", "count": 40}
        write_rows(Path(place) / "rows", rows, **how, in_order=True)
        windows = Windows(RowsOnDisk.open(Path(place) / "rows", "0"), length=10, batch=2, seed=0)
        whole = [number for row in rows for number in row[0]]
        for batch in [*epoch(windows, 0), *epoch(windows, 1)]:
            for start, ids in zip(batch.rows[:, 1].tolist(), batch.columns[0].tolist(), strict=True):
                assert ids == whole[start : start + 11]


def test_a_text_shorter_than_its_windows_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        Windows(text_of(10), length=10, batch=4, seed=0)
    assert str(caught.value) == (
        "the text has 10 tokens, but 1 x 11 are needed to fill the first windows; "
        "give more text, or a smaller data.window"
    )
    with pytest.raises(InputError, match="the text has 43 tokens, but 4 x 11 are needed to fill the first windows"):
        Windows(text_of(43), length=10, batch=4, seed=0, carry=True)
    assert Windows(text_of(11), length=10, batch=4, seed=0).count(7) == 1
    assert Windows(text_of(44), length=10, batch=4, seed=0, carry=True).count(7) == 1


def test_mistakes_are_told() -> None:
    text = text_of(100)
    windows = Windows(text, length=10, batch=4, seed=0)
    for place in (Place(0, windows.count(0)), Place(-1, 0), Place(0, -1)):
        with pytest.raises(InputError, match="is not in this text, whose epochs have 3 batches; resume with"):
            next(windows.stream(place))
    for length, batch, seed in ((0, 1, 0), (1, 0, 0), (1, 1, -1)):
        with pytest.raises(InputError, match=f"windows of {length} tokens, {batch} in a batch, and a seed of {seed} w"):
            Windows(text, length=length, batch=batch, seed=seed)
