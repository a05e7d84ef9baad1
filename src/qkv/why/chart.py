"""The plain pictures of `qkv why`: curves over numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from qkv.look.fonts import require_matplotlib
from qkv.look.picture import check_suffix, save

COLOURS = ("#b3382c", "#2a6f9e", "#2a7f62", "#6b5b95", "#c98b1f", "#555555", "#d36ba6", "#7a9e2a")
INK, FAINT, GRID = "#222222", "#8a8a8a", "#e8e8e8"
Curve = tuple[Sequence[float], Sequence[float]]


def curves(
    path: Path, named: Mapping[str, Curve], *, x: str, y: str, title: str, log_x: bool = False, log_y: bool = False
) -> Path:
    """Draw each curve, a pair (xs, ys), under its name; values that a logarithm cannot show are left out."""
    check_suffix(path)
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for i, (name, (xs, ys)) in enumerate(named.items()):
        points = [(a, b) for a, b in zip(xs, ys, strict=True) if (a > 0 or not log_x) and (b > 0 or not log_y)]
        dots = "o" if len(points) <= 40 else None
        axes.plot([a for a, _ in points], [b for _, b in points], color=COLOURS[i % len(COLOURS)], marker=dots,
                  ls="-" if i < len(COLOURS) else "--", ms=3.5, lw=1.6, label=name)  # fmt: skip
    axes.set(xlabel=x, ylabel=y, xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
    axes.set_title(title, fontsize=11, color=INK)
    if len(named) > 1:
        axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=9)
    save(figure, path)
    return path
