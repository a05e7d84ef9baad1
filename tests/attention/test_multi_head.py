"""Multi-head attention: a loop over heads, its symmetries, its memory, and its cache."""

import math

import pytest
import torch
from torch import Tensor

from kit import draw
from qkv.attention import KeyValues, MultiHead, causal, padding
from qkv.models import TransformerConfig
from qkv.positions import Places

D, H, B, T = 24, 4, 2, 6
AT = Places.span(0, T, torch.device("cpu"))
CLOSE = {"atol": 1e-6, "rtol": 0}


@pytest.fixture
def attention() -> MultiHead:
    torch.manual_seed(0)
    return MultiHead(TransformerConfig(d_model=D, n_heads=H, attention_bias=True)).eval()


@pytest.fixture
def x() -> Tensor:
    return draw(B, T, D, seed=1)


def head(attention: MultiHead, i: int, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
    """head_i = softmax((x W_i^Q) (m W_i^K)^T / sqrt(d_k)) m W_i^V, from its own slices of the matrices."""
    K = D // H
    rows = slice(i * K, (i + 1) * K)
    q, k, v = (
        y @ linear.weight[rows].T + linear.bias[rows]
        for y, linear in ((x, attention.query), (memory, attention.key), (memory, attention.value))
    )
    scores = q @ k.transpose(1, 2) / math.sqrt(K)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


def test_it_is_a_loop_over_single_heads(attention: MultiHead, x: Tensor) -> None:
    """Section 3.2.2: MultiHead(Q, K, V) = Concat(head_1 .. head_h) W^O."""
    for mask in (None, causal(AT)):
        heads = torch.cat([head(attention, i, x, x, mask) for i in range(H)], dim=-1)
        torch.testing.assert_close(attention(x, AT, mask=mask), attention.output(heads), **CLOSE)


def test_it_is_a_loop_over_single_queries(attention: MultiHead, x: Tensor) -> None:
    """Three matrix products instead of three for each token, and the same result."""
    alone = [attention(x[:, t : t + 1], AT, memory=x) for t in range(T)]
    torch.testing.assert_close(attention(x, AT), torch.cat(alone, dim=1), **CLOSE)


def test_without_one_head_only_its_slice_of_the_output_is_missing(attention: MultiHead, x: Tensor) -> None:
    K, lost = D // H, 2
    rows = slice(lost * K, (lost + 1) * K)
    before = attention(x, AT)
    share = head(attention, lost, x, x) @ attention.output.weight[:, rows].T
    with torch.no_grad():
        attention.value.weight[rows] = 0
        attention.value.bias[rows] = 0
    torch.testing.assert_close(attention(x, AT), before - share, **CLOSE)


def test_tokens_in_another_order_give_the_results_in_that_order(attention: MultiHead, x: Tensor) -> None:
    order = torch.randperm(T, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(attention(x[:, order], AT), attention(x, AT)[:, order], **CLOSE)
    torch.testing.assert_close(attention(x, AT, memory=x[:, order]), attention(x, AT), **CLOSE)


def test_projections_that_do_nothing_leave_plain_attention() -> None:
    """The worked example of test_scaled_dot: one head, every matrix the identity; scaled queries undo 1 / sqrt(3)."""
    attention = MultiHead(TransformerConfig(d_model=3, n_heads=1)).double()
    with torch.no_grad():
        for linear in (attention.query, attention.key, attention.value, attention.output):
            linear.weight.copy_(torch.eye(3))
        attention.query.weight.mul_(math.sqrt(3))
    x = torch.tensor([[[1, 3, 2], [1, 1, 3], [1, 2, 1]]], dtype=torch.float64)
    printed = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.000000]]
    expected = torch.tensor([printed], dtype=torch.float64)
    torch.testing.assert_close(attention(x, Places.span(0, 3, x.device)), expected, **CLOSE)


def test_a_memory_receives_a_gradient_and_its_padding_none(attention: MultiHead, x: Tensor) -> None:
    memory = draw(B, 5, D, seed=3).requires_grad_()
    ids = torch.tensor([[4, 5, 6, 7, 8], [4, 5, 0, 0, 0]])
    along = draw(B, T, D, seed=4)
    (attention(x, AT, memory=memory, mask=padding(ids, 0)) * along).sum().backward()
    assert torch.equal(memory.grad.any(-1), ids != 0)


def test_what_stands_under_padding_does_not_matter(attention: MultiHead, x: Tensor) -> None:
    memory = draw(B, 5, D, seed=3)
    ids = torch.tensor([[4, 5, 6, 7, 8], [4, 5, 0, 0, 0]])
    clean = attention(x, AT, memory=memory, mask=padding(ids, 0))
    dirty = memory.masked_fill((ids == 0)[:, :, None], 1e6)
    assert torch.equal(attention(x, AT, memory=dirty, mask=padding(ids, 0)), clean)


def test_one_token_at_a_time_equals_all_at_once(attention: MultiHead, x: Tensor) -> None:
    seen = KeyValues()
    steps = [attention(x[:, t : t + 1], Places.span(t, t + 1, x.device), seen=seen) for t in range(T)]
    torch.testing.assert_close(torch.cat(steps, dim=1), attention(x, AT, mask=causal(AT)), **CLOSE)
    assert seen.k.shape == (B, H, T, D // H)


def test_the_keys_of_a_memory_are_computed_once(attention: MultiHead, x: Tensor) -> None:
    seen = KeyValues()
    first = attention(x, AT, memory=x, seen=seen)
    assert seen.k.shape == (B, H, T, D // H)
    assert torch.equal(attention(x, AT, memory=0 * x, seen=seen), first)  # a memory that was read is not read again


def test_a_cache_is_reordered_by_rows(attention: MultiHead, x: Tensor) -> None:
    seen, other = KeyValues(), KeyValues()
    seen.reorder(torch.tensor([0]))  # nothing seen yet: nothing to do
    first = Places.span(0, 1, x.device)
    attention(x[:, :1], first, seen=seen)
    rows = torch.tensor([1, 1, 0])
    seen.reorder(rows)
    attention(x[rows, :1], first, seen=other)
    torch.testing.assert_close(seen.k, other.k, **CLOSE)
    torch.testing.assert_close(seen.v, other.v, **CLOSE)
