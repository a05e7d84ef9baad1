"""What attention costs: multiply-adds and cells of scores, counted while the parts run; no clock."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from qkv.attention import MultiHead
from qkv.why.chart import curves
from qkv.why.claim import Measured, Row
from qkv.why.instruments import apart, look, small

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
    rows: list[Row] = []
    found: dict[str, list[int]] = {"attention, mixing only": [], "attention, whole": [], "LSTM": []}
    for n in LENGTHS:
        with torch.device("meta"):  # shapes without numbers: 16,384 words cost nothing
            part, x = MultiHead(small(d_model=WIDTH, n_heads=1)), torch.empty(1, n, WIDTH)
            whole, cells, size = count(lambda part=part, x=x: part.output(look_flat(part, x)))  # type: ignore[misc]
        step, _, _ = count(lambda: nn.LSTMCell(WIDTH, WIDTH)(torch.zeros(1, WIDTH)))
        mixing = 2 * n * n * WIDTH
        found["attention, mixing only"].append(whole - 4 * n * WIDTH**2)
        found["attention, whole"].append(whole)
        found["LSTM"].append(n * step)
        rows.append((n, whole, whole - mixing, mixing, n * step, cells, size, WIDTH))
    slope = {name: slope_of(LENGTHS[-2:], values[-2:]) for name, values in found.items()}
    return Measured(
        columns=("words", "attention, multiply-adds", "of them projections", "of them n x n", "LSTM, multiply-adds",
                 "cells of scores", "bytes of scores", "cells of an LSTM's state"),
        rows=[*rows, ("growth, as power of n", slope["attention, whole"], 1.0, slope["attention, mixing only"],
                      slope["LSTM"], 2.0, 2.0, 0.0)],
        verdict="true with a correction",
        why=f"n x n scores make the cost grow as n^2 d; an LSTM costs n d^2. So for n below about 2d = {2 * WIDTH} "
        "attention's own n^2 part is the smaller one, and it hurts only beyond. The scores alone of 16,384 words "
        "fill 1 GiB for each head; the fused kernel does the same multiply-adds without keeping them.",
        holds=1.9 < slope["attention, mixing only"] < 2.1 and 0.95 < slope["LSTM"] < 1.05
        and all(row[5] == int(row[0]) ** 2 for row in rows[1:])
        and found["attention, mixing only"] == [row[3] for row in rows]
        and int(rows[0][2]) > int(rows[0][3]) and int(rows[1][2]) < int(rows[1][3]),
        picture=lambda path: curves(path, {name: (LENGTHS, values) for name, values in found.items()}, log_x=True,
                                    log_y=True, x="words", y="multiply-adds", title="one layer, d_model 64"),
    )  # fmt: skip


def look_flat(part: MultiHead, x: Tensor) -> Tensor:
    return look(part, x)[0].transpose(1, 2).flatten(2)


def slope_of(lengths: tuple[int, ...], values: list[int]) -> float:
    """The power of n with which a number grows, between two lengths."""
    (a, b), (u, v) = (torch.tensor(pair, dtype=torch.float64).log().tolist() for pair in (lengths, values))
    slope: float = (v - u) / (b - a)
    return slope


def stacking() -> Measured:
    """100 words, three projections: one word after another, or all words as one matrix."""
    part = MultiHead(small(d_model=WIDTH)).double()
    x = torch.randn(100, WIDTH, dtype=torch.float64)
    weights = [project.weight for project in (part.query, part.key, part.value)]

    def looped() -> list[Tensor]:
        return [torch.stack([word @ weight.T for word in x]) for weight in weights]

    def stacked() -> list[Tensor]:
        return [x @ weight.T for weight in weights]

    rows: list[Row] = []
    for name, f in (("word by word", looped), ("as one matrix", stacked)):
        with Largest() as largest, torch.no_grad():
            f()
        rows.append((name, largest.products, 3 * 100 * WIDTH**2))
    with torch.no_grad():
        difference = max(apart(a, b) for a, b in zip(looped(), stacked(), strict=True))
    return Measured(
        columns=("100 words", "products", "multiply-adds"),
        rows=[*rows, ("largest difference of the results", difference, "")],
        verdict="true",
        why="300 products of a word and a matrix become 3 of two matrices, with the same multiply-adds and the same "
        "result: what is saved is the loop, not the work.",
        holds=[row[1] for row in rows] == [300, 3] and difference < 1e-12,
    )
