"""Feed-forward, residual, block and stack: each place by itself, the two places of the norm, and depth."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import draw
from qkv.layers import FeedForward, GatedFeedForward, Residual, Stack
from qkv.models import LlamaConfig, TransformerConfig
from qkv.positions import Places

CONFIG = TransformerConfig(d_model=16, d_ff=24, n_heads=2, dropout=0.0)


def stack(depth: int, **settings: object) -> Stack:
    torch.manual_seed(0)
    config = TransformerConfig(dropout=0.0, **settings)
    return Stack(config, layers=depth).eval()


def places(x: Tensor) -> Places:
    return Places.span(0, x.size(1), x.device)


class TestFeedForward:
    def test_one_place_does_not_see_another(self) -> None:
        torch.manual_seed(0)
        jacobian = torch.autograd.functional.jacobian(FeedForward(CONFIG), torch.randn(5, 16))  # (5, 16, 5, 16)
        sees = jacobian.abs().sum(dim=(1, 3)) > 0
        assert torch.equal(sees, torch.eye(5, dtype=torch.bool))

    def test_it_is_two_convolutions_of_width_one(self) -> None:
        """Vaswani et al. 2017, section 3.3."""
        torch.manual_seed(0)
        layer, x = FeedForward(CONFIG), torch.randn(3, 7, 16)
        inner = F.conv1d(x.transpose(1, 2), layer.expand.weight[:, :, None], layer.expand.bias).relu()
        expected = F.conv1d(inner, layer.contract.weight[:, :, None], layer.contract.bias).transpose(1, 2)
        torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=0)

    def test_its_dropout_is_inside(self) -> None:
        torch.manual_seed(0)
        layer = FeedForward(TransformerConfig(d_model=16, d_ff=24, n_heads=2, activation_dropout=0.5))
        x = torch.randn(4, 16)
        assert not torch.equal(layer(x), layer(x))
        assert torch.equal(layer.eval()(x), layer(x))

    def test_a_gate_multiplies_what_is_expanded(self) -> None:
        """Shazeer 2020, Eq. 6, number by number."""
        layer, x = GatedFeedForward(LlamaConfig(d_model=4, d_ff=3, n_heads=2)), [0.5, -1.0, 2.0, 0.25]
        assert not any(name.endswith("bias") for name, _ in layer.named_parameters())
        gate, expand, contract = (part.weight.tolist() for part in (layer.gate, layer.expand, layer.contract))
        dots = [[sum(w * v for w, v in zip(row, x, strict=True)) for row in weight] for weight in (gate, expand)]
        inner = [g / (1 + math.exp(-g)) * e for g, e in zip(*dots, strict=True)]
        expected = [sum(w * v for w, v in zip(row, inner, strict=True)) for row in contract]
        assert layer(torch.tensor([[x]]))[0, 0].tolist() == pytest.approx(expected, abs=1e-6)


class TestResidual:
    @pytest.fixture
    def x(self) -> Tensor:
        return 5 * draw(3, 4, 16, seed=0) + 2

    def test_post_normalises_the_sum(self, x: Tensor) -> None:
        out = Residual(16, 0.0, "post")(x, lambda x: 3 * x)
        torch.testing.assert_close(out, F.layer_norm(4 * x, (16,)))
        torch.testing.assert_close(out.mean(-1), torch.zeros(3, 4), atol=1e-6, rtol=0)
        torch.testing.assert_close(out.var(-1, correction=0), torch.ones(3, 4), atol=1e-5, rtol=0)

    def test_pre_normalises_what_the_sub_layer_reads(self, x: Tensor) -> None:
        out = Residual(16, 0.0, "pre")(x, lambda x: 3 * x)
        torch.testing.assert_close(out, x + 3 * F.layer_norm(x, (16,)))

    def test_the_norm_does_not_see_scale_and_shift(self, x: Tensor) -> None:
        norm = Residual(16, 0.0, "post").norm
        torch.testing.assert_close(norm(7 * x - 100), norm(x), atol=1e-4, rtol=0)

    def test_an_rms_norm_divides_by_the_root_mean_square_alone(self, x: Tensor) -> None:
        """Zhang & Sennrich 2019, Eq. 4."""
        out = Residual(16, 0.0, "pre", 1e-6, rms=True)(x, lambda x: 3 * x)
        torch.testing.assert_close(out, x + 3 * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt())

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_dropout_touches_the_sub_layer_and_not_the_way_around_it(self, norm: str, x: Tensor) -> None:
        torch.manual_seed(0)
        residual = Residual(16, 0.5, norm)
        out = residual(x, torch.ones_like)
        added = out - x if norm == "pre" else None
        if added is not None:
            assert set(added.round().flatten().tolist()) == {0.0, 2.0}
        else:
            torch.manual_seed(0)
            torch.testing.assert_close(out, F.layer_norm(x + residual.dropout(torch.ones_like(x)), (16,)))


class TestStack:
    def test_pre_norm_blocks_that_add_nothing_are_the_identity(self) -> None:
        encoder = stack(4, d_model=16, d_ff=24, n_heads=2, norm="pre")
        with torch.no_grad():
            for block in encoder.blocks:
                for last in (block.attention.output, block.feed_forward.contract):
                    last.weight.zero_()
                    if last.bias is not None:
                        last.bias.zero_()
        x = torch.randn(2, 5, 16)
        positioned = encoder.position.embed(x, places(x))
        torch.testing.assert_close(encoder(x, places(x), None), encoder.norm(positioned))

    def test_only_pre_norm_ends_in_a_norm(self) -> None:
        assert isinstance(stack(1, norm="pre").norm, nn.LayerNorm)
        assert not list(stack(1, norm="post").norm.parameters())

    def test_order_matters_with_positions_and_only_with_them(self) -> None:
        encoder = stack(2, d_model=16, d_ff=24, n_heads=2)
        x, order = torch.randn(1, 6, 16), torch.randperm(6, generator=torch.Generator().manual_seed(1))
        moved = encoder(x[:, order], places(x), None)
        assert (moved - encoder(x, places(x), None)[:, order]).abs().max() > 0.01
        encoder.position.table.zero_()
        moved = encoder(x[:, order], places(x), None)
        torch.testing.assert_close(moved, encoder(x, places(x), None)[:, order], atol=1e-5, rtol=0)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_the_first_of_36_layers_learns_as_fast_as_the_last(self, norm: str) -> None:
        """That is what the residuals are for: without them the gradient withers on its way down."""
        ratio = first_over_last(stack(36, d_model=64, d_ff=64, n_heads=4, norm=norm))
        bare = stack(36, d_model=64, d_ff=64, n_heads=4, norm=norm)
        for module in list(bare.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, Residual):
                    setattr(module, name, NoWayAround(child.norm))
        assert 0.2 < ratio < 5
        assert ratio > 3 * first_over_last(bare)


class NoWayAround(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, f: nn.Module) -> Tensor:
        return self.norm(f(x))


def first_over_last(encoder: Stack) -> float:
    """How the gradient of the first feed-forward network compares with that of the last."""
    generator = torch.Generator().manual_seed(1)
    x, along = torch.randn(4, 10, 64, generator=generator), torch.randn(4, 10, 64, generator=generator)
    (encoder(x, places(x), None) * along).sum().backward()
    norms = [encoder.blocks[i].feed_forward.expand.weight.grad.norm().item() for i in (0, -1)]
    return norms[0] / norms[1]
