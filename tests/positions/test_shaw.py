"""Shaw's relative positions: the fast form is the equations, far distances share a vector, clip 0 says nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kit import draw64 as draw
from qkv.attention import Soft
from qkv.models import TransformerConfig
from qkv.positions import NO_POSITION, Places, Shaw

B, H, K = 2, 3, 8
SIZES = TransformerConfig(d_model=H * K, n_heads=H)


def shaw(clip: int) -> Shaw:
    torch.manual_seed(0)
    position = Shaw(SIZES, clip=clip).double()
    with torch.no_grad():
        position.keys.normal_()
        position.values.normal_()
    return position


def attend(position: Shaw, q: Tensor, k: Tensor, v: Tensor, at: Places) -> tuple[Tensor, Tensor]:
    return Soft(SIZES).plain(q, k, v, at, None, position)


def test_it_is_the_papers_equations_in_a_loop() -> None:
    """Eq. 3 and 4, pair by pair, with the indices of section 3.2."""
    position, T = shaw(2), 6
    q, k, v = (draw(B, H, T, K, seed=seed) for seed in (1, 2, 3))
    context, weights = attend(position, q, k, v, Places.span(0, T, q.device))
    for b in range(B):
        for h in range(H):
            for i in range(T):
                rows = [max(-2, min(2, j - i)) + 2 for j in range(T)]
                e = [(q[b, h, i] @ (k[b, h, j] + position.keys[rows[j]])).item() / math.sqrt(K) for j in range(T)]
                alpha = [math.exp(x) / sum(math.exp(y) for y in e) for x in e]
                z = sum(alpha[j] * (v[b, h, j] + position.values[rows[j]]) for j in range(T))
                assert weights[b, h, i].tolist() == pytest.approx(alpha, abs=1e-12)
                torch.testing.assert_close(context[b, h, i], z, atol=1e-12, rtol=0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 12), st.integers(1, 9), st.integers(1, 14), st.integers(0, 9))
def test_the_fast_form_equals_the_plain_one(clip: int, queries: int, keys: int, start: int) -> None:
    position, q = shaw(clip), draw(B, H, queries, K)
    at = Places(torch.arange(start, start + queries), torch.arange(keys))
    close = {"atol": 1e-12, "rtol": 0}
    torch.testing.assert_close(position.score(q, q, at), position.plain_score(q, at), **close)
    weights = draw(B, H, queries, keys).softmax(-1)
    torch.testing.assert_close(position.value(weights, at), position.plain_value(weights, at), **close)


def test_the_fast_forms_gradients_are_those_of_the_plain_one() -> None:
    position, q, at = shaw(2), draw(B, H, 6, K).requires_grad_(), Places.span(0, 6, torch.device("cpu"))
    weights, along, by_value = draw(B, H, 6, 6).requires_grad_(), draw(B, H, 6, 6, seed=2), draw(B, H, 6, K, seed=3)
    inputs = (q, weights, position.keys, position.values)
    fast = (position.score(q, q, at) * along).sum() + (position.value(weights, at) * by_value).sum()
    plain = (position.plain_score(q, at) * along).sum() + (position.plain_value(weights, at) * by_value).sum()
    for found, expected in zip(torch.autograd.grad(fast, inputs), torch.autograd.grad(plain, inputs), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_distances_beyond_the_clip_share_one_vector() -> None:
    position, at = shaw(2), Places.span(0, 8, torch.device("cpu"))
    scores = position.score(draw(1, 1, 1, K).expand(1, 1, 8, K), draw(1, 1, 8, K), at)[0, 0]  # one query everywhere
    near, far = [scores[4, j].item() for j in (3, 4, 5)], [scores[4, j].item() for j in (0, 1, 2, 6, 7)]
    assert far[0] == far[1] == far[2]
    assert far[3] == far[4]
    assert len({*near, far[0], far[3]}) == 5  # 2 clip + 1 different ones: before and behind are told apart
    assert position.keys.shape == (5, K)


def test_with_clip_0_there_is_no_order() -> None:
    """One vector for all pairs: the weights do not change, and every context has the same vector more."""
    position, at = shaw(0), Places.span(0, 6, torch.device("cpu"))
    q, k, v = (draw(B, H, 6, K, seed=seed) for seed in (1, 2, 3))
    context, weights = attend(position, q, k, v, at)
    bare, unmoved = Soft(SIZES).plain(q, k, v, at, None, NO_POSITION)
    torch.testing.assert_close(weights, unmoved, atol=1e-12, rtol=0)
    torch.testing.assert_close(context, bare + position.values[0], atol=1e-12, rtol=0)


def test_without_values_only_the_scores_change() -> None:
    position = Shaw(SIZES, values=False)
    assert [name for name, _ in position.named_parameters()] == ["keys"]
    assert position.value(torch.ones(B, H, 2, 2), Places.span(0, 2, torch.device("cpu"))) is None
    assert not position.has_value
    assert Shaw(SIZES).has_value


def test_the_default_is_the_papers() -> None:
    """Section 4.1: clipping distance 16; tables as wide as a head, shared by the heads, apart for each layer."""
    position = Shaw(SIZES)
    assert position.keys.shape == position.values.shape == (33, K)
    assert position.per_layer
