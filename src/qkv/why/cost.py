"""What attention costs: multiply-adds and cells of scores, counted while the parts run; no clock."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from qkv.attention import MultiHead
from qkv.look.charts import curves
from qkv.why.claim import Measured, amended, apart, noise, places, small, true

WIDTH = 64
LENGTHS = (64, 256, 2048, 16384)


class Largest(TorchDispatchMode):
    """While it lasts: the largest tensor that an operation makes, in cells and bytes, and how many products it saw."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cells = self.bytes = self.products = 0

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = f(*args, **(kwargs or {}))
        self.products += str(f).split(".")[1] in ("mm", "bmm", "addmm", "mv", "dot")
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, Tensor) and one.numel() > self.cells:
                self.cells, self.bytes = one.numel(), one.numel() * one.element_size()
        return result


def count(f: Callable[[], Any]) -> tuple[int, int, int]:
    """Multiply-adds, and the largest tensor that stood in memory, in cells and bytes."""
    with FlopCounterMode(display=False) as flops, Largest() as largest, torch.no_grad():
        f()
    return flops.get_total_flops() // 2, largest.cells, largest.bytes  # a multiply-add is two operations


def quadratic() -> Measured:
    rows = []
    lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True).double()  # in float64 torch runs it step by step
    for n in LENGTHS:
        with torch.device("meta"):  # shapes without numbers: 16,384 words fit anywhere
            part, x = MultiHead(small(d_model=WIDTH, n_heads=1)), torch.empty(1, n, WIDTH)
            projections, _, _ = count(lambda: [f(x) for f in (part.query, part.key, part.value, part.output)])  # noqa: B023
            q = part.heads(x)
            mixing, cells, size = count(lambda: part.attend.plain(q, q, q, places(n)))  # noqa: B023
        recurrent, _, _ = count(lambda: lstm(torch.zeros(1, n, WIDTH, dtype=torch.float64)))  # noqa: B023
        rows.append((n, projections, mixing, recurrent, cells, size))
    _, *counts = zip(*rows, strict=True)
    logs = torch.tensor(rows[-2:], dtype=torch.float64).log()  # (2, 6), of the last two lengths
    slope = ((logs[1, 1:] - logs[0, 1:]) / (logs[1, 0] - logs[0, 0])).tolist()  # the power of n with which each grows
    part, x = MultiHead(small(d_model=WIDTH, n_heads=1)), torch.randn(1, 1, 2048, WIDTH)
    _, kept, _ = count(lambda: part.attend.fused(x, x, x, places(2048)))
    return amended(
        columns=("words", "attention, projections", "attention, n x n", "LSTM", "cells of scores", "bytes of scores"),
        rows=[*rows, ("growth, as power of n", *slope)],
        why=f"Multiply-adds, counted while the parts run: n x n scores grow as n^2 d, an LSTM as n d^2. So for n below "
        f"about 2d = {2 * WIDTH} the n^2 part is the smaller one, and it hurts only beyond. The scores of 16,384 words "
        f"fill 1 GiB for each head; of 2,048 words the fused kernel keeps {kept:,} cells instead of {2048**2:,}.",
        holds=1.9 < slope[1] < 2.1 and 0.95 < slope[2] < 1.05 and counts[3] == tuple(n * n for n in LENGTHS)
        and kept < 2048**2 / 10 and counts[0][0] > counts[1][0] and counts[0][1] < counts[1][1],
        picture=lambda path: curves(
            path, dict(zip(("projections", "n x n", "LSTM"), ((LENGTHS, values) for values in counts), strict=False)),
            log_x=True, log_y=True, x="words", y="multiply-adds", title="one layer, d_model 64"),
    )  # fmt: skip


def stacking() -> Measured:
    """100 words, three projections: one word after another, or all words as one matrix."""
    part = MultiHead(small(d_model=WIDTH)).double()
    x = noise(100, WIDTH)
    weights = [project.weight for project in (part.query, part.key, part.value)]
    ways: dict[str, Callable[[], Tensor]] = {
        "word by word": lambda: torch.stack([torch.stack([word @ weight.T for word in x]) for weight in weights]),
        "as one matrix": lambda: torch.stack([x @ weight.T for weight in weights]),
    }
    rows, results = [], []
    for name, f in ways.items():
        with FlopCounterMode(display=False) as flops, Largest() as largest, torch.no_grad():
            results.append(f())
        rows.append((name, largest.products, flops.get_total_flops() // 2))
    difference = apart(*results)
    return true(
        columns=("100 words", "products", "multiply-adds"),
        rows=[*rows, ("largest difference of the results", difference, "")],
        why="300 products of a word and a matrix become 3 of two matrices, with the same multiply-adds and the same "
        "result: what is saved is the loop, not the work.",
        holds=[row[1] for row in rows] == [300, 3] and difference < 1e-12,
    )
