"""A picture of a trade: for each row a point, faster to the right and better to the top."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from qkv.errors import InputError
from qkv.look.bars import FAINT, GRID, INK, LONGEST, MEAN, RUN
from qkv.look.fonts import fit, require_matplotlib
from qkv.look.picture import check_suffix, save

Runs = Sequence[Sequence[float]]  # the numbers of each row's runs


def draw_trade(rows: Sequence[str], along: Mapping[str, Runs], up: Mapping[str, Runs], path: Path) -> Path:
    """Draw two named figures against each other as a PNG or SVG; pale dots are runs, strong ones their means."""
    check_suffix(path)
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ((x_name, xs),), ((y_name, ys),) = along.items(), up.items()
    both = [i for i in range(len(rows)) if xs[i] and ys[i]]
    if not both:
        raise InputError(f"there is nothing to draw: no row has both {x_name} and {y_name}; let a run finish first")
    names, families = fit(rows, spell=path.suffix.lower() == ".png", longest=LONGEST)
    figure = Figure(figsize=(7, 4.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for i in both:
        x, y = statistics.fmean(xs[i]), statistics.fmean(ys[i])
        axes.plot(xs[i], ys[i], "o", color=RUN, ms=4)
        axes.plot([x], [y], "o", color=MEAN, ms=6)
        axes.annotate(
            names[i], (x, y), xytext=(6, 4), textcoords="offset points", fontsize=8, color=INK, family=families,
            parse_math=False,
        )  # fmt: skip
    axes.set_xlabel(x_name, color=INK)
    axes.set_ylabel(y_name, color=INK)
    axes.margins(x=0.18, y=0.1)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=9)
    save(figure, path)
    return path
