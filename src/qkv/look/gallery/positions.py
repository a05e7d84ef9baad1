"""Sinusoidal positions: their table, its inner products, the rotation between two places; and pictures of them."""

from types import SimpleNamespace

import torch
from torch import Tensor

from qkv.look.picture import COLOURS, Given, Picture, canvas, lined, table
from qkv.positions import Sinusoidal

PLACES, WIDTH, SHIFT = 50, 128, 7


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
    turn: Tensor = torch.block_diag(*blocks)
    return turn


def positions(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.5: the vector of each place, as the paper lays it out and as others do."""
    layouts = {
        "interleaved: sine and cosine in turn (the paper)": sinusoids(PLACES, WIDTH),
        "halves: all sines, then all cosines (Marian, XLNet)": sinusoids(PLACES, WIDTH, "halves"),
    }
    figure = canvas(11, 4.5)
    for axes, (title, values) in zip(figure.subplots(1, 2), layouts.items(), strict=True):
        table(axes, values, title=title, colours="RdBu")
        axes.set(xlabel="dimension", ylabel="place")
    return Picture([figure], {"layouts": list(layouts), "tables": list(layouts.values())})


def gram(given: Given) -> Picture:
    """Inner products of the positions of two places: a band, largest on the diagonal, that only knows distance."""
    vectors = sinusoids(100, WIDTH)
    products = vectors @ vectors.T  # (T, T)
    figure = canvas(10, 4.5)
    image, curve = figure.subplots(1, 2)
    table(image, products, title="PE(p) · PE(q), d = 128")
    image.set(xlabel="place q", ylabel="place p")
    curve.plot(products[0].tolist(), color=COLOURS[0])
    lined(curve, "distance k", "PE(p) · PE(p + k)")
    return Picture([figure], {"gram": products})


def rotations(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.5: moving k places on is one linear map T(k), a rotation in each pair."""
    turn = rotation(16, SHIFT)
    figure = canvas(7, 6)
    names = [f"{wave}{i}" for i in range(8) for wave in ("sin ", "cos ")]
    table(figure.subplots(), turn, names, names, title=f"T({SHIFT}), d = 16: PE(p + {SHIFT}) = T({SHIFT}) PE(p)",
          colours="RdBu")  # fmt: skip
    return Picture([figure], {"k": SHIFT, "T": turn})
