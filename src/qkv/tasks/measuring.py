"""One pass over batches: what a model says of them, as figures."""

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from qkv.data import Place, Stream, generator
from qkv.models import Model
from qkv.objectives import Carrying, Objective

if TYPE_CHECKING:
    from qkv.tasks.task import Task


def measured(task: "Task", model: Model, objective: Objective, batches: Stream) -> dict[str, float]:
    """The mean of each part of one objective's loss, and what the task makes of the answers: see `Task.measure`."""
    device, sums, counts = next(model.parameters()).device, Counter[str](), Counter[str]()
    found, gold, carrying = list[Any](), list[Any](), Carrying()
    for number, batch in enumerate(batches.in_order()):
        asked = objective.prepare(batch, generator(task.data.seed, Place(0, number))).to(device)
        outputs = carrying.ask(model, asked, batch)
        loss = objective.loss(outputs, asked)
        for name, value in {"loss": loss.total, **loss.parts}.items():
            sums[name] += float(value)  # type: ignore[assignment]
            counts[name] += loss.counts.get(name, asked.count)
        if (answers := task.answers(outputs, asked)) is not None:
            found += answers[0].tolist()
            gold += answers[1].tolist()
    figures = {name: value / max(1, counts[name]) for name, value in sums.items()}
    if "likelihood" in figures:
        figures |= {"smoothed_loss": figures["loss"], "loss": figures.pop("likelihood")}
        figures["perplexity"] = math.exp(min(figures["loss"], 50))
    for name in [name for name in figures if name.endswith("_likelihood")]:  # of words, beside something else
        figures[name.replace("_likelihood", "_perplexity")] = math.exp(min(figures[name], 50))
    return {**figures, **(task.scored(found, gold) if gold else {})}
