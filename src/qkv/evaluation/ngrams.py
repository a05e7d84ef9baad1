"""Counted language models: what a trained one must beat."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
ROUNDS = 20  # of expectation and maximisation; the weights hardly move after ten
NAMED = 8192  # places at which the likeliest word is looked for: the share that is right is known to half a percent
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
        return found(self.tables[n - 1], keys)

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
    weights = tuned(Counts(train[:cut], vocab_size).estimates(train[cut:]))
    p = Counts(train, vocab_size).estimates(valid) @ weights
    return float(-np.log(p).mean())


def tuned(held: Floats) -> Floats:
    """The weights of estimates (T, n) that make the tokens they are of likeliest, by expectation maximisation; each
    is also given a tenth of a token, so that a short text rules none of them out."""
    weights = np.full(held.shape[1], 1 / held.shape[1])
    for _ in range(ROUNDS):
        shares = held * weights
        weights = (shares / shares.sum(1, keepdims=True)).sum(0) + 0.1
        weights /= weights.sum()
    return weights


class Holes(NamedTuple):
    """How well something fills in tokens of a text: the mean of -log p in nats, and the share that it names best."""

    loss: float
    accuracy: float


class Neighbours:
    """How often each token w stands between u and v, after u, before v, and at all, in a text; where w is `special`,
    nothing is counted."""

    def __init__(self, ids: Ids, vocab_size: int, special: int) -> None:
        self.size, self.special = vocab_size, special
        contexts, words = self.holes(ids)
        self.tables = [np.unique(self.size * context + words, return_counts=True) for context in contexts]
        self.totals = [np.unique(context, return_counts=True) for context in contexts]
        self.words = np.bincount(words, minlength=vocab_size) / max(1, len(words))  # p(w)

    def holes(self, ids: Ids) -> tuple[list[Ids], Ids]:
        """Numbers for (u, v), u and v around each token that is asked for, and these tokens."""
        here = ids[1:-1] != self.special
        before, words, after = ids[:-2][here], ids[1:-1][here], ids[2:][here]
        return [before * self.size + after, before, after], words

    def estimates(self, ids: Ids) -> Floats:
        """p(w | u, v), p(w | u), p(w | v) and p(w) by relative frequency, and 1 / V, of each w of `ids`: (T, 5)."""
        contexts, words = self.holes(ids)
        rows = [
            found(table, self.size * context + words) / found(total, context).clip(min=1)
            for table, total, context in zip(self.tables, self.totals, contexts, strict=True)
        ]
        return np.stack([*rows, self.words[words], np.full(len(words), 1 / self.size)], axis=1)

    def best(self, contexts: Sequence[int], weights: Floats) -> int:
        """The likeliest w at a place, by the weights of the five estimates."""
        p = weights[3] * self.words
        for (known, counts), context, weight in zip(self.tables, contexts, weights, strict=False):
            first, last = np.searchsorted(known, (self.size * context, self.size * (context + 1)))
            p[known[first:last] % self.size] += weight * counts[first:last] / max(1, counts[first:last].sum())
        return int(p.argmax())


def found(table: tuple[Ids, Ids], keys: Ids) -> Floats:
    """The count of each key; 0 for those that never occurred."""
    known, counts = table
    at = np.searchsorted(known, keys).clip(max=len(known) - 1)
    return np.where(known[at] == keys, counts[at], 0).astype(np.float64)


def at_holes(train: Ids, valid: Ids, vocab_size: int, *, special: int) -> dict[str, Holes]:
    """What counts of words and of their neighbours say of each token of `valid` but the first, the last and the
    `special`.

    p(w | u, v) = l4 p(w | u, v) + l3 p(w | u) + l2 p(w | v) + l1 p(w) + l0 / V, or a part of it, with weights as in
    `interpolated_trigram`. Which word is likeliest is asked at `NAMED` places.
    """
    cut = len(train) - max(3, len(train) // TUNED)
    held = Neighbours(train[:cut], vocab_size, special).estimates(train[cut:])
    counts = Neighbours(train, vocab_size, special)
    p, (contexts, words) = counts.estimates(valid), counts.holes(valid)
    places = range(0, len(words), max(1, len(words) // NAMED))
    scores = {}
    for name, columns in (("frequency", [3, 4]), ("the word before", [1, 3, 4]), ("the words beside", [0, 1, 2, 3, 4])):
        weights = np.zeros(5)
        weights[columns] = tuned(held[:, columns])
        right = [counts.best([int(context[i]) for context in contexts], weights) == words[i] for i in places]
        scores[name] = Holes(float(-np.log(p @ weights).mean()), float(np.mean(right)))
    return scores
