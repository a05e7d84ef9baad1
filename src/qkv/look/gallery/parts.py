"""Pictures of single parts: masks, positions, attention number by number, two words in a block, norms, residuals."""

import itertools
from collections.abc import Mapping
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from qkv.attention import MultiHead, bigbird_blocks, build_attention, causal, padding, permuted, prefix
from qkv.layers import FeedForward
from qkv.look.picture import (
    COLOURS,
    Axes,
    Figure,
    Given,
    Picture,
    boxed,
    canvas,
    lined,
    name,
    sheet,
    table,
    whole_ticks,
)
from qkv.look.steps import worked_example
from qkv.models import TransformerConfig
from qkv.positions import Places, Sinusoidal

CPU = torch.device("cpu")
PASSES = {"blocked": "#ffffff", "passes": "#6abf69"}  # of a mask
# Of blocks, as attention.bigbird_blocks numbers them.
SHADES = {"blocked": "#ffffff", "random": "#f0b04c", "window": "#7fbf7b", "global": "#4a6fb5"}
ORDER = [3, 2, 4, 1]  # Yang et al. 2019, Figure 4
PLACES, SHIFT = 50, 7  # of the sinusoids that are drawn
LAYERS, WIDTH, SIDE, REACH = 12, 16, 15, 1.0  # of the network whose loss is drawn, and of the plane around its weights
STEPS = 150  # of its training


def unilm() -> dict[str, Tensor]:
    """Dong et al. 2019, Figure 1: one network under four masks of 6 tokens; of the last, the first 3 are given."""
    triangle = causal(Places.span(0, 6, CPU))
    return {
        "both directions": torch.ones(6, 6, dtype=torch.bool),
        "left to right": triangle,
        "right to left": triangle.T,
        "source, then target": prefix(torch.arange(6) < 3),
    }


def masks(given: Given) -> Picture:
    """Vaswani et al. 2017, Dong et al. 2019: the causal triangle, a padded sentence, and the four masks of UniLM."""
    real = padding(torch.tensor([[5, 6, 7, 8, 0, 0]]), 0)[0, 0].expand(6, 6)
    shown = {"causal: itself and before": unilm()["left to right"], "padding: 4 words of 6": real}
    shown |= {f"UniLM, {title}": mask for title, mask in unilm().items()}
    figure = canvas(10, 7)
    for axes, (title, mask) in zip(figure.subplots(2, 3).flat, shown.items(), strict=True):
        cells(axes, mask.long(), list(PASSES.values()), title)
    explain_shades(figure, PASSES)
    return Picture([figure], {"names": list(shown), "masks": [mask.int() for mask in shown.values()]})


def cells(axes: Axes, kinds: Tensor, shades: list[str], title: str) -> None:
    from matplotlib.colors import ListedColormap

    n = len(kinds)
    axes.imshow(kinds.numpy(), cmap=ListedColormap(shades), vmin=0, vmax=len(shades) - 1, interpolation="nearest")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(n), [str(i + 1) for i in range(n)], fontsize=8)
        axis.set_ticks([i - 0.5 for i in range(1, n)], minor=True)
    axes.set_xlabel("key: who is seen", fontsize=8.5)
    axes.set_ylabel("query: who looks", fontsize=8.5)
    axes.grid(which="minor", color="#d0d0d0", linewidth=0.6)
    axes.tick_params(which="both", length=0)
    name(axes, title)


def explain_shades(figure: Figure, shades: Mapping[str, str]) -> None:
    """A legend of the colours of cells."""
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=shade, edgecolor="#d0d0d0", label=kind) for kind, shade in shades.items()]
    figure.legend(handles=patches, loc="outside right upper", frameon=False, fontsize=9)


def bigbird(given: Given) -> Picture:
    """Zaheer et al. 2020, Figure 1: random, window and global attention, block by block."""
    kinds = bigbird_blocks(12, random=2, rng=torch.Generator().manual_seed(0))[0]
    figure = canvas(6.5, 6)
    axes = figure.subplots()
    cells(axes, kinds, list(SHADES.values()), "BigBird: which block (row) sees which (column)")
    explain_shades(figure, SHADES)
    return Picture([figure], {"kinds": list(SHADES), "pattern": kinds})


