"""Pictures of one attention, number by number: the worked example "I am good", and two words through a whole block."""

import torch

from qkv.attention import MultiHead
from qkv.layers import FeedForward
from qkv.look.picture import Given, Picture, boxed, canvas, sheet, table
from qkv.look.steps import worked_example
from qkv.models import TransformerConfig
from qkv.positions import Places


def qkv_steps(given: Given) -> Picture:
    """Vaswani et al. 2017, Eq. 1 by hand: X, Q, K, V, scores, softmax and Z of three words, without the scaling."""
    steps = worked_example(scaled=False)
    figure = canvas(12, 5.2)
    for axes, step in zip(figure.subplots(2, 4).flat, steps, strict=False):
        table(axes, step.values, step.rows, step.columns, title=f"{step.title}: {step.equation}", colours="RdBu")
    for axes in figure.axes[len(steps) :]:
        axes.axis("off")
    return Picture([figure], {"steps": [step.to_tree() for step in steps]})


@torch.no_grad()
def two_words(given: Given) -> Picture:
    """Two words as vectors: x1, x2 become z1, z2 in attention together, then r1, r2 in the network, each alone."""
    sizes = TransformerConfig(vocab_size=10, d_model=4, d_ff=8, n_heads=1, dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        attention, network = MultiHead(sizes).double(), FeedForward(sizes).double()
        x = torch.randn(1, 2, 4, dtype=torch.float64)
    z = attention(x, Places.span(0, 2, torch.device("cpu")))
    vectors = {"x": x[0], "z": z[0], "r": network(z)[0]}
    figure, axes = sheet(9, 5)
    for level, (letter, rows) in enumerate(vectors.items()):
        for word, row in enumerate(rows.tolist()):
            numbers = ", ".join(f"{value:.2f}" for value in row)
            boxed(axes, 0.28 + 0.44 * word, 0.12 + 0.36 * level, f"{letter}{word + 1} = ({numbers})")
    arrows = [(0, word, other) for word in (0, 1) for other in (0, 1)] + [(1, word, word) for word in (0, 1)]
    for level, word, other in arrows:
        start, end = (0.28 + 0.44 * word, 0.17 + 0.36 * level), (0.28 + 0.44 * other, 0.43 + 0.36 * level)
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#1f6feb"})
    boxed(axes, 0.5, 0.3, "self-attention: every word to every word", "#fde0c2")
    boxed(axes, 0.5, 0.66, "feed-forward: each word by itself", "#c6e6f5")
    return Picture([figure], dict(vectors))
