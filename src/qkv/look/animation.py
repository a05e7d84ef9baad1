"""An animation of a translation: one frame for each token that is written, with the row of attention that wrote it."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from qkv.errors import InputError
from qkv.look.fonts import fit, require_matplotlib
from qkv.look.heatmap import check_weights, numbers_beside
from qkv.look.picture import quiet, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, BLUE, RED = "#222222", "#8a8a8a", "#1f6feb", "#b3382c"
FRAME = 700  # milliseconds that each frame is shown
LAST = 2000  # ... and the last
WIDEST = 24.0  # inches


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
    save_frames(frames(maps, rows, columns, title), path)
    numbers_beside(path, {"rows": list(rows), "columns": list(columns), "weights": maps.tolist()})
    return path


def frames(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str) -> list["Figure"]:
    """One figure for each row: the source below, what has been written above, lines as strong as the weights."""
    shown, families = fit([*rows, *columns, title], spell=True, longest=60)
    tgt, src = shown[: len(rows)], shown[len(rows) : -1]
    return [frame(weights, step, tgt, src, shown[-1], families) for step in range(len(rows))]


def frame(
    weights: Tensor, step: int, tgt: Sequence[str], src: Sequence[str], title: str, families: list[str]
) -> "Figure":
    figure, axes = stage(max(len(tgt), len(src)), families)
    across = [(i + 0.5) / len(src) for i in range(len(src))]
    here = (step + 0.5) / len(tgt)
    for x, weight in zip(across, weights[step].tolist(), strict=True):
        axes.plot([x, here], [0.3, 0.72], color=BLUE, alpha=min(1.0, weight), lw=1 + 4 * weight, solid_capstyle="round")
        axes.text(x, 0.1, f"{weight:.2f}", ha="center", va="center", fontsize=8, color=FAINT)
    for x, token, weight in zip(across, src, weights[step].tolist(), strict=True):
        box(axes, x, 0.22, token, (0.12, 0.44, 0.92, 0.05 + 0.55 * min(1.0, weight)), families)
    for i, token in enumerate(tgt[: step + 1]):
        box(axes, (i + 0.5) / len(tgt), 0.8, token, "#fbe3df" if i == step else "#f6f8fa", families)
    text = f"{title}   step {step + 1} of {len(tgt)}".strip()
    axes.text(0.5, 0.97, text, ha="center", va="top", fontsize=10, color=INK, family=families, parse_math=False)
    return figure


def stage(tokens: int, families: list[str]) -> tuple["Figure", "Axes"]:
    """An empty figure wide enough for so many tokens, with the names of its two lines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(min(WIDEST, max(5.0, 0.95 * tokens + 0.6)), 3.0), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.03, 0.02, 0.94, 0.96))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    axes.text(0, 0.02, "source: what the encoder read", fontsize=8, color=FAINT)
    axes.text(0, 0.88, "target: what the decoder has written", fontsize=8, color=FAINT)
    return figure, axes


def box(axes: "Axes", x: float, y: float, text: str, colour: Any, families: list[str]) -> None:
    frame = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": "#c8c8c8", "linewidth": 0.8}
    axes.text(x, y, text, ha="center", va="center", fontsize=10, color=INK, bbox=frame, family=families,
              parse_math=False)  # fmt: skip


def save_frames(figures: Sequence["Figure"], path: Path) -> None:
    """Figures of one size as a GIF, written whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    images = []
    with quiet():
        for figure in figures:
            canvas: Any = FigureCanvasAgg(figure)
            canvas.draw()
            pixels = np.asarray(canvas.buffer_rgba())[..., :3]
            images.append(Image.fromarray(np.ascontiguousarray(pixels)).quantize(64))
    content = io.BytesIO()
    times = [FRAME] * (len(images) - 1) + [LAST]
    images[0].save(content, "GIF", save_all=True, append_images=images[1:], duration=times, loop=0, optimize=False)
    write(path, content.getvalue())
