"""What a model is worth on examples that it did not learn from."""

import math
from typing import Any

import torch

from qkv.data import Place, Stream, generator
from qkv.evaluation import class_scores
from qkv.models import Model
from qkv.objectives import Objective
from qkv.tasks.task import Task


@torch.inference_mode()
def measure(task: Task, model: Model, objective: Objective, batches: Stream) -> dict[str, float]:
    """The mean loss over all examples and of each part of it that the objective names (accuracy, for example).

    Of tokens, `loss` is the mean of -log p and `smoothed_loss` what training lowers; where answers are classes, their
    macro-F1 and Matthews correlation are measured too.
    """
    model.eval()
    device, sums, count = next(model.parameters()).device, dict[str, float](), 0
    found, gold = list[int](), list[int]()
    for number, batch in enumerate(batches.in_order()):
        asked = objective.prepare(batch, generator(task.data.seed, Place(0, number))).to(device)
        outputs = model(**asked.inputs)
        loss = objective.loss(outputs, asked)
        for name, value in {"loss": loss.total, **loss.parts}.items():
            sums[name] = sums.get(name, 0.0) + float(value)
        count += asked.count
        if (answers := task.answers(outputs, asked)) is not None:
            found += answers[0].tolist()
            gold += answers[1].tolist()
    figures = {name: value / count for name, value in sums.items()}
    if "likelihood" in figures:
        figures = {"loss": figures.pop("likelihood"), "smoothed_loss": figures["loss"], **without(figures, "loss")}
        figures["perplexity"] = math.exp(min(figures["loss"], 50))
    if gold:
        scores = class_scores(found, gold)
        figures |= {"macro_f1": scores.macro_f1, "mcc": scores.mcc}
    return figures


def without(figures: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in figures.items() if key != name}
