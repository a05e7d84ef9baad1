"""Pictures of a model's build: the architecture with its sizes, and what the two normalisations average over."""

from dataclasses import asdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import torch
from torch import nn

from qkv.look.architecture import Box, boxes
from qkv.look.picture import Given, Picture, boxed, canvas, sheet, table, write
from qkv.models import PRESETS, Transformer, TransformerConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = {"attention": "#fde0c2", "Norm": "#f5f3b3", "Feed": "#c6e6f5", "embedding": "#fbe0e0", "Linear": "#dcdff5",
          "Softmax": "#d3ecd3"}  # fmt: skip


def architecture(given: Given) -> Picture:
    """Vaswani et al. 2017, Figure 1, with the sizes of the model at hand; without one, of the paper's base model."""
    if given.translator is None:
        with torch.device("meta"):  # sizes without weights
            parts = boxes(Transformer(TransformerConfig(**PRESETS["base"])))
    else:
        parts = boxes(given.translator.model)
    columns = [[box for box in parts if box.stack == "encoder"], [box for box in parts if box.stack != "encoder"]]
    tallest = max(map(len, columns))
    figure, axes = sheet(10, 0.62 * tallest + 1)
    for x, column in zip((0.25, 0.75), columns, strict=True):
        pillar(axes, x, column, tallest)
    top = (len(columns[0]) - 0.5) / (tallest + 0.5)
    for i, box in enumerate(columns[1]):
        if "from the encoder" in box.about:
            arrow = {"arrowstyle": "->", "color": "#1f6feb", "connectionstyle": "arc3,rad=-0.1"}
            axes.annotate("", (0.53, (i + 0.5) / (tallest + 0.5)), (0.32, top), arrowprops=arrow)
    return Picture([figure], {"boxes": [asdict(box) for box in parts]})


def pillar(axes: "Axes", x: float, column: list[Box], tallest: int) -> None:
    """Boxes on one another, with N x beside those that repeat."""
    y = [(i + 0.5) / (tallest + 0.5) for i in range(len(column))]
    for low, high in pairwise(y):
        axes.annotate("", (x, high), (x, low), arrowprops={"arrowstyle": "->", "color": "#9aa0a6"}, zorder=0)
    for height, box in zip(y, column, strict=True):
        shade = next((colour for part, colour in SHADES.items() if part in box.label), "#f6f8fa")
        boxed(axes, x, height, f"{box.label}   {box.about}", shade, fontsize=8)
    for times, group in groupby(zip(y, column, strict=True), key=lambda one: one[1].times):
        heights = [height for height, _ in group]
        if times > 1:
            edge = x - 0.23
            axes.plot([edge, edge], [heights[0], heights[-1]], color="#9aa0a6", lw=1.5)
            write(axes, edge - 0.012, (heights[0] + heights[-1]) / 2, f"{times}×", ha="right", fontsize=11)


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
