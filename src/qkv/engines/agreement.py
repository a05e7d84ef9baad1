"""Whether another engine writes what our own search writes, token for token; and where not, how near it was."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from qkv.decoding.engine import Search
from qkv.decoding.hypothesis import Hypothesis, length_penalty
from qkv.decoding.plain import Plain
from qkv.decoding.trace import log_probabilities
from qkv.decoding.translator import longest_targets
from qkv.models import Model
from qkv.text.tokenizer import EOS

# (sources, the most tokens of each translation, how to search) -> the tokens of the best hypothesis of each
Decode = Callable[[list[list[int]], list[int], Search], list[list[int]]]


@dataclass(frozen=True)
class Agreement:
    """Of so many sentences, how many came out the same; and for the others, by how much ours was better.

    A gap is a difference of log p at the first token that differs (greedy), or of scores (beam), as our model has
    them. Below 0, the other found the better one; near 0, it is a tie that rounding decided.
    """

    how: Search
    sentences: int
    gaps: list[float]  # of those that differ

    @property
    def equal(self) -> int:
        return self.sentences - len(self.gaps)

    @property
    def worst(self) -> float:
        return max(self.gaps, default=0.0)

    @property
    def mean(self) -> float:
        return sum(self.gaps) / max(1, self.sentences)

    def __str__(self) -> str:
        name = "greedy" if self.how.beam == 1 else f"beam {self.how.beam}"
        rest = f"; where they differ, ours is better by at most {self.worst:.1g}" if self.gaps else ""
        return f"{name}: {self.equal} of {self.sentences} sentences are the same, token for token{rest}"


def agreement(model: Model, sources: list[list[int]], theirs: Decode, how: Search) -> Agreement:
    """Compare `theirs` with our own search on these sources; those that ours had to cut short are left out."""
    limits = longest_targets(sources, model.config.max_length)
    ours = [some[0] for some in Plain(model).decode(sources, limits, how)]
    whole = [i for i, hypothesis in enumerate(ours) if hypothesis.ended]
    found = theirs([sources[i] for i in whole], [limits[i] for i in whole], how) if whole else []
    pairs = [(sources[i], ours[i], tokens) for i, tokens in zip(whole, found, strict=True)]
    gaps = [gap(model, source, own, other, how) for source, own, other in pairs if own.tokens != other]
    return Agreement(how, len(whole), gaps)


def gap(model: Model, source: list[int], ours: Hypothesis, theirs: list[int], how: Search) -> float:
    log_p, own, other = log_probabilities(model, source, theirs), [*ours.tokens, EOS], [*theirs, EOS]
    if how.beam == 1:
        at = next(i for i, (a, b) in enumerate(zip(own, other, strict=False)) if a != b)
        return float(log_p[at, own[at]] - log_p[at, other[at]])
    total = float(log_p.gather(1, torch.tensor(other)[:, None]).sum())
    return ours.score - total / length_penalty(len(other), how.alpha)
