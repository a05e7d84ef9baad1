"""Masks say who may look: True everywhere in qkv, and from the other convention by its name."""

import torch

from qkv.attention import causal, from_blocked, padding
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
