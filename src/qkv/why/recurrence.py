"""Before the Transformer: how far gradients reach, how long the way between two words is, what must wait for what."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.look.charts import curves
from qkv.models import count_parameters
from qkv.why.claim import Measured, influence, look, multi_head, noise, places, taught, true, wrong

HIDDEN, LENGTHS, WORDS = 64, (10, 50, 100, 200), [4, 8, 16, 32]
SYMBOLS, PLACES = 8, 20  # of the task for a bottleneck


def recurrent(kind: str) -> Callable[[Tensor], Tensor]:
    """(1, T, D) -> (1, T, D), random weights. An LSTM's forget bias is raised by 1, which helps it to remember."""
    part = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}[kind](HIDDEN, HIDDEN, batch_first=True).double()
    if kind == "LSTM":
        with torch.no_grad():
            part.bias_hh_l0[HIDDEN : 2 * HIDDEN] += 1.0
    return lambda x: part(x)[0]


def attending() -> Callable[[Tensor], Tensor]:
    part = multi_head(d_model=HIDDEN)
    return lambda x: part.output(look(part, x)[0].transpose(1, 2).flatten(2))


def reach(f: Callable[[Tensor], Tensor], length: int, *, beside: str) -> float:
    """How much the last output feels the first word, beside how much it feels the last, or the median word."""
    x = torch.randn(8, length, HIDDEN, dtype=torch.float64, requires_grad=True)
    probe = noise(HIDDEN)
    (slope,) = torch.autograd.grad((f(x)[:, -1] @ probe).sum(), x)
    felt = slope.norm(dim=-1).mean(dim=0)  # (T,)
    return float(felt[0] / (felt[-1] if beside == "last" else felt.median()))


def gradient_reach() -> Measured:
    parts = {kind: recurrent(kind) for kind in ("RNN", "GRU", "LSTM")} | {"attention": attending()}
    # In attention the last word asks, too, which is a second way; so the first is compared with the median word.
    beside = {name: "median" if name == "attention" else "last" for name in parts}
    found = {name: [reach(f, n, beside=beside[name]) for n in LENGTHS] for name, f in parts.items()}
    waits = {name: [chain(f, n) for n in (10, 100)] for name, f in parts.items()}
    rows = [(f"{name}, first / {beside[name]} word", *found[name], *waits[name]) for name in parts]
    return true(
        columns=("gradient at", *(f"T={n}" for n in LENGTHS), "longest chain, T=10", "longest chain, T=100"),
        rows=rows,
        why="The gradient at the first word dies with the distance: soon in an RNN, later in an LSTM, not in "
        "attention. The longest chain of operations that wait for one another grows with T in "
        "everything recurrent, and not in attention.",
        holds=all(found[kind][-1] < 1e-6 * found["attention"][-1] for kind in ("RNN", "GRU", "LSTM"))
        and found["LSTM"][1] > found["RNN"][1] and min(found["attention"]) > 0.5
        and all((waits[name][1] > 5 * waits[name][0]) == (name != "attention") for name in parts),
        picture=lambda path: curves(path, {name: (LENGTHS, found[name]) for name in parts}, log_y=True,
                                    x="length T", y="gradient at first / at last word", title="how far a word is felt"),
    )  # fmt: skip


def chain(f: Callable[[Tensor], Tensor], length: int) -> int:
    """The longest chain of operations, each of which waits for the one before: the depth of autograd's graph."""
    x = torch.randn(1, length, HIDDEN, dtype=torch.float64, requires_grad=True)
    depth: dict[Any, int] = {}
    todo: list[Any] = [f(x)[0, -1].sum().grad_fn]
    while todo:
        before = [node for node, _ in todo[-1].next_functions if node is not None]
        missing = [node for node in before if node not in depth]
        todo += missing
        if not missing:
            depth[todo.pop()] = 1 + max((depth[node] for node in before), default=0)
    return max(depth.values())


def convolution(width: int, layers: int, dilations: list[int] | None = None) -> Callable[[Tensor], Tensor]:
    """Stacked word windows: each layer sees `width` neighbours, `dilation` apart. All weights positive."""
    parts = nn.Sequential(*(
        nn.Conv1d(1, 1, width, padding="same", dilation=gap, bias=False) for gap in dilations or [1] * layers
    )).double()  # fmt: skip
    for weight in parts.parameters():
        nn.init.constant_(weight, 1 / width)  # so that nothing cancels
    return lambda x: parts(x.transpose(1, 2)).transpose(1, 2)


