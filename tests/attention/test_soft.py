"""Soft attention: what a mixture of values can be, one learned query, and texts in any order."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qkv.attention import Soft, build_attention
from qkv.models import TransformerConfig
from qkv.positions import Places

B, H, K = 2, 2, 4
SIZES = TransformerConfig(d_model=H * K, n_heads=H)
SOFT = Soft(SIZES)


def draw(seed: int, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor, Places, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(B, H, n, K, generator=generator) * 3 for n in (queries, keys, keys))
    mask = torch.rand(B, 1, queries, keys, generator=generator) < 0.7
    return q, k, v, Places(torch.arange(queries), torch.arange(keys)), mask


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 9))
def test_a_context_is_a_mixture_of_the_values_that_are_seen(seed: int, queries: int, keys: int) -> None:
    q, k, v, at, mask = draw(seed, queries, keys)
    context, weights = SOFT.plain(q, k, v, at, mask)
    seen = mask.expand_as(weights)
    torch.testing.assert_close(weights.sum(-1), seen.any(-1).float(), atol=1e-6, rtol=0)
    assert not weights[~seen].any()
    values = v[:, :, None].expand(B, H, queries, keys, K)  # each query beside every value
    hidden = ~seen[..., None]
    lowest = values.masked_fill(hidden, torch.inf).amin(-2)
    highest = values.masked_fill(hidden, -torch.inf).amax(-2)
    inside = (lowest - 1e-5 <= context) & (context <= highest + 1e-5)
    assert inside[seen.any(-1)].all()
    assert not context[~seen.any(-1)].any()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_keys_with_their_values_may_stand_in_any_order(seed: int, keys: int) -> None:
    q, k, v, at, mask = draw(seed, 3, keys)
    order = torch.randperm(keys, generator=torch.Generator().manual_seed(seed))
    shuffled = SOFT.plain(q, k[:, :, order], v[:, :, order], at, mask[..., order])
    torch.testing.assert_close(shuffled[0], SOFT.plain(q, k, v, at, mask)[0], atol=1e-5, rtol=0)


def test_values_enter_linearly() -> None:
    """All that is not linear is in the weights: twice the values, twice the context."""
    q, k, v, at, mask = draw(0, 3, 6)
    other = torch.randn(v.shape, generator=torch.Generator().manual_seed(9))
    both, alone = (SOFT.plain(q, k, x, at, mask)[0] for x in (2 * v + other, other))
    torch.testing.assert_close(both, 2 * SOFT.plain(q, k, v, at, mask)[0] + alone, atol=1e-5, rtol=0)


def test_weights_change_with_the_input_unlike_those_of_a_dense_layer() -> None:
    q, k, v, at, _ = draw(0, 3, 6)
    assert not torch.allclose(SOFT.plain(q, k, v, at)[1], SOFT.plain(q, 2 * k, v, at)[1])


def test_one_learned_query_over_one_text_has_the_right_gradient() -> None:
    """Single-level attention: the query is a weight; by finite differences, for the scores of both schools."""
    _, k, v, _, mask = (x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in draw(0, 1, 5))
    at = Places(torch.zeros(1, dtype=torch.long), torch.arange(5))
    query = torch.randn(1, H, 1, K, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    for score in ("scaled_dot", "additive"):
        torch.manual_seed(0)
        soft = build_attention(score, SIZES, "encoder").double()

        def context(query: Tensor, soft: Soft = soft) -> Tensor:
            return soft.plain(query.expand(B, -1, -1, -1), k, v, at, mask)[0]

        assert context(query).shape == (B, H, 1, K)
        assert torch.autograd.gradcheck(context, (query,), atol=1e-4, eps=1e-6)
