"""Pictures whose numbers are measured here; with those of the gallery, all that `qkv picture` draws."""

from torch import nn

from qkv.look import gallery
from qkv.look.gallery import Given, Picture
from qkv.look.gallery.charts import distance, family, paths, rates
from qkv.training import SCHEDULES
from qkv.why.families import FAMILIES
from qkv.why.recurrence import HIDDEN, attending, chain, path_length, recurrent

CHEF = ["The", "chef", "who", "went", "to", "the", "market", "yesterday", "was", "tired"]
RUN = 10_000  # steps of the run whose learning rates are drawn


def measured_paths() -> tuple[list[int], dict[str, list[int]]]:
    """Lengths, and for each kind of layer the steps until the last word feels the first."""
    found = path_length()
    lengths = [int(column.removeprefix("n=")) for column in found.columns[1:]]
    return lengths, {str(row[0]): [int(count) for count in row[1:]] for row in found.rows}


def compared_paths(given: Given) -> Picture:
    """Vaswani et al. 2017, Table 1: attention, windows and recurrence, by the steps between words and the waiting."""
    lengths, steps = measured_paths()
    window = nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1).double()
    parts = {"recurrent": recurrent("RNN"), "windows of 3": lambda x: window(x.transpose(1, 2)).transpose(1, 2),
             "self-attention": attending()}  # fmt: skip
    waits = {name: [chain(part, n) for n in lengths] for name, part in parts.items()}
    return paths(lengths, steps, waits)


def chef(given: Given) -> Picture:
    """The way from "chef" to its verb, 8 words on: n - 1 steps of recurrence, a stack of windows, or one attention."""
    lengths, steps = measured_paths()
    first, last = CHEF.index("chef"), CHEF.index("was")
    at = lengths.index(last - first + 1)
    counts = {kind: values[at] - (kind == "recurrent") for kind, values in steps.items()}  # less that which reads it
    return distance(CHEF, first, last, counts)


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
    steps = range(1, RUN + 1, 25)
    return rates(steps, {name: [factor(step, step / RUN) for step in steps] for name, factor in build.items()})


def family_tree(given: Given) -> Picture:
    """The pre-trained models in three families: one direction, both directions, both one word after another."""
    groups: dict[str, dict[str, str]] = {}
    for model, (group, about) in FAMILIES.items():
        groups.setdefault(group, {})[model] = about
    return family(groups)


PICTURES = gallery.PICTURES | {
    "paths": compared_paths,
    "chef": chef,
    "learning-rates": learning_rates,
    "family": family_tree,
}
