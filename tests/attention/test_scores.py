"""Scores: loops over single queries and keys, what equals what, and gradients by finite differences."""

import math

import pytest
import torch
from torch import Tensor

from kit import draw64 as draw
from qkv.attention import SCORES
from qkv.attention.scores import Additive, Concat, General, Location, Score
from qkv.config import build
from qkv.errors import InputError
from qkv.models import TransformerConfig
from qkv.positions import Places

B, H, T, S, K = 2, 3, 4, 5, 6
SIZES = TransformerConfig(d_model=H * K, n_heads=H, max_length=7)
AT = Places(torch.arange(T), torch.arange(S))
CLOSE = {"atol": 1e-12, "rtol": 0}


def score(spec: str) -> Score:
    """With every weight drawn anew, biases too."""
    torch.manual_seed(0)
    built = build(SCORES, spec, SIZES).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_()
    return built


Q, KEYS = draw(B, H, T, K, seed=1), draw(B, H, S, K, seed=2)


def one_pair(s: Score, q: Tensor, k: Tensor, head: int, place: int) -> Tensor:
    """e(q, k) as the papers write it, for single vectors."""
    if isinstance(s, General):
        return q @ s.weight[head] @ k
    if isinstance(s, Additive):
        hidden = torch.tanh(s.of_query[head].T @ q + s.bias[head, 0] + s.of_key[head].T @ k)
        return s.v[head, :, 0] @ hidden
    if isinstance(s, Concat):
        return s.v[head, :, 0] @ torch.tanh(s.weight[head].T @ torch.cat((q, k)))
    if isinstance(s, Location):
        return s.weight[head, :, place] @ q
    return q @ k / (math.sqrt(K) if type(s).__name__ == "ScaledDot" else 1)


@pytest.mark.parametrize("spec", [*SCORES, "additive(width=11)", "concat(width=2)"])
def test_it_is_a_loop_over_single_queries_and_keys(spec: str) -> None:
    built = score(spec)
    found = built(Q, KEYS, AT)
    assert found.shape == (B, H, T, S)
    for b, h, t, s in ((0, 0, 0, 0), (1, 2, 3, 4), (0, 1, 2, 3), (1, 0, 3, 1)):
        torch.testing.assert_close(found[b, h, t, s], one_pair(built, Q[b, h, t], KEYS[b, h, s], h, s), **CLOSE)


def test_concat_is_additive_with_its_matrix_in_two_halves() -> None:
    concat, additive = score("concat(width=9)"), score("additive(width=9)")
    assert isinstance(concat, Concat)
    assert isinstance(additive, Additive)
    with torch.no_grad():
        additive.of_query.copy_(concat.weight[:, :K])
        additive.of_key.copy_(concat.weight[:, K:])
        additive.v.copy_(concat.v)
        additive.bias.zero_()
    torch.testing.assert_close(additive(Q, KEYS, AT), concat(Q, KEYS, AT), **CLOSE)


def test_general_with_the_identity_is_dot() -> None:
    general = score("general")
    with torch.no_grad():
        general.get_parameter("weight").copy_(torch.eye(K))
    torch.testing.assert_close(general(Q, KEYS, AT), score("dot")(Q, KEYS, AT), **CLOSE)


def test_scaled_dot_is_dot_by_the_root_of_the_width() -> None:
    assert torch.equal(score("scaled_dot")(Q, KEYS, AT), score("dot")(Q, KEYS, AT) / math.sqrt(K))


@pytest.mark.parametrize("spec", SCORES)
def test_gradients_equal_finite_differences(spec: str) -> None:
    built = score(spec)
    inputs = [x.clone().requires_grad_() for x in (Q[:1, :, :2], KEYS[:1, :, :3])]
    weights = [p for p in built.parameters() if p.requires_grad]
    at = Places(torch.arange(2), torch.arange(3))
    assert torch.autograd.gradcheck(lambda q, k, *_: built(q, k, at), (*inputs, *weights), atol=1e-4, eps=1e-6)


def test_location_reads_places_and_no_keys() -> None:
    location = score("location")
    assert torch.equal(location(Q, KEYS, AT), location(Q, 7 * KEYS, AT))
    later = Places(torch.arange(T), torch.arange(2, 2 + S))
    assert torch.equal(location(Q, KEYS, later)[..., :3], location(Q, KEYS, AT)[..., 2:])


def test_location_has_no_place_beyond_the_longest_text() -> None:
    long = Places(torch.arange(T), torch.arange(8))
    with pytest.raises(InputError, match=r"8 keys are more than the 7 places .* larger max_length"):
        score("location")(Q, draw(B, H, 8, K), long)


@pytest.mark.parametrize("spec", SCORES)
def test_scores_begin_with_a_spread_that_softmax_can_use(spec: str) -> None:
    """Neither all alike nor saturated, at any width: standard deviation near 1 (plain dot grows with the width)."""
    torch.manual_seed(0)
    for width in (4, 64):
        sizes = TransformerConfig(d_model=2 * width, n_heads=2, max_length=64)
        q, k = torch.randn(4, 2, 32, width), torch.randn(4, 2, 64, width)
        spread = build(SCORES, spec, sizes)(q, k, Places(torch.arange(32), torch.arange(64))).std().item()
        assert 0.3 < spread / (math.sqrt(width) if spec == "dot" else 1) < 2
