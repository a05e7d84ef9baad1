"""Masks say who may look: True everywhere in qkv, and from the other convention by its name."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.attention import bigbird_blocks, causal, from_blocked, padding, permuted, prefix, together
from qkv.positions import Places

CPU = torch.device("cpu")


def test_padding_is_hidden_from_every_query() -> None:
    mask = padding(torch.tensor([[5, 6, 0, 0], [7, 8, 9, 4]]), 0)
    assert mask.shape == (2, 1, 1, 4)
    assert mask[:, 0, 0].tolist() == [[True, True, False, False], [True, True, True, True]]


def test_a_whole_sentence_is_lower_triangular() -> None:
    assert torch.equal(causal(Places.span(0, 5, CPU)), torch.ones(5, 5, dtype=torch.bool).tril())


def test_a_step_sees_everything_so_far() -> None:
    whole = causal(Places.span(0, 6, CPU))
    assert torch.equal(causal(Places.span(4, 6, CPU)), whole[4:])
    assert causal(Places.span(5, 6, CPU)).all()


def test_the_first_row_sees_itself_only() -> None:
    assert causal(Places.span(0, 4, CPU))[0].tolist() == [True, False, False, False]


def test_masks_join() -> None:
    both = padding(torch.tensor([[5, 6, 0]]), 0) & causal(Places.span(0, 3, CPU))
    assert both[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]


def test_masks_in_which_true_or_one_is_blocked() -> None:
    ids = torch.tensor([[5, 6, 0], [7, 0, 0]])
    blocked = ids == 0
    for theirs in (blocked, blocked.int(), blocked.float()):
        assert torch.equal(from_blocked(theirs)[:, None, None, :], padding(ids, 0))


def rows(*lines: str) -> torch.Tensor:
    return torch.tensor([[sign == "1" for sign in line] for line in lines])


def test_masks_of_papers_drawn_by_hand() -> None:
    """Dong et al. 2019, Figure 1, with three tokens given of six; Yang et al. 2019, Figure 4, for the order 3 2 4 1."""
    written = prefix(torch.arange(6) < 3)
    assert written.equal(rows("111000", "111000", "111000", "111100", "111110", "111111"))
    rank = torch.tensor([3, 2, 4, 1]).argsort()
    assert permuted(rank).equal(rows("1111", "0110", "0010", "0111"))
    assert permuted(rank, sees_itself=False).equal(rows("0111", "0010", "0000", "0110"))


@given(st.lists(st.integers(0, 8), min_size=1, max_size=4))
def test_what_is_given_is_a_bag_and_the_rest_is_causal(lengths: list[int]) -> None:
    """By its definition, pair by pair; of nothing given it is the causal mask, of all given it hides nothing."""
    is_given = torch.arange(8) < torch.tensor(lengths)[:, None]  # (B, 8)
    mask = prefix(is_given)
    for row, n in enumerate(lengths):
        for i in range(8):
            assert mask[row, i].tolist() == [j < n or (i >= n and j <= i) for j in range(8)]
    assert prefix(torch.zeros(8, dtype=torch.bool)).equal(causal(Places.span(0, 8, CPU)))
    assert prefix(torch.ones(8, dtype=torch.bool)).all()


@given(st.permutations(range(7)), st.permutations(range(7)))
def test_in_every_order_each_pair_is_seen_one_way(one: list[int], other: list[int]) -> None:
    rank = torch.tensor([one, other])
    content, query = permuted(rank), permuted(rank, sees_itself=False)
    assert (content ^ content.transpose(1, 2) ^ torch.eye(7, dtype=torch.bool)).all()  # of i and j, one sees the other
    assert (content & ~query).equal(torch.eye(7, dtype=torch.bool).expand(2, 7, 7))
    assert content.sum(dim=2).sort(dim=1).values.tolist() == [list(range(1, 8))] * 2  # the first sees 1, the last all
    assert permuted(torch.arange(7)).equal(causal(Places.span(0, 7, CPU)))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_tokens_of_one_number_see_each_other_and_no_others(numbers: list[int]) -> None:
    mask = together(torch.tensor(numbers))
    assert mask.tolist() == [[a == b for b in numbers] for a in numbers]


@given(st.integers(1, 14), st.integers(0, 4), st.integers(0, 1000))
def test_bigbird_reaches_every_block_in_two_steps(blocks: int, random: int, seed: int) -> None:
    kinds = bigbird_blocks(blocks, random=random, rng=torch.Generator().manual_seed(seed))[0]
    blocked, drawn, window, everywhere = ((kinds == kind) for kind in range(4))
    seen = (~blocked).long()
    assert ((seen @ seen) > 0).all()  # over the first or the last
    assert everywhere[[0, -1]].all()
    assert everywhere[:, [0, -1]].all()
    for i in range(1, blocks - 1):
        assert window[i].nonzero()[:, 0].tolist() == [j for j in (i - 1, i, i + 1) if 0 < j < blocks - 1]
        far = blocks - int((window[i] | everywhere[i]).sum())
        assert int(drawn[i].sum()) == min(random, far)
