"""Dropout by random bytes: the right rate, the right scale, and the same draw for the same seed."""

import math

import pytest
import torch

from qkv.layers import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_rate_is_p_in_256ths(p: float, seed: int) -> None:
    torch.manual_seed(seed)
    n, rate = 200_000, round(p * 256) / 256
    dropped = (Dropout(p)(torch.ones(n)) == 0).sum().item()
    assert abs(dropped - n * rate) < 4 * math.sqrt(n * rate * (1 - rate))  # four standard deviations


def test_each_of_the_eight_bytes_of_a_word_is_as_good_as_the_others() -> None:
    torch.manual_seed(0)
    n, rate = 25_000, 0.25
    columns = (Dropout(rate)(torch.ones(n, 8)) == 0).sum(dim=0)
    assert ((columns - n * rate).abs() < 4 * math.sqrt(n * rate * (1 - rate))).all()


def test_neighbours_are_independent() -> None:
    torch.manual_seed(0)
    n = 100_000
    dropped = (Dropout(0.5)(torch.ones(n)) == 0).float()
    for distance in (1, 2, 8, 64):
        together = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert abs(together - 0.25) < 4 * math.sqrt(0.25 * 0.75 / n) * 2  # neighbours share draws: twice the width


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(p: float) -> None:
    torch.manual_seed(0)
    dropout = Dropout(p)
    rate = round(p * 256) / 256
    out = dropout(torch.full((400, 500), 3.0))
    torch.testing.assert_close(out[out != 0], torch.full_like(out[out != 0], 3 / (1 - rate)))
    assert out.mean().item() == pytest.approx(3, abs=4 * 3 * math.sqrt(rate / (1 - rate) / out.numel()))


def test_the_gradient_is_the_mask() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 7).requires_grad_()
    out = Dropout(0.4)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient * x, out)
    assert gradient.unique().tolist() == pytest.approx([0.0, 256 / (256 - round(0.4 * 256))])


def test_evaluation_changes_nothing() -> None:
    x = torch.randn(5, 6)
    assert Dropout(0.9).eval()(x) is x


def test_no_dropout_draws_nothing() -> None:
    x = torch.randn(5, 6)
    before = torch.get_rng_state()
    assert Dropout(0.0)(x) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_seed_gives_the_same_mask_and_another_draw_another() -> None:
    dropout, x = Dropout(0.5), torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("p", "level"), [(0.0, 0), (0.001, 0), (0.1, 26), (0.3, 77), (0.5, 128), (0.999, 255)])
def test_p_is_rounded_to_a_level_that_leaves_something(p: float, level: int) -> None:
    dropout = Dropout(p)
    assert dropout.level == level
    assert dropout.extra_repr() == f"p={level / 256}"
    assert dropout(torch.ones(1000)).isfinite().all()


@pytest.mark.parametrize("shape", [(), (1,), (7,), (9,), (3, 0), (2, 3, 5)])
def test_any_shape_and_dtype(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        out = Dropout(0.5)(torch.ones(shape, dtype=dtype))
        assert out.shape == shape
        assert out.dtype == dtype
        assert set(out.flatten().tolist()) <= {0.0, 2.0}


def test_a_view_that_is_not_contiguous() -> None:
    torch.manual_seed(0)
    x = torch.arange(1.0, 101).view(10, 10).T
    out = Dropout(0.5)(x)
    kept = out != 0
    torch.testing.assert_close(out[kept], 2 * x[kept])
