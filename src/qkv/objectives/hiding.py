"""Which tokens of a text are hidden: single pieces, whole words, spans of words, phrases and names.

All work on whole batches: `free` (B, T) is True at tokens that may be hidden, `starts` where a unit begins.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Draw = Callable[[], Floats]  # numbers from 0 to 1, (B, T), others at each call

P, LONGEST = 0.2, 10
CHANCES = P * (1 - P) ** np.arange(LONGEST)
UP_TO = np.cumsum(CHANCES / CHANCES.sum())  # of a span's length of 1, 2 .. LONGEST words
NGRAMS = np.array([0.8, 0.9, 1.0])  # Dong et al. 2019, section 2.3: one token 80 % of the time, else two or three
GRAMS = 5
GRAMS_UP_TO = np.cumsum(1 / np.arange(1, GRAMS + 1)) / np.sum(1 / np.arange(1, GRAMS + 1))  # of n-grams, P(n) ~ 1 / n
# Steele, Lea & Flood 2014 (SplitMix64).
GOLDEN, MIX_1, MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def at_random(shape: torch.Size, rng: torch.Generator) -> Draw:
    return lambda: torch.rand(shape, generator=rng, dtype=torch.float64).numpy()


def by_place(places: Tensor) -> Draw:
    """Numbers that depend on where in the corpus a token stands, and on how often they were asked for: in every epoch
    the same."""
    calls = iter(range(2**20))

    def draw() -> Floats:
        x = (places.numpy().astype(np.uint64) << np.uint64(16)) + np.uint64(next(calls))
        x = x * GOLDEN
        x = (x ^ (x >> np.uint64(30))) * MIX_1
        x = (x ^ (x >> np.uint64(27))) * MIX_2
        return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) / 2.0**53

    return draw


def some(free: Flags, count: Ints, draw: Draw) -> Flags:
    """`count` (B,) of the free ones of each row."""
    keys = np.where(free, draw(), 2.0)
    ranked = np.sort(keys, axis=1)
    last = np.take_along_axis(ranked, (count[:, None] - 1).clip(0, free.shape[1] - 1), axis=1)
    return free & (keys <= last) & (count > 0)[:, None]


def first_of_unit(starts: Flags) -> Ints:
    """For each token, where its unit begins."""
    return np.maximum.accumulate(np.where(starts, np.arange(starts.shape[1]), 0), axis=1)


def units(free: Flags, starts: Flags, heads: Flags, rate: float, draw: Draw) -> Flags:
    """Sun et al. 2019 (ERNIE 1.0), section 3.2: a share of the units (phrases, names, other words), each whole; those
    of which the first tokens are `heads`."""
    heads = free & heads
    chosen = some(heads, np.rint(heads.sum(axis=1) * rate).astype(np.int64).clip(min=1), draw)
    return free & np.take_along_axis(chosen, first_of_unit(starts), axis=1)


def words(free: Flags, starts: Flags, budget: Ints, draw: Draw) -> Flags:
    """Devlin et al. 2019, the authors' code for whole words: words in a random order, each of which is hidden unless
    more than `budget` (B,) tokens would be."""
    n, length = free.shape
    first = first_of_unit(starts)
    flat = (first + length * np.arange(n)[:, None]).ravel()
    size = np.bincount(flat, weights=free.ravel(), minlength=n * length).reshape(n, length)  # (B, T), at first tokens
    order = np.argsort(np.where(free & starts, draw(), 2.0), axis=1)
    sizes, place = np.take_along_axis(size, order, axis=1), np.arange(length)
    while True:
        total = sizes.cumsum(axis=1)
        over: Flags = np.greater(total, budget[:, None])
        if not over.any():
            break
        # The first word that does not fit is passed over, and with it all behind it that are too long for what is left.
        at = over.argmax(axis=1)[:, None]
        left = budget[:, None] - np.take_along_axis(total - sizes, at, axis=1)
        sizes[over.any(axis=1, keepdims=True) & (place >= at) & (sizes > left)] = 0
    chosen = np.zeros_like(free)
    np.put_along_axis(chosen, order, sizes > 0, axis=1)
    return free & np.take_along_axis(chosen, first, axis=1)


def spans(free: Flags, starts: Flags, budget: Ints, draw: Draw, up_to: Floats = UP_TO) -> Flags:
    """Joshi et al. 2020 (SpanBERT), section 3.1: spans of l words, l ~ Geometric(0.2) up to 10, from the beginning of a
    word on, until exactly `budget` (B,) tokens are hidden. A span ends before a special token.

    `up_to` are the chances of other lengths: of at most one word, of at most two, and so on."""
    length = free.shape[1]
    word, first = starts.cumsum(axis=1), first_of_unit(starts)
    edges = [np.append(np.flatnonzero(row), length) for row in starts]  # where words begin; word i ends at edges[i]
    barred = np.minimum.accumulate(np.where(free, length, np.arange(length))[:, ::-1], axis=1)[:, ::-1]
    anchors, counts = np.argsort(np.where(free, draw(), 2.0), axis=1), lengths(draw(), up_to)
    hidden = np.zeros_like(free)
    for row, left in enumerate(np.minimum(budget, free.sum(axis=1)).tolist()):
        turns = iter(zip(anchors[row], counts[row], strict=True))
        while left > 0:
            at, count = next(turns)
            if not hidden[row, at]:
                last = min(word[row, at] + count, len(edges[row])) - 1
                span = slice(first[row, at], min(edges[row][last], barred[row, at]))
                new = np.flatnonzero(~hidden[row, span])[:left]
                hidden[row, span.start + new] = True
                left -= len(new)
    return hidden


def lengths(draw: Floats, up_to: Floats = UP_TO) -> Ints:
    """Words of a span by numbers from 0 to 1."""
    return np.searchsorted(up_to[:-1], draw, side="right") + 1


def grams(free: Flags, starts: Flags, budget: Ints, draw: Draw, *, k: int, by_piece: bool = False) -> Flags:
    """Yang et al. 2019 (XLNet), section 3.1: from left to right spans of n words, n from 1 to 5, each at a random place
    in a context of k n tokens, of which no word is taken that does not fit; what is left then of `budget` (B,) is
    hidden anywhere. A span ends before a special token.

    `by_piece` is the authors' sampler: it counts n in pieces, so that a span may end within a word, for it looks for
    the beginnings of words where the span begins, and not where it ends; and it stops at a span that reaches the end of
    the text.
    """
    length = free.shape[1]
    edges = [[*np.flatnonzero(row).tolist(), length] for row in starts]  # where words begin; word i ends at edges[i]
    word, place = starts.cumsum(axis=1).tolist(), np.arange(length)
    begins, barred = (np.minimum.accumulate(np.where(where, place, length)[:, ::-1], axis=1)[:, ::-1].tolist()
                      for where in (free & starts, ~free))  # fmt: skip  # the next of each, from any place on
    counts, shares = lengths(draw(), GRAMS_UP_TO).tolist(), draw().tolist()
    hidden = np.zeros_like(free)
    for row, left in enumerate(np.minimum(budget, free.sum(axis=1)).tolist()):
        at = 0
        for n, share in zip(counts[row], shares[row], strict=True):
            n = min(n, left)
            before = int(share * k * n)
            if not left or at + before >= length or (first := begins[row][at + before]) == length:
                break
            if by_piece and first + n >= length:
                break
            ends = range(first + 1, first + n + 1) if by_piece else edges[row][word[row][first] :][:n]
            most = min(first + left, barred[row][first])
            last = max((end for end in ends if end <= most), default=first)
            hidden[row, first:last] = True
            left, at = left - (last - first), last + k * n - before
    return hidden | some(free & ~hidden, budget - hidden.sum(axis=1), draw)


def runs(hidden: Flags) -> Ints:
    """For each hidden token, where its span begins: spans that touch are one."""
    before = np.pad(hidden, ((0, 0), (1, 0)))[:, :-1]
    return first_of_unit(hidden & ~before)
