"""Pictures of attention: one heat map, or a small map for each head or each layer's heads; the numbers as JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.errors import InputError
from qkv.look.fonts import fit
from qkv.look.picture import FAINT, INK, Axes, Figure, Picture, canvas, check_suffix, number_cells, quiet


def draw(weights: Any, rows: Sequence[str], columns: Sequence[str], path: Path, *, title: str = "") -> Path:
    """Draw attention weights, (T, S), (H, T, S) or (layers, H, T, S), as a tensor, an array or nested lists.

    PNG or SVG by the suffix. Each head has a map, and each layer a row of them. Queries stand down the side and keys
    along the top. The numbers drawn are written beside the picture, as {"rows", "columns", "weights"} in a file of the
    same name that ends in .json. Returns the path of the picture.
    """
    path = Path(path)
    check_suffix(path)
    maps = check_weights(weights, rows, columns)
    figure = compose(maps, rows, columns, title, spell=path.suffix.lower() == ".png")
    return Picture([figure], {"rows": list(rows), "columns": list(columns), "weights": maps}).save(path)


def check_weights(weights: Any, rows: Sequence[str], columns: Sequence[str]) -> Tensor:
    try:
        maps = torch.as_tensor(weights).detach().to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"the weights are not a table of numbers ({error}); give a tensor (T, S), (H, T, S) or (layers, H, T, S)"
        ) from None
    shape = tuple(maps.shape)
    if maps.dim() not in (2, 3, 4) or 0 in shape:
        raise InputError(f"the weights have shape {shape}; give (T, S), (H, T, S) or (layers, H, T, S), no side empty")
    if shape[-2:] != (len(rows), len(columns)):
        raise InputError(
            f"the weights have shape {shape}, but there are {len(rows)} row and {len(columns)} column labels; "
            f"give one row label for each query and one column label for each key"
        )
    if not bool(maps.isfinite().all()) or maps.min() < 0:
        raise InputError("some weights are negative, infinite or not numbers; give attention weights after the softmax")
    return maps


@dataclass(frozen=True)
class Layout:
    """Where the maps stand, in inches from the lower left corner; labels lie outside and the saved picture grows."""

    heads: int  # maps, all layers together
    height: int  # T, in cells
    width: int  # S, in cells
    given: int = 0  # maps in a row, if that is said: the heads of a layer

    @property
    def cell(self) -> float:
        """Cells of small tables are large enough to hold a number; the largest table is 20 inches wide, or 8 a head.

        A row of the heads of a layer is about 20 inches wide.
        """
        largest, ideal, smallest, whole = (0.62, 9.0, 0.16, 20.0) if self.heads == 1 else (0.34, 2.8, 0.09, 8.0)
        if self.given > 1:
            ideal = whole = min(ideal, 20 / self.given)
        side = max(self.height, self.width)
        return min(largest, max(ideal / side, min(smallest, whole / side)))

    @property
    def across(self) -> int:
        """Heads in a row: the number that brings the picture nearest to 16:10, the shape of a screen."""
        if self.given:
            return self.given

        def misfit(n: int) -> float:
            deep = math.ceil(self.heads / n)
            return abs(math.log(n * self.width / (deep * self.height) / 1.6)) + 0.3 * (n * deep - self.heads)

        return min(range(1, self.heads + 1), key=misfit)

    def frames(self) -> list[tuple[float, float, float, float]]:
        """Left, bottom, width and height of each head's map."""
        width, height = self.width * self.cell, self.height * self.cell
        deep = math.ceil(self.heads / self.across)
        places = [divmod(head, self.across) for head in range(self.heads)]
        return [(x * (width + 0.2), (deep - 1 - y) * (height + 0.4), width, height) for y, x in places]


