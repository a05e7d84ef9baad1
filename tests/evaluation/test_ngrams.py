"""Interpolated trigrams are what a plain loop over a dictionary of counts says; every figure knows which way is up."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.evaluation import FIGURES, better, in_words
from qkv.evaluation.ngrams import ROUNDS, TUNED, Ids, at_holes, interpolated_trigram

Text = list[int]


def estimates(train: Text, asked: Text, size: int) -> list[list[float]]:
    """Of each token from the third on: p3, p2 and p1 by relative frequency in `train`, and 1 / V."""
    counts = Counter(tuple(train[i : i + n]) for n in (1, 2, 3) for i in range(len(train) - n + 1))
    found = []
    for u, v, w in zip(asked, asked[1:], asked[2:], strict=False):
        three = counts[u, v, w] / counts[u, v] if counts[u, v] else 0.0
        two = counts[v, w] / counts[v,] if counts[v,] else 0.0
        found.append([three, two, counts[w,] / len(train), 1 / size])
    return found


def mixed(weights: Sequence[float], row: Sequence[float]) -> float:
    return sum(weight * p for weight, p in zip(weights, row, strict=True))


def by_a_loop(train: Text, valid: Text, size: int) -> float:
    cut = len(train) - max(3, len(train) // TUNED)
    weights, held = [0.25] * 4, estimates(train[:cut], train[cut:], size)
    for _ in range(ROUNDS):
        shares = [[weight * p / mixed(weights, row) for weight, p in zip(weights, row, strict=True)] for row in held]
        weights = [(sum(column) + 0.1) / (len(held) + 0.4) for column in zip(*shares, strict=True)]
    rows = estimates(train, valid, size)
    return -sum(math.log(mixed(weights, row)) for row in rows) / len(rows)


@given(st.data())
def test_it_is_the_loop(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 6))
    text = st.lists(st.integers(0, size - 1), min_size=3, max_size=60)
    train, valid = data.draw(text.filter(lambda ids: len(ids) >= 6)), data.draw(text)
    found = interpolated_trigram(np.array(train), np.array(valid), size)
    assert found == pytest.approx(by_a_loop(train, valid, size), rel=1e-9, abs=1e-12)


def test_a_text_that_repeats_itself_costs_little_and_noise_costs_all() -> None:
    cycle = np.array([0, 1, 2] * 200)
    noise = np.random.default_rng(1).integers(0, 8, 20_000)
    assert interpolated_trigram(cycle, cycle, 3) < 0.1
    assert interpolated_trigram(noise[:10_000], noise[10_000:], 8) == pytest.approx(math.log(8), abs=0.02)


def test_figures_know_which_way_is_better_and_how_they_are_written() -> None:
    assert better("loss", 1.0) > better("loss", 2.0)
    assert better("accuracy", 0.9) > better("accuracy", 0.8)
    assert in_words({"accuracy": 0.87, "unknown": 1.0, "loss": 0.4123}) == "loss 0.412, accuracy 87.00 %"
    assert FIGURES["peak_memory"].text(1_234_000_000) == "1,234"


def test_counts_at_the_holes_are_those_of_a_loop() -> None:
    """Words and their neighbours by plain counting, and the weights by twenty plain rounds."""
    rng, size, end = np.random.default_rng(1), 8, 2

    def text(n: int) -> Ids:
        """Every third word is the one after the word before it, and its own neighbour's neighbour."""
        ids = rng.choice(np.arange(2, size), n, p=[0.1, 0.3, 0.2, 0.2, 0.1, 0.1])
        ids[1::3] = np.minimum(ids[0::3][: len(ids[1::3])] + 1, size - 1)
        return ids

    train, valid = text(900), text(200)
    found = at_holes(train, valid, size, special=end)

    def holes(ids: Ids) -> list[tuple[int, int, int]]:
        return [(u, w, v) for u, w, v in zip(*(map(int, ids[i:]) for i in range(3)), strict=False) if w != end]

    def row(read: Ids) -> Callable[[int, int, int], list[float]]:
        known = holes(read)

        def share(asked: Callable[[int, int, int], bool], w: int) -> float:
            same = [one for one in known if asked(*one)]
            return sum(one[1] == w for one in same) / max(1, len(same))

        return cache(
            lambda u, w, v: [
                share(lambda a, _, b: (a, b) == (u, v), w),
                share(lambda a, *_: a == u, w),
                share(lambda *one: one[2] == v, w),
                share(lambda *_: True, w),
                1 / size,
            ]
        )

    before, after = row(train[:855]), row(train)
    for name, columns in (("frequency", [3, 4]), ("the word before", [1, 3, 4]), ("the words beside", [0, 1, 2, 3, 4])):
        weights = [1 / len(columns)] * len(columns)
        held = [[before(*one)[c] for c in columns] for one in holes(train[855:])]
        for _ in range(20):
            shares = [[w * p for w, p in zip(weights, line, strict=True)] for line in held]
            given = [sum(line[i] / sum(line) for line in shares) + 0.1 for i in range(len(columns))]
            weights = [one / sum(given) for one in given]

        def p(u: int, w: int, v: int, weights: list[float] = weights, columns: list[int] = columns) -> float:
            return mixed(weights, [after(u, w, v)[c] for c in columns])

        asked = holes(valid)
        assert found[name].loss == pytest.approx(-sum(math.log(p(*one)) for one in asked) / len(asked))
        right = [max(range(size), key=lambda w, u=u, v=v: p(u, w, v)) == one for u, one, v in asked]  # type: ignore[misc]
        assert found[name].accuracy == pytest.approx(sum(right) / len(right))
    assert found["the words beside"].loss < found["the word before"].loss < found["frequency"].loss
