"""Counted language models: what a trained one must beat."""

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
ROUNDS = 20  # of expectation and maximisation; the weights hardly move after ten
TUNED = 20  # one part in so many of the training text, its last, tunes the weights


class Counts:
    """How often each row of n tokens occurs in a text, for n of 1 to 3."""

    def __init__(self, ids: Ids, vocab_size: int) -> None:
        self.size, self.total = vocab_size, len(ids)
        self.tables = [np.unique(self.keys(ids, n), return_counts=True) for n in (1, 2, 3)]

    def keys(self, ids: Ids, n: int) -> Ids:
        """One number for each row of n tokens, by where it ends."""
        key = ids[: len(ids) - n + 1].copy()
        for i in range(1, n):
            key = key * self.size + ids[i : len(ids) - n + 1 + i]
        return key

    def of(self, keys: Ids, n: int) -> Floats:
        known, counts = self.tables[n - 1]
        at = np.searchsorted(known, keys).clip(max=len(known) - 1)
        return np.where(known[at] == keys, counts[at], 0).astype(np.float64)

    def estimates(self, ids: Ids) -> Floats:
        """p(w), p(w | v) and p(w | u, v) by relative frequency, and 1 / V, of each token from the third on: (T, 4)."""
        one, two, three = (self.of(self.keys(ids, n)[3 - n :], n) for n in (1, 2, 3))
        before, pair_before = self.of(ids[1:-1], 1), self.of(self.keys(ids, 2)[:-1], 2)
        with np.errstate(invalid="ignore"):
            rows = [three / pair_before, two / before, one / self.total, np.full_like(one, 1 / self.size)]
        return np.nan_to_num(np.stack(rows, axis=1))  # 0 / 0 is what was never seen


def interpolated_trigram(train: Ids, valid: Ids, vocab_size: int) -> float:
    """Jelinek & Mercer 1980: p(w | u, v) = l3 p3 + l2 p2 + l1 p1 + l0 / V; the mean of -log p over `valid`, in nats.

    The weights l are those that make the last twentieth of the training text likeliest, given counts of the rest.
    """
    cut = len(train) - max(3, len(train) // TUNED)
    held = Counts(train[:cut], vocab_size).estimates(train[cut:])
    weights = np.full(4, 0.25)
    for _ in range(ROUNDS):
        shares = held * weights
        weights = (shares / shares.sum(1, keepdims=True)).mean(0)
    p = Counts(train, vocab_size).estimates(valid) @ weights
    return float(-np.log(p).mean())
