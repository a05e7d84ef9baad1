"""Animations of a decoder that writes a sentence: one frame for each token, with the row of attention that wrote it."""

import torch

from qkv.decoding.alignment import check_layer, readout_of
from qkv.look.animation import frames, stage
from qkv.look.picture import Given, Picture, boxed
from qkv.look.sentence import Look, look_at


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
    look, weights = written(given, "knowledge is power")
    figures = []
    for step in range(len(look.target)):
        figure, axes, across = stage(weights, step, look.target, look.source, (0.4, 0.6))
        for j, x in enumerate(across):
            if j:
                axes.annotate("", (x - 0.03, 0.35), (across[j - 1] + 0.03, 0.35), arrowprops={"arrowstyle": "->"})
            boxed(axes, x, 0.35, f"h{j + 1}", "#d8f0d8")
            boxed(axes, x, 0.15, look.source[j])
        boxed(axes, (step + 0.5) / len(look.target), 0.64, f"s{step + 1}", "#fde0c2")
        figures.append(figure)
    return Picture(figures, {"rows": look.target, "columns": look.source, "weights": weights})
