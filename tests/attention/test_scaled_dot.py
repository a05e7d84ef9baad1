"""Scaled dot-product attention: a worked example, the fused kernel against the plain form, rows that see nothing."""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from qkv.attention import Soft, build_attention, causal
from qkv.attention.soft import SHORT
from qkv.errors import InputError
from qkv.models import TransformerConfig
from qkv.positions import NO_POSITION, Places, Position

# A worked example of a lecture: "I am good" as three vectors, Z = softmax(X X^T) X, printed with six decimals.
X = torch.tensor([[1, 3, 2], [1, 1, 3], [1, 2, 1]], dtype=torch.float64)
PRINTED = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.000000]]

B, H, K = 3, 2, 8
SOFT = Soft(TransformerConfig(d_model=H * K, n_heads=H))


class Given(Position):
    """A position encoding that adds to the scores what it is given."""

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.bias = bias

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return self.bias


def places(q: Tensor, k: Tensor) -> Places:
    """The queries are the last of the keys."""
    return Places.span(k.size(-2) - q.size(-2), k.size(-2), q.device)


def by_hand(rows: list[list[float]], scale: float) -> list[list[float]]:
    """softmax(rows rows^T * scale) in plain Python."""
    found = []
    for q in rows:
        powers = [math.exp(scale * sum(a * b for a, b in zip(q, k, strict=True))) for k in rows]
        found.append([power / sum(powers) for power in powers])
    return found


def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    context, weights = SOFT.plain(q[None, None], k[None, None], v[None, None], places(q, k))
    return context[0, 0], weights[0, 0]


def test_the_worked_example_without_scale() -> None:
    context, weights = attend(X * math.sqrt(3), X, X)
    torch.testing.assert_close(context, torch.tensor(PRINTED, dtype=torch.float64), atol=1e-6, rtol=0)
    expected = torch.tensor(by_hand(X.tolist(), 1.0), dtype=torch.float64)
    torch.testing.assert_close(weights, expected, atol=1e-9, rtol=0)


def test_the_worked_example_with_the_papers_scale() -> None:
    context, weights = attend(X, X, X)
    expected = torch.tensor(by_hand(X.tolist(), 1 / math.sqrt(3)), dtype=torch.float64)
    torch.testing.assert_close(weights, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(context, expected @ X, atol=1e-9, rtol=0)


def test_scores_that_would_overflow_do_not() -> None:
    """exp(1400) is beyond any float: the row's maximum must be taken off first."""
    context, weights = attend(X * 100, X, X)
    assert context.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, dtype=torch.float64))


def test_a_vector_added_to_all_keys_changes_no_weight() -> None:
    torch.manual_seed(0)
    q, k, v, common = (torch.randn(5, 8, dtype=torch.float64) for _ in range(4))
    torch.testing.assert_close(attend(q, k + common[0], v)[1], attend(q, k, v)[1], atol=1e-12, rtol=0)


MASKS = ("none", "padding", "causal", "both", "blind rows")
BIASES = ("none", "for all", "for each head", "for each row")


