"""Pictures of single parts, number by number: attention by hand, two words through a block, norms, residuals."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import MultiHead
from qkv.layers import FeedForward
from qkv.look.picture import Given, Picture, boxed, canvas, name, sheet, table
from qkv.look.steps import worked_example
from qkv.models import TransformerConfig
from qkv.positions import Places

LAYERS, WIDTH, SIDE, REACH = 12, 16, 15, 1.0  # of the network whose loss is drawn, and of the plane around its weights
STEPS = 150  # of its training


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
    for level, word, other in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)):
        start, end = (0.28 + 0.44 * word, 0.17 + 0.36 * level), (0.28 + 0.44 * other, 0.43 + 0.36 * level)
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#1f6feb"})
    boxed(axes, 0.5, 0.3, "self-attention: every word to every word", "#fde0c2")
    boxed(axes, 0.5, 0.66, "feed-forward: each word by itself", "#c6e6f5")
    return Picture([figure], dict(vectors))


def norms(given: Given) -> Picture:
    """Ba et al. 2016, section 3: layer norm averages over the width of one token, batch norm over all tokens."""
    drawn = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = 2 * drawn + torch.arange(6, dtype=torch.float64)[:, None]  # (tokens, D)
    layer = nn.LayerNorm(8, elementwise_affine=False, dtype=torch.float64)(x)
    batch = nn.BatchNorm1d(8, affine=False, dtype=torch.float64)(x)
    shown = {"x": x, "layer norm: each row has mean 0": layer, "batch norm: each column has mean 0": batch}
    tokens, width = [f"token {i + 1}" for i in range(6)], [str(i + 1) for i in range(8)]
    figure = canvas(14, 4)
    for axes, (title, values) in zip(figure.subplots(1, 3), shown.items(), strict=True):
        table(axes, values, tokens, width, title=title, colours="RdBu", digits=1)
    means = {"row_means": layer.mean(dim=1), "column_means": batch.mean(dim=0)}
    return Picture([figure], {"x": x, "layer_norm": layer, "batch_norm": batch} | means)


class TanhLayers(nn.Module):
    """Layers of tanh(x W), each with its input added to it or not."""

    def __init__(self, *, residual: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.answer, self.residual = nn.Linear(WIDTH, 1), residual

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x).tanh() if self.residual else layer(x).tanh()
        answer: Tensor = self.answer(x)
        return answer[:, 0]


def landscape(given: Given) -> Picture:
    """Li et al. 2018, section 4: the loss in a plane of two random directions, as long as the weights, row by row."""
    at = torch.linspace(-REACH, REACH, SIDE)
    found = {"with residuals": surface(at, residual=True), "without residuals": surface(at, residual=False)}
    figure = canvas(10, 4.4)
    for axes, (title, losses) in zip(figure.subplots(1, 2), found.items(), strict=True):
        image = axes.contourf(at.tolist(), at.tolist(), losses.log10().numpy(), levels=20, cmap="viridis")
        axes.plot(0, 0, "w+")
        name(axes, f"{title}: the weights found have a loss of {losses[SIDE // 2, SIDE // 2]:.2g}")
        figure.colorbar(image, ax=axes, label="log10 of the loss")
    return Picture([figure], {"at": at, "losses": found})


def surface(at: Tensor, *, residual: bool) -> Tensor:
    """Train on a toy task, then the loss at each point of the plane (SIDE, SIDE); the middle is what was found."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = TanhLayers(residual=residual)
        x = torch.randn(128, WIDTH)
        wanted = x[:, 0] * x[:, 1]
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(STEPS):
            optimiser.zero_grad()
            F.mse_loss(model(x), wanted).backward()
            optimiser.step()
        one, two = ([direction(weight) for weight in model.parameters()] for _ in range(2))
    centre = [weight.detach().clone() for weight in model.parameters()]
    losses = torch.zeros(SIDE, SIDE, dtype=torch.float64)
    with torch.no_grad():
        for i, j in itertools.product(range(SIDE), repeat=2):
            for weight, start, u, v in zip(model.parameters(), centre, one, two, strict=True):
                weight.copy_(start + at[j] * u + at[i] * v)
            losses[i, j] = F.mse_loss(model(x), wanted)
    return losses


def direction(weight: Tensor) -> Tensor:
    """A random direction, each row (filter) of which is as long as the weight's own; biases stay."""
    if weight.dim() == 1:
        return torch.zeros_like(weight)
    drawn = torch.randn_like(weight)
    scaled: Tensor = drawn / drawn.norm(dim=1, keepdim=True) * weight.detach().norm(dim=1, keepdim=True)
    return scaled
