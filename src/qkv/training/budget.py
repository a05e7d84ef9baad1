"""A run of so many minutes: its size, warm-up and validations follow from the pace that is measured before it."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from qkv.config import Tree, merge, parse_call, to_call
from qkv.folder import Loaded
from qkv.objectives import objective
from qkv.tasks import Corpus, Task
from qkv.training import prepare
from qkv.training.pace import READING, of_writing
from qkv.training.ranks import Ranks
from qkv.training.schedules import SCHEDULES
from qkv.training.settings import Settings
from qkv.training.trainer import Hooks, Trainer
from qkv.wording import are, count_of

ENOUGH = 300  # steps before which a new model has learned next to nothing: of Multi30k 2 BLEU after 100, 9 after 300,
ROOMY = 1000  # and 18 after 700. With fewer than these, a smaller model or smaller batches learn more
FEWEST_TOKENS = 1024  # in a batch
VALIDATIONS = 20  # of a run
TRAINING, VALIDATING = 0.9, 0.1  # of its time


class Timed(Protocol):
    """How long a step and a validation take, in seconds."""

    def step(self) -> float: ...
    def validation(self) -> float: ...


class Tried:
    """A model with some settings, on a corpus, in which nothing is learned: how long its steps and validations take."""

    def __init__(self, task: Task, settings: Settings, corpus: Corpus, out: Path, ranks: Ranks) -> None:
        task.data = settings.data
        model, _ = prepare.drawn(task, settings, corpus.facts, corpus.tokenizer)
        self.task, self.settings, self.corpus, self.model, self.ranks = task, settings, corpus, model, ranks
        self.asked = objective(settings.objective).knowing(corpus.tokenizer, model.inputs()).with_model(model)
        hooks = Hooks(lambda model: {}, lambda model, path: None, lambda event: None, out)
        alone = replace(settings.training, shard=False)  # whose steps take about as long
        self.trainer = Trainer(model, self.asked, task.stream(corpus.train), alone, hooks)

    def step(self) -> float:
        """Seconds of a step."""
        return self.trainer.probe() * self.settings.training.accumulate / self.ranks.count

    def validation(self) -> float:
        """Seconds of a validation with the first weights."""
        loaded = Loaded(self.model, self.corpus.tokenizer, self.task.about(self.corpus))
        batches = self.task.validation(self.corpus.valid).count(0)
        writing = of_writing(self.task, loaded, self.corpus, self.settings.training)
        return batches * self.trainer.probe(1) * READING + writing


@dataclass(frozen=True)
class Plan:
    """What a budget comes to: settings that were not asked for, the steps, and what is to be said."""

    tree: Tree
    steps: int
    said: list[str]


def smaller(tree: Tree, asked: Tree, rates: Mapping[str, float]) -> Iterator[Tree]:
    """The settings, then others of which each takes less time, where a person has asked for none of them: batches of
    half the tokens, then the next smaller size, and so on."""
    yield tree
    may_shrink = "batch_tokens" not in asked.get("data", {})
    is_free = not asked.get("model") and not asked.get("start") and "learning_rate" not in asked.get("training", {})
    sizes = list(rates)
    while True:
        tokens, preset = tree["data"].get("batch_tokens", 0), tree.get("model", {}).get("preset")
        if may_shrink and tokens >= 2 * FEWEST_TOKENS:
            tree = merge(tree, {"data": {"batch_tokens": tokens // 2}})
        elif is_free and preset in sizes[1:]:
            less = sizes[sizes.index(preset) - 1]
            tree = merge(tree, {"model": {"preset": less}, "training": {"learning_rate": rates[less]}})
        else:
            return
        yield tree


def planned(
    tree: Tree, asked: Tree, rates: Mapping[str, float], minutes: float, tried: Callable[[Tree], Timed]
) -> Plan:
    """The first of the settings whose minutes have steps enough, or the last; `tried` measures how long they take."""
    for fitted in smaller(tree, asked, rates):
        seconds = max((timed := tried(fitted)).step(), 1e-6)
        if (steps := max(1, int(60 * TRAINING * minutes / seconds))) >= ROOMY:
            break
    training = asked.get("training", {})
    own: Tree = {}
    if "validate_every" not in training:
        affordable = 60 * VALIDATING * minutes / max(timed.validation(), 1e-6)
        own["validate_every"] = math.ceil(steps / max(1, min(VALIDATIONS, int(affordable))))
    schedule = str(fitted["training"].get("schedule", ""))
    if "schedule" not in training and "warmup" in schedule:
        name, options = parse_call(schedule, SCHEDULES)
        own["schedule"] = to_call(name, {**options, "warmup": min(400, max(1, steps // 10))})
    said = list(spoken(tree, fitted))
    if steps < ENOUGH and not asked.get("start"):
        enough = math.ceil(ENOUGH * seconds / 60 / TRAINING)
        said.append(
            f"{are(minutes, 'minutes')} about {count_of(steps, 'steps')} here, too few to learn much: a new model "
            f"begins to after {ENOUGH}, which take {count_of(enough, 'minutes')}"
        )
    return Plan(merge(fitted, {"training": own}), steps, said)


def spoken(before: Tree, now: Tree) -> Iterator[str]:
    """What was made smaller, for people."""
    sizes = [one.get("model", {}).get("preset") for one in (before, now)]
    tokens = [one["data"].get("batch_tokens", 0) for one in (before, now)]
    changed = [f"the size {sizes[1]} in place of {sizes[0]}"] * (sizes[0] != sizes[1])
    changed += [f"batches of {tokens[1]:,} tokens in place of {tokens[0]:,}"] * (tokens[0] != tokens[1])
    if changed:
        yield f"to fit into the time: {', '.join(changed)}"


def is_by_time(settings: Settings) -> bool:
    """Whether minutes alone end a run."""
    c = settings.training
    return bool(c.minutes) and math.isfinite(c.minutes) and not c.steps and not c.epochs