@dataclass
class Case:
    """q, k, v and bias that want gradients, and a mask. Under "blind rows" some queries see nothing at all."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    bias: Tensor | None

    def given(self) -> tuple[Tensor, Tensor, Tensor, Places, Tensor | None, Position]:
        """What an attention is called with."""
        position = NO_POSITION if self.bias is None else Given(self.bias)
        return self.q, self.k, self.v, places(self.q, self.k), self.mask, position


def case(mask: str, bias: str, queries: int, keys: int, dtype: torch.dtype) -> Case:
    T, S = queries, keys
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    lengths = torch.tensor([S, max(1, S // 2), 1])
    padded = (torch.arange(S)[None, :] < lengths[:, None])[:, None, None, :]  # (B, 1, 1, S)
    at = Places.span(S - T, S, torch.device("cpu"))
    blind = torch.rand(B, 1, T, S, generator=generator) < 0.5
    blind[0, :, 0], blind[2] = False, False
    masks = {
        "none": None, "padding": padded, "causal": causal(at), "both": padded & causal(at), "blind rows": blind
    }  # fmt: skip
    shapes = {"for all": (T, S), "for each head": (1, H, T, S), "for each row": (B, 1, T, S)}
    more = draw(*shapes[bias]) if bias != "none" else None
    return Case(draw(B, H, T, K), draw(B, H, S, K), draw(B, H, S, K), masks[mask], more)


def gradients(context: Tensor, inputs: Case) -> list[Tensor]:
    along = torch.randn(context.shape, generator=torch.Generator().manual_seed(1), dtype=context.dtype)
    wanted = [x for x in (inputs.q, inputs.k, inputs.v, inputs.bias) if x is not None]
    return list(torch.autograd.grad((context * along).sum(), wanted))


@pytest.mark.parametrize(("mask", "bias"), list(itertools.product(MASKS, BIASES)))
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (1, 7), (3, 70)])
def test_the_fused_kernel_equals_the_plain_form(mask: str, bias: str, queries: int, keys: int) -> None:
    inputs = case(mask, bias, queries, keys, torch.float32)
    plain, weights = SOFT.plain(*inputs.given())
    fused, chosen = SOFT.fused(*inputs.given()), SOFT(*inputs.given())
    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(chosen, plain, atol=1e-5, rtol=1e-5)
    pairs = zip(gradients(fused, inputs), gradients(plain, inputs), strict=True)
    for by_kernel, by_steps in pairs:
        assert by_steps.isfinite().all()
        torch.testing.assert_close(by_kernel, by_steps, atol=1e-5, rtol=1e-4)
    sees = torch.ones(queries, keys, dtype=torch.bool) if inputs.mask is None else inputs.mask
    sees = sees.expand(B, H, queries, keys)
    torch.testing.assert_close(weights.sum(-1), sees.any(-1).float())
    assert not weights[~sees].any()


def test_a_row_that_sees_nothing_gives_zeros_in_both_forms() -> None:
    inputs = case("blind rows", "for all", 4, 6, torch.float32)
    assert not inputs.mask[2].any()
    for context in (SOFT.plain(*inputs.given())[0], SOFT.fused(*inputs.given())):
        assert not context[2].any()
        assert not context[0, :, 0].any()
        assert context[1].any()
        for gradient in gradients(context, inputs):
            assert gradient.isfinite().all()


def test_float32_equals_float64() -> None:
    inputs = case("both", "for each head", 6, 6, torch.float64)
    narrow = Case(inputs.q.float(), inputs.k.float(), inputs.v.float(), inputs.mask, inputs.bias.float())
    torch.testing.assert_close(SOFT(*narrow.given()).double(), SOFT(*inputs.given()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("keys", [SHORT, SHORT + 1])
def test_nothing_changes_where_one_form_hands_over_to_the_other(keys: int) -> None:
    inputs = case("padding", "none", 2, keys, torch.float64)
    torch.testing.assert_close(SOFT(*inputs.given()), SOFT.plain(*inputs.given())[0], atol=1e-12, rtol=0)


def test_the_derivative_of_the_weights() -> None:
    """Softmax: dp_i / ds_j = p_i (1 if i = j else 0) - p_i p_j. A bias is added to the scores, so it shows them."""
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 1, K, dtype=torch.float64), torch.randn(1, 1, 6, K, dtype=torch.float64)

    def weights(bias: Tensor) -> Tensor:
        return SOFT.plain(q, k, k, places(q, k), None, Given(bias))[1].flatten()

    bias = torch.randn(6, dtype=torch.float64)
    p = weights(bias)
    found = torch.autograd.functional.jacobian(weights, bias)
    torch.testing.assert_close(found, torch.diag(p) - torch.outer(p, p), atol=1e-12, rtol=0)


def test_the_scale_keeps_the_gradient_alive_at_any_width() -> None:
    """Section 3.2.1, footnote 4: unscaled, scores have variance d_k and softmax saturates."""
    torch.manual_seed(0)

    def mean_norm(width: int, scale: float) -> float:
        q, k = torch.randn(500, 1, 1, width) * scale, torch.randn(500, 1, 8, width)
        p = SOFT.plain(q, k, k, places(q, k))[1][:, 0, 0]
        jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        return jacobian.norm(dim=(1, 2)).mean().item()

    widths = (4, 16, 64, 256, 1024)
    scaled = [mean_norm(width, 1.0) for width in widths]
    unscaled = [mean_norm(width, math.sqrt(width)) for width in widths]
    assert max(scaled) < 1.1 * min(scaled)
    assert unscaled == sorted(unscaled, reverse=True)
    assert unscaled[-1] < 0.2 * scaled[-1]


@pytest.mark.parametrize("keys", [10, SHORT + 10])
def test_dropout_acts_on_the_weights_in_training_only(keys: int) -> None:
    """With unit vectors as values the context is the weights themselves: each is dropped or doubled."""
    torch.manual_seed(0)
    attention = build_attention("scaled_dot(dropout=0.5)", TransformerConfig(d_model=keys, n_heads=1), "encoder")
    q, k = torch.randn(1, 1, 200, keys), torch.randn(1, 1, keys, keys)
    v, at = torch.eye(keys)[None, None], Places(torch.arange(200), torch.arange(keys))
    whole, weights = attention.eval().plain(q, k, v, at)
    torch.testing.assert_close(attention(q, k, v, at), whole)
    dropped = attention.train()(q, k, v, at)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * weights[kept])
    torch.testing.assert_close(attention.plain(q, k, v, at)[1], weights)  # what is shown is never dropped


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 7])
def test_an_impossible_dropout_is_refused(dropout: float) -> None:
    with pytest.raises(InputError, match="at least 0 and below 1"):
        build_attention(f"scaled_dot(dropout={dropout})", TransformerConfig(), "encoder")