def windows() -> Measured:
    """How far each side of a word a stack of windows sees, by the gradient, beside the formula."""
    n, middle = 41, 20
    rows = []
    for width, layers, dilations in (*((3, layers, None) for layers in range(1, 7)), (5, 3, None), (3, 3, [1, 2, 4])):
        felt = influence(convolution(width, layers, dilations), noise(1, n, 1))[middle] > 0
        side, total = int(felt[middle + 1 :].sum()), int(felt.sum())
        formula = sum(dilations or [1] * layers) * (width - 1) // 2
        is_dilated = " (gaps 1, 2, 4)" if dilations else ""
        rows.append((f"{layers} layers of width {width}{is_dilated}", side, formula, total, n // width))
    return wrong(
        columns=("stack", "reach to each side", "L(k-1)/2", "words seen", f"the notes: n/k, n={n}"),
        rows=rows,
        why="n/k is no distance that a stack can bridge. L windows of width k reach L(k-1)/2 words to each side, so "
        "two words n apart need about 2n/(k-1) layers: O(n/k) layers is the true form. Windows with doubling gaps "
        "need O(log n).",
        holds=all(row[1] == row[2] and row[3] == 2 * row[2] + 1 for row in rows)
        and any(row[1] != row[4] for row in rows),
        picture=lambda path: curves(path, {"": ([r[2] for r in rows[:6]], [r[1] for r in rows[:6]])},
                                    x="L(k-1)/2", y="words seen on each side", title="1 to 6 windows of 3 words"),
    )  # fmt: skip


def rounds(step: Callable[[Tensor, Tensor], Tensor], length: int) -> int:
    """How many rounds of `step`, all places at once, until the last place depends on the first word."""
    x = torch.randn(1, length, 4, dtype=torch.float64, requires_grad=True)
    state = step(x, torch.zeros_like(x))
    for round_ in range(1, 2 * length):
        (slope,) = torch.autograd.grad(state[0, -1].square().sum(), x, retain_graph=True)
        if slope[0, 0].abs().max() > 0:
            return round_
        state = step(x, state)
    return 0


def path_lengths() -> dict[str, list[int]]:
    """For each kind of layer, the steps until the last of WORDS words feels the first."""
    cell, one = nn.RNNCell(4, 4).double(), multi_head(d_model=4, n_heads=2)
    steps: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "recurrent": lambda x, state: cell(x[0], F.pad(state[0], (0, 0, 1, -1)))[None],
        "windows of 3": lambda x, state: F.avg_pool1d((x + state).transpose(1, 2), 3, 1, padding=1).transpose(1, 2),
        "self-attention": lambda x, state: one(x + state, places(x.size(1))),
    }
    return {name: [rounds(step, n) for n in WORDS] for name, step in steps.items()}


def path_length() -> Measured:
    found = path_lengths()
    return true(
        columns=("steps until the last word feels the first", *(f"n={n}" for n in WORDS)),
        rows=[(name, *counts) for name, counts in found.items()],
        why="Between any two words attention has one step, whatever n; recurrence has n, windows of k words "
        "about 2n/(k-1) (Vaswani et al. 2017, Table 1). The price is n x n scores: see N28.",
        holds=set(found["self-attention"]) == {1} and found["recurrent"] == WORDS
        and found["windows of 3"] == [n - 1 for n in WORDS],
        picture=lambda path: curves(path, {name: (WORDS, counts) for name, counts in found.items()},
                                    x="words n", y="steps", title="the way from the first word to the last"),
    )  # fmt: skip


class Recall(nn.Module):
    """Which of 8 symbols stood at a given place of 20?"""

    def __init__(self, *, attends: bool, width: int = 32) -> None:
        super().__init__()
        self.attends = attends
        self.symbol, self.place = nn.Embedding(SYMBOLS, width), nn.Embedding(PLACES, width)
        self.reader, self.answer = nn.GRU(width, width, batch_first=True), nn.Linear(2 * width, SYMBOLS)

    def forward(self, x: Tensor, asked: Tensor) -> Tensor:
        states, _ = self.reader(x)  # (B, T, D)
        question = self.place(asked)  # (B, D)
        context = states[:, -1]
        if self.attends:
            keys = states + self.place.weight
            weights = (keys @ question[:, :, None] / 32**0.5).softmax(dim=1)  # (B, T, 1)
            context = (weights * states).sum(dim=1)
        return self.answer(torch.cat((context, question), dim=-1))

    def answers(self, rows: int) -> tuple[Tensor, Tensor]:
        """What it says of fresh sequences (rows, SYMBOLS), and what is right (rows,)."""
        ids, asked = torch.randint(SYMBOLS, (rows, PLACES)), torch.randint(PLACES, (rows,))
        return self(self.symbol(ids), asked), ids.gather(1, asked[:, None])[:, 0]

    def reach(self) -> float:
        """Asked for the first symbol: the gradient at the first word beside that at the last, over 64 sequences."""
        ids = torch.randint(SYMBOLS, (64, PLACES))
        x = self.symbol(ids).detach().requires_grad_()
        logits = self(x, torch.zeros(64, dtype=torch.long))
        (slope,) = torch.autograd.grad(logits.gather(1, ids[:, :1]).sum(), x)
        return float(slope[:, 0].norm() / slope[:, -1].norm())


def bottleneck() -> Measured:
    """A GRU reads 20 symbols and is asked for the one at some place: from its last state, or by attention."""
    rows = []
    for name, attends in (("the last state only", False), ("attention over all states", True)):
        torch.manual_seed(1)
        model = Recall(attends=attends)
        rows.append((name, taught(model, steps=200, rows=64), model.reach(), count_parameters(model)))
    (_, fixed, faint, without), (_, attended, strong, size) = rows
    return true(
        columns=("the answer is read from", "right answers", "gradient at first / at last word", "parameters"),
        rows=rows,
        why="One vector for the whole sentence is the narrow place, and the gradient must come back through it; "
        f"attention by dot product reaches every state directly and adds no parameter. Guessing gives {1 / 8:.3f}.",
        holds=attended > fixed + 0.2 and strong > 10 * faint and size == without,
    )
