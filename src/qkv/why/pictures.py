"""Pictures whose numbers are measured here; with those of the gallery, all that `qkv picture` draws."""

from collections.abc import Mapping, Sequence

from torch import nn

from qkv.look import gallery
from qkv.look.charts import plot
from qkv.look.picture import COLOURS, PLAIN, Figure, Given, Picture, boxed, canvas, lined, sheet, write
from qkv.training import SCHEDULES
from qkv.why.masks import FAMILIES
from qkv.why.recurrence import HIDDEN, WORDS, attending, chain, path_lengths, recurrent

CHEF = ["The", "chef", "who", "went", "to", "the", "market", "yesterday", "was", "tired"]
RUN = 10_000  # steps of the run whose learning rates are drawn


def compared_paths(given: Given) -> Picture:
    """Vaswani et al. 2017, Table 1: attention, windows and recurrence, by the steps between words and the waiting."""
    steps = path_lengths()
    window = nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1).double()
    parts = {"recurrent": recurrent("RNN"), "windows of 3": lambda x: window(x.transpose(1, 2)).transpose(1, 2),
             "self-attention": attending()}  # fmt: skip
    waits = {name: [chain(part, n) for n in WORDS] for name, part in parts.items()}
    panels = {"steps from the first word to the last": steps, "operations that wait for one another": waits}
    return Picture([side_by_side("words n", WORDS, panels)], {"lengths": WORDS, "path": steps, "sequential": waits})


def side_by_side(x: str, xs: Sequence[int], panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Charts of curves over the same `xs`."""
    figure = canvas(10, 4)
    for axes, (title, curves) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        plot(axes, {name: (xs, values) for name, values in curves.items()})
        lined(axes, x, title)
    return figure


def chef(given: Given) -> Picture:
    """The way from "chef" to its verb, 8 words on: n - 1 steps of recurrence, a stack of windows, or one attention."""
    first, last = CHEF.index("chef"), CHEF.index("was")
    at = WORDS.index(last - first + 1)
    counts = {kind: values[at] - (kind == "recurrent") for kind, values in path_lengths().items()}  # less the reading
    figure, axes = sheet(9, 1.2 + 0.9 * len(counts))
    across = [(i + 0.5) / len(CHEF) for i in range(len(CHEF))]
    for i, (x, word) in enumerate(zip(across, CHEF, strict=True)):
        boxed(axes, x, 0.08, word, "#fbe3df" if i in (first, last) else PLAIN)
    for line, (colour, (kind, count)) in enumerate(zip(COLOURS, counts.items(), strict=False)):
        y = 0.3 + 0.65 * line / len(counts)
        stops = [across[first] + (across[last] - across[first]) * i / count for i in range(count + 1)]
        axes.plot(stops, [y] * len(stops), color=colour, marker="|", ms=12, lw=1.5)
        write(axes, across[first], y + 0.07, f"{kind}: {count} step{'s' * (count > 1)}", ha="left", color=colour)
    return Picture([figure], {"words": CHEF, "between": [CHEF[first], CHEF[last]], "steps": counts})


def learning_rates(given: Given) -> Picture:
    """Vaswani et al. 2017, Eq. 3 for three sizes; ULMFiT's triangle; the straight lines of GPT and BERT."""
    build = {
        "noam, d 512, warm-up 4,000": SCHEDULES["noam"](d_model=512, warmup=4000),
        "noam, d 512, warm-up 8,000": SCHEDULES["noam"](d_model=512, warmup=8000),
        "noam, d 256, warm-up 4,000": SCHEDULES["noam"](d_model=256, warmup=4000),
        "slanted triangle (ULMFiT)": SCHEDULES["slanted_triangle"](),
        "linear, warm-up 0.2 % (GPT)": SCHEDULES["linear"](warmup=RUN // 500),
        "linear, warm-up 10 % (BERT)": SCHEDULES["linear"](warmup=RUN // 10),
    }
    steps = list(range(1, RUN + 1, 25))
    rates = {name: [factor(step, step / RUN) for step in steps] for name, factor in build.items()}
    panels = {
        title: {name: values for name, values in rates.items() if name.startswith("noam") == is_noam}
        for title, is_noam in (("learning rate (noam)", True), ("factor of the peak rate", False))
    }
    return Picture([side_by_side("step", steps, panels)], {"steps": steps, "curves": rates})


def family_tree(given: Given) -> Picture:
    """The pre-trained models in three families: one direction, both directions, both one word after another."""
    groups: dict[str, dict[str, str]] = {}
    for model, (group, about) in FAMILIES.items():
        groups.setdefault(group, {})[model] = about
    rows = len(FAMILIES) + 2 * len(groups)
    figure, axes = sheet(11, 0.3 * rows + 0.4)
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
    return Picture([figure], {"families": groups})


PICTURES = gallery.PICTURES | {
    "paths": compared_paths,
    "chef": chef,
    "learning-rates": learning_rates,
    "family": family_tree,
}
