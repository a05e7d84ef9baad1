"""Charts: curves of any numbers, a training run from its log, and tables of runs as dots."""

import json
import math
import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.look.fonts import fit
from qkv.look.picture import COLOURS, INK, Axes, Figure, canvas, check_suffix, lined, save, whole_ticks

Curve = tuple[Sequence[float], Sequence[float]]  # x and y of its points
TRAIN, VALID, BLEU, RATE = "#9bb8d3", "#b3382c", "#2a7f62", "#6b5b95"
HEIGHTS = {"loss": 3, "BLEU": 2, "accuracy": 2, "learning rate": 1.2}  # of panels, beside one another
FEW = 40  # points up to which each gets a dot
Runs = Sequence[Sequence[float]]  # the numbers of each row's runs
RUN, MEAN = "#9bb8d3", "#b3382c"
LONGEST = 40  # letters of a row's name
WIDE = 22  # letters over a panel; more go to another line


def curves(
    path: Path, named: Mapping[str, Curve], *, x: str, y: str, title: str, log_x: bool = False, log_y: bool = False
) -> Path:
    """Draw each curve, a pair (xs, ys), under its name; values that a logarithm cannot show are left out."""
    check_suffix(path)
    figure = canvas(7, 4.2)
    axes = figure.subplots()
    plot(axes, named)
    lined(axes, x, y)
    for is_log, set_scale in ((log_x, axes.set_xscale), (log_y, axes.set_yscale)):
        if is_log:
            set_scale("log", nonpositive="mask")
    axes.set_title(title, fontsize=11, color=INK)
    return save(figure, path)


def plot(axes: Axes, named: Mapping[str, Curve], colours: Sequence[str] = COLOURS) -> None:
    """Curves with a legend; each has dots where its points are few, and dashes where the colours begin again. An axis
    of whole numbers has ticks at whole numbers."""
    for i, (name, (xs, ys)) in enumerate(named.items()):
        axes.plot(xs, ys, color=colours[i % len(colours)], ls="-" if i < len(colours) else "--", lw=1.6,
                  marker="o" if len(xs) <= FEW else None, ms=3.5, label=name)  # fmt: skip
    for axis, side in ((axes.xaxis, 0), (axes.yaxis, 1)):
        if all(float(value).is_integer() for curve in named.values() for value in curve[side]):
            axis.set_major_locator(whole_ticks())
    if any(named):  # a curve alone may have no name
        axes.legend(frameon=False, labelcolor=INK, fontsize=9)


def draw_curves(log: Path, path: Path) -> Path:
    """Draw the training log `log`, one JSON object a line, as a PNG or SVG by the suffix of `path`; returns `path`.

    Lines of the event "train" give step, loss and learning_rate; those of "valid" give step, loss and perhaps
    smoothed_loss, bleu and accuracy. A run that was resumed writes some steps twice, and the later line counts.
    """
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    log, path = Path(log), Path(path)
    check_suffix(path)
    events = list(read_events(log))
    # The loss that training lowers is smoothed; validation is drawn in the same measure where the log has it.
    valid = points(events, "valid", "smoothed_loss") or points(events, "valid", "loss")
    found = [
        ("loss", "training", TRAIN, points(events, "train", "loss")),
        ("loss", "validation", VALID, valid),
        ("BLEU", "validation", BLEU, points(events, "valid", "bleu")),
        ("accuracy", "validation", BLEU, points(events, "valid", "accuracy")),
        ("learning rate", "training", RATE, points(events, "train", "learning_rate")),
    ]
    panels = list(dict.fromkeys(name for name, _, _, curve in found if curve))
    if not panels:
        raise InputError(
            f"{log} has nothing to draw: no line has a step with a loss, BLEU or learning rate; train first"
        )
    heights = [HEIGHTS[name] for name in panels]
    figure = canvas(8, 1.1 * sum(heights) + 0.6)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel in zip(rows, panels, strict=True):
        inside = [(label, colour, curve) for name, label, colour, curve in found if name == panel and curve]
        plot(axes, {label: (list(c), list(c.values())) for label, _, c in inside}, [colour for _, colour, _ in inside])
        lined(axes, "step" if panel == panels[-1] else "", panel)
        if panel == "learning rate":
            axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
            axes.set_ylim(bottom=0)
    rows[-1].xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    rows[-1].xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.align_ylabels(rows)
    return save(figure, path)


def read_events(log: Path) -> Iterator[dict[str, Any]]:
    """The objects of a log. Its last line may be damaged, as a run that was killed leaves it; any other may not."""
    try:
        lines = log.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"the log {log} cannot be read ({error.strerror}); give the log that training wrote") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict):
            yield event
        elif number < len(lines):
            raise InputError(f"line {number} of {log} is not a JSON object; give the log that training wrote")


def points(events: list[dict[str, Any]], kind: str, key: str) -> dict[float, float]:
    """The finite values of `key` in the events of one kind, by step and in the order of steps."""
    found = {
        e["step"]: e[key]
        for e in events
        if e.get("event") == kind and is_number(e.get("step")) and is_number(e.get(key))
    }
    return dict(sorted(found.items()))


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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


def compose(names: list[str], families: list[str], panels: Mapping[str, list[list[float]]]) -> Figure:
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
        name = textwrap.fill(name, WIDE)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        lined(axes, name)
    grid[0].set_yticks(range(len(names)), names, family=families, parse_math=False)
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    explain_dots(figure)
    return figure


def explain_dots(figure: Figure) -> None:
    """What pale and strong dots are."""
    from matplotlib.lines import Line2D

    dots = {"a run": RUN, "the mean of the runs": MEAN}
    handles = [Line2D([], [], marker="o", ls="", color=colour, label=name) for name, colour in dots.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, labelcolor=INK, fontsize=8)


def draw_learning(learned: Mapping[str, Mapping[int, Sequence[float]]], score: str, path: Path) -> Path:
    """Draw learning curves as a PNG or SVG: each by its name, the scores of all runs by the number of examples.

    A line goes through the means, pale dots are runs, and a bar is one standard deviation to each side.
    """
    check_suffix(path)
    if not learned:
        raise InputError("there is nothing to draw: no learning curve has a point; let a run finish first")
    figure = canvas(7, 4.2)
    axes = figure.subplots()
    for i, (name, points) in enumerate(learned.items()):
        xs, runs, colour = sorted(points), [points[x] for x in sorted(points)], COLOURS[i % len(COLOURS)]
        spreads = [statistics.stdev(some) if len(some) > 1 else 0.0 for some in runs]
        for x, some in zip(xs, runs, strict=True):
            axes.plot([x] * len(some), some, "o", color=colour, ms=3, alpha=0.35)
        means = [statistics.fmean(some) for some in runs]
        axes.errorbar(xs, means, yerr=spreads, color=colour, marker="o", ms=5, lw=1.6, capsize=3, label=name)
    axes.set_xscale("log")
    every = sorted({x for points in learned.values() for x in points})
    axes.set_xticks(every, [f"{x:,}" for x in every])
    axes.minorticks_off()
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    lined(axes, "examples to learn from", score)
    return save(figure, path)


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
    explain_dots(figure)
    return save(figure, path)
