"""Pictures of a table of runs: for each figure a panel with its rows, or two figures against each other."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import InputError
from qkv.look.fonts import fit
from qkv.look.picture import INK, canvas, check_suffix, lined, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = Sequence[Sequence[float]]  # the numbers of each row's runs
RUN, MEAN = "#9bb8d3", "#b3382c"
LONGEST = 40  # letters of a row's name


def draw_points(rows: Sequence[str], panels: Mapping[str, Runs], path: Path) -> Path:
    """Draw figures as a PNG or SVG by the suffix of `path`; returns `path`.

    `panels` has, by the name of a figure, one list of numbers for each row: those of its runs. A pale dot is a run, a
    strong one their mean, a line through it is one standard deviation to each side; a single run has none.
    """
    path = Path(path)
    check_suffix(path)
    for name, values in panels.items():
        if len(values) != len(rows):
            raise InputError(f"{name!r} has figures for {len(values)} rows, not {len(rows)}; give a list for each row")
    known = {name: [list(filter(math.isfinite, some)) for some in values] for name, values in panels.items()}
    known = {name: values for name, values in known.items() if any(values)}
    if not known:
        raise InputError("there is nothing to draw: no row has a figure; let a run finish first")
    names, families = fit(rows, spell=path.suffix.lower() == ".png", longest=LONGEST)
    return save(compose(names, families, known), path)


def compose(names: list[str], families: list[str], panels: Mapping[str, list[list[float]]]) -> "Figure":
    """The figure: panels side by side, rows from the top, their names at the left."""
    from matplotlib.ticker import MaxNLocator

    figure = canvas(1.2 + 2.1 * len(panels), 0.9 + 0.32 * len(names))
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(grid, panels.items(), strict=True):
        for row, some in enumerate(values):
            if some:
                axes.plot(some, [row] * len(some), "o", color=RUN, ms=4)
                spread = statistics.stdev(some) if len(some) > 1 else None
                axes.errorbar(statistics.fmean(some), row, xerr=spread, fmt="o", color=MEAN, ms=5.5, lw=1.6, capsize=3)
        axes.set_title(name, color=INK, fontsize=10)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        lined(axes)
    grid[0].set_yticks(range(len(names)), names, family=families, parse_math=False)
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def draw_trade(rows: Sequence[str], along: Mapping[str, Runs], up: Mapping[str, Runs], path: Path) -> Path:
    """Draw two named figures against each other as a PNG or SVG; pale dots are runs, strong ones their means."""
    check_suffix(path)
    ((x_name, xs),), ((y_name, ys),) = along.items(), up.items()
    both = [i for i in range(len(rows)) if xs[i] and ys[i]]
    if not both:
        raise InputError(f"there is nothing to draw: no row has both {x_name} and {y_name}; let a run finish first")
    names, families = fit(rows, spell=path.suffix.lower() == ".png", longest=LONGEST)
    figure = canvas(7, 4.6)
    axes = figure.subplots()
    for i in both:
        x, y = statistics.fmean(xs[i]), statistics.fmean(ys[i])
        axes.plot(xs[i], ys[i], "o", color=RUN, ms=4)
        axes.plot([x], [y], "o", color=MEAN, ms=6)
        axes.annotate(names[i], (x, y), xytext=(6, 4), textcoords="offset points", fontsize=8, color=INK,
                      family=families, parse_math=False)  # fmt: skip
    axes.margins(x=0.18, y=0.1)
    lined(axes, x_name, y_name)
    return save(figure, path)
