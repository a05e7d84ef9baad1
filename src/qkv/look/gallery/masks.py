"""Pictures of masks: what a query may see. Green passes, white is blocked."""

import torch
from torch import Tensor

from qkv.attention import bigbird_blocks, causal, padding, permuted, prefix
from qkv.look.picture import Axes, Given, Picture, canvas, name
from qkv.positions import Places

N = 6
ORDER = [3, 2, 4, 1]  # Yang et al. 2019, Figure 4
KINDS = ["blocked", "random", "window", "global"]  # as attention.bigbird_blocks numbers them
SHADES = ["#ffffff", "#f0b04c", "#7fbf7b", "#4a6fb5"]


def triangle(n: int = N) -> Tensor:
    return causal(Places.span(0, n, torch.device("cpu")))


def unilm(n: int = N, source: int = 3) -> dict[str, Tensor]:
    """Dong et al. 2019, Figure 1: one network under four masks; of the last, the first `source` tokens are given."""
    return {
        "both directions": torch.ones(n, n, dtype=torch.bool),
        "left to right": triangle(n),
        "right to left": triangle(n).T,
        "source, then target": prefix(torch.arange(n) < source),
    }


def masks(given: Given) -> Picture:
    """Vaswani et al. 2017, Dong et al. 2019: the causal triangle, a padded sentence, and the four masks of UniLM."""
    real = padding(torch.tensor([[5, 6, 7, 8, 0, 0]]), 0)[0, 0].expand(N, N)
    shown = {"causal: itself and before": triangle(), "padding: 4 words of 6": real}
    shown |= {f"UniLM, {title}": mask for title, mask in unilm().items()}
    figure = canvas(10, 7)
    for axes, (title, mask) in zip(figure.subplots(2, 3).flat, shown.items(), strict=True):
        cells(axes, mask.long(), ["#ffffff", "#6abf69"], title)
    return Picture([figure], {"names": list(shown), "masks": [mask.int() for mask in shown.values()]})


def cells(axes: Axes, kinds: Tensor, shades: list[str], title: str, labels: list[str] | None = None) -> None:
    from matplotlib.colors import ListedColormap

    n = len(kinds)
    axes.imshow(kinds.numpy(), cmap=ListedColormap(shades), vmin=0, vmax=len(shades) - 1, interpolation="nearest")
    labels = labels or [str(i + 1) for i in range(n)]
    axes.set_xticks(range(n), labels, fontsize=8)
    axes.set_yticks(range(n), labels, fontsize=8)
    axes.set_xticks([i - 0.5 for i in range(1, n)], minor=True)
    axes.set_yticks([i - 0.5 for i in range(1, n)], minor=True)
    axes.grid(which="minor", color="#d0d0d0", linewidth=0.6)
    axes.tick_params(which="both", length=0)
    name(axes, title)


def bigbird(given: Given) -> Picture:
    """Zaheer et al. 2020, Figure 1: random, window and global attention, block by block."""
    from matplotlib.patches import Patch

    kinds = bigbird_blocks(12, random=2, rng=torch.Generator().manual_seed(0))
    figure = canvas(6.5, 6)
    axes = figure.subplots()
    cells(axes, kinds, SHADES, "BigBird: which block (row) sees which (column)")
    patches = [
        Patch(facecolor=shade, edgecolor="#d0d0d0", label=kind) for kind, shade in zip(KINDS, SHADES, strict=True)
    ]
    figure.legend(handles=patches, loc="outside right upper", frameon=False, fontsize=9)
    return Picture([figure], {"kinds": KINDS, "pattern": kinds})


def xlnet(given: Given) -> Picture:
    """Yang et al. 2019, Figure 4: the two masks of one factorisation order, 3 2 4 1."""
    rank = torch.tensor(ORDER).argsort()  # of each word, when its turn comes
    shown = {"content stream h": permuted(rank), "query stream g": permuted(rank, sees_itself=False)}
    figure = canvas(7.5, 4)
    for axes, (title, mask) in zip(figure.subplots(1, 2), shown.items(), strict=True):
        cells(axes, mask.long(), ["#ffffff", "#6abf69"], f"{title}, order {' '.join(map(str, ORDER))}")
    return Picture([figure], {"order": ORDER, "names": list(shown), "masks": [m.int() for m in shown.values()]})
