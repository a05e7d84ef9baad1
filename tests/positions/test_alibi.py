"""ALiBi: the slopes of the paper, and a penalty that grows evenly with the distance."""

import pytest
import torch

from qkv.models import TransformerConfig
from qkv.positions import ALiBi, Places
from qkv.positions.relative import slopes

CPU = torch.device("cpu")


def test_eight_heads_have_the_papers_slopes() -> None:
    """Section 3: for 8 heads the slopes are 1/2, 1/4 .. 1/256; for 16 heads every other one is 2^-0.5, 2^-1.5 .."""
    assert slopes(8) == [1 / 2**h for h in range(1, 9)]
    assert slopes(16) == pytest.approx([2 ** (-h / 2) for h in range(1, 17)])


def test_other_numbers_of_heads_take_the_missing_ones_from_the_next_power() -> None:
    assert slopes(12) == pytest.approx(slopes(8) + slopes(16)[0:8:2])
    assert slopes(1) == [1 / 256]
    assert [len(slopes(n)) for n in range(1, 40)] == list(range(1, 40))
    for n in range(1, 40):
        assert len(set(slopes(n))) == n
        assert all(0 < slope < 1 for slope in slopes(n))


def test_the_score_is_minus_the_slope_times_the_distance() -> None:
    position = ALiBi(TransformerConfig(d_model=12, n_heads=3))
    q = torch.zeros(1, 3, 4, 4)
    found = position.score(q, q, Places.span(2, 6, CPU))
    for h, slope in enumerate(slopes(3)):
        for t, i in enumerate(range(2, 6)):
            assert found[h, t].tolist() == pytest.approx([-slope * abs(i - j) for j in range(6)])


def test_there_is_nothing_to_learn_and_nothing_to_save() -> None:
    position = ALiBi(TransformerConfig(d_model=12, n_heads=3))
    assert not list(position.parameters())
    assert not position.state_dict()
