"""A batch, the place after it, and the draws that belong to a place."""

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from kit import batch
from qkv.data import START, Buckets, Place, RowsInMemory, generator

PLACES = st.builds(Place, st.integers(0, 2**31), st.integers(0, 2**31))


def draws(seed: int, place: Place) -> list[float]:
    return torch.rand(4, generator=generator(seed, place)).tolist()


@given(st.integers(0, 2**63 - 1), PLACES)
def test_the_same_place_draws_the_same(seed: int, place: Place) -> None:
    state = torch.get_rng_state()
    assert draws(seed, place) == draws(seed, place)
    assert torch.equal(torch.get_rng_state(), state)  # and nobody else's numbers are touched


def test_other_places_and_seeds_draw_others() -> None:
    """Also where epoch and batch, or seed and epoch, change places."""
    places = [(seed, Place(epoch, number)) for seed, epoch, number in itertools.product(range(6), repeat=3)]
    found = {tuple(draws(seed, place)) for seed, place in places}
    assert len(found) == len(places)


def test_draws_of_neighbouring_places_are_not_alike() -> None:
    """The first numbers of 2,000 places in a row are as even, and as little like their neighbours, as any draws:
    mean 1/2 and correlation 0 within four standard errors."""
    first = torch.tensor([draws(1, Place(0, number))[0] for number in range(2000)])
    assert abs(first.mean() - 0.5) < 4 * (1 / 12 / 2000) ** 0.5
    assert abs(torch.corrcoef(torch.stack([first[:-1], first[1:]]))[0, 1]) < 4 / 2000**0.5


def test_the_place_after_a_batch() -> None:
    assert Place(0, 0) == START
    three = Buckets(RowsInMemory([[[5]], [[6]], [[7]]]), tokens=1, seed=0)
    after = [place for _, place in itertools.islice(three.stream(Place(2, 0)), 3)]
    assert after == [Place(2, 1), Place(2, 2), Place(3, 0)]


def test_a_batch_is_moved_whole() -> None:
    one = batch([[5, 6], [7]], [[8], [9, 4]])
    moved = one.to("meta")
    assert [ids.device.type for ids in moved.columns] == ["meta"] * 2
    assert moved.lengths.device.type == "meta"
    assert (moved.part, moved.begins, moved.rows.tolist()) == (one.part, one.begins, [[0, 0], [0, 1]])
    assert [ids.shape for ids in moved.columns] == [(2, 2), (2, 2)]
