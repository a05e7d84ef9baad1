"""What `qkv.load` gives for a model that answers: texts in, an answer for each out."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

import torch

from qkv.config import Tree
from qkv.data import Buckets, Place, RowsInMemory, generator
from qkv.device import ENGINE
from qkv.engines import open_reader
from qkv.errors import InputError
from qkv.folder import Loaded, in_brief
from qkv.objectives import objective


class Predictor:
    """What `qkv.load` gives for a model that answers: one text in, one answer out; a list in, a list out. Answers are
    plain data.

    >>> qkv.load("critic").predict("What a film!")
    """

    def __init__(self, task: Any, loaded: Loaded, engine: str = ENGINE) -> None:
        self.task, self.loaded, self.objective = task, loaded, objective(task.objective).knowing(loaded.tokenizer)
        self.model, self.tokenizer, self.about = loaded.model.eval(), loaded.tokenizer, loaded.about
        self.folder = loaded.folder
        self.reader, self.engine = open_reader(loaded, engine), engine

    def __repr__(self) -> str:
        return in_brief(self, self.engine)

    def predict(self, given: Any) -> Any:
        """The answer to a text, or what else is one question to the task (two texts, a dict); to a list, a list."""
        is_one = isinstance(given, self.task.one) or not isinstance(given, Iterable)
        several = [given] if is_one else list(given)
        answers = self.answer(self.questions(several))
        return answers[0] if is_one else answers

    def questions(self, several: Sequence[Any]) -> list[Any]:
        """What each asks, as an example of the task; what cannot be asked is refused by its number."""
        return [self.task.question(one, f"text {i}") for i, one in enumerate(several, start=1)]

    def answer(self, examples: list[Any]) -> list[Tree]:
        """An answer for each example, read whole or in parts."""
        parts = [self.task.parts(example, self.tokenizer, self.about) for example in examples]
        found = iter(self.say([part for several in parts for part in several]))
        pairs = zip(examples, parts, strict=True)
        return [self.task.joined(example, [next(found) for _ in several]) for example, several in pairs]

    @torch.inference_mode()
    def say(self, parts: list[Any]) -> list[Tree]:
        """What the model says to each part; they are read in batches of like length, and none depends on another."""
        if not parts:
            return []
        rows = self.task.encode(parts, self.tokenizer, self.about)
        batches = Buckets(RowsInMemory(rows), tokens=self.task.data.batch_tokens, seed=0, sizes=self.task.sizes)
        device, found = next(self.model.parameters()).device, dict[int, Tree]()
        for batch in batches.in_order():
            asked = self.objective.prepare(batch, generator(0, Place())).to(device)
            numbers = batch.rows[:, 1].tolist()
            answers = self.task.in_words(self.reader(**asked.inputs), asked, [parts[i] for i in numbers], self)
            found |= dict(zip(numbers, answers, strict=True))
        return [found[i] for i in range(len(parts))]


class Predictors:
    """`qkv.load(folder).parts["rte"].predict(given)`: what `qkv.load` gives for a mixture, on one set of weights."""

    def __init__(self, task: Any, loaded: Loaded, engine: str = ENGINE) -> None:
        self.task, self.model, self.tokenizer, self.about = task, loaded.model, loaded.tokenizer, loaded.about
        self.folder, self.parts = loaded.folder, dict[str, Predictor]()
        reader: Any = open_reader(loaded, engine)
        for name, own in task.tasks.items():
            self.parts[name] = own.open(task.part(loaded, name), engine="plain")
            self.parts[name].reader = reader.of(name)
        self.engine = engine

    def __repr__(self) -> str:
        return in_brief(self, self.engine)


class Classifier(Predictor):
    """Names the class of a text: {"label": "pos", "probabilities": {"neg": 0.1, "pos": 0.9}}.

    >>> critic = qkv.load("critic")
    >>> critic.predict("What a film!")["label"]

    With others `beside` it, by the mean of their probabilities: Howard & Ruder 2018, section 3.3, average a model that
    reads texts from their beginning and one that reads them from their end.
    """

    beside: "tuple[Classifier, ...]" = ()

    def join(self, other: Any) -> None:
        if not isinstance(other, Classifier) or other.about.get("labels") != self.about["labels"]:
            raise InputError(
                f"{other.folder} does not answer with the labels of {self.folder} ({', '.join(self.about['labels'])}), "
                "so that they cannot be averaged; give a model that was trained with the same labels"
            )
        self.beside += (other,)

    def answer(self, examples: list[Any]) -> list[Tree]:
        found = super().answer(examples)
        if not self.beside:
            return found
        several = zip(found, *(one.answer(examples) for one in self.beside), strict=True)
        return [self.averaged([answer["probabilities"] for answer in answers]) for answers in several]

    def averaged(self, several: list[Tree]) -> Tree:
        names = self.about["labels"]
        return most_probable("label", names, [fmean(one[name] for one in several) for name in names])

    def score(self, examples: list[Any]) -> Tree:
        """Figures of the answers to examples whose labels are known."""
        names = self.about["labels"]
        gold = [number for [number] in self.task.numbers(examples, self.about)]
        found = [names.index(answer["label"]) for answer in self.answer(examples)]
        accuracy = fmean(one == other for one, other in zip(found, gold, strict=True))
        return {"accuracy": accuracy, **self.task.scored(found, gold)}


def most_probable(what: str, names: Sequence[str], probabilities: Sequence[float]) -> Tree:
    named: Tree = dict(zip(names, probabilities, strict=True))
    return {what: max(named, key=named.__getitem__), "probabilities": named}
