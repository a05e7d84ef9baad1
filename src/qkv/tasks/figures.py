"""What a model of a task is worth on examples that it did not learn from."""

from typing import Any

import torch

from qkv.data.examples import Examples
from qkv.evaluation import class_scores
from qkv.tasks.task import Task


class Figures:
    """The loss over all examples, each part of it that the objective names (accuracy, for example), and where answers
    are classes their macro-F1 and Matthews correlation."""

    def __init__(self, task: Task, objective: Any, examples: Examples) -> None:
        self.task, self.objective, self.examples = task, objective, examples

    @torch.inference_mode()
    def __call__(self, model: Any) -> dict[str, float]:
        model.eval()
        device, sums, count = next(model.parameters()).device, dict[str, float](), 0
        found, gold = list[int](), list[int]()
        for batch in self.examples.in_order():
            inputs, labels = self.objective.prepare(batch.to(device))
            outputs = model(*inputs)
            loss = self.objective.loss(outputs, labels)
            for name, value in {"loss": loss.total, **loss.parts}.items():
                sums[name] = sums.get(name, 0.0) + float(value)
            count += loss.tokens
            if (answers := self.task.classes(outputs, labels)) is not None:
                found += answers[0].tolist()
                gold += answers[1].tolist()
        figures = {name: value / count for name, value in sums.items()}
        if gold:
            scores = class_scores(found, gold)
            figures |= {"macro_f1": scores.macro_f1, "mcc": scores.mcc}
        return figures


def told(figures: dict[str, float]) -> str:
    """Figures for people."""
    known = {"accuracy": "accuracy {:.2%}", "macro_f1": "macro-F1 {:.2%}", "mcc": "Matthews correlation {:.3f}"}
    return ", ".join(form.format(figures[name]) for name, form in known.items() if name in figures)
