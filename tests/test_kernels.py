"""Faster forms of training: the values and gradients of the plain ones."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv import kernels
from qkv.kernels import FastLinear, attention, can_speed, gelu_tanh, linear
from qkv.models import GPT2, Bert, BertConfig, GPT2Config
from qkv.objectives.smoothing import chunked_cross_entropy, negative_log_likelihood, smoothed_cross_entropy

pytestmark = pytest.mark.skipif(not kernels.HAS_PRODUCT, reason="this processor or torch has no faster product")

PAD = 0


def draw(*shape: int, scale: float = 1.0) -> Tensor:
    return (scale * torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))).requires_grad_()


def same(fast: Callable[..., Tensor], plain: Callable[..., Tensor], *given: Tensor, atol: float = 1e-5) -> None:
    """Value and gradients in float32 beside those of the plain form in float64."""
    exact = [each.detach().double().requires_grad_() for each in given]
    found, expected = fast(*given), plain(*exact)
    torch.testing.assert_close(found.double(), expected, atol=atol, rtol=1e-5)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(5))
    slopes = torch.autograd.grad(found, given, weight)
    for one, other in zip(slopes, torch.autograd.grad(expected, exact, weight.double()), strict=True):
        torch.testing.assert_close(one.double(), other, atol=10 * atol, rtol=1e-4)


@pytest.mark.parametrize(("width", "inner"), [(24, 40), (40, 24), (1, 7), (32, 32)])
@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 1)])
def test_linear(shape: tuple[int, ...], width: int, inner: int) -> None:
    x, weight, bias = draw(*shape, width), draw(inner, width), draw(inner)
    assert can_speed(x)
    same(linear, F.linear, x, weight, bias)
    same(linear, F.linear, x, weight)


def test_what_is_frozen_gets_no_gradient() -> None:
    x, weight, bias = draw(3, 8), draw(6, 8).detach(), draw(6).detach()
    linear(x, weight, bias).sum().backward()
    torch.testing.assert_close(x.grad, weight.sum(dim=0).expand(3, 8))
    assert weight.grad is bias.grad is None


@pytest.mark.parametrize("count", [1, 1000, 2**18, 2**18 + 3, 3 * 2**18])
def test_gelu(count: int) -> None:
    same(gelu_tanh, lambda x: F.gelu(x, approximate="tanh"), draw(count, scale=4.0))


def test_gelu_far_from_zero() -> None:
    x = torch.tensor([-1e30, -100.0, -20.0, 0.0, 20.0, 100.0], requires_grad=True)
    found = gelu_tanh(x)
    assert found.isfinite().all()
    (slope,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(slope[1:], torch.tensor([0.0, 0.0, 0.5, 1.0, 1.0]))


def plain_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.mT / q.size(-1) ** 0.5
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(dim=-1).nan_to_num() @ v


@pytest.mark.parametrize("length", [1, 63, 64, 65, 130, 200])
def test_causal_attention(length: int) -> None:
    q, k, v = (draw(2, 3, length, 8, scale=1 + number) for number in range(3))
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    same(lambda *qkv: attention(*qkv, is_causal=True), lambda *qkv: plain_attention(*qkv, seen), q, k, v, atol=1e-4)


MASKS = {  # what 5 queries of 2 texts may see of 7 keys
    "none": None,
    "padding": torch.tensor([[1] * 7, [1, 1, 1, 1, 0, 0, 0]]).bool()[:, None, None],
    "pairs": torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.5,
    "nothing": torch.tensor([[1] * 7, [0] * 7]).bool()[:, None, None],
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_attention_with_masks(mask: Tensor | None) -> None:
    """Exactly, in float64: its value beside the definition, its gradient beside its slopes."""
    q, k, v = (draw(2, 3, n, 4).detach().double().requires_grad_() for n in (5, 7, 7))

    def fast(*qkv: Tensor) -> Tensor:
        return kernels._Attention.apply(*qkv, mask, False)

    torch.testing.assert_close(fast(q, k, v), plain_attention(q, k, v, mask))
    assert torch.autograd.gradcheck(fast, (q, k, v))


@pytest.mark.parametrize("is_causal", [True, False])
def test_attention_in_bfloat16_is_as_near_as_the_kernel_of_torch(is_causal: bool) -> None:
    rng = torch.Generator().manual_seed(1)
    *drawn, weight = (torch.randn(4, 2, 100, 16, generator=rng).bfloat16() for _ in range(4))
    drawn[0] *= 4  # scores of some size
    mask = torch.ones(100, 100, dtype=torch.bool).tril() if is_causal else None

    def learned(form: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        given = [each.to(dtype).requires_grad_() for each in drawn]
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            found = form(*given)
        return [found.detach(), *torch.autograd.grad(found, given, weight.to(dtype))]

    exact = learned(lambda *qkv: plain_attention(*qkv, mask), torch.float64)
    own = learned(lambda *qkv: attention(*qkv, is_causal=is_causal), torch.bfloat16)
    theirs = learned(lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=is_causal), torch.bfloat16)
    for one, other, right in zip(own, theirs, exact, strict=True):
        assert 0 < (one - right).norm() < 1.5 * (other - right).norm()
        assert not torch.equal(one, other)  # it is another one


def test_longer_texts_keep_no_weights() -> None:
    q = draw(1, 1, kernels.LONGEST + 1, 4)
    assert "ScaledDotProduct" in type(attention(q, q, q, is_causal=True).grad_fn).__name__
    assert "_Attention" in type(attention(*[q[:, :, :-1]] * 3, is_causal=True).grad_fn).__name__


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("cells", [1, 5 * 29, 10**6])
def test_likelihood(cells: int, has_bias: bool) -> None:
    hidden, weight, bias = draw(37, 8), draw(29, 8), draw(29)
    labels = torch.randint(1, 29, (37,), generator=torch.Generator().manual_seed(1))
    labels[[3, 4, 20, 36]] = PAD
    given = (hidden, weight, bias) if has_bias else (hidden, weight)

    def fast(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return negative_log_likelihood(hidden, weight, bias, labels, pad=PAD, cells=cells)[0]

    def plain(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return smoothed_cross_entropy(F.linear(hidden, weight, bias), labels, smoothing=0.0, form="fairseq", pad=PAD)

    same(fast, plain, *given, atol=1e-4)


@pytest.mark.parametrize("cells", [5 * 29, 10**6])
def test_likelihood_in_bfloat16(cells: int) -> None:
    given, labels = (draw(37, 8), draw(29, 8), draw(29)), torch.arange(37) % 29  # with a PAD

    def learned() -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            loss, likelihood = negative_log_likelihood(*given, labels, pad=PAD, cells=cells)
        assert "_Likelihood" in type(loss.grad_fn).__name__
        assert loss.dtype is likelihood.dtype is torch.float32
        return [loss, *torch.autograd.grad(loss, given)]

    exact = [each.detach().double().requires_grad_() for each in given]
    loss = smoothed_cross_entropy(F.linear(*exact), labels, smoothing=0.0, form="fairseq", pad=PAD)
    for one, right in zip(learned(), [loss, *torch.autograd.grad(loss, exact)], strict=True):
        assert (one - right).norm() < 0.01 * right.norm()  # 8 bits


def test_a_word_that_is_all_but_impossible_costs_what_it_should() -> None:
    """Its probability is 0 in float32, its loss is not infinite."""
    hidden, weight, labels = torch.eye(2, requires_grad=True), 300 * torch.eye(3)[:, :2], torch.tensor([2, 1])
    loss, likelihood = negative_log_likelihood(hidden, weight, None, labels, pad=PAD)
    expected, _ = chunked_cross_entropy(hidden, weight, None, labels, smoothing=0.0, form="fairseq", pad=PAD)
    torch.testing.assert_close(loss, expected)
    assert loss.item() == pytest.approx(300, abs=1e-3)
    assert not likelihood.requires_grad


def test_nothing_but_padding_costs_nothing() -> None:
    hidden, weight = draw(4, 8), draw(29, 8)
    loss, _ = negative_log_likelihood(hidden, weight, None, torch.zeros(4, dtype=torch.long), pad=PAD)
    loss.backward()
    assert loss.item() == 0
    assert not weight.grad.any()


@pytest.mark.parametrize("length", [40, 100])
def test_a_gpt2_learns_the_same(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    c = GPT2Config(vocab_size=50, d_model=32, n_heads=4, layers=2, max_length=128, dropout=0.0)
    model, ids = GPT2(c).train(), torch.randint(4, 50, (3, length))
    assert isinstance(model.decoder.blocks[0].feed_forward.expand, FastLinear)

    def learned() -> tuple[Tensor, list[Tensor]]:
        outputs = model(ids)
        given = outputs.hidden[:, :-1].flatten(0, 1), outputs.projection.weight, None, ids[:, 1:].flatten()
        loss, _ = negative_log_likelihood(*given, pad=PAD)
        return loss, list(torch.autograd.grad(loss / ids.numel(), list(model.parameters())))

    fast = learned()
    monkeypatch.setattr(kernels, "HAS_PRODUCT", False)
    plain = learned()
    torch.testing.assert_close(fast[0], plain[0], rtol=1e-6, atol=0)
    for one, other in zip(fast[1], plain[1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("length", [40, 100])
def test_a_bert_learns_the_same_from_texts_with_padding(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Bert(BertConfig(vocab_size=50, d_model=32, n_heads=4, layers=2, max_length=128, dropout=0.0)).train()
    ids, at = torch.randint(4, 50, (3, length)), torch.rand(3, length) < 0.2
    ids[1, 30:] = PAD

    def learned() -> tuple[Tensor, list[Tensor]]:
        outputs = model(ids)
        table, hidden = outputs.projection, outputs.hidden[at]
        loss, _ = negative_log_likelihood(table.ready(hidden), table.weight, table.bias, ids[at], pad=PAD)
        return loss, list(torch.autograd.grad(loss / at.sum(), list(model.parameters())))

    fast = learned()
    monkeypatch.setattr(kernels, "HAS_PRODUCT", False)
    plain = learned()
    torch.testing.assert_close(fast[0], plain[0], rtol=1e-6, atol=0)
    for one, other in zip(fast[1], plain[1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-3)


def test_other_numbers_and_what_is_not_learned_take_the_plain_form() -> None:
    x = draw(3, 8)
    with torch.no_grad():
        assert not can_speed(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not can_speed(x)
        assert can_speed(x, narrow=True)
    with torch.autocast("cpu", torch.float16):
        assert not can_speed(x, narrow=True)
    assert not can_speed(x, narrow=True)
    assert not can_speed(x.double())
    layer = FastLinear(8, 4)
    assert "_Linear" in type(layer(x).grad_fn).__name__
    assert "_Linear" not in type(layer.eval()(x).grad_fn).__name__
