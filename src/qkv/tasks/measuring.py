"""One pass over batches: what a model says of them, as figures."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from qkv.data import Batch, Place, Stream, generator
from qkv.models import Model
from qkv.objectives import Carrying, Objective

if TYPE_CHECKING:
    from qkv.tasks.task import Task


class Sharing(Protocol):
    """Processes that measure together: each item is computed by one of them, and all get all results in their order.
    A result is what JSON can hold."""

    @property
    def count(self) -> int: ...
    def map(self, compute: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]: ...


class OneProcess:
    """Nobody to share with."""

    count = 1
    map = staticmethod(map)


ONE_PROCESS = OneProcess()


def asked_together(
    sharing: Sharing, ask: Callable[[Sequence[Any]], Sequence[Any]], several: Sequence[Any]
) -> list[Any]:
    """What is said to each of several, each asked by one process; no answer may depend on what else is asked."""
    count, found = min(sharing.count, len(several)), list[Any](several)
    for first, answers in enumerate(sharing.map(ask, [several[first::count] for first in range(count)])):
        found[first::count] = answers
    return found


def measured(task: "Task", model: Model, objective: Objective, batches: Stream) -> dict[str, float]:
    """The mean of each part of one objective's loss, and what the task makes of the answers: see `Task.measure`."""
    device, carrying = next(model.parameters()).device, Carrying()

    def of(numbered: tuple[int, Batch]) -> tuple[dict[str, tuple[float, int]], list[list[Any]]]:
        """Of a batch, the sum of each part and of how many, and the answers with the right ones."""
        number, batch = numbered
        asked = objective.prepare(batch, generator(task.data.seed, Place(0, number))).to(device)
        outputs = carrying.ask(model, asked, batch)
        loss = objective.loss(outputs, asked)
        parts = {"loss": loss.total, **loss.parts}.items()
        answers = task.answers(outputs, asked) or ()
        own = {name: (float(value), loss.counts.get(name, asked.count)) for name, value in parts}
        return own, [answer.tolist() for answer in answers]

    sums, counts, found, gold = Counter[str](), Counter[str](), list[Any](), list[Any]()
    for parts, answers in task.sharing.map(of, enumerate(batches.in_order())):  # summed in the order of batches
        for name, (value, count) in parts.items():
            sums[name] += value
            counts[name] += count
        if answers:
            found += answers[0]
            gold += answers[1]
    figures = {name: value / max(1, counts[name]) for name, value in sums.items()}
    if "likelihood" in figures:
        figures |= {"smoothed_loss": figures["loss"], "loss": figures.pop("likelihood")}
        figures["perplexity"] = math.exp(min(figures["loss"], 50))
    for name in [name for name in figures if name.endswith("_likelihood")]:  # of words, beside something else
        figures[name.replace("_likelihood", "_perplexity")] = math.exp(min(figures[name], 50))
    return {**figures, **(task.scored(found, gold) if gold else {})}
