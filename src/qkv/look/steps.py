"""The steps of an explanation: named tables of numbers; and the worked example "I am good"."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

WORDS = ["I", "am", "good"]
VECTORS = [[1.0, 3.0, 2.0], [1.0, 1.0, 3.0], [1.0, 2.0, 1.0]]


@dataclass(frozen=True)
class Step:
    """One step of a computation: a table (rows, columns) of numbers, its equation, and a sentence about it."""

    title: str
    equation: str
    rows: list[str]
    columns: list[str]
    values: Tensor  # (rows, columns), float64; -inf where a mask blocks
    about: str

    def first(self, most: int) -> "Step":
        """Of longer vectors the first `most` numbers, and a sentence that says so; words by words stay whole."""
        if self.columns == self.rows or len(self.columns) <= most:
            return self
        about = f"{self.about} (The first {most} of {len(self.columns)} numbers.)"
        return replace(self, columns=self.columns[:most], values=self.values[:, :most], about=about)

    def to_tree(self) -> dict[str, Any]:
        """Plain data for JSON, which has no infinity: a blocked cell is null."""
        cells = [[value if math.isfinite(value) else None for value in row] for row in self.values.tolist()]
        return vars(self) | {"values": cells}


def table(
    title: str, equation: str, rows: Sequence[str], values: Tensor, about: str, columns: Sequence[str] = ()
) -> Step:
    """A step whose columns are dimensions, unless they are named."""
    named = list(columns) or [str(i + 1) for i in range(values.size(-1))]
    return Step(title, equation, list(rows), named, values.detach().to("cpu", torch.float64), about)


def worked_example(*, scaled: bool = True, causal: bool = False) -> list[Step]:
    """Three words of three numbers each, with identity projections, so that q = k = v = x and all can be done by hand.

    Without the scaling it is the lecture's own example: Z = softmax(X X^T) X.
    """
    x = torch.tensor(VECTORS, dtype=torch.float64)  # (T, K)
    scores = x @ x.T  # (T, T)
    steps = [
        table("embeddings", "X", WORDS, x, "Each word is a vector of three numbers."),
        table("queries", "Q = X W^Q", WORDS, x, "What each word asks for; here W^Q is the identity, so Q = X."),
        table("keys", "K = X W^K", WORDS, x, "What each word answers to; W^K is the identity, too."),
        table("values", "V = X W^V", WORDS, x, "What each word gives; W^V is the identity, too."),
        table("scores", "S = Q K^T", WORDS, scores, "How well each key (column) answers each query (row).", WORDS),
    ]
    if scaled:
        scores = scores / math.sqrt(x.size(-1))
        about = "Divided by the root of the width, so that scores do not grow with it."
        steps.append(table("scaled scores", "S / sqrt(d_k), d_k = 3", WORDS, scores, about, WORDS))
    if causal:
        scores = scores.masked_fill(~torch.ones(3, 3, dtype=torch.bool).tril(), -torch.inf)
        about = "A word may look at itself and at what stands before it; the rest is -inf, which softmax makes 0."
        steps.append(table("masked scores", "S_ij = -inf where j > i", WORDS, scores, about, WORDS))
    weights = scores.softmax(dim=-1)
    about = "Every row is positive and sums to 1: how much of each value a word takes."
    steps.append(table("weights", "A = softmax(S), row by row", WORDS, weights, about, WORDS))
    about = "Each word's new vector: the values, mixed by its row of weights."
    return [*steps, table("context", "Z = A V", WORDS, weights @ x, about)]
