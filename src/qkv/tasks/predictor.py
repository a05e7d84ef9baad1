"""What `qkv.load` gives for a model that answers: texts in, an answer for each out."""

from collections.abc import Sequence
from typing import Any

import torch

from qkv.config import Tree
from qkv.data import Buckets, Place, RowsInMemory, generator
from qkv.engines import open_reader
from qkv.folder import Loaded
from qkv.objectives import objective


class Predictor:
    """`qkv.load(folder).predict(texts)`: one text in, one answer out; a list in, a list out. Answers are plain data."""

    def __init__(self, task: Any, loaded: Loaded, engine: str = "lean") -> None:
        self.task, self.loaded, self.objective = task, loaded, objective(task.objective).knowing(loaded.tokenizer)
        self.model, self.tokenizer, self.about = loaded.model.eval(), loaded.tokenizer, loaded.about
        self.reader = open_reader(loaded, engine)

    def predict(self, texts: str | Sequence[str]) -> Any:
        """The answer to a text, or a list of answers to a list of texts."""
        several = [texts] if isinstance(texts, str) else list(texts)
        answers = self.answer([self.task.question(text, f"text {i}") for i, text in enumerate(several, start=1)])
        return answers[0] if isinstance(texts, str) else answers

    @torch.inference_mode()
    def answer(self, examples: list[Any]) -> list[Tree]:
        """An answer for each example, which are read in batches of like length; none depends on its neighbours."""
        if not examples:
            return []
        rows = self.task.encode(examples, self.tokenizer, self.about)
        batches = Buckets(RowsInMemory(rows), tokens=self.task.data.batch_tokens, seed=0, sizes=self.task.sizes)
        device, found = next(self.model.parameters()).device, dict[int, Tree]()
        for batch in batches.in_order():
            asked = self.objective.prepare(batch, generator(0, Place())).to(device)
            numbers = batch.rows[:, 1].tolist()
            answers = self.task.in_words(self.reader(**asked.inputs), asked, [examples[i] for i in numbers], self)
            found |= dict(zip(numbers, answers, strict=True))
        return [found[i] for i in range(len(examples))]


class Classifier(Predictor):
    """Names the class of a text: {"label": "pos", "probabilities": {"neg": 0.1, "pos": 0.9}}."""


def most_probable(what: str, names: Sequence[str], probabilities: Sequence[float]) -> Tree:
    named: Tree = dict(zip(names, probabilities, strict=True))
    return {what: max(named, key=named.__getitem__), "probabilities": named}