PATTERNS = (
    "scaled_dot", "window(radius=3)", "window(radius=2, global_tokens=2)", "local(block=6)", "local(block=4, before=1)",
    "bigbird(block=2, random=1)", "bigbird(block=2, kind='etc', global_blocks=1, random=1)",
    "memory_compressed(factor=3)", "linformer(k=6)",
)  # fmt: skip


@torch.no_grad()
def seen_by(attention: str, length: int, *, causal: bool = False) -> Tensor:
    """Which tokens (columns) each token (row) takes something of, (T, T), in the first head of an attention as it runs
    on random numbers; tokens of its own stand in front."""
    part = build_attention(attention, TransformerConfig(d_model=8, n_heads=2, max_length=length + 64), "encoder").eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        q, k, v = (torch.randn(1, 2, length + part.extra, 4) for _ in range(3))
        for weight in part.parameters():
            weight.normal_()
    at = Places.span(0, length + part.extra, CPU, causal=causal)
    return part.plain(q, k, v, at)[1][0, 0] != 0


def patterns(given: Given) -> Picture:
    """Every attention for long texts: who takes something of whom, of the weights that each computes for 24 tokens."""
    shown = {spec: seen_by(spec, 24) for spec in PATTERNS}
    figure = canvas(12, 12)
    for axes, (title, mask) in zip(figure.subplots(3, 3).flat, shown.items(), strict=True):
        cells(axes, mask.long(), list(PASSES.values()), title.replace(", ", ",\n", 1))
        axes.tick_params(labelbottom=False, labelleft=False)
    explain_shades(figure, PASSES)
    return Picture([figure], {"names": list(shown), "masks": [mask.int() for mask in shown.values()]})


def xlnet(given: Given) -> Picture:
    """Yang et al. 2019, Figure 4: the two masks of one factorisation order, 3 2 4 1."""
    rank = torch.tensor(ORDER).argsort()  # of each word, when its turn comes
    shown = {"content stream h": permuted(rank), "query stream g": permuted(rank, sees_itself=False)}
    figure = canvas(7.5, 4)
    for axes, (title, mask) in zip(figure.subplots(1, 2), shown.items(), strict=True):
        cells(axes, mask.long(), list(PASSES.values()), f"{title}, order {' '.join(map(str, ORDER))}")
    explain_shades(figure, PASSES)
    return Picture([figure], {"order": ORDER, "names": list(shown), "masks": [m.int() for m in shown.values()]})


def sinusoids(length: int, width: int, layout: str = "interleaved") -> Tensor:
    """(T, D) in float64, as the model's own part computes them."""
    return Sinusoidal(SimpleNamespace(d_model=width, max_length=length), layout=layout).rows(length)


def frequencies(width: int) -> Tensor:
    """The angle by which each pair (sin, cos) turns from one place to the next, read off the table."""
    one = sinusoids(2, width)[1]
    return torch.atan2(one[0::2], one[1::2])


def rotation(width: int, shift: int, *, sign: int = -1) -> Tensor:
    """T(k) with PE(p + k) = T(k) PE(p): for each wave a block [[cos, sin], [-sin, cos]] of k times its frequency."""
    angle = shift * frequencies(width)
    blocks = torch.stack((angle.cos(), angle.sin(), sign * angle.sin(), angle.cos()), dim=-1).view(-1, 2, 2)
    return torch.block_diag(*blocks)


