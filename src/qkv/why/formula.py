"""softmax(Q K^T / sqrt(d)) V: the notes' example "I am good", digit by digit; why the root; the slope of a softmax."""

import math

import torch
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft
from qkv.look import draw
from qkv.look.charts import curves
from qkv.look.steps import VECTORS, WORDS
from qkv.why.claim import Measured, amended, apart, identity, look, noise, places, small, wrong

X = torch.tensor(VECTORS, dtype=torch.float64)
PRINTED = [["0.97", "0.02", "0.01"], ["0.27", "0.73", "0.00"], ["0.90", "0.05", "0.05"]]
PRINTED_Z = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.000000]]
WIDTHS, KEYS = (1, 4, 16, 64, 256, 1024), 8


def attention(score: str = "dot") -> MultiHead:
    """One head whose projections are the identity: Z = softmax(X X^T) X."""
    return identity(MultiHead(small(d_model=3, n_heads=1), attention=score).double())


def worked(score: str = "dot", x: Tensor = X) -> tuple[Tensor, Tensor]:
    """Z (3, 3) and the weights (3, 3)."""
    context, weights = look(attention(score), x[None])
    return context[0, 0], weights[0, 0]


def similarity() -> Measured:
    scores = attention().attend.score(X[None, None], X[None, None], places(3))[0, 0]
    module = attention()(X[None], places(3))[0]
    z, weights = worked()
    cosine = nn.functional.cosine_similarity(X[:, None], X[None, :], dim=-1)
    tables = {"scores X X^T": scores, "weights": weights, "Z": z, "Z, scaled by sqrt(3)": worked("scaled_dot")[0],
              "cosines": cosine}  # fmt: skip
    return amended(
        columns=("table", "word", "1", "2", "3"),
        rows=[(name, WORDS[i], *table[i].tolist()) for name, table in tables.items() for i in range(3)],
        why='Z is as printed, to all six digits. But a dot product is similarity times length: "good" scores 9 with '
        '"I" and 6 with itself, though its cosine with itself is 1. Scores 100 times as large still give numbers, '
        "since qkv's softmax first subtracts the largest; exp(1400) alone is infinite.",
        holds=apart(z, torch.tensor(PRINTED_Z, dtype=torch.float64)) < 1e-6
        and apart(module, z) < 1e-12
        and bool(scores[2, 0] > scores[2, 2])
        and bool((cosine.diag() >= cosine.max(dim=1).values - 1e-12).all())
        and bool(worked(x=10 * X)[0].isfinite().all())
        and math.isinf(torch.tensor(1400.0, dtype=torch.float64).exp().item()),
        picture=lambda path: draw(weights, WORDS, WORDS, path, title="softmax(X X^T)"),
        digits=10,
    )


def rounding() -> Measured:
    _, weights = worked()
    rows = []
    for i, word in enumerate(WORDS):
        for weight, printed, other in zip(weights[i].tolist(), PRINTED[i], WORDS, strict=True):
            rounded, cut = f"{weight:.2f}", f"{math.floor(weight * 100) / 100:.2f}"
            says = "as printed" if rounded == printed else "cut off" if cut == printed else "other"
            rows.append((f"{word} -> {other}", weight, printed, rounded, says))
    second = second_example()
    shifted = apart(second, second_example(torch.tensor([5.0, -3.0, 2.0], dtype=torch.float64)))
    first = second[0, 0].item()
    return wrong(
        columns=("weight", "value", "printed", "rounded", ""),
        rows=[*rows, ("the second example, its first weight", first, "0.10", f"{first:.2f}", "other")],
        why="Seven of the nine are rounded as usual. The first and the seventh are cut off instead: 0.9756 is 0.98 and "
        "0.9094 is 0.91, perhaps so that each printed row sums to 1.00, which rounded weights need not do. The first "
        "weight of the second example is 0.09, not 0.10. The method is right; only digits differ.",
        holds=all((row[4] == "cut off") if i in (0, 6) else (row[4] == "as printed") for i, row in enumerate(rows))
        and shifted < 1e-12,
        picture=lambda path: draw(weights, WORDS, WORDS, path, title="softmax(X X^T)"),
        digits=10,
    )


def second_example(common: Tensor | float = 0.0) -> Tensor:
    """X against another sentence Y. The notes show Y in a picture only; any Y of this form gives their weights."""
    y = common + torch.tensor([[0, 0, 0], [-1, 1, 0], [-1 / 3, 4 / 3, -4 / 3]], dtype=torch.float64)
    return attention().attend.plain(X[None, None], y[None, None], y[None, None], places(3))[1][0, 0]


