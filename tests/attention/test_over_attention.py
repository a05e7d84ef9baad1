"""Attention over attention: against a loop over the equations, a worked number, and under any padding."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kit import draw
from qkv.attention.over_attention import over_attention

ALL = torch.ones(1, 2, dtype=torch.bool)


def by_loops(scores: Tensor, words: int, asked: int) -> tuple[Tensor, Tensor, Tensor]:
    """The equations of the paper, one cell at a time: scores (S, T) of which `words` x `asked` are real."""
    alpha, beta, s = (torch.zeros(shape, dtype=torch.float64) for shape in (scores.shape, scores.shape, len(scores)))
    m = scores.double().tolist()
    for i in range(words):
        for j in range(asked):
            alpha[i, j] = math.exp(m[i][j]) / sum(math.exp(m[k][j]) for k in range(words))
            beta[i, j] = math.exp(m[i][j]) / sum(math.exp(m[i][k]) for k in range(asked))
    for i in range(words):
        s[i] = sum(alpha[i, j] * sum(beta[k, j] for k in range(words)) / words for j in range(asked))
    return s, alpha, beta


def random_batch(lengths: list[tuple[int, int]], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    scores = draw(len(lengths), 7, 5, seed=seed) * 3
    words, asked = torch.tensor(lengths).unbind(1)
    return scores, torch.arange(7) < words[:, None], torch.arange(5) < asked[:, None]


LENGTHS = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 5)), min_size=1, max_size=4)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(0, 10**6))
def test_it_is_the_papers_equations(lengths: list[tuple[int, int]], seed: int) -> None:
    scores, document, question = random_batch(lengths, seed)
    found = over_attention(scores, document, question)
    for row, (words, asked) in enumerate(lengths):
        for one, expected in zip(found, by_loops(scores[row], words, asked), strict=True):
            torch.testing.assert_close(one[row], expected.float(), atol=1e-6, rtol=0)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(0, 10**6))
def test_columns_rows_and_s_sum_to_one_over_real_cells(lengths: list[tuple[int, int]], seed: int) -> None:
    scores, document, question = random_batch(lengths, seed)
    s, alpha, beta = over_attention(scores, document, question)
    torch.testing.assert_close(alpha.sum(dim=1), question.float())  # one for each real question word, else zero
    torch.testing.assert_close(beta.sum(dim=2), document.float())
    torch.testing.assert_close(s.sum(dim=1), torch.ones(len(lengths)))
    assert not s[~document].any()


def test_padding_changes_nothing_by_value_or_gradient() -> None:
    scores, document, question = random_batch([(4, 3), (7, 5)], 0)
    real = document[:, :, None] & question[:, None, :]
    clean = over_attention(scores, document, question)
    dirty = over_attention(scores.masked_fill(~real, 1e4), document, question)
    for one, other in zip(clean, dirty, strict=True):
        assert torch.equal(one, other)
    scores.requires_grad_()
    s, _, _ = over_attention(scores, document, question)
    (s * draw(*s.shape, seed=1)).sum().backward()
    assert scores.grad is not None
    assert torch.equal(scores.grad != 0, real)


def test_a_worked_number() -> None:
    """M = [[ln 3, 0], [0, 0]]: alpha = [[3/4, 1/2], [1/4, 1/2]], beta = [[3/4, 1/4], [1/2, 1/2]], their mean
    (5/8, 3/8), and so s = (3/4 * 5/8 + 1/2 * 3/8, 1/4 * 5/8 + 1/2 * 3/8) = (21/32, 11/32)."""
    s, _, _ = over_attention(torch.tensor([[[math.log(3), 0.0], [0.0, 0.0]]]), ALL, ALL)
    assert s[0].tolist() == pytest.approx([21 / 32, 11 / 32])


def test_a_question_of_nothing_but_padding_gives_zeros_not_nan() -> None:
    scores, document, question = random_batch([(4, 3), (7, 5)], 0)
    question[0] = False
    scores.requires_grad_()
    s, _, _ = over_attention(scores, document, question)
    assert not s[0].any()
    assert s[1].sum().item() == pytest.approx(1)
    (s * torch.randn(s.shape)).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
