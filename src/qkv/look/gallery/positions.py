"""Pictures of sinusoidal positions: the table, its inner products, and the rotation between two places."""

from types import SimpleNamespace

import torch
from torch import Tensor

from qkv.look.gallery.canvas import Given, Picture, canvas, lined, table
from qkv.positions import Places, Sinusoidal

PLACES, WIDTH, SHIFT = 50, 128, 7


def sinusoids(length: int, width: int, layout: str = "interleaved") -> Tensor:
    """(T, D), as the model's own part computes them."""
    sizes = SimpleNamespace(d_model=width, max_length=length, n_heads=1, head_width=width)
    at = Places.span(0, length, torch.device("cpu"))
    return Sinusoidal(sizes, layout=layout).embed(torch.zeros(length, width), at)


def positions(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.5: the vector of each place, as the paper lays it out and as others do."""
    layouts = {
        "interleaved: sine and cosine in turn (the paper)": sinusoids(PLACES, WIDTH),
        "halves: all sines, then all cosines (Marian, XLNet)": sinusoids(PLACES, WIDTH, "halves"),
    }
    figure = canvas(11, 4.5)
    for axes, (title, values) in zip(figure.subplots(1, 2), layouts.items(), strict=True):
        table(axes, values, title=title, colours="RdBu")
        lined(axes, "dimension", "place")
        axes.grid(visible=False)
    return Picture([figure], {"layouts": list(layouts), "tables": list(layouts.values())})


def gram(given: Given) -> Picture:
    """Inner products of the positions of two places: a band, largest on the diagonal, that only knows distance."""
    vectors = sinusoids(100, WIDTH)
    products = vectors @ vectors.T  # (T, T)
    figure = canvas(10, 4.5)
    image, curve = figure.subplots(1, 2)
    table(image, products, title="PE(p) · PE(q), d = 128")
    lined(image, "place q", "place p")
    image.grid(visible=False)
    curve.plot(products[0].tolist(), color="#1f6feb")
    lined(curve, "distance k", "PE(p) · PE(p + k)")
    return Picture([figure], {"gram": products})


def rotation(width: int, shift: int) -> Tensor:
    """T(k) with PE(p + k) = T(k) PE(p): for each wave a block [[cos, sin], [-sin, cos]] of k times its frequency."""
    blocks = []
    for i in range(width // 2):
        angle = torch.tensor(shift * 10000 ** (-2 * i / width), dtype=torch.float64)
        blocks.append(torch.stack((torch.stack((angle.cos(), angle.sin())), torch.stack((-angle.sin(), angle.cos())))))
    turn: Tensor = torch.block_diag(*blocks)
    return turn


def rotations(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.5: moving k places on is one linear map T(k), a rotation in each pair."""
    turn = rotation(16, SHIFT)
    figure = canvas(7, 6)
    names = [f"{wave}{i}" for i in range(8) for wave in ("sin ", "cos ")]
    table(figure.subplots(), turn, names, names, title=f"T({SHIFT}), d = 16: PE(p + {SHIFT}) = T({SHIFT}) PE(p)",
          colours="RdBu")  # fmt: skip
    return Picture([figure], {"k": SHIFT, "T": turn})
