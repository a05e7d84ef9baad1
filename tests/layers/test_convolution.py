"""Word windows: both forms of a convolution are one, weight normalisation, and how far a stack of windows sees."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from kit import along
from qkv.layers import Convolution, Gated, receptive_field


def bent(convolution: Convolution) -> Convolution:
    """With lengths that are not those of the directions, as after some training."""
    with torch.no_grad():
        convolution.length.uniform_(0.5, 2)
        convolution.bias.normal_()
    return convolution


sizes = {
    "kernel": st.integers(1, 5),
    "dilation": st.integers(1, 4),
    "more": st.integers(0, 6),
    "width": st.integers(1, 4),
    "out": st.integers(1, 5),
}


class TestConvolution:
    @given(**sizes)
    @settings(max_examples=40, deadline=None)
    def test_the_fast_form_equals_the_plain_one(
        self, kernel: int, dilation: int, more: int, width: int, out: int
    ) -> None:
        torch.manual_seed(0)
        layer = bent(Convolution(width, out, kernel=kernel, dilation=dilation)).double()
        x = torch.randn(2, layer.reach + 1 + more, width, dtype=torch.float64, requires_grad=True)
        results = []
        for y in (layer(x), layer.plain(x)):
            assert y.shape == (2, 1 + more, out)
            results.append([y, *torch.autograd.grad((y * along(y)).sum(), [x, *layer.parameters()])])
        torch.testing.assert_close(results[0], results[1], atol=1e-12, rtol=0)

    def test_it_is_a_matrix_over_every_window(self) -> None:
        torch.manual_seed(0)
        layer, x = bent(Convolution(3, 4, kernel=3, dilation=2)).double(), torch.randn(2, 9, 3, dtype=torch.float64)
        y = layer(x)
        for b in range(2):
            for t in range(5):
                window = torch.cat([x[b, t], x[b, t + 2], x[b, t + 4]])
                for row in range(4):
                    direction = layer.direction[row] / layer.direction[row].square().sum().sqrt()
                    expected = layer.length[row, 0] * (direction @ window) + layer.bias[row]
                    torch.testing.assert_close(y[b, t, row], expected, atol=1e-12, rtol=0)

    def test_it_is_torchs_weight_normalised_convolution(self) -> None:
        torch.manual_seed(0)
        ours = bent(Convolution(6, 10, kernel=3, dilation=2))
        theirs = nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 10, 3, dilation=2))
        with torch.no_grad():
            theirs.parametrizations.weight.original0.copy_(ours.length[:, :, None])
            theirs.parametrizations.weight.original1.copy_(ours.direction.view(10, 3, 6).transpose(1, 2))
            theirs.bias.copy_(ours.bias)
        x = torch.randn(4, 11, 6)
        torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2), atol=1e-5, rtol=0)

    def test_how_long_a_direction_is_does_not_matter(self) -> None:
        """Salimans and Kingma 2016, section 2.1: nor does its gradient point along it."""
        torch.manual_seed(0)
        layer, x = bent(Convolution(6, 10, kernel=3)), torch.randn(4, 11, 6)
        before = layer(x)
        (before * along(before)).sum().backward()
        gradient = layer.direction.grad
        lengths = gradient.norm(dim=1) * layer.direction.norm(dim=1)
        assert ((gradient * layer.direction).sum(dim=1).abs() < 1e-5 * lengths).all()
        with torch.no_grad():
            layer.direction *= torch.arange(1, 11)[:, None]
        torch.testing.assert_close(layer(x), before, atol=1e-5, rtol=0)

    @pytest.mark.parametrize(("gain", "kernel", "dropout"), [(4.0, 3, 0.0), (4.0, 5, 0.3), (1.0, 1, 0.0)])
    def test_weights_start_as_the_paper_draws_them(self, gain: float, kernel: int, dropout: float) -> None:
        """Section 3.5: N(0, sqrt(4 p / n)) before a gate and N(0, sqrt(p / n)) elsewhere, p the share that is kept."""
        torch.manual_seed(0)
        layer = Convolution(64, 128, kernel=kernel, gain=gain, dropout=dropout)
        expected = math.sqrt(gain * (1 - dropout) / (kernel * 64))
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.03)
        torch.testing.assert_close(layer.weight, layer.direction)
        assert not layer.bias.any()


class TestGated:
    def test_half_of_it_opens_the_gates_of_the_other(self) -> None:
        torch.manual_seed(0)
        layer, x = Gated(6, kernel=3), torch.randn(2, 8, 6)
        a, b = layer.convolution(x).chunk(2, dim=-1)
        torch.testing.assert_close(layer(x), a / (1 + torch.exp(-b)))

    def test_small_inputs_keep_their_variance_at_the_start(self) -> None:
        """Appendix A.2: for small inputs a gate is about 1/2, and the gain of 4 makes up for it."""
        torch.manual_seed(0)
        x = 0.1 * torch.randn(50, 22, 64)
        assert (Gated(64, kernel=3)(x).std() / x.std()).item() == pytest.approx(1, rel=0.05)

    def test_dropout_is_before_the_window_and_in_training_alone(self) -> None:
        torch.manual_seed(0)
        layer, x = Gated(6, kernel=3, dropout=0.5), torch.randn(2, 9, 6)
        torch.manual_seed(1)
        dropped = layer.dropout(x)
        torch.manual_seed(1)
        found = layer(x)
        layer.eval()
        assert (dropped == 0).any()
        torch.testing.assert_close(found, layer(dropped))
        assert not torch.allclose(found, layer(x))


def stack(kernel: int, dilations: list[int]) -> list[Gated]:
    torch.manual_seed(0)
    return [Gated(4, kernel=kernel, dilation=dilation).double() for dilation in dilations]


def sees(layers: list[Gated], length: int, place: int) -> Tensor:
    """Which tokens of a text of this length the last layer sees from a place, by gradient: (T,)."""
    given = torch.randn(1, length, 4, dtype=torch.float64, requires_grad=True)
    x = given
    for layer in layers:
        x = layer(F.pad(x, (0, 0, layer.reach // 2, layer.reach // 2)))
    (gradient,) = torch.autograd.grad((x[0, place] * along(x[0, place])).sum(), given)
    return gradient[0].any(dim=-1)


class TestStack:
    @pytest.mark.parametrize(
        ("kernel", "dilations", "field"),
        [
            (3, [1] * 1, 3),
            (3, [1] * 2, 5),
            (3, [1] * 3, 7),
            (3, [1] * 4, 9),
            (3, [1] * 5, 11),
            (3, [1] * 6, 13),
            (5, [1] * 3, 13),
            (3, [1, 2, 4], 15),
        ],
    )
    def test_the_receptive_field_is_the_formulas(self, kernel: int, dilations: list[int], field: int) -> None:
        """L layers of windows of k see L (k - 1) + 1 tokens, L (k - 1) / 2 to either side; dilated, more."""
        assert receptive_field(kernel, dilations) == field
        away = (torch.arange(41) - 20).abs()
        assert torch.equal(sees(stack(kernel, dilations), 41, 20), away <= (field - 1) // 2)

    @pytest.mark.parametrize(("length", "kernel"), [(7, 3), (12, 3), (13, 5), (12, 5)])
    def test_two_ends_meet_after_two_lengths_over_the_window_less_one(self, length: int, kernel: int) -> None:
        """Not after length / window layers, as is often said: 2 (n - 1) / (k - 1), rounded up."""
        layers = math.ceil(2 * (length - 1) / (kernel - 1))
        assert layers > length / kernel
        assert sees(stack(kernel, [1] * layers), length, 0)[-1]
        assert not sees(stack(kernel, [1] * (layers - 1)), length, 0)[-1]

    def test_dilation_needs_the_logarithm_of_that(self) -> None:
        doubled = [1, 2, 4, 8]
        assert sees(stack(3, doubled), 16, 0).all()
        assert not sees(stack(3, doubled[:-1]), 16, 0)[-1]
        assert math.ceil(2 * 15 / 2) == 15  # layers that contiguous windows need
