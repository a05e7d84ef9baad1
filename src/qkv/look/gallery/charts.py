"""Charts of numbers that others have measured: paths between words, learning rates, families of models."""

from collections.abc import Mapping, Sequence

from qkv.look.gallery.canvas import COLOURS, Picture, blank, boxed, canvas, lined, write


def paths(lengths: Sequence[int], steps: Mapping[str, Sequence[int]], waits: Mapping[str, Sequence[int]]) -> Picture:
    """Vaswani et al. 2017, Table 1: steps from the first word to the last, and steps that must wait for one another."""
    figure = canvas(10, 4)
    titles = {"steps from the first word to the last": steps, "operations that wait for one another": waits}
    for axes, (title, curves) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for colour, (kind, values) in zip(COLOURS, curves.items(), strict=False):
            axes.plot(lengths, values, color=colour, marker="o", ms=4, label=kind)
        lined(axes, "words n", title)
        axes.legend(frameon=False, fontsize=9)
    return Picture([figure], {"lengths": list(lengths), "path": dict(steps), "sequential": dict(waits)})


def distance(words: Sequence[str], first: int, last: int, steps: Mapping[str, int]) -> Picture:
    """How many steps lie between two words of a sentence, for each kind of layer."""
    figure = canvas(max(8, 0.9 * len(words)), 1.2 + 0.9 * len(steps))
    axes = figure.subplots()
    blank(axes)
    across = [(i + 0.5) / len(words) for i in range(len(words))]
    for i, (x, word) in enumerate(zip(across, words, strict=True)):
        boxed(axes, x, 0.08, word, "#fbe3df" if i in (first, last) else "#f6f8fa")
    for line, (colour, (kind, count)) in enumerate(zip(COLOURS, steps.items(), strict=False)):
        y = 0.3 + 0.65 * line / len(steps)
        stops = [across[first] + (across[last] - across[first]) * i / count for i in range(count + 1)]
        axes.plot(stops, [y] * len(stops), color=colour, marker="|", ms=12, lw=1.5)
        write(axes, across[first], y + 0.07, f"{kind}: {count} step{'s' * (count > 1)}", ha="left", color=colour)
    return Picture([figure], {"words": list(words), "between": [words[first], words[last]], "steps": dict(steps)})


def rates(steps: Sequence[int], curves: Mapping[str, Sequence[float]]) -> Picture:
    """Learning rates by step: as the papers have them, and as factors of the peak rate."""
    figure = canvas(10, 4)
    groups = {"learning rate (noam)": True, "factor of the peak rate": False}
    for axes, (title, is_noam) in zip(figure.subplots(1, 2), groups.items(), strict=True):
        some = [(kind, values) for kind, values in curves.items() if kind.startswith("noam") == is_noam]
        for colour, (kind, values) in zip(COLOURS, some, strict=False):
            axes.plot(steps, values, color=colour, label=kind)
        lined(axes, "step", title)
        axes.legend(frameon=False, fontsize=8)
    return Picture([figure], {"steps": list(steps), "curves": {name: list(values) for name, values in curves.items()}})


def family(groups: Mapping[str, Mapping[str, str]]) -> Picture:
    """The pre-trained models in their families, a line about each."""
    rows = sum(len(models) + 2 for models in groups.values())
    figure = canvas(11, 0.3 * rows + 0.4)
    axes = figure.subplots()
    blank(axes)
    y = 1.0
    for colour, (group, models) in zip(COLOURS, groups.items(), strict=False):
        top = y = y - 1.2 / rows
        write(axes, 0.01, y, group, ha="left", fontsize=11, color=colour, weight="bold")
        for model, about in models.items():
            y -= 1 / rows
            axes.plot([0.02, 0.05], [y, y], color=colour, lw=1)
            write(axes, 0.06, y, f"{model}: {about}", ha="left", longest=130)
        axes.plot([0.02, 0.02], [top - 0.5 / rows, y], color=colour, lw=1)
        y -= 0.6 / rows
    return Picture([figure], {"families": {group: dict(models) for group, models in groups.items()}})
