"""Why the square root of d: the variance of dot products, and what a saturated softmax does to gradients."""

import torch
from torch import Tensor

from qkv.attention import Soft
from qkv.look.curves import curves
from qkv.why.claim import Measured, Row
from qkv.why.instruments import apart, places, small

WIDTHS, KEYS = (1, 4, 16, 64, 256, 1024), 8


def jacobian(weights: Tensor) -> Tensor:
    """d softmax / d scores = diag(p) - p p^T, for each row p of the weights."""
    return weights.diag_embed() - weights[..., :, None] * weights[..., None, :]


def why_scale() -> Measured:
    rows: list[Row] = []
    for d in WIDTHS:
        many = 8000 if d <= 64 else 2000  # the variance of short dot products is the harder one to measure
        q, k = (torch.randn(many, 1, n, d, dtype=torch.float64) for n in (1, KEYS))
        row: list[float] = []
        for score in ("dot", "scaled_dot"):
            soft = Soft(small(d_model=d, n_heads=1), score=score)
            _, weights = soft.plain(q, k, k, places(KEYS))
            row += [soft.score(q, k, places(KEYS)).var().item(), jacobian(weights).norm(dim=(-2, -1)).mean().item(),
                    weights.max(dim=-1).values.mean().item()]  # fmt: skip
        rows.append((d, *row, initial_gradient(d, "dot") / initial_gradient(d, "scaled_dot")))
    slopes, kept = [float(row[2]) for row in rows], [float(row[5]) for row in rows]
    return Measured(
        columns=("d", "variance of q.k", "slope of softmax", "largest weight", "variance, scaled", "slope, scaled",
                 "largest, scaled", "gradient at the scores, unscaled / scaled"),
        rows=rows,
        verdict="true with a correction",
        why="Dividing by sqrt(d) brings the variance of the scores back to 1 - it is no norm of anything. Without it "
        "the variance is d, one weight takes all, and the slope of the softmax, through which every gradient must "
        "pass, goes to 0.",
        holds=all(abs(float(row[1]) / float(row[0]) - 1) < 0.05 and abs(float(row[4]) - 1) < 0.05 for row in rows)
        and slopes == sorted(slopes, reverse=True) and max(kept[1:]) / min(kept[1:]) < 1.15
        and float(rows[-1][7]) < 0.3,
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
    scores = torch.randn(5, dtype=torch.float64)
    p = scores.softmax(dim=0)
    true = torch.autograd.functional.jacobian(lambda s: s.softmax(dim=0), scores)
    ours, diagonal = jacobian(p), (p * (1 - p)).diag()
    asked = torch.randn(5, dtype=torch.float64)  # the gradient that arrives from above
    back, notes = true @ asked, diagonal @ asked
    flipped = int((back.sign() != notes.sign()).sum())
    return Measured(
        columns=("formula", "largest error against autograd"),
        rows=[("diagonal: s_i (1 - s_i)", apart(true.diag(), p * (1 - p))),
              ("off the diagonal: -s_i s_j", apart(true, ours)),
              ("off the diagonal: 0, as s(1 - s) alone would have it", apart(true, diagonal)),
              ("gradient at the scores, diag(s) - s s^T", apart(back, ours @ asked)),
              ("gradient at the scores, s(1 - s) alone", apart(back, notes)),
              ("... of 5 scores, moved the wrong way", flipped)],
        verdict="wrong",
        why="s(1 - s) is right, but only for a score and its own weight. Every score also moves all the other weights, "
        "by -s_i s_j, since they share one sum; the whole slope is diag(s) - s s^T, and its rows sum to 0.",
        holds=apart(true, ours) < 1e-12 and apart(true.diag(), p * (1 - p)) < 1e-12 and apart(true, diagonal) > 1e-3
        and apart(back, notes) > 1e-3 and true.sum(dim=1).abs().max().item() < 1e-12,
    )  # fmt: skip
