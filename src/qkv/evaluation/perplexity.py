"""How well a language model foretells a text: perplexity by token and by word, bits by character."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Likelihood:
    """-log p of a text in nats, and what it is shared among; those of several texts can be added."""

    nats: float
    tokens: int
    words: int  # what white space parts
    characters: int

    @property
    def perplexity(self) -> float:
        """exp(nats / tokens): comparable among models with the same sub-words."""
        return exp(self.nats / self.tokens)

    @property
    def word_perplexity(self) -> float:
        """exp(nats / words): comparable among all models, of texts whose words have spaces between them."""
        return exp(self.nats / max(1, self.words))

    @property
    def bits_per_character(self) -> float:
        """nats / ln 2 / characters: comparable among all models."""
        return self.nats / math.log(2) / self.characters

    def __add__(self, other: "Likelihood") -> "Likelihood":
        return Likelihood(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def exp(nats: float) -> float:
    """e^x, or infinity where no float holds it."""
    return math.exp(nats) if nats < 700 else math.inf


class ScoredWindow(NamedTuple):
    """Tokens start to stop - 1 are read, of which those from `first` on are counted."""

    start: int
    stop: int
    first: int


def windows(length: int, context: int) -> Iterator[ScoredWindow]:
    """Windows over a text that overlap by half: each token is counted once, after at least context // 2 others.

    Those at the beginning of the text have all that stand before them.
    """
    start = first = 0
    while first < length:
        stop = min(start + context, length)
        yield ScoredWindow(start, stop, first)
        start, first = stop - context // 2, stop