def jacobian(weights: Tensor) -> Tensor:
    """d softmax / d scores = diag(p) - p p^T, for each row p of the weights."""
    return weights.diag_embed() - weights[..., :, None] * weights[..., None, :]


def why_scale() -> Measured:
    rows = []
    for d in WIDTHS:
        many = 8000 if d <= 64 else 2000  # the variance of short dot products is the harder one to measure
        q, k = noise(many, 1, 1, d), noise(many, 1, KEYS, d)
        row: list[float] = []
        for score in ("dot", "scaled_dot"):
            soft = Soft(small(d_model=d, n_heads=1), score=score)
            _, weights = soft.plain(q, k, k, places(KEYS))
            row += [soft.score(q, k, places(KEYS)).var().item(), jacobian(weights).norm(dim=(-2, -1)).mean().item(),
                    weights.max(dim=-1).values.mean().item()]  # fmt: skip
        rows.append((d, *row, initial_gradient(d, "dot") / initial_gradient(d, "scaled_dot")))
    _, _, slopes, _, _, kept, _, felt = zip(*rows, strict=True)
    return amended(
        columns=("d", "variance of q.k", "slope of softmax", "largest weight", "variance, scaled", "slope, scaled",
                 "largest, scaled", "gradient at the scores, unscaled / scaled"),
        rows=rows,
        why="Dividing by sqrt(d) brings the variance of the scores back to 1 - it is no norm of anything. Without it "
        "the variance is d, one weight takes all, and the slope of the softmax, through which every gradient must "
        "pass, goes to 0.",
        holds=all(abs(row[1] / row[0] - 1) < 0.05 and abs(row[4] - 1) < 0.05 for row in rows)
        and list(slopes) == sorted(slopes, reverse=True) and max(kept[1:]) / min(kept[1:]) < 1.15 and felt[-1] < 0.3,
        picture=lambda path: curves(path, {"q.k": (WIDTHS, slopes), "q.k/sqrt(d)": (WIDTHS, kept)}, log_x=True,
                                    x="d", y="mean norm of the softmax's slope", title="why sqrt(d)"),
    )  # fmt: skip


def initial_gradient(d: int, score: str) -> float:
    """The norm of the gradient that reaches the scores when the context is asked to move, mean of 500 rows."""
    draws = torch.Generator().manual_seed(d)
    q, k, v, probe = (torch.randn(500, 1, n, d, dtype=torch.float64, generator=draws) for n in (1, KEYS, KEYS, 1))
    attend = Soft(small(d_model=d, n_heads=1), score=score)
    scores = attend.score(q, k, places(KEYS)).requires_grad_()
    context = attend.choose(scores, q, places(KEYS)) @ v
    (slope,) = torch.autograd.grad((context * probe).sum(), scores)
    return float(slope.flatten(1).norm(dim=1).mean())


def softmax_slope() -> Measured:
    scores = noise(5)
    p = scores.softmax(dim=0)
    exact = torch.autograd.functional.jacobian(lambda s: s.softmax(dim=0), scores)
    ours, diagonal = jacobian(p), (p * (1 - p)).diag()
    asked = noise(5)  # the gradient that arrives from above
    back, notes = exact @ asked, diagonal @ asked
    own, all_of_it, alone = apart(exact.diag(), p * (1 - p)), apart(exact, ours), apart(exact, diagonal)
    return wrong(
        columns=("formula", "largest error against autograd"),
        rows=[
            ("diagonal: s_i (1 - s_i)", own),
            ("off the diagonal: -s_i s_j", all_of_it),
            ("off the diagonal: 0, as s(1 - s) alone would have it", alone),
            ("gradient at the scores, diag(s) - s s^T", apart(back, ours @ asked)),
            ("gradient at the scores, s(1 - s) alone", apart(back, notes)),
            ("... of 5 scores, moved the wrong way", int((back.sign() != notes.sign()).sum())),
        ],
        why="s(1 - s) is right, but only for a score and its own weight. Every score also moves all the other weights, "
        "by -s_i s_j, since they share one sum; the whole slope is diag(s) - s s^T, and its rows sum to 0.",
        holds=max(own, all_of_it) < 1e-12 and min(alone, apart(back, notes)) > 1e-3
        and exact.sum(dim=1).abs().max().item() < 1e-12,
    )  # fmt: skip
