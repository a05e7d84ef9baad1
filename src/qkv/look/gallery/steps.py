"""Pictures of one attention, number by number: the worked example "I am good", and two words through a whole block."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qkv.attention import MultiHead
from qkv.layers import FeedForward
from qkv.look.gallery.canvas import Given, Picture, blank, boxed, canvas, name, table
from qkv.look.steps import Step, worked_example
from qkv.models import TransformerConfig
from qkv.positions import Places

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def qkv_steps(given: Given) -> Picture:
    """Vaswani et al. 2017, Eq. 1 by hand: X, Q, K, V, scores, softmax and Z of three words, without the scaling."""
    steps = worked_example(scaled=False)
    return Picture([tables(steps, 4)], {"steps": [step.to_tree() for step in steps]})


def tables(steps: list[Step], across: int) -> "Figure":
    deep = -(-len(steps) // across)
    figure = canvas(3 * across, 2.6 * deep)
    grid = list(figure.subplots(deep, across, squeeze=False).flat)
    for axes in grid:
        axes.axis("off")
    for axes, step in zip(grid, steps, strict=False):
        axes.axis("on")
        table(axes, step.values, step.rows, step.columns, colours="RdBu", digits=2)
        name(axes, f"{step.title}: {step.equation}")
    return figure


@torch.no_grad()
def two_words(given: Given) -> Picture:
    """Two words as vectors: x1, x2 become z1, z2 in attention together, then r1, r2 in the network, each alone."""
    sizes = TransformerConfig(vocab_size=10, d_model=4, d_ff=8, n_heads=1, dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        attention, network = MultiHead(sizes).double(), FeedForward(sizes).double()
        x = torch.randn(1, 2, 4, dtype=torch.float64)
    z = attention(x, Places.span(0, 2, torch.device("cpu")))
    r = network(z)
    vectors = {"x": x[0], "z": z[0], "r": r[0]}
    figure = canvas(9, 5)
    axes = figure.subplots()
    blank(axes)
    for level, (letter, rows) in enumerate(vectors.items()):
        for word, row in enumerate(rows):
            boxed(axes, 0.28 + 0.44 * word, 0.12 + 0.36 * level, f"{letter}{word + 1} = {numbers(row)}")
    arrows = [(0, word, other) for word in (0, 1) for other in (0, 1)] + [(1, word, word) for word in (0, 1)]
    for level, word, other in arrows:
        start, end = (0.28 + 0.44 * word, 0.17 + 0.36 * level), (0.28 + 0.44 * other, 0.43 + 0.36 * level)
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#1f6feb"})
    boxed(axes, 0.5, 0.3, "self-attention: every word to every word", "#fde0c2")
    boxed(axes, 0.5, 0.66, "feed-forward: each word by itself", "#c6e6f5")
    return Picture([figure], dict(vectors))


def numbers(row: Tensor) -> str:
    return "(" + ", ".join(f"{value:.2f}" for value in row.tolist()) + ")"
