"""Classification: label and text in, a class out; by attention over words and sentences, or a fine-tuned backbone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.config import Tree, setting
from qkv.data import each_row
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Hierarchical
from qkv.objectives import Asked, Classes
from qkv.tasks import baselines
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.predictor import Classifier
from qkv.tasks.task import Task, TextConfig
from qkv.text import read_labelled
from qkv.text.examples import Labelled
from qkv.text.labelled import sentences
from qkv.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class DocumentConfig(TextConfig):
    """How documents become ids and batches."""

    lowercase: bool = setting(True, "read capital letters as small ones")
    max_words: int = setting(50, "tokens of a sentence; a longer one is cut into several")
    max_sentences: int = setting(200, "sentences of a document; those after them are left out")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_words < 1 or self.max_sentences < 1:
            raise ValueError("max_words and max_sentences must be at least 1")


class Classify(Task):
    """Yang et al. 2016, hierarchical attention networks for document classification: files of label and text."""

    name = "classify"
    shape = "labelled"
    example_class = Labelled
    kinds = (Hierarchical,)
    architecture = "hierarchical"
    objective = "classes"
    figures = ("loss", "accuracy", "macro_f1", "mcc")
    score = "accuracy"
    data_class = DocumentConfig
    defaults = {  # noqa: RUF012
        "data": {"batch_tokens": 16384},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=20)", "learning_rate": 2e-3, "epochs": 20.0,
                     "patience": 6, "precision": "float32"},
    }  # fmt: skip
    files = "files of label, tab, text, or .conllu, for example: qkv train --task classify train.tsv --valid valid.tsv"
    asks = 'qkv predict "a text"'
    columns = 3

    def read(self, paths: Sequence[Path]) -> Iterator[Labelled]:
        return read_labelled(paths)

    def question(self, text: str, place: str) -> Labelled:
        if not self.sentences(text):
            raise InputError("a text without a word was given; give at least one sentence")
        return Labelled("", text, place)

    def key(self, example: Labelled) -> str:
        return example.text

    def texts(self, example: Labelled) -> list[str]:
        return self.sentences(example.text)

    def sentences(self, text: str) -> list[str]:
        return [one.lower() if self.data.lowercase else one for one in sentences(text)]

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> Tree:
        labels = sorted({document.label for document in survey.train})
        if len(labels) < 2:
            raise InputError(f"every document has the label {labels[0]!r}; give documents of two classes or more")
        return {
            "labels": labels,
            **{name: getattr(self.data, name) for name in ("lowercase", "max_words", "max_sentences")},
        }

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: Tree) -> Tree:
        return {"vocab_size": len(tokenizer), "n_classes": len(facts["labels"])}

    def encode(self, examples: Sequence[Labelled], tokenizer: Tokenizer, facts: Tree) -> list[list[list[int]]]:
        """(words of all sentences, the length of each sentence, the number of the label)"""
        numbers = {label: number for number, label in enumerate(facts["labels"])} | {"": 0}
        for document in examples:
            if document.label not in numbers:
                raise InputError(f"{document.place} has the label {document.label!r}, which no training document has")
        cut = [self.ids(document.text, tokenizer) for document in examples]
        return [
            [[*chain.from_iterable(parts)], [len(part) for part in parts], [numbers[document.label]]]
            for parts, document in zip(cut, examples, strict=True)
        ]

    def ids(self, text: str, tokenizer: Tokenizer) -> list[list[int]]:
        """The ids of each sentence; a sentence that is too long becomes several."""
        most, rows = self.data.max_words, tokenizer.encode_batch(self.sentences(text))
        cut = [row[i : i + most] for row in rows for i in range(0, len(row), most)]
        return cut[: self.data.max_sentences]

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        (words, labels), (asked, gold) = (
            zip(*((row[0], row[-1][0]) for row in each_row(rows)), strict=True) for rows in (corpus.train, corpus.valid)
        )
        found = {"majority class": baselines.majority(labels, gold)}
        return found | baselines.bag_of_words(words, labels, asked, gold, vocab_size=len(corpus.tokenizer))

    def answers(self, outputs: Any, asked: Asked) -> tuple[Tensor, Tensor]:
        return getattr(outputs, "answer", outputs).argmax(dim=1), asked.labels

    def open(self, loaded: Loaded) -> Classifier:
        return Classifier(self, loaded, Classes())

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[Any], classifier: Classifier) -> list[Tree]:
        """The label of each text and the probability of every label."""
        labels = classifier.about["labels"]
        found = []
        for row in getattr(outputs, "answer", outputs).softmax(dim=1).tolist():
            named = dict(zip(labels, row, strict=True))
            found.append({"label": max(named, key=lambda label: named[label]), "probabilities": named})
        return found
