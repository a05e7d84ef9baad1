"""A picture of a training run, from its log: loss, BLEU or accuracy where measured, and the learning rate."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.errors import InputError
from qkv.look.fonts import require_matplotlib
from qkv.look.picture import check_suffix, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN, VALID, BLEU, RATE = "#9bb8d3", "#b3382c", "#2a7f62", "#6b5b95"
INK, FAINT, GRID = "#222222", "#8a8a8a", "#e8e8e8"
FEW = 40  # measurements up to which each gets a dot


@dataclass(frozen=True)
class Curve:
    label: str
    colour: str
    points: dict[float, float]  # value at each step


@dataclass(frozen=True)
class Panel:
    name: str
    height: float  # beside the other panels
    curves: list[Curve]


def draw_curves(log: Path, path: Path) -> Path:
    """Draw the training log `log`, one JSON object a line, as a PNG or SVG by the suffix of `path`; returns `path`.

    Lines of the event "train" give step, loss and learning_rate; those of "valid" give step, loss and perhaps
    smoothed_loss, bleu and accuracy. A run that was resumed writes some steps twice, and the later line counts.
    """
    log, path = Path(log), Path(path)
    check_suffix(path)
    require_matplotlib()
    events = list(read_events(log))
    # The loss that training lowers is smoothed; validation is drawn in the same measure where the log has it.
    valid = points(events, "valid", "smoothed_loss") or points(events, "valid", "loss")
    panels = [
        Panel("loss", 3, [Curve("training", TRAIN, points(events, "train", "loss")),
                          Curve("validation", VALID, valid)]),
        Panel("BLEU", 2, [Curve("validation", BLEU, points(events, "valid", "bleu"))]),
        Panel("accuracy", 2, [Curve("validation", BLEU, points(events, "valid", "accuracy"))]),
        Panel("learning rate", 1.2, [Curve("training", RATE, points(events, "train", "learning_rate"))]),
    ]  # fmt: skip
    panels = [Panel(p.name, p.height, [curve for curve in p.curves if curve.points]) for p in panels]
    panels = [panel for panel in panels if panel.curves]
    if not panels:
        raise InputError(
            f"{log} has nothing to draw: no line has a step with a loss, BLEU or learning rate; train first"
        )
    compose(panels, path)
    return path


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


def compose(panels: list[Panel], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    heights = [panel.height for panel in panels]
    figure = Figure(figsize=(8, 1.1 * sum(heights) + 0.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel in zip(rows, panels, strict=True):
        draw_panel(axes, panel)
    rows[-1].set_xlabel("step", color=INK)
    rows[-1].xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    rows[-1].xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.align_ylabels(rows)
    save(figure, path)


def draw_panel(axes: "Axes", panel: Panel) -> None:
    for curve in panel.curves:
        dots = "o" if len(curve.points) <= FEW else None
        axes.plot(list(curve.points), list(curve.points.values()), color=curve.colour, marker=dots, ms=3.5, lw=1.6,
                  label=curve.label)  # fmt: skip
    if len(panel.curves) > 1:
        axes.legend(frameon=False, labelcolor=INK)
    if panel.name == "learning rate":
        axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
        axes.set_ylim(bottom=0)
    axes.set_ylabel(panel.name, color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=9)
