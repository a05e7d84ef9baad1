"""Local attention: windows by a loop, the predicted place by the paper's formula, and its limit, global attention."""

import math

import pytest
import torch
from torch import Tensor

from kit import draw64 as draw
from qkv.attention import Soft, build_attention
from qkv.attention.local import LocalP
from qkv.models import TransformerConfig
from qkv.positions import Places

B, H, T, S, K = 2, 2, 6, 11, 4
SIZES = TransformerConfig(d_model=H * K, n_heads=H)
AT = Places(torch.arange(T), torch.arange(S))
LENGTHS = (11, 7)
MASK = (torch.arange(S) < torch.tensor(LENGTHS)[:, None])[:, None, None]


Q, KEYS, V = draw(B, H, T, K, seed=1), draw(B, H, S, K, seed=2), draw(B, H, S, K, seed=3)


def local(spec: str) -> Soft:
    torch.manual_seed(0)
    return build_attention(spec, SIZES, "memory").double()


def softmax(scores: dict[int, float]) -> dict[int, float]:
    total = sum(math.exp(score) for score in scores.values())
    return {key: math.exp(score) / total for key, score in scores.items()}


def predicted(part: LocalP, b: int, h: int, t: int) -> float:
    """p_t = S sigmoid(v^T tanh(W q)), S the real length."""
    hidden = torch.tanh(part.weight[h].T @ Q[b, h, t])
    return LENGTHS[b] / (1 + math.exp(-(part.v[h, :, 0] @ hidden).item()))


@pytest.mark.parametrize("radius", [1, 2, 3])
@pytest.mark.parametrize("kind", ["local_m", "local_p"])
def test_it_is_a_loop_over_the_keys_of_each_window(kind: str, radius: int) -> None:
    part = local(f"{kind}(radius={radius})")
    weights = part.plain(Q, KEYS, V, AT, MASK)[1]
    outside = 0
    for b in range(B):
        for h in range(H):
            for t in range(T):
                place = predicted(part, b, h, t) if isinstance(part, LocalP) else t
                window = [s for s in range(LENGTHS[b]) if place - radius <= s <= place + radius]
                align = softmax({s: float(Q[b, h, t] @ KEYS[b, h, s]) / math.sqrt(K) for s in window})
                sigma = radius / 2 if kind == "local_p" else math.inf
                row = torch.zeros(S, dtype=torch.float64)
                for s, weight in align.items():
                    row[s] = weight * math.exp(-((s - place) ** 2) / (2 * sigma**2))
                torch.testing.assert_close(weights[b, h, t], row, atol=1e-9, rtol=0)
                assert not weights[b, h, t, [s for s in range(S) if s not in window]].any()
                outside += S - len(window)
    assert outside > 0


def test_a_radius_beyond_the_text_is_global_attention() -> None:
    whole = Soft(SIZES).plain(Q, KEYS, V, AT, MASK)
    for kind in ("local_m", "local_p"):
        found = local(f"{kind}(radius=1000000)").plain(Q, KEYS, V, AT, MASK)
        torch.testing.assert_close(found, whole, atol=1e-9, rtol=0)


def test_the_predicted_place_learns_and_only_through_the_gaussian() -> None:
    """By finite differences. Without a Gaussian (a radius beyond all bounds) nothing is left to learn from."""
    for radius, learns in ((3, True), (10**9, False)):
        part = local(f"local_p(radius={radius})")
        assert isinstance(part, LocalP)
        along = draw(B, H, T, K, seed=4)

        def project(weight: Tensor, part: LocalP = part, along: Tensor = along) -> Tensor:
            context = torch.func.functional_call(part, {"weight": weight}, (Q, KEYS, V, AT, MASK))
            return (context * along).sum()

        (gradient,) = torch.autograd.grad(project(part.weight), part.weight)
        step = torch.zeros_like(gradient)
        step[1, 2, 3] = 1e-6
        with torch.no_grad():
            slope = (project(part.weight + step) - project(part.weight - step)) / 2e-6
        torch.testing.assert_close(gradient[1, 2, 3], slope, atol=1e-4, rtol=1e-4)
        assert (gradient.abs() > 1e-6).all() == learns


def test_the_gaussian_is_not_normalised() -> None:
    sums = local("local_p(radius=2)").plain(Q, KEYS, V, AT, MASK)[1].sum(-1)
    assert (sums < 1).all()
    assert (sums > 0).all()


def test_every_head_looks_elsewhere() -> None:
    part = local("local_p(radius=2)")
    assert isinstance(part, LocalP)
    with torch.no_grad():
        part.weight.copy_(torch.eye(K))
        part.v[0], part.v[1] = 50.0, -50.0
    q = torch.ones(1, H, 1, K, dtype=torch.float64)
    weights = part.plain(q, KEYS[:1], V[:1], Places(torch.zeros(1, dtype=torch.long), AT.key))[1]
    assert weights[0, 0, 0].nonzero().flatten().tolist() == [9, 10]  # p = S = 11: the last keys within 2 of it
    assert weights[0, 1, 0].nonzero().flatten().tolist() == [0, 1, 2]  # p = 0


def test_a_target_that_runs_far_beyond_its_source_sees_nothing_of_it() -> None:
    at = Places(torch.tensor([12, 13, 14]), torch.arange(S))
    context, weights = local("local_m(radius=3)").plain(Q[:, :, :3], KEYS, V, at)
    assert weights.any(-1)[0, 0].tolist() == [True, True, False]  # the last key stands at 10
    assert not context[:, :, 2].any()
