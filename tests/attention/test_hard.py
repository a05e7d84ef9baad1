"""Hard choices: what is drawn and how often, what learns by it, and the best k of any scores."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qkv.attention import Choice, Soft, build_attention, drawing
from qkv.attention.hard import one_hot
from qkv.models import TransformerConfig
from qkv.positions import Places

H, K = 2, 4
SIZES = TransformerConfig(d_model=H * K, n_heads=H)


def draw(rows: int, queries: int, keys: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Places]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(rows, H, n, K, generator=generator) for n in (queries, keys, keys))
    return q, k, v, Places(torch.arange(queries), torch.arange(keys))


def part(spec: str) -> Soft:
    torch.manual_seed(0)
    return build_attention(spec, SIZES, "memory")


def is_one_hot(weights: Tensor) -> bool:
    return bool(((weights == 0) | (weights == 1)).all() and (weights.sum(-1) == 1).all())


DRAWING = ["hard(sampling=1.0)", "straight_through(sample=True)"]


@pytest.mark.parametrize("spec", DRAWING)
def test_keys_are_drawn_as_often_as_softmax_says(spec: str) -> None:
    """Ten thousand queries that are all alike; each share within five standard errors."""
    q, k, v, _ = draw(1, 1, 5)
    n = 10_000
    at = Places(torch.arange(n), torch.arange(5))
    drawn = part(spec).train().plain(q.expand(1, H, n, K), k, v, at)[1]
    assert is_one_hot(drawn)
    expected = Soft(SIZES).plain(q, k, v, at)[1][:, :, 0]
    error = (expected * (1 - expected) / n).sqrt()
    assert ((drawn.mean(dim=2) - expected).abs() < 5 * error).all()


@pytest.mark.parametrize("spec", [*DRAWING, "hard", "straight_through"])
def test_out_of_training_the_best_key_is_taken(spec: str) -> None:
    q, k, v, at = draw(3, 6, 7)
    with drawing() as choices:
        context, weights = part(spec).eval().plain(q, k, v, at)
    best = (q @ k.transpose(-1, -2)).argmax(-1)
    assert is_one_hot(weights)
    assert torch.equal(weights.argmax(-1), best)
    torch.testing.assert_close(context, v.gather(2, best[..., None].expand(*best.shape, K)))
    assert not choices


def test_what_was_drawn_is_kept_with_its_probability_and_entropy() -> None:
    q, k, v, at = draw(3, 4, 5)
    mask = torch.ones(3, 1, 4, 5, dtype=torch.bool)
    mask[1, :, :, 3:], mask[2, :, 2] = False, False
    with drawing() as choices:
        drawn = part("hard(sampling=1.0, entropy=0.5, reward=0.25)").train().plain(q, k, v, at, mask)[1]
    (choice,) = choices
    assert isinstance(choice, Choice)
    assert (choice.reward_weight, choice.entropy_weight) == (0.25, 0.5)
    soft = Soft(SIZES).plain(q, k, v, at, mask)[1]
    for row in range(3):
        log_p, entropy = 0.0, 0.0
        for h in range(H):
            for t in range(4):
                if row == 2 and t == 2:
                    continue  # sees nothing, draws nothing
                log_p += float(soft[row, h, t, drawn[row, h, t].argmax()].log())
                entropy += float(torch.distributions.Categorical(probs=soft[row, h, t]).entropy())
        torch.testing.assert_close(choice.log_p[row].item(), log_p, atol=1e-4, rtol=0)
        torch.testing.assert_close(choice.entropy[row].item(), entropy, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("sampling", "least", "most"), [(0.0, 0, 0), (0.5, 30, 70), (1.0, 100, 100)])
def test_a_share_of_the_batches_is_drawn_and_the_others_are_soft(sampling: float, least: int, most: int) -> None:
    q, k, v, at = draw(1, 2, 3)
    hard = part(f"hard(sampling={sampling})").train()
    soft = Soft(SIZES).plain(q, k, v, at)[1]
    drawn = 0
    with drawing() as choices:
        for _ in range(100):
            weights = hard.plain(q, k, v, at)[1]
            drawn += is_one_hot(weights)
            assert is_one_hot(weights) or torch.equal(weights, soft)
    assert least <= drawn <= most
    assert len(choices) == drawn


def test_what_is_drawn_elsewhere_is_not_kept() -> None:
    """Neither outside, nor in another list, nor in another thread."""
    q, k, v, at = draw(1, 2, 3)
    hard = part("hard(sampling=1.0)").train()
    hard.plain(q, k, v, at)
    with drawing() as outer:
        hard.plain(q, k, v, at)
        with drawing() as inner:
            hard.plain(q, k, v, at)
        other = threading.Thread(target=hard.plain, args=(q, k, v, at))
        other.start()
        other.join()
        hard.plain(q, k, v, at)
    assert (len(outer), len(inner)) == (2, 1)


def test_the_baseline_is_carried_by_checkpoints_and_trained_by_no_optimiser() -> None:
    named = dict(part("hard").named_parameters())
    assert not named["baseline"].requires_grad


@pytest.mark.parametrize("spec", ["straight_through", "straight_through(sample=True)"])
def test_straight_through_is_hard_forward_and_soft_backward(spec: str) -> None:
    q, k, v, at = draw(2, 3, 5)
    q.requires_grad_()
    weights = part(spec).eval().plain(q, k, v, at)[1]
    assert is_one_hot(weights)
    along = torch.randn(weights.shape, generator=torch.Generator().manual_seed(5))
    (found,) = torch.autograd.grad((weights * along).sum(), q)
    (expected,) = torch.autograd.grad((Soft(SIZES).plain(q, k, v, at)[1] * along).sum(), q)
    torch.testing.assert_close(found, expected)
    assert found.abs().max() > 0.01


def test_straight_throughs_gradient_is_not_that_of_the_expectation() -> None:
    """E over draws of f(v_s) with a curved f, exactly: sum a_s f(v_s); straight-through has the slope at one v_s."""
    q, k, v, at = draw(1, 1, 4)
    q.requires_grad_()
    soft = Soft(SIZES).plain(q, k, v, at)[1]
    (exact,) = torch.autograd.grad((soft[..., 0, :] * (v**3).sum(-1)).sum(), q)
    context = part("straight_through").plain(q, k, v, at)[0]
    (biased,) = torch.autograd.grad((context**3).sum(), q)
    assert (biased - exact).abs().max() > 0.1 * exact.abs().max()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-torch.inf, -1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=9), st.integers(1, 10))
def test_top_k_keeps_exactly_k_whatever_the_ties(scores: list[float], k: int) -> None:
    row = torch.tensor(scores, dtype=torch.float64)
    at = Places(torch.arange(1), torch.arange(len(scores)))
    weights = part(f"top_k(k={k})").choose(row[None, None, None], row, at)[0, 0, 0]
    visible = [i for i, score in enumerate(scores) if score > -torch.inf]
    kept = sorted(visible, key=lambda i: (-scores[i], i))[:k]  # the first of equals
    assert sorted(weights.nonzero().flatten().tolist()) == sorted(kept)
    expected = torch.zeros(len(scores), dtype=torch.float64)
    if kept:
        expected[kept] = row[kept].softmax(0)
    torch.testing.assert_close(weights, expected)


def test_top_1_is_the_best_key_and_top_all_is_soft() -> None:
    q, k, v, at = draw(2, 3, 5)
    best = (q @ k.transpose(-1, -2)).argmax(-1)
    assert torch.equal(part("top_k(k=1)").plain(q, k, v, at)[1], torch.nn.functional.one_hot(best, 5).float())
    torch.testing.assert_close(part("top_k(k=5)").plain(q, k, v, at), Soft(SIZES).plain(q, k, v, at))


def test_the_first_of_equal_scores_is_taken_and_a_blind_row_takes_none() -> None:
    scores = torch.tensor([[1.0, 3.0, 3.0], [-torch.inf, -torch.inf, -torch.inf], [-torch.inf, -2.0, -2.0]])
    assert one_hot(scores, scores).tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
