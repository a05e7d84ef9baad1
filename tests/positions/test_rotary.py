"""Rotary positions are rotations: lengths stay, and products see only the distance, in both layouts."""

import cmath

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kit import draw64 as draw
from qkv.models import TransformerConfig
from qkv.positions import Places, Rotary

K = 8
SIZES = TransformerConfig(d_model=2 * K, n_heads=2, max_length=16)
LAYOUTS = ["halves", "interleaved"]


def at(*places: int) -> Places:
    place = torch.tensor(places)
    return Places(place, place)


def rotary(layout: str, base: float = 10000.0) -> Rotary:
    """In float64 from the start, so that the table is exact."""
    torch.set_default_dtype(torch.float64)
    try:
        return Rotary(SIZES, layout=layout, base=base)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_pair_is_a_complex_number_times_a_turn(layout: str, base: float) -> None:
    """RoFormer, Eq. 13: (x_1 + i x_2) e^(i m theta), theta_i = base^(-2i/d)."""
    x, place = draw(1, 1, 1, K), 11
    found = rotary(layout, base).rotate(x, at(place))[0, 0, 0].tolist()
    given = x[0, 0, 0].tolist()
    for i in range(K // 2):
        a, b = (i, i + K // 2) if layout == "halves" else (2 * i, 2 * i + 1)
        turned = complex(given[a], given[b]) * cmath.exp(1j * place * base ** (-2 * i / K))
        assert found[a] == pytest.approx(turned.real, abs=1e-12)
        assert found[b] == pytest.approx(turned.imag, abs=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(0, 999))
def test_a_product_depends_on_the_distance_only(layout: str, m: int, n: int, shift: int, seed: int) -> None:
    position, q, k = rotary(layout), draw(1, 1, 1, K, seed=seed), draw(1, 1, 1, K, seed=seed + 1)

    def product(m: int, n: int) -> Tensor:
        return (position.rotate(q, at(m)) * position.rotate(k, at(n))).sum()

    torch.testing.assert_close(product(m + shift, n + shift), product(m, n), atol=1e-10, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_turn_keeps_lengths_and_place_0_keeps_all(layout: str) -> None:
    position, x = rotary(layout), draw(2, 2, 5, K)
    torch.testing.assert_close(position.rotate(x, at(1, 2, 3, 90, 400)).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(position.rotate(x[:, :, :1], at(0)), x[:, :, :1])


def test_the_layouts_are_one_up_to_the_order_of_numbers() -> None:
    """So weights of one fit the other once the rows of W^Q and W^K are put in order."""
    order = torch.arange(K).view(2, K // 2).T.flatten()  # 0 4 1 5 2 6 3 7
    x, places = draw(2, 2, 3, K), at(3, 4, 9)
    expected = rotary("halves").rotate(x, places)[..., order]
    torch.testing.assert_close(rotary("interleaved").rotate(x[..., order], places), expected, atol=1e-12, rtol=0)


def test_there_is_nothing_to_learn_and_nothing_to_save() -> None:
    position = Rotary(SIZES)
    assert not list(position.parameters())
    assert not position.state_dict()
