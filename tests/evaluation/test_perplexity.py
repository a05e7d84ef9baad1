"""Perplexities by hand, and windows that count each token once."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.evaluation.perplexity import Likelihood, windows


def test_perplexities_by_hand() -> None:
    """Twelve characters, two words, four tokens of 1/8 each: 12 bits."""
    found = Likelihood(4 * math.log(8), 4, 2, 12)
    assert found.perplexity == pytest.approx(8)
    assert found.word_perplexity == pytest.approx(64)
    assert found.bits_per_character == pytest.approx(1)


def test_sums_are_of_all_texts_together() -> None:
    one, other = Likelihood(4 * math.log(8), 4, 2, 12), Likelihood(2 * math.log(2), 2, 1, 2)
    assert one + other == Likelihood(pytest.approx(14 * math.log(2)), 6, 3, 14)
    assert (one + other).perplexity == pytest.approx(2 ** (14 / 6))


def test_what_no_float_holds_is_infinite() -> None:
    assert Likelihood(1e6, 1, 1, 1).perplexity == math.inf


def test_windows_by_hand() -> None:
    assert list(windows(5, 8)) == [(0, 5, 0)]
    assert list(windows(8, 8)) == [(0, 8, 0)]
    assert list(windows(15, 8)) == [(0, 8, 0), (4, 12, 8), (8, 15, 12)]
    assert list(windows(3, 1)) == [(0, 1, 0), (1, 2, 1), (2, 3, 2)]


@given(st.integers(0, 200), st.integers(1, 50))
def test_each_token_is_counted_once_after_half_a_context(length: int, context: int) -> None:
    counted = []
    for start, stop, first in windows(length, context):
        assert stop - start <= context
        for token in range(first, stop):
            assert token - start >= min(token, context // 2)
            counted.append(token)
    assert counted == list(range(length))
