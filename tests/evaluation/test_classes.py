"""Macro-F1 and the Matthews correlation: by hand, by the whole confusion table, and by numpy's correlation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.evaluation import class_scores

ANSWERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


def test_a_worked_table() -> None:
    """Classes a, b, c; F1 by hand: a 2*2/(3+2), b 2*1/(1+2), c 1. mcc: c=4, s=5, sums of p t: 6+2+1, of p^2: 9+1+1,
    of t^2: 4+4+1."""
    scores = class_scores(["a", "a", "a", "b", "c"], ["a", "a", "b", "b", "c"])
    assert scores.accuracy == 4 / 5
    assert scores.macro_f1 == pytest.approx((4 / 5 + 2 / 3 + 1) / 3)
    assert scores.mcc == pytest.approx((4 * 5 - 9) / np.sqrt((25 - 11) * (25 - 9)))


@given(ANSWERS)
def test_scores_are_those_of_the_confusion_table(pairs: list[tuple[int, int]]) -> None:
    """By a loop over the table, and Gorodkin's definition: the covariance of one-hot rows over their spreads."""
    found, gold = zip(*pairs, strict=True)
    table = np.zeros((4, 4))
    for one, right in pairs:
        table[right, one] += 1
    f1 = []
    for k in range(4):
        hit, wrong, missed = table[k, k], table[:, k].sum() - table[k, k], table[k].sum() - table[k, k]
        if hit + wrong + missed:
            precision, recall = (hit / (hit + other) if hit + other else 0 for other in (wrong, missed))
            f1.append(2 * precision * recall / (precision + recall) if hit else 0)
    x, y = np.eye(4)[list(found)], np.eye(4)[list(gold)]

    def covariance(a: np.ndarray, b: np.ndarray) -> float:
        return float(((a - a.mean(0)) * (b - b.mean(0))).sum())

    spread = covariance(x, x) * covariance(y, y)
    scores = class_scores(found, gold)
    assert scores.accuracy == pytest.approx(np.trace(table) / len(pairs))
    assert scores.macro_f1 == pytest.approx(np.mean(f1))
    assert scores.mcc == pytest.approx(covariance(x, y) / np.sqrt(spread) if spread > 1e-9 else 0, abs=1e-9)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_of_two_classes_it_is_pearsons_correlation(pairs: list[tuple[bool, bool]]) -> None:
    found, gold = zip(*pairs, strict=True)
    if len(set(found)) == 2 == len(set(gold)):
        assert class_scores(found, gold).mcc == pytest.approx(np.corrcoef(found, gold)[0, 1], abs=1e-9)


def test_one_class_alone_says_nothing() -> None:
    assert class_scores([1, 1, 1], [0, 1, 1]).mcc == 0
    assert class_scores([1, 1], [1, 1]).macro_f1 == 1


def test_mistakes_are_told() -> None:
    with pytest.raises(InputError, match=r"^2 found classes and 1 gold ones were given; give one of each$"):
        class_scores([1, 2], [1])
    with pytest.raises(InputError, match=r"^there is nothing to score: the list of classes is empty; give"):
        class_scores([], [])
