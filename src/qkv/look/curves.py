"""Pictures of curves: of any numbers, and of a training run from its log: loss, BLEU, accuracy, learning rate."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.errors import InputError
from qkv.look.picture import COLOURS, INK, canvas, check_suffix, lined, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = tuple[Sequence[float], Sequence[float]]  # x and y of its points
TRAIN, VALID, BLEU, RATE = "#9bb8d3", "#b3382c", "#2a7f62", "#6b5b95"
HEIGHTS = {"loss": 3, "BLEU": 2, "accuracy": 2, "learning rate": 1.2}  # of panels, beside one another
FEW = 40  # points up to which each gets a dot


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


def plot(axes: "Axes", named: Mapping[str, Curve], colours: Sequence[str] = COLOURS) -> None:
    """Curves with a legend; each has dots where its points are few, and dashes where the colours begin again."""
    for i, (name, (xs, ys)) in enumerate(named.items()):
        axes.plot(xs, ys, color=colours[i % len(colours)], ls="-" if i < len(colours) else "--", lw=1.6,
                  marker="o" if len(xs) <= FEW else None, ms=3.5, label=name)  # fmt: skip
    if len(named) > 1:
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
