"""The frame of `qkv why`: a claim, what was measured of it and the verdict; and what all claims are measured with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import MultiHead
from qkv.layers import Stack
from qkv.models import TransformerConfig
from qkv.positions import Places

CPU = torch.device("cpu")
Verdict = Literal["true", "true with a correction", "wrong"]
Row = tuple[Any, ...]  # of texts, whole numbers and floats


@dataclass(frozen=True)
class Measured:
    """The numbers that were measured, and what they say of the claim."""

    verdict: Verdict
    rows: Sequence[Row]
    why: str  # what the numbers show; of a claim that is not simply true, what is true instead
    holds: bool  # whether the effect has the sign that the verdict says
    columns: tuple[str, ...] = ("measured", "number")
    picture: Callable[[Path], Path] | None = None
    digits: int = 4  # significant digits of the printed numbers

    def shown(self) -> list[list[str]]:
        """The rows as they are printed."""
        return [[self.show(cell) for cell in row] for row in self.rows]

    def show(self, cell: str | float) -> str:
        if isinstance(cell, str):
            return cell
        is_whole = isinstance(cell, int) or 10**self.digits <= abs(cell) < torch.inf
        return f"{cell:,.0f}" if is_whole else f"{cell:.{self.digits}g}"

    def to_tree(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"rows": rows, "verdict": self.verdict, "why": self.why, "holds": self.holds}


true, amended, wrong = (partial(Measured, verdict) for verdict in ("true", "true with a correction", "wrong"))


@dataclass(frozen=True)
class Claim:
    """One statement of the lecture notes, in our words, and the function that measures it."""

    number: str
    name: str
    words: str
    measure: Callable[[], Measured]

    def run(self) -> Measured:
        """Measure on one thread and from a fixed seed; the caller's threads and random numbers stay as they were."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                return self.measure()
        finally:
            torch.set_num_threads(threads)


# -- instruments: small parts of qkv in float64, and how far apart two tensors are -------------------------------------


def small(**settings: Any) -> TransformerConfig:
    """The settings of a small part: width 16, four heads, no dropout, unless given."""
    return TransformerConfig(**{"d_model": 16, "d_ff": 64, "n_heads": 4, "dropout": 0.0, "vocab_size": 20, **settings})


def places(length: int) -> Places:
    return Places.span(0, length, CPU)


def noise(*shape: int) -> Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(*shape, dtype=torch.float64)


def multi_head(**settings: Any) -> MultiHead:
    return MultiHead(small(**settings)).double()


def stack(*, layers: int = 2, position: str = "none", **settings: Any) -> Stack:
    """An encoder stack in float64."""
    return Stack(small(position=position, **settings), layers=layers).double().eval()


def look(part: MultiHead, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What the heads of a self-attention give and their weights: (B, H, T, K), (B, H, T, S)."""
    q, k, v = (part.heads(project(x)) for project in (part.query, part.key, part.value))
    return part.attend.plain(q, k, v, places(x.size(1)), mask)


def identity(part: MultiHead) -> MultiHead:
    """The same attention with all four projections the identity: Q = K = V = X."""
    for project in (part.query, part.key, part.value, part.output):
        nn.init.eye_(project.weight)
    return part


def learn(
    part: nn.Module, loss: Callable[[], Tensor], *, steps: int, rate: Callable[[int], float] = lambda step: 1e-2,
    betas: tuple[float, float] = (0.9, 0.999),
) -> None:  # fmt: skip
    """Adam on a loss that draws what it reads; `rate` is the learning rate of each step."""
    optimiser = torch.optim.Adam(part.parameters(), betas=betas)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate(step)
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()


def taught(model: Any, *, steps: int, rows: int) -> float:
    """Teach a model that draws its own questions; how often its answers, all of a row, are right on fresh ones."""

    def loss() -> Tensor:
        given, wanted = model.answers(rows)  # (rows, ..., classes), (rows, ...)
        return F.cross_entropy(given.flatten(0, -2), wanted.flatten())

    learn(model, loss, steps=steps)
    given, wanted = model.answers(1000)
    return float((given.argmax(-1) == wanted).view(1000, -1).all(dim=1).float().mean())


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference between two tensors."""
    return (a - b).abs().max().item()


def influence(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """How much the output at each place (row) depends on the input at each place (column): norms of a Jacobian.

    x is (1, T, D) and f keeps its length; the result is (T, T), and 0 means "does not depend" exactly.
    """
    jacobian = torch.autograd.functional.jacobian(f, x)[0, :, :, 0]  # (T, D, T, D)
    return jacobian.transpose(1, 2).flatten(2).norm(dim=-1)