def compose(maps: Tensor, rows: Sequence[str], columns: Sequence[str], title: str, *, spell: bool) -> Figure:
    *many, t, s = maps.shape
    layers, heads = [1, 1, *many][-2:]
    layout = Layout(layers * heads, t, s, given=heads if layers > 1 < heads else 0)
    maps, named, frames = maps.reshape(-1, t, s), map_names(layers, heads), layout.frames()
    right, top = max(x + width for x, _, width, _ in frames), max(y + height for _, y, _, height in frames)
    figure = canvas(right, top, layout=None)
    ceiling = float(maps.max()) or 1.0
    for head, (x, y, width, height) in enumerate(frames):
        axes = figure.add_axes((x / right, y / top, width / right, height / top))
        image = axes.imshow(
            maps[head].numpy(), cmap="Blues", vmin=0, vmax=ceiling, aspect="auto", interpolation="nearest"
        )
        finish(axes, [] if x else rows, columns if head < layout.across else [], layout, spell=spell)
        if layout.heads > 1:
            axes.annotate(named[head], (0.5, 0), (0, -4), "axes fraction", "offset points", ha="center",
                          va="top", fontsize=8.5, color=FAINT)  # fmt: skip
        elif layout.cell > 0.45:
            number_cells(axes, maps[head], 0.5 * ceiling)
    figure.axes[0].set_ylabel("queries", fontsize=8.5, color=FAINT)
    figure.axes[0].set_xlabel("keys", fontsize=8.5, color=FAINT)
    bar = figure.add_axes(((right + 0.2) / right, 0, 0.13 / right, 1))
    parts = 4 if top > 1 else 1  # a low bar has room for its ends only
    figure.colorbar(image, cax=bar, ticks=[ceiling * part / parts for part in range(parts + 1)], format="%.2g")
    bar.set_ylabel("weight", fontsize=8.5, color=FAINT)
    bar.tick_params(labelsize=8, length=2, color=FAINT, labelcolor=INK)
    bar.spines[:].set_visible(False)
    if title:  # over the middle of the whole, above the highest label, which has to be measured
        (shown,), families = fit([title], spell=spell, longest=120)
        with quiet():
            box = figure.get_tightbbox()
        figure.text((box.x0 + box.x1) / 2 / right, (box.y1 + 0.12) / top, shown, ha="center", va="bottom",
                    family=families, fontsize=12, color=INK, parse_math=False)  # fmt: skip
    return figure


def map_names(layers: int, heads: int) -> list[str]:
    """Of each map its head, its layer, or both, as far as there are several."""
    if layers == 1 or heads == 1:
        return [f"{'head' if layers == 1 else 'layer'} {i + 1}" for i in range(layers * heads)]
    return [f"layer {layer + 1}, head {head + 1}" for layer, head in product(range(layers), range(heads))]


def finish(axes: Axes, rows: Sequence[str], columns: Sequence[str], layout: Layout, *, spell: bool) -> None:
    """As many labels as there is room for, a line of text and some air between two; columns upright if all fit so."""
    axes.spines[:].set(color="#c8c8c8", linewidth=0.6)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(which="both", length=0)
    if layout.cell >= 0.12:
        axes.set_xticks([x - 0.5 for x in range(1, layout.width)], minor=True)
        axes.set_yticks([y - 0.5 for y in range(1, layout.height)], minor=True)
        axes.grid(which="minor", color="white", linewidth=min(1.0, layout.cell * 2.5))
    cell = layout.cell * 72  # in points
    size = min(11.0, max(5.0, cell * 0.68))
    every = math.ceil(size * 1.2 / cell)
    for axis, labels in ((axes.yaxis, rows), (axes.xaxis, columns)):
        shown, families = fit(labels, spell=spell)
        # A letter of DejaVu Sans is about 0.62 of its size wide.
        upright = axis is axes.yaxis or max(map(len, shown), default=0) * size * 0.62 <= cell
        axis.set_ticks(range(0, len(shown), every), shown[::every], family=families, fontsize=size, color=INK,
                       parse_math=False, rotation=0 if upright else 90)  # fmt: skip