def positions(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.5: the vector of each place, as the paper lays it out and as others do."""
    layouts = {
        "interleaved: sine and cosine in turn (the paper)": sinusoids(PLACES, 128),
        "halves: all sines, then all cosines (Marian, XLNet)": sinusoids(PLACES, 128, "halves"),
    }
    figure = canvas(11, 4.5)
    for axes, (title, values) in zip(figure.subplots(1, 2), layouts.items(), strict=True):
        table(axes, values, title=title, across="dimension", down="place", colours="RdBu")
    return Picture([figure], {"layouts": list(layouts), "tables": list(layouts.values())})


def gram(given: Given) -> Picture:
    """Inner products of the positions of two places: a band, largest on the diagonal, that only knows distance."""
    vectors = sinusoids(100, 128)
    products = vectors @ vectors.T  # (T, T)
    figure = canvas(10, 4.5)
    image, curve = figure.subplots(1, 2)
    table(image, products, title="PE(p) · PE(q), d = 128", across="place q", down="place p")
    curve.plot(products[0].tolist(), color=COLOURS[0])
    curve.xaxis.set_major_locator(whole_ticks())
    lined(curve, "distance k", "PE(p) · PE(p + k)")
    return Picture([figure], {"gram": products})


def rotations(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.5: moving k places on is one linear map T(k), a rotation in each pair."""
    turn = rotation(16, SHIFT)
    figure = canvas(7, 6)
    names = [f"{wave}{i}" for i in range(8) for wave in ("sin ", "cos ")]
    table(figure.subplots(), turn, names, names, title=f"T({SHIFT}), d = 16: PE(p + {SHIFT}) = T({SHIFT}) PE(p)",
          across="of PE(p)", down=f"of PE(p + {SHIFT})", colours="RdBu")  # fmt: skip
    return Picture([figure], {"k": SHIFT, "T": turn})


def qkv_steps(given: Given) -> Picture:
    """Vaswani et al. 2017, Eq. 1 by hand: X, Q, K, V, scores, softmax and Z of three words, without the scaling."""
    steps = worked_example(scaled=False)
    figure = canvas(12, 5.2)
    for axes, step in zip(figure.subplots(2, 4).flat, steps, strict=False):
        across = "word" if step.columns == step.rows else "dimension"
        title = f"{step.title}: {step.equation}"
        table(axes, step.values, step.rows, step.columns, title=title, across=across, down="word", colours="RdBu")
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
    z = attention(x, Places.span(0, 2, CPU))
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
        table(axes, values, tokens, width, title=title, across="dimension", down="token", colours="RdBu", digits=1)
    means = {"row_means": layer.mean(dim=1), "column_means": batch.mean(dim=0)}
    return Picture([figure], {"x": x, "layer_norm": layer, "batch_norm": batch} | means)


def landscape(given: Given) -> Picture:
    """Li et al. 2018, section 4: the loss in a plane of two random directions, as long as the weights, row by row."""
    at = torch.linspace(-REACH, REACH, SIDE)
    found = {"with residuals": surface(at, residual=True), "without residuals": surface(at, residual=False)}
    figure = canvas(10, 4.4)
    for axes, (title, losses) in zip(figure.subplots(1, 2), found.items(), strict=True):
        image = axes.contourf(at.tolist(), at.tolist(), losses.log10().numpy(), levels=20, cmap="viridis")
        axes.plot(0, 0, "w+")
        axes.set(xlabel="along one random direction", ylabel="along another")
        name(axes, f"{title}: the weights found have a loss of {losses[SIDE // 2, SIDE // 2]:.2g}")
        figure.colorbar(image, ax=axes, label="log10 of the loss")
    return Picture([figure], {"at": at, "losses": found})


def surface(at: Tensor, *, residual: bool) -> Tensor:
    """Layers of tanh(x W), their inputs added or not, learn a toy task: the loss (SIDE, SIDE) around what was found."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layers, answer = [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)], nn.Linear(WIDTH, 1)
        weights = [weight for layer in (*layers, answer) for weight in layer.parameters()]
        x = torch.randn(128, WIDTH)

        def loss() -> Tensor:
            hidden = x
            for layer in layers:
                hidden = layer(hidden).tanh() + (hidden if residual else 0)
            return F.mse_loss(answer(hidden)[:, 0], x[:, 0] * x[:, 1])

        optimiser = torch.optim.Adam(weights, lr=3e-3)
        for _ in range(STEPS):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
        one, two = (parameters_to_vector(map(direction, weights)) for _ in range(2))
    centre = parameters_to_vector(weights).detach()
    losses = torch.zeros(SIDE, SIDE, dtype=torch.float64)
    with torch.no_grad():
        for i, j in itertools.product(range(SIDE), repeat=2):
            vector_to_parameters(centre + at[j] * one + at[i] * two, weights)
            losses[i, j] = loss()
    return losses


def direction(weight: Tensor) -> Tensor:
    """A random direction, each row (filter) of which is as long as the weight's own; biases stay."""
    if weight.dim() == 1:
        return torch.zeros_like(weight)
    drawn = torch.randn_like(weight)
    return drawn / drawn.norm(dim=1, keepdim=True) * weight.detach().norm(dim=1, keepdim=True)
