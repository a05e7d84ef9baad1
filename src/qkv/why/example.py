"""The worked example of the notes, "I am good": scores, weights and Z, digit by digit."""

import math

import torch
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft
from qkv.look import draw
from qkv.look.steps import VECTORS, WORDS
from qkv.why.claim import Measured, Row
from qkv.why.instruments import apart, identity, look, places, small

X = torch.tensor(VECTORS, dtype=torch.float64)
PRINTED = [["0.97", "0.02", "0.01"], ["0.27", "0.73", "0.00"], ["0.90", "0.05", "0.05"]]
PRINTED_Z = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.000000]]


def attention(score: str = "dot") -> MultiHead:
    """One head whose projections are the identity: Z = softmax(X X^T) X."""
    return identity(MultiHead(small(d_model=3, n_heads=1), attention=score).double())


def worked(score: str = "dot", x: Tensor = X) -> tuple[Tensor, Tensor]:
    """Z (3, 3) and the weights (3, 3)."""
    with torch.no_grad():
        context, weights = look(attention(score), x[None])
    return context[0, 0], weights[0, 0]


def similarity() -> Measured:
    with torch.no_grad():
        scores = Soft(small(d_model=3, n_heads=1), score="dot").score(X[None, None], X[None, None], places(3))[0, 0]
        module = attention()(X[None], places(3))[0]
    z, weights = worked()
    scaled, _ = worked("scaled_dot")
    cosine = nn.functional.cosine_similarity(X[:, None], X[None, :], dim=-1)
    rows: list[Row] = []
    for name, table in (("scores X X^T", scores), ("weights", weights), ("Z", z), ("Z, scaled by sqrt(3)", scaled),
                        ("cosines", cosine)):  # fmt: skip
        rows += [(name, word, *line) for word, line in zip(WORDS, table.tolist(), strict=True)]
    large, _ = worked(x=10 * X)
    return Measured(
        columns=("table", "word", "1", "2", "3"),
        rows=rows,
        verdict="true with a correction",
        why='Z is as printed, to all six digits. But a dot product is similarity times length: "good" scores 9 with '
        '"I" and 6 with itself, though its cosine with itself is 1. Scores 100 times as large still give numbers, '
        "since qkv's softmax first subtracts the largest; exp(1400) alone is infinite.",
        holds=apart(z, torch.tensor(PRINTED_Z, dtype=torch.float64)) < 1e-6
        and apart(module, z) < 1e-12
        and bool(scores[2, 0] > scores[2, 2])
        and bool((cosine.diag() >= cosine.max(dim=1).values - 1e-12).all())
        and bool(large.isfinite().all())
        and math.isinf(torch.tensor(1400.0, dtype=torch.float64).exp().item()),
        picture=lambda path: draw(weights, WORDS, WORDS, path, title="softmax(X X^T)"),
        digits=10,
    )


def rounding() -> Measured:
    _, weights = worked()
    rows: list[Row] = []
    for i, word in enumerate(WORDS):
        for j, other in enumerate(WORDS):
            weight = weights[i, j].item()
            rounded, cut = f"{weight:.2f}", f"{math.floor(weight * 100) / 100:.2f}"
            says = "as printed" if rounded == PRINTED[i][j] else "cut off" if cut == PRINTED[i][j] else "other"
            rows.append((f"{word} -> {other}", weight, PRINTED[i][j], rounded, says))
    second = second_example()
    rows.append(("the second example, its first weight", second[0, 0].item(), "0.10", f"{second[0, 0]:.2f}", "other"))
    wrong = [i + 1 for i, row in enumerate(rows[:9]) if row[4] != "as printed"]
    shifted = apart(second, second_example(torch.tensor([5.0, -3.0, 2.0], dtype=torch.float64)))
    return Measured(
        columns=("weight", "value", "printed", "rounded", ""),
        rows=rows,
        verdict="wrong",
        why="Seven of the nine are rounded as usual. The first and the seventh are cut off instead: 0.9756 is 0.98 and "
        "0.9094 is 0.91, perhaps so that each printed row sums to 1.00, which rounded weights need not do. The first "
        "weight of the second example is 0.09, not 0.10. The method is right; only digits differ.",
        holds=wrong == [1, 7] and all(rows[i - 1][4] == "cut off" for i in wrong) and shifted < 1e-12,
        picture=lambda path: draw(weights, WORDS, WORDS, path, title="softmax(X X^T)"),
        digits=10,
    )


def second_example(common: Tensor | None = None) -> Tensor:
    """X against another sentence Y. The notes show Y in a picture only; any Y of this form gives their weights."""
    y = torch.tensor([[0, 0, 0], [-1, 1, 0], [-1 / 3, 4 / 3, -4 / 3]], dtype=torch.float64)
    y = y if common is None else y + common
    with torch.no_grad():
        return Soft(small(d_model=3, n_heads=1), score="dot").plain(
            X[None, None], y[None, None], y[None, None], places(3)
        )[1][0, 0]
