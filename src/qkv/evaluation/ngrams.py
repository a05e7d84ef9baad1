"""Counted language models: what a trained one must beat."""

from typing import NamedTuple

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
    weights = tuned(Counts(train[:cut], vocab_size).estimates(train[cut:]))
    p = Counts(train, vocab_size).estimates(valid) @ weights
    return float(-np.log(p).mean())


def tuned(held: Floats) -> Floats:
    """The weights of estimates (T, n) that make the tokens that they are of likeliest, by expectation maximisation."""
    weights = np.full(held.shape[1], 1 / held.shape[1])
    for _ in range(ROUNDS):
        shares = held * weights
        weights = (shares / shares.sum(1, keepdims=True)).mean(0)
    return weights


class Holes(NamedTuple):
    """How well something fills in tokens of a text: the mean of -log p in nats, and the share that it names best."""

    loss: float
    accuracy: float


def at_holes(train: Ids, valid: Ids, vocab_size: int, *, special: int) -> dict[str, Holes]:
    """What counts of words, and of words after another, say of each token of `valid` but the first and the `special`.

    p(w | v) = l2 p2 + l1 p1 + l0 / V, with weights as in `interpolated_trigram`. The best after a word is the one that
    followed it most often, or the most frequent of all where that word is new.
    """
    cut = len(train) - max(3, len(train) // TUNED)
    held, p = (
        followers(read, asked, vocab_size, special) for read, asked in ((train[:cut], train[cut:]), (train, valid))
    )
    before, after = (part[valid[1:] != special] for part in (valid[:-1], valid[1:]))
    after_train = train[1:] != special
    most = int(np.bincount(train[1:][after_train]).argmax())
    pairs, times = np.unique((train[:-1] * vocab_size + train[1:])[after_train], return_counts=True)
    ranked = pairs[np.argsort(times, kind="stable")]  # the most frequent one is written last, and stays
    follower = np.full(vocab_size, most)
    follower[ranked // vocab_size] = ranked % vocab_size
    found = {}
    for name, columns, best in (("frequency", [1, 2], most), ("the word before", [0, 1, 2], follower[before])):
        mixed = p[:, columns] @ tuned(held[:, columns])
        found[name] = Holes(float(-np.log(mixed).mean()), float((best == after).mean()))
    return found


def followers(read: Ids, asked: Ids, vocab_size: int, special: int) -> Floats:
    """p(w | v) and p(w) by relative frequency in `read`, and 1 / V, of each w of `asked` after its v: (T, 3). No w is
    `special`."""
    before, after = (part[read[1:] != special] for part in (read[:-1], read[1:]))
    known, counts = np.unique(before * vocab_size + after, return_counts=True)
    firsts, words = (np.bincount(part, minlength=vocab_size) for part in (before, after))
    v, w = (part[asked[1:] != special] for part in (asked[:-1], asked[1:]))
    at = np.searchsorted(known, v * vocab_size + w).clip(max=len(known) - 1)
    together = np.where(known[at] == v * vocab_size + w, counts[at], 0)
    rows = [together / firsts[v].clip(min=1), words[w] / words.sum(), np.full(len(w), 1 / vocab_size)]
    return np.stack(rows, axis=1)
