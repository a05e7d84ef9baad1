"""Animations of a decoder that writes a sentence: one frame for each token, with the row of attention that wrote it."""

from typing import TYPE_CHECKING

import torch

from qkv.decoding.alignment import check_layer, readout_of
from qkv.look.animation import box, frames, stage
from qkv.look.fonts import fit
from qkv.look.gallery.canvas import Given, Picture
from qkv.look.sentence import Look, look_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWLEDGE = "knowledge is power"


def written(given: Given, text: str) -> tuple[Look, torch.Tensor]:
    """A translation, and the attention over the source (T, S) of the layer that aligns words."""
    look = look_at(given.trained, given.text or text)
    return look, look.cross()[check_layer(given.trained, readout_of(given.trained).layer)].double()


def decoding(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.1: the encoder reads once, then the decoder writes token by token, to </s>."""
    look, weights = written(given, "Two dogs play in the snow.")
    data = {"rows": look.target, "columns": look.source, "weights": weights}
    return Picture(frames(weights, look.target, look.source, "encoder read, decoder writes"), data)


def seq2seq(given: Given) -> Picture:
    """Bahdanau et al. 2015, Figure 1: encoder states h_j, the decoder's state s_t, and a line for each weight."""
    look, weights = written(given, KNOWLEDGE)
    shown, families = fit([*look.target, *look.source], spell=True)
    tgt, src = shown[: len(look.target)], shown[len(look.target) :]
    figures = [states(weights[t].tolist(), t, tgt, src, families) for t in range(len(tgt))]
    return Picture(figures, {"rows": look.target, "columns": look.source, "weights": weights})


def states(row: list[float], step: int, tgt: list[str], src: list[str], families: list[str]) -> "Figure":
    figure, axes = stage(max(len(tgt), len(src)), families)
    across = [(j + 0.5) / len(src) for j in range(len(src))]
    here = (step + 0.5) / len(tgt)
    for j, (x, weight) in enumerate(zip(across, row, strict=True)):
        axes.plot([x, here], [0.4, 0.62], color="#1f6feb", alpha=min(1.0, weight), lw=1 + 4 * weight)
        if j:
            axes.annotate("", (x - 0.03, 0.35), (across[j - 1] + 0.03, 0.35), arrowprops={"arrowstyle": "->"})
        box(axes, x, 0.35, f"h{j + 1}", "#d8f0d8", families)
        box(axes, x, 0.15, src[j], "#f6f8fa", families)
    box(axes, here, 0.66, f"s{step + 1}", "#fde0c2", families)
    for i, token in enumerate(tgt[: step + 1]):
        box(axes, (i + 0.5) / len(tgt), 0.82, token, "#fbe3df" if i == step else "#f6f8fa", families)
    return figure
