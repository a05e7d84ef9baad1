"""Animations of a decoder that writes a sentence: one frame for each token, with the row of attention that wrote it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.decoding.alignment import check_layer, readout_of
from qkv.errors import InputError
from qkv.look.fonts import require_matplotlib
from qkv.look.heatmap import check_weights
from qkv.look.picture import COLOURS, FAINT, PLAIN, Axes, Figure, Given, Picture, boxed, sheet, write
from qkv.look.sentence import look_at

WIDEST = 24.0  # inches
LONGEST = 60  # letters of a token


def animate(weights: Any, rows: Sequence[str], columns: Sequence[str], path: Path, *, title: str = "") -> Path:
    """A GIF of a decoder at work: `weights` (T, S), `rows` the tokens that it writes, `columns` those of the source.

    It has T frames. The numbers are written beside it, as `draw` does. Returns the path of the GIF.
    """
    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise InputError(f"{path} is no animation by its name; let it end in .gif")
    require_matplotlib()
    maps = check_weights(weights, rows, columns)
    if maps.dim() != 2:
        raise InputError(f"the weights have shape {tuple(maps.shape)}; give (T, S), for example the mean over heads")
    return frames(maps, rows, columns, title).save(path)


def frames(weights: Tensor, tgt: Sequence[str], src: Sequence[str], title: str) -> Picture:
    """One figure for each row: the source below, what has been written above, lines as strong as the weights."""
    figures = []
    for step in range(len(tgt)):
        figure, axes, across = stage(weights, step, tgt, src, (0.3, 0.72))
        for x, token, weight in zip(across, src, weights[step].tolist(), strict=True):
            write(axes, x, 0.1, f"{weight:.2f}", fontsize=8, color=FAINT)
            boxed(axes, x, 0.22, token, (0.12, 0.44, 0.92, 0.05 + 0.55 * min(1.0, weight)), longest=LONGEST)
        write(axes, 0.5, 0.97, f"{title}   step {step + 1} of {len(tgt)}".strip(), va="top", fontsize=10, longest=120)
        figures.append(figure)
    return Picture(figures, {"rows": list(tgt), "columns": list(src), "weights": weights}, is_animation=True)


def stage(
    weights: Tensor, step: int, tgt: Sequence[str], src: Sequence[str], ends: tuple[float, float]
) -> tuple[Figure, Axes, list[float]]:
    """What frames share: the tokens so far, and between the heights `ends` a line for each weight of this step.

    The third of what it gives is where each token of the source stands.
    """
    tokens = max(len(tgt), len(src))
    figure, axes = sheet(min(WIDEST, max(5.0, 0.95 * tokens + 0.6)), 3.0)
    write(axes, 0, 0.02, "source: what the encoder read", ha="left", fontsize=8, color=FAINT)
    write(axes, 0, 0.9, "target: what the decoder has written", ha="left", fontsize=8, color=FAINT)
    across = [(j + 0.5) / len(src) for j in range(len(src))]
    for x, weight in zip(across, weights[step].tolist(), strict=True):
        axes.plot([x, (step + 0.5) / len(tgt)], ends, color=COLOURS[0], alpha=min(1.0, weight), lw=1 + 4 * weight,
                  solid_capstyle="round")  # fmt: skip
    for i, token in enumerate(tgt[: step + 1]):
        boxed(axes, (i + 0.5) / len(tgt), 0.8, token, "#fbe3df" if i == step else PLAIN, longest=LONGEST)
    return figure, axes, across


def written(given: Given, text: str) -> tuple[list[str], list[str], Tensor]:
    """The tokens of a translation and of its source, and the attention (T, S) of the layer that aligns words."""
    look = look_at(given.translator, given.text or text)
    layer = check_layer(given.translator, readout_of(given.translator).layer)
    return look.target, look.source, look.cross()[layer].double()


def decoding(given: Given) -> Picture:
    """Vaswani et al. 2017, section 3.1: the encoder reads once, then the decoder writes token by token, to </s>."""
    tgt, src, weights = written(given, "Two dogs play in the snow.")
    return frames(weights, tgt, src, "encoder read, decoder writes")


def seq2seq(given: Given) -> Picture:
    """Bahdanau et al. 2015, Figure 1: encoder states h_j, the decoder's state s_t, and a line for each weight."""
    tgt, src, weights = written(given, "knowledge is power")
    figures = []
    for step in range(len(tgt)):
        figure, axes, across = stage(weights, step, tgt, src, (0.4, 0.6))
        for j, x in enumerate(across):
            if j:
                axes.annotate("", (x - 0.03, 0.35), (across[j - 1] + 0.03, 0.35), arrowprops={"arrowstyle": "->"})
            boxed(axes, x, 0.35, f"h{j + 1}", "#d8f0d8")
            boxed(axes, x, 0.15, src[j])
        boxed(axes, (step + 0.5) / len(tgt), 0.64, f"s{step + 1}", "#fde0c2")
        figures.append(figure)
    return Picture(figures, {"rows": tgt, "columns": src, "weights": weights}, is_animation=True)
