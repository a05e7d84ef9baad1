"""Learned-query pooling: the equations by a loop, gradients, padding, and that recording sees it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kit import draw
from qkv.attention.pooling import Pooling, mean
from qkv.look import record_attention
from qkv.models import HierarchicalConfig

WIDTH = 6


def pooling(seed: int = 0) -> Pooling:
    torch.manual_seed(seed)
    return Pooling(HierarchicalConfig(), WIDTH).double()


def texts(lengths: list[int], seed: int) -> tuple[Tensor, Tensor]:
    h = draw(len(lengths), 5, WIDTH, seed=seed).double()
    return h, torch.arange(5) < torch.tensor(lengths)[:, None]


def by_loop(part: Pooling, h: Tensor, mask: Tensor) -> tuple[list[list[float]], list[list[float]]]:
    """Yang et al. 2016, Eqs. 5-7, one number at a time."""
    w, b, query = part.key.weight.tolist(), part.key.bias.tolist(), part.query.tolist()
    contexts, all_weights = [], []
    for row, seen in zip(h.tolist(), mask.tolist(), strict=True):
        scores = []
        for x in row:
            u = [
                math.tanh(sum(wi * xi for wi, xi in zip(line, x, strict=True)) + bi)
                for line, bi in zip(w, b, strict=True)
            ]
            scores.append(math.exp(sum(ui * qi for ui, qi in zip(u, query, strict=True))))
        total = sum(score for score, can in zip(scores, seen, strict=True) if can)
        weights = [score / total if can else 0.0 for score, can in zip(scores, seen, strict=True)]
        contexts.append([sum(a * x[d] for a, x in zip(weights, row, strict=True)) for d in range(WIDTH)])
        all_weights.append(weights)
    return contexts, all_weights


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 10**6))
def test_it_is_the_papers_equations(lengths: list[int], seed: int) -> None:
    part, (h, mask) = pooling(seed), texts(lengths, seed)
    context, weights = part.plain(h, mask)
    expected = by_loop(part, h, mask)
    torch.testing.assert_close(context, torch.tensor(expected[0]).double())
    torch.testing.assert_close(weights, torch.tensor(expected[1]).double())
    torch.testing.assert_close(weights.sum(-1), (torch.tensor(lengths) > 0).double())  # 1, or 0 for nothing
    assert torch.equal(part(h, mask), context)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 10**6))
def test_what_lies_under_padding_changes_nothing(lengths: list[int], seed: int) -> None:
    part, (h, mask) = pooling(seed), texts(lengths, seed)
    dirty = torch.where(mask[:, :, None], h, 100.0)
    assert torch.equal(part(h, mask), part(dirty, mask))
    assert torch.equal(mean(h, mask), mean(dirty, mask))


def test_gradients_are_those_of_finite_differences() -> None:
    """The learned query's own gradient among them."""
    part, (h, mask) = pooling(), texts([5, 2], 1)
    names = [name for name, _ in part.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in part.parameters()]

    def forward(h: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(part, dict(zip(names, weights, strict=True)), (h, mask))

    assert names == ["query", "key.weight", "key.bias"]
    assert torch.autograd.gradcheck(forward, (h.requires_grad_(), *values), atol=1e-6)


def test_the_order_of_the_words_does_not_matter() -> None:
    part, (h, mask) = pooling(), texts([5], 2)
    torch.testing.assert_close(part(h[:, [3, 1, 4, 0, 2]], mask), part(h, mask))


def test_recording_sees_its_weights() -> None:
    part, (h, mask) = pooling(), texts([5, 3], 3)
    with record_attention(torch.nn.ModuleDict({"words": part})) as maps:
        context = part(h, mask)
    assert maps["words"].shape == (2, 1, 1, 5)
    plain = part.plain(h, mask)
    assert torch.equal(maps["words"][:, 0, 0], plain[1])
    assert torch.equal(context, plain[0])


def test_the_mean_is_the_mean() -> None:
    h, mask = texts([5, 2, 0], 4)
    found = mean(h, mask)
    torch.testing.assert_close(found[0], h[0].mean(0))
    torch.testing.assert_close(found[1], h[1, :2].mean(0))
    assert found[2].tolist() == pytest.approx([0.0] * WIDTH)
