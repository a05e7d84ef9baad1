"""Longer text: what attention costs, counted with no clock; and which positions carry on beyond what was trained.

The text is the reference of the Python language, which every Python brings along.
"""

from collections.abc import Callable
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from qkv.attention import MultiHead, causal
from qkv.errors import InputError
from qkv.layers import Embedding, Projection, Stack
from qkv.look.charts import curves
from qkv.positions import POSITIONS, Places
from qkv.why.claim import CPU, Measured, Row, amended, apart, learn, noise, places, small, true

WIDTH, LENGTHS = 64, (64, 256, 2048, 16384)
LETTERS = " abcdefghijklmnopqrstuvwxyz.,"
SHORT, LONG = 40, 80
STEADY = 0.03  # a rise of the loss that chance alone may bring


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
        with FlopCounterMode(display=False) as flops, torch.no_grad():
            lstm(torch.zeros(1, n, WIDTH, dtype=torch.float64))
        rows.append((n, projections, mixing, flops.get_total_flops() // 2, cells, size))
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


def letters() -> Tensor:
    """The text as ids of LETTERS; anything else is a space, and runs of spaces are one."""
    kept = "".join(c if c in LETTERS else " " for _, text in sorted(topics.items()) for c in text.lower())
    return torch.tensor([LETTERS.index(c) for c in " ".join(kept.split())])


class Letters(nn.Module):
    """A causal model of letters: what comes next?"""

    def __init__(self, position: str) -> None:
        super().__init__()
        c = small(d_model=32, vocab_size=len(LETTERS), norm="pre", max_length=SHORT, position=position)
        self.embedding = Embedding(len(LETTERS), c.d_model)
        self.stack = Stack(c, layers=1)
        self.projection = Projection(len(LETTERS), c.d_model, tied=self.embedding, bias=False)

    def losses(self, ids: Tensor) -> Tensor:
        """(B, T + 1) ids -> the loss of each next letter: (B, T)."""
        at = Places.span(0, ids.size(1) - 1, CPU, causal=True)
        hidden = self.stack(self.embedding(ids[:, :-1]), at, causal(at))
        return F.cross_entropy(self.projection(hidden).transpose(1, 2), ids[:, 1:], reduction="none")

    def learn(self, text: Tensor, steps: int) -> "Letters":
        learn(self, lambda: self.losses(windows(text, 32, SHORT)).mean(), steps=steps, betas=(0.9, 0.98),
              rate=lambda step: 1e-2 * min(1.0, (step + 1) / 20, 2 * (1 - step / steps)))  # fmt: skip
        return self


def windows(text: Tensor, rows: int, length: int) -> Tensor:
    start = torch.randint(len(text) - length - 1, (rows,))
    return text[start[:, None] + torch.arange(length + 1)]  # (rows, length + 1)


def extrapolation() -> Measured:
    """One small model for each position: trained on 40 letters, then read on 80."""
    text = letters()
    held, known = text[:20_000], text[20_000:]
    rows: list[Row] = []
    by_place = {}
    for name in (name for name, part in POSITIONS.items() if not part.needs_tree):
        torch.manual_seed(1)
        model = Letters(name).learn(known, steps=300).eval()
        torch.manual_seed(2)  # the same text for all
        asked = windows(held, 500, LONG)
        with torch.no_grad():
            try:
                loss = model.losses(asked).mean(dim=0)  # (LONG,)
            except InputError:
                short = model.losses(asked[:, : SHORT + 1]).mean(dim=0)
                rows.append((name, short[20:].mean().item(), "refused", "a clear error"))
                continue
        near, far = loss[20:SHORT].mean().item(), loss[SHORT:].mean().item()
        by_place[name] = loss.unflatten(0, (-1, 5)).mean(dim=1).tolist()
        rows.append((name, near, far, far - near))
    rise = {row[0]: row[3] for row in rows if row[0] in by_place}
    steady = [name for name in rise if rise[name] < STEADY]
    return true(
        columns=("position", f"loss, letters 21-{SHORT}", f"loss, letters {SHORT + 1}-{LONG}", "rise"),
        rows=rows,
        why="Both sentences are true: a sinusoid has a value at every place, and a model that never saw those values "
        "in training does not know what to do with them, so its loss rises. A learned table ends. "
        f"In this run these carried on (rise below {STEADY}): {', '.join(steady)}.",
        holds=rise.get("sinusoidal", 0) > STEADY and ("learned", "refused") in [row[0:3:2] for row in rows]
        and all(name in steady for name in ("alibi", "shaw") if name in rise),
        picture=lambda path: curves(path, {name: (range(3, LONG, 5), loss) for name, loss in by_place.items()},
                                    x="place", y="loss", title=f"trained on {SHORT} letters, read on {LONG}"),
    )  # fmt: skip


def learned_table() -> Measured:
    """A table that begins as zeros, so that all it holds afterwards was learned."""
    model = Letters("learned")
    table = next(model.stack.position.parameters())
    nn.init.zeros_(table)
    model.learn(letters(), steps=350)
    weight = table.detach()
    cosine = F.cosine_similarity(weight[:, None], weight[None], dim=-1)
    by = [cosine.diagonal(k).mean().item() for k in range(SHORT)]
    near, far = sum(by[1:4]) / 3, sum(by[10:30]) / 20
    return amended(
        columns=("distance", "mean cosine of two learned positions"),
        rows=[*((k, by[k]) for k in (1, 2, 5, 10, 20)), ("1-3", near), ("10-29", far)],
        why="Nobody told the table what is near, and it finds out: neighbours come to be more alike than far places. "
        "That this alone makes a scheme good is not shown by it: N19 compares schemes by their loss.",
        holds=near > far + 0.02,
        picture=lambda path: curves(path, {"learned": (range(SHORT), by)}, x="distance", y="cosine",
                                    title="what a table of positions learns"),
    )  # fmt: skip
