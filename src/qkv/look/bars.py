"""A picture of a table: for each figure a panel, in it for each row its runs, their mean and their spread."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import InputError
from qkv.look.fonts import fit, require_matplotlib
from qkv.look.picture import check_suffix, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUN, MEAN = "#9bb8d3", "#b3382c"
INK, FAINT, GRID = "#222222", "#8a8a8a", "#e8e8e8"
LONGEST = 40  # letters of a row's name


def draw_points(rows: Sequence[str], panels: Mapping[str, Sequence[Sequence[float]]], path: Path) -> Path:
    """Draw figures as a PNG or SVG by the suffix of `path`; returns `path`.

    `panels` has, by the name of a figure, one list of numbers for each row: those of its runs. A pale dot is a run, a
    strong one their mean, a line through it is one standard deviation to each side; a single run has none.
    """
    path = Path(path)
    check_suffix(path)
    require_matplotlib()
    for name, values in panels.items():
        if len(values) != len(rows):
            raise InputError(f"{name!r} has figures for {len(values)} rows, not {len(rows)}; give a list for each row")
    known = {name: [list(filter(math.isfinite, some)) for some in values] for name, values in panels.items()}
    known = {name: values for name, values in known.items() if any(values)}
    if not known:
        raise InputError("there is nothing to draw: no row has a figure; let a run finish first")
    names, families = fit(rows, spell=path.suffix.lower() == ".png", longest=LONGEST)
    save(compose(names, families, known), path)
    return path


def compose(names: list[str], families: list[str], panels: Mapping[str, list[list[float]]]) -> "Figure":
    """The figure: panels side by side, rows from the top, their names at the left."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (1.2 + 2.1 * len(panels), 0.9 + 0.32 * len(names))
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for one, (name, values) in zip(axes, panels.items(), strict=True):
        draw_panel(one, name, values)
    axes[0].set_yticks(range(len(names)), names, family=families, parse_math=False)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def draw_panel(axes: "Axes", name: str, values: list[list[float]]) -> None:
    from matplotlib.ticker import MaxNLocator

    for row, some in enumerate(values):
        if not some:
            continue
        axes.plot(some, [row] * len(some), "o", color=RUN, ms=4)
        spread = statistics.stdev(some) if len(some) > 1 else None
        axes.errorbar(statistics.fmean(some), row, xerr=spread, fmt="o", color=MEAN, ms=5.5, lw=1.6, capsize=3)
    axes.set_title(name, color=INK, fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=9)
