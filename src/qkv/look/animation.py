"""An animation of a translation: one frame for each token that is written, with the row of attention that wrote it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from qkv.errors import InputError
from qkv.look.fonts import require_matplotlib
from qkv.look.heatmap import check_weights
from qkv.look.picture import COLOURS, FAINT, PLAIN, boxed, numbers_beside, save_frames, sheet, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    save_frames(frames(maps, rows, columns, title), path)
    numbers_beside(path, {"rows": list(rows), "columns": list(columns), "weights": maps.tolist()})
    return path


def frames(weights: Tensor, tgt: Sequence[str], src: Sequence[str], title: str) -> list["Figure"]:
    """One figure for each row: the source below, what has been written above, lines as strong as the weights."""
    found = []
    for step in range(len(tgt)):
        figure, axes, across = stage(weights, step, tgt, src, (0.3, 0.72))
        for x, token, weight in zip(across, src, weights[step].tolist(), strict=True):
            write(axes, x, 0.1, f"{weight:.2f}", fontsize=8, color=FAINT)
            boxed(axes, x, 0.22, token, (0.12, 0.44, 0.92, 0.05 + 0.55 * min(1.0, weight)), longest=LONGEST)
        write(axes, 0.5, 0.97, f"{title}   step {step + 1} of {len(tgt)}".strip(), va="top", fontsize=10, longest=120)
        found.append(figure)
    return found


def stage(
    weights: Tensor, step: int, tgt: Sequence[str], src: Sequence[str], ends: tuple[float, float]
) -> tuple["Figure", "Axes", list[float]]:
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
